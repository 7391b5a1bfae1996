"""Gaps: which questions of a run have no answer, why, and what asks them again?

A run with gaps is done and has scores, which count no answer as wrong: what failed is asked again
by the same command, what was refused, cut off or could not be read when asked for.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import polars as pl

from fieldmark.store import NOT_SENT, OK, UNANSWERED, Store

FAILED, CUT, UNREAD = "failed", "length", "unparsed"


@dataclass(slots=True)
class Gaps:
    """The questions of some runs, by what became of them."""

    outcomes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    """what went wrong with those that failed"""
    n_empty: int = 0
    """replies without a word, of those that were not read"""

    @classmethod
    def of(cls, store: Store, runs: Iterable[int]) -> Gaps:
        gaps = cls()
        for run in runs:
            counts = store.outcomes(run)
            gaps.outcomes.update(counts)
            if counts.get(FAILED) or counts.get(UNREAD):
                gaps._look(store.predictions(run))
        return gaps

    def _look(self, predictions: pl.DataFrame) -> None:
        """At the answers of a run: why questions failed, and which replies were empty."""
        for outcome, text in predictions.select("outcome", "info").iter_rows():
            if outcome in (FAILED, UNREAD):
                info = json.loads(text or "{}")
                if outcome == FAILED:
                    self.reasons[info.get("error", "")] += 1
                else:
                    self.n_empty += not info.get("text")

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
        kinds = [name for name in (*UNANSWERED, *sorted(self.outcomes)) if self.outcomes[name]]
        return ", ".join(
            f"{self.outcomes[name]:,} {UNANSWERED.get(name, name)}{why.get(name, '')}"
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
        """What to type. An answer that was cut off would be cut again: it needs more room."""
        n_unsent = sum(n for why, n in self.reasons.items() if why.startswith(NOT_SENT))
        n_failed = self.outcomes[FAILED] - n_unsent
        others = [name for name in UNANSWERED if name not in (FAILED, CUT) and self.outcomes[name]]
        steps = ["Run the same command to retry what failed"] if n_failed else []
        if n_unsent:
            steps += [f"asking again cannot help the {n_unsent:,} that were not sent"]
        if others:
            which = "the others" if self.outcomes[FAILED] else "them"
            steps += [f"`--again {','.join(others)}` asks {which} again"]
        if self.n_empty:
            replies = "1 reply was" if self.n_empty == 1 else f"{self.n_empty:,} replies were"
            steps += [
                f"{replies} empty: a model that thinks needs more room (`--max-output N`) or "
                "less thought (`--effort low`)"
            ]
        elif self.outcomes[CUT]:
            steps += ["`--max-output N` gives answers more room"]
        text = "; ".join(steps)
        return f"{text[:1].upper()}{text[1:]}."


def failed_parts(store: Store, run: int) -> set[tuple[str, int]]:
    """Parts and repeats that are kept with a failed request: of a run that was given up, say."""
    if FAILED not in store.outcomes(run):
        return set()
    failed = store.predictions(run).filter(pl.col("outcome") == FAILED)
    return set(failed.select("part", "repeat").unique().iter_rows())
