"""Gaps: which questions of a run have no answer, why, and what asks them again?

A run with gaps has scores, which count no answer as wrong, but it is not done: what failed is asked
again by the same command, what was refused, cut off or could not be read when asked for.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import polars as pl

from fieldmark.store import OK, UNANSWERED, Store

FAILED = "failed"
WORDS = UNANSWERED


@dataclass(slots=True)
class Gaps:
    """The questions of some runs, by what became of them."""

    outcomes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    """what went wrong with those that failed"""
    n_runs: int = 0
    """runs that have gaps"""

    @classmethod
    def of(cls, store: Store, runs: Iterable[int]) -> Gaps:
        gaps = cls()
        for run in runs:
            own = store.outcomes(run)
            gaps.outcomes.update(own)
            gaps.n_runs += own.keys() != {OK}
            if own.get(FAILED):
                gaps.reasons.update(_reasons(store, run))
        return gaps

    @property
    def n(self) -> int:
        return self.outcomes.total()

    @property
    def n_gaps(self) -> int:
        return self.n - self.outcomes[OK]

    def n_asked_again(self, outcomes: Collection[str]) -> int:
        """How many are asked by the same command, with `--again` for these outcomes."""
        return sum(self.outcomes[name] for name in {FAILED, *outcomes})

    @property
    def words(self) -> str:
        """
        >>> Gaps(Counter(ok=88, failed=6, refused=2), Counter({"400 bad request": 6})).words
        '6 failed (400 bad request), 2 refused'
        """
        reason, n = next(iter(self.reasons.most_common(1)), ("", 0))
        others = ", and others" if n < self.outcomes[FAILED] else ""
        why = {FAILED: f" ({reason}{others})" if reason else ""}
        kinds = [name for name in (*WORDS, *sorted(self.outcomes)) if self.outcomes[name]]
        return ", ".join(
            f"{self.outcomes[name]:,} {WORDS.get(name, name)}{why.get(name, '')}"
            for name in dict.fromkeys(kinds)
            if name != OK
        )

    @property
    def line(self) -> str:
        """How many, why, and what to do."""
        return (
            f"{self.n_gaps:,} of {self.n:,} questions have no answer: {self.words}. {self.remedy}"
        )

    @property
    def remedy(self) -> str:
        """What to type."""
        others = [name for name in WORDS if name != FAILED and self.outcomes[name]]
        steps = ["Run the same command to retry what failed"] if self.outcomes[FAILED] else []
        which = "the others" if steps else "them"
        steps += [f"`--again {','.join(others)}` asks {which} again"] if others else []
        steps += ["`--max-output N` allows longer answers"] if self.outcomes["length"] else []
        return "; ".join(steps) + "."


def failed_parts(store: Store, run: int) -> set[tuple[str, int]]:
    """Parts and repeats that are kept with a failed request: of a run that was given up, say."""
    if FAILED not in store.outcomes(run):
        return set()
    failed = store.predictions(run).filter(pl.col("outcome") == FAILED)
    return set(failed.select("part", "repeat").unique().iter_rows())


def _reasons(store: Store, run: int) -> Iterable[str]:
    failed = store.predictions(run).filter(pl.col("outcome") == FAILED)
    return (json.loads(info or "{}").get("error", "") for info in failed["info"])
