"""Made data, each dataset once per test file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fieldmark.data import load_dataset
from fieldmark.data.world import World
from fieldmark.settings import Settings

SIZES = {"newt": 1312, "beluga": 60, "world": 300, "fishnet": 90, "fishvista": 90, "ecdysis": 90}


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("made")
    return Settings(results=folder / "results", cache=folder / "cache", data_root=folder / "data")


@pytest.fixture(scope="module")
def root(settings: Settings) -> Callable[[str], Path]:
    """`root(dataset)`: its folder, made when first asked for."""

    def make(dataset: str) -> Path:
        folder = settings.root_of(dataset)
        if not folder.exists():
            load_dataset(dataset).make(folder, World(), SIZES.get(dataset, 200))
        return folder

    return make
