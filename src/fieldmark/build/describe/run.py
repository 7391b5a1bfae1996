"""Describing taxa: name → page → sections → sentences about appearance → a table.

    OUT/pages.sqlite              what the wiki answered; the same command asks for nothing twice
    OUT/journal/                  what a chat model answered, where one filters
    OUT/descriptions.parquet      a row per taxon: page, revision, licence, text, spans, description
    OUT/format_examples.parquet   per taxonomic class: descriptions that show how one is written
    OUT/describe.json             where the words come from, what filtered them, how many there are

Every taxon of the list has exactly one row, with a reason where it has no description. The tables
are made anew from what is kept each time, so being killed costs at most the request in flight.
"""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fieldmark.build.describe.examples import format_examples
from fieldmark.build.describe.resolve import REASONS, Resolution, resolve
from fieldmark.build.describe.rules import visible_spans
from fieldmark.build.describe.sections import AppearanceText, appearance_text
from fieldmark.build.describe.sentences import Span
from fieldmark.build.taxon_list import TaxonList
from fieldmark.build.wiki import WikiSite
from fieldmark.errors import UsageError
from fieldmark.files import parse_json, write_file
from fieldmark.progress import Progress
from fieldmark.taxa import RANKS, Taxon, same_epithet
from fieldmark.words import counted

if TYPE_CHECKING:
    import polars as pl

    from fieldmark.build.wiki.api import WikiSource
    from fieldmark.build.wiki.store import PageStore

DESCRIPTIONS = "descriptions.parquet"
EXAMPLES = "format_examples.parquet"
SUMMARY = "describe.json"
PAGES = "pages.sqlite"
JOURNAL = "journal"

WHY = {
    **REASONS,
    "no_text": "the page has only tables and lists of names",
    "nothing_visible": "no sentence on the page describes appearance",
}
"""word of a reason → what it means"""
Spans = Sequence[Span] | str
"""sentences that are kept, or why a text could not be filtered"""
Filter = Callable[[Mapping[str, str]], Iterable[tuple[str, Spans]]]
"""texts by key → what is kept of each, in any order"""


def rule_filter(texts: Mapping[str, str]) -> Iterator[tuple[str, Spans]]:
    """The filter that needs no model."""
    for key, text in texts.items():
        yield key, visible_spans(text)


@dataclass(frozen=True, slots=True)
class Described:
    """What came of a list of taxa."""

    counts: Mapping[str, int]
    """status → taxa"""
    reasons: Mapping[str, int]
    """why taxa have no description → how many"""
    files: Sequence[Path]


@dataclass(slots=True)
class _TaxonRow:
    """A taxon on its way to the table."""

    resolution: Resolution
    appearance: AppearanceText | None = None
    spans: Sequence[Span] = field(default_factory=list)
    status: str = ""
    reason: str = ""


def refuse_other_list(out: Path, names: str) -> None:
    """UsageError where a folder holds the descriptions of another list."""
    try:
        facts = parse_json((out / SUMMARY).read_bytes())
        before, n_taxa = str(facts["names"]), int(facts["n_taxa"])
    except (OSError, ValueError, KeyError, TypeError):
        return
    if before != names:
        raise UsageError(
            f"{out}  has descriptions of {counted(n_taxa, 'taxon', 'taxa')} from {before}: give "
            f"another --out for {names}. To replace them, remove {out / SUMMARY} first."
        )


def describe(
    taxa: TaxonList,
    store: PageStore,
    source: WikiSource | None,
    out: Path,
    keep: Filter = rule_filter,
    about: Mapping[str, Any] | None = None,
    *,
    progress: Progress,
) -> Described:
    """Writes the tables of the list; `about` is recorded beside them (which filter, which file)."""
    rows = [_read_page(resolution) for resolution in resolve(taxa.taxa, store, source, progress)]
    _filter(rows, keep, progress)
    site = store.site or WikiSite("", "", "")
    frame = _frame(rows, site)
    files = [out / DESCRIPTIONS, out / EXAMPLES, out / SUMMARY]
    _write(frame, files[0])
    _write(format_examples(frame), files[1])
    counts = dict(sorted(Counter(row.status for row in rows).items()))
    reasons = dict(
        Counter(row.reason.partition(":")[0] for row in rows if row.reason).most_common()
    )
    totals_row = {
        "site": site.name,
        "licence": site.licence,
        **(about or {}),
        "n_rows": taxa.n_rows,
        "left_out": dict(taxa.skipped),
        "n_taxa": len(rows),
        "status": counts,
        "reasons": reasons,
    }
    write_file(
        files[2], json.dumps(totals_row, indent=1, ensure_ascii=False).encode(), is_durable=True
    )
    return Described(counts, reasons, files)


def _read_page(resolution: Resolution) -> _TaxonRow:
    if resolution.page is None:
        return _TaxonRow(resolution, status="no_page", reason=resolution.reason)
    appearance = appearance_text(resolution.page.wikitext)
    resolution = replace(resolution, page=replace(resolution.page, wikitext=""))
    if appearance is None:
        return _TaxonRow(resolution, status="no_appearance", reason="no_text")
    return _TaxonRow(resolution, appearance)


def _filter(rows: Sequence[_TaxonRow], keep: Filter, progress: Progress) -> None:
    """Rows of one organism share a page, so a text is filtered once."""
    sharing: dict[str, list[_TaxonRow]] = {}
    texts: dict[str, str] = {}
    for row in rows:
        if row.appearance is not None and row.resolution.page is not None:
            key = str(row.resolution.page.page_id)
            sharing.setdefault(key, []).append(row)
            texts[key] = row.appearance.text
    progress.start("filtering", len(texts))
    for key, spans in keep(texts):
        for row in sharing[key]:
            _keep_spans(row, spans)
        progress.advance()


def _keep_spans(row: _TaxonRow, spans: Spans) -> None:
    if isinstance(spans, str):
        row.status, row.reason = "error", spans
        return
    assert row.appearance is not None
    text, taxon = row.appearance.text, row.resolution.taxon
    row.spans = [span for span in spans if not is_of_sister(text[span.start : span.end], taxon)]
    if row.spans:
        row.status = "described"
    else:
        row.status, row.reason = "no_appearance", "nothing_visible"


_BEGINNING = 40
"""characters in which a sentence names what it is about"""
_LATIN = re.compile(r"[a-z-]+(us|a|um|is|i|ae|ns|er|or|ix)|[a-z-]{5,}e")


def is_of_sister(sentence: str, taxon: Taxon) -> bool:
    """Does the sentence begin with another species of the genus? Pages compare relatives.

    >>> wolf = Taxon(("", "", "", "", "", "Canis", "lupus"))
    >>> is_of_sister("In C. latrans the ears are longer.", wolf)
    True
    >>> is_of_sister("Canis lupus has longer legs than C. latrans.", wolf)
    False
    """
    genus, epithet = taxon.at("genus"), taxon.at("species")
    if not genus or not epithet:
        return False
    names = re.findall(rf"\b(?:{re.escape(genus)}|{genus[0]}\.) ([a-z-]+)", sentence[:_BEGINNING])
    others = [name for name in names if _LATIN.fullmatch(name)]
    return bool(others) and not any(same_epithet(name, epithet) for name in others)


def _frame(rows: Sequence[_TaxonRow], site: WikiSite) -> pl.DataFrame:
    import polars as pl

    schema: dict[str, Any] = {
        "key": pl.String,
        **dict.fromkeys(RANKS, pl.String),
        **dict.fromkeys(("common_name", "status", "reason", "how", "title"), pl.String),
        "page_id": pl.Int64,
        "revision_id": pl.Int64,
        **dict.fromkeys(("timestamp", "licence", "url", "text"), pl.String),
        "headings": pl.List(pl.String),
        "spans": pl.List(pl.List(pl.Int64)),
        "description": pl.String,
    }
    return pl.DataFrame([_cells(row, site) for row in rows], schema=schema)


def _cells(row: _TaxonRow, site: WikiSite) -> dict[str, Any]:
    taxon, page = row.resolution.taxon, row.resolution.page
    text = row.appearance.text if row.appearance is not None else None
    kept = [text[span.start : span.end] for span in row.spans] if text is not None else []
    return {
        "key": taxon.key,
        **dict(zip(RANKS, taxon.ranks, strict=True)),
        "common_name": taxon.common_name,
        "status": row.status,
        "reason": row.reason,
        "how": row.resolution.how,
        "title": page.title if page else None,
        "page_id": page.page_id if page else None,
        "revision_id": page.revision_id if page else None,
        "timestamp": page.timestamp if page else None,
        "licence": site.licence if page else None,
        "url": site.url + quote(page.title.replace(" ", "_"), safe="/:,()'!") if page else None,
        "text": text,
        "headings": list(row.appearance.headings) if row.appearance is not None else None,
        "spans": [[span.start, span.end] for span in row.spans],
        "description": " ".join(map(_closed, kept)) or None,
    }


def _closed(quote: str) -> str:
    """A part of a sentence ends with a semicolon, so that what follows does not run into it."""
    return quote if quote.endswith((".", "!", "?", '"', "”", ")")) else f"{quote};"


def _write(frame: pl.DataFrame, path: Path) -> None:
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd")
    write_file(path, buffer.getvalue(), is_durable=True)
