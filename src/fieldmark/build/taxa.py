"""Taxon: a name with its seven ranks, which tell apart what one name alone does not.

A binomial can stand for two organisms (a plant genus and an animal genus may share a name: a
hemihomonym), so a taxon is known by all its ranks. Common names are no part of what it is.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from fieldmark.world import RANKS


@dataclass(frozen=True, slots=True)
class Taxon:
    """Ranks from kingdom to species; "" where one is not known."""

    ranks: tuple[str, str, str, str, str, str, str]
    """in the order of `RANKS`; the last one is the epithet alone ("corax")"""
    common_name: str = ""

    @property
    def key(self) -> str:
        """16 hexadecimal digits that stand for the ranks."""
        return hashlib.blake2b("\0".join(self.ranks).encode(), digest_size=8).hexdigest()

    @property
    def rank(self) -> str:
        """The lowest rank that is known; "" = none is."""
        known = [rank for rank, name in zip(RANKS, self.ranks, strict=True) if name]
        return known[-1] if known else ""

    @property
    def name(self) -> str:
        """The scientific name: the binomial, or the name of the lowest rank that is known."""
        genus, epithet = self.ranks[5:]
        if epithet:
            return f"{genus} {epithet}".strip()
        return next((name for name in reversed(self.ranks) if name), "")

    def at(self, rank: str) -> str:
        """The name at a rank of `RANKS`; "" = not known."""
        return self.ranks[RANKS.index(rank)]
