-- Runs, their predictions and their scores: store version 9 (`VERSION` in database.py).
--
-- Sized for 100 models x 30 tasks x 10,000 predictions = 3 x 10^7 answers: every name is kept once, and
-- the predictions of a part are whole numbers packed side by side in one row of `answer`: 10^6 rows take
-- seconds to fetch, a hundred blobs a few milliseconds. What was asked is the same for all models and is
-- kept once, in `item_list`. `fieldmark export --predictions` writes predictions as rows.
-- Packed: 4-byte little-endian whole numbers (text.id; 0: none) and 8-byte floats (NaN: not known), in
-- the order of the items' names.

PRAGMA application_id = 1179472459;  -- 'FMRK': tells this file from other programs' databases

CREATE TABLE text (  -- every item id, label, unit and part name, once
    id INTEGER PRIMARY KEY,
    value TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE run (
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- a dropped run's number is never given again
    key TEXT NOT NULL,                     -- hash of all that defines the run, but for `data`
    model TEXT NOT NULL,
    model_version TEXT NOT NULL,           -- what is known of it before it is loaded
    task TEXT NOT NULL,
    task_variant TEXT NOT NULL,
    task_version TEXT NOT NULL,
    data TEXT NOT NULL,                    -- content digest: ROWS-IMAGES
    root TEXT NOT NULL DEFAULT '',         -- folder the data lay in when it ran; '': not known
    is_synthetic INTEGER NOT NULL DEFAULT 0 CHECK (is_synthetic IN (0, 1)),  -- the data were drawn
    stand_in TEXT NOT NULL DEFAULT '',     -- the model is none: 'mock', 'control'; '': it is one
    protocol TEXT NOT NULL,                -- 'probe/neighbours'
    settings TEXT NOT NULL,                -- canonical JSON
    n_train INTEGER,                       -- asked for; null: all there are (part.n_train has the real one)
    n_test INTEGER,                        -- asked for; null: all there are
    seed INTEGER NOT NULL,
    repeats INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('running', 'done', 'failed')),
    error TEXT,                            -- with its traceback
    created TEXT NOT NULL,                 -- UTC, ISO 8601, as all times here
    started TEXT NOT NULL,
    finished TEXT,
    seconds REAL,                          -- spent on the parts, over all attempts
    n_items INTEGER,                       -- predictions, all parts and repeats
    n_ok INTEGER,                          -- of these, the ones with an answer
    fingerprint TEXT NOT NULL,             -- of the loaded model
    app TEXT NOT NULL,                     -- fieldmark's version
    record TEXT NOT NULL,                  -- JSON: all that is needed to do it again
    turn INTEGER NOT NULL DEFAULT 0        -- order in which done runs were finished, or confirmed since
) STRICT;

CREATE INDEX run_of_task ON run (task, model);

-- A done run that is done again stays until its successor, a second row of its key and data, is done.
CREATE UNIQUE INDEX run_done ON run (key, data) WHERE state = 'done';
CREATE UNIQUE INDEX run_unfinished ON run (key, data) WHERE state <> 'done';

CREATE TABLE part (  -- what is written in one piece; a killed run goes on with those missing
    run INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    part INTEGER NOT NULL REFERENCES text (id),
    repeat INTEGER NOT NULL,
    finished TEXT NOT NULL,
    n_train INTEGER,                       -- really used
    n_items INTEGER NOT NULL,
    n_ok INTEGER NOT NULL,
    seconds REAL NOT NULL,
    info TEXT,                             -- JSON: the chosen alpha, ...
    PRIMARY KEY (run, part, repeat)
) STRICT, WITHOUT ROWID;

CREATE TABLE item_list (  -- what was asked in one part: shared by all runs that asked the same
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL UNIQUE,              -- hash of the columns
    n INTEGER NOT NULL,
    item BLOB NOT NULL,
    target BLOB NOT NULL,
    unit BLOB NOT NULL,                    -- what is independent for statistics; 0: the item itself
    content BLOB                           -- 16 bytes per item: digest of its images; zeros: not known
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
    sum INTEGER NOT NULL,                  -- CRC-32 of the four columns before (records.py)
    UNIQUE (run, part, repeat),
    FOREIGN KEY (run, part, repeat) REFERENCES part (run, part, repeat) ON DELETE CASCADE
) STRICT;

CREATE INDEX answer_of_items ON answer (items);

CREATE TRIGGER text_is_kept BEFORE DELETE ON text  -- predictions point here; a check per row is dear
BEGIN
    SELECT RAISE (ABORT, 'names are never deleted');
END;

CREATE TABLE score (
    run INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    part TEXT NOT NULL,                    -- '' the whole run; else a part, or a group of them
    metric TEXT NOT NULL,
    value REAL,                            -- null: not defined for these predictions
    low REAL,
    high REAL,
    level REAL NOT NULL,                   -- of the interval: 0.95
    n INTEGER NOT NULL,                    -- items behind the value
    n_units INTEGER,                       -- independent units among them
    method TEXT NOT NULL,                  -- of the interval: 'wilson', 'bootstrap over units', ...
    is_primary INTEGER NOT NULL CHECK (is_primary IN (0, 1)),
    higher_is_better INTEGER NOT NULL CHECK (higher_is_better IN (0, 1)),
    is_fraction INTEGER NOT NULL CHECK (is_fraction IN (0, 1)),  -- shown as percent
    warning TEXT NOT NULL DEFAULT '',      -- why the interval may be too narrow
    sum INTEGER NOT NULL,                  -- CRC-32 of the columns before but `run` (records.py)
    PRIMARY KEY (run, part, metric)
) STRICT, WITHOUT ROWID;

CREATE TABLE claim (  -- which process is on a run now
    key TEXT PRIMARY KEY,
    host TEXT NOT NULL,
    place TEXT NOT NULL,                   -- where process numbers mean the same: boot and namespace
    pid INTEGER NOT NULL,
    born TEXT NOT NULL,                    -- the process's start, as numbers are used again
    started TEXT NOT NULL,
    heartbeat TEXT NOT NULL
) STRICT, WITHOUT ROWID;
