"""What is in KABR, drone clips of what giraffes and zebras do?

An item is a clip, its image a list of 16 frames: every fifth, closer together where the clip is
short, from a start that is drawn from the clip's number alone. In the table

    label     the most frequent behaviour of the 16 frames; of several, the first in classes.json
    unit      the original video: its clips show one animal on one day
    n_frames  how many frames the clip has; clips of fewer than 16 are left out and counted

Frames are taken in the order of their numbers, whatever the order of the file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from fieldmark.data._annotations import is_given, is_whole, read_annotations, refuse_odd
from fieldmark.data._check import counted, image_findings, name_some
from fieldmark.data._clips import judge_order, most_common, pick_frames
from fieldmark.data._dataset import Finding, Info, Source, finish_table, need
from fieldmark.errors import DataError

if TYPE_CHECKING:
    from fieldmark.world import World

__all__ = ["INFO", "check", "clips", "make", "table"]

CLASSES = (
    "Walk", "Graze", "Browse", "Head Up", "Auto-Groom", "Trot", "Run", "Occluded",
)  # fmt: skip
FILE_COLUMNS = ("original_vido_id", "video_id", "frame_id", "path", "labels")
"""the first as the published files spell it"""
SPLITS = ("train", "val")
ANNOTATIONS = "annotation"
IMAGE_FOLDER = "dataset/image"
N_FRAMES = 16
STEP = 5
SEED = 42
_ADDRESS = "https://huggingface.co/datasets/imageomics/KABR/resolve/main/KABR"
_FILES = ("annotation/classes.json", "annotation/train.csv", "annotation/val.csv")

INFO = Info(
    title="KABR: Kenyan animal behaviour recognition",
    licence="CC0-1.0",
    citation="Kholiavchenko et al. KABR: In-Situ Dataset for Kenyan Animal Behavior Recognition "
    "from Drone Videos. WACV Workshops 2024",
    homepage="https://kabrdata.xyz/",
    layout=f"ROOT/{ANNOTATIONS}/{{train,val}}.csv  (separated by spaces)\n"
    f"ROOT/{ANNOTATIONS}/classes.json\nROOT/{IMAGE_FOLDER}/VIDEO/*.jpg",
    sources=(
        *[Source(url=f"{_ADDRESS}/{name}", filename=name) for name in _FILES],
        Source(
            steps=f"Download from {_ADDRESS}/{IMAGE_FOLDER}/ the parts giraffes_part_aa to ad, "
            "zebras_grevys_part_aa to am and zebras_plains_part_aa to al with the three *_md5.txt "
            f"into ROOT/{IMAGE_FOLDER}. There, for each of the three: `cat giraffes_part_* > "
            "giraffes.zip`, compare `md5sum giraffes.zip` with giraffes_md5.txt, `unzip "
            "giraffes.zip`."
        ),
    ),
)


def table(root: Path) -> pl.DataFrame:
    """One row per clip of at least 16 frames, train first, in the order of the files."""
    names = _class_names(root)
    rows = [
        _row(clip, names) for clip in clips(root).iter_rows(named=True) if clip["n"] >= N_FRAMES
    ]
    return finish_table(pl.DataFrame(rows, schema=_SCHEMA), root / ANNOTATIONS)


def clips(root: Path) -> pl.DataFrame:
    """All clips with their frames as the files list them: frame_ids, paths, labels."""
    return pl.concat([_read(root, split) for split in SPLITS])


def check(root: Path) -> list[Finding]:
    """Short clips, gaps and disorder in frame numbers, leaks, and frames that cannot be read."""
    try:
        every = clips(root)
        rows = table(root)
    except DataError as error:
        return [Finding("error", str(error))]
    return [
        *_short_findings(every),
        *_order_findings(every),
        *_leak_findings(rows),
        *_class_findings(rows),
        *image_findings(root, rows.get_column("image").explode()),
    ]


def make(root: Path, world: World, size: int) -> None:
    """Clips of grazing animals whose poses change from frame to frame; at least 13 clips."""
    from fieldmark.data._clips_make import write_kabr

    write_kabr(root, world, size)


# --- reading ---

_SCHEMA: dict[str, Any] = {
    "id": pl.String,
    "image": pl.List(pl.String),
    "split": pl.String,
    "label": pl.String,
    "unit": pl.String,
    "n_frames": pl.Int64,
    "start": pl.Int64,
    "step": pl.Int64,
}


def _read(root: Path, split: str) -> pl.DataFrame:
    path = need(root / ANNOTATIONS / f"{split}.csv", f"the {split} frames of KABR", "kabr")
    frame = _named(path, read_annotations(path, separator=" "))
    refuse_odd(
        path,
        frame,
        {
            "original_vido_id": (is_given("original_vido_id"), "the name of a video"),
            "video_id": (is_whole("video_id"), "a whole number"),
            "frame_id": (is_whole("frame_id"), "a whole number"),
            "path": (is_given("path"), "the path of a frame"),
            "labels": (is_whole("labels"), "the number of one class"),
        },
    )
    _refuse_strange_labels(root, path, frame)
    grouped = frame.group_by("video_id", maintain_order=True).agg(
        pl.col("original_vido_id").first().alias("video"),
        pl.col("frame_id").cast(pl.Int64).alias("frame_ids"),
        pl.col("path").alias("paths"),
        pl.col("labels").cast(pl.Int64),
        n=pl.len().cast(pl.Int64),
    )
    return grouped.with_columns(split=pl.lit(split))


def _named(path: Path, frame: pl.DataFrame) -> pl.DataFrame:
    """By name; copies that mend the spelling of two of them are read too."""
    spellings = {"original_video_id": "original_vido_id", "label": "labels"}
    frame = frame.rename({k: v for k, v in spellings.items() if k in frame.columns})
    missing = [each for each in FILE_COLUMNS if each not in frame.columns]
    if missing:
        expected = " ".join(FILE_COLUMNS)
        raise DataError(
            f"{path}:1  lacks the columns {name_some(missing)}: expected {expected}, separated by "
            "single spaces."
        )
    return frame


def _refuse_strange_labels(root: Path, path: Path, frame: pl.DataFrame) -> None:
    known = [str(each) for each in _class_names(root)]
    expected = f"a number of {ANNOTATIONS}/classes.json"
    refuse_odd(path, frame, {"labels": (pl.col("labels").is_in(known), expected)})


def _class_names(root: Path) -> dict[int, str]:
    path = need(root / ANNOTATIONS / "classes.json", "the classes of KABR", "kabr")
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise DataError(f"{path}  cannot be read as JSON: {error}.") from error
    is_mapping = isinstance(content, dict) and all(type(each) is int for each in content.values())
    if not is_mapping or len(set(content.values())) < len(content):
        raise DataError(
            f'{path}  cannot be used: expected names with a number each, {{"Walk": 0, "Graze": 1}}.'
        )
    return {number: str(name) for name, number in content.items()}


def _row(clip: dict[str, Any], names: dict[int, str]) -> dict[str, Any]:
    order = sorted(range(clip["n"]), key=lambda each: clip["frame_ids"][each])
    # From the clip's number and nothing else: a generator shared by loaders would make the frames
    # depend on how many workers there are.
    pick = pick_frames(clip["n"], N_FRAMES, STEP, SEED, "kabr", clip["video_id"])
    chosen = pick.of(order)
    return {
        "id": f"{clip['split']}/{clip['video_id']}",
        "image": [f"{IMAGE_FOLDER}/{clip['paths'][each]}" for each in chosen],
        "split": clip["split"],
        "label": names[most_common([clip["labels"][each] for each in chosen])],
        "unit": clip["video"],
        "n_frames": clip["n"],
        "start": pick.start,
        "step": pick.step,
    }


# --- checking ---


def _short_findings(every: pl.DataFrame) -> list[Finding]:
    short = every.filter(pl.col("n") < N_FRAMES)
    if short.is_empty():
        return []
    n = f"{len(short)} of {counted(len(every), 'clip')}"
    names = name_some(
        [f"{split}/{video}" for split, video in short.select("split", "video_id").rows()]
    )
    return [Finding("note", f"{n} with fewer than {N_FRAMES} frames, left out: {names}.")]


def _order_findings(every: pl.DataFrame) -> list[Finding]:
    found: dict[str, list[str]] = {"gap": [], "disorder": [], "twins": []}
    for split, video, frame_ids in every.select("split", "video_id", "frame_ids").iter_rows():
        order = judge_order(frame_ids)
        for kind, is_so in zip(
            found, (order.has_gap, order.is_disordered, order.has_twins), strict=True
        ):
            found[kind] += [f"{split}/{video}"] if is_so else []
    told = {
        "gap": "with missing frames in between",
        "disorder": "whose frames are not in order in the file (they are put in order)",
        "twins": "with a frame listed twice",
    }
    return [
        Finding("warning", f"{counted(len(names), 'clip')} {told[kind]}: {name_some(names)}.")
        for kind, names in found.items()
        if names
    ]


def _leak_findings(rows: pl.DataFrame) -> list[Finding]:
    both = rows.group_by("unit").agg(n=pl.col("split").n_unique()).filter(pl.col("n") > 1)
    if both.is_empty():
        return []
    names = sorted(both.get_column("unit"))
    n = counted(len(names), "video")
    return [Finding("warning", f"{n} with clips in train and in val: {name_some(names)}.")]


def _class_findings(rows: pl.DataFrame) -> list[Finding]:
    known = set(rows.filter(pl.col("split") == "train").get_column("label"))
    if len(known) < 2:
        names = name_some(sorted(known)) or "none"
        return [Finding("error", f"at least two behaviours are needed in train, found: {names}.")]
    unseen = sorted(set(rows.get_column("label")) - known)
    if not unseen:
        return []
    n = counted(len(unseen), "behaviour")
    return [Finding("warning", f"{n} of val without a training clip: {name_some(unseen)}.")]
