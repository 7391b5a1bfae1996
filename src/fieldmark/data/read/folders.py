"""Folders of images: all files below a folder, and the images of ROOT/SPLIT/CLASS folders.

Class names are folder names, never positions: what ids they get is decided from the union of all
splits (`label_ids`). Only entries of folders are listed, no file is looked at: half a million
images take a few seconds. Hidden entries are skipped; whatever else is no image in a class folder
is ignored and reported.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from unicodedata import normalize

import polars as pl

from fieldmark.data._check import (
    class_findings,
    counted,
    image_findings,
    name_some,
    named_findings,
    published_findings,
    split_findings,
)
from fieldmark.data._dataset import Finding
from fieldmark.data._synthetic import MARK
from fieldmark.errors import DataError
from fieldmark.words import is_text

IMAGE_SUFFIXES = {
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".tif", ".tiff", ".bmp", ".gif", ".ppm",
    ".pgm", ".pbm", ".pnm", ".tga", ".qoi", ".jp2", ".j2k", ".jpx", ".avif", ".heic", ".heif",
}  # fmt: skip


def is_image(path: str) -> bool:
    return "." + path.rpartition(".")[2].lower() in IMAGE_SUFFIXES


def list_files(root: Path) -> list[str]:
    """Paths of all files below root that are not hidden, sorted; links are followed, unless they
    lead back to a folder that they lie in.
    """
    return list(walk_files(root))


def walk_files(root: Path) -> Iterator[str]:
    """The same, one after the other: no more than the entries of one folder and of those above it
    are held.
    """
    return _walk(root, "", frozenset())


def _walk(root: Path, inner: str, above: frozenset[tuple[int, int]]) -> Iterator[str]:
    state = (root / inner).stat()
    if (state.st_dev, state.st_ino) in above:
        return
    inside = above | {(state.st_dev, state.st_ino)}
    # With a slash behind the names of folders, files come in the order of their whole paths.
    names = [
        f"{entry.name}/" if _is_folder(entry) else entry.name for entry in _entries(root / inner)
    ]
    for name in sorted(names):
        path = f"{inner}{name}"
        if name.endswith("/"):
            yield from _walk(root, path, inside)
        else:
            yield readable_name(root, path)


def readable_name(root: Path, name: str) -> str:
    """The name, or an error where it cannot be written as text."""
    if not is_text(name):
        raise DataError(f"{root}  file name {name!r} is not UTF-8: rename it.")
    return name


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """What is not hidden, by name; our own mark is nothing of the user's."""
    try:
        with os.scandir(folder) as entries:
            shown = [e for e in entries if not e.name.startswith(".") and e.name != MARK]
    except OSError as error:
        raise DataError(f"{folder}  cannot be listed: {error.strerror}.") from error
    return sorted(shown, key=lambda entry: entry.name)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Asks the disk where it is a link, which may lead in a circle."""
    try:
        return entry.is_dir()
    except OSError as error:
        raise DataError(f"{entry.path}  is a link that cannot be followed: remove it.") from error


# --- ROOT/SPLIT/CLASS ---


@dataclass(frozen=True, slots=True)
class ClassFolders:
    """The images and other files of class folders; paths are relative to root."""

    images: list[str] = field(default_factory=list)
    parts: list[tuple[str, str, str, int]] = field(default_factory=list)
    """split folder, split, class folder, number of images; in the order of `images`"""
    outside: list[str] = field(default_factory=list)
    """images in a split's folder but in no class folder: they have no class"""
    strays: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    """class folders without images"""

    def frame(self, or_else: str) -> pl.DataFrame:
        """id, image, split, folder (of the split), class_folder; in the order of the paths.

        `or_else` is what is said when there are no images.
        """
        if not self.images:
            raise DataError(or_else)
        lengths = pl.Series([n for *_, n in self.parts], dtype=pl.UInt32)
        columns = {
            name: pl.Series([part[field] for part in self.parts], dtype=pl.String)
            for field, name in enumerate(("folder", "split", "class_folder"))
        }
        spread = pl.DataFrame(columns).select(
            pl.all().repeat_by(lengths).explode(empty_as_null=False)
        )
        image = pl.Series("image", self.images, dtype=pl.String)
        return spread.with_columns(image, image.alias("id"))


def class_folders(root: Path, splits: Mapping[str, str], below: str = "") -> ClassFolders:
    """The images of the split folders that exist; `splits` maps a folder's name to its split.

    `below` is a folder of root that holds the split folders.
    """
    listed = ClassFolders()
    for folder in _entries(root / below) if (root / below).is_dir() else ():
        split = splits.get(normalize("NFC", folder.name))
        if split is not None and _is_folder(folder):
            _list_split(listed, f"{below}/{folder.name}" if below else folder.name, split, root)
    for names in (listed.images, listed.strays, listed.outside, listed.empty):
        if not is_text("\n".join(names)):
            for name in names:
                readable_name(root, name)
    return listed


def _list_split(listed: ClassFolders, path: str, split: str, root: Path) -> None:
    for entry in _entries(root / path):
        inner = f"{path}/{entry.name}"
        if _is_folder(entry):
            n = _list_class(listed, inner, root)
            if n:
                listed.parts.append((path.rpartition("/")[2], split, entry.name, n))
            else:
                listed.empty.append(inner)
        else:
            (listed.outside if is_image(entry.name) else listed.strays).append(inner)


def _list_class(listed: ClassFolders, path: str, root: Path) -> int:
    n_before = len(listed.images)
    for entry in _entries(root / path):
        # `is_image` is asked first: a folder named `x.jpg` is odd enough to fail later, by name.
        kind = listed.images if is_image(entry.name) else listed.strays
        kind.append(f"{path}/{entry.name}")
    return len(listed.images) - n_before


def folder_findings(listed: ClassFolders) -> Iterator[Finding]:
    """Images without a class, files that are no images, and class folders without images."""
    text = "outside any class folder, ignored"
    yield from named_findings("warning", listed.outside, text, "image")
    if listed.strays:
        n = counted(len(listed.strays), "stray file")
        yield Finding("note", f"{n}, not images, ignored: {name_some(listed.strays)}.")
    yield from named_findings("warning", listed.empty, "without images", "class folder")


@dataclass(frozen=True, slots=True)
class PublishedSize:
    """What is known of a published dataset, to compare a user's copy with."""

    n_images: Mapping[str, int]
    """split → images; "images" of a dataset without splits"""
    folders: Mapping[str, str]
    """split → the folder that holds it"""
    n_classes: int = 0
    """0 = not compared"""
    unseen_level: str = "warning"
    """how classes without a training image are told: the published data may have such itself"""


def species_findings(
    root: Path,
    listed: ClassFolders | None,
    rows: pl.DataFrame,
    published: PublishedSize,
    more: Iterable[Finding] = (),
) -> Iterator[Finding]:
    """The check of a species dataset: stray files, `more` findings, counts, splits, images."""
    yield from folder_findings(listed) if listed else ()
    yield from more
    yield from published_findings(rows, published.n_images, published.n_classes)
    yield from split_findings(root, rows, published.folders, published.unseen_level)
    yield from class_findings(rows)
    yield from image_findings(root, rows.get_column("image"))
