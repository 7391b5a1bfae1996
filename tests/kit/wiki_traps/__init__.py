"""What real encyclopedias do to someone who looks up a name: synonyms and homonyms, redirects that
lead elsewhere, pages of the genus, of a subspecies, of a band. Names are made up, so that each kind
of trap stands in several lines of life; pages of traps share no title with the world's.
"""

from __future__ import annotations

from kit.wiki_traps import name_traps, page_traps
from kit.wiki_traps.trap_maker import Trap, TrapMaker, TrapWiki

__all__ = ["Trap", "TrapWiki", "trap_wiki"]


def trap_wiki(seed: int = 0, n_each: int = 4) -> TrapWiki:
    """Every kind of trap `n_each` times."""
    made = TrapMaker(seed)
    for kind in (*name_traps.KINDS, *page_traps.KINDS):
        for number in range(n_each):
            made.begin(kind.__name__, number)
            kind(made)
    return TrapWiki(tuple(made.pages.values()), tuple(made.traps))
