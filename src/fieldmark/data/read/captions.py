"""Image–caption pairs listed in one table: read, checked, fetched, and made.

    ROOT/FILE               blank, id, source_url, captions, md5
    ROOT/images/{id}.jpg    or in ROOT, or in a folder that is named as the set or its file

In the table of such a dataset

    split       "test": all rows are asked about
    label       what stands before the caption's first comma, the species, underscores as spaces;
                null where there is no comma
    caption     the text as written, without spaces around it
    source_url, md5    as written, null where the file has none

Every row of the file is kept, whether its image is there or not: links die, and `--bad-images skip`
leaves such rows out and counts them. Rows may share a caption, or an image.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import polars as pl

from fieldmark.data._check import (
    as_findings,
    count_findings,
    counted,
    file_digest,
    image_findings,
    named_findings,
    published_findings,
)
from fieldmark.data._dataset import Finding, Source, finish_table, need
from fieldmark.data._make import PlannedPhoto, pick, plan_photos, write_rows
from fieldmark.data.read.table import (
    is_given,
    read_annotations,
    refuse_odd,
    refuse_twins,
    with_optional,
)
from fieldmark.world import write_photo

if TYPE_CHECKING:
    from fieldmark.world import World

HEADER = ("", "id", "source_url", "captions", "md5")
IMAGES = "images"
_OPTIONAL = ("source_url", "md5")
_NAME = r"^[^/\\\x00]*[^/\\\x00.][^/\\\x00]*$"
_MD5 = r"^[0-9a-fA-F]{32}$"


@dataclass(frozen=True, slots=True)
class CaptionSet:
    """What sets one published list of captions apart from another."""

    name: str
    file: str
    n_rows: int
    n_species: int
    n_captions: int
    """different ones"""
    plans: tuple[str, ...]
    """body plans that a made copy shows"""
    shares: str
    """what several rows have in common: captions, which name the bird as `Aberts_Towhee`, or
    images, whose captions begin with a scientific name
    """
    address: str
    """of a made copy's images; `{id}` and `{name}` are filled in"""

    def table(self, root: Path) -> pl.DataFrame:
        """One row per row of the file, in its order."""
        path = need(root / self.file, "the table of captions", self.name)
        frame = with_optional(read_annotations(path, ("id", "captions")), _OPTIONAL)
        texts = pl.col("id", "captions", *_OPTIONAL).str.strip_chars()
        frame = frame.with_columns(pl.when(texts != "").then(texts).name.keep())
        refuse_odd(
            path,
            frame,
            {
                "id": (pl.col("id").str.contains(_NAME), "the name of a file without .jpg"),
                "captions": (is_given, "a text"),
                "md5": (
                    pl.col("md5").is_null() | pl.col("md5").str.contains(_MD5),
                    "32 hex digits",
                ),
            },
        )
        refuse_twins(path, frame.get_column("id"))
        folder = _image_folder(root, self, frame.get_column("id"))
        species = pl.col("captions").str.extract(r"^([^,]+),").str.replace_all("_", " ")
        rows = frame.select(
            "id",
            image=pl.lit(folder) + pl.col("id") + pl.lit(".jpg"),
            split=pl.lit("test"),
            label=species.str.strip_chars(),
            caption="captions",
            source_url="source_url",
            md5=pl.col("md5").str.to_lowercase(),
        )
        return finish_table(rows, path)

    def listed_sources(self, root: Path) -> tuple[Source, ...]:
        """Where every image is to be had, once the table is there; those without an address too."""
        rows = self.table(root).select("image", "source_url", "md5").fill_null("")
        return tuple(
            Source(url=url, filename=image, md5=md5, kind="images")
            for image, url, md5 in rows.rows()
        )

    @as_findings
    def check(self, root: Path) -> Iterator[Finding]:
        """Counts, captions and images that several rows share, images that are not listed."""
        rows = self.table(root)
        yield from published_findings(rows, {"images": self.n_rows}, self.n_species)
        n_captions = rows.get_column("caption").n_unique()
        if n_captions != self.n_captions:
            text = f"{counted(n_captions, 'different caption')}: {self.n_captions:,} are published."
            yield Finding("note", text)
        for column, noun in (("caption", "a caption"), ("md5", "an image")):
            filled = rows.drop_nulls(column)
            n_sharing = int(filled.get_column(column).is_duplicated().sum())
            yield from count_findings("note", n_sharing, f"share {noun} with another row", "row")
        yield from image_findings(root, rows.get_column("image"))
        yield from _md5_findings(root, rows)

    def make(self, root: Path, world: World, size: int) -> None:
        """About `size` photos; the first caption is as long as the longest published one, and rows
        share captions or an image as they do in the published set.
        """
        rows: list[tuple[object, ...]] = []
        texts: set[str] = set()
        planned = plan_photos(world, size, self.name, ("test",), self.plans)
        for number, photo in enumerate(planned):
            path = root / IMAGES / f"{_made_id(world, self, number)}.jpg"
            # Animals do something else from photo to photo; plants stand.
            possible = [name for name in BEHAVIOURS if name in photo.species.plan.behaviours]
            shot = world.photo(replace(photo.scene, behaviour=possible[photo.turn % len(possible)]))
            write_photo(shot, path)
            text = _made_caption(photo, str(shot.truth["caption"]), self, texts)
            texts.add(text)
            url = self.address.format(id=path.stem, name=quote(photo.species.scientific_name))
            rows.append((number, path.stem, url, text, file_digest(path, "md5")))
        if self.shares == "images":
            rows.append(_second_row(root, _made_id(world, self, len(rows)), rows[-1]))
        write_rows(root / self.file, HEADER, rows)


# --- reading ---


def _image_folder(root: Path, captions: CaptionSet, ids: pl.Series) -> str:
    """The folder that holds most of the images, `images/` where none does."""
    named = {f"{one}.jpg" for one in ids}
    folders = (f"{IMAGES}/", f"{captions.name}/", f"{Path(captions.file).stem}/", "")
    return max(folders, key=lambda folder: _n_inside(root / folder, named))


def _n_inside(folder: Path, named: set[str]) -> int:
    return sum(path.name in named for path in folder.iterdir()) if folder.is_dir() else 0


# --- checking ---


def _md5_findings(root: Path, rows: pl.DataFrame) -> Iterator[Finding]:
    listed = [
        (image, md5)
        for image, md5 in rows.select("image", "md5").drop_nulls().rows()
        if (root / image).is_file()
    ]
    with ThreadPoolExecutor(8) as pool:
        actual = list(pool.map(lambda pair: file_digest(root / pair[0], "md5"), listed))
    others = [image for (image, md5), on_disk in zip(listed, actual, strict=True) if on_disk != md5]
    text = f"{len(others)} of {counted(len(listed), 'image')} are not the listed ones (md5)"
    yield from named_findings("warning", others, text)


# --- making ---

BEHAVIOURS = ("standing", "walking", "vocalizing", "resting", "grooming", "running", "feeding")
MOST_WORDS = 117
"""of the longest published caption"""


def _made_id(world: World, captions: CaptionSet, number: int) -> int:
    return 1_000 * (number + 1) + pick(1_000, world.seed, captions.name, "id", number)


def _made_caption(photo: PlannedPhoto, seen: str, captions: CaptionSet, texts: set[str]) -> str:
    """The species, a comma, and sentences that are true: of it, or of what is `seen` here."""
    species = photo.species
    is_shared = captions.shares == "captions"
    common = species.common_name.title().replace(" ", "_")
    name = common if is_shared else species.scientific_name
    sentences = [f"{text.rstrip('.')}." for text in species.description.split(". ")]
    if photo.rank == photo.turn == 0:
        long_text = " ".join([f"{name},", *sentences, seen] * 4).split()
        return " ".join(long_text[:MOST_WORDS])
    if is_shared and photo.turn % 3 == 0:
        return f"{name}, {sentences[2]}"
    text = f"{name}, {seen}"
    while not is_shared and text in texts:
        text += f" {sentences[photo.turn % len(sentences)]}"
    return text


def _second_row(root: Path, number: int, row: Sequence[object]) -> tuple[object, ...]:
    """The same image under another id, with another text."""
    index, name, url, text, md5 = row
    shutil.copyfile(root / IMAGES / f"{name}.jpg", root / IMAGES / f"{number}.jpg")
    return (int(str(index)) + 1, number, url, f"{text} Seen from nearby.", md5)
