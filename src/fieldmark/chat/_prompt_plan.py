"""How are all items of a question asked, with examples that fit?

    prompts = plan_prompts(question, asking, FewShot(examples, k=30), Limits(room, measure), items)
    for item in items:
        built = prompts.build(item)          or prompts.turns(item), for circular evaluation

Each example is measured once, however many items show it; the number that fits is found once an
item, by running sums. With a shared prefix it is found once for all: beside the largest question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from fieldmark.chat._messages import Part, Picture, Settings, Text
from fieldmark.chat._prompt import Built, build, example_parts, lasting_parts, rotations
from fieldmark.chat._prompt_question import Asking, Item, Question
from fieldmark.chat._shots import NO_SHOTS, Pool, Shots, Space, Wanted, choose
from fieldmark.chat._shots_fit import Load, Room

if TYPE_CHECKING:
    from fieldmark.chat._estimate import Estimator
    from fieldmark.chat._local import LocalModel
    from fieldmark.chat._model import ChatModel
    from fieldmark.chat._pictures import SentPicture

MeasureParts = Callable[[Sequence[Part]], Load]


@dataclass(frozen=True, slots=True)
class FewShot:
    """The examples there are, and how many are wanted."""

    examples: Sequence[Item] = ()
    k: int = 0
    """-1 = all"""
    sampling: Literal["balanced", "uniform"] = "balanced"
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class Limits:
    """What a model takes, and how parts of a prompt are measured."""

    room: Room = Room()
    measure: MeasureParts = field(default=lambda parts: count_parts(parts))


@dataclass(frozen=True, slots=True)
class Prompts:
    question: Question
    asking: Asking
    wanted: Wanted
    pool: Pool
    limits: Limits
    largest: Load | None = None
    """of all questions without examples, where the prefix is shared"""
    bases: dict[str, Load] = field(default_factory=dict, compare=False, repr=False)
    """item id → what its question takes up without examples"""

    def shots(self, item: Item) -> Shots:
        if self.wanted.k == 0:
            return NO_SHOTS
        base = self.largest
        if base is None and item.id not in self.bases:
            self.bases[item.id] = _base(self.question, item, self.asking, self.limits)
        base = base or self.bases[item.id]
        return choose(self.pool, item, self.wanted, Space(self.limits.room, base))

    def build(self, item: Item) -> Built:
        return build(self.question, item, self.shots(item), self.asking)

    def turns(self, item: Item) -> tuple[Built, ...]:
        """One prompt for each rotation of the options."""
        return rotations(self.question, item, self.shots(item), self.asking)


def plan_prompts(
    question: Question,
    asking: Asking,
    few: FewShot,
    limits: Limits,
    items: Iterable[Item] = (),
) -> Prompts:
    """`items` are those that will be asked; only a shared prefix needs to know them beforehand."""
    n_messages = 2 if asking.layout == "multi_turn" else 0

    def measure(example: Item) -> Load:
        own = limits.measure(example_parts(question, example, asking))
        return own + _frames(n_messages)

    asked = list(items) if few.is_shared else []
    wanted = Wanted(few.k, question.task, asking.seed, few.sampling, few.is_shared)
    pool = Pool.of(few.examples, measure, without=[each.id for each in asked])
    largest = None
    if asked and few.k:
        loads = [_base(question, each, asking, limits) for each in asked]
        largest = Load(
            max(load.tokens for load in loads),
            max(load.pictures for load in loads),
            max(load.n_bytes for load in loads),
        )
    return Prompts(question, asking, wanted, pool, limits, largest)


def _base(question: Question, item: Item, asking: Asking, limits: Limits) -> Load:
    own = limits.measure(lasting_parts(question, item, asking))
    return own + _frames(2)


def _frames(n_messages: int) -> Load:
    """What surrounds so many messages."""
    from fieldmark.chat._estimate import PER_MESSAGE

    return Load(tokens=PER_MESSAGE * n_messages)


def count_parts(parts: Sequence[Part]) -> Load:
    """Pictures only: for models without known limits."""
    return Load(pictures=sum(isinstance(part, Picture) for part in parts))


def limits_of(
    model: ChatModel | LocalModel,
    settings: Settings,
    estimator: Estimator,
    look: Callable[[Picture], SentPicture],
) -> Limits:
    """What a model takes in one request, with room kept for the longest answer it may give."""
    room = Room(
        model.card.context,
        model.settings(settings).max_output_tokens,
        model.limit("max_images"),
        model.limit("max_request_bytes"),
    )
    return Limits(room, measure_with(estimator, look))


def measure_with(estimator: Estimator, look: Callable[[Picture], SentPicture]) -> MeasureParts:
    """Measures as the model counts; `look` makes a picture ready to send (a shelf's `prepare`)."""

    def measure(parts: Sequence[Part]) -> Load:
        total = Load()
        for part in parts:
            if isinstance(part, Text):
                load = Load(estimator.text(part.text), 0, len(part.text.encode()))
            else:
                sent = look(part)
                load = Load(estimator.image(sent.width, sent.height), 1, len(sent.base64))
            total = total + load
        return total

    return measure
