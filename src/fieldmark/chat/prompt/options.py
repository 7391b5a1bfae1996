"""Options of a question: which is an item offered, in which order; which pairs are compared?

Both are drawn from (seed, task, item): the truth is always among the options, its place is as
likely as any other, and neither depends on what else is asked or when. `rotation` turns the drawn
order, so that all rotations of an item together put every option in every place.

To recognise individuals, every query that has a mate is paired once, with another picture of the
same individual or with one of another, each as likely: asking fewer queries, or in another order,
changes no pair.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from string import ascii_uppercase
from typing import Literal

from fieldmark import draws
from fieldmark.chat.parse.mentions import Option
from fieldmark.chat.prompt.question import Asking, Item, PromptQuestion
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


def offer(question: PromptQuestion, item: Item, asking: Asking) -> tuple[Option, ...]:
    """The options of one item, in the order they are shown; () where the answer is free."""
    if question.kind == "same":
        return tuple(Option(label, name, "", aliases) for label, (name, aliases) in _PAIR.items())
    if question.kind == "yes_no":
        return _yes_no(question)
    if question.kind == "count" or question.kind == "open":
        return ()
    labels, n = list(question.names), question.n_choices
    if n and n < len(labels):
        labels = _sampled(question, item, n, asking.seed)
    order = draws.shuffled(labels, asking.seed, question.task, item.id, "order of options")
    turn = asking.rotation % len(order)
    order = [*order[turn:], *order[:turn]]
    letters = ascii_uppercase if question.has_letters else [""] * len(order)
    return tuple(
        Option(label, question.names[label], letter, question.aliases.get(label, ()))
        for label, letter in zip(order, letters, strict=False)
    )


def _sampled(question: PromptQuestion, item: Item, n: int, seed: int) -> list[str]:
    """The truth and n - 1 others; n of them where the truth is not known."""
    key = (seed, question.task, item.id, "distractors")
    truth = item.label if item.label in question.names else None
    if truth and question.distractors == "nearest" and question.relatives is not None:
        return [truth, *question.relatives.nearest(truth, n - 1, *key)]
    others = (label for label in lazily_shuffled(tuple(question.names), *key) if label != truth)
    fixed = [truth] if truth else []
    return [*fixed, *islice(others, n - len(fixed))]


def _yes_no(question: PromptQuestion) -> tuple[Option, ...]:
    """The two labels of the question, yes first; without labels, "true" and "false"."""
    labels = list(question.names) or ["true", "false"]
    yes = next((label for label in labels if label.casefold() in _YES), labels[0])
    no = next((label for label in labels if label != yes), "false")
    aliases = question.aliases
    return Option(yes, "yes", "", aliases.get(yes, ())), Option(no, "no", "", aliases.get(no, ()))


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
    for name in sorted(gallery):
        members.setdefault(gallery[name], []).append(name)
    individuals = tuple(sorted(members))
    pairs = []
    for query, individual in queries.items():
        mate = _first(members.get(individual, ()), query, *key, query, "mate")
        stranger = _stranger(individuals, individual, *key, query)
        if mate is None or stranger is None:
            continue
        if draws.number(*key, query, "same or different") % 2:
            pairs.append(Pair(query, mate, "same"))
            continue
        other = _first(members[stranger], query, *key, query, "stranger")
        if other is not None:
            pairs.append(Pair(query, other, "different"))
    return pairs


def _stranger(individuals: tuple[str, ...], shown: str, *key: object) -> str | None:
    drawn = lazily_shuffled(individuals, *key, "other individual")
    return next((individual for individual in drawn if individual != shown), None)


def _first(ids: Iterable[str], barred: str, *key: object) -> str | None:
    return next((name for name in lazily_shuffled(tuple(ids), *key) if name != barred), None)
