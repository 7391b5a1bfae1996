"""Budget and cost estimate: how much may this cost, how much will it, and how much has it cost?

Before a request is sent its estimated cost is reserved; returned usage settles it. New requests
start only while spent + reserved stay within the cap, so that a cap is never overshot by more than
the requests in flight, and only where an estimate was too low. One budget may serve many runs.

Estimates count text by a high guess and images by the model's rule; every answer's returned usage
corrects the next estimates of the same model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fieldmark.chat.messages import Answer, AnswerSettings, Message, Request, Text, Usage
from fieldmark.chat.prices import Card, squares, text_tokens
from fieldmark.errors import UsageError

if TYPE_CHECKING:
    from fieldmark.chat.send.pictures import SentPicture

PER_MESSAGE = 4
"""tokens of role and separators; vendors' templates take 3 to 5"""
Size = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Cost:
    """Tokens, and money where the price is known."""

    tokens_in: int = 0
    tokens_out: int = 0
    usd: float | None = None

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out


@dataclass(slots=True)
class Budget:
    """A cap on money, on tokens, on both, or none: then it only counts."""

    max_usd: float | None = None
    max_tokens: int | None = None
    spent_usd: float = 0.0
    spent_tokens: int = 0
    n_unpriced: int = 0
    """answers whose cost is unknown: spent_usd is a lower bound when there are any"""
    reserved_usd: float = 0.0
    reserved_tokens: int = 0

    def check(self, card: Card) -> None:
        """Refuses a cap in money on a model whose price nobody knows."""
        if self.max_usd is not None and not card.is_priced:
            raise UsageError(
                f"the price of chat/{card.provider}/{card.id} is unknown, so max_usd cannot be "
                "kept: give it by --price IN/OUT (US dollars per million tokens, as 0.5/1.5), by "
                "usd_in and usd_out under [[chat_models]] in fieldmark.toml, or cap max_tokens."
            )

    def fits(self, cost: Cost) -> bool:
        """Can this be spent on top of what is spent and promised?"""
        if self.max_usd is not None:
            usd = self.spent_usd + self.reserved_usd + (cost.usd or 0.0)
            if usd > self.max_usd * (1 + 1e-12):
                return False
        tokens = self.spent_tokens + self.reserved_tokens + cost.tokens
        return self.max_tokens is None or tokens <= self.max_tokens

    def reserve(self, cost: Cost) -> None:
        self.reserved_usd += cost.usd or 0.0
        self.reserved_tokens += cost.tokens

    def settle(self, cost: Cost, answer: Answer | None) -> None:
        """Gives the reservation back and books what the answer cost; None = nothing was spent."""
        self.reserved_usd -= cost.usd or 0.0
        self.reserved_tokens -= cost.tokens
        if answer is None or answer.is_replayed:
            return
        if answer.usage is not None:
            self.spent_tokens += answer.usage.total
        elif answer.is_answer:
            self.spent_tokens += cost.tokens
        if answer.usd is not None:
            self.spent_usd += answer.usd
        elif answer.is_answer:
            # A provider that returns no usage has still been paid: count what was reserved.
            self.spent_usd += cost.usd or 0.0
            self.n_unpriced += 1

    @property
    def words(self) -> str:
        """
        >>> Budget(max_usd=2.0, spent_usd=0.5).words
        '$0.50 of $2.00'
        >>> Budget(spent_tokens=1200, n_unpriced=3).words
        '1,200 tokens, price unknown'
        """
        is_unknown = bool(self.n_unpriced) and not self.spent_usd
        if is_unknown or (self.max_tokens is not None and self.max_usd is None):
            cap = f" of {self.max_tokens:,}" if self.max_tokens is not None else ""
            price = ", price unknown" if is_unknown else ""
            return f"{self.spent_tokens:,}{cap} tokens{price}"
        cap = f" of {_dollars(self.max_usd)}" if self.max_usd is not None else ""
        return f"{_dollars(self.spent_usd)}{cap}"


def _dollars(usd: float) -> str:
    return f"${usd:.2f}" if usd >= 0.1 or usd == 0 else f"${usd:.4f}"


@dataclass(slots=True)
class Estimator:
    """Token counts of one model, sharpened by what comes back."""

    card: Card
    _guessed: int = 0
    _charged: int = 0
    _most_out: int = 0
    _sizes: dict[Size, int] = field(default_factory=dict)

    def image(self, width: int, height: int) -> int:
        """Tokens of an image; by its pixels (one per 28 × 28) where no rule is known."""
        size = (width, height)
        if size not in self._sizes:
            by_rule = self.card.tokens_of_image(width, height)
            self._sizes[size] = squares(width, height) if by_rule is None else by_rule
        return self._sizes[size]

    def text(self, text: str) -> int:
        return max(1, text_tokens(text))

    def messages(self, messages: Iterable[Message], sizes: Sequence[Size]) -> int:
        """Tokens of a prompt whose pictures have these sizes, in order."""
        total = sum(self.image(*size) for size in sizes)
        for message in messages:
            texts = (part.text for part in message.parts if isinstance(part, Text))
            total += PER_MESSAGE + sum(map(self.text, texts))
        return total

    def request(self, request: Request, pictures: Sequence[SentPicture]) -> int:
        """Prompt tokens, corrected by the answers so far."""
        guess = self.messages(request.messages, [(p.width, p.height) for p in pictures])
        return guess if not self._guessed else round(guess * self._charged / self._guessed)

    def likely_out(self, settings: AnswerSettings) -> int:
        """Tokens an answer takes: the most seen so far, else all the room it has."""
        return min(self._most_out or settings.max_output_tokens, settings.max_output_tokens)

    def cost(self, request: Request, tokens_in: int) -> Cost:
        """Of a prompt of so many tokens and an answer that uses all its room."""
        tokens_out = request.settings.max_output_tokens
        return Cost(tokens_in, tokens_out, self.card.usd(Usage(tokens_in, tokens_out)))

    def learn(self, guessed_in: int, usage: Usage) -> None:
        """`guessed_in` is what `request` said for the prompt that was charged."""
        if guessed_in > 0 and usage.tokens_in > 0:
            # Guesses are summed as they were before correction, so that the ratio
            # charged / guessed corrects a raw guess and not a corrected one once more.
            raw = guessed_in * self._guessed / self._charged if self._charged else guessed_in
            self._guessed += max(1, round(raw))
            self._charged += usage.tokens_in
        self._most_out = max(self._most_out, usage.tokens_out)


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a set of requests will take, for `plan`."""

    n: int
    tokens_in: int
    tokens_out: int
    """if every answer used all its room"""
    usd: float | None
    """None = the price is unknown"""
    priced_as: str = ""
    """the model whose price it is, where the one asked has no row of its own"""

    def scaled(self, n: int) -> Estimate:
        """What `n` requests like these will take."""
        scale = n / max(self.n, 1)
        usd = None if self.usd is None else self.usd * scale
        tokens = (round(self.tokens_in * scale), round(self.tokens_out * scale))
        return Estimate(n, *tokens, usd, self.priced_as)


def estimate(requests: Iterable[tuple[Request, Sequence[Size]]], estimator: Estimator) -> Estimate:
    """Sums over requests and the sizes of their pictures; reads no image."""
    n = tokens_in = tokens_out = 0
    for request, sizes in requests:
        n += 1
        tokens_in += estimator.messages(request.messages, sizes)
        tokens_out += request.settings.max_output_tokens
    usd, priced_as = estimator.card.usd(Usage(tokens_in, tokens_out)), estimator.card.priced_as
    return Estimate(n, tokens_in, tokens_out, usd, priced_as)
