"""Table rows: which scores stand in a table, and which of a group of tasks?

Those of finished runs. A run whose data were changed in place since, and run again, is superseded:
it is left out, and counted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from fieldmark import draws
from fieldmark.errors import UnknownName
from fieldmark.report.labels import (
    column_labels,
    columns_of_runs,
    data_notes,
    model_labels,
    model_name,
    version_notes,
)
from fieldmark.report.providers import (
    GroupScores,
    is_valued,
    pairing_metric,
    provider_of,
    why_not_paired,
)
from fieldmark.report.tiers import BEST, TierCache, tier_runs
from fieldmark.store import Run, RunFilter, RunSpec, Score, Store, canonical_json


@dataclass(frozen=True, slots=True)
class Row:
    """One score of one run."""

    run: Run
    score: Score
    model: str
    """the model's name; with its version where several are shown"""
    column: str
    """the heading: the task and, on lines of their own, what differs between its columns"""
    data: str = ""
    """which version of the data, where the task stands in several"""
    is_counted: bool = True
    """in means and ranks over tasks; not where the task stands in several data versions"""
    tier: str | None = None
    """A for those not distinguishable from the best of the column, B for the best of the rest and
    those not distinguishable from it, ...; None: not compared"""
    outcomes: Mapping[str, int] = field(default_factory=dict)
    """how many items had which outcome, where not all were answered"""

    @property
    def heading(self) -> str:
        """The column's heading in one line."""
        return self.column.replace("\n", " ")

    @property
    def is_stored(self) -> bool:
        """False for the scores of a group of tasks, which are worked out and not run."""
        return self.run.id > 0

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
    runs, n_superseded = current_runs(store, where)
    done = [run for run in runs if run.state == "done"]
    rows = _rows(done, store.scores(where), metric, by_part)
    if metric and done and not rows:
        known = {score.metric for scores in store.scores(where).values() for score in scores}
        raise UnknownName("metric of these runs", metric, known)
    rows = _in_one_unit([_with_outcomes(store, row) for row in rows])
    shown = list({row.run.id: row.run for row in rows}.values())
    columns = [(row.run.spec.task_name, row.data, row.is_counted) for row in rows]
    notes = [*superseded_note(n_superseded), *version_notes(shown), *data_notes(columns)]
    if compare and not by_part:
        rows = _with_tiers(store, rows, TierCache(memory))
        notes += _without_tiers(store, rows)
    states = [run.state for run in runs if run.state != "done"]
    left_out = {state: states.count(state) for state in sorted(set(states))}
    return Table(tuple(rows), left_out, tuple(notes))


def current_runs(store: Store, where: RunFilter | None = None) -> tuple[list[Run], int]:
    """The runs asked for that are not superseded, and how many are."""
    runs, superseded = store.runs(where or RunFilter()), store.superseded()
    current = [run for run in runs if run.id not in superseded]
    return current, len(runs) - len(current)


def superseded_note(n: int) -> list[str]:
    """
    >>> superseded_note(1)
    ['1 superseded run is not shown (its data changed since): `fieldmark runs ls`.']
    """
    if n == 0:
        return []
    words = "run is not shown (its" if n == 1 else "runs are not shown (their"
    return [f"{n:,} superseded {words} data changed since): `fieldmark runs ls`."]


def plain_rows(table: Table) -> list[dict[str, Any]]:
    """What programs read: one flat mapping of JSON values per score."""
    return [_plain(row) for row in table.rows]


def _plain(row: Row) -> dict[str, Any]:
    spec, score = row.run.spec, row.score
    asked = {attribute.name: getattr(spec, attribute.name) for attribute in fields(RunSpec)}
    result = {attribute.name: getattr(score, attribute.name) for attribute in fields(Score)}
    for name in ("value", "low", "high"):
        result[name] = None if result[name] is None or math.isnan(result[name]) else result[name]
    return {
        **asked,
        **result,
        "model_label": row.model,
        "column": row.column,
        "is_counted": row.is_counted,
        "tier": row.tier,
        "is_tied_with_best": row.is_tied,
        "n_items": row.run.n_items,
        "n_answered": row.run.n_ok,
        "seconds": row.run.seconds,
        "finished": row.run.finished,
        "run": row.run.id if row.is_stored else None,
        "key": row.run.key if row.is_stored else None,
        "app": row.run.app,
    }


def _rows(
    runs: Sequence[Run], scores: Mapping[int, list[Score]], metric: str, by_part: bool
) -> list[Row]:
    columns, models = columns_of_runs(runs), model_labels(runs)
    rows = []
    for run in runs:
        wanted = metric or next((s.metric for s in scores.get(run.id, []) if s.is_primary), "")
        column = columns[run.id]
        rows += [
            Row(run, score, models[run.id], column.label, column.data, column.is_counted)
            for score in scores.get(run.id, [])
            if score.metric == wanted and (by_part or not score.part)
        ]
    return rows


def _with_outcomes(store: Store, row: Row) -> Row:
    if row.score.part or row.run.n_ok == row.run.n_items:
        return row
    return replace(row, outcomes=store.outcomes(row.run.id))


def _in_one_unit(rows: Sequence[Row]) -> list[Row]:
    """Whether a task's own values are shares is told by the values, and so by each run: a column
    is shown in percent only where all its runs say so."""
    mixed = {
        (row.column, row.score.metric)
        for row in rows
        if is_valued(row.run) and not row.score.is_fraction
    }
    return [
        replace(row, score=replace(row.score, is_fraction=False))
        if (row.column, row.score.metric) in mixed
        else row
        for row in rows
    ]


def _with_tiers(store: Store, rows: Sequence[Row], memory: TierCache) -> list[Row]:
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
    """Why several models were not compared item by item, a line per column."""
    columns: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if is_valued(row.run) and row.tier is None:
            columns.setdefault((row.column, row.score.metric), []).append(row)
    return [
        f"no tiers for {mine[0].heading}: {why_not_paired(mine[0].run, metric)}"
        for (_, metric), mine in columns.items()
        if len(mine) > 1 and pairing_metric(store, mine[0].run, metric) is None
    ]


# --- groups of tasks ---


def with_groups(store: Store, table: Table, metric: str = "") -> Table:
    """The table with a row per model, complete group and averaged metric (or only `metric`)."""
    providers = {id(owner): owner for row in table.rows if (owner := provider_of(row.run))}
    if not providers:
        return table
    models = {_model(row.run): row.model for row in table.rows}
    runs = [run for run in store.runs() if run.state == "done" and _model(run) in models]
    groups = [
        group
        for provider in providers.values()
        for group in provider.group_results(store, runs, store.scores())
    ]
    stand_ins = [replace(_stand_in(group), id=-number) for number, group in enumerate(groups, 1)]
    columns = column_labels(stand_ins)
    rows = [
        Row(run, score, models[_model(run)], columns[run.id])
        for run, group in zip(stand_ins, groups, strict=True)
        for score in group.scores
        if metric in ("", score.metric)
    ]
    shown = {row.run.id for row in rows}
    words = [group.words for run, group in zip(stand_ins, groups, strict=True) if run.id in shown]
    notes = dict.fromkeys([*words, *(note for group in groups for note in group.notes)])
    return replace(table, rows=(*table.rows, *rows), notes=(*table.notes, *notes))


def _model(run: Run) -> tuple[str, str]:
    return run.spec.model, run.spec.model_version


def _stand_in(group: GroupScores) -> Run:
    """A run that was never done: what a table needs to show the group's scores."""
    first = group.members[0]
    asked = [f"{run.spec.task_name} {canonical_json(run.spec.settings)}" for run in group.members]
    settings = {"group": draws.digest(*asked).hex()}
    data = draws.digest(*(run.spec.data for run in group.members)).hex()[:8]
    spec = replace(first.spec, task=group.group, settings=settings, task_version="", data=data)
    return replace(
        first,
        spec=spec,
        key=spec.key,
        n_items=sum(run.n_items or 0 for run in group.members),
        n_ok=sum(run.n_ok or 0 for run in group.members),
        seconds=sum(run.seconds or 0.0 for run in group.members),
        finished=max(run.finished or "" for run in group.members),
    )


# --- names ---


def _check_names(store: Store, where: RunFilter) -> None:
    """A name that no run has is a slip, not an empty table."""
    runs = store.runs()
    for pattern in where.models if runs else ():
        if not store.runs(RunFilter(models=(pattern,))):
            known = {*model_labels(runs).values(), *(model_name(run.spec) for run in runs)}
            raise UnknownName("model in these results", pattern, known, "fieldmark table")
    for pattern in where.tasks if runs else ():
        if not store.runs(RunFilter(tasks=(pattern,))):
            known = {run.spec.task for run in runs}
            raise UnknownName("task in these results", pattern, known, "fieldmark table")
