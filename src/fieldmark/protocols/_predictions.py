"""Predictions of a part: what does every protocol hand to the store, and what is noted with them?

A probe tells what a search chose by `chosen_` (a mapping of plain values) and what a reader should
know of the fit by `fit_notes_` (sentences); `tried_` holds all settings of a grid and their
held-out scores (columns). `fieldmark.store` reads them again.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from fieldmark.protocols._question import refs_of
from fieldmark.registry import short_name
from fieldmark.store import PartRecord, PartResult, Predictions
from fieldmark.tasks import Task
from fieldmark.tasks.split import Draw, PartItems, rows_of


@dataclass(frozen=True, slots=True)
class PartPredictions:
    """The answers of one part, all repeats."""

    part: str
    frame: pl.DataFrame
    """repeat, id, target, prediction (null = not answered), score, unit"""
    n_train: int
    """training images really used (the fewest of all repeats)"""
    notes: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    groups: tuple[tuple[str, str], ...] = ()

    def timed(self, seconds: float) -> PartPredictions:
        return replace(self, seconds=seconds)


def answer_frame(
    rows: pl.DataFrame, predictions: Any, scores: Any, repeat: int = 0
) -> pl.DataFrame:
    """The rows' id, target and unit, and what was answered."""
    return rows.select("id", "target", "unit").with_columns(
        pl.Series("prediction", predictions, pl.String),
        pl.Series("score", scores, pl.Float64),
        pl.lit(repeat).alias("repeat"),
    )


@dataclass(frozen=True, slots=True)
class Reread:
    """A part whose answers are read as something else now."""

    part: PartRecord
    rows: pl.DataFrame
    n_changed: int

    @property
    def result(self) -> PartResult:
        columns = ("id", "target", "prediction", "score", "unit", "outcome", "info", "content")
        given = Predictions(*(self.rows[name].to_list() for name in columns))
        old = self.part
        return PartResult(given, old.part, old.repeat, old.n_train, old.seconds, old.info)


class FitNotes:
    """What all fits of a part chose, one after another; `is_joint`: all parts share them."""

    def __init__(self, classifier: str, is_joint: bool = False) -> None:
        self.classifier, self.is_joint = classifier, is_joint
        self.chosen: list[dict[str, Any]] = []
        self.tried: list[dict[str, list[Any]]] = []
        self.notes: Counter[str] = Counter()

    def add(self, probe: object, more: Mapping[str, Any], notes: Sequence[str] = ()) -> None:
        """Remembers what one fit chose, and what was chosen around it."""
        every = {**dict(getattr(probe, "chosen_", {})), **more}
        self.chosen.append({str(name): _plain(value) for name, value in every.items()})
        tried = dict(getattr(probe, "tried_", {}))
        if tried:
            self.tried.append({name: list(map(_plain, column)) for name, column in tried.items()})
        self.notes.update({str(note) for note in (*getattr(probe, "fit_notes_", ()), *notes)})

    def noted(self) -> dict[str, Any]:
        """As it is stored: values by name, one of each fit; nothing if nothing is told."""
        names = dict.fromkeys(name for values in self.chosen for name in values)
        if not names and not self.notes:
            return {}
        fit = {
            "probe": short_name(self.classifier),
            "n_fits": len(self.chosen),
            "chosen": {name: [values.get(name) for values in self.chosen] for name in names},
            "notes": dict(self.notes),
        }
        more = {"is_joint": True} if self.is_joint else {}
        return {"fit": fit | more | ({"tried": self.tried} if self.tried else {})}


def left_out(task: Task, part: PartItems, draw: Draw, bad: Mapping[str, str]) -> dict[str, Any]:
    """Which images of the part could not be read, and why; nothing if all could."""
    if not bad:
        return {}
    images = {ref.image for refs in refs_of(rows_of(task, [part], draw)) for ref in refs}
    left = {image: why for image, why in bad.items() if image in images}
    return {"n_bad_images": len(left), "bad_images": left} if left else {}


def _plain(value: Any) -> str | float | bool | None:
    """A value that JSON knows; None for one that is not finite."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)
