"""`lmms_eval.api.reasoning`: which part of a response is thought, not answer."""

from fieldmark.lmms.score.filters import strip_reasoning as strip_reasoning_tags

__all__ = ["strip_reasoning_tags"]
