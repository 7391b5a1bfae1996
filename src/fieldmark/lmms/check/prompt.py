"""Can text, target, choices and pictures of a document be made from what the task says?"""

from __future__ import annotations

from collections.abc import Iterator

from fieldmark.errors import FieldmarkError
from fieldmark.lmms.check.problems import Problem
from fieldmark.lmms.read.schema import NOT_RUN, DocumentTask

_TEMPLATES = ("description", "doc_to_text", "doc_to_target", "doc_to_choice")


def prompt_problems(task: DocumentTask) -> Iterator[Problem]:
    yield from _missing(task)
    for key in _TEMPLATES:
        value = getattr(task, key)
        if isinstance(value, str):
            yield from _template(task, key, value)
    visual = task.doc_to_visual
    if isinstance(visual, str) and ("{{" in visual or "{%" in visual):
        text = "doc_to_visual is a template: name a column, or a function with `!function`."
        yield Problem("error", "prompt", task.place_of("doc_to_visual"), text)


def _missing(task: DocumentTask) -> Iterator[Problem]:
    place = task.place_of("output_type") if _says(task, "output_type") else task.place_of("task")
    if task.output_type in NOT_RUN:
        why = NOT_RUN[task.output_type]
        text = f"output_type {task.output_type!r} {why}: fieldmark does not run it."
        yield Problem("note", "not run", place, text)
    if task.doc_to_text is None and task.doc_to_messages is None:
        text = "says neither doc_to_text nor doc_to_messages: nothing would be asked."
        yield Problem("error", "prompt", task.place_of("task"), text)
    if task.output_type == "multiple_choice" and task.doc_to_choice is None:
        text = "output_type 'multiple_choice' needs doc_to_choice: a list, a column or a function."
        yield Problem("error", "prompt", place, text)
    if task.doc_to_target is None and task.process_results is None:
        text = "says neither doc_to_target nor process_results: no answer could be scored."
        yield Problem("error", "prompt", task.place_of("task"), text)


def _says(task: DocumentTask, key: str) -> bool:
    return key in task.model_fields_set


def _template(task: DocumentTask, key: str, value: str) -> Iterator[Problem]:
    from fieldmark.lmms.ask.template import compile_template

    try:
        compile_template(value)
    except FieldmarkError as error:
        yield Problem("error", "template", task.place_of(key), f"{key}: {error}")
