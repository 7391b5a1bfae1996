"""Table rows: which scores stand in a table, and which of a group of tasks?

Those of finished runs. A row is a model asked in one way, a column a task on one version of its
data by one metric. Runs that differ in nothing but their seed are draws of one cell. A run whose
data were changed in place since, and run again, is superseded: it is left out, and counted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from fieldmark import draws
from fieldmark.errors import UnknownName
from fieldmark.report.cells import Row, fewer_note, join_runs, mark_notes
from fieldmark.report.chance import with_chance
from fieldmark.report.labels import (
    Column,
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
from fieldmark.report.questions import at_one_size, by_options
from fieldmark.report.ways import way_labels
from fieldmark.store import (
    AMONG_ANSWERED,
    ANSWERED_RATE,
    UNANSWERED,
    Run,
    RunFilter,
    RunSpec,
    Score,
    Store,
    canonical_json,
)

if TYPE_CHECKING:
    from fieldmark.report.study import Study


@dataclass(frozen=True, slots=True)
class Table:
    """What a report shows: rows in the order of task and model."""

    rows: tuple[Row, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)
    """runs that are not done, counted by state"""
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
    _check_names(store, where)
    runs, n_superseded = current_runs(store, where)
    done = [run for run in runs if run.state == "done"]
    scores = store.scores(where)
    columns, ways = columns_of_runs(done, where.folders), way_labels(done, store.record)
    rows = _in_one_unit(_rows(done, scores, columns, ways, metric, by_part))
    rows = by_options(store, rows)
    if metric and done and not rows:
        known = {score.metric for mine in scores.values() for score in mine}
        raise UnknownName("metric of these runs", metric, known)
    rows, sizes = at_one_size(rows)
    rows, apart = _drawn_apart(rows)
    rows, once = _counted_once(rows)
    versions = [(row.run.spec.task, row.data, row.is_counted) for row in rows]
    shown = list({row.run.id: row.run for row in rows}.values())
    notes = [*superseded_note(n_superseded), *version_notes(shown), *data_notes(versions), *once]
    notes += [*apart, *mark_notes(rows)]
    study = None
    cells, n_fewer = join_runs(store, rows) if compare or not by_run else ([], 0)
    if not by_run:
        rows = cells
        notes += fewer_note(n_fewer)
    if compare and not by_part:
        from fieldmark.report.study import study_rows

        study = study_rows(store, cells)
        rows = [replace(row, tier=study.tier(row)) for row in rows]
        notes += [*sizes, *study.notes, *_without_tiers(store, rows)]
        rows = with_chance(store, rows)
    rows = [_with_outcomes(store, row) for row in rows]
    states = [run.state for run in runs if run.state != "done"]
    left_out = {state: states.count(state) for state in sorted(set(states))}
    return Table(tuple(rows), left_out, tuple(notes), study)


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
    return [_plain(row, table.study) for row in table.rows]


def _plain(row: Row, study: Study | None) -> dict[str, Any]:
    column = None if study is None else study.columns.get(row.place)
    spec, score = row.run.spec, row.score
    asked = {attribute.name: getattr(spec, attribute.name) for attribute in fields(RunSpec)}
    result = {attribute.name: getattr(score, attribute.name) for attribute in fields(Score)}
    for name in ("value", "low", "high"):
        result[name] = None if result[name] is None or math.isnan(result[name]) else result[name]
    return {
        **asked,
        **result,
        "model_label": row.model,
        "stand_in": row.stand_in,
        "is_synthetic": row.is_synthetic,
        "way": row.way,
        "seeds": sorted(run.spec.seed for run in row.runs),
        "column": row.column,
        "is_counted": row.is_counted,
        "tier": row.tier,
        "chance": None if row.chance is None else row.chance.value,
        "chance_among": None if row.chance is None else row.chance.among,
        "majority": None if column is None else column.blind,
        "is_told_from_majority": None if column is None else column.is_told_from_blind,
        "is_tied_with_best": row.is_tied,
        "n_items": row.run.n_items,
        "n_answered": row.run.n_ok,
        "answered_rate": row.answered,
        "among_answered": row.score.value if row.among is None else row.among,
        **{f"n_{outcome}": row.outcomes.get(outcome, 0) for outcome in UNANSWERED},
        "seconds": row.run.seconds,
        "finished": row.run.finished,
        "run": row.run.id if row.is_stored else None,
        "runs": [run.id for run in row.runs] if row.is_stored else [],
        "key": row.run.key if row.is_stored else None,
        "app": row.run.app,
    }


def _rows(
    runs: Sequence[Run],
    scores: Mapping[int, list[Score]],
    columns: Mapping[int, Column],
    ways: Mapping[int, str],
    metric: str,
    by_part: bool,
) -> list[Row]:
    models = model_labels(runs)
    rows = []
    for run in runs:
        wanted = metric or next((s.metric for s in scores.get(run.id, []) if s.is_primary), "")
        column = columns[run.id]
        whole = {score.metric: score.value for score in scores.get(run.id, []) if not score.part}
        rows += [
            Row(
                run, score, models[run.id], column.label, column.data, column.is_counted,
                way=ways[run.id], answered=whole.get(ANSWERED_RATE, _answered(run)),
                among=whole.get(AMONG_ANSWERED) if score.is_primary else None,
            )
            for score in scores.get(run.id, [])
            if score.metric == wanted and (by_part or not score.part)
        ]  # fmt: skip
    return rows


def _answered(run: Run) -> float:
    """The share of its items, where its scores do not tell that of its questions."""
    return (run.n_ok or 0) / run.n_items if run.n_items else 1.0


def _with_outcomes(store: Store, row: Row) -> Row:
    if row.score.part or all(run.n_ok == run.n_items for run in row.runs):
        return row
    counts: Counter[str] = Counter()
    for run in row.runs:
        counts.update(store.outcomes(run.id))
    return replace(row, outcomes=dict(counts))


def _counted_once(rows: Sequence[Row]) -> tuple[list[Row], list[str]]:
    """A task counts once: where it stands in several columns, the one with most models, of equal
    ones the first by its heading. That column comes first; and a line for each that does not count.
    """
    columns: dict[str, dict[tuple[str, str], set[str]]] = {}
    for row in rows:
        mine = columns.setdefault(row.run.spec.task, {})
        if row.is_counted and not row.score.part:
            models = mine.setdefault(row.place, set())
            models |= set() if row.stand_in else {row.model}
    spare: set[tuple[str, str]] = set()
    for mine in columns.values():
        spare.update(sorted(mine, key=lambda place: (-len(mine[place]), place))[1:])
    notes = [
        f"{heading.replace(chr(10), ' ')} ({metric}) is in no mean and no rank: each task counts "
        "once."
        for heading, metric in sorted(spare)
    ]
    counted = [replace(row, is_counted=False) if row.place in spare else row for row in rows]
    tasks = list(columns)
    counted.sort(key=lambda row: (tasks.index(row.run.spec.task), not row.is_counted))
    return counted, notes


def _drawn_apart(rows: Sequence[Row]) -> tuple[list[Row], list[str]]:
    """Drawings count only where there are no photos: no mean is over both."""
    if len({row.is_synthetic for row in rows}) < 2:
        return list(rows), []
    drawn = dict.fromkeys(row.heading for row in rows if row.is_synthetic)
    note = f"{', '.join(drawn)}: in no mean and no rank, as other tasks have real photos."
    return [replace(row, is_counted=False) if row.is_synthetic else row for row in rows], [note]


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
    ways = way_labels(runs, store.record)
    groups = [
        group
        for provider in providers.values()
        for group in provider.group_results(store, runs, store.scores())
    ]
    group_runs = [replace(_group_run(group), id=-number) for number, group in enumerate(groups, 1)]
    columns = column_labels(group_runs)
    rows = [
        Row(
            run,
            score,
            models[_model(run)],
            columns[run.id],
            way=_common_way(ways, group),
            answered=_answered(run),
        )
        for run, group in zip(group_runs, groups, strict=True)
        for score in group.scores
        if metric in ("", score.metric)
    ]
    shown = {row.run.id for row in rows}
    words = [group.words for run, group in zip(group_runs, groups, strict=True) if run.id in shown]
    notes = dict.fromkeys([*words, *(note for group in groups for note in group.notes)])
    return replace(table, rows=(*table.rows, *rows), notes=(*table.notes, *notes))


def _model(run: Run) -> tuple[str, str]:
    return run.spec.model, run.spec.model_version


def _common_way(ways: Mapping[int, str], group: GroupScores) -> str:
    """The way all members were asked in."""
    mine = {ways[run.id] for run in group.members}
    return mine.pop() if len(mine) == 1 else ""


def _group_run(group: GroupScores) -> Run:
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
