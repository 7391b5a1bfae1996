"""What is in a folder of photos with one folder per class?

    ROOT/class/*.jpg                    no splits: `split` is null
    ROOT/{train,val,test}/class/*.jpg   `valid` and `validation` mean val; not all three are needed

The class is the first folder below ROOT, or below the split; folders inside it (years, cameras) do
not matter. Class names are the union over all splits. Hidden files are skipped; files that are no
images, and images outside any class folder, are ignored and reported by `check`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from fieldmark.data._check import class_findings, counted, image_findings, name_some
from fieldmark.data._dataset import Finding, Info, Source, finish_table
from fieldmark.data._splits import SPLITS, split_name
from fieldmark.errors import DataError

if TYPE_CHECKING:
    from fieldmark.world import World

INFO = Info(
    title="Your own photos, a folder per class",
    licence="yours",
    citation="none: these are your own photos",
    layout="ROOT/class/*.jpg\nROOT/{train,val,test}/class/*.jpg",
    sources=(Source(steps="Sort your photos into one folder per class."),),
)

IMAGE_SUFFIXES = {
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".tif", ".tiff", ".bmp", ".gif", ".ppm",
    ".pgm", ".jp2", ".avif", ".heic",
}  # fmt: skip


def table(root: Path) -> pl.DataFrame:
    """One row per image, in the order of their paths."""
    found = _scan(root)
    if not found.items:
        raise DataError(_no_items(root))
    return finish_table(pl.DataFrame(found.items, orient="row", schema=_SCHEMA), root)


def check(root: Path) -> list[Finding]:
    """Stray files, classes too small to use, and images that cannot be read."""
    found = _scan(root)
    findings = []
    if found.outside:
        text = f"{counted(len(found.outside), 'image')} outside any class folder, ignored: "
        findings.append(Finding("warning", f"{text}{name_some(found.outside)}."))
    if found.strays:
        text = f"{counted(len(found.strays), 'file')} that are no images, ignored: "
        findings.append(Finding("note", f"{text}{name_some(found.strays)}."))
    empty = _empty_classes(root, found)
    if empty:
        text = f"{counted(len(empty), 'class folder')} without images, ignored: "
        findings.append(Finding("warning", f"{text}{name_some(empty)}."))
    if not found.items:
        return [*findings, Finding("error", _no_items(root))]
    rows = table(root)
    return [*findings, *class_findings(rows), *image_findings(root, rows.get_column("image"))]


def make(root: Path, world: World, size: int) -> None:
    """Train and test folders of species; two thirds of the images are for training."""
    from fieldmark.data._make import write_folders

    write_folders(root, world, size)


_SCHEMA = {"id": pl.String, "image": pl.String, "split": pl.String, "label": pl.String}


@dataclass(frozen=True, slots=True)
class _Scan:
    items: list[tuple[str, str, str | None, str]]
    outside: list[str]
    """images that lie in no class folder"""
    strays: list[str]


def _no_items(root: Path) -> str:
    return (
        f"{root}  holds no images in class folders: expected ROOT/class/*.jpg or "
        "ROOT/{train,val,test}/class/*.jpg."
    )


def _scan(root: Path) -> _Scan:
    if not root.is_dir():
        raise DataError(f"{root}  is not a folder: expected one with a folder per class in it.")
    images: list[str] = []
    strays: list[str] = []
    for each in list_files(root):
        (images if is_image(each) else strays).append(each)
    has_splits = any(_is_split_path(each) for each in images)
    items: list[tuple[str, str, str | None, str]] = []
    outside: list[str] = []
    splits: dict[str, str | None] = {}
    """of the folders below root; None for one that is no split"""
    for each in images:
        first, _, rest = each.partition("/")
        if not has_splits:
            (items.append((each, each, None, first)) if rest else outside.append(each))
            continue
        if first not in splits:
            splits[first] = split_name(first) if first.lower() in SPLITS else None
        label, _, name = rest.partition("/")
        if name and splits[first] is not None:
            items.append((each, each, splits[first], label))
        else:
            outside.append(each)
    return _Scan(items, outside, strays)


def _empty_classes(root: Path, found: _Scan) -> list[str]:
    """Folders where classes are expected that hold no image at any depth."""
    has_splits = any(split for _, _, split, _ in found.items)
    full = {image.rsplit("/", image.count("/") - has_splits)[0] for _, image, _, _ in found.items}
    places = (
        [each for each in root.iterdir() if each.name.lower() in SPLITS] if has_splits else [root]
    )
    folders = [each for place in places if place.is_dir() for each in place.iterdir()]
    names = [
        each.relative_to(root).as_posix()
        for each in folders
        if each.is_dir() and not each.name.startswith(".")
    ]
    return sorted(set(names) - full)


def _is_split_path(path: str) -> bool:
    parts = path.split("/")
    return len(parts) >= 3 and parts[0].lower() in SPLITS


def is_image(path: str) -> bool:
    return "." + path.rpartition(".")[2].lower() in IMAGE_SUFFIXES


def list_files(root: Path) -> list[str]:
    """Paths of all files below root that are not hidden, sorted; links are followed, unless they
    lead back to a folder that they lie in.
    """
    found: list[str] = []
    waiting: list[tuple[str, frozenset[tuple[int, int]]]] = [("", frozenset())]
    while waiting:
        inner, above = waiting.pop()
        state = (root / inner).stat()
        if (state.st_dev, state.st_ino) in above:
            continue
        inside = above | {(state.st_dev, state.st_ino)}
        with os.scandir(root / inner) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.is_dir():
                    waiting.append((f"{inner}{entry.name}/", inside))
                else:
                    found.append(f"{inner}{entry.name}")
    return sorted(readable_name(root, each) for each in found)


def readable_name(root: Path, name: str) -> str:
    """The name, or an error where it cannot be written as text."""
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{root}  file name {name!r} is not UTF-8: rename it.") from error
    return name
