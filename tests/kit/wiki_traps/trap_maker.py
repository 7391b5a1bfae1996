"""Name-resolution traps: what one is, and how its pages are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fieldmark.taxa import RANKS
from fieldmark.world import text
from fieldmark.world.rng import Rng
from fieldmark.world.taxonomy import PLANS
from fieldmark.world.wiki import LATIN_RANKS, WorldPage, taxonomy_pages, template

Ranks = dict[str, str]
BEASTS = ("bird", "mammal", "fish", "beetle", "lizard", "butterfly")
PLANTS = ("herb", "tree")
ANY = (*BEASTS, *PLANTS, "mushroom")


@dataclass(frozen=True, slots=True)
class Trap:
    """A taxon to look up, and what must come of it."""

    kind: str
    ranks: tuple[str, ...]
    """in the order of `RANKS`"""
    common_name: str
    title: str
    """of the right page; "" = there is none"""
    reason: str = ""
    """why there is none, in one word"""


@dataclass(frozen=True, slots=True)
class TrapWiki:
    pages: tuple[WorldPage, ...]
    traps: tuple[Trap, ...]


class TrapMaker:
    """Pages and traps made so far."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.pages: dict[str, WorldPage] = {}
        self.traps: list[Trap] = []
        self._genera: set[str] = set()

    def begin(self, kind: str, number: int) -> None:
        self.kind, self.number = kind, number
        self.rng = Rng(self.seed, "wiki trap", kind, number)

    def taxon(self, plans: Sequence[str] = ANY, like: Ranks | None = None) -> Ranks:
        """A species of a new genus, or another one of the family that `like` belongs to."""
        plan = PLANS[self.rng.choice(plans)]
        genus = ""
        while not genus or genus in self._genera:
            stem = text.latin_stem(self.rng).lower()
            genus = text.genus_name(f"Q{stem}", self.rng.choice(plan.endings))
        self._genera.add(genus)
        order, family = (text.group_name(genus, suffix) for suffix in plan.suffixes)
        upper = list(like.values())[:5] if like else [*plan.upper, order, family]
        ranks = dict(zip(RANKS, (*upper, genus, self.epithet(genus)), strict=True))
        self.add(*taxonomy_pages(ranks))
        return ranks

    def epithet(self, genus: str) -> str:
        words = self.rng.sample(("red", "spotted", "mountain", "white", "forest", "barred"), 6)
        return text.epithets(genus, words, self.rng)[0]

    def add(self, *pages: WorldPage) -> None:
        for page in pages:
            self.pages.setdefault(page.title, page)

    def species_page(self, title: str, ranks: Ranks, **box: str) -> None:
        """A page with a speciesbox."""
        names = {"genus": ranks["genus"], "species": ranks["species"]}
        self.article(title, ranks, template("Speciesbox", {**names, **box}))

    def article(self, title: str, ranks: Ranks, box: str, above: str = "") -> None:
        lead = f"'''''{binomial(ranks)}''''' is a species of the family [[{ranks['family']}]]."
        body = "==Description==\nThe upper side is grey, the lower side white.<ref>Olm</ref>\n"
        self.add(WorldPage(title, f"{above}{box}\n{lead} It feeds at night.\n\n{body}"))

    def expect(self, ranks: Ranks, title: str = "", reason: str = "", common: str = "") -> None:
        values = tuple(ranks[rank] for rank in RANKS)
        self.traps.append(Trap(self.kind, values, common, title, reason))

    def common(self) -> str:
        """A common name that nothing else has."""
        stem = text.latin_stem(self.rng)
        noun = self.rng.choice(("finch", "sage", "beetle", "webcap"))
        return f"{stem}{self.kind.replace('_', '')[:6]}{self.number} grey {noun}"


def binomial(ranks: Mapping[str, str]) -> str:
    return f"{ranks['genus']} {ranks['species']}"


def changed(ranks: Ranks, **changes: str) -> Ranks:
    return {**ranks, **{key.strip("_"): value for key, value in changes.items()}}


def old_box(ranks: Ranks, **changes: str) -> str:
    names = {LATIN_RANKS[rank]: f"[[{ranks[rank]}]]" for rank in RANKS[:5]}
    short = f"'''''{ranks['genus'][0]}. {ranks['species']}'''''"
    named = {"genus": f"''[[{ranks['genus']}]]''", "species": short}
    return template("Taxobox", {**names, **named, **changes})
