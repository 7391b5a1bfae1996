"""How do photos of the world get to disk and back?

ROOT/photos.csv        a row a photo: id, image, split, label, unit, question, answer, truth
ROOT/species.csv       ranks, names, traits and description of every species
ROOT/images/*.jpg
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Iterable
from pathlib import Path

import polars as pl
from PIL import Image

from fieldmark.data._dataset import Finding, Info, finish_table, need
from fieldmark.data.world._collection import QUESTIONS, plan_items
from fieldmark.data.world._world import Photo, World
from fieldmark.errors import DataError, UsageError

INFO = Info(
    title="The synthetic natural world",
    licence="CC0-1.0",
    citation="fieldmark contributors: the synthetic natural world of fieldmark.",
    layout=(
        "photos.csv      one row per photo, with everything that is true of it\n"
        "species.csv     ranks, names, traits and description of every species\n"
        "images/*.jpg    256 × 256 pixels"
    ),
)
_FORMATS = {".jpg": "JPEG", ".jpeg": "JPEG", ".png": "PNG"}
_NEEDED = ("id", "image", "split", "label", "unit", "question", "answer")
_OURS = re.compile(rf"({'|'.join(each.name for each in QUESTIONS)})-\d{{4,}}\.jpg")


def write_photo(photo: Photo, path: Path, quality: int = 90) -> None:
    """Writes JPEG or PNG, as the suffix says; the file appears whole or not at all."""
    kind = _FORMATS.get(path.suffix.lower())
    if kind is None:
        raise UsageError(f"{path}  has no known suffix: expected one of {', '.join(_FORMATS)}.")
    buffer = io.BytesIO()
    photo.image.save(buffer, kind, quality=quality)
    _write(path, buffer.getvalue())


def _write(path: Path, data: bytes) -> None:
    passing = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        passing.write_bytes(data)
        passing.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            passing.unlink(missing_ok=True)
        raise DataError(f"{path}  cannot be written: {error.strerror or error}.") from error


def make(root: Path, world: World, size: int) -> None:
    """Writes about `size` photos; the same world and size give the same bytes again."""
    rows: list[dict[str, object]] = []
    for number, item in enumerate(plan_items(world, size)):
        photo = world.photo(item.scene)
        name = f"{item.question}-{number:04d}"
        write_photo(photo, root / "images" / f"{name}.jpg")
        rows.append(
            {
                "id": name,
                "image": f"images/{name}.jpg",
                "split": item.split,
                "label": photo.truth["scientific_name"],
                "unit": photo.truth["unit"],
                "question": item.question,
                "answer": photo.truth[item.answer],
                **photo.truth,
            }
        )
    _remove_old(root, {row["id"] for row in rows})
    _write(root / "species.csv", _csv(_species_rows(world)))
    _write(root / "photos.csv", _csv(rows))


def _remove_old(root: Path, kept: set[object]) -> None:
    """Photos of an earlier, larger collection; nothing whose name is not ours."""
    for path in (root / "images").glob("*.jpg"):
        if _OURS.fullmatch(path.name) and path.stem not in kept:
            path.unlink()


def _csv(rows: list[dict[str, object]]) -> bytes:
    return pl.DataFrame(rows, infer_schema_length=None).write_csv().encode()


def _species_rows(world: World) -> list[dict[str, object]]:
    return [
        {
            "index": each.index,
            **each.ranks,
            "scientific_name": each.scientific_name,
            "common_name": each.common_name,
            **each.traits,
            "description": each.description,
        }
        for each in world.species
    ]


def table(root: Path) -> pl.DataFrame:
    """One row per photo; `question` says which sub-collection it belongs to, `answer` the truth."""
    path = need(root / "photos.csv", "the table of the photos", "world")
    try:
        frame = pl.read_csv(path, infer_schema_length=None)
    except (pl.exceptions.PolarsError, UnicodeDecodeError) as error:
        raise DataError(f"{path}  is not a table: {str(error).splitlines()[0]}") from error
    missing = [each for each in _NEEDED if each not in frame.columns]
    if missing:
        raise DataError(f"{path}:1  has no column {missing[0]!r}: expected {', '.join(_NEEDED)}.")
    if "extras" in frame.columns:
        frame = frame.with_columns(pl.col("extras").cast(pl.String).fill_null(""))
    return finish_table(frame, path)


def check(root: Path) -> list[Finding]:
    """Missing, unreadable and surplus images, and units that lie in two splits."""
    try:
        frame = table(root)
    except DataError as error:
        return [Finding("error", str(error))]
    listed = frame.get_column("image").to_list()
    absent = [each for each in listed if not (root / each).is_file()]
    broken = [each for each in listed if each not in set(absent) and not _is_readable(root / each)]
    present = {
        path.relative_to(root).as_posix() for path in (root / "images").rglob("*") if path.is_file()
    }
    by_unit = frame.group_by("unit").agg(pl.col("split").n_unique())
    torn = by_unit.filter(pl.col("split") > 1).get_column("unit").to_list()
    findings = [
        *_found("error", "images that are missing", absent),
        *_found("error", "images that cannot be read", broken),
        *_found("error", "units that lie in more than one split", torn),
        *_found("warning", "files in images/ that are not in photos.csv", present - set(listed)),
    ]
    if not (root / "species.csv").is_file():
        findings.append(
            Finding("warning", f"{root / 'species.csv'}  is missing: species have no descriptions.")
        )
    return findings or [Finding("note", f"{len(listed)} photos, all there and readable.")]


def _found(level: str, what: str, names: Iterable[str]) -> list[Finding]:
    shown = sorted(names)
    if not shown:
        return []
    more = ", …" if len(shown) > 3 else ""
    return [Finding(level, f"{what}: {len(shown)} ({', '.join(shown[:3])}{more}).")]


def _is_readable(path: Path) -> bool:
    """Decodes the whole file, at an eighth of its size, which finds truncation as well."""
    try:
        with Image.open(path) as image:
            image.draft("RGB", (32, 32))
            image.load()
    except (OSError, SyntaxError, ValueError):
        return False
    return True
