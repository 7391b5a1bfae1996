"""`lmms_eval.filters`: fieldmark's filters under the names task code knows."""

from fieldmark.lmms.score.filters import Filter

__all__ = ["Filter"]
