"""Fish-Vista: museum photos of fish with traits one can see.

    adipose_fin, pelvic_fin, barbel, multiple_dorsal_fin   true, false, or null where nobody knows
    split                 train, val, test_insp (species that train has), test_lvsp (species left
                          out of train)
    label, unit           the species: its traits were looked up once for all its photos
    scientific_name       the same with a capital, whatever the table writes
    classification_split  train, val or test of the species task, if its tables are there; photos
                          of that task only have no split
    specimen              one museum photo may hold several fish, each cut out of it

Blanks stay null: a missing trait is no absent trait. The same holds for -1, the file's "unknown".
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from fieldmark.data._check import (
    as_findings,
    counted,
    image_findings,
    labels_by_split,
    named_findings,
)
from fieldmark.data._dataset import Finding, Info, Source, finish_table, need
from fieldmark.data._make import both_answers, species_pool, take_photo, write_rows
from fieldmark.data.read.folders import list_files
from fieldmark.data.read.table import (
    as_boolean,
    capitalised,
    is_given,
    is_yes_or_no,
    read_annotations,
    refuse_odd,
    with_optional,
)
from fieldmark.data.sets.fishnet import FISH
from fieldmark.world import Scene

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
        *[Source(url=f"{_ADDRESS}/{name}") for name in _TABLES],
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
    path_of = _places(root)
    frame = frame.with_columns(
        id="filename",
        image=pl.col("filename").replace_strict(
            path_of, default=pl.format(f"{IMAGE_FOLDER}/{{}}", "filename"), return_dtype=pl.String
        ),
        label="standardized_species",
        unit="standardized_species",
        species="standardized_species",
        specimen="arkid",
        scientific_name=capitalised("standardized_species"),
    )
    columns = [
        "id", "image", "split", "label", "unit", "species", "scientific_name", "family", "specimen",
    ]  # fmt: skip
    return finish_table(frame.select(*columns, *TRAITS, "classification_split"), root)


@as_findings
def check(root: Path) -> Iterator[Finding]:
    """Traits nobody knows, species that are in train though they should not be, unread images."""
    rows = table(root)
    identified = rows.drop_nulls("split")
    n_open = {trait: identified.get_column(trait).null_count() for trait in TRAITS}
    shown = ", ".join(f"{name} {n:,}" for name, n in n_open.items() if n)
    if shown:
        yield Finding("note", f"unknown in some of {counted(len(identified), 'row')}: {shown}.")
    train = identified.filter(pl.col("split") == "train")
    constant = [trait for trait in TRAITS if train.get_column(trait).drop_nulls().n_unique() < 2]
    yield from named_findings("error", constant, "traits with only one answer in train")
    by_split = {split: set[str]() for split in SPLITS} | labels_by_split(identified)
    leaked = sorted(by_split["test_lvsp"] & by_split["train"])
    text = "of test_lvsp are in train, which should have none of them"
    yield from named_findings("warning", leaked, text, "species", "species")
    unseen = sorted(by_split["test_insp"] - by_split["train"])
    text = "of test_insp without a training image"
    yield from named_findings("warning", unseen, text, "species", "species")
    yield from image_findings(root, rows.get_column("image"))


# --- reading ---


def _read(root: Path, name: str, split: str) -> pl.DataFrame:
    path = need(root / name, f"the {split} rows of Fish-Vista", "fishvista")
    frame = with_optional(read_annotations(path, ("filename", *TRAITS)), _OPTIONAL)
    frame = frame.select("filename", *_OPTIONAL, *TRAITS)
    is_unknown = pl.col(*TRAITS).str.to_lowercase().is_in(["-1", "-1.0", "na", "nan"])
    frame = frame.with_columns(pl.when(~is_unknown).then(pl.col(*TRAITS)).name.keep())
    rules = dict.fromkeys(TRAITS, (is_yes_or_no, "0, 1, or nothing where it is unknown"))
    refuse_odd(path, frame, {"filename": (is_given, "a file name"), **rules})
    return frame.with_columns(*[as_boolean(trait) for trait in TRAITS], split=pl.lit(split))


def _with_classification(root: Path, frame: pl.DataFrame) -> pl.DataFrame:
    parts = [
        _read_classification(root / f"classification_{split}.csv", split)
        for split in CLASSIFICATION_SPLITS
        if (root / f"classification_{split}.csv").is_file()
    ]
    if not parts:
        return frame.with_columns(classification_split=pl.lit(None, pl.String))
    species = pl.concat(parts).unique("filename", keep="first", maintain_order=True)
    listed = frame.join(
        species.select("filename", "classification_split"),
        on="filename",
        how="left",
        maintain_order="left",
    )
    others = species.join(frame.select("filename"), on="filename", how="anti")
    return pl.concat([listed, others], how="diagonal")


def _read_classification(path: Path, split: str) -> pl.DataFrame:
    frame = read_annotations(path, ("filename", "standardized_species"))
    refuse_odd(path, frame, {"filename": (is_given, "a file name")})
    columns = [name for name in ("filename", *_OPTIONAL) if name in frame.columns]
    return frame.select(*columns, pl.lit(split).alias("classification_split"))


def _places(root: Path) -> dict[str, str]:
    """File name → path: published in chunks, by most people put into one folder."""
    folder = root / IMAGE_FOLDER
    if not folder.is_dir():
        return {}
    paths = list_files(folder)
    return {path.rpartition("/")[2]: f"{IMAGE_FOLDER}/{path}" for path in reversed(paths)}


# --- making ---

_MARKS = {
    "adipose_fin": "has_adipose_fin",
    "pelvic_fin": "has_pelvic_fin",
    "barbel": "has_barbel",
    "multiple_dorsal_fin": "has_two_dorsal_fins",
}


def make(root: Path, world: World, size: int) -> None:
    """Fish with and without the four traits; the last quarter of the species is not in train."""
    pool = species_pool(world, "fishvista", 8, *FISH)
    n_left_out = len(pool) // 4
    traits = {
        name: both_answers(
            {index: bool(world.species[index].traits[mark]) for index in pool},
            *(world.seed, "fishvista", name),
        )
        for name, mark in _MARKS.items()
    }
    rows: dict[str, list[dict[str, object]]] = {name: [] for name in SPLITS}
    species: dict[str, list[dict[str, object]]] = {name: [] for name in CLASSIFICATION_SPLITS}
    for number in range(max(size, 6 * len(pool))):
        turn, rank = divmod(number, len(pool))
        split = ("train", "train", "test_insp", "train", "val", "train")[turn % 6]
        split = "test_lvsp" if rank >= len(pool) - n_left_out else split
        is_test = split != "train"
        scene = Scene(species=pool[rank], individual=2 * turn + is_test, burst=number)
        row = _row(world, scene, number, traits)
        take_photo(world, scene, root / str(row["file_name"]))
        rows[split].append(row)
        if split != "test_lvsp":
            kind = "test" if split == "test_insp" else split
            species[kind].append(row | dict.fromkeys(TRAITS))
    for split, listed in rows.items():
        write_rows(root / f"identification_{split}.csv", FILE_COLUMNS, listed)
    for split, listed in species.items():
        write_rows(root / f"classification_{split}.csv", FILE_COLUMNS, listed)


def _row(
    world: World, scene: Scene, number: int, traits: dict[str, dict[int, bool]]
) -> dict[str, object]:
    species = world.species[scene.species]
    name = f"FV_{number:06}.jpg"
    row: dict[str, object] = {
        "filename": name,
        "source_filename": f"museum_{number:06}.jpg",
        "original_format": "jpg",
        "arkid": f"ark:/00000/{number:06}",
        "family": species.ranks["family"],
        "source": "GLIN",
        "owner": "fieldmark",
        "standardized_species": species.scientific_name.lower(),
        "original_url": f"https://example.org/{number:06}.jpg",
        "file_name": f"{IMAGE_FOLDER}/chunk_{1 + number // 10_000}/{name}",
        "license": "CC0",
        **{name: int(traits[name][scene.species]) for name in TRAITS},
    }
    if number % 11 == 7:
        row["pelvic_fin"] = None
    return row
