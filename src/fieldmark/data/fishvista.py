"""What is in Fish-Vista, museum photos of fish with traits one can see?

    adipose_fin, pelvic_fin, barbel, multiple_dorsal_fin   true, false, or null where nobody knows
    split                 train, val, test_insp (species that train has), test_lvsp (species left
                          out of train)
    label, unit           the species: its traits were looked up once for all its photos
    classification_split  train, val or test of the species task, if its tables are there; photos
                          of that task only have no split
    specimen              one museum photo may hold several fish, each cut out of it

Blanks stay null: a missing trait is no absent trait. The same holds for -1, the file's "unknown".
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from fieldmark.data._annotations import (
    as_boolean,
    is_given,
    is_yes_or_no,
    read_annotations,
    refuse_odd,
)
from fieldmark.data._check import counted, image_findings, name_some
from fieldmark.data._dataset import Finding, Info, Source, finish_table, need
from fieldmark.data.folder import list_files
from fieldmark.errors import DataError

if TYPE_CHECKING:
    from fieldmark.world import World

__all__ = ["INFO", "TRAITS", "check", "make", "table"]

TRAITS = ("adipose_fin", "pelvic_fin", "barbel", "multiple_dorsal_fin")
SPLITS = ("train", "val", "test_insp", "test_lvsp")
CLASSIFICATION_SPLITS = ("train", "val", "test")
IMAGE_FOLDER = "Images"
FILE_COLUMNS = (
    "filename", "source_filename", "original_format", "arkid", "family", "source", "owner",
    "standardized_species", "original_url", "file_name", "license", *TRAITS,
)  # fmt: skip
_OPTIONAL = ("arkid", "family", "standardized_species")
_ADDRESS = "https://huggingface.co/datasets/imageomics/fish-vista/resolve/main"
_TABLES = (
    *[f"identification_{split}.csv" for split in SPLITS],
    *[f"classification_{split}.csv" for split in CLASSIFICATION_SPLITS],
)

INFO = Info(
    title="Fish-Vista: visual traits",
    licence="each photo has its own (column `license` of the tables)",
    citation="Mehrab et al. Fish-Vista: A Multi-Purpose Dataset for Understanding & Identification "
    "of Traits from Images. CVPR 2025. arXiv:2407.08027",
    homepage="https://huggingface.co/datasets/imageomics/fish-vista",
    layout="ROOT/identification_{train,val,test_insp,test_lvsp}.csv\n"
    "ROOT/classification_{train,val,test}.csv  (optional)\n"
    f"ROOT/{IMAGE_FOLDER}/*.jpg  (or {IMAGE_FOLDER}/chunk_*/*.jpg, as published)",
    sources=(
        *[Source(url=f"{_ADDRESS}/{name}", filename=name) for name in _TABLES],
        Source(
            steps="Install git-lfs, run `git clone https://huggingface.co/datasets/imageomics/"
            f"fish-vista` and move its folder {IMAGE_FOLDER} to ROOT. Photos under a no-derivatives"
            " licence are not in it: in the clone, `pip install -r requirements.txt && python "
            f"download_and_process_nd_images.py --save_dir {IMAGE_FOLDER}` fetches them."
        ),
    ),
)


def table(root: Path) -> pl.DataFrame:
    """One row per photo, the tables in the order of the splits."""
    frame = pl.concat([_read(root, f"identification_{split}.csv", split) for split in SPLITS])
    frame = _with_classification(root, frame)
    places = _places(root)
    frame = frame.with_columns(
        id="filename",
        image=pl.col("filename").replace_strict(
            places, default=pl.format(f"{IMAGE_FOLDER}/{{}}", "filename"), return_dtype=pl.String
        ),
        label="standardized_species",
        unit="standardized_species",
        species="standardized_species",
        specimen="arkid",
    )
    columns = ["id", "image", "split", "label", "unit", "species", "family", "specimen"]
    return finish_table(frame.select(*columns, *TRAITS, "classification_split"), root)


def check(root: Path) -> list[Finding]:
    """Traits nobody knows, species that are in train though they should not be, unread images."""
    try:
        rows = table(root)
    except DataError as error:
        return [Finding("error", str(error))]
    asked = rows.drop_nulls("split")
    return [
        *_open_findings(asked),
        *_constant_findings(asked),
        *_species_findings(asked),
        *image_findings(root, rows.get_column("image")),
    ]


def make(root: Path, world: World, size: int) -> None:
    """Fish with and without the four traits, some of their species left out of train."""
    from fieldmark.data._fish_make import write_fishvista

    write_fishvista(root, world, size)


# --- reading ---


def _read(root: Path, name: str, split: str) -> pl.DataFrame:
    path = need(root / name, f"the {split} rows of Fish-Vista", "fishvista")
    frame = read_annotations(path, ("filename", *TRAITS))
    for each in _OPTIONAL:
        if each not in frame.columns:
            frame = frame.with_columns(pl.lit(None, pl.String).alias(each))
    frame = frame.select("filename", *_OPTIONAL, *TRAITS)
    is_unknown = pl.col(*TRAITS).str.to_lowercase().is_in(["-1", "-1.0", "na", "nan"])
    frame = frame.with_columns(pl.when(~is_unknown).then(pl.col(*TRAITS)).name.keep())
    rules = {each: (is_yes_or_no(each), "0, 1, or nothing where it is unknown") for each in TRAITS}
    refuse_odd(path, frame, {"filename": (is_given("filename"), "a file name"), **rules})
    return frame.with_columns(*[as_boolean(each) for each in TRAITS], split=pl.lit(split))


def _with_classification(root: Path, frame: pl.DataFrame) -> pl.DataFrame:
    parts = [
        _read_classification(root / f"classification_{split}.csv", split)
        for split in CLASSIFICATION_SPLITS
        if (root / f"classification_{split}.csv").is_file()
    ]
    if not parts:
        return frame.with_columns(classification_split=pl.lit(None, pl.String))
    species = pl.concat(parts).unique("filename", keep="first", maintain_order=True)
    known = frame.join(
        species.select("filename", "classification_split"),
        on="filename",
        how="left",
        maintain_order="left",
    )
    others = species.join(frame.select("filename"), on="filename", how="anti")
    return pl.concat([known, others], how="diagonal")


def _read_classification(path: Path, split: str) -> pl.DataFrame:
    frame = read_annotations(path, ("filename", "standardized_species"))
    refuse_odd(path, frame, {"filename": (is_given("filename"), "a file name")})
    wanted = [each for each in ("filename", *_OPTIONAL) if each in frame.columns]
    return frame.select(*wanted, pl.lit(split).alias("classification_split"))


def _places(root: Path) -> dict[str, str]:
    """File name → path: published in chunks, by most people put into one folder."""
    folder = root / IMAGE_FOLDER
    if not folder.is_dir():
        return {}
    paths = list_files(folder)
    return {each.rpartition("/")[2]: f"{IMAGE_FOLDER}/{each}" for each in reversed(paths)}


# --- checking ---


def _open_findings(rows: pl.DataFrame) -> list[Finding]:
    n_open = {each: rows.get_column(each).null_count() for each in TRAITS}
    told = [f"{name} {n:,}" for name, n in n_open.items() if n]
    if not told:
        return []
    return [Finding("note", f"unknown in some of {counted(len(rows), 'row')}: {', '.join(told)}.")]


def _constant_findings(rows: pl.DataFrame) -> list[Finding]:
    train = rows.filter(pl.col("split") == "train")
    same = [each for each in TRAITS if train.get_column(each).drop_nulls().n_unique() < 2]
    if not same:
        return []
    return [Finding("error", f"traits with one answer only in train: {name_some(same)}.")]


def _species_findings(rows: pl.DataFrame) -> list[Finding]:
    known = set(rows.filter(pl.col("split") == "train").get_column("label").drop_nulls())
    found = {
        split: set(rows.filter(pl.col("split") == split).get_column("label").drop_nulls())
        for split in SPLITS
    }
    leaked = sorted(found["test_lvsp"] & known)
    findings = []
    if leaked:
        n = counted(len(leaked), "species", "species")
        text = f"{n} of test_lvsp are in train, which should have none of them: {name_some(leaked)}"
        findings.append(Finding("warning", f"{text}."))
    strange = sorted(found["test_insp"] - known)
    if strange:
        n = counted(len(strange), "species", "species")
        findings.append(
            Finding("warning", f"{n} of test_insp without a training image: {name_some(strange)}.")
        )
    return findings
