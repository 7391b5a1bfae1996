"""For tests of scores: a task's scores from predictions, as a finished run has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from fieldmark.protocols import PartItems, Scoring, score_answers
from fieldmark.store import Score
from fieldmark.tasks import Task


def score_run(
    task: Task,
    parts: Sequence[PartItems],
    predictions: pl.DataFrame,
    kinds: Mapping[str, str] | None = None,
) -> list[Score]:
    groups = {part.name: dict(part.groups) for part in parts}
    scoring = Scoring((task.metric, *task.also), task.primary or task.score, groups)
    return score_answers(scoring, predictions, kinds)
