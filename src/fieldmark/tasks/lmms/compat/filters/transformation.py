"""`lmms_eval.filters.transformation`."""

from fieldmark.tasks.lmms._filters import (
    Filter,
    LowercaseFilter,
    MapFilter,
    StripThinkingFilter,
    UppercaseFilter,
)

__all__ = ["Filter", "LowercaseFilter", "MapFilter", "StripThinkingFilter", "UppercaseFilter"]
