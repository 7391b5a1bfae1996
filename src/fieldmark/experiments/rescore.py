"""How do stored answers get new scores without a run?

Everything a score needs stands in the store: answers, parts and their groups, the rule that makes
one number of parts, and what each class is. What chat models said is read again first, by the
parser of today. Neither the data nor the model is touched. Documents keep the values their tasks
gave them; where a task's own code makes one number of these, it is not run again and scores stay.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from fieldmark.errors import FieldmarkError
from fieldmark.lmms import DocumentTask, score_document_run
from fieldmark.lmms.metrics.registry import known_document_metrics
from fieldmark.metrics import load_metric
from fieldmark.progress import Progress
from fieldmark.protocols import (
    ASKING,
    Scoring,
    asking_scores,
    read_again,
    recorded_kinds,
    score_answers,
)
from fieldmark.registry import short_name
from fieldmark.store import PartRecord, PartResult, Predictions, Run, RunFilter, Score, Store

_ROW = ("part", "repeat", "id")
CODE = "!function"
"""how a task's own code begins in the record of a run"""


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
    found = []
    for run in runs:
        found.append(_rescore(store, run, before.get(run.id, []), extra))
        progress.advance()
    return found


def _rescore(store: Store, run: Run, before: Sequence[Score], extra: Sequence[str]) -> Rescored:
    if "documents" in run.spec.settings:
        return _rescore_documents(store, run, before)
    is_asked = run.spec.protocol == "ask"
    primary = next((score.metric for score in before if score.is_primary), "")
    own = list(dict.fromkeys([primary, *(score.metric for score in before)]))
    own = [name for name in own if name and not (is_asked and name in ASKING)]
    by_short = {short_name(name): name for name in extra}
    names = list(dict.fromkeys([by_short.get(name, name) for name in own] + list(extra)))
    lost = [name for name in names if not _is_here(name)]
    parts = store.finished_parts(run.id)
    answers, reread = store.predictions(run.id), []
    if is_asked:
        reread = _read_again(answers, parts)
        rows = pl.concat([answers, *(each.rows for each in reread)])
        answers = rows.unique(_ROW, keep="last", maintain_order=True).sort(_ROW)
    scoring = Scoring(
        tuple(name for name in names if name not in lost),
        str(run.spec.settings.get("score", "pooled")),
        {part.part: (part.info or {}).get("groups", {}) for part in parts},
    )
    scores = [score for score in before if score.metric in lost]
    if scoring.metrics:
        scores += score_answers(scoring, answers, recorded_kinds(parts))
    if is_asked:
        scores += asking_scores(answers, parts)
    scores = [_marked(score, primary) for score in scores]
    if reread:
        store.replace_answers(run.id, [each.result for each in reread], scores)
    else:
        store.rescore_run(run.id, scores)
    n_read = sum(each.n_changed for each in reread)
    return Rescored(run, scores, _changed(before, scores), lost, n_read)


def _rescore_documents(store: Store, run: Run, before: Sequence[Score]) -> Rescored:
    """Metrics of labels mean nothing to documents: none can be added."""
    answers, parts = store.predictions(run.id), store.finished_parts(run.id)
    task = _scoring_of(parts)
    if task is None:
        return Rescored(run, list(before), [], [], is_left=True)
    scores = score_document_run(task, answers, run.spec.seed, None) + asking_scores(answers, parts)
    if _numbers(before) - _numbers(scores):  # an aggregation, or an extra, that is not here
        return Rescored(run, list(before), [], [], is_left=True)
    store.rescore_run(run.id, scores)
    return Rescored(run, scores, _changed(before, scores), [])


def _numbers(scores: Sequence[Score]) -> set[str]:
    return {score.metric for score in scores if not math.isnan(score.value)}


def _scoring_of(parts: Sequence[PartRecord]) -> DocumentTask | None:
    """As much of the task as scores need; None where code would be needed."""
    told: dict[str, Any] = next((part.info["documents"] for part in parts if part.info), {})
    config: dict[str, Any] = told.get("config", {})
    metrics = [dict(each) for each in config.get("metric_list") or ()]
    is_own = "process_results" in config
    if not config or not all(_is_aggregated_here(each, is_own) for each in metrics):
        return None
    for each in metrics:
        if each["metric"].startswith(CODE):
            each["metric"] = each["metric"].rpartition(".")[2]
    kept = ("task", "filter_list", "output_type", "repeats", "score_key", "cluster_key")
    given = {name: config[name] for name in kept if name in config}
    return DocumentTask.model_validate({**given, "metric_list": metrics or None})


def _is_aggregated_here(item: dict[str, Any], is_own: bool) -> bool:
    """Not by a task's code, nor by the way of a metric that somebody registered elsewhere."""
    given = item.get("aggregation")
    if given is not None:
        return not str(given).startswith(CODE)
    name = str(item["metric"])
    return is_own or name.startswith(CODE) or name in known_document_metrics()


@dataclass(frozen=True, slots=True)
class _Reread:
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


def _read_again(answers: pl.DataFrame, parts: Sequence[PartRecord]) -> list[_Reread]:
    """The parts that keep what their options were called, where an answer changes."""
    found = []
    for part in parts:
        reading = (part.info or {}).get("reading")
        if reading is None:
            continue
        is_mine = (pl.col("part") == part.part) & (pl.col("repeat") == part.repeat)
        old = answers.filter(is_mine)
        new = read_again(old, reading)
        is_other = [old[name].ne_missing(new[name]) for name in ("prediction", "outcome")]
        if n_changed := int((is_other[0] | is_other[1]).sum()):
            found.append(_Reread(part, new, n_changed))
    return found


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
