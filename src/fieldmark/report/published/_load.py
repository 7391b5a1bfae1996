"""Which numbers were published, where, and how far can they be trusted?"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Published:
    """One number of one source."""

    source: str
    date: str
    """year-month-day as far as known"""
    address: str
    column: str
    """as the source heads it"""
    model: str
    """as the source calls it"""
    value: float
    """in points, 0 to 100"""
    task: str
    """ours, with its variant: "newt@biobench2026"; "" where there is none"""
    models: tuple[str, ...]
    """ours; empty where it cannot be loaded here"""
    protocol: str
    metric: str
    tolerance: float
    """points that two honest runs may differ by"""
    n_items: int | None = None
    """tested by the source, where known"""
    faulty: str = ""
    """why the number itself is not to be trusted"""
    note: str = ""


@cache
def published() -> tuple[Published, ...]:
    """Every number of every source, in the order of files, models and columns."""
    return tuple(each for path in sorted(FOLDER.glob("*.toml")) for each in _read(path))


def _read(path: Path) -> Iterator[Published]:
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    names = data["scores"]["columns"]
    for model, values in data["scores"]["of"].items():
        for name, value in zip(names, values, strict=True):
            if not math.isnan(value):
                yield _number(data, model, name, value)


def _number(data: Mapping[str, Any], model: str, name: str, value: float) -> Published:
    column = data["columns"][name]
    faults = (column.get("faulty", ""), data.get("faulty_models", {}).get(model, ""))
    return Published(
        source=data["name"],
        date=data["date"],
        address=data["address"],
        column=name,
        model=model,
        value=float(value),
        task=column.get("task", ""),
        models=tuple(data["models"][model]),
        protocol=column.get("protocol", data.get("protocol", "")),
        metric=column["metric"],
        tolerance=float(column.get("tolerance", 0.0)),
        n_items=column.get("n_items"),
        faulty="; ".join(each for each in faults if each),
        note=column.get("note", ""),
    )
