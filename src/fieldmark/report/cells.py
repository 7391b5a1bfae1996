"""Cells of a table: one score of a model asked in one way, and of how many runs?

Runs that differ in nothing but their seed are training draws of one cell: its score is the mean
over them, its interval holds the luck of the test items and of the draws.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fieldmark.errors import FieldmarkError
from fieldmark.report.labels import newest_first
from fieldmark.report.providers import pairing_metric
from fieldmark.store import Run, Score, Store

BEST = "A"
LEAST_ANSWERED = 0.9
"""share of the questions that a row must have answered to be recommended without a word"""


@dataclass(frozen=True, slots=True)
class ChanceLevel:
    """What guessing scores."""

    value: float
    among: str
    """what there is to guess: `8 options`, `24 classes`"""


@dataclass(frozen=True, slots=True)
class Row:
    """One score: of a model, asked in one way, on one task."""

    run: Run
    """the newest of its runs"""
    score: Score
    model: str
    """the model's name; with its version where several are shown"""
    column: str
    """the heading: the task and, on lines of their own, what differs between its columns"""
    data: str = ""
    """which version of the data, where the task stands in several"""
    is_counted: bool = True
    """in means and ranks over tasks: a task counts once, and on one version of its data"""
    tier: str | None = None
    """A for those that may be the best of the column, B for those that may be the best of the
    rest, ...; None: not compared"""
    outcomes: Mapping[str, int] = field(default_factory=dict)
    """how many items had which outcome, where not all were answered"""
    way: str = ""
    """the way of asking, where several are shown"""
    runs: tuple[Run, ...] = ()
    """all of its runs, which differ in their seed only"""
    answered: float = 1.0
    """share of the questions; the others count as answered wrongly"""
    among: float | None = None
    """the score among the items answered, where not all were"""
    chance: ChanceLevel | None = None
    """None: not known"""
    has_compared_size: bool = True
    """trained on as many photos as the models of its column are compared at"""

    def __post_init__(self) -> None:
        if not self.runs:
            object.__setattr__(self, "runs", (self.run,))

    @property
    def name(self) -> str:
        """What the row is called in a sentence: the model and, where it is named, the way."""
        return with_remarks(self.model, self.stand_in, self.way)

    @property
    def label(self) -> str:
        """The model, marked where it is none."""
        return with_remarks(self.model, self.stand_in)

    @property
    def stand_in(self) -> str:
        """What the row stands in as ("mock", "control"); "" for a model."""
        return self.run.marks.stand_in

    @property
    def competes(self) -> bool:
        """Is it in tiers, verdicts and ranks?"""
        return self.has_compared_size and not self.stand_in

    @property
    def is_synthetic(self) -> bool:
        """Were the photos drawn?"""
        return self.run.marks.is_synthetic

    @property
    def place(self) -> tuple[str, str]:
        """The column: its heading and the metric."""
        return self.column, self.score.metric

    @property
    def heading(self) -> str:
        """The column's heading in one line."""
        return self.column.replace("\n", " ")

    @property
    def is_stored(self) -> bool:
        """False for the scores of a group of tasks, which are worked out and not run."""
        return self.run.id > 0

    @property
    def has_value(self) -> bool:
        """False where no item was answered, or the metric is not defined for the answers."""
        return not math.isnan(self.score.value)

    @property
    def caveat(self) -> str:
        """What is said wherever the row is recommended; "" where it answered enough."""
        if self.answered >= LEAST_ANSWERED:
            return ""
        return f"answered {math.floor(100 * self.answered)} % of the questions"

    @property
    def is_tied(self) -> bool | None:
        """May be the best of its column; None: not compared."""
        return None if self.tier is None else self.tier == BEST

    @property
    def n_draws(self) -> int:
        """Training draws, or rounds of answers, behind the score."""
        return sum(run.spec.repeats for run in self.runs)

    @property
    def size(self) -> tuple[float, str]:
        """How many training images, all of them last, and in words."""
        shots, n_train = self.run.spec.settings.get("shots"), self.run.spec.n_train
        if n_train is not None:
            return n_train, f"{n_train:,}"
        return (shots, f"{shots} per class") if shots else (math.inf, "all")

    @property
    def is_drawn_once(self) -> bool:
        """Were some training images drawn, and only once?"""
        spec = self.run.spec
        return self.n_draws == 1 and bool(spec.n_train or spec.settings.get("shots"))


def with_remarks(model: str, *remarks: str) -> str:
    """
    >>> with_remarks("chat/mock/wren", "mock", "ask"), with_remarks("classical/colour", "")
    ('chat/mock/wren (mock, ask)', 'classical/colour')
    """
    words = ", ".join(filter(None, remarks))
    return f"{model} ({words})" if words else model


def without_stand_ins(rows: Iterable[Row]) -> list[Row]:
    """The rows of models. Stand-ins are shown beside them, and are in no verdict, tier, mean or
    rank: a mock is told the answers, a control cannot see.
    """
    return [row for row in rows if not row.stand_in]


def mark_notes(rows: Sequence[Row]) -> list[str]:
    """What the marks of rows and columns mean, a line each."""
    names = dict.fromkeys(row.label for row in rows if row.stand_in)
    are = "is a stand-in, not a model: it is" if len(names) == 1 else "are stand-ins: they are"
    notes = [f"{' and '.join(names)} {are} in no verdict, tier, mean or rank."] if names else []
    if any(row.is_synthetic for row in rows):
        notes.append(
            "synthetic: fieldmark drew these photos. Their scores say nothing about real photos."
        )
    return notes


# --- cells of several runs ---


def join_runs(store: Store, rows: Sequence[Row]) -> tuple[list[Row], int]:
    """Runs that differ only in their seed as one row; of a seed, the run with most repeats. And
    how many runs others stand for.
    """
    cells: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        key = (row.model, row.way, *row.place, row.score.part)
        cells.setdefault(key, []).append(row)
    fewer: set[int] = set()
    joined = []
    for mine in cells.values():
        by_seed: dict[int, Row] = {}
        for row in sorted(mine, key=lambda row: (row.run.spec.repeats, row.run.finished or "")):
            by_seed[row.run.spec.seed] = row
        kept = [row for _, row in sorted(by_seed.items())]
        fewer |= {row.run.id for row in mine} - {row.run.id for row in kept}
        joined.append(kept[0] if len(kept) == 1 else _cell(store, kept))
    return joined, len(fewer)


def fewer_note(n: int) -> list[str]:
    if n == 0:
        return []
    words = "run with fewer repeats is" if n == 1 else "runs with fewer repeats are"
    return [f"{n:,} {words} not shown (`fieldmark table --long` lists all)."]


ONLY_MEAN = "only the mean over draws is known here"


def _cell(store: Store, rows: Sequence[Row]) -> Row:
    runs = tuple(row.run for row in rows)
    newest = newest_first(runs)[0]
    first = next(row for row in rows if row.run is newest)
    score = None if first.score.part else _score_of_draws(store, runs, first.score)
    if score is None:
        repeats = [row.run.spec.repeats for row in rows]
        total = sum(n * row.score.value for n, row in zip(repeats, rows, strict=True))
        score = replace(
            first.score, value=total / sum(repeats), low=None, high=None, warning=ONLY_MEAN
        )
    among = [row.score.value if row.among is None else row.among for row in rows]
    return replace(
        first,
        score=score,
        runs=runs,
        answered=sum(row.answered for row in rows) / len(rows),
        among=None if all(row.among is None for row in rows) else sum(among) / len(rows),
    )


def names_with_caveats(rows: Sequence[Row]) -> dict[str, str]:
    """What rows that are compared with each other are called, by name: with how little each
    answered, where it was too little.
    """
    names = {}
    for name in dict.fromkeys(row.name for row in rows):
        mine = [row for row in rows if row.name == name]
        least = min(mine, key=lambda row: row.answered)
        where = f" of {least.heading}" if len(mine) > 1 else ""
        caveat = f"{least.caveat}{where}" if least.caveat else ""
        names[name] = with_remarks(least.model, least.stand_in, least.way, caveat)
    return names


def _score_of_draws(store: Store, runs: Sequence[Run], score: Score) -> Score | None:
    """The mean over the draws of all runs, with the interval over units and draws; None where the
    answers cannot be scored here.
    """
    from fieldmark.report.paired import read_paired
    from fieldmark.stats import estimate, interval

    try:
        metric = pairing_metric(store, runs[0], score.metric)
    except FieldmarkError:  # a user's own metric whose file is not here
        return None
    if metric is None:
        return None
    paired = read_paired(store, [runs], metric)
    if not len(paired.items.target):
        return None
    limits = interval(paired.items, paired.answer_mn[0], paired.metric)
    return replace(
        score,
        value=estimate(paired.items, paired.answer_mn[0], paired.metric),
        low=None if math.isnan(limits.low) else limits.low,
        high=None if math.isnan(limits.high) else limits.high,
        n=len(set(zip(paired.asked.part, paired.asked.item, strict=True))),
        n_units=limits.n_units,
        method=limits.method,
        warning=limits.why,
    )
