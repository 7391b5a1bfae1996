"""Which photos does the page show, and how small?

A site made where the data are gone simply has no photos. Thumbnails are named by a hash of dataset
and reference, so that no file name of the user's leaves the machine.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from fieldmark import draws
from fieldmark.data import ImageRef, load_dataset, load_image
from fieldmark.errors import FieldmarkError
from fieldmark.progress import Progress
from fieldmark.report.site.facts import TaskFacts
from fieldmark.report.site.predictions import THUMB_BYTES
from fieldmark.settings import Settings

SIZE_PX = 224
QUALITY = 72


@dataclass(frozen=True, slots=True)
class TaskImages:
    """Where the images of a task are."""

    root: Path
    refs: Mapping[str, ImageRef]
    """by item id; of a clip, its middle frame"""
    dataset: str

    def name(self, item: str) -> str:
        """What the item's thumbnail is called; hex digits."""
        ref = self.refs[item]
        return draws.digest("thumb", self.dataset, ref.image, ref.crop).hex()[: 2 * THUMB_BYTES]


def find_images(facts: TaskFacts, settings: Settings) -> TaskImages | None:
    """None where the dataset is not known or not here."""
    if not facts.is_known_dataset:
        return None
    root = settings.root_of(facts.dataset)
    if not root.exists():
        return None
    try:
        table = load_dataset(facts.dataset).table(root, **facts.options)
    except FieldmarkError:
        return None
    refs = dict(map(_middle, table.select("id", "image", "crop").iter_rows()))
    return TaskImages(root, refs, facts.dataset)


def _middle(row: tuple[str, str | list[str], list[float] | None]) -> tuple[str, ImageRef]:
    item, image, crop = row
    frame = image if isinstance(image, str) else image[len(image) // 2]
    box = None if crop is None else (crop[0], crop[1], crop[2], crop[3])
    return item, ImageRef(frame, box)


def choose_images(wrong: Mapping[str, int], known: Iterable[str], n: int, task: str) -> list[str]:
    """`n` ids: half of them those most models miss, half drawn from all, in id order."""
    ids = sorted(set(known) & set(wrong))
    if len(ids) <= n:
        return ids
    drawn = draws.shuffled(ids, "site", task)
    place = {each: number for number, each in enumerate(drawn)}
    hardest = sorted(ids, key=lambda each: (-wrong[each], place[each]))[: n // 2]
    rest = [each for each in drawn if each not in set(hardest)]
    return sorted([*hardest, *rest[: n - len(hardest)]])


def thumbnail(root: Path, ref: ImageRef) -> bytes:
    """A small WebP of the image, without its metadata."""
    image = load_image(root, ref)
    image.thumbnail((SIZE_PX, SIZE_PX), reducing_gap=2.0)
    small = io.BytesIO()
    image.save(small, "WEBP", quality=QUALITY, method=2)
    return small.getvalue()


def write_thumbnails(
    images: TaskImages, items: Sequence[str], folder: Path, threads: int, progress: Progress
) -> dict[str, str]:
    """Item id → name of the thumbnail, for those that could be read."""
    names = {item: images.name(item) for item in items}
    missing = {name: item for item, name in names.items() if not thumb_path(folder, name).exists()}
    done = {name for name in names.values() if name not in missing}
    with ThreadPoolExecutor(threads) as pool:
        refs = [images.refs[item] for item in missing.values()]
        for name, small in zip(
            missing, pool.map(_try, [images.root] * len(refs), refs), strict=True
        ):
            progress.advance()
            if small is not None:
                path = thumb_path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(small)
                done.add(name)
    return {item: name for item, name in names.items() if name in done}


def thumb_path(folder: Path, name: str) -> Path:
    return folder / "thumbs" / name[:2] / f"{name}.webp"


def _try(root: Path, ref: ImageRef) -> bytes | None:
    """A photo that cannot be read is left out: the run has reported it by name."""
    try:
        return thumbnail(root, ref)
    except FieldmarkError:
        return None


def sample_thumbs(frame: pl.DataFrame, n: int) -> list[str]:
    """`n` thumbnails with their labels, spread over the labels."""
    turns = frame.sort("label", "name").with_columns(turn=pl.int_range(pl.len()).over("label"))
    return turns.sort("turn", "label").head(n)["name"].to_list()
