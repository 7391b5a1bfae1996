"""What is in FungiCLEF 2023, fungi some of which are in no training image and some poisonous?

    label         the class (its species' name if the table has one), or "unknown"
    is_unknown    true for val photos of classes that train does not have, class_id -1 or not
    unit          the observation: it may have several photos, all of one class
    is_poisonous  from ROOT/poison_status_list.csv if it is there, else from the tables' column
                  `poisonous`, else null; never fetched
    kind          unknown, poisonous or edible; null where nothing says which class is poisonous
    class_id      as written in the file

With `rows="observation"` a row is an observation and `image` the list of its photos.

Photos of train lie in DF20_300, those of val in DF21_300; a name whose case differs on disk is
found too.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from fieldmark.data._annotations import (
    is_given,
    is_whole,
    numbered,
    read_annotations,
    refuse_odd,
    size_findings,
    split_counts,
)
from fieldmark.data._check import counted, image_findings, name_some
from fieldmark.data._dataset import Finding, Info, Source, finish_table, need
from fieldmark.errors import DataError, UsageError

if TYPE_CHECKING:
    from fieldmark.world import World

__all__ = ["INFO", "UNKNOWN", "check", "make", "table"]

UNKNOWN = "unknown"
FOLDERS = {"train": "DF20_300", "val": "DF21_300"}
FILES = {split: f"FungiCLEF2023_{split}_metadata_PRODUCTION.csv" for split in FOLDERS}
POISON_FILE = "poison_status_list.csv"
ROWS = ("photo", "observation")
NEEDED = ("image_path", "class_id", "observationID")
OPTIONAL = ("species", "poisonous")
PUBLISHED = {"train": 295_938}
_ADDRESS = "http://ptak.felk.cvut.cz/plants/DanishFungiDataset"

INFO = Info(
    title="FungiCLEF 2023 (Danish fungi)",
    licence="none stated; for research, as the contest's page says",
    citation="Picek, Šulc, Chamidullin, Matas. Overview of FungiCLEF 2023: Fungi Recognition Beyond"
    " 1/0 Cost. CLEF 2023; Picek et al. Danish Fungi 2020 - Not Just Another Image Recognition "
    "Dataset. WACV 2022",
    homepage="https://www.imageclef.org/FungiCLEF2023",
    layout=f"ROOT/{FILES['train']}\nROOT/{FILES['val']}\nROOT/DF20_300/*.JPG\nROOT/DF21_300/*.JPG\n"
    f"ROOT/{POISON_FILE}  (class_id, poisonous; optional where the tables have `poisonous`)",
    sources=(
        Source(
            steps="The host answers without encryption only, so nothing is fetched for you. "
            f"Download {_ADDRESS}/DF20-300px.tar.gz (6.5 GB), {_ADDRESS}/DF21_300px.tar.gz "
            f"(2.5 GB), {_ADDRESS}/{FILES['train']}, {_ADDRESS}/{FILES['val']} and, for the cost "
            f"metric, {_ADDRESS}/{POISON_FILE} to ROOT, and unpack the two archives there."
        ),
    ),
)


def table(root: Path, rows: str = "photo") -> pl.DataFrame:
    """One row per photo or observation, train first, in the order of the files."""
    if rows not in ROWS:
        raise UsageError(f"rows is {rows!r}: expected {' or '.join(ROWS)}.")
    frame = _photos(root)
    return finish_table(frame if rows == "photo" else _observations(frame), root)


def _photos(root: Path) -> pl.DataFrame:
    parts = {split: _read(root, split) for split in FILES}
    names = _class_names(parts["train"])
    known = parts["train"].get_column("class_id").unique().to_list()
    is_unknown = (pl.col("class_id") == "-1") | ~pl.col("class_id").is_in(known)
    frame = pl.concat(list(parts.values()))
    frame = frame.with_columns(is_unknown=is_unknown)
    frame = frame.with_columns(_poison(root, frame).alias("is_poisonous"))
    return frame.select(
        "id",
        "image",
        "split",
        pl.when("is_unknown")
        .then(pl.lit(UNKNOWN))
        .otherwise(pl.col("class_id").replace(names))
        .alias("label"),
        pl.col("observationID").str.strip_suffix(".0").alias("unit"),
        "is_unknown",
        "is_poisonous",
        _kind(frame).alias("kind"),
        pl.col("class_id").cast(pl.Int64),
    )


def _observations(photos: pl.DataFrame) -> pl.DataFrame:
    """Photos of one observation together; one that contradicts itself is as many as it claims."""
    rest = [name for name in photos.columns if name not in ("id", "image")]
    together = photos.group_by(rest, maintain_order=True).agg("image")
    together = together.with_columns(path=pl.format("{}/{}", "split", "unit"))
    return together.with_columns(numbered("path").alias("id")).drop("path")


def check(root: Path) -> list[Finding]:
    """Unknown classes, observations that contradict themselves or leak, unreadable images."""
    try:
        rows = table(root)
    except DataError as error:
        return [Finding("error", str(error))]
    return [
        *size_findings(split_counts(rows), PUBLISHED),
        *_unknown_findings(rows),
        *_poison_findings(root, rows),
        *_observation_findings(rows),
        *image_findings(root, rows.get_column("image")),
    ]


def make(root: Path, world: World, size: int) -> None:
    """Mushrooms, up to three photos an observation, two species unknown to train."""
    from fieldmark.data._fungiclef_make import write_fungiclef

    write_fungiclef(root, world, size)


# --- reading ---


def _read(root: Path, split: str) -> pl.DataFrame:
    path = need(root / FILES[split], f"the {split} photos of FungiCLEF", "fungiclef")
    frame = read_annotations(path, NEEDED)
    frame = frame.with_columns(pl.col("class_id").str.strip_suffix(".0"))
    refuse_odd(
        path,
        frame,
        {
            "image_path": (is_given("image_path"), "a file name"),
            "class_id": (is_whole("class_id"), "a whole number, -1 for unknown"),
            "observationID": (is_given("observationID"), "an observation"),
        },
    )
    optional = [
        pl.col(name) if name in frame.columns else pl.lit(None, pl.String).alias(name)
        for name in OPTIONAL
    ]
    folder = FOLDERS[split]
    files = _file_names(root / folder, frame.get_column("image_path"))
    return frame.select(
        pl.format(f"{folder}/{{}}", "image_path").alias("id"),
        pl.format(f"{folder}/{{}}", files).alias("image"),
        pl.lit(split).alias("split"),
        "class_id",
        "observationID",
        *optional,
    )


def _file_names(folder: Path, names: pl.Series) -> pl.Series:
    """As the files are called on disk: exactly so, or but for upper and lower case."""
    there = {each.name for each in folder.iterdir()} if folder.is_dir() else set()
    if all(each in there for each in names):
        return names
    by_fold = {each.lower(): each for each in sorted(there, reverse=True)}
    found = [each if each in there else by_fold.get(each.lower(), each) for each in names]
    return pl.Series(names.name, found, dtype=pl.String)


def _class_names(train: pl.DataFrame) -> dict[str, str]:
    """class_id → species, where the table names exactly one and no other class has it."""
    pairs = train.drop_nulls("species").select("class_id", "species").unique().sort("class_id")
    fit = pairs.filter(
        ~pl.col("class_id").is_duplicated()
        & ~pl.col("species").is_duplicated()
        & (pl.col("species") != UNKNOWN)
    )
    return dict(fit.rows())


def _poison(root: Path, photos: pl.DataFrame) -> pl.Expr:
    """By class: what the list says, or the tables of photos where there is no list."""
    path = root / POISON_FILE
    if path.is_file():
        frame = read_annotations(path, ("class_id", "poisonous"))
        rule = pl.col("poisonous").is_in(["0", "1"])
        refuse_odd(path, frame, {"poisonous": (rule, "0 or 1")})
    else:
        frame = photos.drop_nulls("poisonous").filter(pl.col("class_id") != "-1")
    told = frame.select("class_id", pl.col("poisonous").str.strip_suffix(".0") == "1")
    listed = dict(told.sort("poisonous").iter_rows())
    return pl.col("class_id").replace_strict(listed, default=None, return_dtype=pl.Boolean)


def _kind(frame: pl.DataFrame) -> pl.Expr:
    """As the contest counts: a class that is not listed is not poisonous."""
    is_told = frame.get_column("is_poisonous").is_not_null().any()
    known = pl.when("is_poisonous").then(pl.lit("poisonous")).otherwise(pl.lit("edible"))
    known = known if is_told else pl.lit(None, pl.String)
    return pl.when("is_unknown").then(pl.lit(UNKNOWN)).otherwise(known)


# --- checking ---


def _unknown_findings(rows: pl.DataFrame) -> list[Finding]:
    findings = []
    n_train = rows.filter((pl.col("split") == "train") & pl.col("is_unknown")).height
    if n_train:
        text = f"{counted(n_train, 'photo')} of train with class_id -1: nothing can be learnt."
        findings.append(Finding("warning", text))
    known = rows.filter((pl.col("split") == "train") & ~pl.col("is_unknown"))
    if known.get_column("label").n_unique() < 2:
        findings.append(Finding("error", "at least two classes are needed in train."))
    val = rows.filter(pl.col("split") == "val")
    n = val.get_column("is_unknown").sum()
    if n:
        n_photos = f"{n:,} of {counted(len(val), 'photo')}"
        findings.append(Finding("note", f"{n_photos} of val are of classes that train lacks."))
    elif len(val):
        findings.append(Finding("warning", "val has no unknown class: rejection is not tested."))
    return findings


def _poison_findings(root: Path, rows: pl.DataFrame) -> list[Finding]:
    path = root / POISON_FILE
    known = rows.filter(~pl.col("is_unknown"))
    if known.get_column("kind").null_count():
        text = f"{path}  is not there: the cost of poisonous species cannot be counted."
        return [Finding("note", text)]
    missing = known.filter(pl.col("is_poisonous").is_null()).get_column("class_id").unique().sort()
    if not len(missing):
        return []
    names = name_some([str(each) for each in missing])
    n = counted(len(missing), "class", "classes")
    where = POISON_FILE if path.is_file() else "the column `poisonous`"
    return [Finding("warning", f"{n} that {where} does not list: {names}.")]


def _observation_findings(rows: pl.DataFrame) -> list[Finding]:
    by_unit = rows.group_by("unit").agg(
        n_classes=pl.col("class_id").n_unique(), n_splits=pl.col("split").n_unique()
    )
    told = {
        "with photos of several classes": by_unit.filter(pl.col("n_classes") > 1),
        "in train and in val": by_unit.filter(pl.col("n_splits") > 1),
    }
    return [
        Finding(
            "warning",
            f"{counted(len(odd), 'observation')} {what}: {name_some(sorted(odd['unit']))}.",
        )
        for what, odd in told.items()
        if len(odd)
    ]
