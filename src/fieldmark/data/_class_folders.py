"""Which images lie in ROOT/SPLIT/CLASS folders?

Class names are folder names, never positions: what ids they get is decided from the union of all
splits (`label_ids`). Only entries of folders are listed, no file is looked at: half a million
images take a few seconds. Hidden entries are skipped; whatever else is no image in a class folder
is ignored and reported.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from unicodedata import normalize

import polars as pl

from fieldmark.data._check import counted, name_some
from fieldmark.data._dataset import Finding
from fieldmark.data.folder import is_image, readable_name
from fieldmark.errors import DataError


@dataclass(frozen=True, slots=True)
class ClassFolders:
    """What was found; paths are relative to root."""

    images: list[str] = field(default_factory=list)
    parts: list[tuple[str, str, str, int]] = field(default_factory=list)
    """split folder, split, class folder, number of images; in the order of `images`"""
    outside: list[str] = field(default_factory=list)
    """images in a split's folder but in no class folder: they have no class"""
    strays: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    """class folders without images"""

    def frame(self) -> pl.DataFrame:
        """id, image, split, folder (of the split), class_folder; in the order of the paths."""
        lengths = pl.Series([n for *_, n in self.parts], dtype=pl.UInt32)
        columns = {
            name: pl.Series([part[place] for part in self.parts], dtype=pl.String)
            for place, name in enumerate(("folder", "split", "class_folder"))
        }
        spread = pl.DataFrame(columns).select(
            pl.all().repeat_by(lengths).explode(empty_as_null=False)
        )
        image = pl.Series("image", self.images, dtype=pl.String)
        return spread.with_columns(image, image.alias("id"))


def list_class_folders(root: Path, splits: Mapping[str, str], below: str = "") -> ClassFolders:
    """The images of the split folders that exist; `splits` maps a folder's name to its split.

    `below` is a folder of root that holds the split folders.
    """
    found = ClassFolders()
    for folder in _sorted(root / below) if (root / below).is_dir() else ():
        split = splits.get(normalize("NFC", folder.name))
        if split is not None and folder.is_dir():
            _list_split(found, f"{below}/{folder.name}" if below else folder.name, split, root)
    _refuse_odd_names(root, found)
    return found


def _list_split(found: ClassFolders, path: str, split: str, root: Path) -> None:
    for entry in _sorted(root / path):
        inner = f"{path}/{entry.name}"
        if entry.is_dir():
            n = _list_class(found, inner, root)
            if n:
                found.parts.append((path.rpartition("/")[2], split, entry.name, n))
            else:
                found.empty.append(inner)
        else:
            (found.outside if is_image(entry.name) else found.strays).append(inner)


def _list_class(found: ClassFolders, path: str, root: Path) -> int:
    n_before = len(found.images)
    for entry in _sorted(root / path):
        # `is_image` is asked first: a folder named `x.jpg` is odd enough to fail later, by name.
        kind = found.images if is_image(entry.name) else found.strays
        kind.append(f"{path}/{entry.name}")
    return len(found.images) - n_before


def _sorted(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            shown = [each for each in entries if not each.name.startswith(".")]
    except OSError as error:
        raise DataError(f"{folder}  cannot be listed: {error.strerror}.") from error
    return sorted(shown, key=lambda each: each.name)


def _refuse_odd_names(root: Path, found: ClassFolders) -> None:
    for names in (found.images, found.strays, found.outside, found.empty):
        try:
            "\n".join(names).encode()
        except UnicodeEncodeError:
            for each in names:
                readable_name(root, each)


def folder_findings(found: ClassFolders) -> Iterator[Finding]:
    """Images without a class, files that are no images, and class folders without images."""
    if found.outside:
        n = counted(len(found.outside), "image")
        text = f"{n} outside any class folder, ignored: {name_some(found.outside)}."
        yield Finding("warning", text)
    if found.strays:
        n = counted(len(found.strays), "stray file")
        yield Finding("note", f"{n}, not images, ignored: {name_some(found.strays)}.")
    if found.empty:
        n = counted(len(found.empty), "class folder")
        yield Finding("warning", f"{n} without images: {name_some(found.empty)}.")
