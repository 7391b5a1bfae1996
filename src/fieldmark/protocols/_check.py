"""Validation of a task: which names in it does nobody know?

Asked before anything starts: a misspelt metric must not be found out after hours of embedding.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from functools import partial

from fieldmark.data import load_dataset
from fieldmark.errors import CodeNotRun, FieldmarkError, UsageError, meant
from fieldmark.metrics import load_metric
from fieldmark.protocols._contract import load_protocol
from fieldmark.protocols._workspace import Workspace
from fieldmark.registry import short_name
from fieldmark.tasks import Task


def task_problems(task: Task, asked_by: Collection[str] | None = None) -> list[str]:
    """One line for each name and parameter that is not known, with its place in the file.

    `asked_by` are the protocols whose blocks matter: loading a probe to look at its parameters
    takes seconds. None = all.
    """
    problems: list[str] = []

    def look(load: Callable[[], object], *key: str | int) -> None:
        try:
            load()
        except CodeNotRun:  # the name is there, and no more is asked
            return
        except FieldmarkError as error:
            problems.append(f"{task.place_of(*key)}  {error}")

    look(partial(load_dataset, task.dataset), "dataset")
    if not problems:
        for name in task.options:
            look(partial(_check_option, task, name), "options", name)
    look(partial(load_metric, task.metric), "metric")
    for index, metric in enumerate(task.also):
        look(partial(load_metric, metric), "also", index)
    if not problems:
        look(partial(_check_fit, task), "metric")
    for name in task.protocols:
        if asked_by is None or name in asked_by:
            problems.extend(load_protocol(name).problems(task))
    return problems


def data_warnings(task: Task, at: Workspace) -> list[str]:
    """One line for each thing that the data make doubtful; nothing where they are not here."""
    if not at.root(task).exists():
        return []
    lines: list[str] = []
    for name in task.protocols:
        try:
            lines += load_protocol(name).warnings(task, at)
        except CodeNotRun:
            continue
        except FieldmarkError as error:  # the data are broken: told by who reads them
            lines.append(str(error).splitlines()[0])
    return list(dict.fromkeys(lines))


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
    known = [parameter.name for parameter in parameters]
    if name not in known:
        takes = ", ".join(known) or "none"
        raise UsageError(
            f"dataset {task.dataset!r} has no option {name!r}.{meant(name, known)} "
            f"It takes {takes}."
        )
