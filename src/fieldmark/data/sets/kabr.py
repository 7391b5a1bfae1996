"""KABR: drone clips of what giraffes and zebras do.

An item is a clip, its image a list of 16 frames: every fifth, closer together where the clip is
short, from a start that is drawn from the clip's number alone. In the table

    label     the most frequent behaviour of the 16 frames; of several, the first in classes.json
    unit      the original video: its clips show one animal on one day
    n_frames  how many frames the clip has; clips of fewer than 16 are left out and counted

Frames are taken in the order of their numbers, whatever the order of the file.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from fieldmark.data._check import (
    as_findings,
    counted,
    image_findings,
    named_findings,
    torn_findings,
    training_findings,
)
from fieldmark.data._dataset import Finding, Info, Source, finish_table, need
from fieldmark.data._make import CLIP_SPLITS, clip_scene, pick, species_pool, take_photo, write_rows
from fieldmark.data.read.table import (
    is_given,
    is_whole,
    need_columns,
    read_annotations,
    read_json,
    refuse_odd,
)
from fieldmark.errors import DataError
from fieldmark.world import Scene

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


@as_findings
def check(root: Path) -> Iterator[Finding]:
    """Short clips, gaps and disorder in frame numbers, leaks, and frames that cannot be read."""
    every = clips(root)
    rows = table(root)
    short = every.filter(pl.col("n") < N_FRAMES)
    names = [f"{clip['split']}/{clip['video_id']}" for clip in short.to_dicts()]
    n = f"{len(short)} of {counted(len(every), 'clip')}"
    yield from named_findings("note", names, f"{n} with fewer than {N_FRAMES} frames, left out")
    odd: dict[str, list[str]] = {}
    for split, video, frame_ids in every.select("split", "video_id", "frame_ids").iter_rows():
        for fault in order_faults(frame_ids):
            odd.setdefault(fault, []).append(f"{split}/{video}")
    for fault in ORDER_FAULTS:
        yield from named_findings("warning", odd.get(fault, []), fault, "clip")
    yield from torn_findings(rows, "video")
    yield from training_findings(rows, ("behaviour", "behaviours"), "clip")
    yield from image_findings(root, rows.get_column("image").explode())


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
            "original_vido_id": (is_given, "the name of a video"),
            "video_id": (is_whole, "a whole number"),
            "frame_id": (is_whole, "a whole number"),
            "path": (is_given, "the path of a frame"),
            "labels": (is_whole, "the number of one class"),
        },
    )
    labels = [str(number) for number in _class_names(root)]
    expected = f"a number of {ANNOTATIONS}/classes.json"
    refuse_odd(path, frame, {"labels": (pl.col("labels").is_in(labels), expected)})
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
    expected = f"{' '.join(FILE_COLUMNS)}, separated by single spaces"
    need_columns(f"{path}:1", frame.columns, FILE_COLUMNS, expected)
    return frame


def _class_names(root: Path) -> dict[int, str]:
    path = need(root / ANNOTATIONS / "classes.json", "the classes of KABR", "kabr")
    content = read_json(path)
    is_mapping = isinstance(content, dict) and all(type(value) is int for value in content.values())
    if not is_mapping or len(set(content.values())) < len(content):
        raise DataError(
            f'{path}  cannot be used: expected names with a number each, {{"Walk": 0, "Graze": 1}}.'
        )
    return {number: str(name) for name, number in content.items()}


def _row(clip: dict[str, Any], names: dict[int, str]) -> dict[str, Any]:
    order = sorted(range(clip["n"]), key=lambda frame: clip["frame_ids"][frame])
    # From the clip's number and nothing else: a generator shared by loaders would make the frames
    # depend on how many workers there are.
    start, step = pick_frames(clip["n"], N_FRAMES, STEP, SEED, "kabr", clip["video_id"])
    chosen = [order[start + step * turn] for turn in range(N_FRAMES)]
    return {
        "id": f"{clip['split']}/{clip['video_id']}",
        "image": [f"{IMAGE_FOLDER}/{clip['paths'][frame]}" for frame in chosen],
        "split": clip["split"],
        "label": names[most_common([clip["labels"][frame] for frame in chosen])],
        "unit": clip["video"],
        "n_frames": clip["n"],
        "start": start,
        "step": step,
    }


# --- frames of a clip ---


def pick_frames(length: int, n: int, step: int, *draw: object) -> tuple[int, int]:
    """Start and step of `n` frames of a clip of `length` ≥ n; the step shrinks until they fit.

    The start is drawn from the parts of `draw`: never from workers, order, or other clips.
    """
    step = min(step, (length - 1) // (n - 1))
    margin = length - 1 - (n - 1) * step
    return pick(margin + 1, *draw), step


def most_common(values: Sequence[int]) -> int:
    """The mode; of several, the lowest."""
    counts = Counter(values)
    return min(counts, key=lambda value: (-counts[value], value))


ORDER_FAULTS = (
    "with missing frames in between",
    "whose frames are not in order in the file (they are put in order)",
    "with a frame listed twice",
)


def order_faults(frame_ids: Sequence[int]) -> list[str]:
    """What is odd about the frame numbers of a clip, in the order of the file."""
    distinct = set(frame_ids)
    is_odd = (
        len(distinct) <= max(distinct) - min(distinct),
        any(later < earlier for earlier, later in pairwise(frame_ids)),
        len(distinct) < len(frame_ids),
    )
    return [fault for fault, is_so in zip(ORDER_FAULTS, is_odd, strict=True) if is_so]


# --- making ---

_SHOWN = {
    "Walk": "walking", "Graze": "grazing", "Browse": "browsing", "Head Up": "head_up",
    "Auto-Groom": "grooming", "Trot": "trotting", "Run": "running", "Occluded": "standing",
}  # fmt: skip
_SHORT = 9
"""frames of the one clip that is too short to be used"""


def make(root: Path, world: World, size: int) -> None:
    """Clips of grazing animals whose poses change from frame to frame; at least 13 clips.

    Four behaviours in small copies, all eight from 500 frames on; one clip is too short.
    """
    pool = species_pool(world, "kabr", 2, "horse", "deer", "mammal")[:3]
    names = CLASSES if size >= 500 else CLASSES[:4]
    most = 90 if size >= 3000 else 24
    rows: dict[str, list[list[object]]] = {"train": [], "val": []}
    number = n_frames = 0
    while number < 3 * len(names) or n_frames < size:
        turn, label = divmod(number, len(names))
        split = "val" if CLIP_SPLITS[turn % 3] == "test" else "train"
        scene = clip_scene(world, "kabr", number, pool, split == "val")
        length = N_FRAMES + 1 + pick(most - N_FRAMES, world.seed, "kabr", number)
        rows[split] += _write_clip(root, world, scene, (number + 1, label, length))
        n_frames += length
        number += 1
    short = clip_scene(world, "kabr", number, pool, False)
    rows["train"] += _write_clip(root, world, short, (number + 1, 0, _SHORT))
    for split, listed in rows.items():
        write_rows(root / ANNOTATIONS / f"{split}.csv", FILE_COLUMNS, listed, separator=" ")
    classes = {name: index for index, name in enumerate(CLASSES)}
    (root / ANNOTATIONS / "classes.json").write_text(json.dumps(classes), encoding="utf-8")


def _write_clip(
    root: Path, world: World, scene: Scene, clip: tuple[int, int, int]
) -> list[list[object]]:
    """In every fourth clip the animal lifts its head for the last fifth."""
    number, label, length = clip
    video = f"Z{number:04}"
    rows: list[list[object]] = []
    for frame in range(length):
        lifts = number % 4 == 0 and frame >= length - length // 5
        shown = CLASSES.index("Head Up") if lifts else label
        condition = "occluded" if CLASSES[shown] == "Occluded" else "day"
        moment = replace(scene, behaviour=_SHOWN[CLASSES[shown]], condition=condition, frame=frame)
        path = f"{video}/{frame + 1}.jpg"
        take_photo(world, moment, root / IMAGE_FOLDER / path)
        rows.append([video, number, frame + 1, path, shown])
    return rows
