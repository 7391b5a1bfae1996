"""Synthetic copies of datasets, each made once for all tests that look at one."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fieldmark.world import World
from kit.made import made

MADE_SIZE = 48


@pytest.fixture(scope="session")
def made_copy() -> Callable[[str], Path]:
    """The folder of a dataset's copy, of seed 5 and 48 species; small ones have 48 images."""
    return lambda name: made(name, MADE_SIZE, World(seed=5))


@pytest.fixture(scope="session")
def real_table() -> Callable[[str], Path]:
    """An annotation table as published, from the folder beside the repository; else a skip."""
    folder = Path(__file__).parents[3] / "shared" / "data"

    def get(name: str) -> Path:
        if not (folder / name).is_file():
            pytest.skip(f"{name} is not beside the repository")
        return folder / name

    return get
