"""Study: which models may be the best, on each task and over all tasks, and how sure is that?

All verdicts of table, comparison, plots and page come from here. For each column the answers of all
its rows are read once; their joint errors give the tiers (`stats/tiers.py` has the method). Over
the tasks that count, these errors are joined: tasks weigh alike, and a unit that several tasks ask
about is one unit. A model that answers without looking is compared with the others: where it may be
the best, the task cannot tell guessing from the best.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fieldmark.report.providers import metric_here
from fieldmark.report.table.layout import known
from fieldmark.store import Store

if TYPE_CHECKING:
    import numpy as np

    from fieldmark.report.compare.paired import Paired
    from fieldmark.report.rows import Row
    from fieldmark.stats import Errors

ColumnKey = tuple[str, str]
"""a column: its heading and its metric"""
LEAST_ASKED = 0.95
"""share of the items that a row must have been asked to be compared with others"""


@dataclass(frozen=True, slots=True)
class ColumnStudy:
    """The rows of one column, on the items that all of them were asked."""

    letters: Mapping[str, str] = field(default_factory=dict)
    """tier of each row, by its name; {} for one row, or where rows cannot be compared"""
    blind: float | None = None
    """what the best answer without looking scores; None: not known"""
    is_told_from_blind: bool | None = None
    """is the best model better than that? None: not known"""
    asked: Mapping[str, float] = field(default_factory=dict)
    """share of the items, of rows that were asked too few to be compared"""
    n: int = 0
    """items compared"""
    n_units: int = 0
    n_classes: int | None = None
    """classes among their targets, where the metric is a mean over classes"""

    def above_chance(self, value: float) -> float:
        """The share of the distance from guessing to all right; NaN where that is not known."""
        if self.blind is None or self.blind >= 1:
            return math.nan
        return (value - self.blind) / (1 - self.blind)


@dataclass(frozen=True, slots=True)
class RowStanding:
    """One row over all tasks that count."""

    name: str
    mean: float
    """over the tasks, on the items that all rows were asked"""
    low: float | None
    high: float | None
    may_be_best: bool
    rank: tuple[int, int]
    """the best and the worst it may have on these tasks"""
    rank_elsewhere: tuple[int, int] | None
    """the same on tasks like these; None for fewer than three photo sets"""


@dataclass(frozen=True, slots=True)
class Overall:
    """The rows that were asked all tasks that count, the highest mean first."""

    columns: tuple[ColumnKey, ...]
    photos: tuple[int, ...]
    """the number of each task's photo set: tasks of one ask about the same photos or units"""
    standings: tuple[RowStanding, ...]

    @property
    def n_photo_sets(self) -> int:
        return len(set(self.photos))

    @property
    def best(self) -> tuple[str, ...]:
        """The names of the rows that may be the best."""
        return tuple(one.name for one in self.standings if one.may_be_best)


@dataclass(frozen=True, slots=True)
class Study:
    """The verdicts on the rows of a table."""

    columns: Mapping[ColumnKey, ColumnStudy]
    overall: Overall | None
    """None for fewer than two tasks that count, or two rows that have them all"""
    notes: tuple[str, ...] = ()

    def tier(self, row: Row) -> str | None:
        column = self.columns.get(row.column_key)
        return None if column is None else column.letters.get(row.name)

    def standing(self, name: str) -> RowStanding | None:
        standings = () if self.overall is None else self.overall.standings
        return next((one for one in standings if one.name == name), None)


def study_rows(store: Store, rows: Sequence[Row]) -> Study:
    """The study of the rows that compete; reads the predictions of each column once."""
    columns: dict[ColumnKey, list[Row]] = {}
    for row in rows:
        if row.competes and row.is_stored and not row.score.part and row.has_value:
            columns.setdefault(row.column_key, []).append(row)
    errors = {key: read_errors(store, column_rows) for key, column_rows in columns.items()}
    studied = {key: _column(errors[key], column_rows) for key, column_rows in columns.items()}
    counted = {key: columns[key] for key in averaged(rows)}
    overall = _overall(counted, studied, errors)
    return Study(studied, overall, tuple(_notes(columns, studied)))


def averaged(rows: Sequence[Row]) -> list[ColumnKey]:
    """The columns that a mean is over: tasks that count, of the unit and direction that most of
    them have. Where no two rows have them all, those that at least half of the rows have.
    """
    kinds: dict[tuple[bool, bool], dict[ColumnKey, set[str]]] = {}
    for row in rows:
        is_whole = row.is_stored and not row.score.part and row.has_value
        if row.is_counted and row.competes and is_whole:
            kind = (row.score.higher_is_better, row.score.is_fraction)
            kinds.setdefault(kind, {}).setdefault(row.column_key, set()).add(row.name)
    by_number = sorted(kinds.values(), key=len, reverse=True)
    columns = by_number[0] if by_number else {}
    every = set().union(*columns.values())
    if len(every) > 1 and len(set.intersection(*columns.values())) < 2:
        columns = {key: names for key, names in columns.items() if 2 * len(names) >= len(every)}
    return list(columns)


def _notes(
    columns: Mapping[ColumnKey, Sequence[Row]], studied: Mapping[ColumnKey, ColumnStudy]
) -> list[str]:
    notes, blind = [], []
    for key, column in studied.items():
        heading = columns[key][0].heading
        few = [f"{name} ({100 * share:.0f} %)" for name, share in column.asked.items()]
        if few:
            what = f"not compared, as they answered too few photos: {', '.join(few)}"
            notes.append(f"{heading}: {what}.")
        if column.is_told_from_blind is False:
            blind.append(heading)
        notes += _fewer_draws(columns[key])
    if blind:
        what = "even the best model is not clearly better than always giving the most common label"
        where = " and ".join(filter(None, (", ".join(blind[:-1]), blind[-1])))
        notes.append(f"On {where}, {what}. {_PAIRED}")
    return notes


_PAIRED = "We tested this photo by photo, so it can differ from what the margins suggest."


def _fewer_draws(rows: Sequence[Row]) -> list[str]:
    """Who was trained less often than others, which leaves fewer draws to compare all of them."""
    drawn = {row.name: row.n_draws for row in rows if row.n_draws > 1}
    fewest = min(drawn.values(), default=0)
    if fewest == max(drawn.values(), default=0):
        return []
    few = ", ".join(name for name, n in drawn.items() if n == fewest)
    what = f"models are compared on {fewest} training samples, as {few} has no more"
    return [f"{rows[0].heading}: {what}."]


# --- errors of a column ---


@dataclass(frozen=True, slots=True, eq=False)
class ColumnErrors:
    """The joint errors of one column's scores."""

    errors: Errors | None
    """of the rows kept; None where they have no item in common"""
    with_blind: Errors | None
    """the same and, last, of one who does not look; None where his best answer is not known"""
    kept: tuple[int, ...]
    """places of the rows that were asked enough to be compared"""
    asked: tuple[float, ...]
    """share of the items that each row was asked"""
    root: str
    photos: frozenset[int]
    """numbers of its items and units; none where the folder is not known"""
    n_classes: int | None
    """classes among the targets, where the metric is a mean over classes"""


def read_errors(
    store: Store, rows: Sequence[Row], least: float = LEAST_ASKED, with_blind: bool = True
) -> ColumnErrors | None:
    """The errors of rows of one column, on the items all of them were asked, without rows that were
    asked less than the share `least`; None where nothing compares them item by item.
    """
    from fieldmark.report.compare.paired import read_paired

    metric = metric_here(store, rows[0].run, rows[0].score.metric)
    if metric is None:
        return None
    paired = read_paired(store, [row.runs for row in rows], metric, least)
    return errors_of(paired, rows[0].run.root, with_blind)


def errors_of(paired: Paired, root: str, with_blind: bool = True) -> ColumnErrors:
    """The errors of paired answers to one task, whose photos lie in the folder `root`."""
    import numpy as np

    from fieldmark.metrics import blind_answers
    from fieldmark.stats import errors

    items, answers_mn, metric = paired.items, paired.answer_mn, paired.metric
    errors_shown = every = None
    if answers_mn.size:
        has_parts = len(paired.answers.part) == len(items.target)
        part = paired.answers.part if has_parts else None
        blind_n = blind_answers(items.target, metric, part) if with_blind else None
        if blind_n is None:
            errors_shown = errors(items, answers_mn, metric, paired.once_m)
        else:
            last_1n = blind_n[None].astype(answers_mn.dtype)
            once_m = np.append(paired.once_m, False)
            every = errors(items, np.vstack([answers_mn, last_1n]), metric, once_m)
            errors_shown = every.taken(range(len(answers_mn)))
    return ColumnErrors(
        errors_shown,
        every,
        paired.kept,
        tuple(paired.share_c.tolist()),
        root,
        _photos(paired.answers.item, items.unit) if root else frozenset(),
        len(np.unique(items.target)) if metric.closed_form in ("recall", "f1") else None,
    )


def _column(column: ColumnErrors | None, rows: Sequence[Row]) -> ColumnStudy:
    from fieldmark.stats import tiers

    if column is None:
        return ColumnStudy()
    names = [row.name for row in rows]
    asked_shares = {
        names[number]: share
        for number, share in enumerate(column.asked)
        if number not in column.kept
    }
    errors_shown, every = column.errors, column.with_blind
    if errors_shown is None:
        return ColumnStudy(asked=asked_shares)
    blind = is_told = None
    if every is not None and every.value_m[-1] < every.bounds[1] - 1e-9:
        blind, is_told = float(every.value_m[-1]), _is_beaten(every)
    letters: dict[str, str] = {}
    if len(column.kept) > 1:
        kept = [names[number] for number in column.kept]
        letters = dict(zip(kept, tiers(errors_shown), strict=True))
    return ColumnStudy(
        letters,
        blind,
        is_told,
        asked_shares,
        errors_shown.n,
        errors_shown.n_units,
        column.n_classes,
    )


def _overall(
    columns: Mapping[ColumnKey, Sequence[Row]],
    studied: Mapping[ColumnKey, ColumnStudy],
    errors: Mapping[ColumnKey, ColumnErrors | None],
) -> Overall | None:
    """The rows over all tasks. Rows with gaps belong to it: what they were not asked, nobody is
    compared on.
    """
    from fieldmark.stats import join

    names = _complete(columns, studied)
    if len(columns) < 2 or len(names) < 2:
        return None
    tasks, seen = [], []
    for key, rows in columns.items():
        column = errors[key]
        if column is None or column.errors is None:
            return None
        at = {rows[number].name: index for index, number in enumerate(column.kept)}
        tasks.append(column.errors.taken([at[name] for name in names]))
        seen.append(column)
    photos = photo_sets(seen)
    standings = _standings(names, tasks, join(tasks, photos), photos)
    sign = -1 if next(iter(columns.values()))[0].score.higher_is_better else 1
    standings.sort(key=lambda one: (sign * one.mean, one.name))
    return Overall(tuple(columns), tuple(photos), tuple(standings))


def _standings(
    names: Sequence[str], tasks: Sequence[Errors], joined: Errors, photos: Sequence[int]
) -> list[RowStanding]:
    import numpy as np

    from fieldmark.stats import may_be_best, rank_limits, rank_limits_elsewhere, score_intervals

    sign = 1.0 if joined.is_up else -1.0
    height_tm = sign * np.array([task.value_m for task in tasks])
    by_photos = [
        height_tm[[label == number for label in photos]].mean(axis=0)
        for number in dict.fromkeys(photos)
    ]
    has_limits = not any(task.why for task in tasks)
    limits = [
        (known(one.low), known(one.high)) if has_limits else (None, None)
        for one in score_intervals(joined)
    ]
    elsewhere = [
        None if math.isnan(low) else (int(low), int(high))
        for low, high in rank_limits_elsewhere(by_photos).tolist()
    ]
    return [
        RowStanding(name, mean, low, high, is_best, (int(rank[0]), int(rank[1])), other)
        for name, mean, (low, high), is_best, rank, other in zip(
            names,
            joined.value_m.tolist(),
            limits,
            may_be_best(joined).tolist(),
            rank_limits(joined).tolist(),
            elsewhere,
            strict=True,
        )
    ]


def _is_beaten(every: Errors) -> bool:
    """Is some model surely better than the last? By Bonferroni, which is quick, or else jointly."""
    import numpy as np

    from fieldmark.stats import compare_with, may_be_best

    height_m = every.value_m if every.is_up else -every.value_m
    best = int(height_m[:-1].argmax())
    pair = compare_with(every, len(height_m) - 1, np.array([best]))
    is_ahead = height_m[best] > height_m[-1]
    if is_ahead and pair.p[0] < 0.05 / (len(height_m) - 1):
        return True
    return not bool(may_be_best(every)[-1])


def _complete(
    columns: Mapping[ColumnKey, Sequence[Row]], studied: Mapping[ColumnKey, ColumnStudy]
) -> list[str]:
    """The rows that were compared in every column, in the order of the first."""
    if not columns:
        return []
    each_has = [set(studied[key].letters) for key in columns]
    common = set.intersection(*each_has)
    return [row.name for row in next(iter(columns.values())) if row.name in common]


# --- photo sets ---


def _photos(item_n: np.ndarray, unit_n: np.ndarray | None) -> frozenset[int]:
    """Items are below 0, as units that are an item's own."""
    import numpy as np

    units = [] if unit_n is None else np.unique(unit_n).tolist()
    return frozenset([*units, *(-1 - np.unique(item_n)).tolist()])


def photo_sets(columns: Sequence[ColumnErrors]) -> list[int]:
    """The number of each column's photo set.

    Columns of one known folder that share items or units are of one set. Items of unknown folders
    may have the same names by chance.
    """
    numbers: list[int] = []
    for here, column in enumerate(columns):
        same = {
            numbers[other]
            for other, theirs in enumerate(columns[:here])
            if column.root
            and theirs.root == column.root
            and not column.photos.isdisjoint(theirs.photos)
        }
        number = min(same, default=max(numbers, default=-1) + 1)
        numbers = [number if label in same else label for label in numbers] + [number]
    return numbers
