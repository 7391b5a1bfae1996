"""Prompts: what is said to a model about a document?

The text is what lmms-eval writes: description, examples, question. Pictures stand before the text
they belong to; examples bring their own, in one message or each as a question and its answer. Where
a task has `doc_to_messages`, that function says everything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from fieldmark.chat import Message, MessagePart, Role, Text, assistant, system, user
from fieldmark.errors import UsageError
from fieldmark.lmms.ask.fields import Fields, shown
from fieldmark.lmms.ask.settings import Generation
from fieldmark.lmms.ask.shots import Examples, Shot, question_of
from fieldmark.lmms.code.trust import Function
from fieldmark.lmms.data.documents import DocumentPart
from fieldmark.lmms.data.pictures import PictureFolders, folders_for, to_picture
from fieldmark.lmms.read.schema import DocumentTask

ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True, eq=False)
class Setup:
    """What is the same for all documents of a run."""

    part: DocumentPart
    fields: Fields
    examples: Examples
    generation: Generation
    layout: Literal["single", "multi"] = "single"
    system: str = ""
    """said before everything"""
    prompt_key: str = ""
    """whose entry of `lmms_eval_specific_kwargs` is used"""

    @property
    def task(self) -> DocumentTask:
        return self.part.task


@dataclass(frozen=True, slots=True, eq=False)
class Prompt:
    """One document, asked."""

    text: str
    """as lmms-eval's log calls it: the input"""
    messages: tuple[Message, ...]


def build_prompt(setup: Setup, row: int, question: str | None = None) -> Prompt:
    """`question` takes the place of the document's own text."""
    made = _prompt(setup, row, question)
    if not setup.system:
        return made
    return Prompt(made.text, (system(setup.system), *made.messages))


def _prompt(setup: Setup, row: int, question: str | None) -> Prompt:
    part, fields = setup.part, setup.fields
    if part.task.doc_to_messages is not None and question is None:
        return _own_messages(setup, row)
    doc = part.document(row, media=fields.has_visuals)
    text = question if question is not None else question_of(fields, doc, row)
    visuals = fields.visuals(doc, row) if fields.has_visuals else []
    head = fields.description(doc, row)
    shots = setup.examples.shots(row)
    # As lmms-eval writes them: joined, with one delimiter at the end.
    examples = [_example(setup, shot) + part.task.fewshot_delimiter for shot in shots]
    whole = head + "".join(examples) + text
    if setup.layout == "multi" and shots:
        return Prompt(whole, _turns(setup, head, shots, visuals, text))
    if not any(shot.visuals for shot in shots):
        return Prompt(whole, (user_message(setup, visuals, whole),))
    parts: list[MessagePart] = []
    for number, (shot, example) in enumerate(zip(shots, examples, strict=True)):
        before = head if number == 0 else ""
        parts.extend(user_message(setup, shot.visuals, before + example).parts)
    return Prompt(whole, (user(*parts, *user_message(setup, visuals, text).parts),))


def _example(setup: Setup, shot: Shot) -> str:
    return f"{shot.text}{setup.part.task.target_delimiter}{shot.answer}"


def _turns(
    setup: Setup, head: str, shots: Sequence[Shot], visuals: Sequence[Any], text: str
) -> tuple[Message, ...]:
    turns: list[Message] = []
    for number, shot in enumerate(shots):
        turns.append(user_message(setup, shot.visuals, (head if number == 0 else "") + shot.text))
        turns.append(assistant(shot.answer))
    return (*turns, user_message(setup, visuals, text))


def user_message(setup: Setup, visuals: Sequence[Any] | None, text: str) -> Message:
    """One turn of the user: what is shown, then what is asked."""
    where = setup.task.line_of("doc_to_visual")
    folders = folders_for(setup.task)
    return user(*(to_picture(visual, where, folders) for visual in visuals or ()), Text(text))


def choices_of(setup: Setup, row: int) -> list[str]:
    """The choices of a document; code that makes them may look at its pictures."""
    has_code = isinstance(setup.task.doc_to_choice, Function)
    doc = setup.part.document(row, media=has_code)
    return [str(choice) for choice in setup.fields.choices(doc, row)]


def _own_messages(setup: Setup, row: int) -> Prompt:
    part = setup.part
    given = setup.fields.messages(part.document(row, media=True), row)
    messages = read_messages(given, part.task)
    return Prompt("\n".join(message.text for message in messages if message.text), messages)


def read_messages(given: Any, task: DocumentTask) -> tuple[Message, ...]:
    """What `doc_to_messages` gives, as messages."""
    where, folders = task.line_of("doc_to_messages"), folders_for(task)
    if not isinstance(given, Sequence) or isinstance(given, str) or not given:
        raise UsageError(f"{where}  gives {shown(given)}: expected a list of messages.")
    return tuple(_message(message, where, folders) for message in given)


def _message(given: Any, where: str, folders: PictureFolders) -> Message:
    role = given.get("role") if isinstance(given, Mapping) else None
    if role not in ROLES:
        raise UsageError(
            f"{where}  gives a message {shown(given)}: expected a role of {', '.join(ROLES)}."
        )
    content = given.get("content", "")
    pieces = [content] if isinstance(content, (str, Mapping)) else content
    return Message(cast(Role, role), tuple(_piece(piece, where, folders) for piece in pieces))


def _piece(given: Any, where: str, folders: PictureFolders) -> MessagePart:
    if isinstance(given, str):
        return Text(given)
    kind = given.get("type") if isinstance(given, Mapping) else None
    if kind == "text":
        return Text(str(given.get("text", "")))
    if kind in ("image", "image_url"):
        shown = given.get("url", given.get("image", given.get("image_url")))
        url = shown.get("url") if isinstance(shown, Mapping) else shown
        return to_picture(url, where, folders)
    raise UsageError(f"{where}  gives content {shown(given)}: text and images can be sent.")
