"""Image sources: which images do a folder, a tar or parquet file, or a dataset hold, in what order?

Listed one after the other, never all at once: a million names are not held in memory. Files come in
the order of their paths, members of tar files and rows of parquet files in that of the file, so
that archives are read from front to back; images of a dataset come in the order of its table.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, product
from pathlib import Path
from typing import NamedTuple

from fieldmark.data._bytes import PARQUET_SUFFIX, TAR_SUFFIXES, parquet_columns, tar_members
from fieldmark.data._image import ImageRef
from fieldmark.errors import DataError, UnknownName, UsageError, meant

_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")
_MOST_SHARDS = 1_000_000


class ListedImage(NamedTuple):
    """An image, and what is known of it before it is opened."""

    id: str
    ref: ImageRef
    label: str | None = None
    split: str | None = None


@dataclass(frozen=True, slots=True)
class ImageSource:
    """Images that lie below one folder."""

    name: str
    """as the user wrote it"""
    root: Path
    """what the names of its images are relative to"""
    n_images: int
    images: Callable[[], Iterable[ListedImage]]
    """lists them, each time anew"""
    joint: str = ""
    """what stands between the source's name and that of an image; "" = that one says it all"""
    has_labels: bool = False
    note: str = ""
    """what of it is not read"""

    def full_name(self, name: str) -> str:
        """An image's name (or id) among those of other sources."""
        return f"{self.name.rstrip('/')}{self.joint}{name}" if self.joint else name


def find_sources(
    words: Sequence[str], datasets: Iterable[str], read_dataset: Callable[[str], ImageSource]
) -> list[ImageSource]:
    """The sources that words name: a dataset, a folder, image files, tar or parquet files.

    `shard-{000..099}.tar` stands for a hundred files, as in a shell. A dataset's name comes before
    that of a folder, which `./NAME` names. Raises where one does not exist or holds no image.
    """
    known = set(datasets)
    every = list(dict.fromkeys(name for word in words for name in _expanded(word)))
    sources: list[ImageSource] = []
    for is_file, names in groupby(every, lambda name: name not in known and _is_image_file(name)):
        if is_file:
            sources += _image_files(list(names))
        else:
            sources += [_source(name, known, read_dataset) for name in names]
    return sources


def _expanded(word: str) -> list[str]:
    """
    >>> _expanded("a-{08..10}.tar")
    ['a-08.tar', 'a-09.tar', 'a-10.tar']
    """
    ranges = [(first, int(first), int(last)) for first, last in _RANGE.findall(word)]
    if not ranges or Path(word).exists():
        return [word]
    n = 1
    for _, start, stop in ranges:
        n *= max(0, stop - start + 1)
    if not 0 < n <= _MOST_SHARDS:
        raise UsageError(f"{word}: the range stands for {n:,} files; expected {{000..099}}.")
    numbers = [
        [str(number).zfill(len(first)) for number in range(start, stop + 1)]
        for first, start, stop in ranges
    ]
    texts = _RANGE.split(word)[::3]
    return [
        "".join(text + number for text, number in zip(texts, (*chosen, ""), strict=True))
        for chosen in product(*numbers)
    ]


def _source(
    name: str, datasets: set[str], read_dataset: Callable[[str], ImageSource]
) -> ImageSource:
    path = Path(name).expanduser()
    if name in datasets or ".py:" in name:
        return read_dataset(name)
    if path.is_dir():
        return _folder(name, path)
    if not path.exists():
        raise _missing(name, path, datasets)
    lower = path.name.lower()
    if lower.endswith(TAR_SUFFIXES):
        return _tar(name, path)
    if lower.endswith(PARQUET_SUFFIX):
        return _parquet(name, path)
    raise UsageError(
        f"{name}  is nothing that can be embedded: expected a dataset, a folder, images, or "
        f"{', '.join(TAR_SUFFIXES)} and {PARQUET_SUFFIX} files."
    )


def _missing(name: str, path: Path, datasets: set[str]) -> Exception:
    try:
        beside = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        beside = []
    if path.parent == Path() and not path.suffix and not name.startswith("."):
        return UnknownName("dataset or folder", name, [*datasets, *beside], "fieldmark datasets")
    return DataError(f"{name}  does not exist.{meant(path.name, beside)}")


# --- files ---


def _is_image_file(name: str) -> bool:
    from fieldmark.data.read.folders import is_image

    path = Path(name).expanduser()
    return (is_image(path.name) or not path.suffix) and path.is_file()


def _image_files(names: Sequence[str]) -> list[ImageSource]:
    """One source for those that follow each other in one folder."""
    sources = []
    for parent, group in groupby(names, lambda name: Path(name).expanduser().parent):
        items = [ListedImage(name, ImageRef(Path(name).name)) for name in group]
        sources.append(ImageSource(str(parent), parent, len(items), _listing(items)))
    return sources


def _listing(items: list[ListedImage]) -> Callable[[], Iterable[ListedImage]]:
    return lambda: items


def _folder(name: str, path: Path) -> ImageSource:
    from fieldmark.data.read.folders import is_image, walk_files

    def images() -> Iterator[ListedImage]:
        for file in walk_files(path):
            if is_image(file):
                yield ListedImage(file, ImageRef(file))

    n_images, others = 0, Counter[str]()
    for file in walk_files(path):
        if is_image(file):
            n_images += 1
        else:
            others[_ending(file)] += 1
    if not n_images:
        raise DataError(f"{name}  holds no images.{_instead(others)}")
    return ImageSource(name, path, n_images, images, "/", note=_ignored(others))


def _ending(file: str) -> str:
    base = file.rpartition("/")[2].lower()
    if base.endswith(TAR_SUFFIXES):
        return next(suffix for suffix in TAR_SUFFIXES if base.endswith(suffix))
    return Path(base).suffix or "no ending"


def _instead(others: Counter[str]) -> str:
    """What to do about a folder of archives."""
    for ending in (*TAR_SUFFIXES, PARQUET_SUFFIX):
        if others[ending]:
            return f" It holds {others[ending]:,} {ending} files: give these (FOLDER/*{ending})."
    return f" {_ignored(others)}" if others else ""


def _ignored(others: Counter[str]) -> str:
    if not others:
        return ""
    kinds = ", ".join(f"{n:,} {ending}" for ending, n in others.most_common(5))
    return f"Files that are no images, ignored: {others.total():,} ({kinds})."


# --- archives ---


def _tar(name: str, path: Path) -> ImageSource:
    from fieldmark.data.read.folders import is_image

    def images() -> Iterator[ListedImage]:
        for member in tar_members(path)[0]:
            if is_image(member):
                yield ListedImage(member, ImageRef(f"{path.name}::{member}"))

    members, is_whole = tar_members(path)
    if not is_whole:
        raise DataError(f"{name}  is cut off: fetch it again.")
    others = Counter(_ending(member) for member in members if not is_image(member))
    n_images = len(members) - others.total()
    if not n_images:
        raise DataError(f"{name}  holds no images.{_instead(Counter())}")
    return ImageSource(name, path.parent, n_images, images, "::", note=_ignored(others))


def _parquet(name: str, path: Path) -> ImageSource:
    columns, n_rows = parquet_columns(path)
    if "image" not in columns and len(columns) != 1:
        shown = ", ".join(map(repr, columns)) or "none"
        raise DataError(
            f"{name}  has no column `image` with bytes; columns that hold bytes: {shown}."
        )
    if not n_rows:
        raise DataError(f"{name}  holds no rows.")
    column = "" if "image" in columns else f"::{columns[0]}"

    def images() -> Iterator[ListedImage]:
        for row in range(n_rows):
            yield ListedImage(f"{row}{column}", ImageRef(f"{path.name}::{row}{column}"))

    return ImageSource(name, path.parent, n_rows, images, "::")


# --- datasets ---


def dataset_source(name: str, root: Path) -> ImageSource:
    """The images of a dataset's table; frames of a clip are images of their own: `ID/0`, `ID/1`."""
    import polars as pl

    from fieldmark.data import load_dataset

    table = load_dataset(name).table(root).select("id", "image", "crop", "label", "split")
    is_clip = table.schema["image"] != pl.String

    def images() -> Iterator[ListedImage]:
        for item, image, crop, label, split in table.iter_rows():
            box = tuple(crop) if crop is not None else None
            if not is_clip:
                yield ListedImage(item, ImageRef(image, box), label, split)
                continue
            for number, frame in enumerate(image):
                yield ListedImage(f"{item}/{number}", ImageRef(frame, box), label, split)

    n_images = int(table["image"].list.len().sum()) if is_clip else len(table)
    return ImageSource(name, root, n_images, images, "/", has_labels=True)
