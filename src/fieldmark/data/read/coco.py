"""COCO annotations of individual animals (Wild Me): one annotation per animal.

    HOME/images/train2022/*.jpg
    HOME/annotations/instances_train2022.json
    ROOT/metadata.csv             optional: path and split of the published closed-set split

In the table

    label         the individual; unknown ones are left out and counted by `check`
    unit          the individual too: photos of one animal share its marks, so their outcomes do
    crop          the animal's box, where the images are not cut to one animal already
    encounter     photos of one animal with less than an hour from each to the next, where the file
                  itself names none: near-twins, which a fair search may leave out
    closed_split  train or test of the published closed-set split, if metadata.csv gives it

Every annotation of an image is an item of its own, not only the first.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from fieldmark.data._check import (
    as_findings,
    count_findings,
    counted,
    image_findings,
    name_some,
    named_findings,
    stray_findings,
)
from fieldmark.data._dataset import Finding, Source, find_home, finish_table, need
from fieldmark.data._make import need_species, pick, species_like, write_rows
from fieldmark.data.read.table import read_json
from fieldmark.draws import digest
from fieldmark.errors import DataError
from fieldmark.world import Scene, write_photo

if TYPE_CHECKING:
    from fieldmark.world import World

UNKNOWN = "____"
"""what the annotations call an animal nobody could name"""
UNKNOWN_NAMES = ("", UNKNOWN, "unknown")
IMAGES = "images/train2022"
ANNOTATIONS = "annotations/instances_train2022.json"
METADATA = "metadata.csv"
ENCOUNTER_GAP = pl.duration(hours=1)


@dataclass(frozen=True, slots=True)
class WildMe:
    """What sets one such dataset apart from the next."""

    name: str
    title: str
    homes: tuple[str, ...]
    """folders below ROOT that may hold images and annotations, in order of preference"""
    builds: tuple[str, ...]
    """kinds or body plans of the world that stand for the animal, in order of preference"""
    category: str
    """what the annotations call the animal"""
    names_are_numbers: bool = False
    """are individuals called `whale007`, or by an id?"""
    is_cut: bool = False
    """are the published images cut to one animal already?"""
    has_dates: bool = True
    n_published: int = 0
    """annotations of the published file; 0 = not compared"""

    @property
    def layout(self) -> str:
        return (
            f"ROOT/{self.homes[0]}/{IMAGES}/*.jpg\nROOT/{self.homes[0]}/{ANNOTATIONS}\n"
            f"ROOT/{METADATA}  (optional: identity, path, split of the published closed-set split)"
        )

    @property
    def archive(self) -> Source:
        """As LILA has it, in three places."""
        name = f"{self.homes[0]}.tar.gz"
        hosts = (
            "https://storage.googleapis.com/public-datasets-lila",
            "https://lilawildlife.blob.core.windows.net/lila-wildlife",
            "https://us-west-2.opendata.source.coop.s3.amazonaws.com/agentmorris/lila-wildlife",
        )
        url, *mirrors = (f"{host}/wild-me/{name}" for host in hosts)
        return Source(url=url, mirrors=tuple(mirrors))

    def table(self, root: Path) -> pl.DataFrame:
        """One row per annotation of a known individual, in the order of the file."""
        named = self.sightings(root).filter(pl.col("label").is_not_null())
        return finish_table(named, _home(root, self) / ANNOTATIONS)

    def sightings(self, root: Path) -> pl.DataFrame:
        """All annotations, those of unknown individuals too: these have no label."""
        home = _home(root, self)
        frame = _flat(home / ANNOTATIONS)
        folder = (home / IMAGES).relative_to(root).as_posix()
        is_alone = pl.len().over("image_id") == 1
        name = pl.col("label").str.strip_chars()
        text = pl.col("date").str.replace("T", " ", literal=True).str.slice(0, 19)
        frame = frame.with_columns(
            id=pl.when(is_alone)
            .then("file_name")
            .otherwise(pl.format("{}#{}", "file_name", "number")),
            image=pl.format(f"{folder}/{{}}", "file_name"),
            crop=pl.when(~is_alone).then("bbox") if self.is_cut else pl.col("bbox"),
            label=pl.when(~name.is_in(UNKNOWN_NAMES)).then(name),
            date=text.str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False),
        )
        frame = frame.with_columns(unit="label", encounter=pl.coalesce("encounter", _encounter()))
        frame = _with_closed_split(root, frame)
        return frame.select(
            "id", "image", "crop", "label", "unit", "viewpoint", "date", "encounter", "closed_split"
        )

    @as_findings
    def check(self, root: Path) -> Iterator[Finding]:
        """What the file leaves out, individuals seen once, and images that cannot be read."""
        every = self.sightings(root)
        rows = self.table(root)
        if self.n_published not in (0, len(every)):
            text = f"{counted(len(every), 'annotation')} where {self.n_published:,} are published."
            yield Finding("note", text)
        n_unknown = len(every) - len(rows)
        text = "of unknown individuals, left out"
        yield from count_findings("note", n_unknown, text, "annotation")
        yield from _crop_findings(rows, self)
        yield from _individual_findings(rows)
        yield from _closed_findings(root, rows)
        named = {image.rpartition("/")[2] for image in every.get_column("image")}
        yield from stray_findings(_home(root, self) / IMAGES, named, IMAGES, by="annotation")
        yield from image_findings(root, rows.get_column("image"))

    def make(self, root: Path, world: World, size: int) -> None:
        """Annotations, images and the closed-set split; exactly `size` images, but at least twelve.

        Individuals of one species, a fifth of them seen once, the others on several days with up to
        four shots each; a few annotations name nobody. `metadata.csv` holds a closed-set split like
        the published ones, where unknown animals have no split.
        """
        need_species(world, self.name)
        species = species_like(world, *self.builds)[0]
        images: list[dict[str, Any]] = []
        animals: list[dict[str, Any]] = []
        for number, seen in enumerate(_sightings(world.seed, max(12, size), self.name)):
            scene = Scene(
                species=species, individual=seen.individual, burst=seen.encounter, shot=seen.shot
            )
            photo = world.photo(scene)
            name = f"{number + 1:012}_{number}.jpg"
            write_photo(photo, root / self.homes[0] / IMAGES / name)
            whole = photo.image.size
            date = seen.date.strftime("%Y-%m-%d %H:%M:%S") if self.has_dates else "NA"
            images.append(_image(number, name, whole, date))
            viewpoint = VIEWPOINTS[pick(3, world.seed, self.name, "viewpoint", seen.encounter)]
            box = (0, 0, *whole) if self.is_cut else _box(photo.truth, whole)
            individual = _name(self, world.seed, seen.individual) if seen.is_known else UNKNOWN
            animals.append(_annotation(number, individual, box, viewpoint))
        content = {
            "info": {"description": "made by fieldmark", "year": 2022},
            "licenses": [{"id": 1, "name": "CC0"}],
            "categories": [{"id": 0, "name": self.category, "supercategory": "animal"}],
            "images": images,
            "annotations": animals,
        }
        path = root / self.homes[0] / ANNOTATIONS
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=1), encoding="utf-8")
        _write_split(root, self, images, animals)


# --- checking ---


def _crop_findings(rows: pl.DataFrame, coco: WildMe) -> Iterator[Finding]:
    crop = pl.col("crop")
    shared = rows.filter(crop.is_not_null() & (pl.len().over("image") > 1))
    if coco.is_cut:
        shared = rows.filter(crop.is_not_null())
    n_shared = shared.get_column("image").n_unique()
    text = "with several animals: each is cut out of it"
    yield from count_findings("note", n_shared, text, "image")
    if not coco.is_cut:
        n_whole = rows.get_column("crop").null_count()
        text = "without a box: the whole image is used"
        yield from count_findings("warning", n_whole, text, "annotation")
    empty = rows.filter((crop.list.get(2) <= 0) | (crop.list.get(3) <= 0)).get_column("id")
    yield from named_findings("error", empty, "without area", "box", "boxes")


def _individual_findings(rows: pl.DataFrame) -> Iterator[Finding]:
    counts = rows.group_by("label").len().sort("label")
    if len(counts) < 2:
        names = name_some(counts.get_column("label").to_list())
        yield Finding("error", f"at least two individuals are needed, found {names}.")
        return
    n_once = counts.filter(pl.col("len") == 1).height
    if n_once:
        n = counted(len(counts), "individual")
        text = f"{n_once} of {n} with only one image: nothing can match it."
        yield Finding("note", text)


def _closed_findings(root: Path, rows: pl.DataFrame) -> Iterator[Finding]:
    n_without = rows.get_column("closed_split").null_count()
    if n_without and (root / METADATA).is_file():
        text = f"{n_without} of {counted(len(rows), 'item')} without a split in {METADATA}."
        yield Finding("warning", text)


# --- reading ---


def _home(root: Path, coco: WildMe) -> Path:
    home = find_home(root, coco.homes, ANNOTATIONS)
    need(home / ANNOTATIONS, f"the annotations of {coco.title}", coco.name)
    return home


def _flat(path: Path) -> pl.DataFrame:
    """One row per annotation with what its image says."""
    content = _read(path)
    images = {image.get("id"): image for image in content["images"]}
    rows = []
    for number, animal in enumerate(content["annotations"]):
        image = images.get(animal.get("image_id"))
        if image is None or "file_name" not in image:
            raise DataError(
                f"{path}  annotation {animal.get('id', number)} is of image "
                f"{animal.get('image_id')!r}, which the file does not list."
            )
        if not _is_box(animal.get("bbox")):
            raise DataError(
                f"{path}  annotation {animal.get('id', number)} has the bbox {animal['bbox']!r}: "
                "expected four numbers (x, y, width, height)."
            )
        encounter = animal.get("encounter_id", image.get("encounter_id"))
        name = animal.get("name")
        rows.append(
            {
                "number": str(animal.get("id", number)),
                "image_id": str(image["id"]),
                "file_name": str(image["file_name"]),
                "label": UNKNOWN if name is None else str(name),
                "bbox": animal.get("bbox"),
                "viewpoint": animal.get("viewpoint"),
                "date": image.get("date_captured"),
                "encounter": None if encounter is None else str(encounter),
            }
        )
    return pl.DataFrame(rows, schema=_SCHEMA)


def _is_box(value: object) -> bool:
    if value is None:
        return True
    is_four = isinstance(value, list) and len(value) == 4
    return is_four and all(isinstance(number, int | float) for number in value)  # type: ignore[attr-defined]


_SCHEMA: dict[str, Any] = {
    "number": pl.String,
    "image_id": pl.String,
    "file_name": pl.String,
    "label": pl.String,
    "bbox": pl.List(pl.Float64),
    "viewpoint": pl.String,
    "date": pl.String,
    "encounter": pl.String,
}


def _read(path: Path) -> dict[str, Any]:
    content = read_json(path)
    for key in ("images", "annotations"):
        rows = content.get(key) if isinstance(content, dict) else None
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise DataError(f"{path}  has no list {key!r} of objects: expected a COCO file.")
    return dict(content)


def _encounter() -> pl.Expr:
    """`whale012@2017-08-07 20:38`: the individual and when the encounter began."""
    gap = pl.col("date").diff().over("label", order_by="date")
    begins = pl.when(gap.is_null() | (gap > ENCOUNTER_GAP)).then("date")
    begin = begins.forward_fill().over("label", order_by="date")
    named = pl.format("{}@{}", "label", begin.dt.strftime("%Y-%m-%d %H:%M"))
    return pl.when(pl.col("date").is_not_null() & pl.col("label").is_not_null()).then(named)


def _with_closed_split(root: Path, frame: pl.DataFrame) -> pl.DataFrame:
    path = root / METADATA
    if not path.is_file():
        return frame.with_columns(closed_split=pl.lit(None, pl.String))
    try:
        published = pl.read_csv(path, infer_schema=False).select("path", "split")
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"{path}  cannot be used: expected the columns path and split.") from error
    by_file = published.select(
        file_name=pl.col("path").str.split("/").list.last(), closed_split="split"
    ).unique("file_name", keep="first")
    return frame.join(by_file, on="file_name", how="left", maintain_order="left")


# --- making ---

VIEWPOINTS = ("top", "left", "right")
LEAST_BOX_PX = 48
_FIRST_DAY = datetime(2016, 6, 1, 8, 0, 0)
Box = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class _Sighting:
    individual: int
    is_known: bool
    encounter: int
    shot: int
    date: datetime


def _name(coco: WildMe, seed: int, individual: int) -> str:
    if coco.names_are_numbers:
        return f"whale{individual:03}"
    return str(uuid.UUID(bytes=digest(seed, coco.name, "name", individual)))


def _box(truth: dict[str, Any], whole: tuple[int, int]) -> Box:
    """The animal's box, made wide enough to hold a picture and kept inside the photo."""
    left, width = _span(truth["box_x"], truth["box_width"], whole[0])
    top, height = _span(truth["box_y"], truth["box_height"], whole[1])
    return left, top, width, height


def _span(start: int, length: int, whole: int) -> tuple[int, int]:
    wide = min(whole, max(LEAST_BOX_PX, length))
    begin = start - (wide - length) // 2
    return min(max(0, begin), whole - wide), wide


def _sightings(seed: int, size: int, name: str) -> list[_Sighting]:
    """Individual by individual until there are enough."""
    sightings: list[_Sighting] = []
    individual = 0
    while len(sightings) < size:
        is_known = individual % 40 != 3
        is_single = individual % 5 == 4 or not is_known
        n_encounters = 1 if is_single else 2 + pick(3, seed, name, "encounters", individual)
        for turn in range(n_encounters):
            day = pick(1100, seed, name, "day", individual, turn)
            start = _FIRST_DAY + timedelta(days=day, minutes=7 * individual % 600)
            n_shots = 1 if is_single else 1 + pick(4, seed, name, "shots", individual, turn)
            sightings += [
                _Sighting(
                    individual,
                    is_known,
                    1000 * individual + turn,
                    shot,
                    start + timedelta(seconds=9 * shot),
                )
                for shot in range(n_shots)
            ]
        individual += 1
    order = sorted(range(len(sightings)), key=lambda n: pick(1 << 40, seed, name, "order", n))
    return [sightings[n] for n in order if n < size]


def _image(number: int, name: str, size: tuple[int, int], date: str) -> dict[str, Any]:
    return {
        "id": number,
        "file_name": name,
        "width": size[0],
        "height": size[1],
        "date_captured": date,
        "license": 1,
    }


def _annotation(number: int, name: str, box: Box, viewpoint: str) -> dict[str, Any]:
    x, y, width, height = box
    right, bottom = x + width, y + height
    return {
        "id": number,
        "image_id": number,
        "category_id": 0,
        "name": name,
        "viewpoint": viewpoint,
        "bbox": [x, y, width, height],
        "area": width * height,
        "segmentation": [[x, y, right, y, right, bottom, x, bottom]],
        "iscrowd": 0,
    }


def _write_split(
    root: Path, coco: WildMe, images: list[dict[str, Any]], animals: list[dict[str, Any]]
) -> None:
    """Every fifth photo of an individual that has several is for the test."""
    n_seen: dict[str, int] = {}
    dates = ("date",) if coco.has_dates else ()
    rows: list[tuple[object, ...]] = []
    for number, (image, animal) in enumerate(zip(images, animals, strict=True)):
        name = str(animal["name"])
        n_seen[name] = n_seen.get(name, 0) + 1
        split = "test" if n_seen[name] % 5 == 2 else "train"
        path = f"{coco.homes[0]}/{IMAGES}/{image['file_name']}"
        date = (image["date_captured"],) if coco.has_dates else ()
        is_known = name != UNKNOWN
        identity = name if is_known else "unknown"
        rows.append((number, number, identity, path, *date, split if is_known else ""))
    write_rows(root / METADATA, ("", "image_id", "identity", "path", *dates, "split"), rows)
