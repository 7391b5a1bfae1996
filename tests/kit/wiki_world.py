"""Pages of the synthetic encyclopedia as wikis hold them, and what a resolver made of traps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fieldmark.build.describe.resolve import Resolution
from fieldmark.build.wiki import WikiPage
from fieldmark.taxa import Taxon
from fieldmark.world.wiki import WorldPage
from kit.wiki_traps import Trap


def as_wiki_pages(pages: Iterable[WorldPage]) -> list[WikiPage]:
    """Numbered in order, as a wiki gives them."""
    return [
        WikiPage(
            page.title, number, number, "2026-01-02T03:04:05Z", page.wikitext,
            page.is_disambiguation, page.wikidata,
        )
        for number, page in enumerate(pages, start=1)
    ]  # fmt: skip


def as_taxa(traps: Iterable[Trap]) -> list[Taxon]:
    return [Taxon(trap.ranks, trap.common_name) for trap in traps]  # type: ignore[arg-type]


def wrong_answers(traps: Sequence[Trap], resolutions: Sequence[Resolution]) -> list[str]:
    """Traps that were not mastered: another page, or another reason."""
    return [
        f"{trap.kind}: {' '.join(trap.ranks[5:])} is {answer}, not {trap.title or trap.reason}"
        for trap, resolution in zip(traps, resolutions, strict=True)
        if (answer := answer_of(resolution)) != (trap.title or trap.reason)
    ]


def answer_of(resolution: Resolution) -> str:
    """The title, or the word of the reason."""
    page = resolution.page
    return page.title if page is not None else resolution.reason.partition(":")[0]
