"""Synthetic copy of INQUIRE.

Queries ask what is true of the world's photos: which species, how it looks, what it does, where it
is. Both forms are written: rows to rerank, and lists of queries and answers with the embeddings of
a gallery, which are random. One query of test has no relevant photo among its rows, one no iconic
group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from fieldmark import draws
from fieldmark.data._make import encode_photo, need_species, photo_key, write_rows
from fieldmark.data.read.gallery import ARRAYS, FOLDER, METADATA, PATH
from fieldmark.data.read.hub_parquet import write_part
from fieldmark.data.sets.world import plan_photos
from fieldmark.taxa import RANKS
from fieldmark.world import Scene

if TYPE_CHECKING:
    from fieldmark.world import World

QUERIES = {split: f"inquire_queries_{split}.csv" for split in ("val", "test")}
ANNOTATIONS = "inquire_annotations.csv"
QUERY_COLUMNS = ("", "query_id", "query_text", "supercategory", "category", "iconic_group")
MOST_ROWS = 100
"""photos to rerank for a query, as published"""
LEAST_ROWS = 8
MODELS = {"made-16": ("float16", 16), "made-32": ("float32", 24)}
N_OTHERS = 150
"""vectors of the gallery that belong to no photo of ours"""
N_FILES = {"validation": 1, "test": 2}
HUB = {"val": "validation", "test": "test"}
ICONIC = {
    "bird": "Birds", "mammal": "Mammals", "whale": "Mammals", "fish": "Fish", "lizard": "Reptiles",
    "beetle": "Insects", "butterfly": "Insects", "spider": "Arachnids", "herb": "Plants",
    "tree": "Plants", "mushroom": "Fungi",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class QueryKind:
    """A way to ask: the columns of a photo's truth that must be as in another photo."""

    supercategory: str
    category: str
    columns: tuple[str, ...]
    text: str
    """with the columns' values filled in"""
    n: int
    """queries of this kind"""
    common: Mapping[str, str]
    """values that are not worth a question"""


KINDS = (
    QueryKind("Species", "Species ID", ("common_name",), "A {common_name}", 3, {}),
    QueryKind(
        "Behavior",
        "Miscellaneous Behavior",
        ("body_plan", "behaviour"),
        "{body_plan} {behaviour}",
        4,
        {"behaviour": "standing"},
    ),
    QueryKind(
        "Context",
        "Animal Structures and Habitats",
        ("body_plan", "background"),
        "A {body_plan} in {background} habitat",
        3,
        {},
    ),
    QueryKind(
        "Appearance",
        "Life Cycle and Development",
        ("body_plan", "stage"),
        "{stage} {body_plan}",
        2,
        {"stage": "adult"},
    ),
    QueryKind(
        "Appearance",
        "Health and Disease",
        ("body_plan", "health"),
        "{body_plan} that is {health}",
        2,
        {"health": "healthy"},
    ),
)


@dataclass(frozen=True, slots=True)
class MadePhoto:
    """A photo of iNaturalist, as far as the lists know it."""

    number: int
    path: str
    """without `.jpg`"""
    scene: Scene
    truth: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class MadeQuery:
    number: int
    split: str
    text: str
    kind: QueryKind
    iconic_group: str
    relevant: tuple[MadePhoto, ...]
    shown: tuple[MadePhoto, ...]
    """to be reranked, best guess first"""


def make(root: Path, world: World, size: int) -> None:
    """Queries about `size` photos, up to a hundred of which are to be reranked for each."""
    need_species(world, "inquire")
    photos = [
        _photo(world, number, one.scene) for number, one in enumerate(plan_photos(world, size))
    ]
    n_rows = min(MOST_ROWS, max(LEAST_ROWS, size // 4))
    queries = _queries(world, photos, n_rows)
    _write_rows_to_rerank(root, world, queries)
    _write_lists(root, queries)
    _write_galleries(root, world, [photo.path for photo in photos])


def _photo(world: World, number: int, scene: Scene) -> MadePhoto:
    truth = world.photo(scene).truth
    taxon = "_".join(str(truth[rank]) for rank in RANKS)
    name = photo_key(world, "inquire", number)
    path = f"train/{scene.species:05}_{taxon}/{name}"
    return MadePhoto(100_000 + number, path, scene, truth)


# --- queries ---


def _queries(world: World, photos: Sequence[MadePhoto], n_rows: int) -> list[MadeQuery]:
    """Every fourth is for validation."""
    kinds_and_values = [(kind, values) for kind in KINDS for values in _values(world, kind, photos)]
    queries = []
    for number, (kind, values) in enumerate(kinds_and_values):
        truth = dict(zip(kind.columns, values, strict=True))
        relevant = [one for one in photos if all(one.truth[key] == truth[key] for key in truth)]
        chosen = {photo.number for photo in relevant}
        others = [photo for photo in photos if photo.number not in chosen]
        is_hopeless = number == 1
        best = [] if is_hopeless else relevant[: n_rows // 2]
        drawn = _drawn(others, n_rows - len(best), world, number)
        shown = _drawn([*best, *drawn], n_rows, world, number)
        text = kind.text.format(**{key: value.replace("_", " ") for key, value in truth.items()})
        group = "" if number == 2 else ICONIC.get(str(relevant[0].truth["body_plan"]), "Combo")
        split = "val" if number % 4 == 3 else "test"
        queries.append(
            MadeQuery(
                3 + 7 * number, split, text.capitalize(), kind, group, tuple(relevant), tuple(shown)
            )
        )
    return queries


def _values(world: World, kind: QueryKind, photos: Sequence[MadePhoto]) -> list[tuple[str, ...]]:
    """Combinations that some photos have, and not all."""
    combinations = {
        tuple(str(photo.truth[column]) for column in kind.columns)
        for photo in photos
        if all(photo.truth[column] != value for column, value in kind.common.items())
    }
    names = {"\0".join(values): values for values in combinations}
    chosen = draws.shuffled(names, world.seed, "inquire", kind.category)[: kind.n]
    return [names[name] for name in sorted(chosen)]


def _drawn(photos: Sequence[MadePhoto], n: int, world: World, number: int) -> list[MadePhoto]:
    by_path = {photo.path: photo for photo in photos}
    chosen = draws.shuffled(by_path, world.seed, "inquire rows", number)[:n]
    return [by_path[path] for path in chosen]


# --- files ---


def _write_rows_to_rerank(root: Path, world: World, queries: Sequence[MadeQuery]) -> None:
    images: dict[int, bytes] = {}
    rows: dict[str, list[dict[str, object]]] = {word: [] for word in N_FILES}
    for query in queries:
        relevant = {photo.number for photo in query.relevant}
        for rank, photo in enumerate(query.shown):
            if photo.number not in images:
                images[photo.number] = encode_photo(world, photo.scene)
            rows[HUB[query.split]].append(
                _hub_row(query, photo, photo.number in relevant, images[photo.number], rank)
            )
    for word, n_files in N_FILES.items():
        length = -(-len(rows[word]) // n_files)
        for number in range(n_files):
            part = pl.DataFrame(rows[word][number * length : (number + 1) * length])
            write_part(root / "data" / f"{word}-{number:05}-of-{n_files:05}.parquet", part)


def _hub_row(
    query: MadeQuery, photo: MadePhoto, is_relevant: bool, image: bytes, rank: int
) -> dict[str, object]:
    return {
        "image": {"bytes": image, "path": f"{photo.number}.jpg"},
        "query": query.text,
        "relevant": int(is_relevant),
        "clip_score": 0.4 - rank / 1000,
        "inat24_image_id": photo.number,
        "inat24_file_name": f"{photo.path}.jpg",
        "supercategory": query.kind.supercategory,
        "category": query.kind.category,
        "iconic_group": query.iconic_group,
        "inat24_species_id": photo.scene.species,
        "inat24_species_name": photo.truth["scientific_name"],
        "latitude": round(draws.number("latitude", photo.path) % 18_000 / 100 - 90, 2),
        "longitude": round(draws.number("longitude", photo.path) % 36_000 / 100 - 180, 2),
        "location_uncertainty": 10.0,
        "date": f"2021-{photo.number % 12 + 1:02}-{photo.number % 28 + 1:02}",
        "license": "CC0-1.0",
        "rights_holder": "nobody",
    }


def _write_lists(root: Path, queries: Sequence[MadeQuery]) -> None:
    for split in HUB:
        rows = [
            (
                number,
                one.number,
                one.text,
                one.kind.supercategory,
                one.kind.category,
                one.iconic_group,
            )
            for number, one in enumerate(queries)
            if one.split == split
        ]
        write_rows(root / QUERIES[split], QUERY_COLUMNS, rows)
    answers = [
        (query.number, photo.number, f"{photo.path}.jpg")
        for query in queries
        for photo in query.relevant
    ]
    write_rows(root / ANNOTATIONS, ("query_id", "image_id", "image_path"), answers)


def _write_galleries(root: Path, world: World, paths: Sequence[str]) -> None:
    """Two models, two files each; a third of the vectors is in the second."""
    others = [f"train/99999_other/{number:06}" for number in range(N_OTHERS)]
    names = draws.shuffled([*paths, *others], world.seed, "gallery")
    cut = len(names) * 2 // 3
    for model, (dtype, dim) in MODELS.items():
        drawn = draws.generator(world.seed, "gallery", model).standard_normal((len(names), dim))
        vectors = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
        folder = root / FOLDER / model
        (folder / ARRAYS).mkdir(parents=True, exist_ok=True)
        (folder / METADATA).mkdir(parents=True, exist_ok=True)
        for number, part in enumerate((slice(0, cut), slice(cut, None))):
            np.save(folder / ARRAYS / f"{ARRAYS}_{number}.npy", vectors[part].astype(dtype))
            table = pl.DataFrame({PATH: names[part]})
            table.write_parquet(folder / METADATA / f"{METADATA}_{number}.parquet")
