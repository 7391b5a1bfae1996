"""Multistream index: which bzip2 stream of a dump holds a title?

The index names the stream of every page, one line each (`offset:page id:title`), a gigabyte of
lines for a large wiki. Kept in memory are 8 bytes a page, sorted: a 32-bit checksum of the title,
then the number of its stream. Two titles of one checksum cost one stream more to read; what is read
is compared by its title.
"""

from __future__ import annotations

import re
import zlib
from array import array
from collections.abc import Iterable, Sequence
from functools import cached_property
from html import unescape
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fieldmark.build.wiki.dump import claim_store, read_dump, read_lines, read_stream
from fieldmark.build.wiki.export import PAGE_START, XML_END, ExportFault, KeptPages, read_pages
from fieldmark.build.wiki.store import PageStore
from fieldmark.errors import DataError, at
from fieldmark.progress import Progress, Silent

_STREAM_BITS = 32
_STREAM_MASK = (1 << _STREAM_BITS) - 1
_STREAMS_A_NAME = 20
"""streams that looking up a name takes in the worst case: titles, redirects, taxonomy templates"""
_COMMIT_STREAMS = 64


def index_path(dump: Path) -> Path | None:
    """The index that lies beside a multistream dump; None = there is none.

    `…-multistream.xml.bz2` has `…-multistream-index.txt.bz2`; of a dump in parts,
    `…-multistream1.xml-p1p9.bz2` has `…-multistream-index1.txt-p1p9.bz2`.
    """
    name = re.sub(r"((?<=multistream)\d+)?\.xml", r"-index\1.txt", dump.name, count=1)
    beside = [dump.with_name(name), dump.with_name(name.removesuffix(".bz2"))]
    return next((path for path in beside if path != dump and path.is_file()), None)


class DumpIndex:
    """Fetches pages from a multistream dump title by title; a `WikiSource`."""

    def __init__(self, dump: Path, index: Path, progress: Progress | None = None) -> None:
        self.dump, self.index = dump, index
        self.n_read = 0
        """streams unpacked so far"""
        self._progress = progress or Silent()

    @property
    def n_streams(self) -> int:
        """How many streams with pages the dump has; reads the index."""
        return len(self._lists[0])

    def fetch(self, titles: Sequence[str], store: PageStore) -> None:
        """Puts what the dump has under these titles, and where they lead, into a store."""
        claim_store(self.dump, store)
        titles_to_read, seen = set(store.unknown(titles)), set[str]()
        while titles_to_read:
            seen |= titles_to_read
            targets = self._fetch_round(titles_to_read, store)
            titles_to_read = set(store.unknown(targets)) - seen

    def _fetch_round(self, titles: set[str], store: PageStore) -> list[str]:
        """Reads titles without going after redirects; where those lead."""
        streams, targets, missing = self._streams(titles), list[str](), set(titles)
        self._progress.start("streams of the dump", len(streams))
        for start in range(0, len(streams), _COMMIT_STREAMS):
            pages, redirects = [], []
            for stream in streams[start : start + _COMMIT_STREAMS]:
                kept = self._read(stream, titles)
                pages += kept.pages
                redirects += kept.redirects
                self._progress.advance()
            store.add(pages, redirects)
            missing -= {page.title for page in pages} | {redirect[0] for redirect in redirects}
            targets += (redirect[1] for redirect in redirects)
        store.add((), missing=sorted(missing))
        return targets

    def _read(self, offset: int, titles: set[str]) -> KeptPages:
        self.n_read += 1
        try:
            kept = read_pages(read_stream(self.dump, offset)[0], titles=titles)
        except ExportFault as fault:
            text = f"{fault}, {fault.position} bytes into the stream at byte {offset}."
            raise DataError(at(self.dump, None, text)) from fault
        if not kept.n_read:
            text = f"no page begins at byte {offset} of {self.dump}: this index is of another dump."
            raise DataError(at(self.index, None, text))
        return kept

    def _streams(self, titles: Iterable[str]) -> list[int]:
        """Offsets of the streams that may hold these titles, in the order of the file."""
        offsets, keys = self._lists
        sums = np.array([_checksum(title.encode()) for title in titles], np.uint64)
        start_of = np.searchsorted(keys, sums << _STREAM_BITS)
        stop_of = np.searchsorted(keys, sums << _STREAM_BITS | _STREAM_MASK, side="right")
        hits = [
            keys[start:stop] & _STREAM_MASK for start, stop in zip(start_of, stop_of, strict=True)
        ]
        return [offsets[number] for number in np.unique(np.concatenate(hits))] if hits else []

    @cached_property
    def _lists(self) -> tuple[array[int], NDArray[np.uint64]]:
        """Offsets of the streams; checksum and number of a stream for every page, sorted."""
        self._progress.status(f"reading {self.index.name}")
        offsets, keys, offset = array("Q"), array("Q"), b""
        try:
            for line in read_lines(self.index):
                before = offset
                offset, _, title = line.split(b":", 2)
                if offset != before:
                    offsets.append(int(offset))
                keys.append(_checksum(title) << _STREAM_BITS | len(offsets) - 1)
        except (ValueError, OverflowError) as error:
            text = "expected offset:page id:title, as in the index of a multistream dump."
            raise DataError(at(self.index, len(keys) + 1, text)) from error
        self._check_end(offsets)
        by_sum = np.frombuffer(keys, np.uint64)
        by_sum.sort()
        return offsets, by_sum

    def _check_end(self, offsets: array[int]) -> None:
        """Behind the last stream of the index only the end of the XML may come."""
        after = read_stream(self.dump, offsets[-1])[1] if offsets else 0
        ending, _ = read_stream(self.dump, after)
        if not ending.strip().endswith(XML_END) or PAGE_START in ending:
            text = (
                f"ends before {self.dump} does: one is cut short, or they do not belong together."
            )
            raise DataError(at(self.index, None, text))


def _checksum(title: bytes) -> int:
    """Of a title as it is; the index writes it as XML does."""
    return zlib.crc32(unescape(title.decode()).encode() if b"&" in title else title)


def open_dump(
    dump: Path, store: PageStore, n_names: int, processes: int, progress: Progress
) -> DumpIndex | None:
    """Makes a store ready for so many names: by reading the dump whole (None), or, for few names
    and with an index, by what reads pages from it as they are asked for.
    """
    index = None if store.is_whole else index_path(dump)
    if index is not None:
        source = DumpIndex(dump, index, progress)
        if n_names * _STREAMS_A_NAME <= source.n_streams:
            return source
    read_dump(dump, store, progress, processes)
    return None
