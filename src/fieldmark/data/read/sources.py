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

from fieldmark.data._bytes import (
    PARQUET_SUFFIX,
    TAR_SUFFIXES,
    base_folder,
    parquet_columns,
    tar_members,
)
from fieldmark.data._image import ImageRef
from fieldmark.errors import DataError, UnknownName, UsageError, meant
from fieldmark.registry import is_file_reference

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
    """of several tar files, an estimate: only the first was looked into"""
    images: Callable[[], Iterable[ListedImage]]
    """lists them, each time anew"""
    joint: str = ""
    """what stands between the source's name and that of an image; "" = that one says it all"""
    has_labels: bool = False
    """they come from a dataset's table, which may also name files that are not there"""
    note: str = ""
    """what of it is not read"""

    def full_id(self, image: ListedImage) -> str:
        """An image's id among those of other sources."""
        return f"{self.name.rstrip('/')}{self.joint}{image.id}" if self.joint else image.id

    def path_of(self, image: ListedImage) -> str:
        """Where an image is, seen from here."""
        return str(base_folder(self.root) / image.ref.image)


def find_sources(
    words: Sequence[str], datasets: Iterable[str], read_dataset: Callable[[str], ImageSource]
) -> list[ImageSource]:
    """The sources that words name: a dataset, a folder, image files, tar or parquet files.

    `shard-{000..099}.tar` stands for a hundred files, as in a shell. A dataset's name comes before
    that of a folder, which `./NAME` names. Raises where one does not exist or holds no image.
    """
    dataset_names = set(datasets)
    every = list(dict.fromkeys(name for word in words for name in expand_ranges(word)))
    sources: list[ImageSource] = []
    for (kind, parent), group in groupby(every, lambda name: _kind(name, dataset_names)):
        names = list(group)
        if kind == "files":
            items = [ListedImage(name, ImageRef(Path(name).name)) for name in names]
            sources.append(ImageSource(str(parent), parent, len(items), items.copy))
        elif kind == "archives":
            sources.append(_archives(names, parent))
        else:
            sources += [_source(name, dataset_names, read_dataset) for name in names]
    return sources


def _kind(name: str, datasets: set[str]) -> tuple[str, Path]:
    """Files of one kind in one folder make one source."""
    from fieldmark.data.read.folders import is_image, readable_name

    path = Path(name).expanduser()
    if name not in datasets and path.is_file():
        readable_name(path.parent, path.name)
        if path.name.lower().endswith((*TAR_SUFFIXES, PARQUET_SUFFIX)):
            return "archives", path.parent
        if is_image(path.name) or not path.suffix:
            return "files", path.parent
    return "others", Path()


def expand_ranges(word: str) -> list[str]:
    """The names that a word with ranges stands for.

    >>> expand_ranges("a-{08..10}.tar")
    ['a-08.tar', 'a-09.tar', 'a-10.tar']
    """
    ranges = [(start_text, int(start_text), int(last)) for start_text, last in _RANGE.findall(word)]
    if not ranges or Path(word).exists():
        return [word]
    n = 1
    for _, start, stop in ranges:
        n *= max(0, stop - start + 1)
    if not 0 < n <= _MOST_SHARDS:
        raise UsageError(f"{word}: the range means {n:,} files; expected {{000..099}}.")
    numbers = [
        [str(number).zfill(len(start_text)) for number in range(start, stop + 1)]
        for start_text, start, stop in ranges
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
    if name in datasets or is_file_reference(name):
        return read_dataset(name)
    if not name:
        raise UsageError("'' names nothing to embed: expected a dataset, a folder or a file.")
    if path.is_dir():
        return _folder(name, path)
    if not path.exists():
        raise _missing(name, path, datasets)
    raise UsageError(
        f"{name}  cannot be embedded: expected a dataset, a folder, images, or "
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


# --- folders ---


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
        raise DataError(f"{name}  contains no images.{_instead(others)}")
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
            return f" It contains {others[ending]:,} {ending} files: give these (FOLDER/*{ending})."
    return f" {_ignored(others)}" if others else ""


def _ignored(others: Counter[str]) -> str:
    if not others:
        return ""
    kinds = ", ".join(f"{n:,} {ending}" for ending, n in others.most_common(5))
    return f"Files that are not images, ignored: {others.total():,} ({kinds})."


# --- archives ---


def _archives(names: Sequence[str], folder: Path) -> ImageSource:
    """Tar and parquet files of one folder; of several, ids begin with the file's name."""
    paths = [folder / Path(name).name for name in names]
    n_first = sum(1 for _ in _inside(paths[0], names[0]))
    if not n_first:
        raise DataError(f"{names[0]}  contains no images.")
    sizes = [path.stat().st_size for path in paths]

    def images() -> Iterator[ListedImage]:
        for name, path in zip(names, paths, strict=True):
            for inner in _inside(path, name):
                image = f"{path.name}::{inner}"
                listed_name = inner.partition("::")[0] if _is_table(path) else inner
                item = listed_name if len(paths) == 1 else f"{path.name}::{listed_name}"
                yield ListedImage(item, ImageRef(image))

    if len(paths) == 1:
        return ImageSource(names[0], folder, n_first, images, "::")
    n_images = n_first * sum(sizes) // max(1, sizes[0])
    return ImageSource(str(folder), folder, n_images, images, "" if folder == Path() else "/")


def _is_table(path: Path) -> bool:
    return path.name.lower().endswith(PARQUET_SUFFIX)


def _inside(path: Path, name: str) -> Iterator[str]:
    """What images of an archive are called in it: members, or rows."""
    if _is_table(path):
        yield from _rows(path, name)
        return
    from fieldmark.data.read.folders import is_image, readable_name

    members, is_whole = tar_members(path)
    if not is_whole:
        raise DataError(f"{name}  is cut off: fetch it again.")
    for member in filter(is_image, members):
        yield readable_name(path, member)


def _rows(path: Path, name: str) -> Iterator[str]:
    columns, n_rows = parquet_columns(path)
    if "image" not in columns and len(columns) != 1:
        shown = ", ".join(map(repr, columns)) or "none"
        raise DataError(
            f"{name}  has no column `image` with bytes; columns that hold bytes: {shown}."
        )
    column = "" if "image" in columns else f"::{columns[0]}"
    for row in range(n_rows):
        yield f"{row}{column}"


# --- datasets ---


def dataset_source(name: str, root: Path) -> ImageSource:
    """The images of a dataset's table; frames of a clip are images of their own: `ID/0`, `ID/1`."""
    import polars as pl

    from fieldmark.data import read_table

    table = read_table(name, root).select("id", "image", "crop", "label", "split")
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
