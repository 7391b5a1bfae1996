"""Synthetic copies of datasets, each made once for all tests that look at one."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fieldmark.data import MARK
from fieldmark.world import World
from kit.made import make_dataset

MADE_SIZE = 48


@pytest.fixture(scope="session")
def made_copy(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a dataset's copy, of seed 5 and 48 species; small ones have 48 images."""

    copies: dict[str, Path] = {}

    def get(name: str) -> Path:
        if name not in copies:
            copies[name] = make_dataset(
                name, tmp_path_factory.mktemp(name), MADE_SIZE, World(seed=5)
            )
            (copies[name] / MARK).unlink()  # what is left is the layout of the published files
        return copies[name]

    return get


@pytest.fixture(scope="session")
def real_table() -> Callable[[str], Path]:
    """An annotation table as published, from the folder beside the repository; else a skip."""
    folder = Path(__file__).parents[3] / "shared" / "data"

    def get(name: str) -> Path:
        if not (folder / name).is_file():
            pytest.skip(f"{name} is not beside the repository")
        return folder / name

    return get
