"""FishNet: photos of fish with nine traits of how and where they live.

    FeedingPath … brackish   the nine traits, true or false (FeedingPath: pelagic is true)
    label                    the family, as in the published recognition task
    unit                     the species, else the genus: the traits are known per species, so all
                             photos of one have the same nine answers
    split                    the file the row stands in

Columns are found by name. Rows that lack any trait are left out and counted by `check`; the
published test file keeps 18,015 of its 18,901 rows. iNaturalist's rows name no species.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from fieldmark.data._check import (
    as_findings,
    checksum_findings,
    counted,
    image_findings,
    named_findings,
    published_findings,
)
from fieldmark.data._dataset import Finding, Info, Source, finish_table, need
from fieldmark.data._make import both_answers, photo_key, pick, species_pool, take_photo, write_rows
from fieldmark.data.read.table import (
    as_boolean,
    is_given,
    is_yes_or_no,
    numbered,
    read_annotations,
    refuse_odd,
)
from fieldmark.world import Scene

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
        Source(url=f"{_ADDRESS}/train.csv"),
        Source(
            url=f"{_ADDRESS}/test.csv",
            n_bytes=4_107_004,
            md5="c6fe1f472c12b0a515e5622ea211fc66",
        ),
        Source(
            steps="Open https://drive.google.com/file/d/1mqLoap9QIVGYaPJ7T_KSBfLxJOg2yFY3/view in "
            "a browser, download the archive (5.4 GB; Google asks for a confirmation, so it cannot "
            f"be fetched for you) and unpack it in ROOT: it contains the folder {IMAGE_FOLDER}."
        ),
    ),
)


def table(root: Path) -> pl.DataFrame:
    """One row per photo whose nine traits are all known, train.csv first."""
    with_traits = photos(root).drop_nulls(list(TRAITS))
    return finish_table(with_traits, root)


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
        *[as_boolean(trait) for trait in TRAITS[1:]],
    )


@as_findings
def check(root: Path) -> Iterator[Finding]:
    """What was left out and why, photos listed twice, and images that cannot be read."""
    every = photos(root)
    rows = table(root)
    yield from published_findings(every, PUBLISHED)
    yield from checksum_findings(root, INFO.sources)
    n_lost = len(every) - len(rows)
    if n_lost:
        verb = "lacks" if n_lost == 1 else "lack"
        n = f"{n_lost:,} of {counted(len(every), 'row')}"
        yield Finding("note", f"{n} {verb} a trait, left out; {len(rows):,} remain.")
    by_image = every.group_by("image", maintain_order=True).agg(
        n=pl.len(), n_splits=pl.col("split").n_unique()
    )
    shared = by_image.filter(pl.col("n_splits") > 1).get_column("image")
    yield from named_findings("warning", shared, "both in train and in test", "image")
    is_twin = (pl.col("n") > 1) & (pl.col("n_splits") == 1)
    twins = by_image.filter(is_twin).get_column("image")
    yield from named_findings("warning", twins, "on several rows of a file", "image")
    constant = [
        f"{trait} ({split})"
        for split in SPLITS
        for trait in TRAITS
        if rows.filter(pl.col("split") == split).get_column(trait).n_unique() < 2
    ]
    yield from named_findings("error", constant, "traits with only one answer, or none")
    yield from image_findings(root, rows.get_column("image"))


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
            "image": (is_given, "a file name or an address"),
            "Folder": (is_given, f"a folder of {IMAGE_FOLDER}"),
            "FeedingPath": (
                feeding | pl.col("FeedingPath").is_null(),
                "pelagic, benthic or nothing",
            ),
            **dict.fromkeys(TRAITS[1:], (is_yes_or_no, "0, 1 or nothing")),
        },
    )
    return frame.with_columns(split=pl.lit(split))


# --- making ---

FISH = ("fish", "whale")
"""body plans that stand for fish; others where the world has too few of them"""


def make(root: Path, world: World, size: int) -> None:
    """Fish of several families; about `size` photos, at least six a species, a third for the test.

    Traits that can be seen are the world's truth; one in which the species do not differ is drawn
    for half of them. A few rows lack their traits.
    """
    pool = species_pool(world, "fishnet", 6, *FISH)
    # Trait → species → does it have it? As the world has it, where its species differ
    shown = {
        "FeedingPath": ("habitat", "open_sea"),
        **{name: ("water", name) for name in ("freshwater", "saltwater", "brackish")},
        **{name: ("climate", name.lower()) for name in TRAITS[1:6]},
    }
    traits = {
        name: both_answers(
            {index: world.species[index].traits[key] == value for index in pool},
            *(world.seed, "fishnet", name),
        )
        for name, (key, value) in shown.items()
    }
    rows: dict[str, list[dict[str, object]]] = {"train": [], "test": []}
    for number in range(max(size, 6 * len(pool))):
        turn, rank = divmod(number, len(pool))
        split = "test" if turn % 3 == 2 else "train"
        # Even individuals are for training, odd ones for the test.
        scene = Scene(species=pool[rank], individual=2 * turn + (split == "test"), burst=number)
        row = _row(world, scene, number, traits)
        folder = root / IMAGE_FOLDER / str(row["Folder"])
        take_photo(world, scene, folder / str(row["image"]).rpartition("/")[2])
        rows[split].append(row)
    for split, listed in rows.items():
        write_rows(root / f"{split}.csv", FILE_COLUMNS, listed)


def _row(
    world: World, scene: Scene, number: int, traits: dict[str, dict[int, bool]]
) -> dict[str, object]:
    """iNaturalist's photos have a bare name and no species, FishBase's an address and a species."""
    species = world.species[scene.species]
    ranks = species.ranks
    is_inat = pick(2, world.seed, "fishnet", "source", number) == 0
    name = str(photo_key(world, "fishnet", number))
    short = f"{ranks['genus'][:2]}{ranks['species'][:3]}_u{number}.jpg"
    row: dict[str, object] = {
        "": number,
        "Unnamed: 0": number,
        "species": None if is_inat else species.scientific_name,
        "image": f"{name}.jpg" if is_inat else f"https://www.fishbase.se/images/species/{short}",
        "SpecCode": None if is_inat else scene.species,
        "Genus": ranks["genus"],
        "Family": ranks["family"],
        "Order": ranks["order"],
        "Class": ranks["class"],
        "source": "inat" if is_inat else "fishbase",
        "Folder": ranks["family"],
        "Troph": 3.5,
        **{name: int(traits[name][scene.species]) for name in TRAITS},
        "NewOrder": ranks["order"],
        "Frequency": 0.25,
    }
    row["FeedingPath"] = "pelagic" if traits["FeedingPath"][scene.species] else "benthic"
    if number % 20 == 13:
        row |= dict.fromkeys(TRAITS)
    return row
