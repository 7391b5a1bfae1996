"""Random access to a webdataset shard: where does a sample lie, and which texts has it?

The index of a shard is one file: byte range and key of every sample, where its image and the wanted
texts lie within, and captions joined by key. Only headers and texts are read to make it, or every
byte where captions say from which bytes they were made. It is kept while shard and captions are
untouched, and mapped into memory: ten million samples take no room, and a sample is one read.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldmark import draws
from fieldmark.build.shards.captions import captioned_sha256, of_other_bytes, read_captions
from fieldmark.build.shards.index import survey
from fieldmark.build.shards.samples import MemberReader, Sample, SampleMember, sample_facts
from fieldmark.build.shards.tar import Defect
from fieldmark.errors import DataError
from fieldmark.files import parse_json, whole_file

CAPTION = "caption"
"""the text type of captions, from a file beside the shard or from members `caption.txt`"""
MOST_NAMES = 5
_VERSION = 4
"""raised when an index would hold something else"""
_ABSENT = 0xFFFF_FFFF
"""the size of a member that a sample lacks"""
_END = b"end of the index\n"
"""a file that a crash of the machine cut lacks it"""


@dataclass(frozen=True, slots=True)
class RawSample:
    key: str
    image: bytes
    """as the shard has it, not decoded"""
    texts: Mapping[str, str]
    """text type → text, of the types that the recipe wants and the sample has"""


# --- the index ---


@dataclass(frozen=True, slots=True)
class IndexJob:
    """One shard, and what is wanted of it."""

    shard: Path
    index: Path
    members: tuple[tuple[str, str], ...]
    """text type and extension, lower case"""
    sidecar: Path | None = None
    """Parquet file with captions; need not exist"""

    @property
    def manifest(self) -> Path | None:
        return None if self.sidecar is None else self.sidecar.with_suffix(".json")

    def made_from(self) -> list[Any]:
        """What changes when the index has to be made anew."""
        files = [stamp_of(path) for path in (self.shard, self.sidecar, self.manifest)]
        return [_VERSION, [list(pair) for pair in self.members], files]


@dataclass(slots=True)
class IndexedShard:
    """What was learnt about a shard, as it stands at the beginning of its index."""

    made_from: list[Any]
    n_samples: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    """text type → samples that have it"""
    facts: dict[str, dict[str, int]] = field(default_factory=dict)
    """`split`, `dataset` and `writer` → samples whose JSON members name which"""
    extensions: list[str] = field(default_factory=list)
    digest: str = ""
    """of keys, texts, captions and images, every byte, in their order"""
    damage: str = ""
    """why it cannot be used at all"""
    n_wrong: dict[str, int] = field(default_factory=dict)
    """kind of problem → how often"""
    wrong: dict[str, list[str]] = field(default_factory=dict)
    """the same → the first keys"""

    def add(self, kind: str, keys: Iterable[str]) -> None:
        for key in keys:
            self.n_wrong[kind] = self.n_wrong.get(kind, 0) + 1
            if self.n_wrong[kind] <= MOST_NAMES:
                self.wrong.setdefault(kind, []).append(key)


def stamp_of(path: Path | None) -> list[int] | None:
    """What tells whether a file is as it was written; None = there is none."""
    if path is None:
        return None
    try:
        state = path.stat()
    except OSError:
        return None
    return [state.st_size, state.st_mtime_ns]


def kept_index(job: IndexJob) -> IndexedShard | None:
    """What is known of a shard whose index is up to date."""
    try:
        with job.index.open("rb") as file:
            shape, _ = _array_header(file)
            shard = IndexedShard(**parse_json(file.read(shape[0])))
            file.seek(-len(_END), os.SEEK_END)
            if file.read() != _END:
                return None
    except (OSError, ValueError, TypeError):
        return None
    return shard if shard.made_from == job.made_from() else None


def make_index(job: IndexJob) -> IndexedShard:
    """Reads a shard and writes its index; one that is damaged gets none."""
    shard = IndexedShard(job.made_from())
    try:
        captions = _sidecar_captions(job)
        with MemberReader(job.shard) as reader:
            rows = _IndexRows(job, shard, captions, reader)
            expected = "" if job.sidecar is None else captioned_sha256(job.sidecar, job.shard)
            read = survey(job.shard, rows.refuse, rows.add, has_hashes=bool(expected))
        if job.sidecar is not None and expected and read.sha256 != expected:
            raise of_other_bytes(job.sidecar, job.shard)
        if not read.n_samples:
            raise DataError(f"{job.shard}  contains no samples.")
    except DataError as error:
        shard.damage = str(error)
        return shard
    shard.n_samples, shard.extensions = read.n_samples, list(read.extensions)
    shard.digest = rows.digest.hexdigest()
    shard.add("stray", captions)  # those that belong to a sample were taken out
    rows.write()
    return shard


def _sidecar_captions(job: IndexJob) -> dict[str, str]:
    if job.sidecar is None or not job.sidecar.is_file():
        return {}
    captions = read_captions(job.sidecar, job.shard.name)
    return {key: text.strip() for key, text in captions.items() if text.strip()}


class _IndexRows:
    """The arrays of an index, sample by sample."""

    def __init__(
        self, job: IndexJob, shard: IndexedShard, captions: dict[str, str], reader: MemberReader
    ) -> None:
        self.job, self.shard, self.captions, self.reader = job, shard, captions, reader
        self.digest = hashlib.blake2b(digest_size=16)
        self._spans = array("q")
        self._members = array("I")
        self._keys, self._captions = _Strings(), _Strings()

    def refuse(self, defect: Defect) -> None:
        if not defect.is_note:
            raise DataError(defect.line(self.job.shard))

    def add(self, sample: Sample) -> None:
        caption = self.captions.pop(sample.key, "")
        members = {kind: self._text(sample, extension) for kind, extension in self.job.members}
        if caption:
            members[CAPTION] = None
        has = [kind for kind, member in members.items() if member] + [CAPTION] * bool(caption)
        for kind in has:
            self.shard.counts[kind] = self.shard.counts.get(kind, 0) + 1
        if (image := sample.image) is None:
            self.shard.add("no image", [sample.key])
        if not has:
            self.shard.add("no text", [sample.key])
        for name, value in sample_facts(sample, self.reader.read).items():
            if value and not (name == "writer" and caption):  # of that one its manifest tells
                counts = self.shard.facts.setdefault(name, {})
                counts[value] = counts.get(value, 0) + 1
        self._keys.add(sample.key)
        self._captions.add(caption)
        self._place([image, *(members[kind] for kind, _ in self.job.members)])
        part = b"" if image is None else self.reader.read(image)
        key = sample.key.encode("utf-8", "surrogateescape")
        self.digest.update(draws.digest(key, caption, len(part)) + part)

    def _text(self, sample: Sample, extension: str) -> SampleMember | None:
        """The member, unless it is blank."""
        member = sample.get(extension)
        if member is None:
            return None
        data = self.reader.read(member)
        self.digest.update(draws.digest(extension, len(data)) + data)
        return member if data.strip() else None

    def _place(self, members: Sequence[SampleMember | None]) -> None:
        """Where image and texts lie in the bytes that are read for the sample."""
        spans = [(member.offset, member.offset + member.size) for member in members if member]
        start = min((begin for begin, _ in spans), default=0)
        end = max((last for _, last in spans), default=0)
        if end - start >= _ABSENT:
            raise DataError(f"{self.job.shard}  at byte {start:,}: a sample of 4 GB or more.")
        self._spans.extend((start, end))
        for member in members:
            span = (0, _ABSENT) if member is None else (member.offset - start, member.size)
            self._members.extend(span)

    def write(self) -> None:
        n, width = len(self._spans) // 2, 1 + len(self.job.members)
        about = json.dumps(asdict(self.shard), ensure_ascii=True).encode()
        with whole_file(self.job.index) as file:
            for values in (
                np.frombuffer(about, np.uint8),
                np.array(self._spans, np.int64).reshape(n, 2),
                np.array(self._members, np.uint32).reshape(n, width, 2),
                *self._keys.arrays(),
                *self._captions.arrays(),
            ):
                np.lib.format.write_array(file, values, allow_pickle=False)
            file.write(_END)


class _Strings:
    """Texts of any length, one behind the other."""

    def __init__(self) -> None:
        self._data, self._ends = bytearray(), array("q")

    def add(self, text: str) -> None:
        self._data += text.encode("utf-8", "surrogateescape")
        self._ends.append(len(self._data))

    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        return np.array(self._ends, np.int64), np.frombuffer(bytes(self._data), np.uint8)


def _array_header(file: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of the array whose header is next; the file is then at its first byte."""
    np.lib.format.read_magic(file)
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    return shape, dtype


class OpenShard:
    """A shard and its index, ready to be read from; any number of threads may."""

    def __init__(self, shard: Path, index: Path) -> None:
        self._reader = MemberReader(shard)
        head, self._spans, self._members, *rest = _mapped(index)
        self._key_ends, self._keys, self._caption_ends, self._captions = rest
        made_from = parse_json(head.tobytes())["made_from"]
        self._types = [kind for kind, _ in made_from[1]]
        if made_from[2][0] != stamp_of(shard):
            raise DataError(f"{shard}  was changed after it was indexed: start the command again.")

    def __del__(self) -> None:
        if hasattr(self, "_reader"):
            self._reader.close()

    def key(self, row: int) -> str:
        return _string(self._key_ends, self._keys, row)

    def read(self, row: int) -> RawSample:
        """One read of the file."""
        start, end = self._spans[row].tolist()
        key, caption = self.key(row), _string(self._caption_ends, self._captions, row)
        data = self._reader.read(SampleMember(key, "", start, end - start))
        (at, size), *spans = self._members[row].tolist()
        texts = {
            kind: data[begin : begin + length].decode("utf-8", "replace").strip()
            for kind, (begin, length) in zip(self._types, spans, strict=True)
            if length != _ABSENT
        }
        return RawSample(key, data[at : at + size], texts | ({CAPTION: caption} if caption else {}))


def _mapped(index: Path) -> Iterator[NDArray[Any]]:
    """The arrays of an index, which stay on the disk until they are used."""
    with index.open("rb") as file:
        view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        while file.tell() < len(view) - len(_END):
            shape, dtype = _array_header(file)
            at, n = file.tell(), int(np.prod(shape))
            yield np.frombuffer(view, dtype, n, at).reshape(shape)
            file.seek(at + n * dtype.itemsize)


def _string(ends: NDArray[np.int64], data: NDArray[np.uint8], row: int) -> str:
    start = int(ends[row - 1]) if row else 0
    return data[start : int(ends[row])].tobytes().decode("utf-8", "surrogateescape")
