"""Table rows: which scores stand in a table, and of how many runs is each?

Those of finished runs. A row is a model asked in one setup, a column a task on one version of its
data by one metric. Runs that differ in nothing but their seed are training draws of one row: its
score is the mean over them, its interval holds the luck of the test items and of the draws. A run
whose data were changed in place since, and run again, is superseded: it is left out, and counted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from fieldmark.errors import UnknownName
from fieldmark.report.chance import OPTIONS, ChanceLevel, at_one_size, by_options, with_chance
from fieldmark.report.providers import is_valued, metric_here, pairing_metric, why_not_paired
from fieldmark.report.run_labels import (
    Column,
    columns_of_runs,
    data_notes,
    model_labels,
    model_name,
    newest_first,
    version_notes,
)
from fieldmark.report.setup_labels import setup_labels
from fieldmark.store import (
    AMONG_ANSWERED,
    ANSWERED_RATE,
    Run,
    RunFilter,
    Score,
    Store,
    fewer_examples,
)
from fieldmark.words import SYNTHETIC_NOTE, counted, grouped

if TYPE_CHECKING:
    from fieldmark.report.tiers import Study

BEST = "A"
RATES = ("parse_success_rate", "refusal_rate", "failure_rate", "usd_per_answer")
"""further scores of runs that ask language models"""
LEAST_ANSWERED = 0.9
"""share of the questions that a row must have answered to be recommended without a word"""


@dataclass(frozen=True, slots=True)
class Row:
    """One score: of a model, asked in one setup, on one task."""

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
    setup: str = ""
    """settings that tell the row from others of its model, where several are shown"""
    runs: tuple[Run, ...] = ()
    """all of its runs, which differ in their seed only"""
    answered: float = 1.0
    """share of the questions; the others count as answered wrongly"""
    among: float | None = None
    """the score among the photos answered, where not all were"""
    rates: Mapping[str, float] = field(default_factory=dict)
    """those of `RATES` that are known"""
    chance: ChanceLevel | None = None
    """None: not known"""
    task: str = ""
    """what was asked; "" = the run's own task, whole"""
    fewer: str = ""
    """how many examples its prompts show, where that is fewer than were asked for, and why"""
    has_compared_size: bool = True
    """trained on as many photos as the models of its column are compared at"""

    def __post_init__(self) -> None:
        if not self.runs:
            object.__setattr__(self, "runs", (self.run,))

    @property
    def name(self) -> str:
        """What the row is called in a sentence: the model and, where it is named, the setup."""
        return with_remarks(self.model, self.stand_in, self.setup)

    @property
    def task_name(self) -> str:
        """What was asked: newt, newt/health."""
        return self.task or self.run.spec.task_name

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
    def column_key(self) -> tuple[str, str]:
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


def with_remarks(model: str, *remarks: str) -> str:
    """
    >>> with_remarks("chat/mock/wren", "mock", "ask"), with_remarks("classical/colour", "")
    ('chat/mock/wren (mock, ask)', 'classical/colour')
    """
    text = ", ".join(filter(None, remarks))
    return f"{model} ({text})" if text else model


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
        notes.append(SYNTHETIC_NOTE)
    return notes


def names_with_caveats(rows: Sequence[Row]) -> dict[str, str]:
    """What rows that are compared with each other are called, by name: with how little each
    answered, where it was too little.
    """
    named: dict[str, list[Row]] = {}
    for row in rows:
        named.setdefault(row.name, []).append(row)
    names = {}
    for name, named_rows in named.items():
        least = min(named_rows, key=lambda row: row.answered)
        where = f" of {least.heading}" if len(named_rows) > 1 else ""
        caveat = f"{least.caveat}{where}" if least.caveat else ""
        names[name] = with_remarks(least.model, least.stand_in, least.setup, caveat)
    return names


# --- the table ---


@dataclass(frozen=True, slots=True)
class Table:
    """What a report shows: rows in the order of task and model."""

    rows: tuple[Row, ...]
    left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """state → the runs that are not done: `my_model.py:Net on newt`"""
    notes: tuple[str, ...] = ()
    """what a reader must know besides, a line each"""
    study: Study | None = None
    """which rows may be the best, by task and overall; None: not compared"""


def read_table(
    store: Store,
    where: RunFilter | None = None,
    metric: str = "",
    by_part: bool = False,
    compare: bool = True,
    by_run: bool = False,
) -> Table:
    """The finished runs asked for with their primary scores, or with those of `metric`.

    `by_part` gives every part and group of parts a row of its own, `by_run` every seed. Without
    `compare` there is no study and no tier, which saves reading predictions.
    """
    where = where or RunFilter()
    check_names(store, where, "fieldmark table")
    runs, n_superseded = current_runs(store, where)
    done = [run for run in runs if run.state == "done"]
    scores = store.scores(where)
    columns = columns_of_runs(done, where.folders, store.record)
    setups = setup_labels(done, store.record)
    rows = _in_one_unit(_rows(done, scores, columns, setups, metric, by_part))
    rows = by_options(store, rows)
    if metric and done and not rows:
        metrics = {score.metric for run_scores in scores.values() for score in run_scores}
        raise UnknownName("metric of these runs", metric, metrics)
    rows, sizes = at_one_size(rows)
    rows, once = _counted_once(rows)
    shown = list({row.run.id: row.run for row in rows}.values())
    notes = [*superseded_note(n_superseded), *version_notes(shown)]
    notes += data_notes((row.run.spec.task, row.data, row.is_counted) for row in rows)
    rows = _with_fewer(store, rows)
    notes += [*once, *mark_notes(rows)]
    notes += dict.fromkeys(f"{row.name}, {row.heading}: {row.fewer}." for row in rows if row.fewer)
    study = None
    cells, n_fewer = join_runs(store, rows) if compare or not by_run else ([], 0)
    if not by_run:
        rows = cells
        fewer = counted(n_fewer, "run with fewer repeats is", "runs with fewer repeats are")
        notes += [f"{fewer} not shown (`fieldmark table --long` lists all)."] if n_fewer else []
    if compare and not by_part:
        from fieldmark.report.tiers import study_rows

        study = study_rows(store, cells)
        rows = [replace(row, tier=study.tier(row)) for row in rows]
        notes += [*sizes, *study.notes, *_without_tiers(store, rows)]
        rows = with_chance(store, rows)
    rows = [_with_runs_told(store, row) for row in rows]
    left_out: dict[str, tuple[str, ...]] = {}
    for run in sorted(runs, key=lambda run: run.state):
        if run.state != "done":
            title = f"{run.spec.model} on {run.spec.task_name}"
            left_out[run.state] = (*left_out.get(run.state, ()), title)
    return Table(tuple(rows), left_out, tuple(grouped(notes)), study)


def current_runs(store: Store, where: RunFilter | None) -> tuple[list[Run], int]:
    """The runs asked for that are not superseded, and how many are."""
    runs, superseded = store.runs(where or RunFilter()), store.superseded()
    current = [run for run in runs if run.id not in superseded]
    return current, len(runs) - len(current)


def superseded_note(n: int) -> list[str]:
    """
    >>> superseded_note(1)
    ['1 superseded run is not shown (its data changed since): `fieldmark runs ls`.']
    """
    runs = counted(n, "superseded run is not shown (its", "superseded runs are not shown (their")
    return [f"{runs} data changed since): `fieldmark runs ls`."] if n else []


def _rows(
    runs: Sequence[Run],
    scores: Mapping[int, list[Score]],
    columns: Mapping[int, Column],
    setups: Mapping[int, str],
    metric: str,
    by_part: bool,
) -> list[Row]:
    models = model_labels(runs)
    rows = []
    for run in runs:
        column, run_scores = columns[run.id], scores.get(run.id, [])
        metric_shown = metric or next((s.metric for s in run_scores if s.is_primary), "")
        whole = {score.metric: score.value for score in run_scores if not score.part}
        rows += [
            Row(
                run, score, models[run.id], column.label, column.data, column.is_counted,
                setup=setups[run.id], task=column.task,
                answered=whole.get(ANSWERED_RATE, answered_share(run)),
                among=whole.get(AMONG_ANSWERED) if score.is_primary else None,
                rates={name: whole[name] for name in RATES if name in whole},
            )
            for score in run_scores
            if score.metric == metric_shown and (by_part or not score.part)
        ]  # fmt: skip
    return rows


def answered_share(run: Run) -> float:
    """The share of its items, where its scores do not tell that of its questions."""
    return (run.n_ok or 0) / run.n_items if run.n_items else 1.0


def _with_runs_told(store: Store, row: Row) -> Row:
    """With what became of its items, where not all were answered; and what is wrong with the data
    of its runs stands with what is wrong with the interval.
    """
    counts: Counter[str] = Counter()
    if not row.score.part and any(run.n_ok != run.n_items for run in row.runs):
        for run in row.runs:
            counts.update(store.outcomes(run.id))
    lines = dict.fromkeys(line.rstrip(".") for run in row.runs for line in run.warnings)
    warning = "; ".join(filter(None, [row.score.warning, *lines]))
    return replace(row, outcomes=dict(counts), score=replace(row.score, warning=warning))


def _counted_once(rows: Sequence[Row]) -> tuple[list[Row], list[str]]:
    """A task counts once: where it stands in several columns, the one with most models, of equal
    ones the first by its heading. That column comes first, drawings come last; and a line for each
    that does not count. Drawings count only where there are no photos: no mean is over both.
    """
    has_both = len({row.is_synthetic for row in rows}) > 1
    rows = [
        replace(row, is_counted=False) if has_both and row.is_synthetic else row for row in rows
    ]
    columns: dict[str, dict[tuple[str, str], set[str]]] = {}
    for row in rows:
        column_models = columns.setdefault(row.run.spec.task, {})
        if row.is_counted and not row.score.part:
            models = column_models.setdefault(row.column_key, set())
            models |= set() if row.stand_in else {row.model}
    spare: set[tuple[str, str]] = set()
    for column_models in columns.values():
        spare.update(sorted(column_models, key=lambda name: (-len(column_models[name]), name))[1:])
    notes = [
        f"{heading.replace(chr(10), ' ')} ({metric}) is left out of means and ranks: each task "
        "counts once" + (", and other options are another question." if OPTIONS in heading else ".")
        for heading, metric in sorted(spare)
    ]
    if has_both:
        notes.append(
            "Drawn tasks are left out of means and ranks because this table has real photos."
        )
    kept = [replace(row, is_counted=False) if row.column_key in spare else row for row in rows]
    tasks = list(columns)
    kept.sort(
        key=lambda row: (row.is_synthetic, tasks.index(row.run.spec.task), not row.is_counted)
    )
    return kept, notes


def _in_one_unit(rows: Sequence[Row]) -> list[Row]:
    """Whether a task's own values are shares is told by the values, and so by each run: a column
    is shown in percent only where all its runs say so."""
    mixed = {row.column_key for row in rows if is_valued(row.run) and not row.score.is_fraction}
    shares = [row.score.is_fraction and row.column_key not in mixed for row in rows]
    return [
        replace(row, score=replace(row.score, is_fraction=is_share))
        for row, is_share in zip(rows, shares, strict=True)
    ]


def _with_fewer(store: Store, rows: Sequence[Row]) -> list[Row]:
    from fieldmark.protocols import may_fail, protocol_of

    fewer = {
        run.id: fewer_examples(store.finished_parts(run.id), run.spec.n_train)
        for run in {row.run.id: row.run for row in rows if row.is_stored}.values()
        if run.spec.n_train and may_fail(protocol_of(run.spec.protocol))
    }
    return [replace(row, fewer=fewer.get(row.run.id, "")) for row in rows]


def _without_tiers(store: Store, rows: Sequence[Row]) -> list[str]:
    """Why several models were not compared item by item, a line per column."""
    columns: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if is_valued(row.run) and row.tier is None:
            columns.setdefault(row.column_key, []).append(row)
    return [
        f"no tiers for {column_rows[0].heading}: {why_not_paired(column_rows[0].run, metric)}"
        for (_, metric), column_rows in columns.items()
        if len(column_rows) > 1 and pairing_metric(store, column_rows[0].run, metric) is None
    ]


def check_names(store: Store, where: RunFilter, listing: str) -> None:
    """A name that no run has is a slip, not an empty table; `listing` is what lists the names."""
    runs = store.runs()
    models = {*model_labels(runs).values(), *(model_name(run.spec) for run in runs)}
    asked = [("model", pattern, models, RunFilter(models=(pattern,))) for pattern in where.models]
    tasks = {run.spec.task for run in runs}
    asked += [("task", pattern, tasks, RunFilter(tasks=(pattern,))) for pattern in where.tasks]
    for kind, pattern, names, filtered in asked if runs else ():
        if not store.runs(filtered):
            raise UnknownName(f"{kind} in these results", pattern, names, listing)


# --- rows of several runs ---


def join_runs(store: Store, rows: Sequence[Row]) -> tuple[list[Row], int]:
    """Runs that differ only in their seed as one row; of a seed, the run with most repeats. And
    how many runs others stand for.
    """
    cells: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        key = (row.model, row.setup, *row.column_key, row.score.part)
        cells.setdefault(key, []).append(row)
    fewer: set[int] = set()
    joined = []
    for cell_rows in cells.values():
        cell_rows.sort(key=lambda row: (row.run.spec.repeats, row.run.finished or ""))
        by_seed = {row.run.spec.seed: row for row in cell_rows}
        kept = [row for _, row in sorted(by_seed.items())]
        fewer |= {row.run.id for row in cell_rows} - {row.run.id for row in kept}
        joined.append(kept[0] if len(kept) == 1 else _cell(store, kept))
    return joined, len(fewer)


def _cell(store: Store, rows: Sequence[Row]) -> Row:
    runs = tuple(row.run for row in rows)
    run_row = rows[runs.index(newest_first(runs)[0])]
    score = None if run_row.score.part else _score_of_draws(store, runs, run_row.score)
    if score is None:
        total = sum(row.run.spec.repeats * row.score.value for row in rows)
        mean = total / sum(run.spec.repeats for run in runs)
        why = "only the mean over training samples is known here"
        score = replace(run_row.score, value=mean, low=None, high=None, warning=why)
    among = [row.score.value if row.among is None else row.among for row in rows]
    return replace(
        run_row,
        score=score,
        runs=runs,
        answered=sum(row.answered for row in rows) / len(rows),
        rates={
            name: sum(row.rates[name] for row in rows) / len(rows)
            for name in run_row.rates
            if all(name in row.rates for row in rows)
        },
        among=None if all(row.among is None for row in rows) else sum(among) / len(rows),
    )


def _score_of_draws(store: Store, runs: Sequence[Run], score: Score) -> Score | None:
    """The mean over the draws of all runs, with the interval over units and draws; None where the
    answers cannot be scored here.
    """
    from fieldmark.protocols import make_score
    from fieldmark.report.compare.paired import read_paired

    metric = metric_here(store, runs[0], score.metric)
    if metric is None:
        return None
    paired = read_paired(store, [runs], metric)
    if not len(paired.items.target):
        return None
    n = len(set(zip(paired.answers.part, paired.answers.item, strict=True)))
    made = make_score(score.metric, paired.items, paired.answer_mn[0], paired.metric, n)
    return replace(made, is_primary=score.is_primary, is_fraction=score.is_fraction)
