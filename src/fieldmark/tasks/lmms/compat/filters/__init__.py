"""`lmms_eval.filters`: fieldmark's filters under the names task code knows."""

from fieldmark.tasks.lmms._filters import Filter

__all__ = ["Filter"]
