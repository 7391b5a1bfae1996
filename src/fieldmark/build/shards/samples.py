"""Samples of a webdataset shard: which members belong together, and what is wrong with them?

A sample is a run of members that share a key: the path up to the first dot of the file's name; the
rest, in lower case, is the extension. This is webdataset 1.0's rule, and its other habits are kept
too: what has no extension and what is called `__so__` is passed over. Memory does not grow with the
bytes of a shard; about 100 bytes a key are kept, to notice one that comes again.
"""

from __future__ import annotations

import os
import re
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fieldmark.build.shards.tar import (
    FILE_TYPES,
    Defect,
    TarBytes,
    TarEntry,
    open_file,
    padded,
    read_entries,
)
from fieldmark.data import PackedFile, is_image, is_packed
from fieldmark.errors import DataError
from fieldmark.files import parse_json
from fieldmark.taxa import RANKS, Taxon, taxon_of_fields
from fieldmark.taxa.text import COMMON, PHOTO

WRITER = "caption.json"
"""of joined shards: which model wrote the caption beside it"""
_META = re.compile(r"__[^/]*__($|/)")


@dataclass(frozen=True, slots=True)
class SampleMember:
    """One file of a sample; its bytes are read when wanted (`MemberReader`)."""

    name: str
    """the whole path in the tar file"""
    extension: str
    """in lower case: "jpg", "taxontag_com.txt" """
    offset: int
    """of its first byte, in the unpacked tar file"""
    size: int

    @property
    def end(self) -> int:
        """Where the next header begins."""
        return padded(self.offset + self.size)


@dataclass(frozen=True, slots=True)
class Sample:
    key: str
    members: tuple[SampleMember, ...]

    @property
    def end(self) -> int:
        """Where the next sample, or the end mark, may begin."""
        return self.members[-1].end

    def get(self, *extensions: str) -> SampleMember | None:
        """The member with the first of these extensions that the sample has."""
        by_extension = {member.extension: member for member in self.members}
        return next((by_extension[name] for name in extensions if name in by_extension), None)

    @property
    def image(self) -> SampleMember | None:
        """The first member that is called as an image is; `jpg` comes before `mask.png`."""
        images = [member for member in self.members if is_image(f".{member.extension}")]
        return min(images, key=lambda member: member.extension.count("."), default=None)


def read_samples(path: Path) -> Iterator[Sample]:
    """The samples of a shard, in its order; DataError where it is damaged or cut off.

    A cut shard gives the samples before the cut, then raises: wait for the end before trusting it.
    """
    with TarBytes(path) as stream:
        yield from sound_samples(stream)


def sound_samples(stream: TarBytes) -> Iterator[Sample]:
    """The same, of a file that is open."""
    for part in scan(stream):
        if isinstance(part, Sample):
            yield part
        elif not part.is_note:
            raise DataError(part.line(stream.path))


def split_name(name: str) -> tuple[str, str] | None:
    """Key and extension of a member; None = webdataset passes it over.

    >>> split_name("train/a.b.JPG"), split_name("README"), split_name("__meta__/a.txt")
    (('train/a', 'b.jpg'), None, None)
    """
    folder, slash, base = name.rpartition("/")
    stem, dot, extension = base.partition(".")
    if not dot or _META.match(name):
        return None
    if not stem and (not slash or "." in folder.rpartition("/")[2]):
        return None  # a hidden file; in a folder, the folder's own name becomes the key
    return f"{folder}{slash}{stem}", extension.lower()


# --- bytes ---


Read = Callable[[SampleMember], bytes]
"""gives the bytes of a member, as `MemberReader.read` does"""


class MemberReader:
    """Reads members of one shard, from any thread; those of a packed one quickly only in order."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._packed = PackedFile(path) if is_packed(path) else None
        self._file = open_file(path)

    def read(self, member: SampleMember) -> bytes:
        data = self._read_at(member.offset, member.size)
        if len(data) < member.size:
            raise DataError(
                f"{self._path}  at byte {member.offset:,}: is cut off inside member "
                f"{member.name!r}."
            )
        return data

    def _read_at(self, offset: int, size: int) -> bytes:
        if self._packed is not None:
            return self._packed.read_at(offset, size)
        parts: list[bytes] = []
        while size > 0 and (part := os.pread(self._file.fileno(), size, offset)):
            parts.append(part)
            offset, size = offset + len(part), size - len(part)
        return b"".join(parts)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> MemberReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# --- runs of members ---


def scan(stream: TarBytes) -> Iterator[Sample | Defect]:
    """Samples and what is wrong, in the order of the shard. What lies behind damage is not read."""
    runs = _SampleRuns()
    for part in read_entries(stream):
        if isinstance(part, Defect):
            yield part._replace(key=runs.key)
            if not part.is_note and part.kind != "data_after_end":
                return
            continue
        yield from runs.add(part)
    yield from runs.finish()


class _SampleRuns:
    """Members with one key, one after the other, become a sample."""

    def __init__(self) -> None:
        self.key = ""
        self._members: dict[str, SampleMember] = {}
        self._seen: dict[str, frozenset[str]] = {}
        self._kinds: dict[frozenset[str], frozenset[str]] = {}
        """the same few sets of extensions are shared by all keys"""

    def add(self, entry: TarEntry) -> Iterator[Sample | Defect]:
        if entry.kind == tarfile.DIRTYPE:
            yield Defect("folder", entry.header, "", f"folder {entry.name!r} is ignored", True)
            return
        names = split_name(entry.name)
        if names is None:
            text = f"{entry.name!r} has no key and extension and is ignored"
            yield Defect("ignored", entry.header, "", text, True)
            return
        key, extension = names
        if entry.kind not in FILE_TYPES:
            text = f"member {entry.name!r} is {_kind_name(entry.kind)}, which readers ignore"
            yield Defect("no_file", entry.header, key, text)
            return
        if key.endswith("/"):
            text = f"hidden file {entry.name!r} looks like a sample to webdataset: pack without"
            yield Defect("hidden_file", entry.header, key, f"{text} (on a Mac: COPYFILE_DISABLE=1)")
            return
        if key != self.key:
            yield from self.finish()
            self.key = key
        if extension in self._members:
            text = f"member {entry.name!r}: the sample has two {extension!r}"
            yield Defect("extension_twice", entry.header, key, text)
            return
        member = SampleMember(entry.name, extension, entry.offset, entry.size)
        self._members[extension] = member
        if len(self._members) == 1 and key in self._seen:
            yield self._again(entry, extension)

    def _again(self, entry: TarEntry, extension: str) -> Defect:
        if extension in self._seen[self.key]:
            return Defect("key_twice", entry.header, self.key, "another sample has the same key")
        text = "the files of the sample are not next to each other: readers see two samples"
        return Defect("key_apart", entry.header, self.key, text)

    def finish(self) -> Iterator[Sample]:
        if not self._members:
            return
        extensions = frozenset(self._members)
        before = self._seen.get(self.key, frozenset[str]())
        every = before | extensions
        self._seen[self.key] = self._kinds.setdefault(every, every)
        sample = Sample(self.key, tuple(self._members.values()))
        self._members = {}
        yield sample


def _kind_name(kind: bytes) -> str:
    names = {tarfile.LNKTYPE: "a hard link", tarfile.SYMTYPE: "a symbolic link"}
    return names.get(kind, f"of type {kind.decode('latin-1')!r}, not an ordinary file")


# --- Text members of TreeOfLife shards: which taxon do they name?
# The members are those that `taxa.text.taxon_texts` writes. Shards of this package also hold a
# `json` member with the ranks one by one, which is read first. Names are brought into the form
# that descriptions are kept under (`normal_taxon`).

_TAG = re.compile(rf"(?:^|\s)({'|'.join(RANKS)})(?=\s|$)")
_MAX_BYTES = 1 << 16
"""a longer text is none of these"""


def sample_taxon(sample: Sample, read: Read) -> Taxon | None:
    """The taxon that the members of a sample name, from the most telling one; None = none does."""
    fields = _json_fields(_text(sample, read, "json"))
    taxon = taxon_of_fields(fields)
    common = taxon.common_name
    for extension, parse in _PARSERS:
        if taxon.name or fields.keys() >= set(RANKS):  # it says which are known, or that none is
            break
        body, _, tail = _bare(_text(sample, read, extension)).partition(COMMON)
        taxon, common = taxon_of_fields(parse(body)), common or tail
    if not common:
        common = _text(sample, read, "common_name.txt") or _bare(_text(sample, read, "com.txt"))
    if taxon.name and taxon_of_fields({"scientific_name": common}).name == taxon.name:
        common = ""  # stands for one that is not known
    return Taxon(taxon.ranks, common) if common or taxon.name else None


def sample_facts(sample: Sample, read: Read) -> dict[str, str]:
    """Where a sample comes from, as far as its JSON members say: `dataset`, `split`, and `writer`,
    the model that wrote the caption.
    """
    about = _json_fields(_text(sample, read, "json"))
    note = _json_fields(_text(sample, read, WRITER))
    facts = {name: about.get(name, "").strip() for name in ("dataset", "split")}
    return facts | {"writer": writer(note.get("model", ""), "stand_in" in note)}


def writer(model: str, is_stand_in: bool) -> str:
    """What a person reads of the model that wrote captions."""
    return f"{model} (a mock that saw no photo)" if model and is_stand_in else model


def _text(sample: Sample, read: Read, extension: str) -> str:
    member = sample.get(extension)
    if member is None or member.size > _MAX_BYTES:
        return ""
    return read(member).decode("utf-8", "replace").strip()


def _bare(text: str) -> str:
    """Without "a photo of" before it and the full stop behind it."""
    bare = text.removeprefix(PHOTO)
    return bare if bare == text else bare.removesuffix(".")


def _json_fields(text: str) -> dict[str, str]:
    try:
        value = parse_json(text) if text else None
    except ValueError:
        value = None
    fields = value if isinstance(value, dict) else {}
    return {key: text for key, text in fields.items() if isinstance(text, str)}


def _tags(text: str) -> dict[str, str]:
    """ "kingdom Animalia phylum Chordata …". Some published ones name the tag behind the value:
    these are not read, the plain names stand beside them.
    """
    before, *parts = _TAG.split(text)
    ranks = parts[::2]
    if before.strip() or ranks != sorted(set(ranks), key=RANKS.index):
        return {}
    return dict(zip(ranks, parts[1::2], strict=True))


def _words(text: str) -> dict[str, str]:
    """Seven names in a row; of fewer nobody can say which ranks they are."""
    words = text.split()
    if len(words) < len(RANKS):
        return {}
    return dict(zip(RANKS, [*words[:6], " ".join(words[6:])], strict=True))


def _name(text: str) -> dict[str, str]:
    return {"scientific_name": text}


_PARSERS: tuple[tuple[str, Callable[[str], dict[str, str]]], ...] = (
    ("taxontag.txt", _tags),
    ("taxontag_com.txt", _tags),
    ("taxonomic_name.txt", _words),
    ("taxon.txt", _words),
    ("taxon_com.txt", _words),
    ("scientific_name.txt", _name),
    ("sci.txt", _name),
    ("sci_com.txt", _name),
)
