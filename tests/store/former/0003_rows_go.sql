-- The rows of predictions stand in `answer` now.

DROP VIEW prediction_named;
DROP TABLE prediction;
