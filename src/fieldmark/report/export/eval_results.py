"""Entries for the Hub's leaderboards: `.eval_results/*.yaml` of a model repository.

https://huggingface.co/docs/hub/eval-results (beta). An entry holds one number, so its interval
stands in the notes. Only data that live on the Hub can be named.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from fieldmark.report.export._chosen import Chosen, ExportFile, yaml_text
from fieldmark.report.facts import TaskFacts, signature
from fieldmark.report.rows import Row
from fieldmark.report.table.layout import number


def export(chosen: Chosen) -> Iterator[ExportFile]:
    facts = chosen.tasks()
    elsewhere = sorted(name for name, task in facts.items() if not task.hub_id)
    if elsewhere:
        chosen.left_out.append(f"data that are not on the Hub: {', '.join(elsewhere)}")
    for model, rows in chosen.real_models().items():
        by_task: dict[str, list[dict[str, Any]]] = {}
        for row in rows:
            is_wanted = row.score.is_primary and not row.score.part and facts[row.column].hub_id
            if is_wanted and not math.isnan(row.score.value):
                entry = _entry(row, facts[row.column], chosen.source)
                by_task.setdefault(row.column, []).append(entry)
        for task, entries in by_task.items():
            name = f"{chosen.file_name(model)}/.eval_results/{chosen.file_name(task)}.yaml"
            yield ExportFile(name, [yaml_text(entries).encode()])


def _entry(row: Row, facts: TaskFacts, source: str) -> dict[str, Any]:
    score, finished = row.score, row.run.finished
    return {
        "dataset": {"id": facts.hub_id, "task_id": row.column},
        "value": round(score.scale * score.value, 4),
        **({"date": finished} if finished else {}),
        **({"source": {"url": source, "name": "fieldmark"}} if source else {}),
        "notes": _notes(row),
    }


def _notes(row: Row) -> str:
    score = row.score
    interval = "no interval"
    if score.low is not None and score.high is not None:
        low, high = number(score.low, score), number(score.high, score)
        interval = f"{100 * score.level:g} % interval {low} to {high}"
    return f"{score.metric}, {interval}, n={score.n}; {signature(row.run.spec)} app={row.run.app}"
