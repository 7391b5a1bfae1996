"""Taxonomic distance: which species are nearest to one, as distractors that are hard to tell apart?

A lineage is a tuple of names from kingdom to species, `None` or "" where a rank is not known. Only
the names are compared, rank by rank: a genus of the same name in another kingdom is another genus.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fieldmark import draws

Lineage = Sequence[str | None]


def taxon_distance(one: Lineage, two: Lineage) -> int:
    """Ranks up from species to the lowest one that both share: 0 same species, 1 same genus, …

    Nothing shared is the number of ranks. A rank that either lacks is passed over.

    >>> taxon_distance(("Felidae", "Panthera", "leo"), ("Felidae", "Panthera", "tigris"))
    1
    """
    n_ranks = max(len(one), len(two))
    lowest = 0
    for rank, (left, right) in enumerate(zip(one, two, strict=False), start=1):
        if not left or not right:
            continue
        if left.casefold() != right.casefold():
            break
        lowest = rank
    return n_ranks - lowest


@dataclass(frozen=True, slots=True)
class Relatives:
    """Labels with their lineages; what is near to each is worked out once."""

    lineages: Mapping[str, Lineage]
    tiers: dict[tuple[str, int], list[list[str]]] = field(
        default_factory=dict, compare=False, repr=False
    )

    def nearest(self, label: str, n: int, *key: object) -> list[str]:
        """`n` other labels, the nearest in the tree first; which of equally near ones is drawn.

        `key` is what the draw depends on: (seed, task, item, purpose).
        """
        labels: list[str] = []
        for tier in self._tiers(label, n):
            labels += draws.shuffled(tier, *key)[: n - len(labels)]
        return labels

    def _tiers(self, label: str, n: int) -> list[list[str]]:
        """Labels at growing distance, as many tiers as n of them need."""
        if (label, n) not in self.tiers:
            own = self.lineages.get(label, ())
            by_distance: dict[int, list[str]] = {}
            for other, lineage in self.lineages.items():
                if other != label:
                    by_distance.setdefault(taxon_distance(own, lineage), []).append(other)
            tiers = self.tiers[label, n] = []
            for distance in sorted(by_distance):
                if sum(map(len, tiers)) < n:
                    tiers.append(by_distance[distance])
        return self.tiers[label, n]
