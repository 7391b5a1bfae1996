"""What real encyclopedias do to someone who looks up a name: synonyms and homonyms, redirects that
lead elsewhere, pages of the genus, of a subspecies, of a band. Names are made up, so that each kind
of trap stands in several lines of life; pages of traps share no title with the world's.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

from fieldmark.taxa import RANKS
from fieldmark.world.wiki import WorldPage
from kit.wiki_traps import name_traps, page_traps
from kit.wiki_traps.trap_maker import Trap, TrapMaker, TrapWiki

__all__ = ["Trap", "TrapWiki", "texts_of", "trap_wiki", "write_names"]


def trap_wiki(seed: int = 0, n_each: int = 4) -> TrapWiki:
    """Every kind of trap `n_each` times."""
    made = TrapMaker(seed)
    for kind in (*name_traps.KINDS, *page_traps.KINDS):
        for number in range(n_each):
            made.begin(kind.__name__, number)
            kind(made)
    return TrapWiki(tuple(made.pages.values()), tuple(made.traps))


def write_names(path: Path, n_each: int) -> Path:
    """The names that fall into the traps, as a table."""
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow((*RANKS, "common_name"))
        rows.writerows((*trap.ranks, trap.common_name) for trap in trap_wiki(0, n_each).traps)
    return path


def texts_of(pages: Iterable[WorldPage]) -> dict[str, str]:
    """A page property that no template tells is what MediaWiki's magic word gives."""
    return {
        page.title: page.wikitext + ("\n__DISAMBIG__" if page.is_disambiguation else "")
        for page in pages
    }
