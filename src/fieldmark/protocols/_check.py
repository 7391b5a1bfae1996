"""Validation of a task: which names in it does nobody know, and which data can it not use?

Asked before anything starts: a misspelt metric must not be found out after hours of embedding.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial

import polars as pl

from fieldmark.data import load_dataset, rows_seen
from fieldmark.errors import CodeNotRun, DataError, FieldmarkError, UsageError, meant
from fieldmark.metrics import load_metric
from fieldmark.protocols._contract import Protocol, has_block, load_protocol, protocols
from fieldmark.protocols._question import ASKING_ONLY, MissingData, Workspace
from fieldmark.registry import short_name
from fieldmark.tasks import Problem, Task, problems_of
from fieldmark.tasks.split import (
    Draw,
    PartItems,
    draw_test,
    draw_train,
)
from fieldmark.words import counted

TABLE_KEYS = frozenset({"dataset", "data", "options"})
"""keys of a task without which its data cannot be read"""
ROW_KEYS = frozenset(Task.model_fields) - ASKING_ONLY - {"task", "version"}
"""keys that say which rows train and test"""


def task_problems(task: Task, asked_by: Collection[str] | None = None) -> list[str]:
    """One line for each name and parameter that is not known, with its place in the file.

    `asked_by` are the protocols whose blocks matter: loading a probe to look at its parameters
    takes seconds. None = all.
    """
    problems = _dataset_problems(task)
    problems += _look(task, partial(load_metric, task.metric), "metric")
    for index, metric in enumerate(task.also):
        problems += _look(task, partial(load_metric, metric), "also", index)
    if not problems:
        problems += _look(task, partial(_check_fit, task), "metric")
    for name in task.protocols:
        if asked_by is None or name in asked_by:
            problems.extend(load_protocol(name).problems(task))
    return problems


def _look(task: Task, load: Callable[[], object], *key: str | int) -> list[str]:
    try:
        load()
    except CodeNotRun:  # the name is there, and no more is asked
        return []
    except FieldmarkError as error:
        return [f"{task.line_of(*key)}  {error}"]
    return []


def _dataset_problems(task: Task) -> list[str]:
    problems = _look(task, partial(load_dataset, task.dataset), "dataset")
    for name in () if problems else task.options:
        problems += _look(task, partial(_check_option, task, name), "options", name)
    return problems


def check_data(
    task: Task, workspace: Workspace, wrong: Collection[str] = ()
) -> tuple[list[Problem], str]:
    """What a run would find wrong with the data, what they make doubtful, and what they hold.

    The parts are made as for a run, by every protocol whose block is sound. `wrong` are keys of the
    file that are known to be wrong: what depends on them is not looked at.
    """
    if TABLE_KEYS & set(wrong) or _dataset_problems(task):
        return [], ""
    every = [load_protocol(name) for name in task.protocols]
    problems: list[Problem] = [] if every or set(wrong) & set(protocols()) else _no_block(task)
    seen = ""
    for protocol in [one for one in every if not one.problems(task)] or [Protocol()]:
        try:
            if ROW_KEYS & set(wrong):
                workspace.table(task)
                continue
            of_parts, holds = _check_parts(task, protocol, workspace)
        except CodeNotRun:
            continue
        except FieldmarkError as error:
            problems += as_problems(error)
            continue
        problems, seen = problems + of_parts, seen or holds
    return problems, seen


def _no_block(task: Task) -> list[Problem]:
    if any(one.reads(task) and not has_block(one) for one in protocols().values()):
        return []  # one of the user's that needs none
    text = "no block says how models are asked: add one, such as `probe: {classifier: simpleshot}`."
    return [Problem("error", "key", "", text)]


def _check_parts(task: Task, protocol: Protocol, workspace: Workspace) -> tuple[list[Problem], str]:
    learns, settings = protocol.training == "needed", protocol.Settings()
    part_task, draw = task.cell(learns)
    why = protocol.why_not(part_task, draw, settings, protocol.needs[0])
    if why:  # a flag may say what is missing
        return [Problem("warning", "key", "", f"{why}.")], ""
    question = protocol.prepare(part_task, draw, settings, workspace)
    doubts = [Problem("warning", "data", "", line) for line in question.warnings()]
    return doubts, _parts_seen(task, question.parts, draw, learns or draw.n_train != 0)


def _parts_seen(task: Task, parts: Sequence[PartItems], draw: Draw, has_training: bool) -> str:
    """What a run would train and test on, in words."""
    frames = []
    for part in parts:
        every = {"test": draw_test(task, part, draw, 0)}
        if has_training and not task.is_leave_one_out:
            every["train"] = draw_train(task, part, draw, 0)
        for split, rows in every.items():
            name = None if task.is_leave_one_out else split
            frames.append(rows.select("id", "target", split=pl.lit(name, pl.String)))
    rows = pl.concat(frames)
    if len(parts) > 1:
        return f"{counted(len(parts), 'part')}, {counted(rows['id'].n_unique(), 'photo')}"
    return rows_seen(rows.rename({"target": "label"}))


def as_problems(error: FieldmarkError) -> list[Problem]:
    """What stops a run from using its data, as `check` tells it."""
    if isinstance(error, MissingData) and error.unchecked:
        missing = problems_of(DataError(error.unchecked), "data", "")
        return [replace(problem, level="warning") for problem in missing]
    return problems_of(error, "key" if isinstance(error, UsageError) else "data", "")


def _check_fit(task: Task) -> None:
    """Do the metrics and the labels go together?"""
    for name in (task.metric, *task.also):
        uses, short = load_metric(name).uses, short_name(name)
        if uses == "kinds" and not task.kinds:
            raise UsageError(
                f"metric {short!r} needs the kind of each class: give its column as `kinds`."
            )
        if uses in ("score", "whole") and not task.traits:
            raise UsageError(f"metric {short!r} is for tasks with `traits`; this one has none.")


def _check_option(task: Task, name: str) -> None:
    parameters = list(inspect.signature(load_dataset(task.dataset).table).parameters.values())[1:]
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return
    names = [parameter.name for parameter in parameters]
    if name not in names:
        takes = ", ".join(names) or "none"
        raise UsageError(
            f"dataset {task.dataset!r} has no option {name!r}.{meant(name, names)} "
            f"It takes {takes}."
        )
