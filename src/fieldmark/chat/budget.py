"""Budget and cost estimate: how much may this cost, how much will it, and how much has it cost?

The moment a request goes out its cost, as estimated from all answers so far, is reserved; returned
usage settles it. A request goes out only while spent + reserved stay within the cap, so that a cap
is never overshot by more than the requests in flight, and only where an estimate was too low. What
came back too late may have been charged all the same: it counts. One budget may serve many runs.

Estimates count text by a high guess and images by the model's rule; every answer's returned usage
corrects the estimates of the same model, those of requests in flight included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from fieldmark.chat.messages import Answer, AnswerSettings, Message, Request, Text, Usage
from fieldmark.chat.prices import Card
from fieldmark.chat.tokens import text_tokens, unknown_squares
from fieldmark.errors import UsageError
from fieldmark.words import counted

if TYPE_CHECKING:
    from fieldmark.chat.send.pictures import SentPicture

PER_MESSAGE = 4
"""tokens of role and separators; vendors' templates take 3 to 5"""
ENOUGH, MARGIN, FIRST_MARGIN = 20, 1.5, 4.0
"""after so many answers, no answer is taken to be longer than the longest times this; before, than
the longest times that
"""
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

    def __add__(self, other: Cost) -> Cost:
        usd = None if self.usd is None or other.usd is None else self.usd + other.usd
        return Cost(self.tokens_in + other.tokens_in, self.tokens_out + other.tokens_out, usd)


@dataclass(slots=True)
class Budget:
    """A cap on money, on tokens, on both, or none: then it only counts."""

    max_usd: float | None = None
    max_tokens: int | None = None
    spent_usd: float = 0.0
    spent_tokens: int = 0
    n_unpriced: int = 0
    """answers whose cost is unknown: spent_usd is a lower bound when there are any"""
    n_answers: int = 0
    """new ones, which are in the journal"""
    late_usd: float = 0.0
    """of spent_usd, what answers may have cost that never arrived"""
    late_tokens: int = 0
    """the same of spent_tokens"""
    n_late: int = 0
    """such answers"""
    batches: dict[str, Cost] = field(default_factory=dict)
    """batches that are handed in or about to be, and what each may cost"""
    _estimators: dict[tuple[str, str], Estimator] = field(default_factory=dict)
    _reserved: dict[int, Callable[[], Cost]] = field(default_factory=dict)
    """requests in flight, and what each costs by what is known now"""

    def check(self, card: Card) -> None:
        """Refuses a cap in money on a model whose price nobody knows."""
        if self.max_usd is not None and not card.is_priced:
            raise UsageError(
                f"the price of chat/{card.provider}/{card.id} is unknown, so --max-usd cannot "
                "be enforced. Give --price IN/OUT (US dollars per million tokens, such as "
                "0.5/1.5), or usd_in and usd_out under [[chat_models]] in fieldmark.toml, or use "
                "--max-tokens."
            )

    def estimator(self, card: Card) -> Estimator:
        """Of a model: what its answers have shown holds for all runs of the budget."""
        return self._estimators.setdefault((card.provider, card.id), Estimator(card))

    @property
    def n_reserved(self) -> int:
        return len(self._reserved)

    @property
    def is_capped(self) -> bool:
        return self.max_usd is not None or self.max_tokens is not None

    def fits(self, cost: Cost) -> bool:
        """Can this be spent on top of what is spent and promised?"""
        if not self.is_capped:
            return True
        promised = [cost_now() for cost_now in self._reserved.values()]
        promised += self.batches.values()
        if self.max_usd is not None:
            usd = self.spent_usd + sum(other.usd or 0.0 for other in (*promised, cost))
            if usd > self.max_usd * (1 + 1e-12):
                return False
        tokens = self.spent_tokens + sum(other.tokens for other in (*promised, cost))
        return self.max_tokens is None or tokens <= self.max_tokens

    @property
    def is_untouched(self) -> bool:
        return not (self.spent_tokens or self.spent_usd or self.batches)

    def refusal(self, cost: Cost) -> str:
        """Why this does not fit.

        >>> Budget(max_usd=0.00001).refusal(Cost(300, 256, usd=0.0007))
        'one question may cost up to $0.0007, and the limit is $0.00001'
        >>> Budget(max_usd=0.5, spent_usd=0.4999, spent_tokens=900).refusal(Cost(300, 256, 0.0007))
        'the budget is used up ($0.50 of $0.50)'
        """
        if not self.is_untouched:
            return f"the budget is used up ({self.words})"
        if self.max_usd is not None and (cost.usd or 0.0) > self.max_usd:
            most, limit = dollars(cost.usd or 0.0), dollars(self.max_usd)
            return f"one question may cost up to {most}, and the limit is {limit}"
        limit = f"{self.max_tokens or 0:,}"
        return f"one question may take up to {cost.tokens:,} tokens, and the limit is {limit}"

    def reserve(self, cost_now: Callable[[], Cost]) -> int:
        """Promises what a request costs; the number is for `charge`."""
        number = max(self._reserved, default=-1) + 1
        self._reserved[number] = cost_now
        return number

    def charge(
        self, number: int, answer: Answer | None, may_be_charged: bool = False
    ) -> Cost | None:
        """Gives a promise back and books what the answer cost; None = there is none. Returns what
        an answer may have cost that never arrived.
        """
        cost = self._reserved.pop(number)()
        if answer is not None:
            self.book(answer, cost)
        elif may_be_charged:
            self.spent_usd += cost.usd or 0.0
            self.late_usd += cost.usd or 0.0
            self.spent_tokens += cost.tokens
            self.late_tokens += cost.tokens
            self.n_late += 1
            return cost
        return None

    def book(self, answer: Answer, cost: Cost) -> None:
        """What an answer cost; `cost` is what counts where the provider does not tell."""
        if answer.is_replayed or not answer.is_answer:
            return
        self.n_answers += 1
        if answer.usage is not None:
            self.spent_tokens += answer.usage.total
        else:
            self.spent_tokens += cost.tokens
        if answer.usd is not None:
            self.spent_usd += answer.usd
        else:
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
        never = f"{counted(self.n_late, 'answer')} that never came"
        is_unknown = bool(self.n_unpriced) and not self.spent_usd
        if is_unknown or (self.max_tokens is not None and self.max_usd is None):
            cap = f" of {self.max_tokens:,}" if self.max_tokens is not None else ""
            price = ", price unknown" if is_unknown else ""
            late = f", including up to {self.late_tokens:,} for {never}"
            return f"{self.spent_tokens:,}{cap} tokens{late if self.late_tokens else ''}{price}"
        cap = f" of {dollars(self.max_usd)}" if self.max_usd is not None else ""
        late = f", including up to {dollars(self.late_usd)} for {never}"
        waiting = sum(cost.usd or 0.0 for cost in self.batches.values())
        more = f", at most {dollars(waiting)} more in batches" if waiting else ""
        return f"{dollars(self.spent_usd)}{cap}{late if self.late_usd else ''}{more}"


def dollars(usd: float) -> str:
    """
    >>> dollars(0.5), dollars(0.0007), dollars(0.00001), dollars(0)
    ('$0.50', '$0.0007', '$0.00001', '$0.00')
    """
    n_decimals = 2 if usd >= 0.1 or usd == 0 else 4 if usd >= 0.0001 else 6
    text = f"{usd:,.{n_decimals}f}"
    return f"${text.rstrip('0') if n_decimals > 4 else text}"


@dataclass(slots=True)
class Estimator:
    """Token counts of one model, sharpened by what comes back."""

    card: Card
    _guessed: int = 0
    _charged: int = 0
    _most_out: int = 0
    _n_answers: int = 0
    _usd_by_card: float = 0.0
    _usd_charged: float = 0.0
    _sizes: dict[Size, int] = field(default_factory=dict)

    def image(self, width: int, height: int) -> int:
        """Tokens of an image. Where no rule is known the estimate is high, as a budget wants it:
        one per 14 × 14 pixels, and not below the 576 that a tile takes in LLaVA-like models.
        """
        size = (width, height)
        if size not in self._sizes:
            by_rule = self.card.tokens_of_image(width, height)
            self._sizes[size] = unknown_squares(width, height) if by_rule is None else by_rule
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

    def guess(self, request: Request, pictures: Sequence[SentPicture]) -> int:
        """Prompt tokens by rule, before any correction."""
        return self.messages(request.messages, [(p.width, p.height) for p in pictures])

    @property
    def charged_share(self) -> float:
        """Of the tokens that prompts were guessed to take, how many were charged; 0: not known."""
        return self._charged / self._guessed if self._guessed else 0.0

    def tokens_in(self, guess: int) -> int:
        """The guess, corrected by the answers so far."""
        return round(guess * (self.charged_share or 1))

    def likely_out(self, settings: AnswerSettings) -> int:
        """Tokens an answer takes: the most seen so far, else all the room it has."""
        return min(self._most_out or settings.max_output_tokens, settings.max_output_tokens)

    @property
    def is_untried(self) -> bool:
        """Has no answer told yet what one costs?"""
        return not self._n_answers

    @property
    def usual_tokens(self) -> int:
        """Of a prompt, as charged so far."""
        return round(self._charged / self._n_answers) if self._n_answers else 0

    def cost(self, settings: AnswerSettings, guess: int, is_with_all_room: bool = False) -> Cost:
        """Of a prompt with this guess. An answer uses all its room until one was seen; in a batch,
        in which none can be waited for, always.
        """
        tokens_in, tokens_out = self.tokens_in(guess), settings.max_output_tokens
        if self._n_answers and not is_with_all_room:
            margin = MARGIN if self._n_answers >= ENOUGH else FIRST_MARGIN
            tokens_out = min(tokens_out, round(self._most_out * margin))
        tokens_out = max(tokens_out, self._most_out)  # some providers let thoughts overrun the room
        usd = self.card.usd(Usage(tokens_in, tokens_out))
        if usd is not None and self._usd_by_card:
            usd *= max(1.0, self._usd_charged / self._usd_by_card)
        return Cost(tokens_in, tokens_out, usd)

    def learn(self, guess: int, answer: Answer) -> None:
        """From an answer to a prompt with this guess."""
        usage = answer.usage
        if usage is None:
            return
        if guess > 0 and usage.tokens_in > 0:
            self._guessed += guess
            self._charged += usage.tokens_in
        self._n_answers += 1
        self._most_out = max(self._most_out, usage.tokens_out)
        by_card = self.card.usd(usage)
        if by_card and answer.usd is not None:
            self._usd_by_card += by_card
            self._usd_charged += answer.usd


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
    fewer_examples: str = ""
    """how many of the examples asked for fit, and why no more; "" = all"""
    likely_usd: float | None = None
    """with prompts and answers as long as those of the model were so far"""

    def scaled(self, n: int) -> Estimate:
        """What `n` requests like these will take."""
        scale = n / max(self.n, 1)
        tokens = (round(self.tokens_in * scale), round(self.tokens_out * scale))
        return replace(self.at_share(scale), n=n, tokens_in=tokens[0], tokens_out=tokens[1])

    def at_share(self, share: float) -> Estimate:
        """At this share of the usual price."""
        usd, likely = (None if x is None else x * share for x in (self.usd, self.likely_usd))
        return replace(self, usd=usd, likely_usd=likely)


@dataclass(frozen=True, slots=True)
class Usual:
    """What requests to a model took so far; 0: not known."""

    tokens_out: float = 0.0
    """of an answer"""
    charged_share: float = 0.0
    """as that of `Estimator`"""


UNKNOWN_USUAL = Usual()
LIKELY_ROOM = 0.1
"""of its room that an answer is taken to need before the first; a label in JSON needs less"""


def estimate(
    requests: Iterable[tuple[Request, Sequence[Size]]],
    estimator: Estimator,
    usual: Usual = UNKNOWN_USUAL,
) -> Estimate:
    """Sums over requests and the sizes of their pictures; reads no image."""
    n = tokens_in = tokens_out = 0
    likely_out = 0.0
    for request, sizes in requests:
        n += 1
        tokens_in += estimator.messages(request.messages, sizes)
        room = request.settings.max_output_tokens
        tokens_out += room
        likely_out += min(room, usual.tokens_out or LIKELY_ROOM * room)
    card, likely_in = estimator.card, round(tokens_in * (usual.charged_share or 1))
    usd = card.usd(Usage(tokens_in, tokens_out))
    likely = card.usd(Usage(likely_in, round(likely_out)))
    return Estimate(n, tokens_in, tokens_out, usd, card.priced_as, likely_usd=likely)
