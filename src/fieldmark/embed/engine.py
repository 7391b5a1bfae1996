"""Embedding pipeline: how do images become features, once, and never again?

What the cache has costs nothing. The rest is read in one pass: a file's bytes are hashed, checked
and decoded together, and a feature is kept under the hash of the bytes it was computed from. What
can be seen without reading (missing and empty files) is looked at first, so that no hours are spent
on data that are not there; what shows only in the bytes is told at the end of the pass, with all
good features kept. Files that lie together are read together; no feature depends on that order.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, compress, groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fieldmark.data import (
    ABSENT,
    MEMORY,
    Content,
    Contents,
    ImageRef,
    archive_order,
    is_of_file,
    item_key,
    split_reference,
)
from fieldmark.embed.cache import number, read_about, write_about, write_behaviour
from fieldmark.embed.rows import FeatureRows
from fieldmark.embed.shards import LEASES, LeasedBuckets, bucket
from fieldmark.embed.threads import run_threads
from fieldmark.embed.work import (
    HashedFile,
    ImagePart,
    Throughput,
    WantedFile,
    add_throughputs,
    decode_of,
    n_parameters_of,
    noted_decode,
)
from fieldmark.embed.workers import DeviceWorkers, as_part
from fieldmark.errors import DataError
from fieldmark.leases import LeaseFolder
from fieldmark.progress import Progress, Silent
from fieldmark.words import first_few

if TYPE_CHECKING:
    from fieldmark.models import Backbone

_LOOKED_UP = 1_000
"""files of a bucket whose content is looked up at a time"""


@dataclass(frozen=True, slots=True)
class EmbedOptions:
    """How to embed; none of it changes a feature."""

    cache: Path
    threads: int = 2
    batch_size: int = 0
    """0 = the model's own choice"""
    bad_images: str = "fail"
    """fail or skip"""
    contents: Contents | None = None
    """what is known of the images already; None = nothing but what the cache remembers"""
    workers: DeviceWorkers | None = None
    """processes on other devices, which share the work where that is worth it"""
    is_part: bool = False
    """one of several processes: the one that started them keeps how fast they were together"""
    leases: bool = False
    """other processes, on this machine or others, fill the same cache: work is leased bucket by
    bucket, so that no image is embedded twice"""


@dataclass(frozen=True, slots=True)
class Filled:
    """What the cache now has of the items."""

    keys: dict[ImageRef, bytes]
    """what the feature of each item is kept under; bad ones have none"""
    bad: dict[str, str]
    """image → why it cannot be read, in the order of the items. With the policy `fail`, nothing was
    computed where one of them was known before the pass"""
    throughput: Throughput


@dataclass(frozen=True, slots=True)
class Embedded:
    """Features of items, in their order."""

    features: np.ndarray
    """float32, n × dim; rows of bad images are NaN"""
    is_ok: np.ndarray
    """bool, n"""
    bad: dict[str, str]
    """image → why it cannot be read"""
    n_computed: int
    seconds: float
    keys: dict[ImageRef, bytes]
    """what stands for the content of each image that was read"""
    throughput: Throughput


def embed(
    model: Backbone,
    root: Path,
    items: Sequence[ImageRef],
    options: EmbedOptions,
    progress: Progress | None = None,
) -> Embedded:
    """Features of the items: from the cache where it has them, computed and kept otherwise."""
    progress = progress or Silent()
    with _opened_rows(model, options) as rows:
        filled = _fill(model, root, items, rows, options, progress)
        refuse_bad(root, filled.bad, len(items), options.bad_images)
        if filled.bad:
            progress.say(
                f"{root}  {len(filled.bad)} of {len(items)} images left out: "
                f"{_first_few(filled.bad)}."
            )
        return _collect(rows, filled, items)


def fill(
    model: Backbone,
    root: Path,
    items: Sequence[ImageRef],
    options: EmbedOptions,
    progress: Progress | None = None,
) -> Filled:
    """Sees to it that the cache has the features of all items that can be read.

    Bad images are not refused here (`refuse_bad` does), and nothing is held in memory but the keys.
    """
    with _opened_rows(model, options) as rows:
        return _fill(model, root, items, rows, options, progress or Silent())


def refuse_bad(root: Path | str, bad: Mapping[str, str], n: int, policy: str) -> None:
    """Raises where images cannot be read, unless the policy is to leave them out."""
    if not bad or policy == "skip":
        return
    raise DataError(
        f"{root}  {len(bad)} of {n} images cannot be read: {_first_few(bad)}. "
        "Repair or remove them, or pass --bad-images skip to leave them out and count them."
    )


@contextmanager
def usable_cache(cache: Path) -> Iterator[None]:
    """Says of a folder that cannot be used as the cache what is wrong, in one line."""
    try:
        yield
    except OSError as error:  # reading images and the model's own faults are told by others
        is_file = isinstance(error, (FileExistsError, NotADirectoryError))
        reason = "a file is in the way" if is_file else error.strerror or error
        raise DataError(
            f"{cache}  cannot be used as the feature cache ({reason}): "
            "choose another folder with --cache."
        ) from error


@contextmanager
def _opened_rows(model: Backbone, options: EmbedOptions) -> Iterator[FeatureRows]:
    with usable_cache(options.cache):
        folder = options.cache / "features" / model.fingerprint
        rows = FeatureRows(folder, model.dim, is_shared=options.leases)
        try:
            yield rows
        finally:
            rows.close()


def _fill(
    model: Backbone,
    root: Path,
    items: Sequence[ImageRef],
    rows: FeatureRows,
    options: EmbedOptions,
    progress: Progress,
) -> Filled:
    contents = options.contents or Contents(options.cache / MEMORY, options.threads)
    options = replace(options, contents=contents)
    known = contents.known(root, dict.fromkeys(ref.image for ref in items))
    keys, bad = _judged(items, known)
    unread = [ref for ref in items if ref.image not in known]
    missing = compress(keys, rows.missing(list(keys.values())))
    todo = list(dict.fromkeys((*unread, *missing)))
    if not todo:
        return Filled(keys, bad, Throughput())
    if options.bad_images == "skip":
        return _compute(model, root, items, rows, _Todo(todo, known, keys, bad), options, progress)
    try:
        if bad:
            raise _BadSeen
        images = list(dict.fromkeys(ref.image for ref in unread))
        with ThreadPoolExecutor(1) as beside:  # while the pipeline starts
            has_absent = beside.submit(contents.has_absent, root, images)
            work = _Todo(todo, known, keys, bad, has_absent)
            return _compute(model, root, items, rows, work, options, progress)
    except _BadSeen:
        known = contents.learn(root, (ref.image for ref in items), checking(progress))
        return Filled(*_judged(items, known), Throughput())


class _BadSeen(Exception):
    """An image is known to be bad, or seen to be without reading it."""


@dataclass(frozen=True, slots=True)
class _Todo:
    """What is to be computed, and what is known before."""

    refs: list[ImageRef]
    known: Mapping[str, Content]
    keys: dict[ImageRef, bytes]
    bad: dict[str, str]
    has_absent: Future[bool] | None = None
    """is one of the files not there? None: it does not matter"""

    def check(self) -> None:
        """Waits for the answer; _BadSeen where it is yes."""
        if self.has_absent is not None and self.has_absent.result():
            raise _BadSeen

    def files(self, root: Path) -> Iterator[WantedFile]:
        self.check()
        yield from _in_reading_order(root, self.refs, self.known)


def _compute(
    model: Backbone,
    root: Path,
    items: Sequence[ImageRef],
    rows: FeatureRows,
    todo: _Todo,
    options: EmbedOptions,
    progress: Progress,
) -> Filled:
    contents, n = options.contents, len(todo.refs)
    assert contents is not None
    if options.workers and options.workers.is_worth(model, n, options.cache):
        todo.check()
        warmed = options.workers.warm(model, root, todo.refs, options, progress, fill)
        rows.refresh()
        rest = _fill(model, root, items, rows, as_part(options), progress)
        throughput = add_throughputs([warmed, rest.throughput])
        _keep_about(model, rows.folder, throughput)
        return replace(rest, throughput=throughput)
    _keep_about(model, rows.folder)
    if decode_of(model) == "gpu" and hasattr(model, "compile_network"):
        if not getattr(model, "is_compiled", False):
            todo.check()  # compiling takes longer than that
        model.compile_network(n)
    progress.start(f"embedding with {model.name}", n)
    sink = _CacheSink(root, contents, rows, progress, todo.keys, todo.bad)

    def run(files: Iterator[WantedFile]) -> Throughput:
        return pipeline_for(model)(model, root, files, sink, options, progress)

    try:
        throughput = _run_leased(run, todo, sink) if options.leases else run(todo.files(root))
    finally:
        contents.flush()
    if rows.n_damaged:
        progress.say(f"{rows.folder}  damaged features, computed again: {rows.n_damaged}.")
    if throughput.n_computed and not options.is_part:
        _keep_about(model, rows.folder, throughput)
    return sink.filled(items, throughput)


def _run_leased(
    run: Callable[[Iterator[WantedFile]], Throughput], todo: _Todo, sink: _CacheSink
) -> Throughput:
    """Embeds what no other process is embedding; what others leave undone afterwards.

    The pipeline ends, and with it all own leases, before this process waits for another: what lies
    in an unfinished batch would keep others waiting for it.
    """
    todo.check()
    passes: list[Throughput] = []
    with LeaseFolder(sink.rows.folder / LEASES) as folder:
        sink.buckets = buckets = LeasedBuckets(folder, sink.root, todo.refs, sink.rows.sync)
        while True:
            files = _leased_files(buckets, sink)
            first = next(files, None)
            if first is not None:
                passes.append(run(chain((first,), files)))
            buckets.release()
            if not buckets.has_left:
                return add_throughputs(passes)
            buckets.wait(sink.progress)


def _leased_files(buckets: LeasedBuckets, sink: _CacheSink) -> Iterator[WantedFile]:
    for at, refs in buckets.take():
        missing, known = sink.still_missing(refs)
        buckets.settle({at: len(refs) - len(missing)})
        yield from _in_reading_order(sink.root, missing, known)


def _judged(
    items: Sequence[ImageRef], known: Mapping[str, Content]
) -> tuple[dict[ImageRef, bytes], dict[str, str]]:
    """Of the images whose content is known: the keys of good ones, the reasons of bad ones."""
    bad = {image: content.problem for image, content in known.items() if content.problem}
    keys = {
        ref: item_key(known[ref.image].key, ref.crop)
        for ref in items
        if ref.image in known and ref.image not in bad
    }
    return keys, bad


def _in_reading_order(
    root: Path, todo: list[ImageRef], known: Mapping[str, Content]
) -> Iterator[WantedFile]:
    """Files by name, members of an archive as they lie in it: what is near is read together."""
    todo.sort(key=attrgetter("image"))
    for archive, refs in _by_archive(todo):
        for image in archive_order(root, list(refs)) if archive else refs:
            content = known.get(image)
            yield WantedFile(image, refs[image], content.key if content else None)


def _by_archive(
    todo: Sequence[ImageRef],
) -> Iterator[tuple[str, dict[str, tuple[ImageRef, ...]]]]:
    """The parts of each image; those of one archive together, a file that is none ("") alone."""
    last, inside = "", dict[str, tuple[ImageRef, ...]]()
    for image, own in groupby(todo, key=attrgetter("image")):
        name, inner = split_reference(image)
        if inside and (not inner or name != last):
            yield last, inside
            inside = {}
        if inner:
            last, inside[image] = name, tuple(own)
        else:
            yield "", {image: tuple(own)}
    if inside:
        yield last, inside


def pipeline_for(model: Backbone) -> Callable[..., Throughput]:
    """What embeds files with it."""
    if decode_of(model) == "gpu":
        from fieldmark.embed.gpu.pipeline import run_gpu

        return run_gpu
    return run_threads


class Changed(DataError):
    """An image is not what it was when the run began."""


@dataclass(slots=True)
class _CacheSink:
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
        known: dict[str, Content] = {}
        images = list(dict.fromkeys(ref.image for ref in refs))
        for start in range(0, len(images), _LOOKED_UP):
            some = images[start : start + _LOOKED_UP]
            known |= self.contents.known(self.root, some, has_asked=True)
        keys, bad = _judged(refs, known)
        is_there = ~self.rows.missing(list(keys.values()))
        done = set(compress(keys, is_there))
        with self.lock:
            self.keys.update(keys)
            self.bad.update(bad)
            missing = [ref for ref in refs if ref not in done and ref.image not in bad]
            self.progress.advance(len(refs) - len(missing))
        return missing, known

    def _settle(self, images: Iterable[str]) -> None:
        if self.buckets is not None:
            self.buckets.settle(Counter(map(bucket, images)))

    def read(self, files: Sequence[HashedFile]) -> list[list[ImagePart]]:
        for file in files:
            expected = file.wanted.expected
            if expected is not None and file.content.key not in (expected, ABSENT):
                raise Changed(
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
        for file, own in zip(files, parts, strict=True) if self.buckets else ():
            self._settle([file.wanted.image] * (len(file.wanted.refs) - len(own)))
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
        wanted = set(compress(new, self.rows.missing(new)))
        self.in_flight |= wanted
        parts: list[list[ImagePart]] = []
        for file in files:
            own = []
            for ref in file.wanted.refs if wanted else ():
                if (key := every.get(ref)) in wanted:
                    wanted.discard(key)
                    own.append(ImagePart(ref, key))
            if own:
                self.being_read[file.wanted.image] = file.content.key, file.mark
            parts.append(own)
        n_done = sum(len(file.wanted.refs) for file in files) - sum(map(len, parts))
        if n_done:
            self.progress.advance(n_done)
        return parts

    def failed(self, part: ImagePart, reason: str) -> None:
        """A file that cannot be decoded is remembered as bad, as one that is cut off is."""
        with self.lock:
            known = self.being_read.get(part.ref.image)
            if known is not None and is_of_file(reason):
                content = Content(known[0], reason)
                self.contents.note(self.root, [(part.ref.image, content, known[1])])
            self.unusable[part.key] = reason
            self.in_flight.discard(part.key)
            self.progress.advance()
        self._settle((part.ref.image,))

    def keep(self, parts: Sequence[ImagePart], features_nd: np.ndarray) -> None:
        keys = [part.key for part in parts]
        self.rows.append(keys, features_nd)
        with self.lock:
            self.in_flight.difference_update(keys)
            for part in parts:
                self.being_read.pop(part.ref.image, None)
            self.progress.advance(len(parts))
        self._settle(part.ref.image for part in parts)

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


def _keep_about(model: Backbone, folder: Path, now: Throughput | None = None) -> None:
    """Whose features these are, how fast all of them together were computed, and where the time
    went.
    """
    before = read_about(folder) or {}
    own = {
        "model": model.name,
        "dim": model.dim,
        "fingerprint": model.fingerprint,
        "n_parameters": n_parameters_of(model),
        "reads": noted_decode(model),
    }
    about = before | own | (_speed(before, now) if now else {})
    if about != before:
        write_about(folder, about)
    behaviour = getattr(model, "behaviour", None)
    write_behaviour(folder, behaviour() if callable(behaviour) else None)


def _speed(before: Mapping[str, Any], now: Throughput) -> dict[str, Any]:
    """Sums over all passes; the rest is of the last one."""
    n, seconds, n_fallback = (
        (number(before.get(name), float) or 0.0) + getattr(now, name)
        for name in ("n_computed", "seconds", "n_fallback")
    )
    had = before.get("busy_s")
    spent = had if isinstance(had, dict) else {}
    busy_s = {part: (number(spent.get(part), float) or 0.0) + s for part, s in now.busy_s.items()}
    return {
        "images_per_s": n / seconds if seconds else 0.0,
        "n_computed": int(n),
        "seconds": seconds,
        "decode": now.decode,
        "n_fallback": int(n_fallback),
        "busy_s": busy_s,
        "device_busy": now.device_busy,
        "n_devices": now.n_devices,
        "batch_size": now.batch_size,
        "is_compiled": now.is_compiled,
    }


def checking(progress: Progress) -> Callable[[int], Callable[[], None]]:
    """Shows how far images whose content is not known have been read."""

    def start(n_unknown: int) -> Callable[[], None]:
        progress.start("checking images", n_unknown)
        return progress.advance

    return start


def _first_few(bad: Mapping[str, str]) -> str:
    return first_few([f"{image} ({why})" for image, why in bad.items()], 3, "; ")


def _collect(rows: FeatureRows, filled: Filled, items: Sequence[ImageRef]) -> Embedded:
    keys, throughput = filled.keys, filled.throughput
    is_ok = np.array([ref in keys for ref in items], bool)
    features = np.full((len(items), rows.dim), np.nan, np.float32)
    features[is_ok] = rows.gather([keys[ref] for ref, ok in zip(items, is_ok, strict=True) if ok])
    return Embedded(
        features, is_ok, filled.bad, throughput.n_computed, throughput.seconds, keys, throughput
    )
