"""Integrity check of shards: what is wrong with a set of tar files, by name, and how often?

Without an index only headers are read (and images, where these are asked for): a shard of 2 GB
takes as long as its members are many. With an index every byte is hashed. Keys of all shards are
held against each other by hashes of 8 bytes each; a hit is looked up in the shards again, so no
chance collision is ever reported.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fieldmark.build.shards.index import ShardIndex, read_index, survey
from fieldmark.build.shards.samples import MemberReader, Sample, scan
from fieldmark.build.shards.tar import Defect, TarBytes
from fieldmark.data import quick_check
from fieldmark.errors import DataError, plain_reason
from fieldmark.progress import Progress, Silent

MOST_LINES = 20
"""of one kind; the counts are of all"""
_TEXTS = ("txt", "text", "caption", "json", "cls")


@dataclass(slots=True)
class ShardsReport:
    """What is right and wrong with a set of shards."""

    n_samples: int = 0
    n_bytes: int = 0
    extensions: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    """kind of defect → how many"""
    notes: Counter[str] = field(default_factory=Counter)
    """kind of what readers pass over → how many"""
    lines: list[tuple[str, str]] = field(default_factory=list)
    """kind and text of the first defects of each kind"""

    @property
    def is_sound(self) -> bool:
        return not self.counts

    def add(self, path: Path, defect: Defect) -> None:
        counts = self.notes if defect.is_note else self.counts
        counts[defect.kind] += 1
        if not defect.is_note and counts[defect.kind] <= MOST_LINES:
            self.lines.append((defect.kind, defect.line(path)))


def check_shards(
    paths: Sequence[Path],
    index: Path | None = None,
    has_images: bool = False,
    progress: Progress | None = None,
) -> ShardsReport:
    """Every defect of every shard; `has_images` also looks at the images' bytes."""
    progress, report = progress or Silent(), ShardsReport()
    listed = read_index(index) if index is not None else {}
    hashes: list[array[int]] = []
    progress.start("shards", len(paths))
    for path in paths:
        progress.status(path.name)
        one = _ShardCheck(path, report)
        try:
            index_here = one.check(has_images, has_hashes=index is not None)
            if index is not None:
                _compare(report, path, index_here, listed.get(path.resolve()), index)
        except DataError as error:
            report.add(path, Defect("unreadable", 0, "", plain_reason(error)))
        hashes.append(one.hashes)
        progress.advance()
    for path, sample, other in _shared_keys(paths, hashes):
        text = f"{other} has a sample with the same key"
        report.add(path, Defect("key_in_two_shards", sample.members[0].offset, sample.key, text))
    for path in listed:
        if not path.exists():
            text = f"{index} lists it, but it does not exist"
            report.add(path, Defect("shard_missing", 0, "", text))
    return report


class _ShardCheck:
    """One shard, sample by sample."""

    def __init__(self, path: Path, report: ShardsReport) -> None:
        self.path, self.report = path, report
        self.hashes = array("Q")
        self._reader: MemberReader | None = None

    def check(self, has_images: bool, has_hashes: bool) -> ShardIndex:
        def note(defect: Defect) -> None:
            self.report.add(self.path, defect)

        n_wrong = self.report.counts.total()
        with MemberReader(self.path) as reader:
            self._reader = reader if has_images else None
            shard = survey(self.path, note, self._look, has_hashes)
        if not shard.n_samples and self.report.counts.total() == n_wrong:
            note(Defect("empty", 0, "", "contains no samples"))
        self.report.n_samples += shard.n_samples
        self.report.n_bytes += shard.n_bytes
        self.report.extensions.update(shard.extensions)
        return shard

    def _look(self, sample: Sample) -> None:
        self.hashes.append(_hash(sample.key))
        image = sample.image
        if image is None:
            self._add("no_image", sample, "the sample has no image")
        elif self._reader is not None:
            problem = self._unreadable(sample)
            if problem:
                self._add("bad_image", sample, f"member {image.name!r} {problem}")
        if not any(member.extension.rpartition(".")[2] in _TEXTS for member in sample.members):
            self._add("no_text", sample, "the sample has no text")

    def _unreadable(self, sample: Sample) -> str | None:
        assert self._reader is not None and sample.image is not None
        try:
            return quick_check(self._reader.read(sample.image))
        except DataError as error:
            return plain_reason(error)

    def _add(self, kind: str, sample: Sample, text: str) -> None:
        offset = (sample.image or sample.members[0]).offset
        self.report.add(self.path, Defect(kind, offset, sample.key, text))


def _compare(
    report: ShardsReport, path: Path, shard: ShardIndex, row: Mapping[str, Any] | None, index: Path
) -> None:
    if row is None:
        report.add(path, Defect("not_in_index", 0, "", f"{index} does not list it"))
        return
    for name, value in shard.row("").items():
        if name != "url" and name in row and row[name] != value:
            kind = "differs_from_index"
            text = f"{name} is {_short(value)}, {index} has {_short(row[name])}"
            report.add(path, Defect(kind, 0, "", text))


def _short(value: object) -> str:
    text = f"{value:,}" if isinstance(value, int) else str(value)
    return text if len(text) <= 40 else f"{text[:16]}…"


# --- keys ---


def _hash(key: str) -> int:
    data = key.encode("utf-8", "surrogateescape")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def _shared_keys(
    paths: Sequence[Path], hashes: Sequence[array[int]]
) -> Iterator[tuple[Path, Sample, Path]]:
    """Samples whose key an earlier shard has too, with that shard."""
    suspects = _in_several(hashes)
    path_of: dict[str, Path] = {}
    for path, path_hashes in zip(paths, hashes, strict=True):
        if not suspects or suspects.isdisjoint(path_hashes):
            continue
        with TarBytes(path) as stream:
            for part in scan(stream):
                if not isinstance(part, Sample) or _hash(part.key) not in suspects:
                    continue
                if path_of.setdefault(part.key, path) != path:
                    yield path, part, path_of[part.key]


def _in_several(hashes: Sequence[array[int]]) -> set[int]:
    """Hashes of keys that more than one shard has."""
    import numpy as np

    key_hashes = [np.unique(np.frombuffer(one, np.uint64)) for one in hashes if one]
    if not key_hashes:
        return set()
    values, n_shards = np.unique(np.concatenate(key_hashes), return_counts=True)
    return set(values[n_shards > 1].tolist())
