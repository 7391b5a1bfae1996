"""`lmms_eval.api.filter`: the base class of filters."""

from fieldmark.lmms.score.filters import Filter

__all__ = ["Filter"]
