"""Your own photos in a table (CSV, TSV, Parquet) that names images and their labels.

`root` is the table itself (.csv, .tsv, .parquet) or a folder that holds exactly one. Image paths
start at the table's folder, or at `images/` in it. Which columns are meant is guessed from common
names and can be said: `table(root, image="photo", label="species")`. Parquet files may hold the
images themselves.

Labels and ids stay exactly as written ("007" is not 7). All other columns are kept under their
names; one that has a name of the contract but another meaning becomes `file_NAME`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING

import polars as pl

from fieldmark.data._check import name_some
from fieldmark.data._dataset import COLUMNS, Info, Source, finish_table, split_name
from fieldmark.data._make import pick, plan_photos, take_photo, write_rows
from fieldmark.data.read.folders import is_image
from fieldmark.data.read.table import (
    find_table,
    image_columns,
    numbered,
    read_columns,
    read_table,
    refuse_twins,
)
from fieldmark.errors import DataError, UsageError, at, closest, join_problems

if TYPE_CHECKING:
    from fieldmark.world import World

INFO = Info(
    title="Your own photos, listed in a table",
    licence="yours",
    citation="none: these are your own photos",
    layout="ROOT/*.csv  (or .tsv, .parquet) with an image and a label column\nROOT/…  the images",
    sources=(Source(steps="Write a table with one row per photo: its path and its label."),),
)

# fmt: off
KNOWN_NAMES = {
    "image": (
        "image", "image_path", "img_path", "img", "path", "filepath", "file_path", "file_name",
        "filename", "file", "image_file", "image_name", "photo", "relative_path", "associatedmedia",
        "image_url",
    ),
    "label": (
        "label", "class", "class_name", "category", "category_name", "target", "scientific_name",
        "scientificname", "sci_name", "sciname", "species", "taxon", "taxon_name", "identity",
        "individual", "individual_id", "common_name",
    ),
    "unit": (
        "unit", "camera", "camera_id", "location_id", "location", "site", "deployment_id",
        "individual", "individual_id", "identity", "encounter", "encounter_id", "observation_id",
        "observationid", "sequence_id", "seq_id", "sequence", "burst", "event_id", "locationid",
        "deploymentid", "organismid", "individualid", "locality", "placename", "eventid",
        "occurrenceid", "gbifid",
    ),
    "split": ("split", "subset", "partition"),
    "id": ("id", "uuid", "image_id"),
}
# fmt: on
IMAGE_FOLDERS = ("", "images/", "image/", "imgs/", "img/", "photos/")
_ADDRESS = "^[A-Za-z]+://"
LEAST_UNITS = 5
"""A unit column with fewer different values is not guessed: no interval could rest on it. Nor is
one in which every row has its own: it says nothing."""


def table(
    root: Path,
    image: str | None = None,
    label: str | None = None,
    unit: str | None = None,
    split: str | None = None,
    id: str | None = None,
) -> pl.DataFrame:
    """One row per row of the table, in its order; columns that are not named are guessed."""
    path = find_table(root)
    names = read_columns(path)
    given = {"image": image, "label": label, "unit": unit, "split": split, "id": id}
    stored = image_columns(path)
    problems: list[str] = []
    for role, name in given.items():
        if not isinstance(name, (str, NoneType)):
            raise UsageError(f"option {role} = {name!r}: expected the name of a column.")
        allowed = [column for column in names if role == "image" or column not in stored]
        if name is not None and name not in allowed:
            problems.append(_no_such_column(path, role, name, allowed))
    if problems:
        raise DataError(join_problems(problems))
    guessable = {column for aliases in KNOWN_NAMES.values() for column in aliases}
    text_columns = [
        column for column in names if column in given.values() or _fold(column) in guessable
    ]
    frame = read_table(path, as_text=text_columns).with_columns(_clean(pl.col(pl.String)))
    label = label or _needed(path, "label", frame.columns)
    image = image or next(iter(stored), None) or _needed(path, "image", frame.columns)
    frame = _one_photo_a_row(frame, image)
    chosen = {
        "image": image,
        "label": label,
        "split": split or _first(frame.columns, "split"),
        "unit": unit or _guess_unit(frame, label),
        "id": id or _guess_id(frame),
    }
    if id is not None:
        refuse_twins(path, frame.get_column(id))
    return finish_table(_arranged(frame, path, chosen, is_stored=image in stored), path)


def make(root: Path, world: World, size: int) -> None:
    """A table of species, `labels.csv`, and its `images/`, photos of a few fixed cameras."""
    rows: list[tuple[str, ...]] = []
    for photo in plan_photos(world, size, "csv", ("train", "train", "test") * 2):
        camera = pick(8, world.seed, "portrait", photo.scene.burst)
        name = f"{photo.scene.species:03}-{photo.turn:04}.jpg"
        take_photo(world, replace(photo.scene, camera=camera), root / "images" / name)
        rows.append((name, photo.species.scientific_name, f"camera {camera}", photo.split))
    write_rows(root / "labels.csv", ("image", "species", "camera", "split"), rows)


# --- which column is meant ---


def _fold(name: str) -> str:
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def _first(names: Sequence[str], role: str) -> str | None:
    """The first known name for the role that the table has."""
    by_fold = {_fold(name): name for name in reversed(names)}
    names_here = [name for name in KNOWN_NAMES[role] if name in by_fold]
    if role == "label" and {"phylum", "order"} <= by_fold.keys() and "cls" not in by_fold:
        names_here = [name for name in names_here if name != "class"]  # there it is the rank
    return by_fold[names_here[0]] if names_here else None


def _needed(path: Path, role: str, names: Sequence[str]) -> str:
    name = _first(names, role)
    if name is None:
        short = [known for known in KNOWN_NAMES[role] if "_" not in known and len(known) <= 8]
        expected = ", ".join(short[:7])
        raise DataError(
            f"{path}  has no {role} column: found {name_some(names, 8) or 'no columns'}, expected "
            f"one like {expected}. Say which it is: `fieldmark try --{role} NAME`, or "
            f"`options: {{{role}: NAME}}` in a task file."
        )
    return name


def _no_such_column(path: Path, role: str, name: str, names: Sequence[str]) -> str:
    near = closest(name, names, most=1)
    hint = f"did you mean {near[0]!r}?" if near else f"found {name_some(names, 8)}."
    return f"{path}  has no column {name!r} for {role}: {hint}"


def _guess_unit(frame: pl.DataFrame, label: str) -> str | None:
    by_fold = {_fold(name): name for name in reversed(frame.columns)}
    for alias in KNOWN_NAMES["unit"]:
        name = by_fold.get(alias)
        if name and name != label:
            n_units = frame.get_column(name).n_unique()
            if LEAST_UNITS <= n_units < len(frame):
                return name
    return None


def _guess_id(frame: pl.DataFrame) -> str | None:
    by_fold = {_fold(name): name for name in reversed(frame.columns)}
    for alias in KNOWN_NAMES["id"]:
        column = frame.get_column(by_fold[alias]) if alias in by_fold else None
        if column is not None and column.null_count() == 0 and column.is_unique().all():
            return column.name
    return None


# --- values ---


def _one_photo_a_row(frame: pl.DataFrame, image: str) -> pl.DataFrame:
    """Darwin Core lists the media of an occurrence in one cell, pages among them; Timelapse keeps
    folder and file apart.
    """
    by_fold = {_fold(name): name for name in frame.columns}
    if _fold(image) == "associatedmedia":
        photos = pl.col(image).str.split("|").list.eval(pl.element().str.strip_chars())
        frame = frame.with_columns(photos).explode(image)
        return frame.filter(pl.col(image).map_elements(is_image, return_dtype=pl.Boolean))
    if _fold(image) == "file" and "relativepath" in by_fold:
        folder = pl.col(by_fold["relativepath"]).str.replace_all("\\", "/", literal=True)
        whole = pl.concat_str(folder, image, separator="/", ignore_nulls=True)
        return frame.with_columns(whole.alias(image))
    return frame


def _clean(text: pl.Expr) -> pl.Expr:
    stripped = text.str.strip_chars()
    return pl.when(stripped != "").then(stripped).name.keep()


def _column(frame: pl.DataFrame, name: str | None) -> pl.Series:
    return frame.get_column(name) if name else pl.Series([None] * len(frame), dtype=pl.String)


def _splits(frame: pl.DataFrame, name: str | None) -> pl.Series:
    column = _column(frame, name).cast(pl.String)
    split_of = {word: split_name(word) for word in column.unique().drop_nulls()}
    return column.replace(split_of)


def _stored_images(frame: pl.DataFrame, path: Path, column: str) -> pl.Series:
    tail = "" if column == "image" else f"::{column}"
    return pl.Series([f"{path.name}::{row}{tail}" for row in range(len(frame))], dtype=pl.String)


def _paths(frame: pl.DataFrame, path: Path, column: str) -> pl.Series:
    """Image paths relative to the table's folder, with forward slashes."""
    values = frame.get_column(column).cast(pl.String)
    if values.null_count():
        line = values.is_null().arg_max()
        raise DataError(
            at(path, (line or 0) + 2, f"no image in column {column!r}: every row needs one.")
        )
    if values.str.contains("\\", literal=True).any() and not values.str.contains("/").any():
        values = values.str.replace_all("\\", "/", literal=True)
    base = path.resolve().parent.as_posix().rstrip("/") + "/"
    values = values.str.strip_prefix(base).str.strip_prefix("./")
    if len(values) and values.str.contains(_ADDRESS).all():
        return _downloaded(frame, path, column)
    is_outside = values.str.contains(rf"^(/|[A-Za-z]:/|{_ADDRESS})")
    if is_outside.any():
        row = is_outside.arg_max() or 0
        text = f"image {values[row]!r} is not below the table's folder. Put the images there, and "
        raise DataError(at(path, row + 2, f"{text}give their paths as seen from the table."))
    return _image_folder(path.parent, values) + values


def _downloaded(frame: pl.DataFrame, path: Path, column: str) -> pl.Series:
    """Photos that a table names by their web addresses, where `fieldmark data get` puts them."""
    from fieldmark.data.get.urls import ID_COLUMNS

    values, folder = frame.get_column(column), path.parent / "photos"
    key = next((name for name in ID_COLUMNS if name in frame.columns), "")
    names = values.str.replace(r"[?#].*", "").str.replace(r".*/", "")
    if key:
        names = frame.get_column(key).cast(pl.String) + ".jpg"
    if not any((folder / name).is_file() for name in names):
        get = f"fieldmark data get --urls {path} --url-column {column} --out {folder}"
        raise DataError(
            f"{path}  column {column!r} holds web addresses. Download the photos first: `{get}`."
        )
    return "photos/" + names


def _image_folder(base: Path, values: pl.Series) -> str:
    """The folder in which the first images are found; none if they are nowhere."""
    for folder in IMAGE_FOLDERS:
        if any((base / f"{folder}{name}").is_file() for name in values.head(5)):
            return folder
    return ""


def _arranged(
    frame: pl.DataFrame, path: Path, chosen: dict[str, str | None], is_stored: bool
) -> pl.DataFrame:
    """The table's own columns and the contract's beside them; a clash of names keeps both."""
    image = chosen["image"] or ""
    images = _stored_images(frame, path, image) if is_stored else _paths(frame, path, image)
    roles = {
        "image": images,
        "label": _column(frame, chosen["label"]),
        "split": _splits(frame, chosen["split"]),
        "unit": _column(frame, chosen["unit"]),
        "id": _column(frame, chosen["id"])
        if chosen["id"]
        else pl.DataFrame({"image": images}).select(numbered("image")).to_series(),
    }
    clashes = {
        name: _free_name(name, frame.columns)
        for name in frame.columns
        if name in COLUMNS and chosen.get(name) != name
    }
    renamed = frame.rename(clashes)
    return renamed.with_columns(column.alias(name) for name, column in roles.items())


def _free_name(name: str, taken: Sequence[str]) -> str:
    name = f"file_{name}"
    return _free_name(name, taken) if name in taken else name
