"""`lmms_eval.filters.extraction`."""

from fieldmark.lmms.score.filters import (
    ExtendedRegexFilter,
    Filter,
    MultiChoiceRegexFilter,
    RegexFilter,
    SimpleMultiChoiceRegexFilter,
    WhitespaceFilter,
)

__all__ = [
    "ExtendedRegexFilter",
    "Filter",
    "MultiChoiceRegexFilter",
    "RegexFilter",
    "SimpleMultiChoiceRegexFilter",
    "WhitespaceFilter",
]
