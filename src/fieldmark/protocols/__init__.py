"""Protocols: how a model is asked a task. One file each."""

from fieldmark.protocols._answers import arrange, recorded_kinds
from fieldmark.protocols._ask_again import read_again
from fieldmark.protocols._ask_options import AskOptions, AskSettings
from fieldmark.protocols._ask_scores import ASKING, asking_scores
from fieldmark.protocols._check import task_problems
from fieldmark.protocols._checks import (
    Checked,
    Rendered,
    RenderedDocument,
    check_files,
    render_documents,
)
from fieldmark.protocols._documents._part import DocumentPart, draw_part, open_part
from fieldmark.protocols._documents._problems import document_problems
from fieldmark.protocols._documents._run import ask_documents, estimate_documents
from fieldmark.protocols._documents._scored import score_document_run
from fieldmark.protocols._documents._values import decode
from fieldmark.protocols._documents._wanted import mean_of, metric_names
from fieldmark.protocols._items import (
    Draw,
    PartItems,
    Selection,
    check_part,
    is_joint,
    refs_of,
    split_parts,
)
from fieldmark.protocols._predictions import PartPredictions
from fieldmark.protocols._score import Scoring, score_answers, score_run
from fieldmark.registry import Registry

PROTOCOLS = Registry("protocol", "fieldmark.protocols", "fieldmark tasks --help")

__all__ = [
    "ASKING",
    "PROTOCOLS",
    "AskOptions",
    "AskSettings",
    "Checked",
    "DocumentPart",
    "Draw",
    "PartItems",
    "PartPredictions",
    "Rendered",
    "RenderedDocument",
    "Scoring",
    "Selection",
    "arrange",
    "ask_documents",
    "asking_scores",
    "check_files",
    "check_part",
    "decode",
    "document_problems",
    "draw_part",
    "estimate_documents",
    "is_joint",
    "mean_of",
    "metric_names",
    "open_part",
    "read_again",
    "recorded_kinds",
    "refs_of",
    "render_documents",
    "score_answers",
    "score_document_run",
    "score_run",
    "split_parts",
    "task_problems",
]
