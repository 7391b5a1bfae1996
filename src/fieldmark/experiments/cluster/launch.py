"""Launcher (submit, watch, merge): how do steps get to their place, and results to the store?

Steps are submitted under the lease `launch` of the board, so that of several launchers only one at
a time decides what is missing; results are merged under the lease `merge`, so that the store has
one writer. A launcher may die at any point: the same command again takes up where it stood.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fieldmark.experiments.cluster.board import Board
from fieldmark.experiments.execute import How, Outcome
from fieldmark.experiments.plan import Plan
from fieldmark.progress import Progress
from fieldmark.settings import Settings

if TYPE_CHECKING:
    from fieldmark.experiments.cluster.places import Place


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """How a launcher behaves."""

    is_detached: bool = False
    """it ends when all is submitted"""


def merge_finished(board: Board, settings: Settings, progress: Progress) -> int:
    """Everything that finished steps left goes to the store; the number of steps that were merged.
    """
    raise NotImplementedError


def launch(
    plan: Plan,
    settings: Settings,
    place: Place,
    how: How,
    options: LaunchOptions,
    progress: Progress,
) -> Outcome:
    """Submits what is to run and nobody is on, waits for it, and merges what comes."""
    raise NotImplementedError
