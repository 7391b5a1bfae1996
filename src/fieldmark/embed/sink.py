"""Look-up and leases of the embedder: what is still to be computed, by whom, and what is kept?

The sink stands between the pipelines and the cache. Of every file that was read it says what nobody
has embedded yet, and it keeps features as they come. Where other processes fill the same cache,
images are leased bucket by bucket (`shards.py`) and looked up again when their turn comes.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress, groupby
from operator import attrgetter
from pathlib import Path

import numpy as np

from fieldmark.data import (
    ABSENT,
    Content,
    Contents,
    ImageRef,
    archive_order,
    is_of_file,
    item_key,
    split_reference,
)
from fieldmark.embed.rows import FeatureRows
from fieldmark.embed.shards import LEASES, LeasedBuckets, bucket
from fieldmark.embed.work import HashedFile, ImagePart, Throughput, WantedFile, add_throughputs
from fieldmark.errors import DataError
from fieldmark.leases import LeaseFolder
from fieldmark.progress import Progress

_LOOKED_UP = 1_000
"""files of a bucket whose content is looked up at a time"""


@dataclass(frozen=True, slots=True)
class Filled:
    """What the cache now has of the items."""

    keys: dict[ImageRef, bytes]
    """what the feature of each item is kept under; bad ones have none"""
    bad: dict[str, str]
    """image → why it cannot be read, in the order of the items. With the policy `fail`, nothing was
    computed where one of them was known before the pass"""
    throughput: Throughput


@dataclass(slots=True)
class CacheSink:
    """Keeps what a pipeline reads and computes, and shows how far it is."""

    root: Path
    contents: Contents
    rows: FeatureRows
    progress: Progress
    keys: dict[ImageRef, bytes]
    bad: dict[str, str]
    in_flight: set[bytes] = field(default_factory=set)
    unusable: dict[bytes, str] = field(default_factory=dict)
    """key → why that part of a file cannot be decoded"""
    being_read: dict[str, tuple[bytes, bytes | None]] = field(default_factory=dict)
    """image → its content and stamp, until its features are kept"""
    lock: threading.Lock = field(default_factory=threading.Lock)
    buckets: LeasedBuckets | None = None
    """is told what needs no more work, where other processes embed too"""

    def still_missing(self, refs: list[ImageRef]) -> tuple[list[ImageRef], dict[str, Content]]:
        """What of a bucket no other process has embedded meanwhile, and what its files hold."""
        self.rows.refresh()
        contents_of: dict[str, Content] = {}
        images = list(dict.fromkeys(ref.image for ref in refs))
        for start in range(0, len(images), _LOOKED_UP):
            some = images[start : start + _LOOKED_UP]
            contents_of |= self.contents.known(self.root, some, has_asked=True)
        keys, bad = judge(refs, contents_of)
        is_there = ~self.rows.missing(list(keys.values()))
        done = set(compress(keys, is_there))
        with self.lock:
            self.keys.update(keys)
            self.bad.update(bad)
            missing = [ref for ref in refs if ref not in done and ref.image not in bad]
            self.progress.advance(len(refs) - len(missing))
        return missing, contents_of

    def _count_done(self, images: Iterable[str]) -> None:
        if self.buckets is not None:
            self.buckets.count_done(Counter(map(bucket, images)))

    def read(self, files: Sequence[HashedFile]) -> list[list[ImagePart]]:
        for file in files:
            expected = file.wanted.expected
            if expected is not None and file.content.key not in (expected, ABSENT):
                raise DataError(
                    f"{self.root}  {file.wanted.image} was changed while it was being read: run "
                    "the same command again."
                )
        new = [file for file in files if file.wanted.expected is None]
        self.contents.note(self.root, [(file.wanted.image, *file[1:]) for file in new])
        with self.lock:
            for file in files:
                if file.content.problem:
                    self.bad[file.wanted.image] = file.content.problem
                    for ref in file.wanted.refs:
                        self.keys.pop(ref, None)
            parts = self._asked(files)
        for file, missing_parts in zip(files, parts, strict=True) if self.buckets else ():
            self._count_done([file.wanted.image] * (len(file.wanted.refs) - len(missing_parts)))
        return parts

    def _asked(self, files: Sequence[HashedFile]) -> list[list[ImagePart]]:
        """What of them nobody has embedded or is about to."""
        usable = [file for file in files if not file.content.problem]
        every = {
            ref: item_key(file.content.key, ref.crop) for file in usable for ref in file.wanted.refs
        }
        self.keys.update(every)
        new = [key for key in dict.fromkeys(every.values()) if key not in self.in_flight]
        new = [key for key in new if key not in self.unusable]
        keys = set(compress(new, self.rows.missing(new)))
        self.in_flight |= keys
        parts: list[list[ImagePart]] = []
        for file in files:
            file_parts = []
            for ref in file.wanted.refs if keys else ():
                if (key := every.get(ref)) in keys:
                    keys.discard(key)
                    file_parts.append(ImagePart(ref, key))
            if file_parts:
                self.being_read[file.wanted.image] = file.content.key, file.mark
            parts.append(file_parts)
        n_done = sum(len(file.wanted.refs) for file in files) - sum(map(len, parts))
        if n_done:
            self.progress.advance(n_done)
        return parts

    def failed(self, part: ImagePart, reason: str) -> None:
        """A file that cannot be decoded is remembered as bad, as one that is cut off is."""
        with self.lock:
            stamp = self.being_read.get(part.ref.image)
            if stamp is not None and is_of_file(reason):
                content = Content(stamp[0], reason)
                self.contents.note(self.root, [(part.ref.image, content, stamp[1])])
            self.unusable[part.key] = reason
            self.in_flight.discard(part.key)
            self.progress.advance()
        self._count_done((part.ref.image,))

    def keep(self, parts: Sequence[ImagePart], features_nd: np.ndarray) -> None:
        keys = [part.key for part in parts]
        self.rows.append(keys, features_nd)
        with self.lock:
            self.in_flight.difference_update(keys)
            for part in parts:
                self.being_read.pop(part.ref.image, None)
            self.progress.advance(len(parts))
        self._count_done(part.ref.image for part in parts)

    def filled(self, items: Sequence[ImageRef], throughput: Throughput) -> Filled:
        """When the pipeline is done."""
        if self.unusable:
            for ref, key in self.keys.items():
                if key in self.unusable:
                    self.bad[ref.image] = self.unusable[key]
        if not self.bad:
            return Filled(self.keys, {}, throughput)
        keys = {ref: key for ref, key in self.keys.items() if key not in self.unusable}
        names = dict.fromkeys(ref.image for ref in items)
        bad = {image: self.bad[image] for image in names if image in self.bad}
        return Filled(keys, bad, throughput)


# --- other processes ---


def run_leased(
    run: Callable[[Iterator[WantedFile]], Throughput], refs: Sequence[ImageRef], sink: CacheSink
) -> Throughput:
    """Embeds what no other process is embedding; what others leave undone afterwards.

    The pipeline ends, and with it all own leases, before this process waits for another: what lies
    in an unfinished batch would keep others waiting for it.
    """
    passes: list[Throughput] = []
    with LeaseFolder(sink.rows.folder / LEASES) as folder:
        sink.buckets = buckets = LeasedBuckets(folder, sink.root, refs, sink.rows.sync)
        while True:
            files = _leased_files(buckets, sink)
            file = next(files, None)
            if file is not None:
                passes.append(run(chain((file,), files)))
            buckets.release()
            if not buckets.has_left:
                return add_throughputs(passes)
            buckets.wait(sink.progress)


def _leased_files(buckets: LeasedBuckets, sink: CacheSink) -> Iterator[WantedFile]:
    for at, refs in buckets.take():
        missing, contents_of = sink.still_missing(refs)
        buckets.count_done({at: len(refs) - len(missing)})
        yield from in_reading_order(sink.root, missing, contents_of)


# --- before the pass ---


def judge(
    items: Sequence[ImageRef], contents_of: Mapping[str, Content]
) -> tuple[dict[ImageRef, bytes], dict[str, str]]:
    """Of the images whose content is known: the keys of good ones, the reasons of bad ones."""
    bad = {image: content.problem for image, content in contents_of.items() if content.problem}
    keys = {
        ref: item_key(contents_of[ref.image].key, ref.crop)
        for ref in items
        if ref.image in contents_of and ref.image not in bad
    }
    return keys, bad


def in_reading_order(
    root: Path, todo: list[ImageRef], contents_of: Mapping[str, Content]
) -> Iterator[WantedFile]:
    """Files by name, members of an archive as they lie in it: what is near is read together."""
    todo.sort(key=attrgetter("image"))
    for archive, refs in _by_archive(todo):
        for image in archive_order(root, list(refs)) if archive else refs:
            content = contents_of.get(image)
            yield WantedFile(image, refs[image], content.key if content else None)


def _by_archive(
    todo: Sequence[ImageRef],
) -> Iterator[tuple[str, dict[str, tuple[ImageRef, ...]]]]:
    """The parts of each image; those of one archive together, a file that is none ("") alone."""
    last, inside = "", dict[str, tuple[ImageRef, ...]]()
    for image, refs in groupby(todo, key=attrgetter("image")):
        name, inner = split_reference(image)
        if inside and (not inner or name != last):
            yield last, inside
            inside = {}
        if inner:
            last, inside[image] = name, tuple(refs)
        else:
            yield "", {image: tuple(refs)}
    if inside:
        yield last, inside
