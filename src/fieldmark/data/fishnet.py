"""What is in FishNet, photos of fish with nine traits of how and where they live?

    FeedingPath … brackish   the nine traits, true or false (FeedingPath: pelagic is true)
    label                    the family, as in the published recognition task
    unit                     the species, else the genus: the traits are known per species, so all
                             photos of one have the same nine answers
    split                    the file the row stands in

Columns are found by name. Rows that lack any trait are left out and counted by `check`; the
published test file keeps 18,015 of its 18,901 rows. iNaturalist's rows name no species.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from fieldmark.data._annotations import (
    as_boolean,
    is_given,
    is_yes_or_no,
    numbered,
    read_annotations,
    refuse_odd,
    size_findings,
)
from fieldmark.data._check import checksum_findings, counted, image_findings, name_some
from fieldmark.data._dataset import Finding, Info, Source, finish_table, need
from fieldmark.errors import DataError

if TYPE_CHECKING:
    from fieldmark.world import World

__all__ = ["INFO", "TRAITS", "check", "make", "photos", "table"]

TRAITS = (
    "FeedingPath", "Tropical", "Temperate", "Subtropical", "Boreal", "Polar", "freshwater",
    "saltwater", "brackish",
)  # fmt: skip
FILE_COLUMNS = (
    "", "Unnamed: 0", "species", "image", "SpecCode", "Genus", "Subfamily", "Family", "Order",
    "Class", "SuperClass", "source", "Folder", "Troph", *TRAITS, "NewOrder", "Frequency",
)  # fmt: skip
NEEDED = ("species", "image", "Genus", "Family", "Order", "Class", "source", "Folder", *TRAITS)
SPLITS = ("train", "test")
IMAGE_FOLDER = "Image_Library"
PUBLISHED = {"train": 75_631, "test": 18_901}
_ADDRESS = "https://raw.githubusercontent.com/faixan-khan/FishNet/main/anns"

INFO = Info(
    title="FishNet: functional traits",
    licence="none stated; photos keep the terms of iNaturalist's and FishBase's authors",
    citation="Khan, Li, Temple, Elhoseiny. FishNet: A Large-scale Dataset and Benchmark for Fish "
    "Recognition, Detection, and Functional Trait Prediction. ICCV 2023",
    homepage="https://fishnet-2023.github.io/",
    layout=f"ROOT/train.csv\nROOT/test.csv\nROOT/{IMAGE_FOLDER}/FOLDER/*.jpg  (a folder a family)",
    sources=(
        Source(url=f"{_ADDRESS}/train.csv", filename="train.csv"),
        Source(
            url=f"{_ADDRESS}/test.csv",
            filename="test.csv",
            n_bytes=4_107_004,
            md5="c6fe1f472c12b0a515e5622ea211fc66",
        ),
        Source(
            steps="Open https://drive.google.com/file/d/1mqLoap9QIVGYaPJ7T_KSBfLxJOg2yFY3/view in "
            "a browser, download the archive (5.4 GB; Google asks for a confirmation, so it cannot "
            f"be fetched for you) and unpack it in ROOT: it holds the folder {IMAGE_FOLDER}."
        ),
    ),
)


def table(root: Path) -> pl.DataFrame:
    """One row per photo whose nine traits are all known, train.csv first."""
    known = photos(root).drop_nulls(list(TRAITS))
    return finish_table(known, root)


def photos(root: Path) -> pl.DataFrame:
    """All rows of both files; a trait the file leaves open is null."""
    frame = pl.concat([_read(root, split) for split in SPLITS])
    path = pl.format("{}/{}", "Folder", pl.col("image").str.split("/").list.last())
    frame = frame.with_columns(path=path)
    feeds_in_open_water = pl.col("FeedingPath").str.to_lowercase() == "pelagic"
    return frame.select(
        numbered("path").alias("id"),
        pl.format(f"{IMAGE_FOLDER}/{{}}", "path").alias("image"),
        "split",
        pl.coalesce("Family", "Folder").alias("label"),
        pl.coalesce("species", "Genus").alias("unit"),
        "species",
        pl.col("Genus").alias("genus"),
        pl.col("Family").alias("family"),
        pl.col("Order").alias("order"),
        pl.col("Class").alias("class"),
        "source",
        feeds_in_open_water.alias("FeedingPath"),
        *[as_boolean(each) for each in TRAITS[1:]],
    )


def check(root: Path) -> list[Finding]:
    """What was left out and why, photos listed twice, and images that cannot be read."""
    try:
        every = photos(root)
        rows = table(root)
    except DataError as error:
        return [Finding("error", str(error))]
    counts = {split: every.filter(pl.col("split") == split).height for split in SPLITS}
    return [
        *size_findings({f"{k}.csv": n for k, n in counts.items()}, _published_files()),
        *checksum_findings(root, INFO.sources),
        *_left_out(every, rows),
        *_twin_findings(every),
        *_constant_findings(rows),
        *image_findings(root, rows.get_column("image")),
    ]


def make(root: Path, world: World, size: int) -> None:
    """Fish of several families in the exact layout; a few rows lack a trait."""
    from fieldmark.data._fish_make import write_fishnet

    write_fishnet(root, world, size)


# --- reading ---


def _read(root: Path, split: str) -> pl.DataFrame:
    path = need(root / f"{split}.csv", f"the {split} rows of FishNet", "fishnet")
    frame = read_annotations(path, NEEDED).select(NEEDED)
    frame = frame.with_columns(pl.all().str.strip_chars().replace("", None))
    feeding = pl.col("FeedingPath").str.to_lowercase().is_in(["pelagic", "benthic"])
    refuse_odd(
        path,
        frame,
        {
            "image": (is_given("image"), "a file name or an address"),
            "Folder": (is_given("Folder"), f"a folder of {IMAGE_FOLDER}"),
            "FeedingPath": (
                feeding | pl.col("FeedingPath").is_null(),
                "pelagic, benthic or nothing",
            ),
            **{each: (is_yes_or_no(each), "0, 1 or nothing") for each in TRAITS[1:]},
        },
    )
    return frame.with_columns(split=pl.lit(split))


# --- checking ---


def _published_files() -> dict[str, int]:
    return {f"{split}.csv": n for split, n in PUBLISHED.items()}


def _left_out(every: pl.DataFrame, rows: pl.DataFrame) -> list[Finding]:
    n_lost = len(every) - len(rows)
    if not n_lost:
        return []
    verb = "lacks" if n_lost == 1 else "lack"
    return [
        Finding(
            "note",
            f"{n_lost:,} of {counted(len(every), 'row')} {verb} a trait, left out; "
            f"{len(rows):,} remain.",
        )
    ]


def _twin_findings(every: pl.DataFrame) -> list[Finding]:
    by_image = every.group_by("image", maintain_order=True).agg(
        n=pl.len(), n_splits=pl.col("split").n_unique()
    )
    findings = []
    shared = by_image.filter(pl.col("n_splits") > 1).get_column("image").to_list()
    if shared:
        text = f"{counted(len(shared), 'image')} both in train and in test: {name_some(shared)}."
        findings.append(Finding("warning", text))
    twins = by_image.filter((pl.col("n") > 1) & (pl.col("n_splits") == 1))
    if len(twins):
        names = twins.get_column("image").to_list()
        text = f"{counted(len(names), 'image')} on several rows of a file: {name_some(names)}."
        findings.append(Finding("warning", text))
    return findings


def _constant_findings(rows: pl.DataFrame) -> list[Finding]:
    same = [
        f"{trait} ({split})"
        for split in SPLITS
        for trait in TRAITS
        if rows.filter(pl.col("split") == split).get_column(trait).n_unique() < 2
    ]
    if not same:
        return []
    return [Finding("error", f"traits with one answer only, or none: {name_some(same)}.")]
