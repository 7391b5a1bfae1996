"""`lmms_eval.filters.transformation`."""

from fieldmark.lmms.score.filters import (
    Filter,
    LowercaseFilter,
    MapFilter,
    StripThinkingFilter,
    UppercaseFilter,
)

__all__ = ["Filter", "LowercaseFilter", "MapFilter", "StripThinkingFilter", "UppercaseFilter"]
