"""How do images become features, once, and never again?

A first pass finds the content of every image (and names the broken ones, before hours are spent), a
second computes what the cache lacks: threads read and transform, the model's device embeds, each
batch is kept as soon as it is ready. The order of work is the order of the items; nothing depends
on how many threads there are.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fieldmark.data import ImageRef, load_image, quick_check, read_bytes
from fieldmark.embed._content import ContentMemory, content_key, item_key
from fieldmark.embed._rows import Rows, write_about
from fieldmark.errors import DataError, FieldmarkError, ModelError, OutOfMemory
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
    try:
        return _embed(model, root, items, options, progress or Silent())
    except OSError as error:  # reading images and the model's own faults are told by others
        is_file = isinstance(error, (FileExistsError, NotADirectoryError))
        reason = "a file is in the way" if is_file else error.strerror or error
        raise DataError(
            f"{options.cache}  cannot be used as the feature cache ({reason}): "
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
    rows = Rows(folder, model.dim)
    try:
        keys, bad = _find_keys(root, items, options, progress)
        _refuse_bad(root, bad, len(items), options.bad_images)
        todo = _first_of_each(keys, items, rows)
        began = time.monotonic()
        failed: dict[bytes, str] = {}
        if todo:
            write_about(
                folder, {"model": model.name, "dim": model.dim, "fingerprint": model.fingerprint}
            )
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
            speed = {"images_per_s": n_computed / max(seconds, 1e-9)}
            about = {"model": model.name, "dim": model.dim, "fingerprint": model.fingerprint}
            write_about(folder, about | speed)
        return _collect(rows, keys, items, bad, n_computed, seconds)
    finally:
        rows.close()


def _find_keys(
    root: Path, items: Sequence[ImageRef], options: EmbedOptions, progress: Progress
) -> tuple[dict[ImageRef, bytes], dict[str, str]]:
    """The cache key of every readable item, and the reason for every unreadable image."""
    images = list(dict.fromkeys(ref.image for ref in items))
    memory = ContentMemory(options.cache / "content.db")
    try:
        contents = memory.recall(root, images)
        unknown = [image for image in images if image not in contents]
        bad: dict[str, str] = {}
        if unknown:
            progress.start("checking images", len(unknown))
            fresh: dict[str, bytes] = {}
            with ThreadPoolExecutor(options.threads) as pool:
                for image, outcome in zip(
                    unknown, pool.map(lambda each: _inspect(root, each), unknown), strict=True
                ):
                    progress.advance()
                    if isinstance(outcome, bytes):
                        fresh[image] = outcome
                    else:
                        bad[image] = outcome
            memory.remember(root, fresh)
            contents |= fresh
    finally:
        memory.close()
    keys = {ref: item_key(contents[ref.image], ref.crop) for ref in items if ref.image in contents}
    return keys, bad


def _inspect(root: Path, image: str) -> bytes | str:
    """The content key, or why the image cannot be used."""
    try:
        data = read_bytes(root, image)
    except DataError as error:
        return _reason(error)
    return quick_check(data) or content_key(data)


def _reason(error: DataError) -> str:
    """`data/a.jpg  is missing.` → `is missing`."""
    text = str(error)
    return (text.partition("  ")[2] or text).rstrip(".")


def _refuse_bad(root: Path, bad: dict[str, str], n: int, policy: str) -> None:
    if not bad or policy == "skip":
        return
    raise DataError(
        f"{root}  {len(bad)} of {n} images cannot be read: {_first_few(bad)}. "
        "Mend or remove them, or pass --bad-images skip to leave them out and count them."
    )


def _first_few(bad: dict[str, str]) -> str:
    shown = "; ".join(f"{image} ({why})" for image, why in list(bad.items())[:3])
    return shown + (f" and {len(bad) - 3} more" if len(bad) > 3 else "")


def _first_of_each(
    keys: dict[ImageRef, bytes], items: Sequence[ImageRef], rows: Rows
) -> list[tuple[ImageRef, bytes]]:
    seen: set[bytes] = set()
    todo = []
    for ref in items:
        key = keys.get(ref)
        if key is not None and key not in seen and key not in rows:
            seen.add(key)
            todo.append((ref, key))
    return todo


@dataclass(frozen=True, slots=True)
class _Ready:
    """An image that waits for its batch."""

    key: bytes
    image: str
    array: np.ndarray


def _compute(
    model: Backbone,
    root: Path,
    todo: list[tuple[ImageRef, bytes]],
    rows: Rows,
    options: EmbedOptions,
    progress: Progress,
) -> dict[bytes, str]:
    """Keeps the features of all that can be decoded; says why of the others, by key."""
    progress.start(f"embedding with {model.name}", len(todo))
    batch_size = options.batch_size or getattr(model, "batch_size", DEFAULT_BATCH)
    waiting: list[_Ready] = []
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
            rows.append([each.key for each in waiting[:batch_size]], features)
            progress.advance(len(features))
            del waiting[:batch_size]

    for (ref, key), outcome in _prepared(model, root, todo, options, batch_size * AHEAD):
        if isinstance(outcome, str):
            failed[key] = outcome
            progress.advance()
            continue
        waiting.append(_Ready(key, ref.image, outcome))
        if len(waiting) >= batch_size:
            flush(batch_size)
    flush(1)
    return failed


def _embed_batch(model: Backbone, batch: list[_Ready], batch_size: int) -> np.ndarray:
    """Features of the images; a short batch is filled up for models that want one shape only."""
    arrays = [each.array for each in batch]
    n_missing = batch_size - len(arrays) if getattr(model, "wants_full_batches", False) else 0
    shapes = {np.shape(each) for each in arrays}
    if len(shapes) > 1:
        listed = " and ".join(map(str, sorted(shapes)[:2]))
        raise ModelError(
            f"model {model.name!r}: transform gave arrays of the shapes {listed}, "
            "expected one shape for all images."
        )
    stacked = np.stack([*arrays, *arrays[-1:] * n_missing])
    with _told_by_name(model, "embed_images"):
        features = model.embed_images(stacked).pooled[: len(arrays)]
    is_bad = ~np.isfinite(features).all(axis=1)
    if is_bad.any():
        raise ModelError(
            f"model {model.name!r} gave NaN or infinity for {int(is_bad.sum())} of {len(batch)} "
            f"images (first: {batch[int(is_bad.argmax())].image}): check its weights, or try "
            "--precision float32."
        )
    return features


@contextmanager
def _told_by_name(model: Backbone, doing: str) -> Iterator[None]:
    """Whatever the model's own code raises, with the model's name, in one line."""
    try:
        yield
    except FieldmarkError:
        raise
    except Exception as error:
        first = (str(error).strip() or "no message").splitlines()[0].rstrip(".")
        raise ModelError(
            f"model {model.name!r} failed in {doing}: {type(error).__name__}: {first} "
            "(--debug shows where)."
        ) from error


def _prepared(
    model: Backbone,
    root: Path,
    todo: list[tuple[ImageRef, bytes]],
    options: EmbedOptions,
    window: int,
) -> Iterator[tuple[tuple[ImageRef, bytes], np.ndarray | str]]:
    """Transformed images in order, read by threads at most `window` ahead."""

    def prepare(ref: ImageRef) -> np.ndarray | str:
        try:
            image = load_image(root, ref)
        except DataError as error:
            return _reason(error)
        with _told_by_name(model, f"transform of {ref.image}"):
            return model.transform(image)

    with ThreadPoolExecutor(options.threads) as pool:
        queue: deque[tuple[tuple[ImageRef, bytes], Future[np.ndarray | str]]] = deque()
        waiting = iter(todo)
        try:
            for item in waiting:
                queue.append((item, pool.submit(prepare, item[0])))
                if len(queue) >= window:
                    first, future = queue.popleft()
                    yield first, future.result()
            while queue:
                first, future = queue.popleft()
                yield first, future.result()
        finally:
            for _, future in queue:
                future.cancel()


def _collect(
    rows: Rows,
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
