"""Which examples does a few-shot prompt show?

Drawn from (seed, task, item), or once for all items when the prefix is to be shared (prompt caches
then read it once). Balanced draws take turns over the classes, each round in a drawn order of its
own, so that every shorter prompt is as balanced as it can be and no label is always the last.
Uniform draws follow the pool. The item that is asked about is never among its own examples. The
examples for k = 3 begin those for k = 10.

    pool = Pool.of(examples, measure)                 each example measured at most once
    shots = choose(pool, item, wanted, Space(room, load of the bare question))
    shots.examples, shots.k_asked, shots.k_used, shots.why
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from fieldmark.chat._prompt_question import Item
from fieldmark.chat._shots_fit import Load, Room, fit
from fieldmark.chat._shots_shuffle import shuffle
from fieldmark.errors import DataError

Measure = Callable[[Item], Load]


@dataclass(frozen=True, slots=True)
class Wanted:
    """How many examples, and how they are drawn."""

    k: int = 0
    """-1 = every one in the pool"""
    task: str = ""
    seed: int = 0
    sampling: Literal["balanced", "uniform"] = "balanced"
    is_shared: bool = False
    """one prefix, byte for byte the same for all items"""


@dataclass(frozen=True, slots=True)
class Shots:
    """The examples of one prompt, in their order, and why there are not more."""

    examples: tuple[Item, ...] = ()
    k_asked: int = 0
    """-1 = all"""
    why: str = ""
    """pool, context, pictures or bytes: what made them fewer; "" = as many as asked"""
    fits: bool = True
    """False: not even the question alone fits the model"""

    @property
    def k_used(self) -> int:
        return len(self.examples)


@dataclass(frozen=True, slots=True)
class Space:
    """The room of a model, and what the question without examples takes of it."""

    room: Room = Room()
    base: Load = Load()
    """with a shared prefix: of the largest question, so that k is the same for all"""


NO_SHOTS = Shots()


@dataclass(frozen=True, slots=True)
class Pool:
    """The examples there are; what each loads is worked out once, when it is first drawn."""

    by_id: Mapping[str, Item]
    ids: tuple[str, ...]
    """sorted, so that draws do not depend on how the examples came"""
    classes: Mapping[str, tuple[str, ...]]
    """label → its ids; traits that hold together are one class"""
    measure: Measure
    loads: dict[str, Load] = field(default_factory=dict, compare=False, repr=False)
    broken: dict[str, str] = field(default_factory=dict, compare=False, repr=False)
    """id → why it cannot be shown: such an example is passed over, as if it were not there"""

    @classmethod
    def of(cls, examples: Iterable[Item], measure: Measure, without: Iterable[str] = ()) -> Pool:
        """`without` are ids that may not be shown: the test items, where the pool holds them too.

        Needed for a shared prefix only: other draws leave out the item they are for.
        """
        barred = set(without)
        kept = [each for each in examples if each.id not in barred]
        by_id = {each.id: each for each in kept}
        if len(by_id) < len(kept):
            raise DataError(f"{len(kept) - len(by_id)} examples share an id: expected unique ids.")
        ids = tuple(sorted(by_id))
        classes: dict[str, list[str]] = {}
        for each in ids:
            example = by_id[each]
            classes.setdefault(example.label or "; ".join(example.labels), []).append(each)
        sorted_classes = {name: tuple(classes[name]) for name in sorted(classes)}
        return cls(by_id, ids, sorted_classes, measure)

    def can_show(self, name: str) -> bool:
        """Measures the example when it is first drawn; one whose picture is broken is noted."""
        if name not in self.loads and name not in self.broken:
            try:
                self.loads[name] = self.measure(self.by_id[name])
            except DataError as error:
                self.broken[name] = str(error)
        return name in self.loads


def choose(pool: Pool, item: Item, wanted: Wanted, space: Space) -> Shots:
    """The examples for one item: as many as asked for, as the pool has, and as fit.

    With k = -1 it ends with the pool.
    """
    drawn: list[Item] = []

    def loads() -> Iterator[Load]:
        for each in _drawn(pool, item, wanted):
            drawn.append(each)
            yield pool.loads[each.id]

    fitted = fit(space.base, loads(), space.room)
    why = fitted.why or ("pool" if fitted.k < wanted.k else "")
    return Shots(tuple(drawn[: fitted.k]), wanted.k, why, fitted.fits)


def _drawn(pool: Pool, item: Item, wanted: Wanted) -> Iterator[Item]:
    """One by one: none is read that no longer fits."""
    order = (pool.by_id[each] for each in _order(pool, item, wanted))
    others = (each for each in order if not _is_same(each, item))
    return others if wanted.k < 0 else islice(others, wanted.k)


def _is_same(example: Item, item: Item) -> bool:
    """The item itself, or a row of another id that shows the same file."""
    if example.id == item.id:
        return True
    names = {(each.name, each.crop) for each in item.pictures if each.name}
    return any((each.name, each.crop) in names for each in example.pictures)


def _order(pool: Pool, item: Item, wanted: Wanted) -> Iterator[str]:
    """Ids in the order they are shown, drawn as far as they are needed."""
    whose = "shared" if wanted.is_shared else f"item {item.id}"
    key = (wanted.seed, wanted.task, whose, "shots")
    if wanted.sampling == "uniform":
        yield from filter(pool.can_show, shuffle(pool.ids, *key))
        return
    queues = {
        name: filter(pool.can_show, shuffle(ids, *key, name)) for name, ids in pool.classes.items()
    }
    for turn in range(max(map(len, pool.classes.values()), default=0)):
        for name in shuffle(tuple(pool.classes), *key, "round", turn):
            yield from islice(queues[name], 1)
