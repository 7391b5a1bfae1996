"""What is wrong with a task in lmms-eval's form, as far as its file tells?

Neither the data nor the network are needed, and no code of the task runs. Names of metrics are
looked up elsewhere (`protocols`), since metrics and tasks do not know each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from fieldmark.errors import DataError, FieldmarkError, meant
from fieldmark.lmms.check.calls import call_problems
from fieldmark.lmms.check.options import option_problems
from fieldmark.lmms.check.problems import Level, Problem, problems_of
from fieldmark.lmms.check.prompt import prompt_problems
from fieldmark.lmms.data.sources import BUILDERS, find_source
from fieldmark.lmms.read.schema import DocumentTask


def field_problems(task: DocumentTask) -> Iterator[Problem]:
    yield from _notes(task)
    yield from _data(task)
    if task.eval_split is None:
        text = "names neither test_split nor validation_split: there is nothing to ask about."
        yield Problem("error", "split", task.place_of("task"), text)
    yield from _splits(task)
    yield from prompt_problems(task)
    yield from option_problems(task)
    yield from call_problems(task)


def _notes(task: DocumentTask) -> Iterator[Problem]:
    for note in task.notes:
        place, _, text = note.partition("  ")
        is_untagged = "without `!function`" in text
        if is_untagged:
            yield Problem("warning", "untagged", place, text)
        else:
            yield Problem("note", "no effect", place, text)


def _data(task: DocumentTask) -> Iterator[Problem]:
    """Files that are named and not there; nothing remote is asked about."""
    if not task.dataset_path:
        text = "dataset_path is missing: it names the dataset, or what reads local files."
        yield Problem("error", "data", task.place_of("task"), text)
        return
    named = [(task.dataset_kwargs or {}).get(key) for key in ("data_files", "data_dir")]
    if "://" in str(named):
        return
    try:
        notes = find_source(task, load=_as_it_is).notes
    except FieldmarkError as error:
        # The data may come later; how it is named must be right now.
        level: Level = "warning" if isinstance(error, DataError) else "error"
        for each in problems_of(error, "data", task.place_of("dataset_path")):
            yield replace(each, level=level)
        return
    for note in notes:
        place, _, text = note.partition("  ")
        yield Problem("note", "no effect", place, text)


def _splits(task: DocumentTask) -> Iterator[Problem]:
    """Where files are named, their splits are: those of a mapping, else `train` alone."""
    files = (task.dataset_kwargs or {}).get("data_files")
    if task.dataset_path not in BUILDERS or not isinstance(files, (str, list, dict)):
        return
    known = [str(name) for name in files] if isinstance(files, dict) else ["train"]
    asked = "test_split" if task.test_split else "validation_split"
    for key in dict.fromkeys((asked, "test_split", "validation_split", "fewshot_split")):
        name = getattr(task, key)
        if name and name not in known:
            level: Level = "error" if key == asked else "warning"  # the others may never be read
            text = f"the dataset has no split {name!r}, it has {', '.join(known)}."
            yield Problem(level, "data", task.place_of(key), f"{text}{meant(name, known)}")


def _as_it_is(value: Any) -> Any:
    return value
