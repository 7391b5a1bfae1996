"""Slices (subgroups) and groups of tasks: how good is each model on each class, camera, family, and
on all tasks of a group?

The share of right answers among the photos that share a value of a column; where the task
values answers by rules of its own, the mean of these values. Intervals as everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from fieldmark import draws
from fieldmark.errors import DataError
from fieldmark.report.providers import (
    GroupScores,
    is_valued,
    pairing_metric,
    provider_of,
    value_metric,
    why_not_paired,
)
from fieldmark.report.rows import Row, Table, answered_share
from fieldmark.report.run_labels import columns_of_runs
from fieldmark.report.setup_labels import setup_labels
from fieldmark.store import OK, Run, Score, Store, canonical_json

if TYPE_CHECKING:
    import polars as pl

    from fieldmark.metrics import Metric

STORED = {"label": "target", "unit": "unit", "part": "part", "repeat": "repeat"}
"""columns that are in the store, whether or not the data are here"""


def sliced(
    store: Store, table: Table, column: str, values: Mapping[str, Mapping[str, str]] | None = None
) -> Table:
    """The table with a row per model and value, in place of one per model.

    `values` gives, for each task by name, the column's value by item id; columns that are stored
    do not need it. Tasks that cannot be sliced are named by the table's notes.
    """
    why = {row.run.id: _why_not(row, column) for row in table.rows}
    able = [row for row in table.rows if not why[row.run.id]]
    unable = {row.run.spec.task: why[row.run.id] for row in table.rows if why[row.run.id]}
    if not able and unable:
        task, reason = next(iter(unable.items()))
        raise DataError(f"task {task!r}: {reason}: --by {column} has nothing to show.")
    rows = []
    for row in able:
        frame = _with_slice(store, row, column, (values or {}).get(row.run.spec.task))
        rows += [replace(row, score=score, tier=None) for score in _scores(row, store, frame)]
    notes = [f"not shown: task {task!r}: {reason}" for task, reason in unable.items()]
    return Table(tuple(rows), table.left_out, (*table.notes, *notes))


def _why_not(row: Row, column: str) -> str:
    if not is_valued(row.run):
        return ""
    if column not in STORED:
        return "only the label and unit of its photos are stored, not their other columns"
    return "" if value_metric(row.run) else why_not_paired(row.run, row.score.metric)


def _with_slice(
    store: Store, row: Row, column: str, values: Mapping[str, str] | None
) -> pl.DataFrame:
    import polars as pl

    frames: list[pl.DataFrame] = []
    for run in row.runs:  # the draws of all seeds, one after another
        start = sum(frame["repeat"].n_unique() for frame in frames)
        predictions = store.predictions(run.id)
        frames.append(predictions.with_columns(pl.col("repeat") + start))
    frame = pl.concat(frames)
    if values is None:
        kind = pl.col(STORED[column]).cast(pl.String)
        return frame.with_columns(kind.fill_null("(none)").alias("slice"))
    kinds = pl.Series("slice", [values.get(item) for item in frame["id"]], pl.String)
    kept = frame.with_columns(kinds).filter(pl.col("slice").is_not_null())
    if kept.is_empty():
        raise DataError(
            f"task {row.run.spec.task!r}: none of its photos has a {column!r} in the data here: "
            "expected the data that the runs used."
        )
    return kept


def _scores(row: Row, store: Store, frame: pl.DataFrame) -> Sequence[Score]:
    """The whole first, then the values by name."""
    import polars as pl

    from fieldmark.metrics import fill_values

    valued = value_metric(row.run)
    metric = pairing_metric(store, row.run, valued or "accuracy")
    if metric is None:
        return []
    if valued:
        is_silent = (frame["outcome"] != OK).to_numpy()
        value = pl.Series("score", fill_values(frame["score"].to_numpy(), is_silent, metric))
        frame = frame.with_columns(value).filter(pl.col("score").is_not_nan())
    wholes = [("", frame)]
    slices = [(str(value), rows) for (value,), rows in frame.group_by(pl.col("slice"))]
    return [
        _score(value, rows, metric, valued)
        for value, rows in (*wholes, *sorted(slices, key=lambda s: s[0]))
    ]


def _score(value: str, rows: pl.DataFrame, metric: Metric, valued: str) -> Score:
    import numpy as np
    import polars as pl

    from fieldmark.protocols import make_score
    from fieldmark.stats import Items

    unit = rows.select(pl.col("unit").fill_null(pl.col("id"))).to_series().to_numpy()
    items = Items(np.zeros(len(rows), np.int64), unit, repeat=rows["repeat"].to_numpy())
    wrong = rows["prediction"].ne_missing(rows["target"]).cast(pl.Int64)
    answer = (rows["score"] if valued else wrong).to_numpy()
    return make_score(valued or "accuracy", items, answer, metric, rows["id"].n_unique(), value)


# --- groups of tasks ---


def with_groups(store: Store, table: Table, metric: str = "") -> Table:
    """The table with a row per model, complete group and averaged metric (or only `metric`)."""
    providers = {id(owner): owner for row in table.rows if (owner := provider_of(row.run))}
    if not providers:
        return table
    models = {_model(row.run): row.model for row in table.rows}
    runs = [run for run in store.runs() if run.state == "done" and _model(run) in models]
    setups = setup_labels(runs, store.record)
    groups = [
        group
        for provider in providers.values()
        for group in provider.group_results(store, runs, store.scores())
    ]
    group_runs = [replace(_group_run(group), id=-number) for number, group in enumerate(groups, 1)]
    columns = columns_of_runs(group_runs)
    rows = [
        Row(
            run,
            score,
            models[_model(run)],
            columns[run.id].label,
            setup=_common_setup(setups, group),
            answered=answered_share(run),
        )
        for run, group in zip(group_runs, groups, strict=True)
        for score in group.scores
        if metric in ("", score.metric)
    ]
    shown = {row.run.id for row in rows}
    texts = [group.words for run, group in zip(group_runs, groups, strict=True) if run.id in shown]
    notes = dict.fromkeys([*texts, *(note for group in groups for note in group.notes)])
    return replace(table, rows=(*table.rows, *rows), notes=(*table.notes, *notes))


def _model(run: Run) -> tuple[str, str]:
    return run.spec.model, run.spec.model_version


def _common_setup(setups: Mapping[int, str], group: GroupScores) -> str:
    """The setup of all members."""
    group_setups = {setups[run.id] for run in group.members}
    return group_setups.pop() if len(group_setups) == 1 else ""


def _group_run(group: GroupScores) -> Run:
    """A run that was never done: what a table needs to show the group's scores."""
    member = group.members[0]
    members = [f"{run.spec.task_name} {canonical_json(run.spec.settings)}" for run in group.members]
    settings = {"group": draws.digest(*members).hex()}
    data = draws.digest(*(run.spec.data for run in group.members)).hex()[:8]
    spec = replace(member.spec, task=group.group, settings=settings, task_version="", data=data)
    return replace(
        member,
        spec=spec,
        key=spec.key,
        n_items=sum(run.n_items or 0 for run in group.members),
        n_ok=sum(run.n_ok or 0 for run in group.members),
        seconds=sum(run.seconds or 0.0 for run in group.members),
        finished=max(run.finished or "" for run in group.members),
    )
