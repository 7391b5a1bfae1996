"""Pl@ntNet-300K: plants with look-alikes and a long tail.

    label            the species' name as the dataset gives it; where two ids share one (version
                     1.0 of the files), with the id: `Lactuca virosa L. (1355868)`
    scientific_name  the name without its author; genus, species: its parts
    species_id       Pl@ntNet's id, the class folder's name
    class_idx        the official number of the class, from class_idx_to_species_id.json
    unit             the observation: photos of one plant have one

Without plantnet300K_species_id_2_name.json the labels are the ids. All three splits are read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from fieldmark.data._check import as_findings, counted, name_some, named_findings
from fieldmark.data._dataset import (
    Finding,
    Info,
    Source,
    find_home,
    finish_table,
    shared_names,
    unique_names,
)
from fieldmark.data._make import PLANTS, plan_photos, take_photo
from fieldmark.data.read.folders import (
    ClassFolders,
    PublishedSize,
    class_folders,
    species_findings,
)
from fieldmark.data.read.table import read_json_object
from fieldmark.draws import digest
from fieldmark.errors import DataError
from fieldmark.taxa import parse_name

if TYPE_CHECKING:
    from fieldmark.world import World


HOMES = (".", "plantnet_300K")
SPLIT_FOLDERS = {"train": "train", "val": "val", "test": "test"}
METADATA = "plantnet300K_metadata.json"
NAMES = "plantnet300K_species_id_2_name.json"
INDEX = "class_idx_to_species_id.json"
N_IMAGES = {"train": 243_916, "val": 31_118, "test": 31_112}
N_CLASSES = 1_081
_PHOTO_FACTS = ("obs_id", "organ", "author", "license", "split", "species_id")

INFO = Info(
    title="Pl@ntNet-300K",
    licence="CC-BY-SA-4.0; photos name their own licence in the metadata",
    citation="Garcin, Joly, Bonnet, Affouard, Lombardo, Chouet, Servajean, Lorieul, Salmon. "
    "Pl@ntNet-300K: a plant image dataset with high label ambiguity and a long-tailed "
    "distribution. NeurIPS Datasets and Benchmarks 2021",
    homepage="https://zenodo.org/records/5645731",
    layout=f"ROOT/images/{{train,val,test}}/SPECIES_ID/*.jpg\nROOT/{NAMES}\nROOT/{METADATA}\n"
    f"ROOT/{INDEX}\n(all of it may lie in ROOT/plantnet_300K)",
    sources=(
        Source(
            url="https://zenodo.org/records/5645731/files/plantnet_300K.zip",
            n_bytes=31_670_505_069,
            mirrors=("https://zenodo.org/api/records/5645731/files/plantnet_300K.zip/content",),
        ),
    ),
)


def table(root: Path) -> pl.DataFrame:
    """One row per image, in the order of their paths."""
    home = _home(root)
    frame = _listed(root).frame(
        f"{root}  contains no images of Pl@ntNet-300K: expected ROOT/images/{{train,val,test}}/"
        "SPECIES_ID/*.jpg. `fieldmark datasets plantnet` shows layout and sources."
    )
    frame = frame.rename({"class_folder": "species_id"}).drop("folder")
    ids = frame.get_column("species_id").unique().sort().to_list()
    frame = frame.join(_classes(home, ids), on="species_id", how="left", maintain_order="left")
    file = pl.col("image").str.split("/").list.last()
    frame = frame.with_columns(hash=file.str.replace(r"\.[^.]*$", ""))
    frame = frame.join(_photo_facts(home), on="hash", how="left", maintain_order="left")
    frame = frame.with_columns(unit=pl.lit("obs") + pl.col("obs_id"))
    columns = [
        "id", "image", "split", "label", "unit", "species_id", "class_idx", "scientific_name",
        "genus", "species", "organ", "author", "license",
    ]  # fmt: skip
    return finish_table(frame.select(columns), root)


@as_findings
def check(root: Path) -> Iterator[Finding]:
    """Counts, names, contradictions with the metadata, stray files, unreadable images."""
    home, listed = _home(root), _listed(root)
    rows = table(root)
    below = home.relative_to(root)
    folders = {split: f"{below}/images/{split}" for split in SPLIT_FOLDERS}
    findings = (*_name_findings(home, rows, _names(home)), *_metadata_findings(home, rows))
    return species_findings(
        root, listed, rows, PublishedSize(N_IMAGES, folders, N_CLASSES), findings
    )


# --- reading ---


def _home(root: Path) -> Path:
    return find_home(root, HOMES, "images")


def _listed(root: Path) -> ClassFolders:
    below = (_home(root) / "images").relative_to(root).as_posix()
    return class_folders(root, SPLIT_FOLDERS, below)


def _classes(home: Path, ids: list[str]) -> pl.DataFrame:
    names = _names(home)
    labels = unique_names(names)
    indices = _indices(home)
    rows = [
        {
            "species_id": species_id,
            "label": labels.get(species_id, species_id),
            "class_idx": indices.get(species_id),
            **_parts(names.get(species_id, "")),
        }
        for species_id in ids
    ]
    schema = {
        "species_id": pl.String, "label": pl.String, "class_idx": pl.Int64,
        "scientific_name": pl.String, "genus": pl.String, "species": pl.String,
    }  # fmt: skip
    return pl.DataFrame(rows, schema=schema)


def _parts(text: str) -> dict[str, str | None]:
    """`Lactuca virosa L.` → Lactuca, virosa; hybrids keep their sign: `Mentha x piperita`."""
    name = parse_name(text)
    if name is None or not name.species:
        genus = name.genus if name else None
        return {"scientific_name": None, "genus": genus, "species": None}
    return {"scientific_name": str(name), "genus": name.genus, "species": name.species}


def _names(home: Path) -> dict[str, str]:
    path = home / NAMES
    if not path.is_file():
        return {}
    content = read_json_object(path, "species id → name")
    return {key: str(name).strip() for key, name in content.items()}


def _indices(home: Path) -> dict[str, int]:
    path = home / INDEX
    if not path.is_file():
        return {}
    content = read_json_object(path, "class number → species id")
    odd = [number for number in content if not number.isdecimal()]
    if odd:
        raise DataError(f"{path}  has the key {odd[0]!r}: expected class numbers.")
    return {str(species): int(number) for number, species in content.items()}


def _photo_facts(home: Path) -> pl.DataFrame:
    """hash and what the metadata says of the photo."""
    path = home / METADATA
    content = read_json_object(path, "image hash → facts") if path.is_file() else {}
    odd = next((key for key, photo in content.items() if not isinstance(photo, dict)), None)
    if odd is not None:
        raise DataError(f"{path}  {odd!r} contains {content[odd]!r}: expected an object of facts.")
    columns: dict[str, list[str | None]] = {"hash": list(content)}
    for name in _PHOTO_FACTS:
        values = (photo.get(name) for photo in content.values())
        columns[name] = [None if value is None else str(value) for value in values]
    frame = pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String))
    return frame.rename({"split": "stated_split", "species_id": "stated_species_id"})


# --- checking ---


def _name_findings(home: Path, rows: pl.DataFrame, names: dict[str, str]) -> Iterator[Finding]:
    ids = rows.get_column("species_id").unique().sort().to_list()
    if not names:
        yield Finding("warning", f"{home / NAMES}  is missing: labels are the species' ids.")
        return
    without = [species_id for species_id in ids if species_id not in names]
    text = f"without a name in {NAMES}"
    yield from named_findings("warning", without, text, "species", "species")
    twice = shared_names({key: names[key] for key in ids if key in names})
    if twice:
        n = counted(len(twice), "name")
        text = f"{n} of several species ids, as in version 1.0: {name_some(twice)}. Version 1.1 "
        yield Finding("note", f"{text}of {NAMES} has none.")


def _metadata_findings(home: Path, rows: pl.DataFrame) -> Iterator[Finding]:
    for name in (METADATA, INDEX):
        if not (home / name).is_file():
            yield Finding("note", f"{home / name}  is missing: the table goes without it.")
    if not (home / METADATA).is_file():
        return
    file = pl.col("image").str.split("/").list.last().str.replace(r"\.[^.]*$", "")
    stated = rows.with_columns(hash=file).join(_photo_facts(home), on="hash", how="left")
    unlisted = stated.filter(pl.col("stated_split").is_null()).get_column("image")
    yield from named_findings("warning", unlisted, f"not in {METADATA}", "image")
    moved = stated.filter(
        (pl.col("stated_split") != pl.col("split"))
        | (pl.col("stated_species_id") != pl.col("species_id"))
    )
    text = f"in another folder than {METADATA} says"
    yield from named_findings("warning", moved.get_column("image"), text, "image")


# --- making ---

PATTERN = ("train", "val", "test", "train", "train", "train")
ORGANS = ("leaf", "flower", "habit", "fruit", "bark")
FIRST_ID = 1_355_868


def make(root: Path, world: World, size: int) -> None:
    """Plants in folders of ids with the three JSON files; a few photos share an observation."""
    about_photo: dict[str, dict[str, str]] = {}
    names: dict[str, str] = {}
    for photo in plan_photos(world, size, "plantnet", PATTERN, PLANTS):
        key = str(FIRST_ID + 13 * photo.rank)
        names[key] = f"{photo.species.scientific_name} L."
        name = digest(world.seed, "plantnet", photo.rank, photo.turn).hex()
        take_photo(world, photo.scene, root / "images" / photo.split / key / f"{name}.jpg")
        # The last two training photos of each round are of one plant.
        observation = photo.turn - (photo.turn % len(PATTERN) == len(PATTERN) - 1)
        about_photo[name] = {
            "obs_id": str(1_000_000 + 1_000 * photo.rank + observation),
            "species_id": key,
            "organ": ORGANS[photo.turn % len(ORGANS)],
            "author": "fieldmark",
            "license": "cc0",
            "split": photo.split,
        }
    index = {str(number): key for number, key in enumerate(sorted(names))}
    for path, content in ((METADATA, about_photo), (NAMES, names), (INDEX, index)):
        (root / path).write_text(json.dumps(content), encoding="utf-8")
