"""What is in iWildCam (WILDS, version 2.0), camera-trap photos from places never seen in training?

    split     train; val and test (cameras that train does not have); id_val and id_test (its own)
    label     the species' name if categories.csv or categories.json is there, else the number `y`
    unit      camera and sequence: the shots of one passing animal are one event
    camera    the place
    datetime  when the photo was taken

All photos lie in one folder, `train`, whatever their split.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from fieldmark.data._annotations import (
    is_given,
    is_whole,
    read_annotations,
    refuse_odd,
    size_findings,
    split_counts,
)
from fieldmark.data._check import counted, image_findings, name_some
from fieldmark.data._dataset import Finding, Info, Source, finish_table, need
from fieldmark.errors import DataError

if TYPE_CHECKING:
    from fieldmark.world import World

__all__ = ["INFO", "check", "make", "table"]

HOMES = ("iwildcam_v2.0", ".")
METADATA = "metadata.csv"
RELEASE = "RELEASE_v2.0.txt"
IMAGE_FOLDER = "train"
SPLITS = ("train", "val", "test", "id_val", "id_test")
NEEDED = ("split", "filename", "y", "location_remapped", "sequence_remapped", "datetime")
PUBLISHED = {
    "train": 129_809, "val": 14_961, "test": 42_791, "id_val": 7_314, "id_test": 8_154,
}  # fmt: skip

INFO = Info(
    title="iWildCam 2020 (WILDS v2.0)",
    licence="CDLA-Permissive-1.0",
    citation="Beery, Cole, Gjoka. The iWildCam 2020 Competition Dataset. 2020. arXiv:2004.10340; "
    "Koh et al. WILDS: A Benchmark of in-the-Wild Distribution Shifts. ICML 2021",
    homepage="https://wilds.stanford.edu/datasets/#iwildcam",
    layout=f"ROOT/iwildcam_v2.0/{METADATA}\nROOT/iwildcam_v2.0/{RELEASE}\n"
    f"ROOT/iwildcam_v2.0/{IMAGE_FOLDER}/*.jpg\n"
    "ROOT/iwildcam_v2.0/categories.csv  (optional: y and name)",
    sources=(
        Source(
            steps="The old host (CodaLab, bundle 0x6313da2b204647e79a14b468131fcd64, 11,957,420,032"
            " bytes) has been down for months. Where it answers again, or somebody gives you the "
            "archive iwildcam_v2.0.tar.gz: `tar -xzf iwildcam_v2.0.tar.gz -C ROOT/iwildcam_v2.0`. "
            "The photos alone are also those of the contest (https://www.kaggle.com/c/"
            "iwildcam-2020-fgvc7, with a login); metadata.csv with its splits is only in the "
            "archive."
        ),
    ),
)


def table(root: Path) -> pl.DataFrame:
    """One row per photo, in the order of the file."""
    home = _home(root)
    path = home / METADATA
    frame = _read(path)
    prefix = home.relative_to(root).as_posix()
    folder = IMAGE_FOLDER if prefix == "." else f"{prefix}/{IMAGE_FOLDER}"
    frame = frame.with_columns(_label(home, frame))
    frame = frame.select(
        pl.col("filename").alias("id"),
        pl.format(f"{folder}/{{}}", "filename").alias("image"),
        "split",
        "label",
        pl.format("{}/{}", "location_remapped", "sequence_remapped").alias("unit"),
        pl.col("y").cast(pl.Int64),
        pl.col("location_remapped").alias("camera"),
        pl.col("sequence_remapped").alias("sequence"),
        pl.col("datetime").str.to_datetime("%Y-%m-%d %H:%M:%S%.f", strict=False),
    )
    return finish_table(frame, path)


def check(root: Path) -> list[Finding]:
    """Cameras and events that lie in two splits, classes nobody can learn, unreadable images."""
    try:
        rows = table(root)
    except DataError as error:
        return [Finding("error", str(error))]
    return [
        *size_findings(split_counts(rows), PUBLISHED),
        *_name_findings(root, rows),
        *_leak_findings(rows),
        *_class_findings(rows),
        *_date_findings(rows),
        *image_findings(root, rows.get_column("image")),
    ]


def make(root: Path, world: World, size: int) -> None:
    """Fixed cameras by day and night, some of them for the test only, some photos empty."""
    from fieldmark.data._iwildcam_make import write_iwildcam

    write_iwildcam(root, world, size)


# --- reading ---


def _home(root: Path) -> Path:
    for each in HOMES:
        if (root / each / METADATA).is_file():
            return root / each
    need(root / HOMES[0] / METADATA, "the metadata of iWildCam", "iwildcam")
    return root


def _read(path: Path) -> pl.DataFrame:
    frame = read_annotations(path, NEEDED)
    refuse_odd(
        path,
        frame,
        {
            "filename": (is_given("filename"), "a file name"),
            "split": (pl.col("split").is_in(SPLITS), f"one of {', '.join(SPLITS)}"),
            "y": (is_whole("y"), "a whole number"),
            "location_remapped": (is_given("location_remapped"), "a camera"),
            "sequence_remapped": (is_given("sequence_remapped"), "a sequence"),
        },
    )
    return frame


def _label(home: Path, frame: pl.DataFrame) -> pl.Series:
    """Names by `y`, else by `category_id`; two classes of one name keep their number."""
    for key, names in _names(home).items():
        if key in frame.columns and names:
            twins = {each for each in names.values() if list(names.values()).count(each) > 1}
            told = {k: f"{v} ({k})" if v in twins else v for k, v in names.items()}
            found = frame.get_column(key).replace_strict(told, default=None, return_dtype=pl.String)
            return found.fill_null(frame.get_column("y")).alias("label")
    return frame.get_column("y").alias("label")


def _names(home: Path) -> dict[str, dict[str, str]]:
    """Column of metadata.csv → its values → names."""
    path = home / "categories.csv"
    if path.is_file():
        frame = read_annotations(path, ("name",))
        keys = {"y": "y", "category_id": "category_id", "id": "category_id"}
        return {
            to: dict(frame.drop_nulls([key, "name"]).select(key, "name").rows())
            for key, to in keys.items()
            if key in frame.columns
        }
    path = home / "categories.json"
    return _json_names(path) if path.is_file() else {}


def _json_names(path: Path) -> dict[str, dict[str, str]]:
    """A COCO file or its list of categories (by category_id), or a mapping from `y`."""
    expected = "expected a list of categories with id and name, or a mapping from y to name"
    try:
        content: Any = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise DataError(f"{path}  cannot be read as JSON: {error}.") from error
    if isinstance(content, dict) and isinstance(content.get("categories"), list):
        content = content["categories"]
    if isinstance(content, dict) and all(isinstance(each, str) for each in content.values()):
        return {"y": {str(key): each for key, each in content.items()}}
    is_list = isinstance(content, list) and all(isinstance(each, dict) for each in content)
    if not is_list or not all("id" in each and "name" in each for each in content):
        raise DataError(f"{path}  cannot be used: {expected}.")
    return {"category_id": {str(each["id"]): str(each["name"]) for each in content}}


# --- checking ---


def _name_findings(root: Path, rows: pl.DataFrame) -> list[Finding]:
    unnamed = rows.filter(pl.col("label") == pl.col("y").cast(pl.String)).get_column("label")
    if not len(unnamed):
        return []
    n = counted(unnamed.n_unique(), "class", "classes")
    return [Finding("note", f"{n} without a name in {_home(root)}/categories.csv: numbers stand.")]


def _leak_findings(rows: pl.DataFrame) -> list[Finding]:
    findings = []
    home = set(rows.filter(pl.col("split") == "train").get_column("camera"))
    for split in ("val", "test"):
        there = set(rows.filter(pl.col("split") == split).get_column("camera"))
        shared = sorted(there & home)
        if shared:
            text = f"{counted(len(shared), 'camera')} of {split} also in train: {name_some(shared)}"
            findings.append(Finding("warning", f"{text}; it should have cameras of its own."))
    torn = rows.group_by("unit").agg(n=pl.col("split").n_unique()).filter(pl.col("n") > 1)
    if len(torn):
        names = sorted(torn.get_column("unit"))
        text = f"{counted(len(names), 'sequence')} in more than one split: {name_some(names)}."
        findings.append(Finding("warning", text))
    return findings


def _class_findings(rows: pl.DataFrame) -> list[Finding]:
    known = set(rows.filter(pl.col("split") == "train").get_column("label"))
    if len(known) < 2:
        n = counted(len(known), "class", "classes")
        return [Finding("error", f"at least two classes are needed in train, found {n}.")]
    unseen = sorted(set(rows.get_column("label")) - known)
    if not unseen:
        return []
    n = counted(len(unseen), "class", "classes")
    return [Finding("note", f"{n} without a training image: {name_some(unseen)}.")]


def _date_findings(rows: pl.DataFrame) -> list[Finding]:
    n = rows.get_column("datetime").null_count()
    if not n:
        return []
    return [Finding("note", f"{counted(n, 'photo')} without a date that can be read.")]
