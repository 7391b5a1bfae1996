"""`lmms_eval.api.filter`: the base class of filters."""

from fieldmark.tasks.lmms._filters import Filter

__all__ = ["Filter"]
