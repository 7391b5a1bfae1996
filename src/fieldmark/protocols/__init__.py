"""Protocols: how a model is asked a task. One file each."""

from fieldmark.protocols._answers import arrange, recorded_kinds
from fieldmark.protocols._ask_again import read_again
from fieldmark.protocols._ask_options import AskOptions, AskSettings
from fieldmark.protocols._ask_scores import ASKING, asking_scores
from fieldmark.protocols._check import task_problems
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
    "Draw",
    "PartItems",
    "PartPredictions",
    "Scoring",
    "Selection",
    "arrange",
    "asking_scores",
    "check_part",
    "is_joint",
    "read_again",
    "recorded_kinds",
    "refs_of",
    "score_answers",
    "score_run",
    "split_parts",
    "task_problems",
]
