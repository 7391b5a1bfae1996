"""What many tests need and one makes: synthetic datasets, and whatever takes seconds to make.

Drawing is all Python and takes seconds, a copy milliseconds. The first test to need a thing makes
it under a lock, for all workers (conftest names the folder they share). What `make` itself promises
(the same bytes again, a full disk, a kill) is tested by calling it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from fieldmark.data import load_dataset
from fieldmark.world import World


def make_dataset(name: str, folder: Path, size: int, world: World | None = None) -> Path:
    """Fills the folder with a copy that tests may change."""
    shutil.copytree(made(name, size, world), folder, dirs_exist_ok=True)
    return folder


def made(name: str, size: int, world: World | None = None) -> Path:
    """The one copy of a dataset that all tests read and none changes."""
    world = world or World()
    what = f"{name} {world!r} {size}"
    return made_once(what, lambda draft: load_dataset(name).make(draft, world, size))


def made_once(what: str, make: Callable[[Path], object]) -> Path:
    """A folder that the first test fills which asks for it."""
    place = Path(os.environ["TEST_DATASETS"]) / hashlib.sha256(what.encode()).hexdigest()[:12]
    if not place.exists():
        with place.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not place.exists():
                draft = place.with_suffix(".draft")
                make(draft)
                draft.rename(place)
    return place
