"""How does the synthetic world write an iWildCam of its own?

Two thirds of the cameras are train's; val and test have cameras of their own. A sequence is one to
three shots of one animal; a seventh of the sequences shows none.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from fieldmark.data._made import species_pool, write_rows
from fieldmark.data._make import pick, take_photo
from fieldmark.data.iwildcam import HOMES, IMAGE_FOLDER, METADATA, RELEASE
from fieldmark.draws import digest
from fieldmark.world import Scene, World

HEADER = (
    "split", "image_id", "filename", "datetime", "location", "location_remapped", "seq_id",
    "sequence_remapped", "seq_num_frames", "category_id", "y",
)  # fmt: skip
# Of nine sequences: where each goes, and the cameras of that split.
_TURNS = ("train", "test", "train", "id_test", "train", "val", "train", "id_val", "test")
_CAMERAS = {
    "train": range(6), "id_val": range(6), "id_test": range(6), "val": range(6, 8),
    "test": range(8, 11),
}  # fmt: skip
_FIRST_DAY = datetime(2013, 3, 1, 5, 0, 0)
_EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class _Sequence:
    number: int
    split: str
    camera: int
    y: int
    """0 = no animal, else one more than the place in the pool"""
    n_shots: int


def write_iwildcam(root: Path, world: World, size: int) -> None:
    """Metadata, names and photos; about `size` of them, at least 48."""
    pool = species_pool(world, "iwildcam", 5, "mammal", "bird")[:8]
    home = root / HOMES[0]
    rows: list[list[object]] = []
    number = 0
    while len(rows) < max(48, size):
        sequence = _plan(world, number, len(pool))
        rows += _write(home, world, sequence, pool)
        number += 1
    write_rows(home / METADATA, HEADER, rows)
    names = [_EMPTY, *[world.species[each].scientific_name.lower() for each in pool]]
    listed = [[y, 10 * y, name] for y, name in enumerate(names)]
    write_rows(home / "categories.csv", ("y", "category_id", "name"), listed)
    (home / RELEASE).write_text("made by fieldmark in the layout of iwildcam_v2.0\n")


def _plan(world: World, number: int, n_species: int) -> _Sequence:
    turn, place = divmod(number, len(_TURNS))
    split = _TURNS[place]
    cameras = _CAMERAS[split]
    is_first_round = number < len(_TURNS) * (n_species + 1)
    # In the first rounds every split meets every class in turn, so that small copies have them all.
    y = (turn + place) if is_first_round else pick(7 * n_species, world.seed, "iwildcam", number)
    return _Sequence(
        number=number,
        split=split,
        camera=cameras[pick(len(cameras), world.seed, "iwildcam", "camera", number)],
        y=y % (n_species + 1),
        n_shots=1 + pick(3, world.seed, "iwildcam", "shots", number),
    )


def _write(home: Path, world: World, sequence: _Sequence, pool: list[int]) -> list[list[object]]:
    number = sequence.number
    hours = 11 * number + pick(9, world.seed, "iwildcam", "hour", number)
    start = _FIRST_DAY + timedelta(hours=hours, minutes=number % 60)
    is_night = not 6 <= start.hour < 19
    rows: list[list[object]] = []
    for shot in range(sequence.n_shots):
        scene = Scene(
            species=pool[max(0, sequence.y - 1)],
            individual=pick(40, world.seed, "iwildcam", "individual", number),
            n_animals=1 if sequence.y else 0,
            burst=number,
            shot=shot,
            camera=sequence.camera,
            condition="night" if is_night else "day",
        )
        image = str(uuid.UUID(bytes=digest(world.seed, "iwildcam", number, shot)))
        take_photo(world, scene, home / IMAGE_FOLDER / f"{image}.jpg")
        when = (start + timedelta(seconds=shot)).strftime("%Y-%m-%d %H:%M:%S.000")
        rows.append(
            [sequence.split, image, f"{image}.jpg", when, 100 + sequence.camera, sequence.camera,
             f"seq-{number}", number, sequence.n_shots, 10 * sequence.y, sequence.y]
        )  # fmt: skip
    return rows
