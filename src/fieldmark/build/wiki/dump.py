"""XML dump of a wiki (pages-articles, bzip2, multistream): a page store without the network.

A multistream dump is a bzip2 file of many streams: the head of the XML, then about 100 whole pages
a stream, then its end. An index beside it names the stream of every title. Hence two ways with the
same answers: `read_dump` goes through all of the file, which suits long lists of titles, and
`DumpIndex` (dump_index.py) unpacks only the streams that hold the titles asked for.

A dump is kept for its taxa (export.py says which pages those are): the title of any other page
counts as missing. `kill -9` loses what was read since the last commit; multistream dumps and plain
XML go on from there, other files start anew.
https://meta.wikimedia.org/wiki/Data_dumps/Dump_format
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import json
import mmap
import re
import zlib
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from fieldmark.build.wiki import WikiSite
from fieldmark.build.wiki.export import (
    PAGE_END,
    PAGE_START,
    XML_END,
    ExportFault,
    KeptPages,
    read_pages,
    read_site,
)
from fieldmark.build.wiki.store import PageStore
from fieldmark.errors import DataError, at
from fieldmark.processes import ChildDied, process_pool
from fieldmark.progress import Progress, Silent

_READ_BYTES = 2**18
_UNPACK_BYTES = 2**22
"""at most at a time: few different words in much text must not fill the memory"""
_HEAD_BYTES = 2**20
_MARK_BYTES = 2**16
_COMMIT_ROWS = 5_000
_RANGE_BYTES = 2**20
"""compressed, at least, for one process to unpack: results travel back in one piece"""
_STREAM_START = re.compile(rb"BZh[1-9]1AY&SY")
"""header of a bzip2 stream and of its first block: 10 bytes that chance does not write"""
_NOTE = "dump"


class Chunk(NamedTuple):
    """Unpacked bytes of a dump; all positions are in the file."""

    data: bytes
    position: int
    """of the bzip2 stream that they begin in; of themselves in plain XML"""
    done: int
    """how far the file was read for them"""
    after: int | None
    """where reading can begin anew behind them; None = inside a stream"""


class ReadPages(NamedTuple):
    """What is kept of a chunk."""

    kept: KeptPages
    done: int
    after: int | None


@dataclass(slots=True)
class DumpCounts:
    """What one run read of a dump; nothing where the store had all of it."""

    n_pages: int = 0
    n_kept: int = 0
    """pages and redirects put into the store"""


def read_dump(
    path: Path, store: PageStore, progress: Progress | None = None, processes: int = 1
) -> DumpCounts:
    """Reads a whole dump into a store, which is whole afterwards and not before.

    Goes on where an earlier run on the same file was stopped. With several processes the streams
    of a multistream dump are unpacked side by side; other files have no use for them.
    """
    progress = progress or Silent()
    start = claim_store(path, store)
    if store.is_whole:
        return DumpCounts()
    if re.search(r"\.xml-p\d+p\d+", path.name):
        progress.say(at(path, None, "is one part of a dump: titles of other parts are missing."))
    mark = file_mark(path)
    if processes > 1 and _is_multistream(path):
        parts = _read_in_processes(path, start, processes)
    else:
        parts = _read_in_turn(path, start)
    with faults_named(path):
        counts = _fill(store, parts, (path, mark, start), progress)
    if file_mark(path) != mark:
        raise DataError(at(path, None, "was changed while it was read: read it again."))
    store.is_whole = True
    return counts


def claim_store(path: Path, store: PageStore) -> int:
    """Where to go on reading this file into a store; refuses one that has other files' pages."""
    mark = file_mark(path)
    note = json.loads(store.note(_NOTE) or "{}")
    if note and note["file"] != mark:
        text = f"contains pages of another dump than {path} is now: delete it, or use another file."
        raise DataError(at(store.path, None, text))
    if not note:
        if store.is_whole or len(store):
            text = f"contains pages that are not from {path}: use another file."
            raise DataError(at(store.path, None, text))
        store.set_site(site_of(path))
        _note(store, mark, 0)
    return int(note.get("offset", 0))


def _note(store: PageStore, mark: str, offset: int) -> None:
    store.set_note(_NOTE, json.dumps({"file": mark, "offset": offset}))


def _fill(
    store: PageStore, parts: Iterator[ReadPages], file: tuple[Path, str, int], progress: Progress
) -> DumpCounts:
    """Commits now and then; how far it came is noted after what was read, never before."""
    (path, mark, start), batch, counts = file, KeptPages(), DumpCounts()
    n_mb = start >> 20
    progress.start("dump, MB", path.stat().st_size >> 20)
    progress.advance(n_mb)
    for part in parts:
        batch.pages += part.kept.pages
        batch.redirects += part.kept.redirects
        counts.n_pages += part.kept.n_read
        n_rows = len(batch.pages) + len(batch.redirects)
        if n_rows >= _COMMIT_ROWS * (1 if part.after is not None else 2):
            counts.n_kept += _commit(store, batch)
            if part.after is not None:
                _note(store, mark, part.after)
        progress.advance((part.done >> 20) - n_mb)
        n_mb = part.done >> 20
        progress.status(f"{counts.n_pages:,} pages, {counts.n_kept + n_rows:,} kept")
    counts.n_kept += _commit(store, batch)
    return counts


def _commit(store: PageStore, batch: KeptPages) -> int:
    store.add(batch.pages, batch.redirects)
    n_rows = len(batch.pages) + len(batch.redirects)
    batch.pages.clear()
    batch.redirects.clear()
    return n_rows


# --- reading ---


def file_mark(path: Path) -> str:
    """What tells a file from a changed one: size, time, and a hash of its beginning and end."""
    with faults_named(path), path.open("rb") as file:
        state = path.stat()
        digest = hashlib.blake2b(file.read(_MARK_BYTES), digest_size=16)
        file.seek(max(0, state.st_size - _MARK_BYTES))
        digest.update(file.read())
    return f"{state.st_size} {state.st_mtime_ns} {digest.hexdigest()}"


def site_of(path: Path) -> WikiSite:
    """The wiki that a dump is of."""
    head = b""
    with faults_named(path):
        for chunk in _unpacked(path, 0):
            head += chunk.data
            if PAGE_END in head or len(head) > _HEAD_BYTES:
                break
        try:
            return read_site(head)
        except ExportFault as fault:
            raise DataError(at(path, None, f"{fault}.")) from fault


def _read_in_turn(path: Path, start: int) -> Iterator[ReadPages]:
    has_head = start == 0
    for chunk in _whole_pages(path, start):
        yield _read_chunk(path, chunk, has_head)
        has_head = False


def _read_chunk(path: Path, chunk: Chunk, has_head: bool) -> ReadPages:
    try:
        return ReadPages(read_pages(chunk.data, has_head), chunk.done, chunk.after)
    except ExportFault as fault:
        position = f"{fault.position} bytes into the stream at byte {chunk.position}"
        if _kind(path) == "xml":
            position = f"at byte {chunk.position + fault.position}"
        raise DataError(at(path, None, f"{fault}, {position}.")) from fault


def _whole_pages(path: Path, start: int) -> Iterator[Chunk]:
    """Unpacked bytes cut behind the end of a page; the end of the file must be that of the XML."""
    rest, rest_at = b"", start
    for chunk in _unpacked(path, start):
        data, data_at = (rest + chunk.data, rest_at) if rest else (chunk.data, chunk.position)
        n_whole = _n_whole(data)
        rest, rest_at = data[n_whole:], chunk.position if n_whole else data_at
        rest = rest if rest.strip() else b""
        if n_whole:
            yield Chunk(data[:n_whole], data_at, chunk.done, None if rest else chunk.after)
    _check_end(path, rest)


def _n_whole(data: bytes) -> int:
    """How many bytes there are up to the end of the last whole page."""
    end = data.rfind(PAGE_END)
    return end + len(PAGE_END) if end >= 0 else 0


def _check_end(path: Path, rest: bytes) -> None:
    if PAGE_START in rest or not rest.rstrip().endswith(XML_END):
        size = path.stat().st_size
        text = f"ends without </mediawiki> at byte {size}: it is cut short, download it again."
        raise DataError(at(path, None, text))


def _kind(path: Path) -> str:
    with path.open("rb") as file:
        magic = file.read(6)
    if magic.startswith(b"BZh"):
        return "bz2"
    if magic.startswith(b"\x1f\x8b"):
        return "gz"
    if magic.lstrip(b"\xef\xbb\xbf \r\n\t").startswith(b"<"):
        return "xml"
    raise DataError(at(path, None, "is not a dump in XML, plain or packed by bzip2 or gzip."))


def _unpacked(path: Path, start: int) -> Iterator[Chunk]:
    readers = {"bz2": _bz2_chunks, "gz": _gz_chunks, "xml": _xml_chunks}
    return readers[_kind(path)](path, start)


def _xml_chunks(path: Path, start: int) -> Iterator[Chunk]:
    """Cut behind the end of a page, so that reading can begin anew there."""
    with path.open("rb") as file:
        file.seek(start)
        position, rest = start, b""
        while data := file.read(_UNPACK_BYTES):
            data = rest + data
            n_whole = _n_whole(data) or len(data)
            rest = data[n_whole:]
            yield Chunk(data[:n_whole], position, position + n_whole, position + n_whole)
            position += n_whole
    yield Chunk(rest, position, position + len(rest), None)


def _gz_chunks(path: Path, start: int) -> Iterator[Chunk]:
    with path.open("rb") as packed, gzip.GzipFile(fileobj=packed) as file:
        file.seek(start)
        try:
            while data := file.read(_UNPACK_BYTES):
                yield Chunk(data, 0, packed.tell(), None)
        except (EOFError, OSError, zlib.error) as error:
            text = f"is damaged or cut short before byte {packed.tell()}: download it again."
            raise DataError(at(path, None, text)) from error


def _bz2_chunks(path: Path, start: int, end: int | None = None) -> Iterator[Chunk]:
    """Every chunk is of one stream; `after` is the beginning of the next one.

    The bz2 module's own readers take a damaged stream behind a sound one for the end of the file.
    """
    stream_at = done = start
    unpacker, raw = bz2.BZ2Decompressor(), b""
    with path.open("rb") as file:
        file.seek(start)
        while True:
            if not raw and unpacker.needs_input:
                raw = file.read(_READ_BYTES if end is None else min(_READ_BYTES, end - done))
                done += len(raw)
                if not raw:
                    break
            try:
                data = unpacker.decompress(raw, _UNPACK_BYTES)
            except OSError as error:
                text = f"is damaged in the bzip2 stream at byte {stream_at}: download it again."
                raise DataError(at(path, None, text)) from error
            raw = b""
            if not unpacker.eof:
                yield Chunk(data, stream_at, done, None)
                continue
            raw = unpacker.unused_data
            after = done - len(raw)
            yield Chunk(data, stream_at, after, after)
            stream_at, unpacker = after, bz2.BZ2Decompressor()
    if stream_at < done:
        text = f"ends inside the bzip2 stream at byte {stream_at}: it is cut short, download it "
        raise DataError(at(path, None, f"{text}again."))


@contextmanager
def faults_named(path: Path) -> Iterator[None]:
    """Faults of a file as one line that names it."""
    try:
        yield
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(at(path, None, f"cannot be read ({reason}).")) from error


def read_stream(path: Path, offset: int) -> tuple[bytes, int]:
    """All of the bzip2 stream that begins at this byte, and where the next one does."""
    data, after = b"", offset
    with faults_named(path):
        for chunk in _bz2_chunks(path, offset):
            data += chunk.data
            if chunk.after is not None:
                after = chunk.after
                break
    return data, after


def read_lines(path: Path) -> Iterator[bytes]:
    """Lines of a text file, plain or packed by bzip2, without their ends."""
    rest, read = b"", _bz2_chunks if path.suffix == ".bz2" else _xml_chunks
    with faults_named(path):
        for chunk in read(path, 0):
            *lines, rest = (rest + chunk.data).split(b"\n")
            yield from lines
    if rest:
        yield rest


# --- several processes ---


def _is_multistream(path: Path) -> bool:
    """Does the second stream of a bzip2 file begin with a page?"""
    if _kind(path) != "bz2":
        return False
    head = next(_bz2_chunks(path, 0))
    second = None if head.after is None else next(_bz2_chunks(path, head.after), None)
    return second is not None and second.data.lstrip().startswith(PAGE_START)


def _read_in_processes(path: Path, start: int, processes: int) -> Iterator[ReadPages]:
    """In the order of the file, with a few results at most waiting for their turn."""
    waiting: deque[Future[ReadPages]] = deque()
    try:
        with process_pool(processes) as pool:
            for start_of_range, last in _ranges(path, start):
                waiting.append(pool.submit(_read_range, path, start_of_range, last))
                if len(waiting) > 2 * processes:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
    except ChildDied as error:
        text = f"a process that read it {error}: use fewer processes."
        raise DataError(at(path, None, text)) from error


def _ranges(path: Path, start: int) -> Iterator[tuple[int, int]]:
    """Stretches of whole streams, of a megabyte or a little more."""
    size = path.stat().st_size
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
        begin = start
        for match in _STREAM_START.finditer(view, start):
            if match.start() - begin >= _RANGE_BYTES:
                yield begin, match.start()
                begin = match.start()
        yield begin, size


def _read_range(path: Path, begin: int, last: int) -> ReadPages:
    with faults_named(path):
        data = b"".join(chunk.data for chunk in _bz2_chunks(path, begin, last))
    rest = data[_n_whole(data) :]
    if last == path.stat().st_size:
        _check_end(path, rest)
    elif rest.strip():
        text = f"has a stream before byte {last} that does not end with a page: use one process."
        raise DataError(at(path, None, text))
    return _read_chunk(path, Chunk(data, begin, last, last), has_head=begin == 0)
