"""Which tables did an earlier fetch leave on this machine?

The `datasets` library finds what it fetched again only by asking the network whether it changed.
So what came is written down, under what was asked for.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fieldmark import draws
from fieldmark.lmms.data.sources import Source


def remember(source: Source, every: Mapping[str, Any], cache: Path) -> None:
    """Notes the files of each split; those that lie elsewhere than below `cache` are not ours."""
    files = {
        name: [each["filename"] for each in table.cache_files] for name, table in every.items()
    }
    paths = [Path(each) for listed in files.values() for each in listed]
    if paths and all(each.is_relative_to(cache) for each in paths):
        note = _note(source, cache)
        note.parent.mkdir(parents=True, exist_ok=True)
        kept = {k: [str(Path(f).relative_to(cache)) for f in v] for k, v in files.items()}
        about = json.dumps({"path": source.path, "name": source.name, "files": kept})
        part = note.with_suffix(f".{os.getpid()}.part")  # a killed process leaves no half a note
        part.write_text(about, encoding="utf-8")
        part.replace(note)


def recall(datasets: Any, source: Source, cache: Path) -> Mapping[str, Any] | None:
    """The tables an earlier fetch of the same left; None if there are none, or not all."""
    note = _note(source, cache)
    if not note.is_file():
        return None
    files: dict[str, list[str]] = json.loads(note.read_text(encoding="utf-8"))["files"]
    if not all((cache / each).is_file() for listed in files.values() for each in listed):
        return None
    return {
        name: datasets.concatenate_datasets(
            [datasets.Dataset.from_file(str(cache / each)) for each in listed]
        )
        for name, listed in files.items()
        if listed
    }


def _note(source: Source, cache: Path) -> Path:
    asked = json.dumps(dict(source.options), sort_keys=True, default=str)
    key = draws.digest(source.kind, source.path, source.name, asked).hex()
    return cache / "fetched" / f"{key}.json"
