"""Rare Species: 400 animals of the IUCN Red List.

Read from the hub's parquet files, or from ROOT/metadata.csv in the hub's form or in BioCLIP's. In
the table

    label            the seven ranks joined by "-": Animalia-Chordata-…-Gymnobelideus-leadbeateri
    kingdom … species   the ranks (species is the epithet), and scientific_name, both parts
    common_name      not unique: two names stand for two species each

There is no split: the hub calls all of it train, and few-shot protocols draw from all of it. The
number of rows is what the files hold (11,983 are published), never a constant.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from fieldmark.data._check import (
    as_findings,
    class_findings,
    image_findings,
    published_findings,
    rank_findings,
)
from fieldmark.data._dataset import Finding, Info, Source, finish_table
from fieldmark.data._make import PlannedPhoto, encode_photo, photo_key, plan_photos
from fieldmark.data.read.hub_parquet import find_parts, part_findings, read_parts, write_part
from fieldmark.data.read.table import need_columns, read_columns, read_table
from fieldmark.errors import DataError
from fieldmark.taxa import RANKS

if TYPE_CHECKING:
    from fieldmark.world import World


METADATA = "metadata.csv"
PUBLISHED = {"images": 11_983}
N_CLASSES = 400
_HUB = "https://huggingface.co/datasets/imageomics/rare-species"

INFO = Info(
    title="Rare Species",
    licence="CC0-1.0 for the compilation; photos keep the licences of their authors",
    citation="Rare Species Dataset. Imageomics Institute, 2023. doi:10.57967/hf/1981. With: "
    "Stevens et al. BioCLIP: A Vision Foundation Model for the Tree of Life. CVPR 2024. "
    "arXiv:2311.18803",
    homepage=_HUB,
    layout="ROOT/default/train/*.parquet  (or ROOT/data/train-*.parquet)\n"
    "or ROOT/metadata.csv and the images its column file_name or filepath names",
    sources=tuple(
        Source(
            url=f"{_HUB}/resolve/refs%2Fconvert%2Fparquet/default/train/{number:04}.parquet",
            filename=f"default/train/{number:04}.parquet",
            n_bytes=n_mb * 1_000_000,
            kind="images",
        )
        for number, n_mb in enumerate((505, 499, 518, 508, 516, 510, 520, 516, 228))
    ),
)


def table(root: Path) -> pl.DataFrame:
    """One row per image, in the order of the files: parquet where there is any, else the CSV."""
    parts = find_parts(root, {"train": "train"})
    if parts:
        origin = root / parts[0].path
        frame = read_parts(root, parts, needed=("image", "kingdom", "species"))
        return _finish(frame.drop("split"), origin)
    path = root / METADATA
    if not path.is_file():
        raise DataError(
            f"{root}  contains neither train parquet files nor {METADATA}: expected one of them. "
            "`fieldmark datasets rarespecies` shows layout and sources."
        )
    return _finish(_read_listed(path), path)


@as_findings
def check(root: Path) -> Iterator[Finding]:
    """Counts, missing files, missing ranks, shared common names, unreadable images."""
    rows = table(root)
    yield from part_findings(find_parts(root, {"train": "train"}))
    yield from published_findings(rows, PUBLISHED, N_CLASSES)
    yield from rank_findings(rows, RANKS)
    yield from class_findings(rows)
    yield from image_findings(root, rows.get_column("image"))


# --- reading ---


def _read_listed(path: Path) -> pl.DataFrame:
    """The CSV, as text, with an id and the rank `class` under its own name."""
    columns = read_columns(path)
    frame = read_table(path, columns)
    image = next((name for name in ("filepath", "file_name") if name in columns), None)
    if image is None:
        raise DataError(
            f"{path}  lacks the column 'filepath' (or 'file_name'): it has {', '.join(columns)}."
        )
    if "cls" in columns:  # BioCLIP's form: its `class` is the whole name, not the rank
        frame = frame.drop("class", strict=False).rename({"cls": "class"})
    is_empty = frame.get_column(image).is_null()
    if is_empty.any():
        line = (is_empty.arg_max() or 0) + 2
        raise DataError(f"{path}:{line}  {image} is empty: expected the path of an image.")
    return frame.rename({image: "image"}).with_columns(id="image")


def _finish(frame: pl.DataFrame, origin: Path) -> pl.DataFrame:
    if "common" in frame.columns and "common_name" not in frame.columns:
        frame = frame.rename({"common": "common_name"})
    expected = "the seven ranks and common (or common_name)"
    need_columns(origin, frame.columns, (*RANKS, "common_name"), expected)
    ranks = pl.col(RANKS).cast(pl.String).str.strip_chars().replace("", None)
    frame = frame.with_columns(ranks, pl.col("common_name").cast(pl.String))
    names = [pl.col(rank).fill_null("") for rank in RANKS]
    frame = frame.with_columns(
        label=pl.concat_str(names, separator="-"),
        scientific_name=pl.concat_str(names[-2:], separator=" ").str.strip_chars(),
    )
    if "rarespecies_id" in frame.columns:
        frame = frame.with_columns(id=pl.coalesce("rarespecies_id", "id"))
    more = [
        pl.col(name).cast(pl.String)
        for name in ("rarespecies_id", "eol_content_id", "eol_page_id")
        if name in frame.columns
    ]
    columns = ("id", "image", "label", *RANKS, "scientific_name", "common_name")
    return finish_table(frame.select(*columns, *more), origin)


# --- making ---

PHOTOS_A_SPECIES = 7
"""Five for training and two to ask about."""
N_FILES = 2
ANIMALS = ("bird", "mammal", "fish", "lizard", "butterfly", "beetle", "spider", "whale")


def make(root: Path, world: World, size: int) -> None:
    """Two files as the hub converts them, `default/train/0000.parquet`; seven photos a species."""
    pattern = ("train",) * PHOTOS_A_SPECIES
    planned = plan_photos(world, size, "rarespecies", pattern, ANIMALS)
    rows = [_row(world, photo) for photo in planned]
    length = -(-len(rows) // N_FILES)
    for number in range(N_FILES):
        part = rows[number * length : (number + 1) * length]
        write_part(root / "default" / "train" / f"{number:04}.parquet", pl.DataFrame(part))


def _row(world: World, photo: PlannedPhoto) -> dict[str, object]:
    species = photo.species
    number = 100_000 + 1_000 * photo.rank + photo.turn
    name = f"{number}_{100 + photo.rank}_eol-full-size-copy.jpg"
    folder = "-".join(species.ranks[rank] for rank in RANKS)
    return {
        "image": {"bytes": encode_photo(world, photo.scene), "path": name},
        "rarespecies_id": str(photo_key(world, "rarespecies", number)),
        "eol_content_id": number,
        "eol_page_id": 100 + photo.rank,
        **{rank: species.ranks[rank] for rank in RANKS},
        "sciName": species.scientific_name,
        "common": species.common_name,
        "file_name": f"dataset/{folder}/{name}",
    }
