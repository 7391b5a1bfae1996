"""`lmms_eval.tasks._task_utils`."""
