"""Runs of documents, stored as a run in lmms-eval's form stores them: two models, four tasks.

`birds-choice`: acc, a mean of 0 and 1, in clusters. `birds-count`: MAE, a mean that is better when
small. `birds-f1`: a function over all documents. `birds-filters`: exact_match under two filters,
some documents failed. The first and the last are members of groups.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fieldmark import draws
from fieldmark.lmms.score.encoding import encode
from fieldmark.metrics import mean_value
from fieldmark.stats import Items, estimate, interval
from fieldmark.store import PartResult, Predictions, RunSpec, Score, Store

GOOD, POOR = "chat/lab/good-1b", "chat/lab/poor-1b"
SKILL = {GOOD: 0.85, POOR: 0.5}
MEMBERS = ["birds-choice", "birds-filters"]


@dataclass(frozen=True)
class Made:
    """A task of the kit."""

    task: str
    metric: str
    aggregation: str = "mean"
    pipelines: Sequence[str] = ("none",)
    n: int = 120
    n_failed: int = 0
    is_up: bool = True
    units: bool = False
    groups: Sequence[Mapping[str, Any]] = ()
    config: Mapping[str, Any] = field(default_factory=dict)


def group(name: str, metric: str, members: Sequence[str] = MEMBERS, **more: Any) -> dict[str, Any]:
    told = {
        "metric": metric, "aggregation": "mean", "weight_by_size": False, "filter_list": ["none"],
        **more,
    }  # fmt: skip
    return {"group": name, "alias": name.title(), "tasks": list(members), "metrics": [told]}


BIRDS = group("birds", "exact_match")
TASKS = {
    each.task: each
    for each in (
        Made("birds-choice", "exact_match", units=True, groups=[BIRDS]),
        Made("birds-count", "mae", is_up=False, n=80),
        Made("birds-f1", "f1", aggregation="!function utils.macro"),
        Made(
            "birds-filters", "exact_match", pipelines=("none", "strict"), n=60, n_failed=6,
            groups=[BIRDS],
        ),
    )
}  # fmt: skip


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def make_document_results(path: Path) -> Path:
    with Store.open(path) as store:
        for model in SKILL:
            for made in TASKS.values():
                write_run(store, model, made)
    return path


def write_run(store: Store, model: str, made: Made, **spec: Any) -> int:
    about = {
        "mean_of": made.metric if made.aggregation == "mean" else "",
        "pipeline": made.pipelines[0], "digest": f"d{made.task}", "code": "c0",
        "output_type": "generate_until",
    }  # fmt: skip
    names = [name(made.metric, each) for each in made.pipelines]
    settings = {"documents": about, "metric": names, "parts": [""], "score": "pooled"}
    run = store.begin_run(
        RunSpec(model, made.task, "documents", settings, n_train=0, task_version="1.5",
                data=f"d{made.task}"[:8], **spec),
        {"config": {"task": {"task": made.task}}, "git": {"commit": "abc123"}},
    )  # fmt: skip
    values = {each: worth(model, made, each) for each in made.pipelines}
    store.write_part(run, PartResult(answered(made, values), n_train=0, seconds=2.0, info={
        "asked_with": list(made.groups),
        "documents": {
            "config": config(made), "n_original": 500, "n_shot": 0, "fallback": "",
            "higher_is_better": {made.metric: made.is_up}, "version": "1.5",
            "ignored": [], "prompt_key": "default",
        },
        "usd": 0.25, "tokens_in": 100 * made.n, "tokens_out": 10 * made.n, "n_requests": made.n,
    }))  # fmt: skip
    store.finish_run(run, scores(made, values))
    return run


def name(metric: str, pipeline: str) -> str:
    return metric if pipeline == "none" else f"{metric},{pipeline}"


def config(made: Made) -> dict[str, Any]:
    return {
        "task": made.task, "task_alias": made.task.replace("-", " "),
        "dataset_path": "lab/birds", "test_split": "test", "doc_to_text": "{{question}}",
        "metric_list": [{"metric": made.metric, "aggregation": made.aggregation,
                         "higher_is_better": made.is_up}],
        **({"filter_list": [{"name": each, "filter": []} for each in made.pipelines]}
           if list(made.pipelines) != ["none"] else {}),
        **made.config,
    }  # fmt: skip


def worth(model: str, made: Made, pipeline: str) -> np.ndarray:
    """What each document is worth; a stricter filter takes some right answers away."""
    random = draws.generator(made.task, model)
    right = random.random(made.n) < SKILL[model]
    if made.metric == "mae":
        return np.where(right, 0.0, random.integers(1, 5, made.n) / 2)
    kept = draws.generator(made.task, model, pipeline).random(made.n) < 0.8
    return (right & (kept | (pipeline == "none"))).astype(float)


def answered(made: Made, values: Mapping[str, np.ndarray]) -> Predictions:
    first = values[made.pipelines[0]]
    is_failed = [row < made.n_failed for row in range(made.n)]
    infos = [
        info(made, row, {each: float(v[row]) for each, v in values.items()}, is_failed[row])
        for row in range(made.n)
    ]
    # The target never equals the answer's words: only the stored value tells what is right.
    return Predictions(
        [str(row) for row in range(made.n)],
        [f"B{row % 4}" for row in range(made.n)],
        [None if lost else f"It is B{row % 7}." for row, lost in enumerate(is_failed)],
        scores=[
            None if lost or made.aggregation != "mean" else float(v)
            for v, lost in zip(first, is_failed, strict=True)
        ],
        units=[f"site {row // 3}" if made.units else None for row in range(made.n)],
        outcomes=["failed" if lost else "ok" for lost in is_failed],
        infos=infos,
    )


def info(made: Made, row: int, values: Mapping[str, float], is_failed: bool) -> str:
    prompt, target, said = f"Which bird is on photo {row}?", f"B{row % 4}", f"It is B{row % 7}."
    found: dict[str, Any] = {
        "input": prompt, "doc_hash": sha(f"{made.task} {row}"), "prompt_hash": sha(prompt),
        "target_hash": sha(target),
    }  # fmt: skip
    if is_failed:
        return json.dumps({**found, "error": "HTTP 500"})
    pairs = made.aggregation != "mean"
    found |= {
        "resps": [[said]],
        "filtered": {each: [f"B{row % 7}"] for each in values},
        "values": {
            each: {made.metric: encode((row % 4, row % 7) if pairs else value)}
            for each, value in values.items()
        },
        "tokens_in": 100, "tokens_out": 10, "usd": 0.002, "finish_reason": "stop",
        "latency_s": 0.5,
    }  # fmt: skip
    return json.dumps(found)


def scores(made: Made, values: Mapping[str, np.ndarray]) -> list[Score]:
    found = []
    for pipeline, value in values.items():
        kept = value[made.n_failed :]
        unit = np.arange(made.n)[made.n_failed :] // 3 if made.units else None
        items = Items(np.zeros(len(kept), int), unit)
        metric = mean_value(made.metric, direction="up" if made.is_up else "down")
        limits = interval(items, kept, metric)
        found.append(Score(
            name(made.metric, pipeline), estimate(items, kept, metric), low=limits.low,
            high=limits.high, n=len(kept), n_units=limits.n_units, method=limits.method,
            is_primary=pipeline == made.pipelines[0], higher_is_better=made.is_up,
            is_fraction=made.metric != "mae",
        ))  # fmt: skip
    n = made.n
    rate = made.n_failed / n
    found.append(Score("failure_rate", rate, low=rate / 2, high=rate + 0.05, n=n, n_units=n,
                       method="wilson", higher_is_better=False))  # fmt: skip
    return found
