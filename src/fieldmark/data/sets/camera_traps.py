"""IDLE-OO camera traps: five small balanced test sets drawn from LILA BC.

    set              desert-lion, ENA24, island, ohio-small-animals or orinoquia; a benchmark each,
                     the published score is the mean of the five
    label            the animal's common name as the file has it, lower case; where two animals of
                     a set share one, with the scientific name: `mouse (mus musculus)`
    kingdom … species   the ranks (species is the epithet), null where the file has none: animals
                     of `island` are often known as `bird` or `crab` only
    scientific_name, common_name   as the file has them, the first with a capital
    unit             the sequence: shots of one passing animal; null where nothing names it
    location         the camera, where it is known
    original_label   what the source called it

The files are in lower case. Ranks and scientific names are written here as biologists do
(Mammalia, Tamias striatus), because class texts are made of them; labels stay as they are. A class
is what differs in ranks or common name, as in the published protocol, so `petrel` and `petrel
chick` (one image) are two. All images have the split test.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from fieldmark.data._check import (
    as_findings,
    class_findings,
    image_findings,
    rank_findings,
    set_findings,
)
from fieldmark.data._dataset import Finding, Info, Source, find_home, finish_table
from fieldmark.data._make import photo_key, pick, species_pool, write_rows
from fieldmark.data.read.table import (
    capitalised,
    is_given,
    read_annotations,
    refuse_odd,
    with_optional,
)
from fieldmark.errors import DataError
from fieldmark.taxa import RANKS
from fieldmark.world import Scene, write_photo

if TYPE_CHECKING:
    from fieldmark.world import Species, World

PUBLISHED = {
    "desert-lion": (352, 32),
    "ENA24": (1_120, 20),
    "island": (310, 33),
    "ohio-small-animals": (468, 39),
    "orinoquia": (336, 28),
}
"""set → images, classes"""
TABLE_HOMES = (".", "data/test")
IMAGE_HOMES = ("data/test", "images", ".")
_FILE_RANKS = tuple("cls" if rank == "class" else rank for rank in RANKS)
NEEDED = ("filepath", "scientific_name", "common_name", *_FILE_RANKS)
OPTIONAL = ("image_id", "sequence_id", "location_id", "original_label")
FILE_COLUMNS = (
    "url_gcp", "url_aws", "url_azure", "image_id", "sequence_id", "location_id", "frame_num",
    "original_label", "scientific_name", "common_name", *_FILE_RANKS, "filepath",
)  # fmt: skip
_HUB = "https://huggingface.co/datasets/imageomics/IDLE-OO-Camera-Traps"

INFO = Info(
    title="IDLE-OO Camera Traps",
    licence="each source's own, at lila.science; CDLA-Permissive-1.0 for ENA24, island, orinoquia",
    citation="Campolongo, Gu, Zhang. IDLE-OO Camera Traps. Imageomics Institute, 2025. "
    "doi:10.57967/hf/5764. With: Gu et al. BioCLIP 2: Emergent Properties from Scaling "
    "Hierarchical Contrastive Learning. 2025. arXiv:2505.23883",
    homepage=_HUB,
    layout="ROOT/SET-balanced.csv  (any of desert-lion, ENA24, island, ohio-small-animals, "
    "orinoquia)\nROOT/data/test/SET/*  (or ROOT/images/SET, ROOT/SET)",
    sources=(
        *[Source(url=f"{_HUB}/resolve/main/{name}-balanced.csv") for name in PUBLISHED],
        Source(
            steps="Run `hf download imageomics/IDLE-OO-Camera-Traps --repo-type dataset --include "
            "'data/test/*' --local-dir ROOT`. Or fetch the originals, which are larger: `fieldmark "
            "data get --urls ROOT/SET-balanced.csv --out ROOT` for each set."
        ),
    ),
)


def table(root: Path) -> pl.DataFrame:
    """One row per image of the sets that are there, in the order of the files."""
    files = {name: _file(root, name) for name in PUBLISHED}
    parts = [_read(root, name, path) for name, path in files.items() if path.is_file()]
    if not parts:
        raise DataError(
            f"{root}  has none of the tables {', '.join(path.name for path in files.values())}: "
            "expected at least one. `fieldmark datasets camera_traps` shows layout and sources."
        )
    return finish_table(pl.concat(parts), root)


@as_findings
def check(root: Path) -> Iterator[Finding]:
    """Sets that are missing, counts, empty ranks, shared common names, unreadable images."""
    rows = table(root)
    there = set(rows.get_column("set"))
    for name in PUBLISHED:
        if name not in there:
            text = f"{_file(root, name)}  is missing: the published mean is of all five sets."
            yield Finding("warning", text)
    yield from set_findings(rows, {name: PUBLISHED[name] for name in PUBLISHED if name in there})
    for _, part in rows.group_by("set", maintain_order=True):
        yield from rank_findings(part, RANKS, "note")
        yield from class_findings(part, single_level="note")
    yield from image_findings(root, rows.get_column("image"))


# --- reading ---


def _file(root: Path, name: str) -> Path:
    file = f"{name}-balanced.csv"
    return find_home(root, TABLE_HOMES, file) / file


def _read(root: Path, name: str, path: Path) -> pl.DataFrame:
    frame = with_optional(read_annotations(path, NEEDED), OPTIONAL)
    refuse_odd(path, frame, {"filepath": (is_given, "the path of an image")})
    frame = frame.with_columns(pl.col(pl.String).str.strip_chars().replace("", None))
    named = pl.coalesce("common_name", "scientific_name", "original_label")
    rule = (named.is_not_null(), "a name here or in scientific_name")
    refuse_odd(path, frame, {"common_name": rule})
    frame = frame.with_columns(label=named)
    home = find_home(root, IMAGE_HOMES, name).relative_to(root).as_posix()
    folder = "" if home == "." else f"{home}/"
    # ENA24 and desert-lion name no sequences, but the paths of desert-lion's originals do. Cameras
    # are no units: their photos of other days show other animals.
    in_path = pl.col("image_id").str.extract(r"/(\w+_seq_[0-9a-f-]+)/")
    return frame.select(
        pl.col("filepath").alias("id"),
        pl.format(f"{folder}{{}}", "filepath").alias("image"),
        pl.lit("test").alias("split"),
        _label(),
        pl.coalesce(_place("sequence_id"), in_path).alias("unit"),
        pl.lit(name).alias("set"),
        *[
            capitalised(column).alias(rank)
            for rank, column in zip(RANKS[:-1], _FILE_RANKS, strict=False)
        ],
        pl.col("species").str.to_lowercase(),
        capitalised("scientific_name"),
        "common_name",
        _place("location_id").alias("location"),
        "original_label",
    )


def _label() -> pl.Expr:
    ranks = pl.concat_str([pl.col(rank).fill_null("") for rank in _FILE_RANKS], separator="|")
    is_shared = ranks.n_unique().over("label") > 1
    lowest = pl.coalesce("scientific_name", *reversed(_FILE_RANKS), pl.lit("no rank"))
    named = pl.format("{} ({})", "label", lowest)
    return pl.when(is_shared).then(named).otherwise("label").alias("label")


def _place(column: str) -> pl.Expr:
    """`Ohio Small Animals : A1E`, or null where it is `… : unknown` or the source's name alone."""
    text = pl.col(column)
    is_known = text.str.contains(" : ", literal=True) & ~text.str.ends_with(": unknown")
    return pl.when(is_known).then(text)


# --- making ---

ANIMALS = ("mammal", "bird", "lizard", "whale", "fish", "beetle", "spider", "butterfly")
SPECIES_A_SET = 4
IMAGES_A_SPECIES = 8
ISLAND, OHIO = "island", "ohio-small-animals"
_HASHES = ("hashsum_original", "hashsum_resized")


@dataclass(frozen=True, slots=True)
class _Animal:
    """What a file says of a class."""

    species: Species
    common_name: str
    n_ranks: int = len(RANKS)
    """how many of the seven are known"""
    n_images: int = 0
    """0 = as many as the others"""


def make(root: Path, world: World, size: int) -> None:
    """All five sets, a fifth of `size` each: four animals or more, at least two images of each.

    In `island` one animal is known to its class only, one has a single image; in
    `ohio-small-animals` two animals share a common name and photos come in sequences.
    """
    pool = species_pool(world, "camera_traps", SPECIES_A_SET, *ANIMALS)
    n_species = max(SPECIES_A_SET, min(len(pool), size // IMAGES_A_SPECIES) // len(PUBLISHED))
    n_each = max(2, size // len(PUBLISHED) // n_species)
    for number, name in enumerate(PUBLISHED):
        indices = [pool[(number * n_species + k) % len(pool)] for k in range(n_species)]
        chosen = [world.species[index] for index in indices]
        rows = [
            _made_row(root, world, name, animal, turn)
            for animal in _animals(name, chosen)
            for turn in range(animal.n_images or n_each)
        ]
        last = ("filename", "md5") if name == OHIO else ("uuid", *_HASHES)
        write_rows(root / f"{name}-balanced.csv", (*FILE_COLUMNS, *last), rows)


def _animals(name: str, chosen: list[Species]) -> list[_Animal]:
    animals = [_Animal(species, species.common_name) for species in chosen]
    if name == ISLAND:
        animals[0] = _Animal(chosen[0], chosen[0].kind, n_ranks=3)
        animals.append(_Animal(chosen[0], f"young {chosen[0].kind}", n_ranks=3, n_images=1))
    if name == OHIO:
        animals[1] = _Animal(chosen[1], chosen[0].common_name)
    return animals


def _made_row(root: Path, world: World, name: str, animal: _Animal, turn: int) -> dict[str, object]:
    species = animal.species
    parts = ("camera_traps", name, animal.common_name, species.index, turn)
    key = photo_key(world, *parts)
    is_ohio = name == OHIO
    file = f"OH_sm_animals_{key.hex[:8]}.JPG" if is_ohio else f"{key}.png"
    path = root / IMAGE_HOMES[0] / name / file
    burst = pick(10**6, world.seed, "camera_traps", name, species.index, turn // 2)
    condition = "night" if pick(3, world.seed, "camera_traps", name, burst) == 0 else "day"
    scene = Scene(
        species=species.index,
        individual=turn // 2,
        stage="juvenile" if animal.n_images else "adult",
        burst=burst,
        shot=turn % 2,
        condition=condition,
        camera=pick(9, world.seed, "camera_traps", name, burst, "camera"),
    )
    write_photo(world.photo(scene), path)
    rank_of = {rank: species.ranks[rank].lower() for rank in RANKS[: animal.n_ranks]}
    is_whole = animal.n_ranks == len(RANKS)
    return {
        **dict(zip(_FILE_RANKS, [rank_of.get(rank) for rank in RANKS], strict=True)),
        "image_id": f"{name} : {file}",
        "sequence_id": f"{name} : location_{scene.camera}_sequence_index_{burst:06}"
        if is_ohio
        else f"{name} : unknown",
        "location_id": f"{name} : {scene.camera}" if is_ohio else name,
        "frame_num": scene.shot if is_ohio else -1,
        "original_label": animal.common_name.replace(" ", "_"),
        "scientific_name": species.scientific_name.lower() if is_whole else rank_of["class"],
        "common_name": animal.common_name,
        "filepath": f"{name}/{file}",
        "uuid": key,
        "filename": file,
        **dict.fromkeys(("md5", *_HASHES), hashlib.md5(path.read_bytes()).hexdigest()),
    }
