"""`lmms_eval.filters.extraction`."""

from fieldmark.tasks.lmms._filters import (
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
