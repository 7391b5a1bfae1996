"""Your own photos in a folder, with one folder per class.

    ROOT/class/*.jpg                    no splits: `split` is null
    ROOT/{train,val,test}/class/*.jpg   `valid` and `validation` mean val; not all three are needed

The class is the first folder below ROOT, or below the split; folders inside it (years, cameras) do
not matter. Class names are the union over all splits. Hidden files are skipped; files that are no
images, and images outside any class folder, are ignored and reported by `check`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from fieldmark.data._check import class_findings, image_findings, named_findings
from fieldmark.data._dataset import SPLITS, Finding, Info, Source, finish_table, split_name
from fieldmark.data._make import plan_photos, take_photo
from fieldmark.data.read.folders import is_image, list_files
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


def table(root: Path) -> pl.DataFrame:
    """One row per image, in the order of their paths."""
    scan = _scan(root)
    if not scan.items:
        raise DataError(_no_items(root))
    return finish_table(pl.DataFrame(scan.items, orient="row", schema=_SCHEMA), root)


def check(root: Path) -> list[Finding]:
    """Stray files, classes too small to use, and images that cannot be read."""
    scan = _scan(root)
    was = "is not an image and was" if len(scan.strays) == 1 else "are not images and were"
    empty = _empty_classes(root, scan)
    outside = "outside any class folder, ignored"
    findings = [
        *named_findings("warning", scan.outside, outside, "image"),
        *named_findings("note", scan.strays, f"{was} ignored", "file"),
        *named_findings("warning", empty, "without images, ignored", "class folder"),
    ]
    if not scan.items:
        return [*findings, Finding("error", _no_items(root))]
    rows = table(root)
    return [*findings, *class_findings(rows), *image_findings(root, rows.get_column("image"))]


def make(root: Path, world: World, size: int) -> None:
    """Train and test folders of species; two thirds of the images are for training."""
    for photo in plan_photos(world, size, "folder", ("train", "train", "test") * 2):
        folder = root / photo.split / photo.species.scientific_name
        take_photo(world, photo.scene, folder / f"{photo.turn:04}.jpg")


_SCHEMA = {"id": pl.String, "image": pl.String, "split": pl.String, "label": pl.String}


@dataclass(frozen=True, slots=True)
class _Scan:
    items: list[tuple[str, str, str | None, str]]
    outside: list[str]
    """images that lie in no class folder"""
    strays: list[str]


def _no_items(root: Path) -> str:
    return (
        f"{root}  contains no images in class folders: expected ROOT/class/*.jpg or "
        "ROOT/{train,val,test}/class/*.jpg."
    )


def _scan(root: Path) -> _Scan:
    if not root.is_dir():
        raise DataError(f"{root}  is not a folder: expected one with a folder per class in it.")
    images: list[str] = []
    strays: list[str] = []
    for path in list_files(root):
        (images if is_image(path) else strays).append(path)
    has_splits = any(
        path.count("/") >= 2 and path.partition("/")[0].lower() in SPLITS for path in images
    )
    items: list[tuple[str, str, str | None, str]] = []
    outside: list[str] = []
    splits: dict[str, str | None] = {}
    """of the folders below root; None for one that is no split"""
    for path in images:
        top, _, rest = path.partition("/")
        if not has_splits:
            (items.append((path, path, None, top)) if rest else outside.append(path))
            continue
        if top not in splits:
            splits[top] = split_name(top) if top.lower() in SPLITS else None
        label, _, name = rest.partition("/")
        if name and splits[top] is not None:
            items.append((path, path, splits[top], label))
        else:
            outside.append(path)
    return _Scan(items, outside, strays)


def _empty_classes(root: Path, scan: _Scan) -> list[str]:
    """Folders where classes are expected that hold no image at any depth."""
    has_splits = any(split for _, _, split, _ in scan.items)
    full = {image.rsplit("/", image.count("/") - has_splits)[0] for _, image, _, _ in scan.items}
    parents = [root]
    if has_splits:
        parents = [path for path in root.iterdir() if path.name.lower() in SPLITS and path.is_dir()]
    names = {
        folder.relative_to(root).as_posix()
        for parent in parents
        for folder in parent.iterdir()
        if folder.is_dir() and not folder.name.startswith(".")
    }
    return sorted(names - full)
