"""`lmms_eval.tasks`: helpers for task code whose folder brings none of its own."""
