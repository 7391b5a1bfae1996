"""`lmms_eval.filters.selection`."""

from fieldmark.tasks.lmms._filters import (
    Filter,
    MajorityVoteFilter,
    TakeFirstFilter,
    TakeKFilter,
)

__all__ = ["Filter", "MajorityVoteFilter", "TakeFirstFilter", "TakeKFilter"]
