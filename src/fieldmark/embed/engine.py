"""Embedding pipeline: how do images become features, once, and never again?

What the cache has costs nothing. The rest is read in one pass: a file's bytes are hashed, checked
and decoded together, and a feature is kept under the hash of the bytes it was computed from. What
can be seen without reading (missing and empty files) is looked at first, so that no hours are spent
on data that are not there; what shows only in the bytes is told at the end of the pass, with all
good features kept. Files that lie together are read together; no feature depends on that order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fieldmark.data import MEMORY, Content, Contents, ImageRef
from fieldmark.embed.cache import keep_about
from fieldmark.embed.cpu.threads import run_threads
from fieldmark.embed.rows import FeatureRows
from fieldmark.embed.sink import CacheSink, Filled, in_reading_order, judge, run_leased
from fieldmark.embed.work import Throughput, WantedFile, add_throughputs, decode_of
from fieldmark.errors import DataError
from fieldmark.progress import Progress, Silent
from fieldmark.words import first_few

if TYPE_CHECKING:
    from fieldmark.embed.workers import DeviceWorkers
    from fieldmark.models import Backbone


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

    def as_part(self) -> EmbedOptions:
        """For one of several processes: the others' work and bad images are not its affair."""
        return replace(self, bad_images="skip", workers=None, is_part=True)


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
        keys, throughput = filled.keys, filled.throughput
        is_ok = np.array([ref in keys for ref in items], bool)
        features = rows.gather([keys[ref] for ref, ok in zip(items, is_ok, strict=True) if ok])
        if not is_ok.all():
            good, features = features, np.full((len(items), rows.dim), np.nan, np.float32)
            features[is_ok] = good
        return Embedded(
            features, is_ok, filled.bad, throughput.n_computed, throughput.seconds, keys, throughput
        )


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
        reason = "a file has that name" if is_file else error.strerror or error
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
    contents_of = contents.known(root, dict.fromkeys(ref.image for ref in items))
    keys, bad = judge(items, contents_of)
    unread = [ref for ref in items if ref.image not in contents_of]
    missing = compress(keys, rows.missing(list(keys.values())))
    todo = list(dict.fromkeys((*unread, *missing)))
    if not todo:
        return Filled(keys, bad, Throughput())
    if options.bad_images == "skip":
        return _compute(
            model, root, items, rows, _Todo(todo, contents_of, keys, bad), options, progress
        )
    try:
        if bad:
            raise _BadSeen
        images = list(dict.fromkeys(ref.image for ref in unread))
        with ThreadPoolExecutor(1) as beside:  # while the pipeline starts
            has_absent = beside.submit(contents.has_absent, root, images)
            work = _Todo(todo, contents_of, keys, bad, has_absent)
            return _compute(model, root, items, rows, work, options, progress)
    except _BadSeen:
        contents_of = contents.learn(root, (ref.image for ref in items), checking(progress))
        return Filled(*judge(items, contents_of), Throughput())


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
        yield from in_reading_order(root, self.refs, self.known)


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
        warmed = options.workers.warm(model, root, todo.refs, options, progress)
        rows.refresh()
        rest = _fill(model, root, items, rows, options.as_part(), progress)
        throughput = add_throughputs([warmed, rest.throughput])
        keep_about(model, rows.folder, throughput)
        return replace(rest, throughput=throughput)
    keep_about(model, rows.folder)
    if decode_of(model) == "gpu" and hasattr(model, "compile_network"):
        if not getattr(model, "is_compiled", False):
            todo.check()  # compiling takes longer than that
        model.compile_network(n)
    progress.start(f"embedding with {model.name}", n)
    sink = CacheSink(root, contents, rows, progress, todo.keys, todo.bad)

    def run(files: Iterator[WantedFile]) -> Throughput:
        return pipeline_for(model)(model, root, files, sink, options, progress)

    try:
        if options.leases:
            todo.check()
            throughput = run_leased(run, todo.refs, sink)
        else:
            throughput = run(todo.files(root))
    finally:
        contents.flush()
    if rows.n_damaged:
        progress.say(f"{rows.folder}  damaged features, computed again: {rows.n_damaged}.")
    if throughput.n_computed and not options.is_part:
        keep_about(model, rows.folder, throughput)
    return sink.filled(items, throughput)


def pipeline_for(model: Backbone) -> Callable[..., Throughput]:
    """What embeds files with it."""
    if decode_of(model) == "gpu":
        from fieldmark.embed.gpu.pipeline import run_gpu

        return run_gpu
    return run_threads


def checking(progress: Progress) -> Callable[[int], Callable[[], None]]:
    """Shows how far images whose content is not known have been read."""

    def start(n_unknown: int) -> Callable[[], None]:
        progress.start("checking images", n_unknown)
        return progress.advance

    return start


def _first_few(bad: Mapping[str, str]) -> str:
    return first_few([f"{image} ({why})" for image, why in bad.items()], 3, "; ")
