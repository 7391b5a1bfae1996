"""What is in a re-identification dataset of Wild Me, a COCO file with one annotation per animal?

    HOME/images/train2022/*.jpg
    HOME/annotations/instances_train2022.json
    ROOT/metadata.csv             optional: path and split of the published closed-set split

In the table

    label         the individual; unknown ones are left out and counted by `check`
    unit          the individual too: photos of one animal share its marks, so their outcomes do
    crop          the animal's box, where the images are not cut to one animal already
    encounter     photos of one animal with less than an hour from each to the next, where the file
                  itself names none: near-twins, which a fair search may leave out
    closed_split  train or test of the published closed-set split, if metadata.csv gives it

Every annotation of an image is an item of its own, not only the first.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from fieldmark.data._check import counted, image_findings, name_some
from fieldmark.data._dataset import Finding, finish_table, need
from fieldmark.data._read_json import read_json
from fieldmark.errors import DataError

UNKNOWN = "____"
"""what the annotations call an animal nobody could name"""
UNKNOWN_NAMES = ("", UNKNOWN, "unknown")
IMAGES = "images/train2022"
ANNOTATIONS = "annotations/instances_train2022.json"
METADATA = "metadata.csv"
ENCOUNTER_GAP = pl.duration(hours=1)


@dataclass(frozen=True, slots=True)
class Coco:
    """What sets one such dataset apart from the next."""

    name: str
    title: str
    homes: tuple[str, ...]
    """folders below ROOT that may hold images and annotations, in order of preference"""
    is_cut: bool = False
    """are the published images cut to one animal already?"""
    has_dates: bool = True
    n_published: int = 0
    """annotations of the published file; 0 = not compared"""


def read_known(root: Path, coco: Coco) -> pl.DataFrame:
    """One row per annotation of a known individual, in the order of the file."""
    known = read_sightings(root, coco).filter(pl.col("label").is_not_null())
    return finish_table(known, _home(root, coco) / ANNOTATIONS)


def read_sightings(root: Path, coco: Coco) -> pl.DataFrame:
    """All annotations, those of unknown individuals too: these have no label."""
    home = _home(root, coco)
    frame = _flat(home / ANNOTATIONS)
    prefix = home.relative_to(root).as_posix()
    folder = IMAGES if prefix == "." else f"{prefix}/{IMAGES}"
    is_alone = pl.len().over("image_id") == 1
    name = pl.col("label").str.strip_chars()
    frame = frame.with_columns(
        id=pl.when(is_alone).then("file_name").otherwise(pl.format("{}#{}", "file_name", "number")),
        image=pl.format(f"{folder}/{{}}", "file_name"),
        crop=pl.when(~is_alone).then("bbox") if coco.is_cut else pl.col("bbox"),
        label=pl.when(~name.is_in(UNKNOWN_NAMES)).then(name),
        date=_parsed_date(),
    )
    frame = frame.with_columns(unit="label", encounter=pl.coalesce("encounter", _encounter()))
    frame = _with_closed_split(root, frame)
    return frame.select(
        "id", "image", "crop", "label", "unit", "viewpoint", "date", "encounter", "closed_split"
    )


def check_coco(root: Path, coco: Coco) -> list[Finding]:
    """What the file leaves out, individuals seen once, and images that cannot be read."""
    try:
        every = read_sightings(root, coco)
        rows = read_known(root, coco)
    except DataError as error:
        return [Finding("error", str(error))]
    return [
        *_annotation_findings(every, rows, coco),
        *_crop_findings(rows, coco),
        *_individual_findings(rows),
        *_closed_findings(root, rows),
        *_stray_findings(_home(root, coco), every),
        *image_findings(root, rows.get_column("image")),
    ]


# --- checking ---


def _annotation_findings(every: pl.DataFrame, rows: pl.DataFrame, coco: Coco) -> Iterator[Finding]:
    if coco.n_published not in (0, len(every)):
        text = f"{counted(len(every), 'annotation')} where {coco.n_published:,} are published."
        yield Finding("note", text)
    n_unknown = len(every) - len(rows)
    if n_unknown:
        text = f"{counted(n_unknown, 'annotation')} of unknown individuals, left out."
        yield Finding("note", text)


def _crop_findings(rows: pl.DataFrame, coco: Coco) -> Iterator[Finding]:
    crop = pl.col("crop")
    shared = rows.filter(crop.is_not_null() & (pl.len().over("image") > 1))
    if coco.is_cut:
        shared = rows.filter(crop.is_not_null())
    n_shared = shared.get_column("image").n_unique()
    if n_shared:
        text = f"{counted(n_shared, 'image')} with several animals: each is cut out of it."
        yield Finding("note", text)
    if not coco.is_cut:
        n_whole = rows.get_column("crop").null_count()
        if n_whole:
            text = f"{counted(n_whole, 'annotation')} without a box: the whole image is used."
            yield Finding("warning", text)
    empty = rows.filter((crop.list.get(2) <= 0) | (crop.list.get(3) <= 0)).get_column("id")
    if len(empty):
        text = f"{counted(len(empty), 'box', 'boxes')} without area: {name_some(empty.to_list())}."
        yield Finding("error", text)


def _individual_findings(rows: pl.DataFrame) -> Iterator[Finding]:
    counts = rows.group_by("label").len().sort("label")
    if len(counts) < 2:
        names = name_some(counts.get_column("label").to_list())
        yield Finding("error", f"at least two individuals are needed, found {names}.")
        return
    n_once = counts.filter(pl.col("len") == 1).height
    if n_once:
        n = counted(len(counts), "individual")
        text = f"{n_once} of {n} with one image only: nothing can match it."
        yield Finding("note", text)


def _closed_findings(root: Path, rows: pl.DataFrame) -> Iterator[Finding]:
    n_without = rows.get_column("closed_split").null_count()
    if n_without and (root / METADATA).is_file():
        text = f"{n_without} of {counted(len(rows), 'item')} without a split in {METADATA}."
        yield Finding("warning", text)


def _stray_findings(home: Path, every: pl.DataFrame) -> Iterator[Finding]:
    folder = home / IMAGES
    named = {each.rpartition("/")[2] for each in every.get_column("image")}
    found = [each.name for each in os.scandir(folder)] if folder.is_dir() else []
    strays = sorted(each for each in found if each not in named and not each.startswith("."))
    if strays:
        n = counted(len(strays), "file")
        yield Finding("note", f"{n} in {IMAGES} that no annotation names: {name_some(strays)}.")


# --- reading ---


def _home(root: Path, coco: Coco) -> Path:
    for each in coco.homes:
        if (root / each / ANNOTATIONS).is_file():
            return root / each
    return need(root / coco.homes[0] / ANNOTATIONS, f"the annotations of {coco.title}", coco.name)


def _flat(path: Path) -> pl.DataFrame:
    """One row per annotation with what its image says."""
    content = _read(path)
    images = {each.get("id"): each for each in content["images"]}
    rows = []
    for number, each in enumerate(content["annotations"]):
        image = images.get(each.get("image_id"))
        if image is None or "file_name" not in image:
            raise DataError(
                f"{path}  annotation {each.get('id', number)} is of image "
                f"{each.get('image_id')!r}, which the file does not list."
            )
        if not _is_box(each.get("bbox")):
            raise DataError(
                f"{path}  annotation {each.get('id', number)} has the bbox {each['bbox']!r}: "
                "expected four numbers (x, y, width, height)."
            )
        rows.append(_row(each, image, number))
    return pl.DataFrame(rows, schema=_SCHEMA)


def _is_box(value: object) -> bool:
    if value is None:
        return True
    is_four = isinstance(value, list) and len(value) == 4
    return is_four and all(isinstance(each, int | float) for each in value)  # type: ignore[attr-defined]


_SCHEMA: dict[str, Any] = {
    "number": pl.String,
    "image_id": pl.String,
    "file_name": pl.String,
    "label": pl.String,
    "bbox": pl.List(pl.Float64),
    "viewpoint": pl.String,
    "date": pl.String,
    "encounter": pl.String,
}


def _row(annotation: dict[str, Any], image: dict[str, Any], number: int) -> dict[str, Any]:
    encounter = annotation.get("encounter_id", image.get("encounter_id"))
    name = annotation.get("name")
    return {
        "number": str(annotation.get("id", number)),
        "image_id": str(image["id"]),
        "file_name": str(image["file_name"]),
        "label": UNKNOWN if name is None else str(name),
        "bbox": annotation.get("bbox"),
        "viewpoint": annotation.get("viewpoint"),
        "date": image.get("date_captured"),
        "encounter": None if encounter is None else str(encounter),
    }


def _read(path: Path) -> dict[str, Any]:
    content = read_json(path)
    for key in ("images", "annotations"):
        rows = content.get(key) if isinstance(content, dict) else None
        if not isinstance(rows, list) or not all(isinstance(each, dict) for each in rows):
            raise DataError(f"{path}  has no list {key!r} of objects: expected a COCO file.")
    return dict(content)


def _parsed_date() -> pl.Expr:
    text = pl.col("date").str.replace("T", " ", literal=True).str.slice(0, 19)
    return text.str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False)


def _encounter() -> pl.Expr:
    """`whale012@2017-08-07 20:38`: the individual and when the encounter began."""
    gap = pl.col("date").diff().over("label", order_by="date")
    begins = pl.when(gap.is_null() | (gap > ENCOUNTER_GAP)).then("date")
    begin = begins.forward_fill().over("label", order_by="date")
    named = pl.format("{}@{}", "label", begin.dt.strftime("%Y-%m-%d %H:%M"))
    return pl.when(pl.col("date").is_not_null() & pl.col("label").is_not_null()).then(named)


def _with_closed_split(root: Path, frame: pl.DataFrame) -> pl.DataFrame:
    path = root / METADATA
    if not path.is_file():
        return frame.with_columns(closed_split=pl.lit(None, pl.String))
    try:
        published = pl.read_csv(path, infer_schema=False).select("path", "split")
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"{path}  cannot be used: expected the columns path and split.") from error
    by_file = published.select(
        file_name=pl.col("path").str.split("/").list.last(), closed_split="split"
    ).unique("file_name", keep="first")
    return frame.join(by_file, on="file_name", how="left", maintain_order="left")
