"""MediaWiki XML export (schema 0.6 to 0.11): which of its pages can matter to a taxon?

Most pages of a wiki speak of no organism, so bytes decide first: pages are cut at their tags, and
namespace, redirect mark and names of templates are looked for in what stands between. Only the few
pages that may be kept go through an XML parser. MediaWiki writes neither comments nor CDATA
sections and escapes every "<" of a text, so `</page>` always ends a page.

Kept are, of the main namespace, pages with a taxobox, disambiguation pages, set indices and all
redirects; and `Template:Taxonomy/…` pages, from which automatic taxoboxes take their ranks.
https://www.mediawiki.org/wiki/Help:Export#Export_format
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from html import unescape
from urllib.parse import unquote, urlsplit

from fieldmark.build.wiki import WikiPage, WikiSite
from fieldmark.build.wiki.taxobox import (
    DISAMBIGUATION_TEMPLATES,
    SET_INDEX_TEMPLATES,
    TAXOBOX_TEMPLATES,
    says_disambiguation,
    template_names,
)

PAGE_START, PAGE_END, XML_END = b"<page>", b"</page>", b"</mediawiki>"
_HEAD = re.compile(
    rb"<page>\s*<title>([^<]*)</title>\s*<ns>(-?\d+)</ns>\s*<id>\d+</id>\s*(<redirect\b)?"
)
_MAIN, _TEMPLATE = b"0", b"10"
_KEPT_TEMPLATES = TAXOBOX_TEMPLATES | DISAMBIGUATION_TEMPLATES | SET_INDEX_TEMPLATES
_NAMES = "|".join(re.escape(name).replace(r"\ ", "[ _]") for name in sorted(_KEPT_TEMPLATES))
_CALL = re.compile(rb"\{\{[^a-z|{}]*(?:template:[^a-z|{}]*)?(?:" + _NAMES.encode() + rb")")
"""in lower case: more calls than those of kept templates, never fewer"""
_STUB = re.compile(rb"<text\b[^>]*\s(?:id|location)=")
_LANGUAGE = re.compile(rb'<mediawiki\b[^>]* xml:lang="([\w-]+)"')
_REDIRECT_LINK = re.compile(r"\s*#[^\[\n]*\[\[([^\]|\n]+)")


class ExportFault(Exception):
    """What is wrong, and at which byte of the data."""

    def __init__(self, text: str, position: int) -> None:
        super().__init__(text)
        self.position = position


@dataclass(slots=True)
class KeptPages:
    """What is kept of some pages."""

    pages: list[WikiPage] = field(default_factory=list)
    redirects: list[tuple[str, str, str]] = field(default_factory=list)
    """(from, to, fragment)"""
    n_read: int = 0
    """pages looked at"""


def read_pages(
    data: bytes, has_head: bool = False, titles: AbstractSet[str] | None = None
) -> KeptPages:
    """Reads whole pages, behind the head of the export where `has_head`; raises `ExportFault`.

    `titles`: only pages of these titles.
    """
    kept, end = KeptPages(), 0
    lower = data.lower() if titles is None else b""
    while (start := data.find(PAGE_START, end)) >= 0:
        if data[end:start].strip() and (end or not has_head):
            raise ExportFault("has something between two pages", end)
        end = data.find(PAGE_END, start) + len(PAGE_END)
        if end < len(PAGE_END) or data.find(PAGE_START, start + 1, end) >= 0:
            raise ExportFault("has a page without an end", start)
        kept.n_read += 1
        head = _HEAD.match(data, start, end)
        if titles is not None:
            if head is None or unescape(head[1].decode("utf-8", "replace")) in titles:
                _keep(data, start, end, kept, titles)
        elif head is None or _may_matter(head, lower, end):
            _keep(data, start, end, kept, None)
    return kept


def _may_matter(head: re.Match[bytes], lower: bytes, end: int) -> bool:
    title, namespace, redirect = head.groups()
    if namespace != _MAIN:
        return namespace == _TEMPLATE and b":Taxonomy/" in title
    # one pattern for both would have no fixed beginning and take ten times as long
    has_mark = redirect is not None or lower.find(b"__disambig__", head.end(), end) >= 0
    return has_mark or _CALL.search(lower, head.end(), end) is not None


def _keep(
    data: bytes, start: int, end: int, kept: KeptPages, titles: AbstractSet[str] | None
) -> None:
    try:
        element = ElementTree.fromstring(data[start:end])
        revision = max(element.findall("revision"), key=_age, default=None)
    except (ElementTree.ParseError, ValueError) as error:
        raise ExportFault(f"has a page that cannot be read ({error})", start) from error
    title, namespace = element.findtext("title"), element.findtext("ns")
    if not title or namespace is None:
        raise ExportFault("has a page without <title> or <ns> (schema older than 0.6)", start)
    if titles is not None and title not in titles:
        return
    is_taxonomy = namespace == "10" and ":Taxonomy/" in title
    if namespace != "0" and not is_taxonomy:
        return
    text = "" if revision is None else revision.findtext("text") or ""
    mark = element.find("redirect")
    if mark is not None:
        kept.redirects.append((title, *_target(mark.get("title", ""), text)))
    elif revision is not None and (is_taxonomy or _is_kept(text)):
        page_id, (timestamp, revision_id) = int(element.findtext("id") or 0), _age(revision)
        is_list = says_disambiguation(text)
        kept.pages.append(WikiPage(title, page_id, revision_id, timestamp, text, is_list))


def _age(revision: ElementTree.Element) -> tuple[str, int]:
    return revision.findtext("timestamp") or "", int(revision.findtext("id") or 0)


def _is_kept(wikitext: str) -> bool:
    return "__DISAMBIG__" in wikitext or not _KEPT_TEMPLATES.isdisjoint(template_names(wikitext))


def _target(title: str, wikitext: str) -> tuple[str, str]:
    """Title and fragment that a redirect leads to; the export's own mark has no fragment.

    >>> _target("Mallard", "#REDIRECT [[mallard#Sub_species|dabbling duck]]")
    ('Mallard', 'Sub species')
    """
    match = _REDIRECT_LINK.match(wikitext)
    if match is None:
        return title, ""
    link = unescape(unquote(match[1]) if "%" in match[1] else match[1])
    written, _, fragment = link.partition("#")
    return title or written.strip(" _:"), fragment.replace("_", " ").strip()


def read_site(head: bytes) -> WikiSite:
    """What the beginning of an export says about its wiki. Raises `ExportFault`."""
    start, end = head.find(b"<siteinfo>"), head.find(b"</siteinfo>")
    if b"<mediawiki" not in head:
        raise ExportFault("is not an XML export of a MediaWiki: <mediawiki> is expected", 0)
    if start < 0 or end < 0:
        raise ExportFault("has no <siteinfo>", 0)
    if _STUB.search(head):
        raise ExportFault("is a stub dump, without texts: take pages-articles", 0)
    try:
        info = ElementTree.fromstring(head[start : end + len(b"</siteinfo>")])
    except ElementTree.ParseError as error:
        raise ExportFault(f"has a <siteinfo> that is not XML ({error})", start) from error
    base = info.findtext("base") or ""
    is_wikipedia = (urlsplit(base).hostname or "").endswith(".wikipedia.org")
    licence = "CC BY-SA 4.0" if is_wikipedia else ""
    name, language = info.findtext("sitename") or "", _LANGUAGE.search(head)
    name += f" ({language[1].decode()})" if language else ""
    return WikiSite(name, base[: base.rfind("/") + 1], licence)
