"""`lmms_eval.loggers`, as far as task code uses it."""
