"""`lmms_eval.filters.selection`."""

from fieldmark.lmms.score.filters import (
    Filter,
    MajorityVoteFilter,
    TakeFirstFilter,
    TakeKFilter,
)

__all__ = ["Filter", "MajorityVoteFilter", "TakeFirstFilter", "TakeKFilter"]
