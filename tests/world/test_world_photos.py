"""Is a photo always the same, and does it show what its truth says?"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from functools import lru_cache

import numpy as np
import pytest

from fieldmark.errors import UnknownName, UsageError
from fieldmark.taxa import RANKS
from fieldmark.world import (
    BEHAVIOURS,
    CONDITIONS,
    EXTRAS,
    HABITATS,
    MORPHS,
    STAGES,
    Photo,
    Scene,
    World,
)

SCENES = {
    "day": Scene(0, burst=1),
    "night": Scene(3, burst=2, condition="night", behaviour="walking", frame=3),
    "microscope": Scene(19, burst=3, condition="microscope"),
    "herbarium": Scene(22, burst=4, condition="herbarium"),
    "blurred": Scene(6, burst=5, condition="blurred"),
    "occluded": Scene(17, burst=6, condition="occluded"),
    "several": Scene(14, burst=7, n_animals=4),
    "mating": Scene(9, burst=8, behaviour="mating"),
    "young": Scene(25, burst=9, behaviour="feeding_young", stage="adult"),
    "juvenile": Scene(15, burst=10, stage="juvenile", sick=True),
    "nest": Scene(1, burst=11, extras=("nest", "egg"), others=(3,)),
    "sketch": Scene(34, burst=12, extras=("sketch", "watermark")),
    "hand": Scene(29, burst=13, extras=("in_hand", "back_of_camera"), morph="white"),
    "flower": Scene(11, burst=14, sick=True, rating=1),
    "mushroom": Scene(32, burst=15, rating=5, camera=4),
    "spider": Scene(41, burst=16, behaviour="running", frame=5, background="forest"),
    "whale": Scene(39, burst=17, behaviour="vocalizing"),
}
GOLDEN: dict[str, str] = {
    "day": "e4cc41c84fd8fe52",
    "night": "0bce0c793cc859c2",
    "microscope": "a74b4a2133b17fc4",
    "herbarium": "5d79850e6b8ac3bd",
    "blurred": "fda44cfc79b7bb2d",
    "occluded": "04c62a24d0c25863",
    "several": "3276fcd07cebaaf6",
    "mating": "33bf99560faab17c",
    "young": "8deec898456974a7",
    "juvenile": "07271f406f321fa8",
    "nest": "59cb24b3ff253c76",
    "sketch": "23c782bfb8689e4b",
    "hand": "b4cf8d686519e3fd",
    "flower": "2a1b6bb9d3e99691",
    "mushroom": "59f53ad54ffaaa38",
    "spider": "2c7d50d8d1b1589c",
    "whale": "910ad17975dc18d5",
}


def pixels(photo: Photo) -> np.ndarray:
    return np.asarray(photo.image)


def digest(photo: Photo) -> str:
    return hashlib.blake2b(pixels(photo).tobytes(), digest_size=8).hexdigest()


def difference(one: Photo, other: Photo) -> float:
    return float(np.abs(pixels(one).astype(int) - pixels(other).astype(int)).mean())


@pytest.fixture(scope="module")
def world() -> World:
    return World()


@pytest.mark.parametrize("name", SCENES)
def test_pixels_are_the_same_on_every_machine(world: World, name: str) -> None:
    assert digest(world.photo(SCENES[name])) == GOLDEN[name]


def test_order_and_process_do_not_matter(world: World) -> None:
    """Another process, another order, another hash seed: the same pixels and truth."""
    names = ["night", "several", "day"]
    script = (
        "import sys, hashlib, json; sys.path.insert(0, sys.argv[1])\n"
        "from test_world_photos import SCENES, digest; from fieldmark.world import World\n"
        "world = World()\n"
        "photos = {name: world.photo(SCENES[name]) for name in sys.argv[2:]}\n"
        "print(json.dumps({name: [digest(photo), photo.truth] for name, photo in photos.items()}))"
    )
    folder = __file__.rsplit("/", 1)[0]
    done = subprocess.run(
        [sys.executable, "-c", script, folder, *names],
        capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "77"},
    )  # fmt: skip
    elsewhere = json.loads(done.stdout)
    for name in reversed(names):
        photo = World().photo(SCENES[name])
        assert elsewhere[name] == [digest(photo), photo.truth]


def test_truth_is_complete_and_flat(world: World) -> None:
    photo = world.photo(SCENES["nest"])
    wanted = {
        *RANKS, "scientific_name", "common_name", "individual", "stage", "behaviour", "condition",
        "background", "n_animals", "unit", "camera", "caption", "description", "morph", "extras",
        "rating", "is_sick", "is_dead", "health", "n_species", *world.species[0].traits,
    }  # fmt: skip
    assert wanted <= set(photo.truth)
    assert all(isinstance(value, str | int | float | bool) for value in photo.truth.values())
    assert json.loads(json.dumps(photo.truth)) == photo.truth
    keys = [tuple(world.photo(scene).truth) for scene in list(SCENES.values())[:6]]
    assert len(set(keys)) == 1


def test_every_species_can_be_photographed_under_every_condition(world: World) -> None:
    for species in world.species[::3]:
        shown = {
            digest(world.photo(Scene(species.index, condition=condition)))
            for condition in CONDITIONS
        }
        assert len(shown) == len(CONDITIONS)


@lru_cache
def _plain(species: int) -> Photo:
    return World().photo(Scene(species, burst=2, background="wetland"))


@pytest.mark.parametrize(
    "changes",
    [
        *({"extras": (extra,)} for extra in EXTRAS),
        *({"morph": morph} for morph in MORPHS if morph != "normal"),
        *({"behaviour": behaviour} for behaviour in BEHAVIOURS if behaviour != "standing"),
        *({"background": habitat} for habitat in HABITATS if habitat != "wetland"),
        *({"stage": stage} for stage in STAGES if stage != "adult"),
        {"sick": True}, {"n_animals": 0}, {"n_animals": 3}, {"others": (4,)}, {"rating": 1},
        {"individual": 5}, {"camera": 3},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("species", [0, 3])
def test_every_field_of_a_scene_is_visible(
    world: World, species: int, changes: dict[str, object]
) -> None:
    """More than sensor noise changes: noise is drawn from the same place in both."""
    plain = _plain(species)
    changed = world.photo(
        Scene(**{"species": species, "burst": 2, "background": "wetland", **changes})
    )
    differs = np.abs(pixels(plain).astype(int) - pixels(changed)).max(axis=2) > 24
    assert differs.sum() >= 12, changes


def test_infrared_is_grey_and_day_is_not(world: World) -> None:
    night, day = pixels(world.photo(SCENES["night"])), pixels(world.photo(SCENES["day"]))
    assert (night[..., 0] == night[..., 1]).all() and (night[..., 1] == night[..., 2]).all()
    assert (day[..., 0] != day[..., 2]).mean() > 0.5


def test_shots_of_a_burst_are_alike_but_not_the_same(world: World) -> None:
    first, second = (world.photo(Scene(0, burst=4, shot=shot)) for shot in (0, 1))
    elsewhere = world.photo(Scene(0, burst=5))
    assert first.truth["unit"] == second.truth["unit"] != elsewhere.truth["unit"]
    assert 0.2 < difference(first, second) < 0.5 * difference(first, elsewhere)


def test_frames_move_the_pose_not_the_place(world: World) -> None:
    frames = [
        world.photo(Scene(3, burst=4, behaviour="walking", frame=frame)) for frame in range(4)
    ]
    assert len({digest(one) for one in frames}) == 4
    assert difference(frames[0], frames[1]) < 12
    assert len({one.truth["background"] for one in frames}) == 1


def test_a_fixed_camera_shows_the_same_place(world: World) -> None:
    empty = [
        world.photo(Scene(index, n_animals=0, camera=2, background="forest", burst=index))
        for index in (0, 3)
    ]
    assert empty[0].truth["camera"] == empty[1].truth["camera"] == "camera-2"
    one, other = (pixels(one).astype(float) for one in empty)
    assert np.corrcoef(one.ravel(), other.ravel())[0, 1] > 0.95


def test_markings_belong_to_individuals_and_persist(world: World) -> None:
    one, again, other = (world.individual(17, number) for number in (0, 0, 1))
    assert one.markings == again.markings != other.markings
    assert {mark.kind for mark in one.markings} <= {"blotch", "scar", "nick"}
    assert (
        one.name == "017-000" and len({world.individual(17, n).markings for n in range(50)}) == 50
    )
    flank = _flank(world, individual=0)
    assert np.abs(flank - _flank(world, individual=0, shot=0)).mean() == 0
    assert np.abs(flank - _flank(world, individual=1)).mean() > 2


def _flank(world: World, individual: int, shot: int = 0) -> np.ndarray:
    """The animal itself, cut out by the box that truth gives."""
    photo = world.photo(Scene(17, individual=individual, burst=3, shot=shot, background="meadow"))
    x, y, width, height = (
        int(photo.truth[key]) for key in ("box_x", "box_y", "box_width", "box_height")
    )
    return pixels(photo)[y : y + height, x : x + width].astype(int)


def test_the_box_holds_the_animal(world: World) -> None:
    with_it, without = (
        world.photo(Scene(3, burst=6, n_animals=count, camera=1)) for count in (1, 0)
    )
    changed = np.abs(pixels(with_it).astype(int) - pixels(without)).max(axis=2) > 40
    rows, columns = np.nonzero(changed)
    truth = with_it.truth
    assert abs(columns.min() - int(truth["box_x"])) <= 6
    assert abs(rows.min() - int(truth["box_y"])) <= 6


@pytest.mark.parametrize(
    ("scene", "line"),
    [
        (
            Scene(0, behaviour="wlaking"),
            "scene  behaviour 'wlaking' is not known. Did you mean 'walking'",
        ),
        (Scene(0, condition="nigth"), "Did you mean 'night'"),
        (Scene(0, extras=("nset",)), "Did you mean 'nest'"),
        (Scene(0, background="forrest"), "Did you mean 'forest'"),
        (Scene(0, stage="juvenil"), "Did you mean 'juvenile'"),
        (Scene(0, morph="withe"), "Did you mean 'white'"),
        (Scene(48), "species is 48: expected a whole number from 0 to 47"),
        (Scene(0, others=(-1,)), "species is -1"),
        (Scene(0, n_animals=7), "n_animals is 7: expected a whole number from 0 to 6"),
        (Scene(0, rating=0), "rating is 0"),
        (Scene(11, behaviour="running"), "behaviour of a herb 'running' is not known"),
    ],
)
def test_impossible_scenes_are_refused_in_one_line(world: World, scene: Scene, line: str) -> None:
    with pytest.raises((UnknownName, UsageError)) as caught:
        world.photo(scene)
    assert line in str(caught.value) and "\n" not in str(caught.value)
