"""Camera-trap formats: COCO Camera Traps, MegaDetector boxes and Camtrap DP, as labelled photos.

COCO names photos, labels and boxes; a box becomes a crop. MegaDetector's results hold boxes and no
labels that a person gave: `add_boxes` cuts photos whose labels are known to their best box. Camtrap
DP (tdwg/camtrap-dp) joins observations to media; what a machine wrote is never taken for truth.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unicodedata import normalize

import polars as pl

from fieldmark.data._bytes import read_bytes
from fieldmark.data._image import Box, read_header
from fieldmark.data.read.own_photos import (
    SCHEMA,
    TABLES,
    Columns,
    LabelledPhotos,
    read_folder,
    read_table,
    unread_files,
)
from fieldmark.data.read.table import read_annotations, read_json
from fieldmark.errors import DataError, meant_path
from fieldmark.words import counted

PACKAGE = "datapackage.json"
OBSERVATIONS = (
    "observationID", "deploymentID", "mediaID", "eventID", "eventStart", "eventEnd",
    "observationLevel", "observationType", "cameraSetupType", "scientificName", "count",
    "lifeStage", "sex", "behavior", "individualID", "individualPositionRadius",
    "individualPositionAngle", "individualSpeed", "bboxX", "bboxY", "bboxWidth", "bboxHeight",
    "classificationMethod", "classifiedBy", "classificationTimestamp",
    "classificationProbability", "observationTags", "observationComments",
)  # fmt: skip
"""columns of Camtrap DP 1.0 (tdwg/camtrap-dp, observations-table-schema.json), in its order"""
MARGIN = 0.075
"""of a box's longer side, added on each side before it is made square"""
SURE_BOX = 0.2
"""confidence from which a box counts: MegaDetector's own threshold for version 5"""
_ANIMAL = ("1", "animal", 0)
_SWAPPED = (5, 6, 7, 8)
"""EXIF orientations that swap width and height"""


def read_photos(path: Path, columns: Columns) -> LabelledPhotos:
    """The labelled photos of a folder, a table, a COCO file or a Camtrap DP."""
    kind = path.suffix.lower()
    if path.name == PACKAGE or (path / PACKAGE).is_file():
        photos = read_camtrap(path.parent if path.is_file() else path)
    elif path.is_dir():
        photos = read_folder(path, columns)
    elif kind in TABLES:
        photos = read_table(path, columns)
    elif kind == ".json" and path.is_file():
        photos = read_coco(path)
    elif not path.exists():
        near = meant_path(path) or " Give a folder of photos or a table (.csv)."
        raise DataError(f"{path} does not exist.{near}")
    elif kind in (".xlsx", ".xls", ".ods", ".numbers"):
        raise DataError(f"{path} is a spreadsheet: save it as CSV, and give that file.")
    else:
        raise DataError(
            f"{path} is neither a folder of photos nor a table (.csv, .tsv, .parquet) "
            "nor a COCO file (.json)."
        )
    label = pl.col("label").map_elements(_clean, return_dtype=pl.String)
    photos = replace(photos, table=photos.table.with_columns(label))
    if named := unread_files(photos.table.get_column("image")):  # by a table
        table = photos.table.filter(~pl.col("image").is_in(named))
        photos = replace(photos, table=table, unread=tuple(named))
    return photos if columns.boxes is None else add_boxes(photos, columns.boxes)


def _clean(label: str) -> str:
    """One Unicode form and single blanks, and nothing that steers a terminal or breaks an SVG."""
    marks = (mark if mark.isprintable() else " " for mark in normalize("NFC", label))
    return " ".join("".join(marks).split()) or "(blank)"


@contextmanager
def _laid_out(path: Path, what: str) -> Iterator[None]:
    """Says of somebody else's JSON that its layout is another one, in a line."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        problem = f"no {error}" if isinstance(error, KeyError) else error
        raise DataError(f"{path} is not laid out as {what}: {problem}.") from error


# --- COCO


def read_coco(path: Path) -> LabelledPhotos:
    """Photos of a COCO file with the label of their annotations; photos with two labels are left
    out, and several boxes of one photo share its unit.
    """
    data = read_json(path)
    if isinstance(data, list) or "annotations" not in data:
        raise DataError(
            f"{path} contains no labels that a person gave: give the folder of photos, or a table, "
            f"and this file with --boxes {path.name}."
        )
    with _laid_out(path, "COCO"):
        names = {category["id"]: str(category["name"]) for category in data.get("categories", ())}
        images = {image["id"]: image for image in data.get("images", ())}
        of_image: dict[Any, list[tuple[str, Any]]] = defaultdict(list)
        for one in data["annotations"]:
            label = names.get(one.get("category_id"), "")
            of_image[one["image_id"]].append((label, one.get("bbox")))
        rows = [row for key, image in images.items() for row in _coco_rows(image, of_image[key])]
    if not rows:
        raise DataError(f"{path} names no photo with a label.")
    table = pl.DataFrame(rows, orient="row", schema=SCHEMA, infer_schema_length=None)
    keys = ("location", "seq_id")
    word = next((key for key in keys if any(key in image for image in images.values())), "")
    n_left = len(images) - table.get_column("image").n_unique()
    root = _photo_root(path.parent, table.get_column("image")[0])
    return LabelledPhotos(root, table, "category", f"column {word}" if word else "", "", n_left)


def _coco_rows(
    image: dict[str, Any], annotations: list[tuple[str, Any]]
) -> Iterator[tuple[object, ...]]:
    """A row for each box; where there is none, one for the photo if it has one label."""
    unit = image.get("location", image.get("seq_id"))
    unit = None if unit is None else str(unit)
    name = str(image["file_name"]).replace("\\", "/")
    labels = {label for label, _ in annotations}
    if len(labels) == 1 and not any(box for _, box in annotations):
        yield name, name, None, labels.pop(), unit, None
    for number, (label, box) in enumerate(annotations):
        if box:
            x, y, width, height = map(float, box)
            crop = list(square((x, y, width, height)))
            yield f"{name}#{number}", name, None, label, unit or name, crop


def square(box: Box) -> Box:
    """The box with a margin, made square around its middle."""
    x, y, width, height = box
    side = max(width, height) * (1 + 2 * MARGIN)
    return x + width / 2 - side / 2, y + height / 2 - side / 2, side, side


def _photo_root(folder: Path, image: str) -> Path:
    """The folder from which the file names its photos: its own, or one beside it."""
    folders = [folder, *(folder / name for name in ("images", "image", "photos"))]
    return next((candidate for candidate in folders if (candidate / image).exists()), folder)


# --- MegaDetector


def add_boxes(photos: LabelledPhotos, path: Path) -> LabelledPhotos:
    """The photos cut to their best animal; photos without one stay whole."""
    if not path.is_file():
        raise DataError(f"--boxes {path} does not exist: give the results of MegaDetector (.json).")
    data = read_json(path)
    boxes: dict[str, tuple[Box, bool]] = {}
    with _laid_out(path, "results of MegaDetector"):
        for image in data if isinstance(data, list) else data.get("images", ()):
            name = str(image.get("file", image.get("file_name", ""))).replace("\\", "/")
            if best := _best_box(image.get("detections") or []):
                boxes[name] = best
    if not boxes:
        raise DataError(f"{path} has no box of an animal: expected the results of MegaDetector.")
    crops = [_crop(photos.root, image, boxes) for image in photos.table.get_column("image")]
    n = sum(crop is not None for crop in crops)
    if not n:
        image_0 = photos.table.get_column("image")[0]
        raise DataError(
            f"{path} names none of these photos: its first is {next(iter(boxes))!r}, yours is "
            f"{image_0!r}."
        )
    table = photos.table.with_columns(pl.Series("crop", crops, dtype=pl.List(pl.Float64)))
    return replace(photos, table=table)


def _best_box(detections: list[dict[str, Any]]) -> tuple[Box, bool] | None:
    """The surest box of an animal, and whether it is relative to the photo's size. One dialect has
    x, y, width and height from 0 to 1; the other x1, y1, x2 and y2 in pixels.
    """
    boxes = []
    for one in detections:
        confidence = float(one.get("conf", one.get("confidence", 0.0)))
        box = one.get("bbox")
        if box and one.get("category") in _ANIMAL and confidence >= SURE_BOX:
            boxes.append((confidence, tuple(map(float, box))))
    if not boxes:
        return None
    _, (a, b, c, d) = max(boxes)
    is_relative = max(a, b, c, d) <= 1
    return ((a, b, c, d) if is_relative else (a, b, c - a, d - b)), is_relative


def _crop(root: Path, image: str, boxes: dict[str, tuple[Box, bool]]) -> list[float] | None:
    if image not in boxes:
        return None
    box, is_relative = boxes[image]
    if is_relative:
        try:
            header = read_header(read_bytes(root, image))
        except DataError:  # told when the photo is looked at
            return None
        width, height = header.width, header.height
        if header.orientation in _SWAPPED:
            width, height = height, width
        box = box[0] * width, box[1] * height, box[2] * width, box[3] * height
    return list(square(box))


# --- Camtrap DP


def check_package(photos: Path) -> None:
    """Refuses photos without what the standard requires of an observation, before any work."""
    if not (photos / PACKAGE).is_file():
        raise DataError(
            f"{photos} has no {PACKAGE}: Camtrap DP observations need the deployment and the time "
            "of each photo, which a Camtrap DP names. Leave --camtrap-dp out, or give the package."
        )


def read_camtrap(folder: Path) -> LabelledPhotos:
    """Photos of a Camtrap DP with one species that a person saw; the unit is the place."""
    media = read_resource(folder, "media", ("mediaID", "deploymentID", "filePath"))
    media = media.filter(~pl.col("filePath").str.contains(r"^https?://"))
    seen = read_resource(folder, "observations", ("mediaID", "scientificName"))
    seen = seen.filter(
        (_column(seen, "classificationMethod") != "machine")
        & (_column(seen, "observationType") == "animal")
        & (pl.col("scientificName") != "")
        & (pl.col("mediaID") != "")
    )
    labels: dict[str, set[str]] = defaultdict(set)
    for key, name in seen.select("mediaID", "scientificName").iter_rows():
        labels[key].add(name)
    deployments = read_resource(folder, "deployments", ("deploymentID",))
    where = dict(deployments.select("deploymentID", _column(deployments, "locationID")).iter_rows())
    rows = [
        (path, path.replace("\\", "/"), None, *labels[key], where.get(at) or at, None)
        for key, at, path in media.select("mediaID", "deploymentID", "filePath").iter_rows()
        if len(labels[key]) == 1
    ]
    if not rows:
        raise DataError(
            f"{folder / PACKAGE} has no photo on this disk with one animal that a person named "
            f"({counted(len(media), 'local photo')}, {counted(len(seen), 'such observation')})."
        )
    table = pl.DataFrame(rows, orient="row", schema=SCHEMA)
    n_left = sum(len(names) > 1 for names in labels.values())
    return LabelledPhotos(folder, table, "scientificName", "column location", "", n_left)


def read_resource(folder: Path, name: str, needed: tuple[str, ...]) -> pl.DataFrame:
    """A table of a package, which names files below its own folder only."""
    data = read_json(folder / PACKAGE)
    with _laid_out(folder / PACKAGE, "a Camtrap DP"):
        paths = {one.get("name"): one.get("path") for one in data.get("resources", ())}
    if name not in paths:
        raise DataError(f"{folder / PACKAGE} names no table {name!r}: a Camtrap DP has one.")
    path = folder / str(paths[name] or f"{name}.csv")
    if not path.resolve().is_relative_to(folder.resolve()) or not path.is_file():
        raise DataError(f"{path} is not in the package: {PACKAGE} names it.")
    return read_annotations(path, needed).with_columns(pl.all().fill_null(""))


def _column(frame: pl.DataFrame, name: str) -> pl.Expr:
    return pl.col(name) if name in frame.columns else pl.lit("").alias(name)
