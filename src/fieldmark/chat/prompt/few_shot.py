"""Few-shot examples: which ones does a prompt show, and how many of them fit?

Drawn from (seed, task, item), or once for all items when the prefix is to be shared (prompt caches
then read it once). Balanced draws take turns over the classes, each round in a drawn order of its
own, so that every shorter prompt is as balanced as it can be and no label is always the last.
Uniform draws follow the pool. The item that is asked about is never among its own examples. The
examples for k = 3 begin those for k = 10.

Where an item is offered some of the classes, its examples are of these: others would teach nothing
about the choice. A shared prefix cannot know what each item is offered, so it shows all classes.

Each example is measured once, in tokens, pictures and bytes, however many items show it; running
sums then say how many fit beside the question, with room kept for the answer. With a shared prefix
the number is found once for all: beside the largest question.

    prompts = plan_prompts(question, asking, FewShot(examples, k=30), Limits(room, measure), items)
    for item in items:
        built = prompts.build(item)          or prompts.turns(item), for circular evaluation
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Literal

from fieldmark.chat.budget import PER_MESSAGE, Estimator
from fieldmark.chat.messages import AnswerSettings, MessagePart, Picture, Text
from fieldmark.chat.prompt.build import Built, build, example_parts, lasting_parts, rotations
from fieldmark.chat.prompt.options import offer
from fieldmark.chat.prompt.question import NO_SHOTS, Asking, Item, PromptQuestion, Shots
from fieldmark.draws import lazily_shuffled
from fieldmark.errors import DataError

if TYPE_CHECKING:
    from fieldmark.chat.local.model import LocalModel
    from fieldmark.chat.send.endpoint import ChatModel
    from fieldmark.chat.send.pictures import PictureSize


@dataclass(frozen=True, slots=True)
class PromptSize:
    """What a piece of a prompt takes up."""

    tokens: int = 0
    pictures: int = 0
    n_bytes: int = 0

    def __add__(self, other: PromptSize) -> PromptSize:
        return PromptSize(
            self.tokens + other.tokens,
            self.pictures + other.pictures,
            self.n_bytes + other.n_bytes,
        )


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """What a model takes in one request; None = no limit known."""

    tokens: int | None = None
    """the context, question and answer together"""
    answer_tokens: int = 1024
    """kept free for the answer"""
    pictures: int | None = None
    n_bytes: int | None = None

    def lacks(self, load: PromptSize) -> str:
        """What is too small for a prompt of this size: "context", "pictures", "bytes" or ""."""
        if self.tokens is not None and load.tokens + self.answer_tokens > self.tokens:
            return "context"
        if self.pictures is not None and load.pictures > self.pictures:
            return "pictures"
        return "bytes" if self.n_bytes is not None and load.n_bytes > self.n_bytes else ""


NOTHING, NO_LIMITS = PromptSize(), RequestLimits()


@dataclass(frozen=True, slots=True)
class Fit:
    k: int
    why: str = ""
    """what made it fewer than were offered; "" = all fit"""
    fits: bool = True
    """False: not even the question alone fits"""


def fit(base: PromptSize, loads: Iterable[PromptSize], room: RequestLimits) -> Fit:
    """The largest k such that the question and the first k examples fit.

    >>> fit(PromptSize(100), [PromptSize(50)] * 10, RequestLimits(tokens=1000, answer_tokens=600))
    Fit(k=6, why='context', fits=True)
    """
    total, k = base, 0
    lacking = room.lacks(total)
    if lacking:
        return Fit(0, lacking, fits=False)
    for load in loads:
        total = total + load
        lacking = room.lacks(total)
        if lacking:
            return Fit(k, lacking)
        k += 1
    return Fit(k)


Measure = Callable[[Item], PromptSize]


@dataclass(frozen=True, slots=True)
class ShotDraw:
    """How many examples, and how they are drawn."""

    k: int = 0
    """-1 = every one in the pool"""
    task: str = ""
    seed: int = 0
    sampling: Literal["balanced", "uniform"] = "balanced"
    is_shared: bool = False
    """one prefix, byte for byte the same for all items"""


@dataclass(frozen=True, slots=True)
class Pool:
    """The examples there are; what each loads is worked out once, when it is first drawn."""

    by_id: Mapping[str, Item]
    ids: tuple[str, ...]
    """sorted, so that draws do not depend on how the examples came"""
    classes: Mapping[str, tuple[str, ...]]
    """label → its ids; traits that hold together are one class"""
    measure: Measure
    loads: dict[str, PromptSize] = field(default_factory=dict, compare=False, repr=False)
    broken: dict[str, str] = field(default_factory=dict, compare=False, repr=False)
    """id → why it cannot be shown: such an example is passed over, as if it were not there"""

    @classmethod
    def of(cls, examples: Iterable[Item], measure: Measure, without: Iterable[str] = ()) -> Pool:
        """`without` are ids that may not be shown: the test items, where the pool holds them too.

        Needed for a shared prefix only: other draws leave out the item they are for.
        """
        barred = set(without)
        kept = [example for example in examples if example.id not in barred]
        by_id = {example.id: example for example in kept}
        if len(by_id) < len(kept):
            raise DataError(f"{len(kept) - len(by_id)} examples share an id: expected unique ids.")
        classes: dict[str, list[str]] = {}
        for name, example in sorted(by_id.items()):
            classes.setdefault(example.label or "; ".join(example.labels), []).append(name)
        sorted_classes = {name: tuple(classes[name]) for name in sorted(classes)}
        return cls(by_id, tuple(sorted(by_id)), sorted_classes, measure)

    def can_show(self, name: str) -> bool:
        """Measures the example when it is first drawn; one whose picture is broken is noted."""
        if name not in self.loads and name not in self.broken:
            try:
                self.loads[name] = self.measure(self.by_id[name])
            except DataError as error:
                self.broken[name] = str(error)
        return name in self.loads


def choose(
    pool: Pool,
    item: Item,
    draw: ShotDraw,
    room: RequestLimits = NO_LIMITS,
    base: PromptSize = NOTHING,
    offered: Collection[str] = (),
) -> Shots:
    """The examples for one item: as many as asked for, as the pool has, and as fit.

    `base` is what the question takes up without examples; with a shared prefix, the largest one,
    so that k is the same for all. With k = -1 it ends with the pool. `offered` are the classes
    they may be of; () = all.
    """
    drawn: list[Item] = []

    def sizes() -> Iterator[PromptSize]:
        """One by one: no example is read that no longer fits."""
        order = (pool.by_id[name] for name in _order(pool, item, draw, offered))
        others = (example for example in order if not _is_same(example, item))
        for example in others if draw.k < 0 else islice(others, draw.k):
            drawn.append(example)
            yield pool.loads[example.id]

    fitted = fit(base, sizes(), room)
    why = fitted.why or ("pool" if fitted.k < draw.k else "")
    return Shots(tuple(drawn[: fitted.k]), draw.k, why, fitted.fits, draw.is_shared)


def _is_same(example: Item, item: Item) -> bool:
    """The item itself, or a row of another id that shows the same file."""
    shown = {(picture.name, picture.crop) for picture in item.pictures if picture.name}
    return example.id == item.id or any((p.name, p.crop) in shown for p in example.pictures)


def _order(pool: Pool, item: Item, draw: ShotDraw, offered: Collection[str] = ()) -> Iterator[str]:
    """Ids in the order they are shown, drawn as far as they are needed."""
    whose = "shared" if draw.is_shared else f"item {item.id}"
    key = (draw.seed, draw.task, whose, "shots")
    if draw.sampling == "uniform":
        order = lazily_shuffled(pool.ids, *key)
        allowed = (name for name in order if not offered or pool.by_id[name].label in offered)
        yield from filter(pool.can_show, allowed)
        return
    classes = {name: ids for name, ids in pool.classes.items() if not offered or name in offered}
    queues = {
        name: filter(pool.can_show, lazily_shuffled(ids, *key, name))
        for name, ids in classes.items()
    }
    for turn in range(max(map(len, classes.values()), default=0)):
        for name in lazily_shuffled(tuple(classes), *key, "round", turn):
            yield from islice(queues[name], 1)


MeasureParts = Callable[[Sequence[MessagePart]], PromptSize]


@dataclass(frozen=True, slots=True)
class FewShot:
    """The examples there are, and how many are wanted."""

    examples: Sequence[Item] = ()
    k: int = 0
    """-1 = all"""
    sampling: Literal["balanced", "uniform"] = "balanced"
    is_shared: bool = False


def count_pictures(parts: Sequence[MessagePart]) -> PromptSize:
    """For models without known limits."""
    return PromptSize(pictures=sum(isinstance(part, Picture) for part in parts))


@dataclass(frozen=True, slots=True)
class Limits:
    """What a model takes, and how parts of a prompt are measured."""

    room: RequestLimits = RequestLimits()
    measure: MeasureParts = count_pictures


@dataclass(frozen=True, slots=True)
class Prompts:
    """All prompts of a question."""

    question: PromptQuestion
    asking: Asking
    draw: ShotDraw
    pool: Pool
    limits: Limits
    largest: PromptSize | None = None
    """of all questions without examples, where the prefix is shared"""
    bases: dict[str, PromptSize] = field(default_factory=dict, compare=False, repr=False)
    """item id → what its question takes up without examples"""

    def shots(self, item: Item) -> Shots:
        if self.draw.k == 0:
            return NO_SHOTS
        base = self.largest
        if base is None and item.id not in self.bases:
            self.bases[item.id] = _base(self.question, item, self.asking, self.limits)
        base = base or self.bases[item.id]
        return choose(self.pool, item, self.draw, self.limits.room, base, self._offered(item))

    def why_too_long(self, item: Item) -> str:
        """Why the question alone, without examples, is more than the model takes; "" = it is not.

        `shots` has measured it, unless no examples are wanted.
        """
        size, room = self.largest or self.bases.get(item.id, NOTHING), self.limits.room
        return {
            "context": f"the question takes about {size.tokens:,} tokens and its answer may take "
            f"{room.answer_tokens:,}, but the model's context is {room.tokens or 0:,}: "
            "lower --max-output",
            "pictures": f"the question shows {size.pictures:,} pictures, and max_images allows "
            f"{room.pictures or 0:,}",
            "bytes": f"the question takes {size.n_bytes:,} bytes, and max_request_bytes allows "
            f"{room.n_bytes or 0:,}",
        }.get(room.lacks(size), "")

    def _offered(self, item: Item) -> tuple[str, ...]:
        """The classes the item is offered; () where it is offered all, or the prefix is shared."""
        question = self.question
        if question.kind != "choice" or not question.n_choices or self.draw.is_shared:
            return ()
        return tuple(option.label for option in offer(question, item, self.asking))

    def build(self, item: Item) -> Built:
        return build(self.question, item, self.shots(item), self.asking)

    def turns(self, item: Item) -> tuple[Built, ...]:
        """One prompt for each rotation of the options."""
        return rotations(self.question, item, self.shots(item), self.asking)


def plan_prompts(
    question: PromptQuestion,
    asking: Asking,
    few: FewShot,
    limits: Limits,
    items: Iterable[Item] = (),
) -> Prompts:
    """`items` are those that will be asked; only a shared prefix needs to know them beforehand."""
    n_messages = 2 if asking.layout == "multi_turn" else 0

    def measure(example: Item) -> PromptSize:
        base = limits.measure(example_parts(question, example, asking))
        return base + PromptSize(PER_MESSAGE * n_messages)

    shared_by = list(items) if few.is_shared else []
    draw = ShotDraw(few.k, question.task, asking.seed, few.sampling, few.is_shared)
    pool = Pool.of(few.examples, measure, without=[item.id for item in shared_by])
    largest = None
    if shared_by and few.k:
        sizes = [_base(question, item, asking, limits) for item in shared_by]
        largest = PromptSize(
            max(size.tokens for size in sizes),
            max(size.pictures for size in sizes),
            max(size.n_bytes for size in sizes),
        )
    return Prompts(question, asking, draw, pool, limits, largest)


def _base(question: PromptQuestion, item: Item, asking: Asking, limits: Limits) -> PromptSize:
    base = limits.measure(lasting_parts(question, item, asking))
    return base + PromptSize(PER_MESSAGE * 2)


def limits_of(
    model: ChatModel | LocalModel,
    settings: AnswerSettings,
    estimator: Estimator,
    look: Callable[[Picture], PictureSize],
) -> Limits:
    """What a model takes in one request, with room kept for the longest answer it may give.

    `look` measures a picture as it is sent (`PictureCache.size`).
    """
    room = RequestLimits(
        model.card.context,
        model.settings(settings).max_output_tokens,
        model.limit("max_images"),
        model.limit("max_request_bytes"),
    )

    def measure(parts: Sequence[MessagePart]) -> PromptSize:
        total = PromptSize()
        for part in parts:
            if isinstance(part, Text):
                total += PromptSize(estimator.text(part.text), 0, len(part.text.encode()))
            else:
                size = look(part)
                total += PromptSize(estimator.image(size.width, size.height), 1, size.n_bytes)
        return total

    return Limits(room, measure)
