"""The store: one SQLite file that holds runs, their predictions and their scores."""

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
)
from fieldmark.store.reproduction import reproduction_record
from fieldmark.store.store import Store

__all__ = [
    "OK",
    "Claim",
    "PartRecord",
    "PartResult",
    "Predictions",
    "Run",
    "RunFilter",
    "RunSpec",
    "Score",
    "Store",
    "reproduction_record",
]
