"""XML dumps of a wiki in the true layout: export schema 0.11; plain, gzip, bzip2, multistream."""

from __future__ import annotations

import bz2
import gzip
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from xml.sax.saxutils import escape

NAMESPACES = {
    -2: "Media", -1: "Special", 0: "", 1: "Talk", 2: "User", 4: "Wikipedia", 6: "File",
    8: "MediaWiki", 10: "Template", 12: "Help", 14: "Category", 100: "Portal", 828: "Module",
}  # fmt: skip
_SCHEMA = "http://www.mediawiki.org/xml/export-0.11"


@dataclass(frozen=True)
class DumpRevision:
    text: str | None
    """None = deleted"""
    revision_id: int
    timestamp: str = "2026-01-02T03:04:05Z"
    comment: str = 'Rewording "this" & that'
    slots: dict[str, str] = field(default_factory=dict)
    """texts of other slots than the main one"""


@dataclass(frozen=True)
class DumpPage:
    title: str
    page_id: int
    revisions: Sequence[DumpRevision]
    namespace: int = 0
    redirect: str | None = None


def page(title: str, text: str, page_id: int, namespace: int = 0) -> DumpPage:
    """A page of one revision."""
    return DumpPage(title, page_id, [DumpRevision(text, 9_000_000 + page_id)], namespace)


def redirect(title: str, target: str, page_id: int, fragment: str = "") -> DumpPage:
    link = f"{target}#{fragment}" if fragment else target
    text = f"#REDIRECT [[{link}]]\n\n{{{{Redirect category shell|\n{{{{R from synonym}}}}\n}}}}"
    return DumpPage(title, page_id, [DumpRevision(text, 9_000_000 + page_id)], 0, target)


def write_dump(path: Path, pages: Iterable[DumpPage], per_stream: int = 100) -> Path:
    """Writes a dump packed as its name says; "multistream" in it: many streams, and an index."""
    if "multistream" in path.name:
        return _write_multistream(path, pages, per_stream)
    opened = {".bz2": bz2.open, ".gz": gzip.open}.get(path.suffix, open)
    with opened(path, "wb") as file:
        file.write(head())
        for item in pages:
            file.write(page_xml(item))
        file.write(b"</mediawiki>\n")
    return path


def _write_multistream(path: Path, pages: Iterable[DumpPage], per_stream: int) -> Path:
    index = path.with_name(path.name.replace(".xml", "-index.txt"))
    with path.open("wb") as file, bz2.open(index, "wb") as lines:
        file.write(bz2.compress(head()))
        for some in _batches(pages, per_stream):
            for item in some:
                lines.write(f"{file.tell()}:{item.page_id}:{xml(item.title)}\n".encode())
            file.write(bz2.compress(b"".join(map(page_xml, some))))
        file.write(bz2.compress(b"</mediawiki>\n"))
    return path


def _batches(pages: Iterable[DumpPage], n: int) -> Iterator[list[DumpPage]]:
    pages = iter(pages)
    while some := list(islice(pages, n)):
        yield some


def head(name: str = "Wikipedia", base: str = "https://en.wikipedia.org/wiki/Main_Page") -> bytes:
    spaces = "".join(
        f'      <namespace key="{key}" case="first-letter">{name}</namespace>\n'
        if name
        else f'      <namespace key="{key}" case="first-letter" />\n'
        for key, name in NAMESPACES.items()
    )
    return (
        f'<mediawiki xmlns="{_SCHEMA}/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
        f'xsi:schemaLocation="{_SCHEMA}/ {_SCHEMA}.xsd" version="0.11" xml:lang="en">\n'
        f"  <siteinfo>\n    <sitename>{name}</sitename>\n    <dbname>enwiki</dbname>\n"
        f"    <base>{base}</base>\n    <generator>MediaWiki 1.46.0-wmf.3</generator>\n"
        f"    <case>first-letter</case>\n    <namespaces>\n{spaces}    </namespaces>\n"
        f"  </siteinfo>\n"
    ).encode()


def page_xml(item: DumpPage) -> bytes:
    mark = f'    <redirect title="{xml(item.redirect)}" />\n' if item.redirect else ""
    revisions = "".join(map(_revision_xml, item.revisions))
    return (
        f"  <page>\n    <title>{xml(item.title)}</title>\n    <ns>{item.namespace}</ns>\n"
        f"    <id>{item.page_id}</id>\n{mark}{revisions}  </page>\n"
    ).encode()


def _revision_xml(revision: DumpRevision) -> str:
    slots = "".join(
        f"      <content>\n        <role>{role}</role>\n        <origin>1</origin>\n"
        f"        <model>json</model>\n        <format>application/json</format>\n"
        f"        {_text_xml(text)}\n      </content>\n"
        for role, text in revision.slots.items()
    )
    return (
        f"    <revision>\n      <id>{revision.revision_id}</id>\n      <parentid>7</parentid>\n"
        f"      <timestamp>{revision.timestamp}</timestamp>\n      <contributor>\n"
        f"        <username>Some &amp; One</username>\n        <id>12</id>\n      </contributor>\n"
        f"      <minor />\n      <comment>{xml(revision.comment)}</comment>\n"
        f"      <origin>{revision.revision_id}</origin>\n      <model>wikitext</model>\n"
        f"      <format>text/x-wiki</format>\n      {_text_xml(revision.text)}\n{slots}"
        f"      <sha1>{_sha1(revision.text or '')}</sha1>\n    </revision>\n"
    )


def _text_xml(text: str | None) -> str:
    if text is None:
        return '<text bytes="4711" sha1="" deleted="deleted" />'
    marks = f'bytes="{len(text.encode())}" sha1="{_sha1(text)}"'
    if not text:
        return f"<text {marks} />"
    return f'<text {marks} xml:space="preserve">{xml(text)}</text>'


def _sha1(text: str) -> str:
    """In base 36, as MediaWiki writes it."""
    number, digits = int(hashlib.sha1(text.encode()).hexdigest(), 16), ""
    while number:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits.rjust(31, "0")


def xml(text: str) -> str:
    return escape(text, {'"': "&quot;"})
