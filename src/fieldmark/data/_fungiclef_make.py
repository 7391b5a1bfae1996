"""How does the synthetic world write a FungiCLEF of its own?

Mushrooms (with too few of them, other plants too). Two species are in val only: one coded -1, as in
the published table, one with a number that train does not have.
"""

from __future__ import annotations

from pathlib import Path

from fieldmark.data._made import both_answers, species_pool, write_rows
from fieldmark.data._make import pick, take_photo
from fieldmark.data.fungiclef import FILES, FOLDERS, POISON_FILE
from fieldmark.world import Scene, World

HEADER = ("observationID", "year", "month", "day", "species", "class_id", "image_path", "poisonous")
_ROUND = ("train", "train", "val", "train")
"""where the observations of a species go, in turn"""


def write_fungiclef(root: Path, world: World, size: int) -> None:
    """Tables and photos; about `size` of them, at least four observations a species."""
    pool = species_pool(world, "fungiclef", 7, "mushroom", "herb", "tree")
    pool = pool[: max(4, min(len(pool), size // 8))]
    classes: dict[int, int] = {each: place for place, each in enumerate(pool[:-2])}
    classes |= {pool[-2]: len(pool) + 7, pool[-1]: -1}
    poisonous = _poisonous(world, classes)
    rows: dict[str, list[list[object]]] = {"train": [], "val": []}
    number = 0
    while number < 4 * len(pool) or sum(map(len, rows.values())) < size:
        turn, place = divmod(number, len(pool))
        split = "val" if place >= len(pool) - 2 else _ROUND[turn % 4]
        each = pool[place]
        seen = (number, each, classes[each], poisonous.get(each))
        rows[split] += _write(root, world, seen, split)
        number += 1
    for split, listed in rows.items():
        write_rows(root / FILES[split], HEADER, listed)
    listed_poison = [[classes[each], answer] for each, answer in poisonous.items()]
    write_rows(root / POISON_FILE, ("class_id", "poisonous"), listed_poison)


def _write(
    root: Path, world: World, seen: tuple[int, int, int, int | None], split: str
) -> list[list[object]]:
    """One observation: up to three photos of one fungus."""
    number, species, class_id, poisonous = seen
    observation = 2_238_500_000 + number
    rows: list[list[object]] = []
    for shot in range(1 + pick(3, world.seed, "fungiclef", "photos", number)):
        name = f"{observation}-{10 * number + shot}.JPG"
        scene = Scene(species=species, individual=number, burst=number, shot=shot)
        take_photo(world, scene, root / FOLDERS[split] / name)
        day = [2020 + (split == "val"), 1 + number % 12, 1 + number % 28]
        named = None if class_id == -1 else world.species[species].scientific_name
        rows.append([observation, *day, named, class_id, name, poisonous])
    return rows


def _poisonous(world: World, classes: dict[int, int]) -> dict[int, int]:
    """1 or 0 for each species with a number."""
    truth = {
        each: bool(world.species[each].traits["is_poisonous"])
        for each, class_id in classes.items()
        if class_id >= 0
    }
    answers = both_answers(truth, world.seed, "fungiclef", "poisonous")
    return {each: int(answer) for each, answer in answers.items()}
