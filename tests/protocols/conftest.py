"""Made data, each dataset once per test file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fieldmark.settings import Settings
from kit.made import make_dataset

SIZES = {
    "newt": 1312, "beluga": 60, "world": 300, "fishnet": 90, "fishvista": 90, "ecdysis": 90,
    "meta_album": 400,
}  # fmt: skip


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
            make_dataset(dataset, folder, SIZES.get(dataset, 200))
        return folder

    return make


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small world, to be asked about."""
    folder = tmp_path_factory.mktemp("world")
    make_dataset("world", folder, 150)
    return folder


@pytest.fixture
def fresh_settings(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A folder of its own for each test, which is the current one."""
    monkeypatch.chdir(tmp_path)
    results, cache = tmp_path / "results", tmp_path / "cache"
    return Settings(results=results, cache=cache, data={"world": world}, data_root=tmp_path)
