"""Which models cannot be told apart on a task, from stored predictions?"""

from __future__ import annotations

from collections.abc import Sequence

from fieldmark.errors import FieldmarkError
from fieldmark.store import Run, Store

BEST = "A"


def tier_runs(store: Store, runs: Sequence[Run], metric: str) -> dict[int, str] | None:
    """The letter of each run, best tier first; None where they cannot be compared."""
    from fieldmark.report.paired import read_paired
    from fieldmark.report.providers import pairing_metric
    from fieldmark.stats import tiers

    if len(runs) < 2:
        return None
    try:
        function = pairing_metric(store, runs[0], metric)
    except FieldmarkError:  # a user's own metric whose file is not here
        return None
    if function is None:
        return None
    paired = read_paired(store, runs, function)
    if not len(paired.items.target):
        return None
    found = tiers(paired.items, paired.answer_mn, paired.metric)
    return {run.id: letter for run, letter in zip(runs, found.letters, strict=True)}
