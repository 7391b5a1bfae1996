"""What can be told about a model or a task beside its scores?

Whatever is not known here (a user's own model, a task file that is gone) is left empty: the site
is about results, and those are in the store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fieldmark.data import DATASETS, load_dataset
from fieldmark.errors import FieldmarkError
from fieldmark.models import families, known_models
from fieldmark.registry import is_file_reference, short_name
from fieldmark.report.plots._facts import images_per_s, parameters
from fieldmark.report.plots._results import Results
from fieldmark.report.providers import provider_of
from fieldmark.store import Run, Store, host


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """A task as its runs recorded it."""

    name: str
    title: str = ""
    about: str = ""
    dataset: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    """of the dataset's reader"""
    is_from_here: bool = False
    """the run was done on this machine"""

    @property
    def is_known_dataset(self) -> bool:
        return self.dataset in DATASETS.names()

    @property
    def may_be_read(self) -> bool:
        """Code that only a results file from elsewhere names is not run."""
        return self.is_known_dataset or (self.is_from_here and is_file_reference(self.dataset))


def task_facts(store: Store, run: Run) -> TaskFacts:
    """From the record of a run, else from the task file of that name."""
    provider = provider_of(run)
    if provider is not None and (known := provider.task_facts(store, run)):
        return TaskFacts(run.spec.task, known["title"], "", known["dataset"])
    record = store.record(run.id)
    config = record.get("config") or {}
    told = config.get("task") or _from_file(run.spec.task)
    return TaskFacts(
        run.spec.task,
        str(told.get("title", "")),
        str(told.get("about", "")),
        str(told.get("dataset", "")),
        told.get("options") or {},
        record.get("host") == host(),
    )


def _from_file(name: str) -> dict[str, Any]:
    from fieldmark.tasks import load_own_task, task_files

    if name not in task_files():
        return {}
    try:
        return load_own_task(name).model_dump(mode="json")
    except FieldmarkError:
        return {}


def describe_task(facts: TaskFacts) -> dict[str, Any]:
    """What the page shows of a task and its dataset."""
    shown = short_name(facts.dataset) if is_file_reference(facts.dataset) else facts.dataset
    about = {"name": facts.name, "title": facts.title, "about": facts.about, "dataset": shown}
    if not facts.is_known_dataset:
        return about
    info = load_dataset(facts.dataset).INFO
    return about | {
        "dataset_title": info.title,
        "licence": info.licence,
        "citation": info.citation,
        "homepage": info.homepage,
    }


def describe_models(names: Mapping[str, str], results: Results) -> list[dict[str, Any]]:
    """Label → name of each model, as rows with what tables and runs know of it."""
    sizes, speeds = parameters(results), images_per_s(results)
    tables = {row.name: row for row in known_models()}
    known = set(families())
    rows = []
    for label, name in names.items():
        base = name.partition("?")[0]
        family = base.partition("/")[0]
        row = tables.get(base)
        rows.append(
            {
                "name": label,
                "family": family if family in known else "own",
                "title": row.title if row else "",
                "params": round(sizes[label]) if label in sizes else None,
                "images_per_s": _figures(speeds.get(label)),
                "licence": row.licence if row else "",
                "released": row.released if row else "",
                "source": row.source if row else "",
            }
        )
    return rows


def _figures(value: float | None) -> float | None:
    """Three of them: speeds are not known better."""
    return None if value is None else float(f"{value:.3g}")
