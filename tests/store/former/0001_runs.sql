-- Runs, their predictions and their scores.
--
-- Sized for 100 models x 30 tasks x 10,000 predictions = 3 x 10^7 rows: every name is kept once and
-- predictions hold whole numbers, in the order of the primary key. The questions a person asks touch
-- few of them: the leaderboard reads `score`, a run's page one range of `prediction`, one photo over all
-- models one row per run.

PRAGMA application_id = 1179472459;  -- 'FMRK': tells this file from other programs' databases

CREATE TABLE text (  -- every item id, label, unit and part name, once
    id INTEGER PRIMARY KEY,
    value TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE run (
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- a dropped run's number is never given again
    key TEXT NOT NULL UNIQUE,              -- hash of all that defines the run
    model TEXT NOT NULL,
    model_version TEXT NOT NULL,           -- what is known of it before it is loaded
    task TEXT NOT NULL,
    task_variant TEXT NOT NULL,
    task_version TEXT NOT NULL,
    data TEXT NOT NULL,                    -- signature of the items and labels
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
    record TEXT NOT NULL                   -- JSON: all that is needed to do it again
) STRICT;

CREATE INDEX run_of_task ON run (task, model);

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

CREATE TABLE prediction (
    run INTEGER NOT NULL,
    part INTEGER NOT NULL,
    repeat INTEGER NOT NULL,
    item INTEGER NOT NULL,                 -- item, target, prediction, unit: text.id
    target INTEGER,
    prediction INTEGER,
    score REAL,                            -- null: not known
    unit INTEGER,                          -- what is independent for statistics; null: the item itself
    outcome TEXT NOT NULL,                 -- 'ok', 'failed', 'unparsed', 'refused', ...
    info TEXT,                             -- JSON: the words of an answer, its tokens and price, ...
    PRIMARY KEY (run, part, repeat, item),
    FOREIGN KEY (run, part, repeat) REFERENCES part (run, part, repeat) ON DELETE CASCADE,
    CHECK (outcome = 'ok' OR prediction IS NULL)  -- no answer is not a wrong answer
) STRICT, WITHOUT ROWID;

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

CREATE VIEW prediction_named AS  -- for people with the sqlite3 shell
SELECT
    prediction.run,
    part.value AS part,
    prediction.repeat,
    item.value AS id,
    target.value AS target,
    answer.value AS prediction,
    prediction.score,
    unit.value AS unit,
    prediction.outcome,
    prediction.info
FROM prediction
JOIN text AS part ON part.id = prediction.part
JOIN text AS item ON item.id = prediction.item
LEFT JOIN text AS target ON target.id = prediction.target
LEFT JOIN text AS answer ON answer.id = prediction.prediction
LEFT JOIN text AS unit ON unit.id = prediction.unit;
