"""Embedding pipeline: how do images become features, once, and never again?

A first pass finds the content of every image that is not known (and names the broken ones, before
hours are spent), a second computes what the cache lacks: threads read and transform, the model's
device embeds, each batch is kept as soon as it is ready. The bytes that are decoded are hashed: a
feature is kept under what it was computed from, and an image that was replaced between the passes
ends the run. The order of work is the order of the items; nothing depends on how many threads
there are.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fieldmark.data import (
    MEMORY,
    Contents,
    ImageRef,
    content_key,
    crop_image,
    item_key,
    open_image,
    read_bytes,
)
from fieldmark.embed.cache import FeatureRows, number, read_about, write_about, write_behaviour
from fieldmark.embed.work import Throughput
from fieldmark.embed.workers import warm
from fieldmark.errors import DataError, ModelError, OutOfMemory, naming_model
from fieldmark.progress import Progress, Silent

if TYPE_CHECKING:
    from fieldmark.models import Backbone

DEFAULT_BATCH = 32
AHEAD = 3  # batches read ahead of the device


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
    devices: tuple[str, ...] = ()
    """of several processes, the model's own first; fewer than two = this process does it alone"""


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


def embed(
    model: Backbone,
    root: Path,
    items: Sequence[ImageRef],
    options: EmbedOptions,
    progress: Progress | None = None,
) -> Embedded:
    """Features of the items: from the cache where it has them, computed and kept otherwise."""
    with usable_cache(options.cache):
        warmed = warm(model, root, items, options, progress or Silent(), fill)
        embedded = _embed(model, root, items, options, progress or Silent())
        return replace(embedded, n_computed=embedded.n_computed + warmed.n_computed)


@dataclass(frozen=True)
class Filled:
    throughput: Throughput


def fill(
    model: Backbone,
    root: Path,
    items: Sequence[ImageRef],
    options: EmbedOptions,
    progress: Progress,
) -> Filled:
    embedded = _embed(model, root, items, options, progress)
    return Filled(Throughput(embedded.n_computed, embedded.seconds))


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


def _embed(
    model: Backbone,
    root: Path,
    items: Sequence[ImageRef],
    options: EmbedOptions,
    progress: Progress,
) -> Embedded:
    folder = options.cache / "features" / model.fingerprint
    rows = FeatureRows(folder, model.dim)
    contents = options.contents or Contents(options.cache / MEMORY, options.threads)
    try:
        keys, bad = _find_keys(contents, root, items, progress)
        _refuse_bad(root, bad, len(items), options.bad_images)
        todo = _first_of_each(keys, items, rows)
        began = time.monotonic()
        failed: dict[bytes, str] = {}
        if todo:
            _keep_about(model, folder)
            if rows.n_damaged:
                progress.say(f"{folder}  damaged features, computed again: {rows.n_damaged}.")
            failed = _compute(model, root, todo, rows, options, progress)
            bad |= {ref.image: failed[key] for ref, key in keys.items() if key in failed}
            keys = {ref: key for ref, key in keys.items() if key not in failed}
        seconds = time.monotonic() - began
        _refuse_bad(root, bad, len(items), options.bad_images)
        if bad:
            progress.say(f"{root}  {len(bad)} of {len(items)} images left out: {_first_few(bad)}.")
        n_computed = len(todo) - len(failed)
        if n_computed:
            _keep_about(model, folder, n_computed, seconds)
        return _collect(rows, keys, items, bad, n_computed, seconds)
    finally:
        rows.close()


def _keep_about(model: Backbone, folder: Path, n_computed: int = 0, seconds: float = 0.0) -> None:
    """Whose features these are, and how fast all of them together were computed."""
    before = read_about(folder) or {}
    n, took = (number(before.get(name), float) or 0.0 for name in ("n_computed", "seconds"))
    about = {"model": model.name, "dim": model.dim, "fingerprint": model.fingerprint}
    n, took = n + n_computed, took + seconds
    if n and took:
        about |= {"n_computed": int(n), "seconds": took, "images_per_s": n / took}
    write_about(folder, about)
    behaviour = getattr(model, "behaviour", None)
    write_behaviour(folder, behaviour() if callable(behaviour) else None)


def _find_keys(
    contents: Contents, root: Path, items: Sequence[ImageRef], progress: Progress
) -> tuple[dict[ImageRef, bytes], dict[str, str]]:
    """The cache key of every readable item, and the reason for every unreadable image."""
    known = contents.learn(root, (ref.image for ref in items), checking(progress))
    bad = {image: content.problem for image, content in known.items() if content.problem}
    keys = {ref: item_key(known[ref.image].key, ref.crop) for ref in items if ref.image not in bad}
    return keys, bad


def checking(progress: Progress) -> Callable[[int], Callable[[], None]]:
    """Shows how far images whose content is not known have been read."""

    def start(n_unknown: int) -> Callable[[], None]:
        progress.start("checking images", n_unknown)
        return progress.advance

    return start


def _reason(error: DataError) -> str:
    """`data/a.jpg  is missing.` → `is missing`."""
    text = str(error)
    return (text.partition("  ")[2] or text).rstrip(".")


def _refuse_bad(root: Path, bad: dict[str, str], n: int, policy: str) -> None:
    if not bad or policy == "skip":
        return
    raise DataError(
        f"{root}  {len(bad)} of {n} images cannot be read: {_first_few(bad)}. "
        "Repair or remove them, or pass --bad-images skip to leave them out and count them."
    )


def _first_few(bad: dict[str, str]) -> str:
    shown = "; ".join(f"{image} ({why})" for image, why in list(bad.items())[:3])
    return shown + (f" and {len(bad) - 3} more" if len(bad) > 3 else "")


def _first_of_each(
    keys: dict[ImageRef, bytes], items: Sequence[ImageRef], rows: FeatureRows
) -> list[tuple[ImageRef, bytes]]:
    seen: set[bytes] = set()
    todo = []
    for ref in items:
        key = keys.get(ref)
        if key is not None and key not in seen and key not in rows:
            seen.add(key)
            todo.append((ref, key))
    return todo


class Changed(DataError):
    """An image is not what it was when the run began."""


@dataclass(frozen=True, slots=True)
class _PreparedImage:
    """An image that waits for its batch."""

    key: bytes
    image: str
    array: np.ndarray


def _compute(
    model: Backbone,
    root: Path,
    todo: list[tuple[ImageRef, bytes]],
    rows: FeatureRows,
    options: EmbedOptions,
    progress: Progress,
) -> dict[bytes, str]:
    """Keeps the features of all that can be decoded; says why of the others, by key."""
    progress.start(f"embedding with {model.name}", len(todo))
    batch_size = options.batch_size or getattr(model, "batch_size", DEFAULT_BATCH)
    waiting: list[_PreparedImage] = []
    failed: dict[bytes, str] = {}

    def flush(n: int) -> None:
        nonlocal batch_size
        while len(waiting) >= n and waiting:
            try:
                features = _embed_batch(model, waiting[:batch_size], batch_size)
            except OutOfMemory:
                if batch_size == 1:
                    raise
                batch_size = max(1, min(batch_size, len(waiting)) // 2)
                progress.say(f"{model.name}: out of memory, going on with batches of {batch_size}.")
                continue
            rows.append([image.key for image in waiting[:batch_size]], features)
            progress.advance(len(features))
            del waiting[:batch_size]

    for ref, key, outcome in _prepared(model, root, todo, options, batch_size * AHEAD):
        if isinstance(outcome, str):
            failed[key] = outcome
            progress.advance()
            continue
        waiting.append(_PreparedImage(key, ref.image, outcome))
        if len(waiting) >= batch_size:
            flush(batch_size)
    flush(1)
    return failed


def _embed_batch(model: Backbone, batch: list[_PreparedImage], batch_size: int) -> np.ndarray:
    """Features of the images; a short batch is filled up for models that want one shape only."""
    arrays = [image.array for image in batch]
    n_missing = batch_size - len(arrays) if getattr(model, "wants_full_batches", False) else 0
    shapes = {np.shape(array) for array in arrays}
    if len(shapes) > 1:
        listed = " and ".join(map(str, sorted(shapes)[:2]))
        raise ModelError(
            f"model {model.name!r}: transform gave arrays of the shapes {listed}, "
            "expected one shape for all images."
        )
    stacked = np.stack([*arrays, *arrays[-1:] * n_missing])
    with naming_model(model.name, "embed_images"):
        features = model.embed_images(stacked).pooled[: len(arrays)]
    is_bad = ~np.isfinite(features).all(axis=1)
    if is_bad.any():
        raise ModelError(
            f"model {model.name!r} gave NaN or infinity for {int(is_bad.sum())} of {len(batch)} "
            f"images (first: {batch[int(is_bad.argmax())].image}): check its weights, or try "
            "--precision float32."
        )
    return features


Prepared = tuple[ImageRef, bytes, "np.ndarray | str"]
"""an image, the key of its feature, and what the model sees or why it cannot be read"""


def _prepared(
    model: Backbone,
    root: Path,
    todo: list[tuple[ImageRef, bytes]],
    options: EmbedOptions,
    window: int,
) -> Iterator[Prepared]:
    """Transformed images in order, read by threads at most `window` ahead; each file is read and
    decoded once, however many crops of it are wanted.
    """
    by_image: dict[str, list[tuple[ImageRef, bytes]]] = {}
    for ref, key in todo:
        by_image.setdefault(ref.image, []).append((ref, key))
    with ThreadPoolExecutor(options.threads) as pool:
        queue: deque[Future[list[Prepared]]] = deque()
        try:
            for wanted in by_image.values():
                queue.append(pool.submit(_prepare, model, root, wanted))
                if len(queue) >= window:
                    yield from queue.popleft().result()
            while queue:
                yield from queue.popleft().result()
        finally:
            for future in queue:
                future.cancel()


def _prepare(model: Backbone, root: Path, wanted: list[tuple[ImageRef, bytes]]) -> list[Prepared]:
    """What the model sees of one file, in all crops that are wanted."""
    image = wanted[0][0].image
    try:
        data = read_bytes(root, image)
        if any(item_key(content_key(data), ref.crop) != key for ref, key in wanted):
            raise Changed(
                f"{root}  {image} was changed while it was being read: run the same command again."
            )
        whole = open_image(data, name=image)
    except Changed:
        raise
    except DataError as error:
        return [(ref, key, _reason(error)) for ref, key in wanted]
    made: list[Prepared] = []
    for ref, key in wanted:
        try:
            seen = whole if ref.crop is None else crop_image(whole, ref.crop, image)
        except DataError as error:
            made.append((ref, key, _reason(error)))
            continue
        with naming_model(model.name, f"transform of {image}"):
            made.append((ref, key, model.transform(seen)))
    return made


def _collect(
    rows: FeatureRows,
    keys: dict[ImageRef, bytes],
    items: Sequence[ImageRef],
    bad: dict[str, str],
    n_computed: int,
    seconds: float,
) -> Embedded:
    is_ok = np.array([ref in keys for ref in items], bool)
    features = np.full((len(items), rows.dim), np.nan, np.float32)
    good = [keys[ref] for ref, ok in zip(items, is_ok, strict=True) if ok]
    features[is_ok] = rows.gather(good)
    return Embedded(features, is_ok, bad, n_computed, seconds, keys)
