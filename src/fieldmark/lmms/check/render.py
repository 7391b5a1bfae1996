"""Rendering documents: what do the first documents of a task look like, as a model is asked?

For a person to read before money is spent. The code of the task runs here, in this process, where
the user lets it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fieldmark.errors import CodeNotRun, FieldmarkError, MissingExtra
from fieldmark.lmms.ask.fields import Fields
from fieldmark.lmms.ask.settings import prompt_kwargs, target_kwargs
from fieldmark.lmms.data.documents import Split, open_documents
from fieldmark.lmms.data.pictures import folders_for, to_picture
from fieldmark.lmms.metrics.values import gold_places
from fieldmark.lmms.read.schema import DocumentTask
from fieldmark.lmms.run import fetch, in_sandbox
from fieldmark.tasks import Kind, Problem, problems_of
from fieldmark.words import counted

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

    def show(self) -> Iterator[tuple[str, str]]:
        yield f"  document {self.row}", ""
        yield "    text    ", self.text
        yield "    target  ", repr(self.target)
        if self.choices is not None:
            yield "    choices ", " | ".join(map(str, self.choices))
        if self.visuals:
            yield "    visual  ", ", ".join(self.visuals)


@dataclass(frozen=True, slots=True)
class RenderedDocuments:
    """The first documents of one task."""

    task: str
    split: str = ""
    n: int = 0
    """documents in the split"""
    documents: tuple[RenderedDocument, ...] = ()
    problems: tuple[Problem, ...] = ()

    def show(self) -> list[tuple[str, str]]:
        if not self.documents:
            return []
        heading = (f"task {self.task}  split {self.split}, {counted(self.n, 'document')}", "")
        return [heading, *(line for document in self.documents for line in document.show())]

    def plain(self) -> dict[str, Any]:
        shown = ("row", "text", "target", "choices", "visuals")
        rows = [{name: getattr(row, name) for name in shown} for row in self.documents]
        return {"task": self.task, "split": self.split, "n": self.n, "documents": rows}


def render_documents(task: DocumentTask, n: int, cache: Path, may_fetch: bool) -> RenderedDocuments:
    """Opens the data; everything that goes wrong is a problem, never an exception."""
    try:
        fetch(task, cache, may_fetch)
        made: RenderedDocuments = in_sandbox(task, _render_documents, task, n, cache)
    except FieldmarkError as error:
        return _unopened(task, error)
    return made


def _unopened(task: DocumentTask, error: FieldmarkError) -> RenderedDocuments:
    if isinstance(error, CodeNotRun):
        return RenderedDocuments(task.task, problems=(_not_run(task, error),))
    kind: Kind = "package" if isinstance(error, MissingExtra) else "data"
    problems = problems_of(error, kind, task.line_of("dataset_path"))
    return RenderedDocuments(task.task, problems=tuple(problems))


def _render_documents(task: DocumentTask, n: int, cache: Path) -> RenderedDocuments:
    try:
        documents = open_documents(task, cache)
        split = documents.test
    except FieldmarkError as error:
        return _unopened(task, error)
    fields = Fields(task, prompt_kwargs(task, ()), target_kwargs(task, ()), split.columns)
    shown: list[RenderedDocument] = []
    wrong: list[Problem] = []
    for row in range(min(n, len(split))):
        try:
            shown.append(_rendered(fields, split, row))
        except CodeNotRun as error:
            reason = _not_run(task, error)
            return RenderedDocuments(task.task, split.name, len(split), problems=(reason,))
        except FieldmarkError as error:
            wrong += problems_of(error, "document", task.line_of("task"))
        else:
            wrong += _unanswerable(task, shown[-1])
    if task.process_results is None and not fields.has_choices and fields.odd_target:
        where = task.line_of("doc_to_target")
        wrong.append(Problem("warning", "document", where, f"{fields.odd_target}."))
    # What is wrong with several documents for one reason is told of the first.
    by_reason: dict[tuple[str, str], Problem] = {}
    for problem in wrong:
        by_reason.setdefault((problem.place, _NUMBER.sub("", problem.text)), problem)
    notes = (note.partition("  ") for note in documents.notes)
    idle = [Problem("note", "no effect", where, text) for where, _, text in notes]
    problems = (*idle, *by_reason.values())
    return RenderedDocuments(task.task, split.name, len(split), tuple(shown), problems)


def _not_run(task: DocumentTask, error: CodeNotRun) -> Problem:
    text = f"its documents are made by code ({str(error).split('  ')[-2]}): --run-code shows them."
    return Problem("note", "not run", task.line_of("task"), text)


def _unanswerable(task: DocumentTask, document: RenderedDocument) -> list[Problem]:
    """No choice can be right where the target is none of them."""
    if task.output_type != "multiple_choice" or document.choices is None:
        return []
    if gold_places(document.gold, [str(choice) for choice in document.choices]):
        return []
    text = f"document {document.row}: target {document.gold!r} is none of the choices."
    return [Problem("warning", "document", task.line_of("doc_to_target"), text)]


def _rendered(fields: Fields, split: Split, row: int) -> RenderedDocument:
    doc, task = split.document(row), fields.task
    visuals: list[str] = []
    target = gold = fields.target(doc, row)
    if task.doc_to_messages is not None:
        # `user: <image> Which bird is this?`, a line for each turn.
        messages = fields.messages(split.document(row, media=True), row)
        lines = []
        for turn in messages if isinstance(messages, list) else [messages]:
            content = turn.get("content") if isinstance(turn, dict) else turn
            parts = content if isinstance(content, list) else [content]
            role = turn.get("role", "user") if isinstance(turn, dict) else "user"
            lines.append(f"{role}: {' '.join(map(_part_words, parts))}")
        text = "\n".join(lines)
    else:
        question = fields.text(doc, row)
        gold = target if isinstance(question, str) else question
        text = f"{fields.description(doc, row)}{question}"
        if task.doc_to_visual is not None:
            for visual in fields.visuals(split.document(row, media=True), row):
                # says what cannot be sent
                to_picture(visual, task.line_of("doc_to_visual"), folders_for(task))
                visuals.append(_picture_words(visual))
    choices = None if task.doc_to_choice is None else fields.choices(doc, row)
    return RenderedDocument(row, text, target, choices, visuals, gold)


def _part_words(part: Any) -> str:
    if not isinstance(part, dict):
        return str(part)
    return str(part["text"]) if "text" in part else f"<{part.get('type', 'part')}>"


def _picture_words(visual: Any) -> str:
    size = getattr(visual, "size", None)
    if isinstance(size, tuple) and len(size) == 2:
        return f"{size[0]}×{size[1]}"
    return Path(visual).name if isinstance(visual, (str, Path)) else type(visual).__name__
