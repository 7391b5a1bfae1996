"""What is known of a model beyond its scores: how large is it, and how fast was it?

Sizes come from the families' tables, else from what the runs noted; speeds from what they noted
when features were computed. Nothing is loaded to find out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fieldmark.report.labels import model_name
from fieldmark.report.plots._results import Results
from fieldmark.store import Run


def parameters(results: Results) -> dict[str, float]:
    """Parameters by model as the rows name it, as far as known: of the image tower where a table
    has the model.
    """
    from fieldmark.models import known_models

    table = {row.name: float(row.params) for row in known_models() if row.params}
    models = {row.model: model_name(row.run.spec) for row in results.rows}
    known = {label: table.get(name.partition("?")[0]) for label, name in models.items()}
    others = {model for model, size in known.items() if size is None}
    found = {model: size for model, size in known.items() if size is not None}
    return found | _noted(results, "n_parameters", others)


def images_per_s(results: Results) -> dict[str, float]:
    """By model as the rows name it, from its newest run that knows its speed."""
    return _noted(results, "images_per_s", {row.model for row in results.rows})


def _noted(results: Results, fact: str, models: set[str]) -> dict[str, float]:
    """What the runs of these models noted, the newest run that did so."""
    found: dict[str, float] = {}
    for model, runs in _runs(results).items():
        newest = sorted(runs, key=lambda each: each.finished or "", reverse=True)
        for run in newest if model in models else []:
            infos = [part.info or {} for part in results.store.finished_parts(run.id)]
            noted = [each for info in infos if (each := _number(info, fact))]
            if noted:
                found[model] = max(noted)
                break
    return found


def _runs(results: Results) -> dict[str, list[Run]]:
    found: dict[str, list[Run]] = {}
    for row in results.rows:
        found.setdefault(row.model, []).append(row.run)
    return found


def _number(facts: Mapping[str, Any], name: str) -> float | None:
    value = facts.get(name)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0
    return float(value) if is_number and value is not None else None
