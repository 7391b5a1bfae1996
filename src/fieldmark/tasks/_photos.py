"""Photos as a task: which question does a folder of class folders, or a table, ask by itself?

Which label is it? Where the photos lie in train and test folders, these are used; else some photos
of each label train and the rest test. `fieldmark try` tests more honestly: it keeps photos of one
burst or camera together.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Container
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fieldmark.source_lines import is_file, is_folder
from fieldmark.tasks._readers import yaml_files

if TYPE_CHECKING:
    from fieldmark.tasks._schema import Task

TABLES = (".csv", ".tsv", ".parquet")
MOST_SHOTS = 16
REPEATS = 5
_TASK_KEY = re.compile(rb"^(task|group|include|dataset|dataset_path)[ \t]*:", re.MULTILINE)
_HEAD = 2**16
"""bytes of a file in which a task would show"""


def holds_tasks(path: Path) -> bool:
    """A YAML file, or a folder with one below; among images it must look like a task."""
    if not path.is_dir():
        return path.suffix.lower() in (".yaml", ".yml")
    every = list(yaml_files([path]))
    return any(map(_looks_like_task, every)) or (bool(every) and not _has_images(path))


def _looks_like_task(path: Path) -> bool:
    try:
        if not path.is_file():  # a pipe would keep its reader waiting
            return False
        with path.open("rb") as file:
            return _TASK_KEY.search(file.read(_HEAD)) is not None
    except OSError:
        return False


def _has_images(folder: Path) -> bool:
    from fieldmark.data import is_image

    return any(is_image(name) for _, _, names in os.walk(folder) for name in names)


def is_photos(path: Path) -> bool:
    """A table, or a folder with photos and no tasks."""
    if is_folder(path):
        return not holds_tasks(path) and _has_images(path)
    return path.suffix.lower() in TABLES and is_file(path)


def photo_task(path: Path, taken: Container[str] = ()) -> Task:
    """The task that photos are; its name is that of the folder or table, unless it is `taken`."""
    from fieldmark.data import read_table
    from fieldmark.tasks._schema import task_schema

    dataset, path = "folder" if path.is_dir() else "csv", path.resolve()
    name = re.sub(r"[^a-z0-9_.-]+", "-", path.stem.lower()).strip("-_.") or "photos"
    table = read_table(dataset, path, {})
    keys: dict[str, Any] = {}
    if not {"train", "test"} <= set(table.get_column("split")):
        fewest = min(Counter(table.get_column("label").drop_nulls()).values(), default=1)
        keys = {
            "train": {},
            "test": "rest",
            "shots": max(1, min(MOST_SHOTS, fewest // 2)),
            "repeats": REPEATS,
        }
    keys |= {
        "task": f"photos-{name}" if name in taken else name,
        "dataset": dataset,
        "data": str(path),
        "metric": "accuracy",
        "probe": {"classifier": "simpleshot", "normalise": ["centre", "l2"]},
        "zero_shot": {},
        "ask": {},
    }
    return task_schema()(**keys)
