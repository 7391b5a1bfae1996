"""MediaWiki XML export (schema 0.11): the world's encyclopedia as a dump file holds it.

https://www.mediawiki.org/wiki/Help:Export#Export_format
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from xml.sax.saxutils import escape, quoteattr

from fieldmark.world.wiki.pages import WorldPage

_NAMESPACES = {0: "", 10: "Template"}
_SCHEMA = "http://www.mediawiki.org/xml/export-0.11/"
_REDIRECT = re.compile(r"#REDIRECT \[\[([^\]#|]+)", re.IGNORECASE)
_TIMESTAMP = "2026-01-01T00:00:00Z"
_SITE = ("Encyclopedia of the synthetic world", "https://world.invalid/wiki/Main_Page")


def export_xml(pages: Iterable[WorldPage]) -> bytes:
    """A dump of the pages, numbered in their order; the same for the same pages."""
    return "".join(_lines(pages)).encode()


def _lines(pages: Iterable[WorldPage]) -> Iterator[str]:
    yield f'<mediawiki xmlns="{_SCHEMA}" version="0.11" xml:lang="en">\n  <siteinfo>\n'
    yield f"    <sitename>{_SITE[0]}</sitename>\n    <base>{_SITE[1]}</base>\n    <namespaces>\n"
    for number, name in _NAMESPACES.items():
        yield f'      <namespace key="{number}" case="first-letter">{name}</namespace>\n'
    yield "    </namespaces>\n  </siteinfo>\n"
    for number, page in enumerate(pages, 1):
        yield from _page(page, number)
    yield "</mediawiki>\n"


def _page(page: WorldPage, number: int) -> Iterator[str]:
    namespace = 10 if page.title.startswith("Template:") else 0
    yield f"  <page>\n    <title>{escape(page.title)}</title>\n    <ns>{namespace}</ns>\n"
    yield f"    <id>{number}</id>\n"
    if target := _REDIRECT.match(page.wikitext):
        yield f"    <redirect title={quoteattr(target[1].strip())} />\n"
    yield f"    <revision>\n      <id>{number}</id>\n      <timestamp>{_TIMESTAMP}</timestamp>\n"
    yield "      <model>wikitext</model>\n      <format>text/x-wiki</format>\n"
    yield f'      <text xml:space="preserve">{escape(page.wikitext)}</text>\n'
    yield "    </revision>\n  </page>\n"
