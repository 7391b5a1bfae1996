"""Which pixels does a local model see?

Those of the file, upright, in RGB and cut: nothing is encoded again on the way. A picture that many
requests share (the shots of a prompt) is hashed and decoded once, as long as there is room.


Which text does a local model read for a list of messages?

Its own chat template decides. A system prompt is always in it: where the template refuses or drops
the role, its words open the first question.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from PIL import Image

from fieldmark.chat.messages import Message, Picture, Spot, Text
from fieldmark.chat.send.pictures import SentPicture
from fieldmark.data import open_image
from fieldmark.errors import DataError, ModelError

MOST_PIXELS = 64_000_000
"""decoded pixels kept for later requests: about 200 MB"""
_MOST_HASHES = 100_000


class Album:
    """Pictures of one model, shrunk where its name says so (`max_image_px`)."""

    def __init__(self, long_px: int | None = None, most_pixels: int = MOST_PIXELS) -> None:
        self.long_px, self.most_pixels = long_px, most_pixels
        self._hashes: dict[Spot, str] = {}
        self._images: OrderedDict[Spot, Image.Image] = OrderedDict()
        self._pixels = 0

    def identify(self, picture: Picture) -> SentPicture:
        """What the journal's key knows the picture by; decodes nothing."""
        spot = picture.spot and (*picture.spot[:2], None)
        found = self._hashes.get(spot) if spot else None
        if found is None:
            found = hashlib.sha256(picture.read()).hexdigest()
            if spot and len(self._hashes) < _MOST_HASHES:
                self._hashes[spot] = found
        if picture.crop is not None:
            found = hashlib.sha256(
                f"{found} {tuple(map(float, picture.crop))}".encode()
            ).hexdigest()
        return SentPicture(b"", "pixels", 0, 0, found)

    def open(self, picture: Picture) -> Image.Image:
        """The pixels; `DataError` names a picture that cannot be read."""
        spot = picture.spot
        if spot and spot in self._images:
            self._images.move_to_end(spot)
            return self._images[spot]
        image = self._shrunk(
            open_image(picture.read(), picture.crop, name=picture.name or "picture")
        )
        if spot:
            self._keep(spot, image)
        return image

    def _shrunk(self, image: Image.Image) -> Image.Image:
        scale = (self.long_px or max(image.size)) / max(image.size)
        if scale >= 1:
            return image
        width, height = (max(1, round(side * scale)) for side in image.size)
        return image.resize((width, height), Image.Resampling.LANCZOS)

    def _keep(self, spot: Spot, image: Image.Image) -> None:
        self._images[spot] = image
        self._pixels += image.width * image.height
        while self._pixels > self.most_pixels:
            _, gone = self._images.popitem(last=False)
            self._pixels -= gone.width * gone.height


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


def first_line(error: BaseException) -> str:
    """What a library's error says, fit for the middle of one line."""
    lines = str(error).strip().splitlines()
    return lines[0][:160].rstrip(".: ") if lines else type(error).__name__
