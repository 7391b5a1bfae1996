"""Documents: where a task's tables lie, how they are opened, and their pictures."""
