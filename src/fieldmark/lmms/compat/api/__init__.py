"""`lmms_eval.api`, as far as task code uses it."""
