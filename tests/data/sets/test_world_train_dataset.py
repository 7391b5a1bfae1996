"""Is the world to train on clean: no species, encounter or animal of a test in training?"""

from __future__ import annotations

import polars as pl
import pytest

from fieldmark.data import load_dataset
from fieldmark.world import World
from kit.made import make_dataset


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> pl.DataFrame:
    folder = tmp_path_factory.mktemp("world_train")
    make_dataset("world_train", folder, 300, World(n_species=8))
    return load_dataset("world_train").table(folder)


def values(rows: pl.DataFrame, split: str, column: str) -> set[str]:
    return set(rows.filter(pl.col("split") == split)[column])


@pytest.mark.slow
def test_held_out_species_are_in_no_other_split_and_their_genera_are(rows: pl.DataFrame) -> None:
    unseen = values(rows, "unseen", "label")
    known = values(rows, "train", "label")
    assert len(unseen) >= 3 and not unseen & (known | values(rows, "test", "label"))
    assert values(rows, "test", "label") == known
    assert values(rows, "unseen", "genus") <= values(rows, "train", "genus")
    assert rows["label"].n_unique() == 25 and rows["common_name"].n_unique() == 25


def test_no_encounter_lies_in_two_splits(rows: pl.DataFrame) -> None:
    assert not values(rows, "train", "unit") & values(rows, "test", "unit")
    assert not values(rows, "train", "individual") & values(rows, "test", "individual")


def test_photos_differ_in_what_is_to_be_told(rows: pl.DataFrame) -> None:
    for column in ("behaviour", "n_animals", "stage", "condition", "background"):
        assert rows[column].n_unique() > 1, column
    assert rows["looks"].n_unique() > 0.7 * len(rows)
    names = rows["common_name"].to_list()
    assert not any(name in seen for name, seen in zip(names, rows["looks"], strict=True))


def test_hundreds_of_species_have_names_of_their_own() -> None:
    world = World(n_species=480)
    assert len({one.common_name for one in world.species}) == 480
    assert len({one.scientific_name for one in world.species}) == 480
