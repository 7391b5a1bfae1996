"""Paired answers: what did several models answer about the same items, ready for statistics?

Only items that every model answered are compared: no answer is not a wrong answer. Label numbers
are compared as they are stored, without their names: a hundred models take milliseconds. Items
that the task valued by rules of its own are compared by these values, stored with them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fieldmark.metrics import Metric
from fieldmark.report.providers import provider_of, value_metric
from fieldmark.stats import Items
from fieldmark.store import Answers, Run, Store

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True, eq=False)
class Paired:
    """Answers of m runs to the same n items, as a metric wants them."""

    items: Items
    answer_mn: np.ndarray
    metric: Metric
    asked: Answers
    """the answered items as they are stored: one row per part and repeat"""
    n_unanswered: int
    """items left out because some run did not answer them"""


def read_paired(store: Store, runs: Sequence[Run], metric: Metric) -> Paired:
    """The answers of these runs; they must ask the same task in the same way."""
    uses = getattr(metric, "uses", "prediction")
    asked = store.answers([run.id for run in runs], with_scores=uses in ("score", "value"))
    if uses == "value":
        return _valued(store, runs, asked, metric)
    rule = score_rule(runs[0])
    if rule not in ("mean", "pooled"):
        asked = asked.taken(np.isin(asked.part, _numbers_of(store, asked.part, rule)))
    is_answered = (asked.prediction_mn != 0).all(axis=0)
    n_unanswered = int((~is_answered).sum())
    asked = asked.taken(is_answered)
    if uses != "prediction":
        items, answer_mn, bound = _arranged(store, runs, asked, metric, rule)
        return Paired(items, answer_mn, bound, asked, n_unanswered)
    target, answer_mn = code_answers(asked)
    unit = np.where(asked.unit > 0, asked.unit, -1 - asked.item)
    part = asked.part if rule == "mean" else None
    items = Items(target, unit, part, "mean" if rule == "mean" else "pooled", asked.repeat)
    return Paired(items, answer_mn, metric, asked, n_unanswered)


def _valued(store: Store, runs: Sequence[Run], asked: Answers, metric: Metric) -> Paired:
    """Items by their values; an item without one (failed, or not valued) is left out."""
    value_mn, name = asked.score_mn, str(getattr(metric, "__name__", metric.title))
    if value_mn is None or name != value_metric(runs[0]):
        value_mn = _looked_up(store, runs, asked, name)
    is_known: np.ndarray = np.isfinite(value_mn).all(axis=0)
    known = asked.taken(is_known)
    unit = np.where(known.unit > 0, known.unit, -1 - known.item)
    target = np.zeros(len(known.item), np.int64)
    is_mean = score_rule(runs[0]) == "mean"
    part = known.part if is_mean else None
    items = Items(target, unit, part, "mean" if is_mean else "pooled", known.repeat)
    return Paired(items, value_mn[:, is_known], metric, known, int((~is_known).sum()))


def _looked_up(store: Store, runs: Sequence[Run], asked: Answers, name: str) -> np.ndarray:
    """The values of another metric than the task's first, which stand in what a row tells."""
    columns = (_names(store, asked.part), asked.repeat.tolist(), _names(store, asked.item))
    places = list(zip(*columns, strict=True))
    values = [_item_values(store, run, name) for run in runs]
    return np.array([[mine.get(place, np.nan) for place in places] for mine in values], np.float64)


def _names(store: Store, numbers: np.ndarray) -> list[str]:
    names = store.texts(np.unique(numbers))
    return [names[number] for number in numbers.tolist()]


def _item_values(store: Store, run: Run, name: str) -> Mapping[tuple[str, int, str], float]:
    from fieldmark.protocols import values_by_item

    provider = provider_of(run)
    if provider is not None:
        return provider.item_values(store, run, name)
    return values_by_item(store.predictions(run.id), name)


def score_rule(run: Run) -> str:
    """How parts make one score: "mean", "pooled", or the part whose score it is."""
    settings = run.spec.settings
    return "pooled" if settings.get("parts", [""]) == [""] else str(settings.get("score", "pooled"))


def code_answers(asked: Answers) -> tuple[np.ndarray, np.ndarray]:
    """Targets and answers as whole numbers from 0 up; a label of one part is none of another's."""
    top = max(int(numbers.max(initial=0)) for numbers in (asked.target, asked.prediction_mn))
    is_used = np.zeros(top + 1, bool)
    is_used[asked.target] = True
    is_used[asked.prediction_mn] = True
    code = np.cumsum(is_used, dtype=np.int32) - 1
    target, answer_mn = code[asked.target], code[asked.prediction_mn]
    parts, part = np.unique(asked.part, return_inverse=True)
    if len(parts) > 1:
        return target + part * int(is_used.sum()), answer_mn + part * int(is_used.sum())
    return target, answer_mn


def _numbers_of(store: Store, numbers: np.ndarray, name: str) -> list[int]:
    """The numbers, of those given, that stand for a name."""
    names = store.texts(np.unique(numbers))
    return [number for number in np.unique(numbers).tolist() if names[number] == name]


def _arranged(
    store: Store, runs: Sequence[Run], asked: Answers, metric: Metric, rule: str
) -> tuple[Items, np.ndarray, Metric]:
    """For metrics of more than label numbers: by name, as they are scored."""
    from fieldmark.protocols import arrange, recorded_kinds

    kinds: dict[str, str] = {}
    for run in runs:
        kinds |= recorded_kinds(store.finished_parts(run.id))
    answers = [f"answer {number}" for number in range(len(runs))]
    rows, bound = arrange(_named(store, asked, answers), answers, metric, kinds)
    answer_mn = np.stack([rows[name].to_numpy() for name in answers])
    target, unit, repeat = (rows[name].to_numpy() for name in ("target", "unit", "repeat"))
    if rule == "mean" and getattr(metric, "uses", "") != "whole":
        return Items(target, unit, rows["part"].to_numpy(), "mean", repeat), answer_mn, bound
    return Items(target, unit, repeat=repeat), answer_mn, bound


def _named(store: Store, asked: Answers, answers: Sequence[str]) -> pl.DataFrame:
    import polars as pl

    columns: dict[str, np.ndarray] = {
        "part": asked.part,
        "id": asked.item,
        "target": asked.target,
        "unit": asked.unit,
        **dict(zip(answers, asked.prediction_mn, strict=True)),
    }
    frame = pl.DataFrame({name: _texts(store, column) for name, column in columns.items()})
    scores: Mapping[str, np.ndarray] = {}
    if asked.score_mn is not None:
        names = ["score"] if len(answers) == 1 else [f"score {name}" for name in answers]
        scores = dict(zip(names, asked.score_mn, strict=True))
    return frame.with_columns(
        pl.Series("repeat", asked.repeat), *(pl.Series(k, v) for k, v in scores.items())
    )


def _texts(store: Store, column: np.ndarray) -> pl.Series:
    import polars as pl

    numbers, at = np.unique(column, return_inverse=True)
    texts = store.texts(numbers[numbers > 0])
    return pl.Series(map(texts.get, numbers.tolist()), dtype=pl.String).gather(at)
