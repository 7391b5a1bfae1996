"""Facts of tasks, datasets, models and runs: what is known besides scores, and what reproduces a
score?

Taken from the run's own record and from the tables of datasets and model families; nothing is
loaded to find out, and what is not known is left empty or said to be unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from fieldmark import draws
from fieldmark.data import DATASETS
from fieldmark.errors import FieldmarkError
from fieldmark.models import Checkpoint, known_models
from fieldmark.registry import is_file_reference, short_name
from fieldmark.report.providers import provider_of
from fieldmark.report.rows import Row
from fieldmark.report.run_labels import model_name
from fieldmark.store import Run, RunSpec, Store, canonical_json, host
from fieldmark.words import marked_task

UNKNOWN = "unknown"
_HUB = "https://huggingface.co/datasets/"


# --- tasks and their data ---


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
    page: str = ""
    """of data that fieldmark has no reader for"""
    is_synthetic: bool = False
    """fieldmark drew the data: they have no licence, citation or home page of the real ones"""

    @property
    def is_known_dataset(self) -> bool:
        return self.dataset in DATASETS.names()

    @property
    def may_be_read(self) -> bool:
        """Code that only a results file from elsewhere names is not run."""
        return self.is_known_dataset or (self.is_from_here and is_file_reference(self.dataset))

    @property
    def data_name(self) -> str:
        return short_name(self.dataset)

    @property
    def data_title(self) -> str:
        if self.is_synthetic:
            return f"Synthetic photos in the layout of {self.data_name}, drawn by fieldmark"
        return str(getattr(_dataset_info(self.dataset), "title", self.data_name))

    @property
    def licence(self) -> str:
        licence = getattr(_dataset_info(self.dataset), "licence", UNKNOWN)
        return "" if self.is_synthetic else str(licence)

    @property
    def citation(self) -> str:
        citation = getattr(_dataset_info(self.dataset), "citation", "")
        return "" if self.is_synthetic else str(citation)

    @property
    def homepage(self) -> str:
        homepage = getattr(_dataset_info(self.dataset), "homepage", self.page)
        return "" if self.is_synthetic else str(homepage)

    @property
    def hub_id(self) -> str:
        """`org/name` of a dataset on the Hugging Face Hub; "" elsewhere."""
        if not self.homepage.startswith(_HUB):
            return ""
        return "/".join(self.homepage.removeprefix(_HUB).split("/")[:2])


_DRAWN = "These photos are synthetic: scores say nothing about real ones."


def task_facts(store: Store, run: Run, from_file: bool = True) -> TaskFacts:
    """From the record of a run; where it has none, and `from_file`, from the task file. Of
    synthetic photos the name and the title say so.
    """
    facts = _recorded_facts(store, run, from_file)
    if not run.marks.is_synthetic:
        return facts
    return replace(
        facts,
        name=marked_task(facts.name, True),
        title=marked_task(facts.title or facts.name, True),
        about=f"{_DRAWN} {facts.about}".rstrip(),
        is_synthetic=True,
    )


def _recorded_facts(store: Store, run: Run, from_file: bool) -> TaskFacts:
    provider = provider_of(run)
    if provider is not None and (recorded := provider.task_facts(store, run)):
        title, dataset, page = recorded["title"], recorded["dataset"], recorded["homepage"]
        return TaskFacts(run.spec.task, title, dataset=dataset, page=page)
    record = store.record(run.id)
    task = (record.get("config") or {}).get("task") or {}
    if not task and from_file:
        task = _task_file(run.spec.task)
    title, about, dataset = (str(task.get(key, "")) for key in ("title", "about", "dataset"))
    options, is_from_here = task.get("options") or {}, record.get("host") == host()
    return TaskFacts(run.spec.task, title, about, dataset, options, is_from_here)


def _task_file(name: str) -> dict[str, Any]:
    from fieldmark.tasks import load_own_task, task_files

    if name not in task_files():
        return {}
    try:
        return load_own_task(name).model_dump(mode="json")
    except FieldmarkError:
        return {}


@cache
def _dataset_info(dataset: str) -> Any:
    """The dataset's `INFO`; None for data that only the user knows."""
    if is_file_reference(dataset):
        return None  # running a user's file only to cite it could do anything
    try:
        return getattr(DATASETS.get(dataset), "INFO", None)
    except FieldmarkError:
        return None


# --- models ---


@cache
def checkpoints() -> dict[str, Checkpoint]:
    """The tables of all model families, by name."""
    return {row.name: row for row in known_models()}


def checkpoint(model: str) -> Checkpoint:
    """What the tables say of a model; options and version do not matter here."""
    base = model.partition("?")[0].partition("#")[0]
    return checkpoints().get(base, Checkpoint(base))


def developer_and_name(model: str) -> tuple[str, str]:
    """As the Hub writes it, `org/name`; the family stands for the organisation elsewhere, but did
    not make the weights of a user's file.

    >>> developer_and_name("open-clip/hf-hub:imageomics/bioclip-2")
    ('imageomics', 'bioclip-2')
    >>> developer_and_name("timm/resnet50.a1_in1k"), developer_and_name("mine")
    (('timm', 'resnet50.a1_in1k'), ('unknown', 'mine'))
    >>> developer_and_name("timm/resnet50?weights=runs/best.pth&size=64")
    ('unknown', 'resnet50_best')
    """
    base, _, options = model.partition("?")
    family, _, rest = base.partition("/")
    if own := parse_qs(options).get("weights"):
        return UNKNOWN, f"{rest.replace('/', '_')}_{Path(own[0]).stem}"
    if not rest:
        return UNKNOWN, family
    if (family in ("hf", "chat") and "/" in rest) or rest.startswith("hf-hub:"):
        family, _, rest = rest.removeprefix("hf-hub:").partition("/")
    return family, rest.replace("/", "_")


def parameters(store: Store, rows: Sequence[Row]) -> dict[str, float]:
    """Parameters by model as the rows name it, as far as known: of the image tower where a table
    has the model, else what the runs noted.
    """
    models = {row.model: checkpoint(model_name(row.run.spec)).params for row in rows}
    listed = {model: float(n) for model, n in models.items() if n}
    return listed | _noted(store, rows, "n_parameters", set(models) - set(listed))


def images_per_s(store: Store, rows: Sequence[Row]) -> dict[str, float]:
    """By model as the rows name it, from its newest run that noted its speed."""
    return _noted(store, rows, "images_per_s", {row.model for row in rows})


def _noted(store: Store, rows: Sequence[Row], fact: str, models: set[str]) -> dict[str, float]:
    """What the runs of these models noted, the newest run that did so."""
    noted: dict[str, float] = {}
    for row in sorted(rows, key=lambda row: row.run.finished or "", reverse=True):
        if row.model not in models or row.model in noted:
            continue
        values = [(part.info or {}).get(fact) for part in store.finished_parts(row.run.id)]
        numbers = [value for value in values if isinstance(value, int | float) and value > 0]
        if numbers:
            noted[row.model] = float(max(numbers))
    return noted


# --- signature: the line under a table ---


def signatures(rows: Sequence[Row]) -> list[str]:
    """The lines of all columns, in their order; each names the versions its runs were made with."""
    apps: dict[str, set[str]] = {}
    for row in rows:
        line = signature(row.run.spec, [run.spec for run in row.runs])
        apps.setdefault(line, set()).update(run.app for run in row.runs or (row.run,))
    return [f"{line} app={','.join(sorted(versions))}" for line, versions in apps.items()]


def signature(spec: RunSpec, draws_of_it: Sequence[RunSpec] = ()) -> str:
    """All but the model and the version of fieldmark; of several draws all seeds, and of their
    data what they share.
    """
    every = draws_of_it or [spec]
    data = {one.data for one in every}
    settings = {
        "task": spec.task_name,
        "version": spec.task_version,
        "data": spec.data
        if len(data) == 1
        else "+".join(sorted({d.partition("-")[0] for d in data})),
        "protocol": spec.protocol,
        "settings": draws.digest(canonical_json(spec.settings)).hex()[:8],
        "n_train": "all" if spec.n_train is None else spec.n_train,
        "n_test": "all" if spec.n_test is None else spec.n_test,
        "seed": ",".join(str(seed) for seed in sorted({one.seed for one in every})),
        "repeats": spec.repeats,
    }
    is_default = {"n_test": "all", "repeats": 1, "version": "", "data": ""}
    return " ".join(f"{k}={v}" for k, v in settings.items() if v != is_default.get(k))
