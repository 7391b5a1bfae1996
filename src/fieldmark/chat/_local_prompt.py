"""Which text does a local model read for a list of messages?

Its own chat template decides. A system prompt is always in it: where the template refuses or drops
the role, its words open the first question.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fieldmark.chat._local_files import first_line
from fieldmark.chat._messages import Message, Picture, Text
from fieldmark.errors import DataError, ModelError


@dataclass(frozen=True, slots=True)
class Prompt:
    """Messages as the model reads them; pictures are opened when their turn comes."""

    text: str
    pictures: tuple[Picture, ...]

    @property
    def size(self) -> tuple[int, int]:
        """By which prompts of like length are put into one batch."""
        return len(self.pictures), len(self.text)


def find_template(name: str, processor: Any) -> str:
    """The chat template of the processor, else of its tokeniser; a model without one is refused."""
    for holder in (processor, getattr(processor, "tokenizer", None)):
        found = getattr(holder, "chat_template", None)
        if isinstance(found, dict):
            found = found.get("default")
        if isinstance(found, str) and found:
            return found
    raise ModelError(
        f"model {name!r} has no chat template, expected chat_template.jinja in its files: "
        "choose a checkpoint tuned for chat (names often end in -Instruct, -it or -chat)."
    )


def render(processor: Any, template: str, messages: Sequence[Message]) -> Prompt:
    """The prompt up to where the answer begins. `DataError` where the template refuses it."""
    pictures = tuple(p for message in messages for p in message.parts if isinstance(p, Picture))
    orders = [
        part.text.strip()
        for m in messages
        if m.role == "system"
        for part in m.parts
        if isinstance(part, Text)
    ]
    text, refusal = _apply(processor, template, messages)
    if orders and (text is None or not all(each in text for each in orders)):
        text, refusal = _apply(processor, template, _without_system(messages))
    if text is None:
        raise DataError(f"the model's chat template refuses these messages: {refusal}.")
    return Prompt(text, pictures)


def _apply(processor: Any, template: str, messages: Sequence[Message]) -> tuple[str | None, str]:
    """The text, or None and why there is none."""
    from jinja2 import TemplateError

    turns = [{"role": each.role, "content": [_part(p) for p in each.parts]} for each in messages]
    try:
        text: str = processor.apply_chat_template(
            turns, chat_template=template, add_generation_prompt=True, tokenize=False
        )
    except (TemplateError, TypeError) as error:
        return None, first_line(error)
    return text, ""


def _part(part: Text | Picture) -> dict[str, str]:
    return {"type": "text", "text": part.text} if isinstance(part, Text) else {"type": "image"}


def _without_system(messages: Sequence[Message]) -> list[Message]:
    words = [Text(m.text + "\n\n") for m in messages if m.role == "system"]
    turns = [message for message in messages if message.role != "system"]
    first = next((i for i, each in enumerate(turns) if each.role == "user"), None)
    if first is None:
        return [Message("user", tuple(words)), *turns]
    turns[first] = Message("user", (*words, *turns[first].parts))
    return turns
