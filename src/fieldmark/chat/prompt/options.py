"""Which options is an item offered, and in which order?

Both are drawn from (seed, task, item): the truth is always among them, its place is as likely as
any other, and neither depends on what else is asked or when. `rotation` turns the drawn order, so
that all rotations of an item together put every option in every place.


Which two pictures are compared, when individuals are to be recognised?

Every query that has a mate is paired once, with another picture of the same individual or with one
of another, each as likely. Both choices are drawn from (seed, task, query): asking fewer queries,
or in another order, changes no pair.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from string import ascii_uppercase
from typing import Literal

from fieldmark import draws
from fieldmark.chat.parse.answer import Option
from fieldmark.chat.prompt.question import Asking, Item, Question
from fieldmark.draws import lazily_shuffled

_PAIR = {
    "same": ("yes", ("same individual", "same animal", "same one")),
    "different": (
        "no",
        (
            "different individuals", "different animals", "two different individuals",
            "two different animals", "not the same individual", "not the same animal",
            "not the same one",
        ),
    ),
}  # fmt: skip
_YES, _NO = ("true", "yes", "1", "present"), ("false", "no", "0", "absent")


def offer(question: Question, item: Item, asking: Asking) -> tuple[Option, ...]:
    """The options of one item, in the order they are shown; () where the answer is free."""
    if question.kind == "same":
        return tuple(Option(label, name, "", said) for label, (name, said) in _PAIR.items())
    if question.kind == "yes_no":
        return _yes_no(question)
    if question.kind == "count" or question.kind == "open":
        return ()
    order = _turned(_ordered(question, item, asking), asking.rotation)
    letters = ascii_uppercase if question.has_letters else [""] * len(order)
    return tuple(
        Option(label, question.names[label], letter, question.aliases.get(label, ()))
        for label, letter in zip(order, letters, strict=False)
    )


def _ordered(question: Question, item: Item, asking: Asking) -> list[str]:
    key = (asking.seed, question.task, item.id)
    labels = list(question.names)
    n = question.n_choices
    if n and n < len(labels):
        labels = _sampled(question, item, n, asking.seed)
    return draws.shuffled(labels, *key, "order of options")


def _sampled(question: Question, item: Item, n: int, seed: int) -> list[str]:
    """The truth and n - 1 others; n of them where the truth is not known."""
    key = (seed, question.task, item.id, "distractors")
    truth = item.label if item.label in question.names else None
    if truth and question.distractors == "nearest" and question.relatives is not None:
        return [truth, *question.relatives.nearest(truth, n - 1, *key)]
    others = (each for each in lazily_shuffled(tuple(question.names), *key) if each != truth)
    known = [truth] if truth else []
    return [*known, *islice(others, n - len(known))]


def _turned(order: list[str], rotation: int) -> list[str]:
    turn = rotation % len(order)
    return [*order[turn:], *order[:turn]]


def _yes_no(question: Question) -> tuple[Option, ...]:
    """The two labels of the question, yes first; without labels, "true" and "false"."""
    labels = list(question.names) or ["true", "false"]
    yes = next((each for each in labels if each.casefold() in _YES), labels[0])
    no = next((each for each in labels if each != yes), "false")
    said = question.aliases
    return Option(yes, "yes", "", said.get(yes, ())), Option(no, "no", "", said.get(no, ()))


@dataclass(frozen=True, slots=True)
class Pair:
    query: str
    other: str
    label: Literal["same", "different"]

    @property
    def id(self) -> str:
        return f"{self.query}|{self.other}"


def draw_pairs(queries: Mapping[str, str], gallery: Mapping[str, str], *key: object) -> list[Pair]:
    """One pair for each query (id → individual) that has a mate in the gallery, in their order.

    Queries without a mate, or without a stranger, are left out: their answer would be known.
    """
    members: dict[str, list[str]] = {}
    for each in sorted(gallery):
        members.setdefault(gallery[each], []).append(each)
    individuals = tuple(sorted(members))
    found = []
    for query, individual in queries.items():
        mate = _first(members.get(individual, ()), query, *key, query, "mate")
        stranger = _stranger(individuals, individual, *key, query)
        if mate is None or stranger is None:
            continue
        if draws.number(*key, query, "same or different") % 2:
            found.append(Pair(query, mate, "same"))
        else:
            other = _first(members[stranger], query, *key, query, "stranger")
            found += [Pair(query, other, "different")] if other is not None else []
    return found


def _stranger(individuals: tuple[str, ...], own: str, *key: object) -> str | None:
    drawn = lazily_shuffled(individuals, *key, "other individual")
    return next((each for each in drawn if each != own), None)


def _first(ids: Iterable[str], barred: str, *key: object) -> str | None:
    return next((each for each in lazily_shuffled(tuple(ids), *key) if each != barred), None)
