"""How do stored answers get new scores without a run?

Everything a score needs stands in the store: answers, parts and their groups, the rule that makes
one number of parts, and what each class is. Neither the data nor the model is touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fieldmark.errors import FieldmarkError
from fieldmark.metrics import load_metric
from fieldmark.progress import Progress
from fieldmark.protocols import Scoring, recorded_kinds, score_answers
from fieldmark.registry import short_name
from fieldmark.store import Run, RunFilter, Score, Store


@dataclass(frozen=True, slots=True)
class Rescored:
    """What became of a run."""

    run: Run
    scores: list[Score]
    changed: list[str]
    """metrics of the whole run whose value is another now, or that are new"""
    kept: list[str]
    """metrics that are not here any more: their old scores stay"""


def rescore(
    store: Store, where: RunFilter, metrics: Sequence[str], progress: Progress
) -> list[Rescored]:
    """Scores the finished runs again, by their own metrics and further ones."""
    extra = [name for name in metrics if load_metric(name)]
    runs = [run for run in store.runs(where) if run.state == "done"]
    before = store.scores(where)
    progress.start("scoring", len(runs))
    found = []
    for run in runs:
        found.append(_rescore(store, run, before.get(run.id, []), extra))
        progress.advance()
    return found


def _rescore(store: Store, run: Run, before: Sequence[Score], extra: Sequence[str]) -> Rescored:
    primary = next((score.metric for score in before if score.is_primary), "")
    own = list(dict.fromkeys([primary, *(score.metric for score in before)]))
    by_short = {short_name(name): name for name in extra}
    names = list(dict.fromkeys([by_short.get(name, name) for name in own if name] + list(extra)))
    lost = [name for name in names if not _is_here(name)]
    parts = store.finished_parts(run.id)
    scoring = Scoring(
        tuple(name for name in names if name not in lost),
        str(run.spec.settings.get("score", "pooled")),
        {part.part: (part.info or {}).get("groups", {}) for part in parts},
    )
    scores = [score for score in before if score.metric in lost]
    if scoring.metrics:
        answers = store.predictions(run.id)
        scores += score_answers(scoring, answers, recorded_kinds(parts))
    scores = [_marked(score, primary) for score in scores]
    store.rescore_run(run.id, scores)
    return Rescored(run, scores, _changed(before, scores), lost)


def _is_here(name: str) -> bool:
    try:
        load_metric(name)
    except FieldmarkError:
        return False
    return True


def _marked(score: Score, primary: str) -> Score:
    """The task's own metric stays the first, whichever are added."""
    return replace(score, is_primary=not score.part and score.metric == primary)


def _changed(before: Sequence[Score], after: Sequence[Score]) -> list[str]:
    old = {score.metric: repr(score.value) for score in before if not score.part}
    new = {score.metric: repr(score.value) for score in after if not score.part}
    return [metric for metric, value in new.items() if old.get(metric) != value]
