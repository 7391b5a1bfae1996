"""The store: one SQLite file that holds runs, their predictions and their scores."""

from typing import TYPE_CHECKING

from fieldmark.lazy import exports
from fieldmark.store.problems import nothing_stored
from fieldmark.store.records import (
    OK,
    Claim,
    PartRecord,
    PartResult,
    Predictions,
    Run,
    RunFilter,
    RunSpec,
    Score,
    canonical_json,
)
from fieldmark.store.reproduction import reproduction_record
from fieldmark.store.store import Store

if TYPE_CHECKING:
    from fieldmark.store.predictions import Answers

__all__ = [
    "OK",
    "Answers",
    "Claim",
    "PartRecord",
    "PartResult",
    "Predictions",
    "Run",
    "RunFilter",
    "RunSpec",
    "Score",
    "Store",
    "canonical_json",
    "nothing_stored",
    "reproduction_record",
]

__getattr__ = exports(__name__, {"predictions": ("Answers",)})
