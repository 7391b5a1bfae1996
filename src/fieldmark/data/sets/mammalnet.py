"""MammalNet: clips of what mammals do.

An item is a clip, its image the list of its 32 frames. In the table

    label    the behaviour: its name if annotation/behavior_to_id.txt is there, else its number
    species  the animal (the published file gives the genus), named by annotation/genus_to_id.txt
    unit     the video the clip was cut from

The frames are not published: they are cut out of the videos once (INFO says how). Clips without all
32 of them are left out and counted by `check`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

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
from fieldmark.data._make import CLIP_SPLITS, clip_scene, species_pool, take_photo, write_rows
from fieldmark.data.read.table import is_whole, read_annotations, refuse_odd
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
FRAMES = tuple(f"frame_{number:02}.jpg" for number in range(1, N_FRAMES + 1))
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
        Source(url=f"{_ADDRESS}/annotation.tar", n_bytes=1_512_456),
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
            f"{root / FRAME_FOLDER}  contains all {N_FRAMES} frames of none of the "
            f"{counted(len(every), 'clip')}: cut them out of the videos. `fieldmark datasets "
            "mammalnet` shows how."
        )
    return finish_table(whole.drop("n_frames"), root / ANNOTATIONS)


def clips(root: Path) -> pl.DataFrame:
    """All clips of the annotation, with how many of their frames are there."""
    has_val = (root / ANNOTATIONS / f"{OPTIONAL_SPLIT}.csv").is_file()
    splits = [*SPLITS, OPTIONAL_SPLIT] if has_val else SPLITS
    frame = pl.concat([_read(root, split) for split in splits])
    frame = frame.with_columns(
        name=pl.col("path").str.split("/").list.last().str.strip_suffix(".mp4")
    )
    names = frame.get_column("name").to_list()
    images = [[f"{FRAME_FOLDER}/{name}/{file}" for file in FRAMES] for name in names]
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
        pl.Series("n_frames", [_n_frames(root / FRAME_FOLDER / name) for name in names]),
    )  # fmt: skip


@as_findings
def check(root: Path) -> Iterator[Finding]:
    """Clips without their frames, leaks, behaviours nobody can learn, unreadable frames."""
    every = clips(root)
    rows = table(root)
    lost = every.filter(pl.col("n_frames") < N_FRAMES)
    names = [f"{name} ({count})" for name, count in lost.select("id", "n_frames").rows()]
    n = f"{len(lost)} of {counted(len(every), 'clip')}"
    yield from named_findings("warning", names, f"{n} without all {N_FRAMES} frames, left out")
    for name in (BEHAVIOURS_FILE, SPECIES_FILE):
        if not (root / name).is_file():
            yield Finding("note", f"{name} is not there: numbers are shown in place of names.")
    yield from torn_findings(rows, "video")
    yield from training_findings(rows, ("behaviour", "behaviours"), "clip")
    yield from image_findings(root, rows.get_column("image").explode())


# --- reading ---


def _read(root: Path, split: str) -> pl.DataFrame:
    path = need(root / ANNOTATIONS / f"{split}.csv", f"the {split} clips of MammalNet", "mammalnet")
    frame = read_annotations(path, COLUMNS, separator=" ", has_header=False)
    refuse_odd(
        path,
        frame,
        {
            "path": (pl.col("path").str.ends_with(".mp4"), "trimmed_videos/NAME.mp4"),
            "behavior": (is_whole, "the number of a behaviour"),
            "species": (is_whole, "the number of a species"),
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
            return len({entry.name for entry in entries} & set(FRAMES))
    except (FileNotFoundError, NotADirectoryError):
        return 0


# --- making ---

_SHOWN = {
    "eats_food": "feeding", "sleeps": "resting", "grooms": "grooming",
    "mates_with_other_animals": "mating", "nurses_or_breastfeeds_its_baby": "feeding_young",
    "fights_against_other_animals": "running",
}  # fmt: skip


def make(root: Path, world: World, size: int) -> None:
    """Clips of mammals, 32 frames each; at least 12 clips.

    Four behaviours in small copies, six from 1,000 frames on.
    """
    pool = species_pool(world, "mammalnet", 3, "mammal")[:6]
    names = list(_SHOWN) if size >= 1000 else list(_SHOWN)[:4]
    rows: dict[str, list[list[object]]] = {"train": [], "test": []}
    for number in range(max(3 * len(names), size // N_FRAMES)):
        turn, label = divmod(number, len(names))
        split = CLIP_SPLITS[turn % 3]
        scene = clip_scene(world, "mammalnet", number, pool, split == "test")
        name = f"made{number:07}"
        for frame, file in enumerate(FRAMES):
            moment = replace(scene, behaviour=_SHOWN[names[label]], frame=2 * frame)
            take_photo(world, moment, root / FRAME_FOLDER / name / file)
        rows[split].append([f"trimmed_videos/{name}.mp4", label, pool.index(scene.species)])
    for split, listed in rows.items():
        write_rows(root / ANNOTATIONS / f"{split}.csv", (), listed, separator=" ")
    genera = [world.species[index].scientific_name.lower() for index in pool]
    for file, listing in ((BEHAVIOURS_FILE, names), (SPECIES_FILE, genera)):
        numbers = [[name, number] for number, name in enumerate(listing)]
        write_rows(root / file, (), numbers, separator="\t")
