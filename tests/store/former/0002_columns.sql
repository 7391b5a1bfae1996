-- Predictions as columns: one row per part of a run, whole numbers packed side by side.
--
-- A report compares a hundred models on ten thousand items; 10^6 rows take seconds to fetch, a
-- hundred blobs a few milliseconds. What was asked is the same for all models and is kept once.
-- Packed: 4-byte little-endian whole numbers (text.id; 0: none) and 8-byte floats (NaN: not known),
-- in the order of the items' names. `fieldmark export --predictions` writes them as rows.

CREATE TABLE item_list (  -- what was asked in one part: shared by all runs that asked the same
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL UNIQUE,              -- hash of the three columns
    n INTEGER NOT NULL,
    item BLOB NOT NULL,
    target BLOB NOT NULL,
    unit BLOB NOT NULL                     -- what is independent for statistics; 0: the item itself
) STRICT;

CREATE TABLE answer (  -- what came back; the columns read most stand first
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL,
    part INTEGER NOT NULL,
    repeat INTEGER NOT NULL,
    items INTEGER NOT NULL REFERENCES item_list (id),
    prediction BLOB NOT NULL,              -- 0: no answer, which is not a wrong one
    outcome BLOB,                          -- 'ok', 'failed', 'unparsed', ...; null: all 'ok'
    score BLOB,                            -- null: none is known
    info BLOB,                             -- a deflated JSON list of the words of an answer, ...
    UNIQUE (run, part, repeat),
    FOREIGN KEY (run, part, repeat) REFERENCES part (run, part, repeat) ON DELETE CASCADE
) STRICT;

CREATE INDEX answer_of_items ON answer (items);
