"""What is in MammalNet, clips of what mammals do?

An item is a clip, its image the list of its 32 frames. In the table

    label    the behaviour: its name if annotation/behavior_to_id.txt is there, else its number
    species  the animal (the published file gives the genus), named by annotation/genus_to_id.txt
    unit     the video the clip was cut from

The frames are not published: they are cut out of the videos once (INFO says how). Clips without all
32 of them are left out and counted by `check`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from fieldmark.data._annotations import is_whole, read_annotations, refuse_odd
from fieldmark.data._check import counted, image_findings, name_some
from fieldmark.data._dataset import Finding, Info, Source, finish_table, need
from fieldmark.errors import DataError, at

if TYPE_CHECKING:
    from fieldmark.world import World

__all__ = ["INFO", "check", "clips", "make", "table"]

ANNOTATIONS = "annotation/composition"
FRAME_FOLDER = "frames"
SPLITS = ("train", "test")
OPTIONAL_SPLIT = "val"
COLUMNS = ("path", "behavior", "species")
N_FRAMES = 32
FRAMES = tuple(f"frame_{each:02}.jpg" for each in range(1, N_FRAMES + 1))
BEHAVIOURS_FILE = "annotation/behavior_to_id.txt"
SPECIES_FILE = "annotation/genus_to_id.txt"
_VIDEO_NAME = 11
"""characters of a YouTube name; clips of one video are NAME_1, NAME_2, …"""
_ADDRESS = "https://mammalnet.s3.amazonaws.com"

INFO = Info(
    title="MammalNet: behaviours",
    licence="none stated; research use, the videos keep the terms of their authors on YouTube",
    citation="Chen et al. MammalNet: A Large-Scale Video Benchmark for Mammal Recognition and "
    "Behavior Understanding. CVPR 2023. arXiv:2306.00576",
    homepage="https://mammal-net.github.io/",
    layout=f"ROOT/{ANNOTATIONS}/{{train,test}}.csv  (trimmed_videos/NAME.mp4 behaviour species)\n"
    f"ROOT/{FRAME_FOLDER}/NAME/frame_01.jpg … frame_{N_FRAMES}.jpg\n"
    f"ROOT/{BEHAVIOURS_FILE}, ROOT/{SPECIES_FILE}  (optional: names)",
    sources=(
        Source(url=f"{_ADDRESS}/annotation.tar", filename="annotation.tar", n_bytes=1_512_456),
        Source(
            steps=f"Download {_ADDRESS}/trimmed_video.tar.gz (148 GB; where it is refused, cut the "
            f"clips out of {_ADDRESS}/full_video.tar.gz, 365 GB, at the times in annotation/"
            "detection_annotations.json) and unpack it. Then take 32 frames of each NAME.mp4, "
            "evenly spread: with STEP = its number of frames // 32, at least 1, `mkdir -p "
            f"ROOT/{FRAME_FOLDER}/NAME && ffmpeg -i NAME.mp4 -vf 'select=not(mod(n\\,STEP))' "
            f"-fps_mode vfr -frames:v 32 -qscale:v 2 ROOT/{FRAME_FOLDER}/NAME/frame_%02d.jpg`."
        ),
    ),
)


def table(root: Path) -> pl.DataFrame:
    """One row per clip with all its frames, train first, in the order of the files."""
    every = clips(root)
    whole = every.filter(pl.col("n_frames") == N_FRAMES)
    if whole.is_empty():
        raise DataError(
            f"{root / FRAME_FOLDER}  holds all {N_FRAMES} frames of none of the "
            f"{counted(len(every), 'clip')}: cut them out of the videos. `fieldmark datasets "
            "mammalnet` shows how."
        )
    return finish_table(whole.drop("n_frames"), root / ANNOTATIONS)


def clips(root: Path) -> pl.DataFrame:
    """All clips of the annotation, with how many of their frames are there."""
    frame = pl.concat([_read(root, split) for split in _splits(root)])
    name = pl.col("path").str.split("/").list.last().str.strip_suffix(".mp4")
    frame = frame.with_columns(name=name)
    names = frame.get_column("name").to_list()
    images = [[f"{FRAME_FOLDER}/{each}/{file}" for file in FRAMES] for each in names]
    behaviours, species = _names(root / BEHAVIOURS_FILE), _names(root / SPECIES_FILE)
    is_piece = pl.col("name").str.contains(rf"^.{{{_VIDEO_NAME}}}_\d+$")
    return frame.select(
        pl.col("name").alias("id"),
        pl.Series("image", images, dtype=pl.List(pl.String)),
        "split",
        pl.col("behavior").replace(behaviours).alias("label"),
        pl.when(is_piece).then(pl.col("name").str.slice(0, _VIDEO_NAME)).otherwise("name")
        .alias("unit"),
        pl.col("species").replace(species),
        pl.Series("n_frames", [_n_frames(root / FRAME_FOLDER / each) for each in names]),
    )  # fmt: skip


def check(root: Path) -> list[Finding]:
    """Clips without their frames, leaks, behaviours nobody can learn, unreadable frames."""
    try:
        every = clips(root)
        rows = table(root)
    except DataError as error:
        return [Finding("error", str(error))]
    return [
        *_lost_findings(every),
        *_name_findings(root),
        *_leak_findings(rows),
        *_class_findings(rows),
        *image_findings(root, rows.get_column("image").explode()),
    ]


def make(root: Path, world: World, size: int) -> None:
    """Clips of mammals, 32 frames each; at least 12 clips."""
    from fieldmark.data._clips_make import write_mammalnet

    write_mammalnet(root, world, size)


# --- reading ---


def _splits(root: Path) -> list[str]:
    has_val = (root / ANNOTATIONS / f"{OPTIONAL_SPLIT}.csv").is_file()
    return [*SPLITS, OPTIONAL_SPLIT] if has_val else list(SPLITS)


def _read(root: Path, split: str) -> pl.DataFrame:
    path = need(root / ANNOTATIONS / f"{split}.csv", f"the {split} clips of MammalNet", "mammalnet")
    frame = read_annotations(path, COLUMNS, separator=" ", has_header=False)
    refuse_odd(
        path,
        frame,
        {
            "path": (pl.col("path").str.ends_with(".mp4"), "trimmed_videos/NAME.mp4"),
            "behavior": (is_whole("behavior"), "the number of a behaviour"),
            "species": (is_whole("species"), "the number of a species"),
        },
        first_line=1,
    )
    return frame.with_columns(split=pl.lit(split))


def _names(path: Path) -> dict[str, str]:
    """Number → name; each line is a name, a tab and a number."""
    if not path.is_file():
        return {}
    names: dict[str, str] = {}
    for line, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        name, _, number = text.strip().rpartition("\t")
        if not text.strip():
            continue
        if not name or not number.strip().isdigit():
            raise DataError(at(path, line, f"found {text!r}: expected a name, a tab and a number."))
        names[number.strip()] = name.strip()
    return names


def _n_frames(folder: Path) -> int:
    try:
        with os.scandir(folder) as entries:
            return len({each.name for each in entries} & set(FRAMES))
    except (FileNotFoundError, NotADirectoryError):
        return 0


# --- checking ---


def _lost_findings(every: pl.DataFrame) -> list[Finding]:
    lost = every.filter(pl.col("n_frames") < N_FRAMES)
    if lost.is_empty():
        return []
    n = f"{len(lost)} of {counted(len(every), 'clip')}"
    names = name_some([f"{name} ({found})" for name, found in lost.select("id", "n_frames").rows()])
    return [Finding("warning", f"{n} without all {N_FRAMES} frames, left out: {names}.")]


def _name_findings(root: Path) -> list[Finding]:
    missing = [each for each in (BEHAVIOURS_FILE, SPECIES_FILE) if not (root / each).is_file()]
    return [Finding("note", f"{each} is not there: numbers stand for names.") for each in missing]


def _leak_findings(rows: pl.DataFrame) -> list[Finding]:
    both = rows.group_by("unit").agg(n=pl.col("split").n_unique()).filter(pl.col("n") > 1)
    if both.is_empty():
        return []
    names = sorted(both.get_column("unit"))
    n = counted(len(names), "video")
    return [Finding("warning", f"{n} with clips in more than one split: {name_some(names)}.")]


def _class_findings(rows: pl.DataFrame) -> list[Finding]:
    known = set(rows.filter(pl.col("split") == "train").get_column("label"))
    if len(known) < 2:
        names = name_some(sorted(known)) or "none"
        return [Finding("error", f"at least two behaviours are needed in train, found: {names}.")]
    unseen = sorted(set(rows.get_column("label")) - known)
    if not unseen:
        return []
    n = counted(len(unseen), "behaviour")
    return [Finding("warning", f"{n} without a training clip: {name_some(unseen)}.")]
