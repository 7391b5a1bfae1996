"""The store: one SQLite file that holds runs, their predictions and their scores."""

from typing import TYPE_CHECKING

from fieldmark import exports
from fieldmark.files import canonical_json
from fieldmark.processes import host
from fieldmark.store.database import nothing_stored
from fieldmark.store.part_notes import (
    bad_images,
    decode_noted,
    examples_words,
    fewer_examples,
    fit_summary,
    mean_calibration,
)
from fieldmark.store.records import (
    AMONG_ANSWERED,
    ANSWERED_RATE,
    NOT_SENT,
    OK,
    UNANSWERED,
    Claim,
    Marks,
    PartRecord,
    PartResult,
    Predictions,
    Run,
    RunFilter,
    RunName,
    RunSpec,
    Score,
    reproduction_record,
)
from fieldmark.store.store import Store

if TYPE_CHECKING:
    from fieldmark.store.merge import MergeCounts, adopt_shard, merge_shards
    from fieldmark.store.predictions import Answers

__all__ = [
    "AMONG_ANSWERED",
    "ANSWERED_RATE",
    "NOT_SENT",
    "OK",
    "UNANSWERED",
    "Answers",
    "Claim",
    "Marks",
    "MergeCounts",
    "PartRecord",
    "PartResult",
    "Predictions",
    "Run",
    "RunFilter",
    "RunName",
    "RunSpec",
    "Score",
    "Store",
    "adopt_shard",
    "bad_images",
    "canonical_json",
    "decode_noted",
    "examples_words",
    "fewer_examples",
    "fit_summary",
    "host",
    "mean_calibration",
    "merge_shards",
    "nothing_stored",
    "reproduction_record",
]

__getattr__ = exports(__name__)
