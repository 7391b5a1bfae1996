"""What is known of the task, the data and the weights behind a run?

Taken from the run's own record and from the tables of datasets and models; what is not known is
said to be unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from fieldmark.errors import FieldmarkError
from fieldmark.models import Checkpoint, known_models
from fieldmark.registry import is_file_reference, short_name
from fieldmark.report.export._chosen import Chosen
from fieldmark.report.providers import provider_of
from fieldmark.store import Run

UNKNOWN = "unknown"
_HUB = "https://huggingface.co/datasets/"


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """What a reader of a score must know of its task."""

    name: str
    """with its variant"""
    title: str
    about: str
    dataset: str
    data_title: str
    licence: str
    citation: str
    homepage: str

    @property
    def hub_id(self) -> str:
        """`org/name` of a dataset on the Hugging Face Hub; "" elsewhere."""
        if not self.homepage.startswith(_HUB):
            return ""
        return "/".join(self.homepage.removeprefix(_HUB).split("/")[:2])


def task_facts(chosen: Chosen) -> dict[str, TaskFacts]:
    """By the task's name with its variant; one record is read for each."""
    first: dict[str, Run] = {}
    for run in chosen.runs():
        first.setdefault(run.spec.task_name, run)
    return {name: _task(chosen, name, run) for name, run in first.items()}


def _task(chosen: Chosen, name: str, run: Run) -> TaskFacts:
    provider = provider_of(run)
    if provider is not None and (known := provider.task_facts(chosen.store, run)):
        data = known["dataset"] or name
        title, homepage = known["title"] or name, known["homepage"]
        return TaskFacts(name, title, "", data, data, UNKNOWN, "", homepage)
    config = chosen.store.record(run.id).get("config") or {}
    task: dict[str, Any] = config.get("task") or {}
    dataset = str(task.get("dataset", run.spec.task))
    info = dataset_info(dataset)
    return TaskFacts(
        name=name,
        title=str(task.get("title", name)),
        about=str(task.get("about", "")),
        dataset=short_name(dataset),
        data_title=info.title if info else short_name(dataset),
        licence=info.licence if info else UNKNOWN,
        citation=info.citation if info else "",
        homepage=info.homepage if info else "",
    )


@cache
def dataset_info(dataset: str) -> Any:
    """The dataset's `INFO`; None for data that only the user knows."""
    from fieldmark.data import DATASETS

    if is_file_reference(dataset):
        return None  # running a user's file only to cite it could do anything
    try:
        return getattr(DATASETS.get(dataset), "INFO", None)
    except FieldmarkError:
        return None


@cache
def _checkpoints() -> dict[str, Checkpoint]:
    return {row.name: row for row in known_models()}


def checkpoint(model: str) -> Checkpoint:
    """What the tables say of a model; options and version do not matter here."""
    base = model.partition("?")[0].partition("#")[0]
    return _checkpoints().get(base, Checkpoint(base))


def developer_and_name(model: str) -> tuple[str, str]:
    """As the Hub writes it, `org/name`; the family stands for the organisation elsewhere.

    >>> developer_and_name("open-clip/hf-hub:imageomics/bioclip-2")
    ('imageomics', 'bioclip-2')
    >>> developer_and_name("timm/resnet50.a1_in1k"), developer_and_name("mine")
    (('timm', 'resnet50.a1_in1k'), ('unknown', 'mine'))
    """
    family, _, rest = model.partition("?")[0].partition("/")
    if not rest:
        return UNKNOWN, family
    if (family in ("hf", "chat") and "/" in rest) or rest.startswith("hf-hub:"):
        family, _, rest = rest.removeprefix("hf-hub:").partition("/")
    return family, rest.replace("/", "_")
