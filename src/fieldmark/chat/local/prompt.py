"""Prompt of a local model: which text and which pixels does it read for a list of messages?

Its own chat template decides on the text. A system prompt is always in it: where the template
refuses or drops the role, its words open the first question. Pixels are those of the file, upright,
in RGB and cut: nothing is encoded again on the way. A picture that many requests share (the shots
of a prompt) is hashed and decoded once, as long as there is room.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from PIL import Image

from fieldmark.chat.messages import Message, Picture, PictureKey, Text
from fieldmark.chat.send.pictures import SentPicture, shrunk
from fieldmark.data import open_image
from fieldmark.errors import DataError, ModelError

MOST_PIXELS = 64_000_000
"""decoded pixels kept for later requests: about 200 MB"""
_MOST_HASHES = 100_000


class PixelCache:
    """Pictures of one model, shrunk where its name says so (`max_image_px`)."""

    def __init__(self, long_px: int | None = None, most_pixels: int = MOST_PIXELS) -> None:
        self.long_px, self.most_pixels = long_px, most_pixels
        self._hashes: dict[PictureKey, str] = {}
        self._images: OrderedDict[PictureKey, Image.Image] = OrderedDict()
        self._pixels = 0

    def identify(self, picture: Picture) -> SentPicture:
        """What the journal's key knows the picture by; decodes nothing."""
        key = picture.cache_key and (*picture.cache_key[:2], None)
        digest = self._hashes.get(key) if key else None
        if digest is None:
            digest = hashlib.sha256(picture.read()).hexdigest()
            if key and len(self._hashes) < _MOST_HASHES:
                self._hashes[key] = digest
        if picture.crop is not None:
            cut = f"{digest} {tuple(map(float, picture.crop))}"
            digest = hashlib.sha256(cut.encode()).hexdigest()
        return SentPicture("", "pixels", 0, 0, digest)

    def open(self, picture: Picture) -> Image.Image:
        """The pixels; `DataError` names a picture that cannot be read."""
        key = picture.cache_key
        if key and key in self._images:
            self._images.move_to_end(key)
            return self._images[key]
        name = picture.name or "picture"
        image = open_image(picture.read(), picture.crop, name=name)
        image = shrunk(image, (self.long_px or max(image.size)) / max(image.size))
        if key:
            self._images[key] = image
            self._pixels += image.width * image.height
        while self._pixels > self.most_pixels:
            _, oldest = self._images.popitem(last=False)
            self._pixels -= oldest.width * oldest.height
        return image


@dataclass(frozen=True, slots=True)
class RenderedPrompt:
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
        template = getattr(holder, "chat_template", None)
        if isinstance(template, dict):
            template = template.get("default")
        if isinstance(template, str) and template:
            return template
    raise ModelError(
        f"model {name!r} has no chat template, expected chat_template.jinja in its files: "
        "choose a checkpoint tuned for chat (names often end in -Instruct, -it or -chat)."
    )


def render(processor: Any, template: str, messages: Sequence[Message]) -> RenderedPrompt:
    """The prompt up to where the answer begins. `DataError` where the template refuses it."""
    parts = [(message.role, part) for message in messages for part in message.parts]
    pictures = tuple(part for _, part in parts if isinstance(part, Picture))
    orders = [p.text.strip() for role, p in parts if role == "system" and isinstance(p, Text)]
    text, refusal = _apply(processor, template, messages)
    if orders and (text is None or not all(order in text for order in orders)):
        text, refusal = _apply(processor, template, _without_system(messages))
    if text is None:
        raise DataError(f"the model's chat template refuses these messages: {refusal}.")
    return RenderedPrompt(text, pictures)


def _apply(processor: Any, template: str, messages: Sequence[Message]) -> tuple[str | None, str]:
    """The text, or None and why there is none."""
    from jinja2 import TemplateError

    turns = [
        {"role": message.role, "content": [_part(p) for p in message.parts]} for message in messages
    ]
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
    instructions = [Text(message.text + "\n\n") for message in messages if message.role == "system"]
    turns = [message for message in messages if message.role != "system"]
    first_user = next((i for i, turn in enumerate(turns) if turn.role == "user"), None)
    if first_user is None:
        return [Message("user", tuple(instructions)), *turns]
    turns[first_user] = Message("user", (*instructions, *turns[first_user].parts))
    return turns


def first_line(error: BaseException) -> str:
    """What a library's error says, fit for the middle of one line."""
    lines = str(error).strip().splitlines()
    return lines[0][:160].rstrip(".: ") if lines else type(error).__name__
