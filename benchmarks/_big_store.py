"""A store as large as the suite's: models × tasks × predictions, with planted skills.

The skill of model m is drawn once, so that some models tie and some lead; a third of the tasks is
scored by accuracy, a third by macro accuracy, a third by macro F1 with a long tail of classes, and
every second task has units of four items.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fieldmark import draws
from fieldmark.metrics import load_metric
from fieldmark.stats import Items, estimate, interval
from fieldmark.store import PartResult, Predictions, RunSpec, Score, Store

METRICS = ("accuracy", "macro_accuracy", "macro_f1")


@dataclass(frozen=True, slots=True)
class Size:
    models: int = 100
    tasks: int = 30
    items: int = 10_000
    classes: int = 100


def write_store(path: Path, size: Size) -> None:
    """Writes the runs task by task; what is there already stays."""
    with Store.open(path) as store:
        for task in range(size.tasks):
            _write_task(store, task, size)


def _write_task(store: Store, task: int, size: Size) -> None:
    random = draws.generator(0, f"task-{task}", "", "big store")
    tail = 1 / np.arange(1, size.classes + 1) if task % 3 == 2 else np.ones(size.classes)
    target = random.choice(size.classes, size.items, p=tail / tail.sum())
    hardness = random.normal(size=size.items)
    names = np.array([f"class {number:03d}" for number in range(size.classes)])
    ids = [f"task-{task:02d}/{number:05d}.jpg" for number in range(size.items)]
    units = [f"task-{task:02d}/burst-{n // 4:04d}" for n in range(size.items)] if task % 2 else None
    for model in range(size.models):
        skill = 0.3 + 1.5 * (model // 5) / size.models
        is_right = random.normal(size=size.items) + skill > hardness
        wrong = random.integers(size.classes, size=size.items)
        answer = np.where(is_right, target, wrong)
        spec = RunSpec(
            f"family-{model % 7}/model-{model:03d}",
            f"task-{task:02d}",
            "probe/ridge",
            {"score": "pooled", "parts": [""]},
            task_version="1",
            data=f"data-{task}",
        )
        run = store.begin_run(spec, {"n_parameters": 10**6 * (model + 1), "images_per_s": 500.0})
        given = Predictions(ids, names[target], names[answer], random.random(size.items), units)
        store.write_part(run, PartResult(given, n_train=1000, seconds=1.0))
        store.finish_run(run, _scores(METRICS[task % 3], target, answer, units))


def _scores(
    name: str, target: np.ndarray, answer: np.ndarray, units: list[str] | None
) -> list[Score]:
    metric = load_metric(name)
    unit = None if units is None else np.arange(len(target)) // 4
    items = Items(target, unit)
    found = interval(items, answer, metric)
    value = estimate(items, answer, metric)
    return [
        Score(
            name, value, "", found.low, found.high, 0.95, len(target), found.n_units, found.method,
            is_primary=True,
        )
    ]  # fmt: skip
