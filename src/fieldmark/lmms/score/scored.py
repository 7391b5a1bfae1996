"""How do the stored answers of a run become its scores?

Needs the task and the store: neither the model nor the documents.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from fieldmark.lmms import DocumentTask
from fieldmark.lmms.score.agreement import agreement_scores
from fieldmark.lmms.score.scores import (
    DocumentValues,
    ScoredMetric,
    ScoreSettings,
    score_documents,
)
from fieldmark.lmms.score.values import decode
from fieldmark.lmms.score.wanted import (
    aggregation_of,
    higher_is_better,
    metrics_of,
    pipelines_of,
    repeats_of,
    result_name,
)
from fieldmark.stats import Resampling
from fieldmark.store import OK, Score


def score_document_run(
    task: DocumentTask, predictions: pl.DataFrame, seed: int, folder: Path | None
) -> list[Score]:
    """All scores of a run; aggregations write their files into the folder."""
    # The store sorts ids as texts; aggregations may count on the documents' own order.
    answered = predictions.filter(pl.col("outcome") == OK).sort(pl.col("id").cast(pl.Int64))
    infos = [json.loads(text) for text in answered["info"]]
    rows = [
        DocumentValues(_values(info), unit)
        for info, unit in zip(infos, answered["unit"], strict=True)
    ]
    settings = ScoreSettings(task.task, seed, folder)
    scores = score_documents(scored_metrics(task), rows, settings)
    if repeats_of(task) > 1:
        scores += _agreement(task, infos, answered["unit"].to_list(), seed)
    hows = sorted({info["how"] for info in infos if "how" in info})
    told = [*hows, *_oddities(task, infos, answered["unit"].to_list())]
    if not infos:
        told = [_silence(predictions)]
    return [
        replace(each, warning="; ".join(filter(None, (*told, each.warning)))) for each in scores
    ]


def _silence(predictions: pl.DataFrame) -> str:
    """Why there is nothing to score, in the words of the first failure."""
    errors = (json.loads(text).get("error", "") for text in predictions["info"] if text)
    first = next(filter(None, errors), "").rstrip(".")
    return f"none of {len(predictions)} documents was answered{f': {first}' if first else ''}"


def _oddities(
    task: DocumentTask, infos: Sequence[dict[str, Any]], units: Sequence[str | None]
) -> Iterator[str]:
    """What looks like a mistake in the task's file."""
    for words, n in sorted(Counter(info.get("odd", "") for info in infos).items()):
        if words:
            yield f"{n} of {len(infos)} documents: {words}"
    if task.cluster_key and infos and not any(units):
        yield f"cluster_key {task.cluster_key!r} is in no document: each counts as independent"


def scored_metrics(task: DocumentTask) -> list[ScoredMetric]:
    """Every metric under every pipeline."""
    return [
        ScoredMetric(
            item.name,
            pipeline.name,
            aggregation_of(task, item),
            higher_is_better(item),
            task.place_of("metric_list", number, "aggregation"),
        )
        for pipeline in pipelines_of(task)
        for number, item in enumerate(metrics_of(task))
    ]


def _agreement(
    task: DocumentTask, infos: Sequence[dict[str, Any]], units: Sequence[str | None], seed: int
) -> list[Score]:
    """How far the repeats of a document differ, by the first metric."""
    told = [info.get("each", []) for info in infos]
    values = [[decode(value) for _, value in each] for each in told]
    answers = [[said for said, _ in each] for each in told]
    first = scored_metrics(task)[0]
    resampling = Resampling(seed=seed, task=f"{task.task} repeats")
    found = agreement_scores(first.name, values, units, answers, resampling)
    return [replace(each, metric=result_name(each.metric, first.pipeline)) for each in found]


def _values(info: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        pipeline: {name: decode(text) for name, text in values.items()}
        for pipeline, values in info["values"].items()
    }
