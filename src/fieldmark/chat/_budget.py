"""How much may this cost, and how much has it cost?

Before a request is sent its estimated cost is reserved; returned usage settles it. New requests
start only while spent + reserved stay within the cap, so that a cap is never overshot by more than
the requests in flight, and only where an estimate was too low. One budget may serve many runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from fieldmark.chat._cards import Card
from fieldmark.chat._messages import Answer, Usage
from fieldmark.errors import UsageError


@dataclass(frozen=True, slots=True)
class Cost:
    """Tokens, and money where the price is known."""

    tokens_in: int = 0
    tokens_out: int = 0
    usd: float | None = None

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out


def price(card: Card, tokens_in: int, tokens_out: int) -> Cost:
    return Cost(tokens_in, tokens_out, card.usd(Usage(tokens_in, tokens_out)))


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
                "kept: add usd_in and usd_out under [[chat_models]] in fieldmark.toml, or cap "
                "max_tokens."
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
