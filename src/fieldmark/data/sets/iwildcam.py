"""iWildCam (WILDS, version 2.0): camera-trap photos from places never seen in training.

    split     train; val and test (cameras that train does not have); id_val and id_test (its own)
    label     the species' name if categories.csv or categories.json is there, else the number `y`
    unit      camera and sequence: the shots of one passing animal are one event
    camera    the place
    datetime  when the photo was taken

All photos lie in one folder, `train`, whatever their split.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from fieldmark.data._check import (
    as_findings,
    count_findings,
    counted,
    image_findings,
    name_some,
    published_findings,
    torn_findings,
    training_findings,
)
from fieldmark.data._dataset import (
    Finding,
    Info,
    Source,
    find_home,
    finish_table,
    need,
    unique_names,
)
from fieldmark.data._make import photo_key, pick, species_pool, take_photo, write_rows
from fieldmark.data.read.table import is_given, is_whole, read_annotations, read_json, refuse_odd
from fieldmark.errors import DataError
from fieldmark.world import Scene

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
    folder = (home / IMAGE_FOLDER).relative_to(root).as_posix()
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


@as_findings
def check(root: Path) -> Iterator[Finding]:
    """Cameras and events that lie in two splits, classes nobody can learn, unreadable images."""
    rows = table(root)
    yield from published_findings(rows, PUBLISHED)
    unnamed = rows.filter(pl.col("label") == pl.col("y").cast(pl.String)).get_column("label")
    text = f"without a name in {_home(root)}/categories.csv: numbers are shown instead"
    yield from count_findings("note", unnamed.n_unique(), text, "class", "classes")
    by_split = {
        split: set(rows.filter(pl.col("split") == split).get_column("camera")) for split in SPLITS
    }
    for split in ("val", "test"):
        shared = sorted(by_split[split] & by_split["train"])
        if shared:
            text = f"{counted(len(shared), 'camera')} of {split} also in train: {name_some(shared)}"
            yield Finding("warning", f"{text}; it should have cameras of its own.")
    yield from torn_findings(rows, "sequence")
    yield from training_findings(rows, ("class", "classes"), "image", level="note")
    n_undated = rows.get_column("datetime").null_count()
    yield from count_findings("note", n_undated, "without a date that can be read", "photo")
    yield from image_findings(root, rows.get_column("image"))


# --- reading ---


def _home(root: Path) -> Path:
    home = find_home(root, HOMES, METADATA)
    need(home / METADATA, "the metadata of iWildCam", "iwildcam")
    return home


def _read(path: Path) -> pl.DataFrame:
    frame = read_annotations(path, NEEDED)
    refuse_odd(
        path,
        frame,
        {
            "filename": (is_given, "a file name"),
            "split": (pl.col("split").is_in(SPLITS), f"one of {', '.join(SPLITS)}"),
            "y": (is_whole, "a whole number"),
            "location_remapped": (is_given, "a camera"),
            "sequence_remapped": (is_given, "a sequence"),
        },
    )
    return frame


def _label(home: Path, frame: pl.DataFrame) -> pl.Series:
    """Names by `y`, else by `category_id`; two classes of one name keep their number."""
    for key, names in _names(home).items():
        if key in frame.columns and names:
            labels = unique_names(names)
            label = frame.get_column(key).replace_strict(
                labels, default=None, return_dtype=pl.String
            )
            return label.fill_null(frame.get_column("y")).alias("label")
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
    content = read_json(path)
    if isinstance(content, dict) and isinstance(content.get("categories"), list):
        content = content["categories"]
    if isinstance(content, dict) and all(isinstance(name, str) for name in content.values()):
        return {"y": {str(key): name for key, name in content.items()}}
    is_list = isinstance(content, list) and all(isinstance(entry, dict) for entry in content)
    if not is_list or not all("id" in entry and "name" in entry for entry in content):
        raise DataError(
            f"{path}  cannot be used: expected a list of categories with id and name, or a mapping "
            "from y to name."
        )
    return {"category_id": {str(entry["id"]): str(entry["name"]) for entry in content}}


# --- making ---

HEADER = (
    "split", "image_id", "filename", "datetime", "location", "location_remapped", "seq_id",
    "sequence_remapped", "seq_num_frames", "category_id", "y",
)  # fmt: skip
# Of nine sequences: where each goes, and the cameras of that split.
_TURNS = ("train", "test", "train", "id_test", "train", "val", "train", "id_val", "test")
_CAMERAS = {
    "train": range(6), "id_val": range(6), "id_test": range(6), "val": range(6, 8),
    "test": range(8, 11),
}  # fmt: skip
_FIRST_DAY = datetime(2013, 3, 1, 5, 0, 0)
_EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class _ShotSequence:
    number: int
    split: str
    camera: int
    y: int
    """0 = no animal, else one more than the place in the pool"""
    n_shots: int


def make(root: Path, world: World, size: int) -> None:
    """Fixed cameras by day and night; about `size` photos, at least 48.

    Two thirds of the cameras are train's; val and test have cameras of their own. A sequence is one
    to three shots of one animal; a seventh of the sequences shows none.
    """
    pool = species_pool(world, "iwildcam", 5, "mammal", "bird")[:8]
    home = root / HOMES[0]
    rows: list[list[object]] = []
    number = 0
    while len(rows) < max(48, size):
        sequence = _plan(world, number, len(pool))
        rows += _write(home, world, sequence, pool)
        number += 1
    write_rows(home / METADATA, HEADER, rows)
    names = [_EMPTY, *[world.species[index].scientific_name.lower() for index in pool]]
    listed = [[y, 10 * y, name] for y, name in enumerate(names)]
    write_rows(home / "categories.csv", ("y", "category_id", "name"), listed)
    (home / RELEASE).write_text("made by fieldmark in the layout of iwildcam_v2.0\n")


def _plan(world: World, number: int, n_species: int) -> _ShotSequence:
    turn, turn_of_round = divmod(number, len(_TURNS))
    split = _TURNS[turn_of_round]
    cameras = _CAMERAS[split]
    is_first_round = number < len(_TURNS) * (n_species + 1)
    # In the first rounds every split meets every class in turn, so that small copies have them all.
    y = (
        (turn + turn_of_round)
        if is_first_round
        else pick(7 * n_species, world.seed, "iwildcam", number)
    )
    return _ShotSequence(
        number=number,
        split=split,
        camera=cameras[pick(len(cameras), world.seed, "iwildcam", "camera", number)],
        y=y % (n_species + 1),
        n_shots=1 + pick(3, world.seed, "iwildcam", "shots", number),
    )


def _write(
    home: Path, world: World, sequence: _ShotSequence, pool: list[int]
) -> list[list[object]]:
    number = sequence.number
    hours = 11 * number + pick(9, world.seed, "iwildcam", "hour", number)
    start = _FIRST_DAY + timedelta(hours=hours, minutes=number % 60)
    is_night = not 6 <= start.hour < 19
    rows: list[list[object]] = []
    for shot in range(sequence.n_shots):
        scene = Scene(
            species=pool[max(0, sequence.y - 1)],
            individual=pick(40, world.seed, "iwildcam", "individual", number),
            n_animals=1 if sequence.y else 0,
            burst=number,
            shot=shot,
            camera=sequence.camera,
            condition="night" if is_night else "day",
        )
        image = str(photo_key(world, "iwildcam", number, shot))
        take_photo(world, scene, home / IMAGE_FOLDER / f"{image}.jpg")
        when = (start + timedelta(seconds=shot)).strftime("%Y-%m-%d %H:%M:%S.000")
        rows.append(
            [sequence.split, image, f"{image}.jpg", when, 100 + sequence.camera, sequence.camera,
             f"seq-{number}", number, sequence.n_shots, 10 * sequence.y, sequence.y]
        )  # fmt: skip
    return rows
