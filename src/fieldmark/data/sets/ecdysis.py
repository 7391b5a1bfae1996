"""Ecdysis Foundation: photos of insects from farm fields.

    label     the species, or the lowest rank that is known; the path of ranks where two groups
              share a name
    scientific_name   the same, always the name alone
    rank      which rank the label is: species, genus, family, order or class
    class … species   its ranks; species is the whole name, genus and epithet
    unit      the specimen: one may have several photos
    date      when the field was visited
    split     train or test, made here, per label and by time (below)

The split. Of each label's photos in order of date, the first 80 % are for training, the rest for
the test; but photos of one day never part: the day on which the 80 % are reached is a test day as a
whole. A label seen on one day only is all train. So no test photo of a label is as old as any of
its training photos, and the split depends on nothing but dates. Photos without a date have no
split; rows without a photo are left out. Both are counted by `check`. (The suite that published
this task cut within a day, by the order of the file, and tested labels of one photo that training
never saw.)
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from fieldmark.data._check import (
    as_findings,
    count_findings,
    counted,
    image_findings,
    labels_by_split,
    named_findings,
)
from fieldmark.data._dataset import Finding, Info, Source, finish_table, need
from fieldmark.data._make import pick, species_pool, take_photo, write_rows
from fieldmark.data.read.table import is_given, read_annotations, refuse_odd, with_optional
from fieldmark.world import Scene

if TYPE_CHECKING:
    from fieldmark.world import World


__all__ = ["INFO", "check", "make", "specimens", "table"]

METADATA = "metadata.csv"
IMAGE_FOLDER = "images"
RANKS = ("class", "order", "family", "genus", "species")
FILE_COLUMNS = (
    "id", "specimen_id", "image_thumbnail_large", "archival_identifier", "archival_stored",
    "visit_date", "country", "state_region", "county_region", "us_state_county_fips", "gbif_class",
    "gbif_order", "gbif_family", "gbif_genus", "gbif_species", "reviewed", "public_url",
)  # fmt: skip
NEEDED = ("id", "image_thumbnail_large", "visit_date", *[f"gbif_{rank}" for rank in RANKS])
_KEPT = ("specimen_id", "country", "state_region", "county_region")

INFO = Info(
    title="Ecdysis Foundation insects",
    licence="none stated; the download page of the Ecdysis Foundation says what is allowed",
    citation="Ecdysis Foundation: BugBox, the public insect collection, https://bugbox.ecdysis.bio",
    homepage="https://bugbox.ecdysis.bio/samples/collection-download/1",
    layout=f"ROOT/{METADATA}\nROOT/{IMAGE_FOLDER}/*.JPG  (file names as in image_thumbnail_large)",
    sources=(
        Source(
            steps="Open https://bugbox.ecdysis.bio/samples/collection-download/1, follow the link "
            "to the zipped CSV (its address changes with each visit), unpack it and put the table "
            f"to ROOT/{METADATA}. Then download the photo of each row, column public_url, to "
            f"ROOT/{IMAGE_FOLDER} under the last part of its address."
        ),
    ),
)


def table(root: Path) -> pl.DataFrame:
    """One row per photo, in the order of the file."""
    return finish_table(_with_split(specimens(root).drop_nulls("image")), root / METADATA)


def specimens(root: Path) -> pl.DataFrame:
    """All rows of the file, those without a photo too, before the split is made."""
    path = need(root / METADATA, "the table of the Ecdysis collection", "ecdysis")
    frame = with_optional(read_annotations(path, NEEDED), _KEPT)
    refuse_odd(path, frame, {"id": (is_given, "an id")})
    frame = frame.with_columns(pl.col(pl.String).str.strip_chars().replace("", None))
    file = pl.col("image_thumbnail_large").str.split("/").list.last()
    ranks = [pl.col(f"gbif_{rank}").fill_null("") for rank in RANKS]
    frame = frame.with_columns(_species()).with_columns(
        _rank(),
        path=pl.concat_str(ranks, separator="|"),
        lowest=pl.coalesce([f"gbif_{rank}" for rank in reversed(RANKS)]),
    )
    is_shared = pl.col("path").n_unique().over("lowest") > 1
    is_named = pl.col("lowest").is_not_null()
    label = pl.when(is_shared & is_named).then("path").when(is_named).then("lowest")
    return frame.select(
        "id",
        pl.format(f"{IMAGE_FOLDER}/{{}}", file).alias("image"),
        label.alias("label"),
        pl.col("specimen_id").alias("unit"),
        "rank",
        pl.col("lowest").alias("scientific_name"),
        *[pl.col(f"gbif_{rank}").alias(rank) for rank in RANKS],
        pl.col("visit_date").str.slice(0, 10).str.to_date("%Y-%m-%d", strict=False).alias("date"),
        *_KEPT[1:],
    )


@as_findings
def check(root: Path) -> Iterator[Finding]:
    """Rows that cannot be used and why, and images that cannot be read."""
    rows = table(root)
    yield from _left_out(specimens(root), rows)
    by_split = labels_by_split(rows)
    labels = set().union(*by_split.values())
    if len(labels) < 2:
        text = f"at least two labels with a date are needed, found {len(labels)}."
        yield Finding("error", text)
    elif "test" not in by_split:
        yield Finding("error", "no label was seen on two days: nothing is left for the test.")
    else:
        untested = sorted(labels - by_split["test"])
        text = f"{len(untested)} of {len(labels)} labels seen on one day only, all train"
        yield from named_findings("note", untested, text)
    yield from image_findings(root, rows.get_column("image"))


# --- names ---


def _species() -> pl.Expr:
    """An epithet alone is no name: the genus stands before it."""
    species, genus = pl.col("gbif_species"), pl.col("gbif_genus")
    is_epithet = ~species.str.contains(" ", literal=True) & genus.is_not_null()
    named = pl.when(is_epithet).then(pl.format("{} {}", genus, species)).otherwise(species)
    return named.alias("gbif_species")


def _rank() -> pl.Expr:
    given = [
        pl.when(pl.col(f"gbif_{rank}").is_not_null()).then(pl.lit(rank)) for rank in reversed(RANKS)
    ]
    return pl.coalesce(given).alias("rank")


# --- the split ---


def _with_split(frame: pl.DataFrame) -> pl.DataFrame:
    dates = frame.drop_nulls(["label", "date"]).sort("label", "date")
    at_80_percent = pl.col("date").get(pl.len() * 4 // 5)
    first_day = pl.col("date").first()
    second_day = pl.col("date").filter(pl.col("date") > first_day).first()
    # Where the 80 % are reached on the first day already, the test begins with the second.
    begins = pl.when(at_80_percent > first_day).then(at_80_percent).otherwise(second_day)
    cuts = dates.group_by("label").agg(begins.alias("test_begins"))
    frame = frame.join(cuts, on="label", how="left", maintain_order="left")
    is_usable = pl.col("label").is_not_null() & pl.col("date").is_not_null()
    is_test = (pl.col("date") >= pl.col("test_begins")).fill_null(False)
    side = pl.when(is_test).then(pl.lit("test")).otherwise(pl.lit("train"))
    return frame.with_columns(split=pl.when(is_usable).then(side)).drop("test_begins")


# --- checking ---


def _left_out(every: pl.DataFrame, rows: pl.DataFrame) -> Iterator[Finding]:
    counts = {
        "without a photo, left out": len(every) - len(rows),
        "without a date (YYYY-MM-DD), in no split": rows.get_column("date").null_count(),
        "without any name, in no split": rows.get_column("label").null_count(),
    }
    for what, n in counts.items():
        if n:
            yield Finding("note", f"{counted(n, 'row')} {what}.")
    n_coarse = rows.filter(pl.col("rank") != "species").height
    text = "named to a higher rank than species, kept"
    yield from count_findings("note", n_coarse, text, "photo")


# --- making ---

_FIRST_DAY = date(2021, 5, 3)


def make(root: Path, world: World, size: int) -> None:
    """Insects caught over three years; the table and about `size` photos, at least eight a species.

    A few rows have no photo, a few no species.
    """
    pool = species_pool(world, "ecdysis", 5, "beetle", "butterfly", "spider")
    pool = pool[: max(4, min(len(pool), size // 8))]
    rows: list[dict[str, object]] = []
    for number in range(max(size, 8 * len(pool))):
        turn, rank = divmod(number, len(pool))
        scene = Scene(species=pool[rank], individual=turn, burst=number)
        row = _row(world, scene, number, turn)
        if row["image_thumbnail_large"]:
            name = str(row["image_thumbnail_large"]).rpartition("/")[2]
            take_photo(world, scene, root / IMAGE_FOLDER / name)
        rows.append(row)
    order = sorted(range(len(rows)), key=lambda n: pick(1 << 40, world.seed, "ecdysis", n))
    write_rows(root / METADATA, FILE_COLUMNS, [rows[n] for n in order])


def _row(world: World, scene: Scene, number: int, turn: int) -> dict[str, object]:
    species = world.species[scene.species]
    ranks = species.ranks
    day = _FIRST_DAY + timedelta(days=29 * turn + pick(20, world.seed, "ecdysis", "day", number))
    name = f"specimen_{number:05}.JPG"
    has_photo = number % 25 != 17
    is_named = number % 30 != 22
    return {
        "id": 1000 + number,
        "specimen_id": 5000 + number,
        "image_thumbnail_large": f"specimen_images/{name}" if has_photo else None,
        "archival_identifier": f"E{number:05}",
        "archival_stored": "True",
        "visit_date": day.isoformat(),
        "country": "United States of America",
        "state_region": "South Dakota",
        "county_region": "Deuel",
        "us_state_county_fips": 46039,
        "gbif_class": ranks["class"],
        "gbif_order": ranks["order"],
        "gbif_family": ranks["family"],
        "gbif_genus": ranks["genus"],
        "gbif_species": species.scientific_name if is_named else None,
        "reviewed": "True",
        "public_url": f"https://example.org/specimen_images/{name}" if has_photo else None,
    }
