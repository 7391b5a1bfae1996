"""The synthetic natural world as a dataset: photos of imaginary creatures and all that is true.

    ROOT/photos.csv     a row a photo: id, image, split, label, unit, question, answer, truth
    ROOT/species.csv    ranks, names, traits and description of every species
    ROOT/wiki.xml.bz2   dump of an encyclopedia of the species, as MediaWiki writes one
    ROOT/images/*.jpg

Seven sub-collections, so that all questions can be asked of 300 photos or of 1,500. Every answer to
a question gets the same number of photos of the same species, so that only the answer differs. A
burst is one unit and lies in one split.
"""

from __future__ import annotations

import bz2
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from fieldmark.data._check import as_findings, image_findings, stray_findings, torn_findings
from fieldmark.data._dataset import Finding, Info, finish_table, need
from fieldmark.errors import DataError
from fieldmark.files import write_file
from fieldmark.world import Scene, write_photo
from fieldmark.world.wiki import export_xml, wiki_pages

if TYPE_CHECKING:
    from fieldmark.world import Species, World

INFO = Info(
    title="The synthetic natural world",
    licence="CC0-1.0",
    citation="fieldmark contributors: the synthetic natural world of fieldmark.",
    layout=(
        "photos.csv      one row per photo, with everything that is true of it\n"
        "species.csv     ranks, names, traits and description of every species\n"
        "wiki.xml.bz2    dump of an encyclopedia of the species, as MediaWiki writes one\n"
        "images/*.jpg    256 × 256 pixels"
    ),
)
_NEEDED = ("id", "image", "split", "label", "unit", "question", "answer")


def table(root: Path) -> pl.DataFrame:
    """One row per photo; `question` says which sub-collection it belongs to, `answer` the truth."""
    path = need(root / "photos.csv", "the table of the photos", "world")
    try:
        frame = pl.read_csv(path, infer_schema_length=None)
    except (pl.exceptions.PolarsError, UnicodeDecodeError) as error:
        raise DataError(f"{path}  is not a table: {str(error).splitlines()[0]}") from error
    missing = [name for name in _NEEDED if name not in frame.columns]
    if missing:
        raise DataError(f"{path}:1  has no column {missing[0]!r}: expected {', '.join(_NEEDED)}.")
    if "extras" in frame.columns:
        frame = frame.with_columns(pl.col("extras").cast(pl.String).fill_null(""))
    return finish_table(frame, path)


@as_findings
def check(root: Path) -> list[Finding]:
    """Missing, unreadable and surplus images, and units that lie in two splits."""
    frame = table(root)
    listed = frame.get_column("image").to_list()
    findings = image_findings(root, listed)
    findings += torn_findings(frame, "unit", level="error")
    named = {Path(image).name for image in listed}
    findings += stray_findings(root / "images", named, "images", level="warning")
    if not (root / "species.csv").is_file():
        text = f"{root / 'species.csv'}  is missing: species have no descriptions."
        findings.append(Finding("warning", text))
    return findings or [Finding("note", f"{len(listed)} photos, all there and readable.")]


def make(root: Path, world: World, size: int) -> None:
    """Writes about `size` photos; the same world and size give the same bytes again."""
    write_collection(root, world, plan_photos(world, size))


def write_collection(root: Path, world: World, plan: Iterable[CollectionPhoto]) -> None:
    """Takes the photos and writes all files; those of an earlier, larger collection go."""
    rows: list[dict[str, object]] = []
    for number, planned in enumerate(plan):
        photo = world.photo(planned.scene)
        name = f"{planned.question}-{number:04d}"
        write_photo(photo, root / "images" / f"{name}.jpg")
        rows.append(
            {
                "id": name,
                "image": f"images/{name}.jpg",
                "split": planned.split,
                "label": photo.truth["scientific_name"],
                "unit": photo.truth["unit"],
                "question": planned.question,
                "answer": photo.truth[planned.answer],
                **photo.truth,
            }
        )
    _remove_old(root, {str(row["id"]) for row in rows})
    write_file(root / "species.csv", _csv(_species_rows(world)))
    write_file(root / "photos.csv", _csv(rows))
    write_file(root / "wiki.xml.bz2", bz2.compress(export_xml(wiki_pages(world).pages)))


def _remove_old(root: Path, kept: set[str]) -> None:
    """Photos of an earlier, larger collection; nothing whose name is not ours."""
    names = {part.name for part in SUBCOLLECTIONS} | {name.rpartition("-")[0] for name in kept}
    ours = re.compile(rf"({'|'.join(sorted(names))})-\d{{4,}}\.jpg")
    for path in (root / "images").glob("*.jpg"):
        if ours.fullmatch(path.name) and path.stem not in kept:
            path.unlink()


def _csv(rows: list[dict[str, object]]) -> bytes:
    return pl.DataFrame(rows, infer_schema_length=None).write_csv().encode()


def _species_rows(world: World) -> list[dict[str, object]]:
    return [
        {
            "index": species.index,
            **species.ranks,
            "scientific_name": species.scientific_name,
            "common_name": species.common_name,
            **species.traits,
            "description": species.description,
        }
        for species in world.species
    ]


# --- which photos are taken ---

_LAND = ("bird", "mammal")
_BEHAVIOURS = ("standing", "walking", "running", "grazing", "vocalizing", "resting")
_HABITATS = ("forest", "meadow", "desert", "wetland", "tundra", "savanna")
_BURSTS_A_QUESTION = 10000  # numbers kept apart, so that no unit belongs to two questions


@dataclass(frozen=True, slots=True)
class CollectionPhoto:
    """One photo to take."""

    question: str
    split: str
    answer: str
    """truth column that answers the question"""
    scene: Scene


@dataclass(frozen=True, slots=True)
class Subcollection:
    """The photos of one question."""

    name: str
    answer: str
    share: float
    """of the collection's photos"""
    variants: Callable[[World], Sequence[Scene]]
    """one scene per answer and species; bursts, shots and individuals are filled in"""
    n_group: int
    """variants that belong together: all answers for one species"""


def _species(world: World, *plans: str) -> Sequence[Species]:
    return world.of_plan(*plans) or world.species


def _varied(
    field: str, values: Sequence[object], n_species: int, *plans: str
) -> Callable[[World], list[Scene]]:
    """Scenes of the first species of the body plans, one for each value of a scene's field."""
    return (
        lambda world: [
            replace(Scene(one.index), **{field: value})  # type: ignore[arg-type]
            for one in _species(world, *plans)[:n_species]
            for value in values
        ]
    )


def _individuals(world: World) -> list[Scene]:
    candidates = _species(world, "mammal", "fish", "whale")
    patterned = [one for one in candidates if one.traits["pattern"] != "plain"] or world.species
    return [Scene(one.index, individual=n) for one in patterned[:3] for n in range(4)]


SUBCOLLECTIONS = (
    Subcollection(
        "species",
        "scientific_name",
        0.34,
        lambda world: [Scene(one.index) for one in world.species[:24]],
        4,
    ),
    Subcollection(
        "night",
        "scientific_name",
        0.16,
        lambda world: [Scene(one.index) for one in _species(world, *_LAND)[:8]],
        4,
    ),
    Subcollection("individual", "individual", 0.14, _individuals, 4),
    Subcollection(
        "stage", "stage", 0.09, _varied("stage", ("adult", "juvenile"), 6, *_LAND, "lizard"), 2
    ),
    Subcollection("behaviour", "behaviour", 0.1, _varied("behaviour", _BEHAVIOURS, 4, *_LAND), 6),
    Subcollection("habitat", "background", 0.09, _varied("background", _HABITATS, 4, *_LAND), 6),
    Subcollection(
        "health",
        "health",
        0.08,
        _varied("sick", (False, True), 6, *_LAND, "herb", "tree", "fish"),
        2,
    ),
)


def plan_photos(world: World, size: int) -> Iterator[CollectionPhoto]:
    """About `size` photos, at least 54; small collections have fewer species, not fewer answers."""
    for number, part in enumerate(SUBCOLLECTIONS):
        yield from _plan_part(world, part, number, round(size * part.share))


def _plan_part(
    world: World, part: Subcollection, number: int, size: int
) -> Iterator[CollectionPhoto]:
    variants = part.variants(world)
    n_variants = max(part.n_group, size // 2)
    variants = variants[: n_variants - n_variants % part.n_group]
    n_shots = 1 if size < 4 * len(variants) else 2
    n_bursts = 2 * max(1, round(size / len(variants) / n_shots / 2))  # even: half for each split
    bursts: dict[int, int] = {}
    for variant, turn in product(variants, range(n_bursts)):
        burst = bursts.get(variant.species, number * _BURSTS_A_QUESTION)
        bursts[variant.species] = burst + 1
        split = "train" if turn % 2 == 0 else "test"
        for shot in range(n_shots):
            scene = replace(variant, burst=burst, shot=shot, frame=turn * 3)
            taken = _taken(part.name, scene, split)
            yield CollectionPhoto(part.name, split, part.answer, taken)


def _taken(question: str, scene: Scene, split: str) -> Scene:
    """The scene as this question has it taken."""
    if question == "individual":
        return scene
    if question == "night":
        scene = replace(scene, condition="day" if split == "train" else "night")
    return replace(scene, individual=scene.burst)
