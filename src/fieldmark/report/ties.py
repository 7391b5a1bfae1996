"""Which models cannot be told from the best one, on the same items?

Reads stored predictions and asks `fieldmark.stats`. Only items that every model answered are
compared: no answer is not a wrong answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from fieldmark.errors import FieldmarkError
from fieldmark.store import OK, Run, Store

if TYPE_CHECKING:
    import polars as pl

    from fieldmark.stats import Ties

Judge = Callable[..., "Ties"]
"""as `fieldmark.stats.ties_with_best`: (items, predictions by name, metric) → ties"""


_KEY = ["part", "repeat", "id"]


def by_paired_test(items: Any, predictions: Any, metric: Any) -> Ties:
    """The judge of fieldmark's own tables."""
    from fieldmark.stats import ties_with_best

    return ties_with_best(items, predictions, metric)


def tied_runs(store: Store, runs: Sequence[Run], metric: str, judge: Judge) -> set[int] | None:
    """The best run and those not distinguishable from it; None where they cannot be compared."""
    from fieldmark.metrics import load_metric
    from fieldmark.protocols import arrange, recorded_kinds

    if len(runs) < 2:
        return None
    try:
        function = load_metric(metric)
    except FieldmarkError:  # a user's own metric whose file is not here
        return None
    frame = _paired(store, runs)
    if frame is None or frame.is_empty():
        return None
    kinds: dict[str, str] = {}
    for run in runs if function.uses == "kinds" else ():
        kinds |= recorded_kinds(store.finished_parts(run.id))
    names = [f"answer {number}" for number in range(len(runs))]
    frame, function = arrange(frame, names, function, kinds)
    by_run = {str(run.id): frame[name].to_numpy() for run, name in zip(runs, names, strict=True)}
    rule = "pooled" if function.uses == "whole" else _rule(runs[0])
    ties = judge(_items(frame, frame["target"].to_numpy(), rule), by_run, function)
    return {int(name) for name in ties.tied}


def _paired(store: Store, runs: Sequence[Run]) -> pl.DataFrame | None:
    """One row per item all runs answered: target, unit, and a column of answers per run."""
    import polars as pl

    rule = _rule(runs[0])
    paired: pl.DataFrame | None = None
    for number, run in enumerate(runs):
        frame = store.predictions(run.id).filter(
            (pl.col("outcome") == OK) & pl.col("prediction").is_not_null()
        )
        if rule not in ("mean", "pooled"):
            frame = frame.filter(pl.col("part") == rule)
        answer = pl.col("prediction").alias(f"answer {number}")
        sure = pl.col("score").alias(f"score answer {number}")
        answers = frame.select(*_KEY, "target", "unit", answer, sure)
        if paired is None:
            paired = answers
        else:
            paired = paired.join(answers.drop("unit"), on=[*_KEY, "target"], how="inner")
    return None if paired is None else paired.sort(_KEY)


def _rule(run: Run) -> str:
    """How parts make one score: "mean", "pooled", or the part whose score it is."""
    settings = run.spec.settings
    return "pooled" if settings.get("parts", [""]) == [""] else str(settings.get("score", "pooled"))


def _items(frame: pl.DataFrame, target: Any, rule: str) -> Any:
    import polars as pl

    from fieldmark.stats import Items

    unit = frame.select(pl.col("unit").fill_null(pl.col("id"))).to_series().to_numpy()
    if rule == "mean":
        return Items(target, unit, frame["part"].to_numpy(), "mean")
    return Items(target, unit)
