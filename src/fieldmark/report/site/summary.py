"""Summary and charts: what does the page know before a task is opened?

The table of `fieldmark table`: its verdict, rows (a model in one setup) in its order, columns,
and one cell per row and column: score, interval, tier. Small enough to load at once. The page
works out nothing of this. The charts are those of `fieldmark plot`, as Vega-Lite specifications.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fieldmark import draws
from fieldmark.charts import VERSION
from fieldmark.errors import DataError
from fieldmark.models import Checkpoint, families
from fieldmark.protocols import may_fail, protocol_of
from fieldmark.registry import app_version
from fieldmark.report.chance import by_position, position_words
from fieldmark.report.facts import (
    TaskFacts,
    checkpoints,
    images_per_s,
    parameters,
    signatures,
    task_facts,
)
from fieldmark.report.plots import PLOTS, draw, what_it_shows
from fieldmark.report.plots._panel import Results
from fieldmark.report.providers import is_valued
from fieldmark.report.rows import Row, Table, read_table
from fieldmark.report.run_labels import is_drawn_once, model_name
from fieldmark.report.site.pages import public_names, without_folders
from fieldmark.report.table.notes import run_lines
from fieldmark.report.table.ranking import mean_notes, rank_rows
from fieldmark.report.table.text import chance_texts, unanswered_words
from fieldmark.report.table.verdict import is_told, verdict
from fieldmark.report.tiers import Study
from fieldmark.store import RunFilter, Store

CELL = (
    "row", "column", "value", "low", "high", "n", "units", "tier", "unanswered", "seconds", "draws",
    "fit", "left_out",
)  # fmt: skip
"""what stands at which place of a cell; unanswered: what became of items without an answer, in
words; draws: trainings it is a mean of, 0 for one that another draw could change; fit: lines on
what was chosen and on the position of the right option, left_out: on lost images"""


def build_summary(store: Store, where: RunFilter | None = None) -> dict[str, Any]:
    """All of it as JSON values; the same for the same store."""
    return summarise(store, public_table(read_table(store, where)))


def summarise(store: Store, table: Table) -> dict[str, Any]:
    """The same of a table with public names."""
    columns = columns_of(table)
    tasks = list(dict.fromkeys(task_of(rows[0]) for rows in columns.values()))
    ranking = rank_rows(table)
    facts = [
        task_facts(store, next(row.run for row in table.rows if task_of(row) == task))
        for task in tasks
    ]
    return {
        "app": app_version(),
        "until": max((row.run.finished or "" for row in table.rows), default=""),
        "left_out": {
            state: [without_folders(title) for title in titles]
            for state, titles in table.left_out.items()
        },
        "answer": plain_answer(table),
        "verdict": verdict(table),
        "notes": [without_folders(note) for note in (*table.notes, *mean_notes(table))],
        "rows": describe_rows(store, table, ranking.names),
        "summed": {
            "headings": [heading.replace("\n", " ") for heading in ranking.summary],
            "texts": list(ranking.summary.values()),
        },
        "tasks": [
            describe_task(about) | _part_title(table, task, about.title)
            for task, about in zip(tasks, facts, strict=True)
        ],
        "columns": [
            _column(table, name, rows, tasks.index(task_of(rows[0])))
            | {"has_parts": len({part.part for part in store.finished_parts(rows[0].run.id)}) > 1}
            for name, rows in columns.items()
        ],
        "cell": CELL,
        "cells": _cells(store, columns, ranking.names),
        "curves": [
            curve
            for number, rows in enumerate(columns.values())
            for curve in _curves(number, rows, ranking.names)
        ],
    }


def _part_title(table: Table, task: tuple[str, bool], title: str) -> dict[str, str]:
    """The title of a task of which some parts were asked, and no more."""
    task_rows = [row for row in table.rows if task_of(row) == task]
    names = {row.task_name.removeprefix(f"{row.run.spec.task_name}/") for row in task_rows}
    is_whole = any(row.task_name == row.run.spec.task_name for row in task_rows)
    return {} if is_whole or not title else {"title": f"{title}: only {', '.join(sorted(names))}"}


N_NAMED = 2
"""models in the answer, besides the one it begins with"""


def plain_answer(table: Table) -> str:
    """The scores of one task as numbers of photos: "Use A: right on 42 of 100 photos, B on 20".

    "" for several tasks or several questions about one (8 options, all classes), or where the score
    is no share of right answers: the verdict stands alone.
    """
    counted = {row.column_key for row in table.rows if row.is_counted or row.tier is not None}
    rows = [row for row in table.rows if row.is_counted and row.tier is not None]
    if len(counted) != 1 or not rows or rows[0].score.metric != "accuracy":
        return ""
    ordered = sorted(rows, key=lambda row: (-row.score.value, row.name))
    best, *others = ordered
    rest = [f"{row.name} on {round(100 * row.score.value)}" for row in others[:N_NAMED]]
    is_best = sum(row.tier == "A" for row in rows) == 1 and is_told(table, best.column_key)
    lead = f"Use {best.name}: right" if is_best else f"{best.name} is right"
    text = ", ".join([f"{lead} on {round(100 * best.score.value)} of 100 photos", *rest])
    study = table.study.columns.get(best.column_key) if table.study else None
    if study is None or study.blind is None:
        return f"{text}."
    return f"{text}. Always guessing the most common label gets {round(100 * study.blind)}."


def leader(rows: Sequence[Row]) -> int:
    """Which row of a column has the best score; stand-ins lead only each other."""
    sign = 1 if rows[0].score.higher_is_better else -1
    values = [-math.inf if math.isnan(row.score.value) else sign * row.score.value for row in rows]
    return max(range(len(rows)), key=lambda at: (not rows[at].stand_in, values[at]))


def public_table(table: Table) -> Table:
    """The table with models' names that hold no folders: the one that the page shows."""
    models = public_names(row.model for row in table.rows)
    rows = [replace(row, model=models[row.model]) for row in table.rows]
    names = {row.name: shown.name for row, shown in zip(table.rows, rows, strict=True)}
    overall = table.study.overall if table.study else None
    if table.study is None or overall is None:
        return replace(table, rows=tuple(rows))
    standings = tuple(replace(one, name=names[one.name]) for one in overall.standings)
    study = replace(table.study, overall=replace(overall, standings=standings))
    return replace(table, rows=tuple(rows), study=study)


def row_key(name: str) -> str:
    """A word for a row that is good for the name of a file."""
    return draws.digest(name).hex()[:8]


def columns_of(table: Table) -> dict[str, list[Row]]:
    """The rows of each column by the column's name, which is good for a file or an address."""
    columns: dict[str, list[Row]] = {}
    for row in table.rows:
        columns.setdefault(column_name(row), []).append(row)
    return columns


def task_of(row: Row) -> tuple[str, bool]:
    """What has a page of its own: a task, and apart from it the task on synthetic photos."""
    return row.run.spec.task, row.is_synthetic


LONGEST = 80
"""letters of a task's name in the name of a file"""


def column_name(row: Row) -> str:
    """A word that stays the same as long as the heading and the metric do."""
    slug = re.sub(r"[^a-z0-9]+", "-", row.run.spec.task_name.lower()).strip("-")
    return f"{slug[:LONGEST]}-{draws.digest(row.column, row.score.metric).hex()[:6]}"


def _column(table: Table, name: str, rows: Sequence[Row], task: int) -> dict[str, Any]:
    row, score = rows[0], rows[0].score
    heading, *lines = without_folders(row.column).split("\n")
    study = table.study.columns.get(row.column_key) if table.study else None
    alone = [replace(row, is_counted=True) for row in rows]
    sentence = verdict(
        Table(tuple(alone), study=Study({row.column_key: study}, None) if study else None)
    )
    return {
        "name": name,
        "task": task,
        "heading": heading,
        "lines": lines,
        "metric": score.metric,
        "is_up": score.higher_is_better,
        "is_fraction": score.is_fraction,
        "level": score.level,
        "signatures": [without_folders(line) for line in signatures(rows)],
        "is_valued": is_valued(row.run),
        "data": without_folders(row.data),
        "is_counted": row.is_counted,
        "verdict": sentence,
        "is_told": study.is_told_from_blind if study else None,
        "blind": _known(study.blind) if study else None,
        "chance": chance_texts(rows),
        "warning": "; ".join(dict.fromkeys(row.score.warning for row in rows if row.score.warning)),
        "has_replies": any(may_fail(protocol_of(row.run.spec.protocol)) for row in rows),
    }


def _cells(
    store: Store, columns: Mapping[str, Sequence[Row]], names: Sequence[str]
) -> list[list[Any]]:
    position = {name: number for number, name in enumerate(names)}
    return [
        [*_cell(row, position[row.name], number), *_notes(store, row)]
        for number, rows in enumerate(columns.values())
        for row in rows
    ]


def _notes(store: Store, row: Row) -> tuple[list[str], str]:
    lines, lost = run_lines(store.finished_parts(row.run.id), row.run.spec.n_train)
    shares = position_words(by_position(store, row.run))
    if shares:
        lines.append(f"right answers by position of the right option: {shares}")
    return lines, lost


def _cell(row: Row, number: int, column: int) -> list[Any]:
    score = row.score
    unanswered = unanswered_words(row) if row.outcomes else ""
    numbers = [_known(number) for number in (score.value, score.low, score.high)]
    seconds = _known(row.run.seconds)
    rounded_s = None if seconds is None else round(seconds, 1)
    n_draws = 0 if is_drawn_once(row.runs) else row.n_draws
    return [
        number, column, *numbers, score.n, score.n_units, row.tier, unanswered, rounded_s, n_draws,
    ]  # fmt: skip


_SIZES = ("n_train=", "shots=")


def _curves(column: int, rows: Sequence[Row], names: Sequence[str]) -> list[dict[str, Any]]:
    """Models trained on several numbers of images in one setup: the rows, by size."""
    lines: dict[tuple[str, str], dict[tuple[float, str], Row]] = {}
    for row in rows:
        setup_words = [word for word in row.setup.split(", ") if not word.startswith(_SIZES)]
        lines.setdefault((row.model, ", ".join(setup_words)), {})[row.size] = row
    return [
        {
            "column": column,
            "name": f"{model} ({setup})" if setup else model,
            "points": [
                [size[1], names.index(rows_by_size[size].name)] for size in sorted(rows_by_size)
            ],
        }
        for (model, setup), rows_by_size in lines.items()
        if len(rows_by_size) > 1
    ]


def _known(value: float | None) -> float | None:
    """Six figures: more than any reader sees, and half the bytes."""
    return None if value is None or math.isnan(value) else float(f"{value:.6g}")


# --- tasks and models ---


def describe_task(facts: TaskFacts) -> dict[str, Any]:
    """What the page shows of a task and its dataset."""
    about = {"name": facts.name, "title": facts.title, "about": facts.about}
    about["dataset"] = facts.data_title if facts.is_synthetic else facts.data_name
    if not facts.is_known_dataset or facts.is_synthetic:
        return about
    return about | {
        "dataset_title": facts.data_title,
        "licence": facts.licence,
        "citation": facts.citation,
        "homepage": facts.homepage,
    }


def describe_rows(store: Store, table: Table, names: Sequence[str]) -> list[dict[str, Any]]:
    """The rows in the table's order, with what tables and runs know of their models."""
    row_of = {row.name: row for row in table.rows}
    our_families = set(families())
    sizes, speeds = parameters(store, table.rows), images_per_s(store, table.rows)
    rows, unlisted = [], Checkpoint("", licence="")
    for name in names:
        row, speed = row_of[name], speeds.get(row_of[name].model)
        base = model_name(row.run.spec).partition("?")[0]
        listed, family = checkpoints().get(base, unlisted), base.partition("/")[0]
        rows.append(
            {
                "name": name,
                "model": row.model,
                "stand_in": row.stand_in,
                "key": row_key(name),
                "setup": row.setup,
                "family": family if family in our_families else "own",
                "title": listed.title,
                "params": round(sizes[row.model]) if row.model in sizes else None,
                # Speeds are not known better than by three figures.
                "images_per_s": float(f"{speed:.3g}") if speed is not None else None,
                "licence": listed.licence,
                "released": listed.released,
                "source": listed.source,
            }
        )
    return rows


# --- charts ---


_NOTICE = (
    "/* Vega, Vega-Lite and Vega-Embed: copyright University of Washington Interactive Data Lab "
    "and contributors, BSD-3-Clause licence; bundled by vl-convert. */\n"
)
_SNIPPET = "window.vegaEmbed = vegaEmbed;"


def chart_specs(store: Store, table: Table) -> dict[str, dict[str, Any]]:
    """Name → what it shows and its specification, for every plot that a public table can fill."""
    charts = {}
    speed = ("pareto", "speed")
    for name, by in sorted([*((name, "") for name in PLOTS), speed]):
        try:
            spec = draw(name, Results(store, table, by))
        except DataError:  # nothing of what this plot shows
            continue
        title = f"{name}-by-{by}" if by else name
        charts[title] = {"about": what_it_shows(name), "spec": _without_folders(spec)}
    return charts


def vega_script() -> bytes:
    """The libraries that draw specifications, as one classic script."""
    import vl_convert

    bundle = vl_convert.javascript_bundle(_SNIPPET, VERSION)
    return f"{_NOTICE}(() => {{\n{bundle}\n}})();\n".encode()


def _without_folders(value: Any) -> Any:
    if isinstance(value, str):
        return value if value.startswith(("http://", "https://")) else without_folders(value)
    if isinstance(value, dict):
        return {key: _without_folders(inner) for key, inner in value.items()}
    return [_without_folders(inner) for inner in value] if isinstance(value, list) else value
