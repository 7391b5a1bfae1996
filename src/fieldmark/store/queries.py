"""SQL queries: which runs, parts and scores does the store hold?

Reading only. Whatever is read comes in an order that depends on names and numbers, never on which
process wrote first.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from fieldmark.registry import is_file_reference
from fieldmark.store.database import Database
from fieldmark.store.records import (
    SCORE_COLUMNS,
    Marks,
    Run,
    RunFilter,
    RunSpec,
    Score,
    answer_sum,
    items_key,
    score_sum,
)

_SPEC = (
    "model, task, protocol, settings, n_train, n_test, seed, repeats, task_variant, task_version, "
    "data, model_version"
)
_RUN = (
    f"id, {_SPEC}, key, state, error, created, started, finished, seconds, n_items, n_ok, "
    "fingerprint, app, root, json_extract(record, '$.warnings'), stand_in, is_synthetic"
)
_SCORE = (
    "metric, value, part, low, high, level, n, n_units, method, is_primary, higher_is_better, "
    "is_fraction, warning"
)


def select_runs(database: Database, where: str, values: Sequence[Any]) -> list[Run]:
    """Runs of this condition, in the order of task, variant, protocol, shots, seed, model."""
    order = "task, task_variant, protocol, n_train IS NULL, n_train, seed, model, id"
    runs = []
    for row in database.rows(f"SELECT {_RUN} FROM run WHERE {where} ORDER BY {order}", values):
        model, task, protocol, settings, *rest = row[1:13]
        spec = RunSpec(model, task, protocol, json.loads(settings), *rest)
        *known_facts, warnings, mark, is_synthetic = row[13:]
        run, marks = Run(row[0], spec, *known_facts), Marks(mark, bool(is_synthetic))
        runs.append(replace(run, warnings=tuple(json.loads(warnings or "[]")), marks=marks))
    return runs


_NAMED = "(SELECT run.{0} = name OR run.{0} GLOB name FROM (SELECT ? AS name))"
"""by the very name too: a pattern with brackets does not fit itself"""


_MODEL = (
    "(SELECT (run.model = name OR run.model GLOB name OR run.model_version GLOB name || '#*' "
    "OR substr(run.model_version, 1, length(name) + 1) = name || '#') "
    "AND (mark = '' OR run.model_version GLOB '*#' || mark || '*') "
    "FROM (SELECT ? AS name, ? AS mark))"
)
"""a version begins with the model's name without folders and ends in `#` and its mark"""
_BELOW = (
    "(SELECT run.model GLOB path AND (mark = '' OR run.model_version GLOB '*#' || mark || '*') "
    "FROM (SELECT ? AS path, ? AS mark))"
)
"""a path without its first folders, as a table shows it"""
_ELSEWHERE = (
    f"({_MODEL} AND NOT EXISTS (SELECT 1 FROM run AS other WHERE other.model = ? "
    "OR other.model GLOB ?))"
)
"""a path that no run was given: the file of that name, wherever it was"""


_SHOWN = (
    "(state = 'done' OR NOT EXISTS "
    "(SELECT 1 FROM run AS former WHERE former.key = run.key AND former.data = run.data "
    "AND former.state = 'done'))"
)
"""not what is going to replace a done run"""


def condition(where: RunFilter) -> tuple[str, list[Any]]:
    clauses, values = [_SHOWN], list[Any]()
    if where.models:
        model_conditions = [_model_condition(model) for model in where.models]
        clauses.append("(" + " OR ".join(clause for clause, _ in model_conditions) + ")")
        values += [value for _, known_values in model_conditions for value in known_values]
    clauses_of: list[tuple[str, tuple[Any, ...]]] = [
        (_NAMED.format("task"), where.tasks),
        ("task_variant GLOB ?", where.variants),
        ("(protocol || '/') GLOB (? || '/*')", where.protocols),
        ("n_train IS ?", where.n_train),
        ("seed = ?", where.seeds),
        ("state = ?", where.states),
    ]
    for clause, clause_values in clauses_of:
        if clause_values:
            clauses.append("(" + " OR ".join([clause] * len(clause_values)) + ")")
            values += clause_values
    return " AND ".join(clauses), values


def _model_condition(text: str) -> tuple[str, list[str]]:
    """A name, or `NAME#MARK` with the beginning of a version's mark; a path finds its file."""
    clauses: list[str] = []
    values: list[str] = []
    before, _, after = text.rpartition("#")
    for name, mark in [(text, ""), (before, after)][: 1 + bool(before)]:
        base, question, options = name.partition("?")
        is_path = is_file_reference(base) and "/" in base
        below = ("*/" * is_path) + base + question + re.sub(r"=(?=[^/&][^&]*/)", "=*/", options)
        clauses.append(_MODEL)
        values += [name, mark]
        if below != name:
            clauses.append(_BELOW)
            values += [below, mark]
        if is_path:
            clauses.append(_ELSEWHERE)
            values += [f"{base.rpartition('/')[2]}{question}{options}", mark, name, below]
    return f"({' OR '.join(clauses)})", values


def select_scores(database: Database, where: RunFilter) -> dict[int, list[Score]]:
    """All scores of the runs asked for, by run id; the whole run first, then the parts by name."""
    clauses, values = condition(where)
    rows = database.rows(
        f"SELECT score.run, {_SCORE} FROM score JOIN run ON run.id = score.run WHERE {clauses} "
        "ORDER BY score.run, part, is_primary DESC, metric",
        values,
    )
    scores: dict[int, list[Score]] = {}
    for run, metric, value, *rest in rows:
        *columns, is_primary, is_up, is_fraction, warning = rest
        flags: list[Any] = [bool(is_primary), bool(is_up), bool(is_fraction), warning]
        score = Score(metric, math.nan if value is None else value, *columns, *flags)
        scores.setdefault(run, []).append(score)
    return scores


def find_damage(database: Database) -> Iterator[str]:
    """What is not as it was written, one line each. Reads all of the store."""
    answers = database.connection.execute(
        "SELECT run, text.value, repeat, prediction, outcome, score, info, sum FROM answer "
        "LEFT JOIN text ON text.id = answer.part ORDER BY run, answer.part, repeat"
    )
    for run, part, repeat, *columns, written in answers:
        if answer_sum(columns) != written:
            yield f"run {run}: predictions of part {part!r}, repeat {repeat}"
    lists = database.connection.execute(
        "SELECT id, key, item, target, unit, content FROM item_list"
    )
    for number, key, *packed_items, content in lists:
        if items_key(packed_items, content) != key:
            rows = database.rows("SELECT DISTINCT run FROM answer WHERE items = ?", [number])
            yield f"run {', '.join(str(run) for (run,) in rows)}: what was asked"
    scores = database.connection.execute(
        f"SELECT run, sum, {SCORE_COLUMNS} FROM score ORDER BY run, part, metric"
    )
    for run, written, *columns in scores:
        if score_sum(columns) != written:
            yield f"run {run}: score {columns[1]!r} of part {columns[0]!r}"
