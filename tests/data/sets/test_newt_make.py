"""Does the made NeWT have all 164 tasks, whose classes differ in what their names say?"""

import csv
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from fieldmark.data.sets import newt
from fieldmark.data.sets.newt import newt_tasks
from fieldmark.data.sets.newt.synthetic import (
    CONTRASTS,
    NewtPhoto,
    contrast_of,
    plan_scene,
    plan_sizes,
    species_of_age_tasks,
    write_newt_photo,
)
from fieldmark.errors import UsageError
from fieldmark.world import World

WORLD = World(seed=5, n_species=48)
SPLITS = ("train", "test")


def scenes(task: str, label: int, n: int = 12) -> list[object]:
    aged = species_of_age_tasks(WORLD).get(task)
    return [
        plan_scene(WORLD, NewtPhoto(task, label, split, turn), aged)
        for split in SPLITS
        for turn in range(n)
    ]


def test_sizes_follow_what_is_asked():
    for size in (1, 2_000, 10_000, 36_000):
        sizes = plan_sizes(size)
        assert list(sizes) != sorted(sizes) and set(sizes) == set(newt_tasks())
        assert min(min(value) for value in sizes.values()) >= 2
        total = sum(3 * plain + small for plain, small in sizes.values())
        assert total == 1312 if size == 1 else abs(total - size) < 0.1 * size
    assert plan_sizes(70_000)["inat_non_species_tagged_swan"] == (50, 27)
    assert plan_sizes(70_000)["ml_tag_nest"] == (100, 100)


@pytest.mark.parametrize("task", list(newt_tasks()))
def test_the_classes_differ_as_the_task_says(task: str):
    plain, marked = scenes(task, 0), scenes(task, 1)
    sign = contrast_of(task)
    for scene in (*plain, *marked):
        scene.check(len(WORLD.species))
        assert scene.behaviour in WORLD.species[scene.species].plan.behaviours
    if sign.n_species == 2:
        assert len({one.species for one in plain}) == len({one.species for one in marked}) == 1
        assert plain[0].species != marked[0].species
    elif task == "ml_tag_non_bird":
        plans = [{WORLD.species[one.species].plan.name for one in side} for side in (plain, marked)]
        assert plans[0] == {"bird"} and "bird" not in plans[1]
    else:
        assert {_signs(one) for one in plain}.isdisjoint(_signs(one) for one in marked)


def _signs(scene: object) -> tuple[object, ...]:
    """All that may tell two classes apart; individuals, bursts and calm behaviours may not."""
    calm = scene.behaviour in ("standing", "walking", "head_up", "resting")
    behaviour = "calm" if calm else scene.behaviour
    company = bool(scene.others)
    return (
        scene.stage,
        behaviour,
        scene.sick,
        scene.extras,
        scene.morph,
        company,
        scene.rating > 3,
    )


def test_every_sign_is_used():
    assert {id(contrast_of(task)) for task in newt_tasks()} >= {
        id(sign) for sign in CONTRASTS.values()
    }


def test_train_and_test_show_different_individuals():
    for task in ("ml_age_dunlin", "ml_tag_nest", "nabirds_species_classification_canvas_redhea"):
        both = scenes(task, 0, 40) + scenes(task, 1, 40)
        train = {(one.species, one.individual) for one in both if one.individual % 2 == 0}
        test = {(one.species, one.individual) for one in both if one.individual % 2}
        assert train and test and train.isdisjoint(test)
        assert len({one.burst for one in both}) == len(both)


def test_defect_ages_species_can_be_told_apart():
    species = species_of_age_tasks(WORLD)
    assert len(species) == len(set(species.values())) == 12


def test_the_same_shot_is_the_same_file(tmp_path: Path):
    shots = [
        NewtPhoto(task, 1, "test", 3) for task in ("ml_age_dunlin", "ml_tag_egg", "ml_tag_non_bird")
    ]
    rows = []
    for root in (tmp_path / "a", tmp_path / "b"):
        for photo in shots:
            scene = plan_scene(World(seed=5, n_species=48), photo, None)
            rows.append(write_newt_photo(root, WORLD, photo, scene))
    assert rows[:3] == rows[3:]
    for row in rows[:3]:
        name = f"{newt.IMAGE_FOLDER}/{row[0]}.jpg"
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert len({row[0] for row in rows}) == 3


def test_a_world_too_small_is_refused(tmp_path: Path):
    with pytest.raises(UsageError) as caught:
        newt.make(tmp_path, World(n_species=2), 10)
    assert str(caught.value) == (
        "dataset 'newt' cannot be made in a world of 2 species: expected at least 4."
    )


@pytest.mark.slow
def test_the_exact_layout(made_copy: Callable[[str], Path]):
    root = made_copy("newt")
    with (root / newt.LABELS_FILE).open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == [
        "id", "task_cluster", "task_subcluster", "task", "label", "text_label", "split", "height",
        "width",
    ]  # fmt: skip
    counts = Counter((row[3], row[4], row[6]) for row in rows)
    assert len(counts) == 164 * 4 and min(counts.values()) == 2
    assert {f"{row[0]}.jpg" for row in rows} == {
        path.name for path in (root / newt.IMAGE_FOLDER).iterdir()
    }
    table = newt.table(root)
    for task, cluster, sub_cluster in (
        table.select("task", "cluster", "sub_cluster").unique().rows()
    ):
        assert (newt_tasks()[task].cluster, newt_tasks()[task].sub_cluster) == (
            cluster,
            sub_cluster,
        )
    assert newt.check(root) == []
