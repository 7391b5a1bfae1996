"""Which two pictures are compared, when individuals are to be recognised?

Every query that has a mate is paired once, with another picture of the same individual or with one
of another, each as likely. Both choices are drawn from (seed, task, query): asking fewer queries,
or in another order, changes no pair.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from fieldmark import draws
from fieldmark.chat._shots_shuffle import shuffle


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
    drawn = shuffle(individuals, *key, "other individual")
    return next((each for each in drawn if each != own), None)


def _first(ids: Iterable[str], barred: str, *key: object) -> str | None:
    return next((each for each in shuffle(tuple(ids), *key) if each != barred), None)
