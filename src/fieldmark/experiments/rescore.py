"""Re-scoring: how do stored answers get new scores without a run?

Everything a score needs stands in the store: answers, parts and their groups, the rule that makes
one number of parts, and what each class is. What chat models said is read again first, by the
parser of today. Neither the data nor the model is touched. Documents keep the values their tasks
gave them; where a task's own code makes one number of these, it is not run again and scores stay.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl

from fieldmark.metrics import load_metric
from fieldmark.progress import Progress
from fieldmark.protocols import Scoring, known_metric, protocol_of
from fieldmark.registry import short_name
from fieldmark.store import Run, RunFilter, Score, Store

_ROW = ("part", "repeat", "id")


@dataclass(frozen=True, slots=True)
class Rescored:
    """What became of a run."""

    run: Run
    scores: list[Score]
    changed: list[str]
    """metrics of the whole run whose value is another now, or that are new"""
    kept: list[str]
    """metrics that are not here any more: their old scores stay"""
    n_read: int = 0
    """answers of a chat model that are read as something else now"""
    is_left: bool = False
    """scored by code that is not run or not known here, and so left as it is"""


def rescore(
    store: Store, where: RunFilter, metrics: Sequence[str], progress: Progress
) -> list[Rescored]:
    """Scores the finished runs again, by their own metrics and further ones."""
    extra = [name for name in metrics if load_metric(name)]
    runs = [run for run in store.runs(where) if run.state == "done"]
    before = store.scores(where)
    progress.start("scoring", len(runs))
    done = []
    for run in runs:
        done.append(_rescore(store, run, before.get(run.id, []), extra))
        progress.advance()
    return done


def _rescore(store: Store, run: Run, before: Sequence[Score], extra: Sequence[str]) -> Rescored:
    protocol = protocol_of(run.spec.protocol)
    primary = next((score.metric for score in before if score.is_primary), "")
    names = _metrics(before, primary, extra)
    parts, answers = store.finished_parts(run.id), store.predictions(run.id)
    reread = protocol.reread(answers, parts)
    if reread:
        rows = pl.concat([answers, *(part.rows for part in reread)])
        answers = rows.unique(_ROW, keep="last", maintain_order=True).sort(_ROW)
    here = [name for name in names if known_metric(name) is not None]
    rule = str(run.spec.settings.get("score", "pooled"))
    new = protocol.score(Scoring.of(parts, here, rule, seed=run.spec.seed), answers, parts)
    numbers = {(score.metric, score.part) for score in before if not math.isnan(score.value)}
    if new is None or any(
        math.isnan(score.value) and (score.metric, score.part) in numbers for score in new
    ):
        return Rescored(run, list(before), [], [], is_left=True)
    given = {score.metric for score in new}
    lost = [name for name in names if name not in here and name not in given]
    scores = [score for score in before if score.metric in lost] + new
    if any(score.metric == primary for score in scores):
        scores = [_marked(score, primary) for score in scores]
    if reread:
        store.replace_answers(run.id, [part.result for part in reread], scores)
    else:
        store.rescore_run(run.id, scores)
    n_read = sum(part.n_changed for part in reread)
    return Rescored(run, scores, _changed(before, scores), lost, n_read)


def _metrics(before: Sequence[Score], primary: str, extra: Sequence[str]) -> list[str]:
    """The run's own metrics and further ones, the first first."""
    names = dict.fromkeys([primary, *(score.metric for score in before)])
    by_short = {short_name(name): name for name in extra}
    kept = [by_short.get(name, name) for name in names if name]
    return list(dict.fromkeys([*kept, *extra]))


def _marked(score: Score, primary: str) -> Score:
    """The task's own metric stays the first, whichever are added."""
    return replace(score, is_primary=not score.part and score.metric == primary)


def _changed(before: Sequence[Score], after: Sequence[Score]) -> list[str]:
    old = {score.metric: repr(score.value) for score in before if not score.part}
    new = {score.metric: repr(score.value) for score in after if not score.part}
    return [metric for metric, value in new.items() if old.get(metric) != value]
