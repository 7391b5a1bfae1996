"""Which scores stand in a table, and under which heading?

Runs of one task that differ in nothing but the model share a column. Where a task was asked in
several ways, the heading says what differs, so that no two ways are ever mixed in one column.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from fieldmark import draws
from fieldmark.errors import UnknownName
from fieldmark.report.documents import has_documents, metric_of, why_not_paired
from fieldmark.report.memory import Memory
from fieldmark.report.tiers import BEST, tier_runs
from fieldmark.store import Run, RunFilter, RunSpec, Score, Store

_ROW_FACTS = ("model", "model_version")
"""what tells rows apart; all else of a spec tells columns apart"""


@dataclass(frozen=True, slots=True)
class Row:
    """One score of one run."""

    run: Run
    score: Score
    model: str
    """the model's name; with its version where several are shown"""
    column: str
    """the heading: the task and, on lines of their own, what differs between its columns"""
    tier: str | None = None
    """A for those not distinguishable from the best of the column, B for the best of the rest and
    those not distinguishable from it, ...; None: not compared"""
    outcomes: Mapping[str, int] = field(default_factory=dict)
    """how many items had which outcome, where not all were answered"""

    @property
    def is_tied(self) -> bool | None:
        """Not distinguishable from the best of its column; None: not compared."""
        return None if self.tier is None else self.tier == BEST


@dataclass(frozen=True, slots=True)
class Table:
    """What a report shows: rows in the order of task and model."""

    rows: tuple[Row, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)
    """runs that are not done, counted by state"""
    notes: tuple[str, ...] = ()
    """what a reader must know besides, a line each"""


def read_table(
    store: Store,
    where: RunFilter | None = None,
    metric: str = "",
    by_part: bool = False,
    compare: bool = True,
    memory: Path | None = None,
) -> Table:
    """The finished runs asked for with their primary scores, or with those of `metric`.

    `by_part` gives every part and group of parts a row of its own. Without `compare`
    there are no tiers, which saves reading predictions; so does `memory`, a folder that remembers
    tiers from the last time.
    """
    where = where or RunFilter()
    _check_names(store, where)
    runs = store.runs(where)
    done = [run for run in runs if run.state == "done"]
    rows = _rows(done, store.scores(where), metric, by_part)
    if metric and done and not rows:
        known = {score.metric for scores in store.scores(where).values() for score in scores}
        raise UnknownName("metric of these runs", metric, known)
    rows = _in_one_unit([_with_outcomes(store, row) for row in rows])
    notes: list[str] = []
    if compare and not by_part:
        rows = _with_tiers(store, rows, Memory(memory))
        notes = _without_tiers(store, rows)
    states = [run.state for run in runs if run.state != "done"]
    left_out = {state: states.count(state) for state in sorted(set(states))}
    return Table(tuple(rows), left_out, tuple(notes))


def plain_rows(table: Table) -> list[dict[str, Any]]:
    """What programs read: one flat mapping of JSON values per score."""
    return [_plain(row) for row in table.rows]


def _plain(row: Row) -> dict[str, Any]:
    spec, score = row.run.spec, row.score
    asked = {each.name: getattr(spec, each.name) for each in fields(RunSpec)}
    found = {each.name: getattr(score, each.name) for each in fields(Score)}
    for name in ("value", "low", "high"):
        found[name] = None if found[name] is None or math.isnan(found[name]) else found[name]
    is_stored = row.run.id > 0  # a group of tasks is worked out, not run
    return {
        **asked,
        **found,
        "tier": row.tier,
        "is_tied_with_best": row.is_tied,
        "n_items": row.run.n_items,
        "n_answered": row.run.n_ok,
        "seconds": row.run.seconds,
        "finished": row.run.finished,
        "run": row.run.id if is_stored else None,
        "key": row.run.key if is_stored else None,
        "app": row.run.app,
    }


def task_name(spec: RunSpec) -> str:
    """As it is typed: `newt`, `newt@simpleshot`."""
    return f"{spec.task}@{spec.task_variant}" if spec.task_variant else spec.task


def column_facts(spec: RunSpec) -> dict[str, Any]:
    """All that must be equal within a column, flat."""
    named = {each.name: getattr(spec, each.name) for each in fields(RunSpec)}
    facts = {name: value for name, value in named.items() if name not in (*_ROW_FACTS, "settings")}
    return {**facts, **dict(_flat(spec.settings))}


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _rows(
    runs: Sequence[Run], scores: Mapping[int, list[Score]], metric: str, by_part: bool
) -> list[Row]:
    columns, models = column_labels(runs), model_labels(runs)
    rows = []
    for run in runs:
        wanted = metric or next((s.metric for s in scores.get(run.id, []) if s.is_primary), "")
        rows += [
            Row(run, score, models[run.id], columns[run.id])
            for score in scores.get(run.id, [])
            if score.metric == wanted and (by_part or not score.part)
        ]
    return rows


def model_labels(runs: Sequence[Run]) -> dict[int, str]:
    """What the model of each run is called, by the run's id; versions are told apart."""
    versions: dict[str, set[str]] = {}
    for run in runs:
        versions.setdefault(run.spec.model, set()).add(run.spec.model_version)

    def label(spec: RunSpec) -> str:
        is_alone = len(versions[spec.model]) == 1
        return (
            spec.model if is_alone else f"{spec.model} ({spec.model_version[:8] or 'no version'})"
        )

    return {run.id: label(run.spec) for run in runs}


def column_labels(runs: Sequence[Run]) -> dict[int, str]:
    """The heading of each run, by its id."""
    by_task: dict[str, list[Run]] = {}
    for run in runs:
        by_task.setdefault(task_name(run.spec), []).append(run)
    labels: dict[int, str] = {}
    for name, mine in by_task.items():
        facts = {run.id: {k: _short(v) for k, v in column_facts(run.spec).items()} for run in mine}
        known = list(dict.fromkeys(key for each in facts.values() for key in each))
        telling = _telling(known, list(facts.values()))
        for run in mine:
            lines = [f"{k.rpartition('.')[2]}={facts[run.id].get(k, '-')}" for k in telling]
            labels[run.id] = "\n".join([name, *lines])
    return labels


def _telling(known: Sequence[str], facts: Sequence[Mapping[str, str]]) -> list[str]:
    """The first few facts that tell all columns apart; a probe's settings differ with the probe."""
    chosen: list[str] = []
    n_told = 1
    for key in known:
        n = len({tuple(each.get(k, "-") for k in (*chosen, key)) for each in facts})
        if n > n_told:
            chosen, n_told = [*chosen, key], n
    return chosen


def _short(value: Any) -> str:
    """A value in a heading; what is long is told apart by a hash."""
    text = "all" if value is None else str(value)
    return text if len(text) <= 20 else f"#{draws.digest(text).hex()[:6]}"


def _with_outcomes(store: Store, row: Row) -> Row:
    if row.score.part or row.run.n_ok == row.run.n_items:
        return row
    return replace(row, outcomes=store.outcomes(row.run.id))


def _in_one_unit(rows: Sequence[Row]) -> list[Row]:
    """Whether values of documents are shares is told by the values, and so by each run: a column
    is shown in percent only where all its runs say so."""
    mixed = {
        (row.column, row.score.metric)
        for row in rows
        if has_documents(row.run) and not row.score.is_fraction
    }
    return [
        replace(row, score=replace(row.score, is_fraction=False))
        if (row.column, row.score.metric) in mixed
        else row
        for row in rows
    ]


def _with_tiers(store: Store, rows: Sequence[Row], memory: Memory) -> list[Row]:
    columns: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        columns.setdefault((row.column, row.score.metric), []).append(row)
    tier: dict[int, str] = {}
    for (_, metric), mine in columns.items():
        runs = [row.run for row in mine]
        known = memory.tiers(runs, metric)
        if known is None:
            known = tier_runs(store, runs, metric) or {}
            if known:
                memory.add(runs, metric, known)
        tier |= known
    memory.save()
    return [replace(row, tier=tier.get(row.run.id)) for row in rows]


def _without_tiers(store: Store, rows: Sequence[Row]) -> list[str]:
    """Why documents of several models were not compared, a line per column."""
    columns: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if has_documents(row.run) and row.tier is None:
            columns.setdefault((row.column, row.score.metric), []).append(row)
    return [
        f"no tiers for {column.replace(chr(10), ' ')}: {why_not_paired(metric)}"
        for (column, metric), mine in columns.items()
        if len(mine) > 1 and metric_of(store, mine[0].run, metric) is None
    ]


def _check_names(store: Store, where: RunFilter) -> None:
    """A name that no run has is a slip, not an empty table."""
    runs = store.runs()
    for kind, patterns, known in (
        ("model", where.models, {run.spec.model for run in runs}),
        ("task", where.tasks, {run.spec.task for run in runs}),
    ):
        for pattern in patterns:
            if runs and pattern not in known and not any(fnmatchcase(n, pattern) for n in known):
                raise UnknownName(f"{kind} in these results", pattern, known, "fieldmark table")
