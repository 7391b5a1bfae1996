"""What is in BelugaID, photos of individual white whales?

A COCO file, one annotation per animal. In the table

    label         the individual; unknown ones ("____") are left out and counted by `check`
    unit          the individual too: photos of one whale share its scars, so their outcomes do
    crop          only where an image has several animals: published images are cut to one already
    encounter     photos of one whale with less than an hour from each to the next, where the file
                  itself names none: near-twins, which a fair search may leave out
    closed_split  train or test of the published closed-set split, if ROOT/metadata.csv gives it

Every annotation of an image is an item of its own, not only the first.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from fieldmark.data._check import counted, image_findings, name_some
from fieldmark.data._dataset import Finding, Info, Source, finish_table, need
from fieldmark.errors import DataError

if TYPE_CHECKING:
    from fieldmark.data.world import World

__all__ = ["INFO", "check", "make", "sightings", "table"]

UNKNOWN = "____"
IMAGES = "images/train2022"
ANNOTATIONS = "annotations/instances_train2022.json"
HOMES = ("beluga.coco", "beluga/beluga.coco", ".")
METADATA = "metadata.csv"
ENCOUNTER_GAP = pl.duration(hours=1)

INFO = Info(
    title="BelugaID 2022",
    licence="CDLA-Permissive-1.0",
    citation="Beluga ID 2022: belugas of Cook Inlet, Alaska, 2016-2019. Wild Me; Labeled "
    "Information Library of Alexandria: Biology and Conservation (LILA BC), 2022",
    homepage="https://lila.science/datasets/beluga-id-2022/",
    layout=f"ROOT/beluga.coco/{IMAGES}/*.jpg\nROOT/beluga.coco/{ANNOTATIONS}\n"
    f"ROOT/{METADATA}  (optional: identity, path, split of the published closed-set split)",
    sources=(
        Source(
            url="https://storage.googleapis.com/public-datasets-lila/wild-me/beluga.coco.tar.gz",
            filename="beluga.coco.tar.gz",
            mirrors=(
                "https://lilawildlife.blob.core.windows.net/lila-wildlife/wild-me/beluga.coco.tar.gz",
                "https://us-west-2.opendata.source.coop.s3.amazonaws.com/agentmorris/lila-wildlife/"
                "wild-me/beluga.coco.tar.gz",
            ),
        ),
    ),
)


def table(root: Path) -> pl.DataFrame:
    """One row per annotation of a known individual, in the order of the file."""
    known = sightings(root).filter(pl.col("label").is_not_null())
    return finish_table(known, _home(root) / ANNOTATIONS)


def sightings(root: Path) -> pl.DataFrame:
    """All annotations, those of unknown individuals too: these have no label."""
    home = _home(root)
    frame = _flat(home / ANNOTATIONS)
    prefix = home.relative_to(root).as_posix()
    folder = IMAGES if prefix == "." else f"{prefix}/{IMAGES}"
    is_alone = pl.len().over("image_id") == 1
    name = pl.col("label").str.strip_chars()
    frame = frame.with_columns(
        id=pl.when(is_alone).then("file_name").otherwise(pl.format("{}#{}", "file_name", "number")),
        image=pl.format(f"{folder}/{{}}", "file_name"),
        crop=pl.when(~is_alone).then("bbox"),
        label=pl.when(~name.is_in(["", UNKNOWN])).then(name),
        date=pl.col("date")
        .str.replace("T", " ")
        .str.slice(0, 19)
        .str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False),
    )
    frame = frame.with_columns(unit="label", encounter=pl.coalesce("encounter", _encounter()))
    frame = _with_closed_split(root, frame)
    return frame.select(
        "id", "image", "crop", "label", "unit", "viewpoint", "date", "encounter", "closed_split"
    )


def check(root: Path) -> list[Finding]:
    """What the file leaves out, individuals seen once, and images that cannot be read."""
    try:
        every = sightings(root)
        rows = table(root)
    except DataError as error:
        return [Finding("error", str(error))]
    findings = []
    n_unknown = len(every) - len(rows)
    if n_unknown:
        text = f"{counted(n_unknown, 'annotation')} of unknown individuals, left out."
        findings.append(Finding("note", text))
    n_shared = rows.filter(pl.col("crop").is_not_null()).get_column("image").n_unique()
    if n_shared:
        text = f"{counted(n_shared, 'image')} with several animals: each is cut out of it."
        findings.append(Finding("note", text))
    return [*findings, *_individual_findings(rows), *image_findings(root, rows.get_column("image"))]


def make(root: Path, world: World, size: int) -> None:
    """Individuals of one species over several encounters, in the exact layout."""
    from fieldmark.data._beluga_make import write_beluga

    write_beluga(root, world, size)


def _individual_findings(rows: pl.DataFrame) -> list[Finding]:
    counts = rows.group_by("label").len().sort("label")
    if len(counts) < 2:
        names = name_some(counts.get_column("label").to_list())
        return [Finding("error", f"at least two individuals are needed, found {names}.")]
    n_once = counts.filter(pl.col("len") == 1).height
    if not n_once:
        return []
    n = counted(len(counts), "individual")
    return [Finding("note", f"{n_once} of {n} with one image only: nothing can match it.")]


# --- reading ---


def _home(root: Path) -> Path:
    for each in HOMES:
        if (root / each / ANNOTATIONS).is_file():
            return root / each
    return need(root / HOMES[0] / ANNOTATIONS, "the annotations of BelugaID", "beluga")


def _flat(path: Path) -> pl.DataFrame:
    """One row per annotation with what its image says."""
    content = _read_json(path)
    images = {each.get("id"): each for each in content["images"]}
    rows = []
    for number, each in enumerate(content["annotations"]):
        image = images.get(each.get("image_id"))
        if image is None or "file_name" not in image:
            raise DataError(
                f"{path}  annotation {each.get('id', number)} is of image "
                f"{each.get('image_id')!r}, which the file does not list."
            )
        rows.append(_row(each, image, number))
    return pl.DataFrame(rows, schema=_SCHEMA)


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


def _row(annotation: dict[str, Any], image: dict[str, Any], number: int) -> dict[str, Any]:
    encounter = annotation.get("encounter_id", image.get("encounter_id"))
    name = annotation.get("name")
    return {
        "number": str(annotation.get("id", number)),
        "image_id": str(image["id"]),
        "file_name": str(image["file_name"]),
        "label": UNKNOWN if name is None else str(name),
        "bbox": annotation.get("bbox"),
        "viewpoint": annotation.get("viewpoint"),
        "date": image.get("date_captured"),
        "encounter": None if encounter is None else str(encounter),
    }


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise DataError(f"{path}  cannot be read as JSON: {error}.") from error
    for key in ("images", "annotations"):
        if not isinstance(content, dict) or not isinstance(content.get(key), list):
            raise DataError(f"{path}  has no list {key!r}: expected a COCO file.")
    return dict(content)


def _parsed_date() -> pl.Expr:
    text = pl.col("date").str.replace("T", " ", literal=True).str.slice(0, 19)
    return text.str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False)


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
    ).unique("file_name")
    return frame.join(by_file, on="file_name", how="left", maintain_order="left")
