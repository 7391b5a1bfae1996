"""Are the species named, related and described as they look?"""

from __future__ import annotations

import re
import sys
from collections import Counter
from dataclasses import replace
from itertools import combinations, pairwise

import pytest

from fieldmark.errors import UsageError
from fieldmark.taxa import RANKS
from fieldmark.world import Scene, World
from fieldmark.world.draw import draw_creature
from fieldmark.world.draw.appearance import Pose, make_appearance
from fieldmark.world.draw.shapes import Pen
from fieldmark.world.rng import FRACTION, STEPS, Rng, sine_table
from fieldmark.world.species import make_individual, make_species
from fieldmark.world.taxonomy import PLANS
from fieldmark.world.text import MARK_WORDS


@pytest.fixture(scope="module")
def world() -> World:
    return World()


def test_a_world_is_cheap() -> None:
    """Counted in calls, which no busy machine changes: 17,146 in 7 ms of CPU time (2026-11-18)."""
    events: Counter[str] = Counter()
    sys.setprofile(lambda _frame, event, _argument: events.update([event]))
    try:
        World(seed=7)
    finally:
        sys.setprofile(None)
    assert events["call"] < 25_000


def test_names_are_unique_and_latin(world: World) -> None:
    large = World(n_species=400)
    assert len({one.common_name for one in large.species}) == 400
    assert len({one.scientific_name for one in large.species}) == 400
    for species in world.species:
        genus, epithet = species.scientific_name.split()
        assert genus.istitle() and epithet.islower()
        assert (genus, epithet) == (species.ranks["genus"], species.ranks["species"])


def test_the_seven_ranks_are_a_tree(world: World) -> None:
    for species in world.species:
        assert tuple(species.ranks) == RANKS
    for upper, lower in pairwise(RANKS[:-1]):
        parents: dict[str, set[str]] = {}
        for species in World(n_species=200).species:
            parents.setdefault(species.ranks[lower], set()).add(species.ranks[upper])
        assert all(len(names) == 1 for names in parents.values()), lower


def test_a_larger_world_begins_with_the_smaller_one(world: World) -> None:
    assert World(n_species=24).species == world.species[:24]
    assert World(n_species=90).species[:48] == world.species


def test_seeds_make_different_worlds(world: World) -> None:
    other = World(seed=1)
    assert not {species.scientific_name for species in other.species} & {
        species.scientific_name for species in world.species
    }


def test_sisters_share_build_and_differ_in_marks(world: World) -> None:
    shared = ("body_plan", "kind", "main_colour", "second_colour")
    for species, other in combinations(world.species, 2):
        if other.ranks["genus"] == species.ranks["genus"]:
            assert all(other.traits[name] == species.traits[name] for name in shared)
            assert other.traits != species.traits
            assert other.description != species.description


def test_all_species_have_the_same_trait_columns(world: World) -> None:
    columns = tuple(world.species[0].traits)
    assert all(tuple(species.traits) == columns for species in world.species)
    assert len(columns) > 30


def test_descriptions_say_what_is_true(world: World) -> None:
    for species in world.species:
        text = species.description
        assert 3 <= text.count(". ") + 1 <= 6
        assert species.common_name in text and species.scientific_name in text
        assert species.ranks["family"] in text and str(species.traits["range"]) in text
        assert str(species.traits["main_colour"]) in text
        assert str(species.traits["second_colour"]) in text
        for mark, words in MARK_WORDS.items():
            is_said = re.search(rf"\b{words}\b", text) is not None
            assert is_said == bool(species.traits[mark]), (species.index, mark)


@pytest.mark.parametrize("plan", PLANS)
def test_every_field_mark_is_drawn(plan: str) -> None:
    """Taking a mark away changes the drawing, for every kind of the plan."""
    members = [one for one in make_species(0, 250, 0.5) if one.plan.name == plan]
    seen_kinds = {one.kind: one for one in members}
    assert set(seen_kinds) == {kind.name for kind in PLANS[plan].kinds}
    for species in seen_kinds.values():
        for mark in PLANS[plan].marks:
            drawings = []
            for value in (True, False):
                one = replace(species, traits={**species.traits, mark: value})
                look = make_appearance(
                    0, make_individual(0, one, 0), "adult", False, ("normal", frozenset())
                )
                pen = Pen()
                draw_creature(pen, look, Pose())
                drawings.append((pen.points, pen.inks, pen.smooth))
            assert drawings[0] != drawings[1], (species.kind, mark)


def test_captions_name_the_species_and_the_scene(world: World) -> None:
    truth = world.photo(
        Scene(3, stage="juvenile", behaviour="running", condition="night", background="desert")
    ).truth
    caption = str(truth["caption"])
    for words in (truth["common_name"], truth["scientific_name"], "juvenile", "running", "desert"):
        assert str(words) in caption
    assert caption.startswith("Infrared camera image of a") and caption.endswith(".")
    assert "two " in str(world.photo(Scene(3, behaviour="mating")).truth["caption"])
    assert "no animal" in str(world.photo(Scene(3, n_animals=0)).truth["caption"])
    nest = world.photo(Scene(0, sick=True, extras=("nest", "egg"), others=(3,))).truth["caption"]
    for words in ("sick", "in a nest", "with eggs", f"a {world.species[3].common_name}"):
        assert words in str(nest)


def test_sines_are_far_from_rounding_ties() -> None:
    """The table is the same with any C library: none of its entries is near the middle of two."""
    import math

    assert len(sine_table()) == STEPS
    for step in range(STEPS):
        exact = math.sin(2 * math.pi * step / STEPS) * FRACTION
        assert abs(abs(exact - math.floor(exact)) - 0.5) > 1e-6


def test_dice_depend_on_their_parts_only() -> None:
    def throw(*parts: object) -> list[int]:
        rng = Rng(*parts)
        return [rng.below(1000) for _ in range(1200)]  # beyond one refill

    assert throw(1, "a") == throw(1, "a")
    assert throw(1, "a") != throw("1a") and throw(1, "a") != throw(2, "a")
    assert 400 < sum(throw("mean")) / 1200 < 600
    assert throw(0, "x")[:5] == [Rng(0, "x").below(1000), *throw(0, "x")[1:5]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"n_species": 0}, "expected at least 1"), ({"difficulty": 1.5}, "from 0 to 1")],
)
def test_impossible_worlds_are_refused(arguments: dict[str, float], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        World(**arguments)  # type: ignore[arg-type]


def test_looks_tell_what_is_seen_and_name_nobody(world: World) -> None:
    truth = world.photo(Scene(0, behaviour="vocalizing", n_animals=3)).truth
    seen, named = str(truth["looks"]), str(truth["named_looks"])
    for words in (truth["main_colour"], truth["second_colour"], "birds", "calling", "Three"):
        assert str(words) in seen
    for name in (*world.species[0].ranks.values(), truth["common_name"]):
        assert str(name).lower() not in seen.lower().replace(".", " ").split()
    assert str(truth["common_name"]) not in seen and str(truth["scientific_name"]) not in seen
    common = str(truth["common_name"])
    assert named.startswith(f"{common[0].upper()}{common[1:]}: three ")
    assert named.lower().endswith(seen.lower())


def test_looks_tell_no_colour_that_is_not_shown(world: World) -> None:
    first = world.species[0].traits
    for scene in (
        Scene(0, condition="night"),
        Scene(0, extras=("sketch",)),
        Scene(0, morph="mixed"),
    ):
        seen = str(world.photo(scene).truth["looks"])
        assert str(first["main_colour"]) not in seen and str(first["second_colour"]) not in seen
    assert "infrared" in str(world.photo(Scene(0, condition="night")).truth["looks"])
    assert str(world.photo(Scene(0, morph="black")).truth["looks"]).startswith("A black bird")
    assert "without any animal" in str(world.photo(Scene(0, n_animals=0)).truth["looks"])
    butterfly = world.of_plan("butterfly")[0].index
    young = str(world.photo(Scene(butterfly, stage="juvenile")).truth["looks"])
    assert "caterpillar" in young and "with" not in young
