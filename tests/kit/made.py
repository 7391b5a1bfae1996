"""Synthetic copies of datasets, drawn once per test run and copied from then on.

Drawing is all Python and takes seconds, a copy milliseconds. The first test that needs a dataset of
some world and size draws it under a lock, for all workers (conftest names the folder they share).
What `make` itself promises (the same
bytes again, a full disk, a kill) is tested by calling it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from pathlib import Path

from fieldmark.data import load_dataset
from fieldmark.world import World


def make_dataset(name: str, folder: Path, size: int, world: World | None = None) -> Path:
    """Fills the folder with a copy that tests may change."""
    shutil.copytree(made(name, size, world), folder, dirs_exist_ok=True)
    return folder


def made(name: str, size: int, world: World | None = None) -> Path:
    """The one copy that all tests read and none changes."""
    world = world or World()
    digest = hashlib.sha256(f"{world!r} {size}".encode()).hexdigest()[:12]
    place = Path(os.environ["TEST_DATASETS"]) / f"{name}-{digest}"
    if not place.exists():
        with place.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not place.exists():
                draft = place.with_suffix(".draft")
                load_dataset(name).make(draft, world, size)
                draft.rename(place)
    return place
