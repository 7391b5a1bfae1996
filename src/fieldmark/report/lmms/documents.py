"""What is known of a run of documents, and may two of them be compared document by document?

A document is a row of an lmms-eval task. Its run stores what each document was worth by the task's
own metric, which is no metric of fieldmark's even where the names agree. Values of single documents
can be paired where the score is their mean; where a function aggregates them, they cannot.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from fieldmark.store import OK, Run, RunFilter, Score, Store

if TYPE_CHECKING:
    from fieldmark.metrics import Metric

_HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w.-]+")
_HUB = "https://huggingface.co/datasets/"
_BUILDERS = ("csv", "json", "parquet", "text", "pandas", "arrow", "imagefolder")
"""what stands for `dataset_path` where files are listed"""
NO_FILTER = "none"
"""the pipeline whose name is left out of a metric's"""


def has_documents(run: Run) -> bool:
    return "documents" in run.spec.settings


def facts_of(store: Store, run: Run) -> dict[str, Any]:
    """What the run noted of its task; {} for one without documents."""
    if not has_documents(run):
        return {}
    infos = [part.info or {} for part in store.finished_parts(run.id)]
    return next((dict(info["documents"]) for info in infos if "documents" in info), {})


def named(metric: str, pipeline: str) -> str:
    """
    >>> named("acc", "none"), named("acc", "strict")
    ('acc', 'acc,strict')
    """
    return metric if pipeline == NO_FILTER else f"{metric},{pipeline}"


def split_name(name: str, pipelines: Sequence[str]) -> tuple[str, str]:
    """The metric and the pipeline; a comma may stand in a metric's own name.

    >>> split_name("acc,strict", ["none", "strict"]), split_name("a,b", ["none"])
    (('acc', 'strict'), ('a,b', 'none'))
    >>> split_name("acc,strict/majority", ["strict"])
    ('acc/majority', 'strict')
    """
    metric, _, rest = name.rpartition(",")
    pipeline, slash, inside = rest.partition("/")
    is_known = metric and pipeline in pipelines
    return (f"{metric}{slash}{inside}", pipeline) if is_known else (name, NO_FILTER)


def pipelines_of(facts: Mapping[str, Any]) -> list[str]:
    """The names of the task's filters, in its order."""
    found = (facts.get("config") or {}).get("filter_list") or []
    return [str(each["name"]) for each in found] or [NO_FILTER]


def hub_name(config: Mapping[str, Any]) -> str:
    """`org/name` of a task's data on the Hugging Face Hub; "" for files of the user's own."""
    path = str(config.get("dataset_path") or "")
    is_saved = (config.get("dataset_kwargs") or {}).get("load_from_disk")
    return path if _HUB_NAME.fullmatch(path) and not is_saved else ""


def data_name(config: Mapping[str, Any]) -> str:
    """What a task's data are called, without folders; "" where files have no name in common."""
    path = str(config.get("dataset_path") or "")
    return hub_name(config) or ("" if path in _BUILDERS else PurePath(path).name)


def task_facts(store: Store, run: Run) -> dict[str, str]:
    """All that a task says of its data is where they are."""
    config = facts_of(store, run).get("config")
    if config is None:
        return {}
    hub = hub_name(config)
    return {
        "title": str(config.get("task_alias") or ""),
        "dataset": data_name(config),
        "homepage": f"{_HUB}{hub}" if hub else "",
    }


def item_texts(info: Mapping[str, Any]) -> tuple[str | None, list[str]]:
    """The prompt and the responses of a document."""
    said = [text for text in info.get("resps") or () if isinstance(text, str)]
    return info.get("input"), said


def value_metric(run: Run) -> str:
    """The metric whose value of each document is stored; "" where its score is no mean."""
    about = run.spec.settings.get("documents", {})
    metric = about.get("mean_of") or ""
    return named(metric, about.get("pipeline", NO_FILTER)) if metric else ""


def means_of(store: Store, run: Run) -> set[str]:
    """The metrics whose score is the mean of what the documents were worth."""
    facts = facts_of(store, run)
    listed = (facts.get("config") or {}).get("metric_list") or []
    how = {_short(str(each["metric"])): each.get("aggregation") for each in listed}
    names = {name: split_name(name, pipelines_of(facts))[0] for name in run.spec.settings["metric"]}
    return {name for name, metric in names.items() if (how.get(metric) or _usual(metric)) == "mean"}


def _short(metric: str) -> str:
    """What a metric given as code is called."""
    return metric.rpartition(".")[2] if metric.startswith("!function") else metric


def _usual(metric: str) -> str:
    """How values of that name are aggregated where the task does not say."""
    from fieldmark.lmms.metrics.registry import find_document_metric

    return str(getattr(find_document_metric(metric), "aggregation", "mean"))


def pairing_metric(store: Store, run: Run, name: str) -> Metric | None:
    """What compares runs by that metric; None where documents cannot be compared one by one."""
    from fieldmark.metrics import document_value

    if name != value_metric(run) and name not in means_of(store, run):
        return None
    where = RunFilter(models=(run.spec.model,), tasks=(run.spec.task,))
    score = next(
        (each for each in store.scores(where).get(run.id, []) if each.metric == name), Score("", 0)
    )
    bounds = (0.0, 1.0) if score.is_fraction else (-math.inf, math.inf)
    return document_value(name, "up" if score.higher_is_better else "down", bounds)


def why_not_paired(name: str) -> str:
    """Why documents cannot be compared one by one, in words."""
    return f"{name} is a function of all documents, not a mean over them"


def item_values(store: Store, run: Run, name: str) -> dict[tuple[int, str], float]:
    """What each answered document was worth by a metric, by repeat and document."""
    metric, pipeline = split_name(name, pipelines_of(facts_of(store, run)))
    found = {}
    frame = store.predictions(run.id).select("repeat", "id", "outcome", "info")
    for repeat, item, outcome, info in frame.iter_rows():
        if outcome == OK and info:
            text = json.loads(info).get("values", {}).get(pipeline, {}).get(metric)
            value = json.loads(text) if isinstance(text, str) else text
            if isinstance(value, (bool, int, float)):
                found[repeat, item] = float(value)
    return found
