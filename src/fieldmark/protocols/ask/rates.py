"""What stands beside the score of a chat model: what it cost, and what could not be scored?"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from fieldmark.stats import wilson
from fieldmark.store import OK, PartRecord, Score


def answer_rates(predictions: pl.DataFrame, parts: Sequence[PartRecord]) -> list[Score]:
    """usd_per_answer (where every price is known) and the rates of answers that were not scored."""
    outcomes = predictions["outcome"]
    n, n_failed = len(outcomes), int((outcomes == "failed").sum())
    n_answered = n - n_failed
    scores = [
        _rate("failure_rate", n_failed, n, is_good=False),
        _rate("refusal_rate", int((outcomes == "refused").sum()), n_answered, is_good=False),
        _rate("parse_success_rate", int((outcomes == OK).sum()), n_answered, is_good=True),
    ]
    # The first repeat of a part holds the price of all its repeats. One answer may give several
    # predictions (traits), or several answers one (turned options): what is paid for is answers.
    paid = [part.info for part in parts if part.repeat == 0 and part.info]
    usd = [info["usd"] for info in paid if "usd" in info]
    n_paid = sum(info.get("n_answers", 0) for info in paid)
    if n_paid and None not in usd:
        scores.append(
            Score(
                "usd_per_answer",
                sum(usd) / n_paid,
                n=n_paid,
                method="paid",
                higher_is_better=False,
                is_fraction=False,
            )
        )
    return scores


def _rate(name: str, n_hit: int, n: int, is_good: bool) -> Score:
    if not n:
        return Score(name, float("nan"), n=0, higher_is_better=is_good)
    found = wilson(n_hit, n)
    return Score(
        name,
        n_hit / n,
        low=found.low,
        high=found.high,
        n=n,
        n_units=n,
        method=found.method,
        higher_is_better=is_good,
    )
