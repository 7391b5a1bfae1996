"""Paired answers: what did several models answer about the same items, ready for statistics?

Only items that every model was asked about are compared; no answer is a wrong one, as in scores. A
model that was asked much less than the others is left out, so that it does not take items from all.
Label numbers are compared as they are stored, without their names: a hundred models take
milliseconds. Items that the task valued by rules of its own are compared by these values, stored
with them.

A cell may hold several runs (seeds), each with several repeats: its training draws. Equal draws of
two cells trained on the same images, so they are paired. A cell with one draw stands for all, and
is given the luck of the others' draws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fieldmark.metrics import Metric, fill_values, wrong_answers
from fieldmark.report.providers import provider_of, value_metric
from fieldmark.report.run_labels import is_drawn_once
from fieldmark.stats import Items
from fieldmark.store import Answers, Run, Store

if TYPE_CHECKING:
    import polars as pl

Cell = Sequence[Run]
"""runs that differ in their seed only"""


@dataclass(frozen=True, slots=True, eq=False)
class Paired:
    """Answers of m cells to the same n items, as a metric wants them."""

    items: Items
    answer_mn: np.ndarray
    metric: Metric
    answers: Answers
    """the items compared as they are stored: one row per part and draw"""
    n_left_out: int
    """items that some cell was not asked, or has no value of"""
    kept: tuple[int, ...]
    """which of the cells given these are, by their place"""
    share_c: np.ndarray
    """of the items that any of the cells given has, the share that each of them has"""
    once_m: np.ndarray
    """cells compared that were trained on one draw only"""


def read_paired(store: Store, cells: Sequence[Cell], metric: Metric, least: float = 0.0) -> Paired:
    """The answers of these cells to one task; without those that were asked less than `least`."""
    uses = getattr(metric, "uses", "prediction")
    draws = _draws(store, cells)
    answers = store.drawn_answers(draws, with_scores=uses in ("score", "value"))
    rule = score_rule(cells[0][0])
    if rule not in ("mean", "pooled"):
        names = store.texts(np.unique(answers.part))
        of_rule = [number for number, name in names.items() if name == rule]
        answers = answers.taken(np.isin(answers.part, of_rule))
    value_mn = _values(store, cells, draws, answers, metric) if uses == "value" else None
    has_mn = answers.prediction_mn >= 0 if value_mn is None else np.isfinite(value_mn)
    has_any = has_mn.any(axis=0)
    share_c = has_mn.sum(axis=1) / max(int(has_any.sum()), 1)
    kept = np.flatnonzero(share_c >= least)
    is_common = np.asarray(has_mn[kept].all(axis=0))
    n_left_out = int((~is_common).sum())
    answers = answers.of_rows(kept).taken(is_common)
    if value_mn is not None:
        answer_mn, bound = value_mn[np.ix_(kept, is_common)], metric
        items = _items(answers, np.zeros(len(answers.item), np.int64), rule)
    elif uses == "prediction":
        target, answer_mn = code_answers(answers)
        answer_mn = np.where(answers.prediction_mn > 0, answer_mn, wrong_answers(target, metric))
        items, bound = _items(answers, target, rule), metric
    else:
        runs = [run for index in kept.tolist() for run in cells[index]]
        items, answer_mn, bound = _arranged(store, runs, answers, metric, rule)
    once_m = np.array([is_drawn_once(cells[index]) for index in kept.tolist()], bool)
    return Paired(
        items, answer_mn, bound, answers, n_left_out, tuple(kept.tolist()), share_c, once_m
    )


def _items(answers: Answers, target: np.ndarray, rule: str) -> Items:
    part = answers.part if rule == "mean" else None
    return Items(
        target, unit_numbers(answers), part, "mean" if rule == "mean" else "pooled", answers.repeat
    )


def unit_numbers(answers: Answers) -> np.ndarray:
    """The unit of each item; one that has none is a unit itself, with a number no other has."""
    return np.where(answers.unit > 0, answers.unit, -1 - answers.item)


_Draws = list[list[tuple[int, int]]]
"""per draw, the run and the repeat of every cell"""


def _draws(store: Store, cells: Sequence[Cell]) -> _Draws:
    """The training draws that all cells share.

    Where cells of several draws have less than two in common, they are taken as they come: then
    nothing pairs them.
    """
    repeats = store.repeats([run.id for cell in cells for run in cell])
    draws_of_cell = [
        {
            (run.spec.seed, repeat): (run.id, repeat)
            for run in cell
            for repeat in repeats.get(run.id, [0])
        }
        for cell in cells
    ]
    several = [draws for draws in draws_of_cell if len(draws) > 1]
    if not several:
        return [[next(iter(draws.values())) for draws in draws_of_cell]]
    # The same seed and repeat drew the same training images: only these pair trainings.
    common = sorted(set.intersection(*map(set, several)))
    if len(common) < 2:
        n = min(map(len, several))
        taken = [list(draws.values()) * (n if len(draws) == 1 else 1) for draws in draws_of_cell]
        return [[draws[number] for draws in taken] for number in range(n)]
    return [
        [draws[draw] if len(draws) > 1 else next(iter(draws.values())) for draws in draws_of_cell]
        for draw in common
    ]


def _values(
    store: Store, cells: Sequence[Cell], draws: _Draws, answers: Answers, metric: Metric
) -> np.ndarray:
    """What each item was worth; NaN for one that was answered, or not asked, and has no value."""
    name = str(getattr(metric, "__name__", metric.title))
    if answers.score_mn is not None and name == value_metric(cells[0][0]):
        value_mn = answers.score_mn
    else:
        value_mn = _looked_up(store, cells, draws, answers, name)
    return fill_values(value_mn, answers.prediction_mn == 0, metric)


def _looked_up(
    store: Store, cells: Sequence[Cell], draws: _Draws, answers: Answers, name: str
) -> np.ndarray:
    """The values of another metric than the task's first, which stand in what a row tells."""
    run_of = {run.id: run for cell in cells for run in cell}
    values = {run: _item_values(store, run_of[run], name) for draw in draws for run, _ in draw}
    columns = (_names(store, answers.part), answers.repeat.tolist(), _names(store, answers.item))
    value_mn = np.full((len(cells), len(answers.item)), np.nan)
    for position, (part, draw, item) in enumerate(zip(*columns, strict=True)):
        for row, (run, repeat) in enumerate(draws[draw]):
            value_mn[row, position] = values[run].get((part, repeat, item), np.nan)
    return value_mn


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


def code_answers(answers: Answers) -> tuple[np.ndarray, np.ndarray]:
    """Targets and answers as whole numbers from 0 up; a label of one part is none of another's.
    No answer is some number too.
    """
    top = max(int(numbers.max(initial=0)) for numbers in (answers.target, answers.prediction_mn))
    is_used = np.zeros(top + 1, bool)
    is_used[answers.target] = True
    is_used[answers.prediction_mn] = True
    # Text numbers of the store, renumbered without gaps; one block of numbers per part.
    code = np.cumsum(is_used, dtype=np.int32) - 1
    target, answer_mn = code[answers.target], code[answers.prediction_mn]
    parts, part = np.unique(answers.part, return_inverse=True)
    if len(parts) > 1:
        return target + part * int(is_used.sum()), answer_mn + part * int(is_used.sum())
    return target, answer_mn


def _arranged(
    store: Store, runs: Sequence[Run], drawn_answers: Answers, metric: Metric, rule: str
) -> tuple[Items, np.ndarray, Metric]:
    """For metrics of more than label numbers: by name, as they are scored."""
    from fieldmark.protocols import arrange, recorded_kinds

    kinds: dict[str, str] = {}
    for run in runs:
        kinds |= recorded_kinds(store.finished_parts(run.id))
    answers = [f"answer {number}" for number in range(len(drawn_answers.prediction_mn))]
    rows, bound = arrange(_named(store, drawn_answers, answers), answers, metric, kinds)
    answer_mn = np.stack([rows[name].to_numpy() for name in answers])
    target, repeat = rows["target"].to_numpy(), rows["repeat"].to_numpy()
    unit = rows["unit"].cast(int).to_numpy()
    is_mean = rule == "mean" and getattr(metric, "uses", "") != "whole"
    part = rows["part"].to_numpy() if is_mean else None
    return Items(target, unit, part, "mean" if is_mean else "pooled", repeat), answer_mn, bound


def _named(store: Store, drawn_answers: Answers, answers: Sequence[str]) -> pl.DataFrame:
    import polars as pl

    columns: dict[str, np.ndarray] = {
        "part": drawn_answers.part,
        "id": drawn_answers.item,
        "target": drawn_answers.target,
        **dict(zip(answers, drawn_answers.prediction_mn, strict=True)),
    }
    frame = pl.DataFrame({name: _texts(store, column) for name, column in columns.items()})
    unit = pl.Series("unit", unit_numbers(drawn_answers)).cast(pl.String)
    scores: Mapping[str, np.ndarray] = {}
    if drawn_answers.score_mn is not None:
        names = ["score"] if len(answers) == 1 else [f"score {name}" for name in answers]
        scores = dict(zip(names, drawn_answers.score_mn, strict=True))
    return frame.with_columns(
        unit,
        pl.Series("repeat", drawn_answers.repeat),
        *(pl.Series(k, v) for k, v in scores.items()),
    )


def _texts(store: Store, column: np.ndarray) -> pl.Series:
    import polars as pl

    numbers, at = np.unique(column, return_inverse=True)
    texts = store.texts(numbers[numbers > 0])
    return pl.Series(map(texts.get, numbers.tolist()), dtype=pl.String).gather(at)
