"""What do the first documents of a task look like, as a model would be asked?

For a person to read before money is spent. The code of the task runs here, in this process.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fieldmark.errors import FieldmarkError
from fieldmark.lmms.ask.fields import Fields
from fieldmark.lmms.ask.settings import prompt_kwargs, target_kwargs
from fieldmark.lmms.check.problems import Problem, problems_of
from fieldmark.lmms.data.documents import Documents, Split, open_documents
from fieldmark.lmms.data.pictures import to_picture
from fieldmark.lmms.metrics.values import gold_places
from fieldmark.lmms.read.schema import DocumentTask

_NUMBER = re.compile(r"document \d+: (?:target .* is none)?")


@dataclass(frozen=True, slots=True)
class RenderedDocument:
    row: int
    text: str
    target: Any
    choices: list[Any] | None
    visuals: list[str]
    """what each picture is: `640×480`, `file.png`"""
    gold: Any = None
    """what names the right choice: the target, or the text where each choice is an input"""


@dataclass(frozen=True, slots=True)
class Rendered:
    """The first documents of one task."""

    task: str
    split: str = ""
    n: int = 0
    """documents in the split"""
    documents: tuple[RenderedDocument, ...] = ()
    problems: tuple[Problem, ...] = ()


def render_documents(task: DocumentTask, n: int, cache: Path, fetch: bool) -> Rendered:
    """Opens the data; everything that goes wrong is a problem, never an exception."""
    place = task.place_of("dataset_path")
    try:
        documents = open_documents(task, cache, fetch)
        split = documents.test
    except FieldmarkError as error:
        return Rendered(task.task, problems=tuple(problems_of(error, "data", place)))
    fields = Fields(task, prompt_kwargs(task, ()), target_kwargs(task, ()), split.columns)
    shown: list[RenderedDocument] = []
    wrong: list[Problem] = []
    for row in range(min(n, len(split))):
        try:
            shown.append(_rendered(fields, split, row))
        except FieldmarkError as error:
            wrong += problems_of(error, "document", task.place_of("task"))
        else:
            wrong += _unanswerable(task, shown[-1])
    if task.process_results is None and not fields.has_choices and fields.odd_target:
        place = task.place_of("doc_to_target")
        wrong.append(Problem("warning", "document", place, f"{fields.odd_target}."))
    problems = (*_notes(documents), *_first_of_each(wrong))
    return Rendered(task.task, split.name, len(split), tuple(shown), problems)


def _first_of_each(problems: list[Problem]) -> list[Problem]:
    """What is wrong with several documents for one reason is told of the first."""
    by_reason: dict[tuple[str, str], Problem] = {}
    for each in problems:
        by_reason.setdefault((each.place, _NUMBER.sub("", each.text)), each)
    return list(by_reason.values())


def _unanswerable(task: DocumentTask, document: RenderedDocument) -> list[Problem]:
    """No choice can be right where the target is none of them."""
    if task.output_type != "multiple_choice" or document.choices is None:
        return []
    choices = [str(each) for each in document.choices]
    if gold_places(document.gold, choices):
        return []
    text = f"document {document.row}: target {document.gold!r} is none of the choices."
    return [Problem("warning", "document", task.place_of("doc_to_target"), text)]


def _notes(documents: Documents) -> list[Problem]:
    found = (note.partition("  ") for note in documents.notes)
    return [Problem("note", "no effect", place, text) for place, _, text in found]


def _rendered(fields: Fields, split: Split, row: int) -> RenderedDocument:
    doc, task = split.document(row), fields.task
    visuals: list[str] = []
    target = gold = fields.target(doc, row)
    if task.doc_to_messages is not None:
        text = _turns(fields.messages(split.document(row, media=True), row))
    else:
        asked = fields.text(doc, row)
        gold = target if isinstance(asked, str) else asked
        text = f"{fields.description(doc, row)}{asked}"
        if task.doc_to_visual is not None:
            for each in fields.visuals(split.document(row, media=True), row):
                to_picture(each, task.place_of("doc_to_visual"))  # says what cannot be sent
                visuals.append(_picture_words(each))
    choices = None if task.doc_to_choice is None else fields.choices(doc, row)
    return RenderedDocument(row, text, target, choices, visuals, gold)


def _turns(messages: Any) -> str:
    """`user: <image> Which bird is this?`, a line for each turn."""
    lines = []
    for turn in messages if isinstance(messages, list) else [messages]:
        said = turn.get("content") if isinstance(turn, dict) else turn
        parts = said if isinstance(said, list) else [said]
        role = turn.get("role", "user") if isinstance(turn, dict) else "user"
        lines.append(f"{role}: {' '.join(map(_part_words, parts))}")
    return "\n".join(lines)


def _part_words(part: Any) -> str:
    if not isinstance(part, dict):
        return str(part)
    return str(part["text"]) if "text" in part else f"<{part.get('type', 'part')}>"


def _picture_words(visual: Any) -> str:
    size = getattr(visual, "size", None)
    if isinstance(size, tuple) and len(size) == 2:
        return f"{size[0]}×{size[1]}"
    return Path(visual).name if isinstance(visual, (str, Path)) else type(visual).__name__
