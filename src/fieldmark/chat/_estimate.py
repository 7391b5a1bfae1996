"""How many tokens will a request take, and what will it cost?

Counted before sending: text by a high guess, images by the model's rule or by what a probe request
measured. Every answer's returned usage corrects the next estimates of the same model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fieldmark.chat._budget import Cost, price
from fieldmark.chat._cards import Card
from fieldmark.chat._image_tokens import squares, text_tokens
from fieldmark.chat._messages import Message, Request, Settings, Text, Usage
from fieldmark.chat._pictures import SentPicture

PER_MESSAGE = 4
"""tokens of role and separators; vendors' templates take 3 to 5"""
Size = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Calibration:
    """What one request with and one without an image were charged."""

    width: int
    height: int
    image_tokens: int
    """measured for an image of this size"""
    text_ratio: float = 1.0
    """measured text tokens / guessed ones"""

    def scale(self, card: Card) -> float:
        """Measured / by rule: what the rule's numbers for other sizes are multiplied by."""
        by_rule = _by_rule(card, self.width, self.height)
        return self.image_tokens / max(1, by_rule)


@dataclass(slots=True)
class Estimator:
    """Token counts of one model, sharpened by what comes back."""

    card: Card
    calibration: Calibration | None = None
    _guessed: int = 0
    _charged: int = 0
    _most_out: int = 0
    _sizes: dict[Size, int] = field(default_factory=dict)

    def image(self, width: int, height: int) -> int:
        """Tokens of an image; by its pixels (one per 28 × 28) where no rule is known."""
        found = self._sizes.get((width, height))
        if found is None:
            found = self._count_image(width, height)
            if len(self._sizes) < 4096:
                self._sizes[(width, height)] = found
        return found

    def text(self, text: str) -> int:
        ratio = self.calibration.text_ratio if self.calibration else 1.0
        return max(1, round(text_tokens(text) * ratio))

    def messages(self, messages: Iterable[Message], sizes: Sequence[Size]) -> int:
        """Tokens of a prompt whose pictures have these sizes, in order."""
        total = sum(self.image(*size) for size in sizes)
        for message in messages:
            texts = (part.text for part in message.parts if isinstance(part, Text))
            total += PER_MESSAGE + sum(self.text(each) for each in texts)
        return total

    def request(self, request: Request, pictures: Sequence[SentPicture]) -> int:
        """Prompt tokens, corrected by the answers so far."""
        guess = self.messages(request.messages, [(p.width, p.height) for p in pictures])
        return guess if not self._guessed else round(guess * self._charged / self._guessed)

    def room(self, settings: Settings) -> int:
        """Most tokens an answer may take."""
        return settings.max_output_tokens

    def likely_out(self, settings: Settings) -> int:
        """Tokens an answer takes: the most seen so far, else all the room it has."""
        return min(self._most_out or settings.max_output_tokens, settings.max_output_tokens)

    def cost(self, request: Request, tokens_in: int) -> Cost:
        return price(self.card, tokens_in, self.room(request.settings))

    def learn(self, guessed_in: int, usage: Usage) -> None:
        """`guessed_in` is what `request` said for the prompt that was charged."""
        if guessed_in > 0 and usage.tokens_in > 0:
            raw = guessed_in * self._guessed / self._charged if self._charged else guessed_in
            self._guessed += max(1, round(raw))
            self._charged += usage.tokens_in
        self._most_out = max(self._most_out, usage.tokens_out)

    def _count_image(self, width: int, height: int) -> int:
        tokens = _by_rule(self.card, width, height)
        return round(tokens * self.calibration.scale(self.card)) if self.calibration else tokens


def _by_rule(card: Card, width: int, height: int) -> int:
    known = card.tokens_of_image(width, height)
    return squares(width, height) if known is None else known


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a set of requests will take, for `plan`."""

    n: int
    tokens_in: int
    tokens_out: int
    """if every answer used all its room"""
    usd: float | None
    """None = the price is unknown"""


def estimate(requests: Iterable[tuple[Request, Sequence[Size]]], estimator: Estimator) -> Estimate:
    """Sums over requests and the sizes of their pictures; reads no image."""
    n = tokens_in = tokens_out = 0
    for request, sizes in requests:
        n += 1
        tokens_in += estimator.messages(request.messages, sizes)
        tokens_out += estimator.room(request.settings)
    return Estimate(n, tokens_in, tokens_out, estimator.card.usd(Usage(tokens_in, tokens_out)))
