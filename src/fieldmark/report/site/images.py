"""Thumbnails: which photos does the page show, and how small?

Those that the runs saw, and no others: a photo is looked for in the folder that the run found it
in, and shown only if its bytes are those the run noted. Thumbnails are named by a hash of content
and crop, so that no file name of the user's leaves the machine.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from fieldmark import draws
from fieldmark.data import (
    MEMORY,
    Contents,
    ImageRef,
    content_key,
    load_dataset,
    open_image,
    read_bytes,
)
from fieldmark.errors import DataError, FieldmarkError
from fieldmark.progress import Progress
from fieldmark.report.facts import TaskFacts
from fieldmark.report.providers import is_valued
from fieldmark.report.site.predictions import THUMB_BYTES
from fieldmark.settings import Settings
from fieldmark.store import Run, Store

SIZE_PX = 320
QUALITY = 72
CHANGED, MISSING, UNKNOWN = "changed", "missing", "unknown"
"""why a photo is not shown"""
_WHY = {
    CHANGED: ("changed since the run", "changed since the run"),
    MISSING: ("is not there", "are not there"),
    UNKNOWN: ("was not recorded by the run", "were not recorded by the runs"),
}
"""of one, of several"""


@dataclass(frozen=True)
class ItemPhoto:
    """An item's images, and what the run saw of them."""

    content: bytes
    """of its image, or one digest over those of a clip's frames"""
    root: Path = Path()
    frames: tuple[ImageRef, ...] = ()
    """none: the item is not in the data (any more)"""

    @cached_property
    def name(self) -> str:
        """What its thumbnail is called; hex digits."""
        crop = self.frames[0].crop if self.frames else None
        return draws.digest("thumb", self.content.hex(), crop).hex()[: 2 * THUMB_BYTES]


class PhotoChanged(DataError):
    """The photo is not the one the run saw."""


def thumbnail(photo: ItemPhoto) -> bytes:
    """A small WebP of the image (of a clip's middle frame), without its metadata.

    The bytes that are shown are the bytes that were compared. Raises PhotoChanged where they are
    not what the run saw, DataError where they cannot be read.
    """
    if not photo.frames:
        raise DataError("this photo is no longer in the data.")
    middle, shown, keys = len(photo.frames) // 2, b"", []
    for at, frame in enumerate(photo.frames):
        data = read_bytes(photo.root, frame.image)
        keys.append(content_key(data))
        shown = data if at == middle else shown
    if _item_content(keys) != photo.content:
        raise PhotoChanged(f"{photo.frames[middle].image}  changed since the run.")
    image = open_image(shown, photo.frames[middle].crop, name=photo.frames[middle].image)
    image.thumbnail((SIZE_PX, SIZE_PX), reducing_gap=2.0)
    small = io.BytesIO()
    image.save(small, "WEBP", quality=QUALITY, method=2)
    return small.getvalue()


def _item_content(keys: list[bytes]) -> bytes:
    """The content of an item, of that of its images; as runs note it."""
    return keys[0] if len(keys) == 1 else content_key(b"".join(keys))


class Photos:
    """Finds the photos of runs; a dataset's table is read once for each folder and data."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._tables: dict[tuple[Any, ...], tuple[Path, dict[str, tuple[ImageRef, ...]]]] = {}

    def of_run(self, store: Store, run: Run, facts: TaskFacts) -> dict[str, ItemPhoto]:
        """By item id, for the items of which the run noted what it saw. Nothing is read of them."""
        if is_valued(run):
            return {}
        noted = store.predictions(run.id).select("id", "content").unique("id").drop_nulls()
        content_of: dict[str, bytes] = dict(noted.iter_rows())
        if not content_of:
            return {}
        # The images of every item by its id, and the folder they are in.
        key = (facts.dataset, repr(facts.options), run.root, run.spec.data)
        if key not in self._tables:
            self._tables[key] = self._read(run, facts)
        root, frames = self._tables[key]
        return {
            item: ItemPhoto(content, root, frames.get(item, ()))
            for item, content in content_of.items()
        }

    def without_changed(self, photos: Mapping[str, ItemPhoto]) -> dict[str, ItemPhoto]:
        """Those that are not known to be others now; files of which that is not known are not
        read: `thumbnail` compares them.
        """
        images: dict[Path, set[str]] = {}
        for photo in photos.values():
            images.setdefault(photo.root, set()).update(frame.image for frame in photo.frames)
        contents = Contents(self.settings.cache / MEMORY)
        seen = {root: contents.known(root, folder_images) for root, folder_images in images.items()}

        def may_be_same(photo: ItemPhoto) -> bool:
            content_of_frames = [seen[photo.root].get(frame.image) for frame in photo.frames]
            keys = [content.key for content in content_of_frames if content is not None]
            return bool(photo.frames) and (
                len(keys) < len(photo.frames) or _item_content(keys) == photo.content
            )

        return {item: photo for item, photo in photos.items() if may_be_same(photo)}

    def _read(self, run: Run, facts: TaskFacts) -> tuple[Path, dict[str, tuple[ImageRef, ...]]]:
        """From the run's own folder, else from the one where the data are said to be now."""
        named = self.settings.data.get(facts.name) or self.settings.root_of(facts.dataset)
        folders = [Path(run.root)] if run.root else []
        for root in (*folders, named) if facts.may_be_read else ():
            if root.exists() and (table := _table(facts, root)) is not None:
                rows = table.select("id", "image", "crop").iter_rows()
                return root, {item: _refs(image, crop) for item, image, crop in rows}
        return Path(), {}


def _table(facts: TaskFacts, root: Path) -> pl.DataFrame | None:
    """None where the data cannot be read any more."""
    try:
        return load_dataset(facts.dataset).table(root, **facts.options)
    except FieldmarkError:
        return None
    except Exception:  # a user's own reader may raise anything; the page does without its photos
        if facts.is_known_dataset:
            raise
        return None


def _refs(image: str | list[str], crop: list[float] | None) -> tuple[ImageRef, ...]:
    box = None if crop is None else (crop[0], crop[1], crop[2], crop[3])
    return tuple(ImageRef(path, box) for path in ([image] if isinstance(image, str) else image))


def choose_images(
    wrong: Mapping[str, int], ids_with_photos: Iterable[str], n: int, task: str
) -> list[str]:
    """`n` of those known: half of them those most models miss, half drawn from all, in order."""
    ids = sorted(set(ids_with_photos) & set(wrong))
    if len(ids) <= n:
        return ids
    drawn = draws.shuffled(ids, "site", task)
    order = {name: number for number, name in enumerate(drawn)}
    hardest = sorted(ids, key=lambda name: (-wrong[name], order[name]))[: n // 2]
    rest = [name for name in drawn if name not in set(hardest)]
    return sorted([*hardest, *rest[: n - len(hardest)]])


def write_thumbnails(
    photos: Mapping[str, ItemPhoto], folder: Path, threads: int, progress: Progress
) -> tuple[set[str], dict[str, int]]:
    """The names of those (by name) that could be written, and how many could not, by the reason.

    A thumbnail that is there already was made of the same content and crop.
    """
    done = {name for name in photos if thumb_path(folder, name).exists()}
    missing = {name: photo for name, photo in photos.items() if name not in done}
    lost: dict[str, int] = {}
    with ThreadPoolExecutor(threads) as pool:
        for name, small in zip(
            missing, pool.map(_thumbnail_or_reason, missing.values()), strict=True
        ):
            progress.advance()
            if isinstance(small, str):
                lost[small] = lost.get(small, 0) + 1
                continue
            path = thumb_path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(small)
            done.add(name)
    return done, lost


def thumb_path(folder: Path, name: str) -> Path:
    return folder / "thumbs" / name[:2] / f"{name}.webp"


def _thumbnail_or_reason(photo: ItemPhoto) -> bytes | str:
    """The thumbnail, or why there is none."""
    try:
        return thumbnail(photo)
    except PhotoChanged:
        return CHANGED
    except FieldmarkError:
        return MISSING


def photos_note(lost: Mapping[str, int]) -> str:
    """
    >>> photos_note({CHANGED: 1})
    '1 photo is not shown: it changed since the run.'
    >>> photos_note({CHANGED: 9, MISSING: 1})
    '10 photos are not shown: 9 changed since the run, 1 is not there.'
    """
    if not (total := sum(lost.values())):
        return ""
    head = "1 photo is not shown" if total == 1 else f"{total:,} photos are not shown"
    if len(lost) == 1:
        return f"{head}: {'it' if total == 1 else 'they'} {_WHY[next(iter(lost))][total > 1]}."
    why = [f"{n:,} {_WHY[reason][n > 1]}" for reason, n in sorted(lost.items())]
    return f"{head}: {', '.join(why)}."
