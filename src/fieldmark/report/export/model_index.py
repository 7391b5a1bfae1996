"""Metadata for a model card: the `model-index` block of a README on the Hugging Face Hub.

https://huggingface.co/docs/hub/model-cards. One file per model, to be put between the `---` lines;
values are in percent where the metric is a share, limits and counts stand under `args`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from fieldmark.protocols import protocol_of
from fieldmark.registry import ANSWERS, DUAL
from fieldmark.report.export._chosen import Chosen, ExportFile, yaml_text
from fieldmark.report.facts import TaskFacts, developer_and_name, signature
from fieldmark.report.rows import Row


def export(chosen: Chosen) -> Iterator[ExportFile]:
    facts = chosen.tasks()
    for model, rows in chosen.real_models().items():
        results = _results(rows, facts, chosen)
        index = {"model-index": [{"name": developer_and_name(model)[1], "results": results}]}
        yield ExportFile(f"{chosen.file_name(model)}.yaml", [yaml_text(index).encode()])


def _results(
    rows: Sequence[Row], facts: dict[str, TaskFacts], chosen: Chosen
) -> list[dict[str, Any]]:
    """One entry per run, with all metrics of the whole run."""
    entries: dict[int, dict[str, Any]] = {}
    for row in rows:
        if row.score.part or math.isnan(row.score.value):
            continue
        spec, about = row.run.spec, facts[row.column]
        entry = entries.setdefault(
            row.run.id,
            {
                "task": {"type": hub_task(spec.protocol), "name": about.title},
                "dataset": {
                    "name": about.data_title,
                    "type": about.hub_id or about.data_name,
                    "config": row.column,
                    "split": "test",
                    "args": {"signature": signature(spec)},
                },
                "metrics": [],
                **(
                    {"source": {"name": "fieldmark", "url": chosen.source}} if chosen.source else {}
                ),
            },
        )
        entry["metrics"].append(_metric(row))
    return list(entries.values())


def hub_task(label: str) -> str:
    """The task type that model cards name, by what is asked of a model first."""
    abilities = protocol_of(label).needs[0]
    if ANSWERS in abilities:
        return "image-text-to-text"
    return "zero-shot-image-classification" if abilities >= DUAL else "image-classification"


def _metric(row: Row) -> dict[str, Any]:
    score = row.score
    scale = score.scale
    limits: dict[str, Any] = {}
    if score.low is not None and score.high is not None:
        limits = {"low": round(scale * score.low, 4), "high": round(scale * score.high, 4),
                  "level": score.level}  # fmt: skip
    return {
        "type": score.metric,
        "value": round(scale * score.value, 4),
        "name": f"{score.metric}{', %' if score.is_fraction else ''}",
        "args": {**limits, "n": score.n},
    }
