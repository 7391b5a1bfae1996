-- Why the interval of a score may be too narrow: said where the score is shown.

ALTER TABLE score ADD COLUMN warning TEXT NOT NULL DEFAULT '';
