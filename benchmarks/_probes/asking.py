"""What does it cost to ask a fitted probe for labels and for how sure it is, as every run does?

4,000 test rows, 768 wide, 200 classes. The rival is asking twice: `predict`, then `predict_score`,
each of which goes through all rows. The last column has the share that matters to a run: asking as
a run does over `predict` alone (1 where the scores come for nothing). One thread, CPU seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from _features import WIDTH, features, timed  # isort: skip  (sets one thread before numpy loads)

import numpy as np

from _rows import Row, note
from fieldmark.probes import load_probe
from fieldmark.protocols.probe.fit import fit_probe
from fieldmark.tasks import task_schema

PROBES: dict[str, dict[str, Any]] = {
    "ridge": {"alphas": 10.0},
    "simpleshot": {},
    "neighbours": {"k": 5},
    "exemplar": {},
    "svm": {"search": 0},
    "logistic": {"max_iter": 20},
    "linear": {"learning_rates": 1e-3, "weight_decays": 1e-4, "steps": 20},
    "mlp": {"epochs": 1},
}
SLOW = ("svm", "exemplar")
"""asked about a quarter of the rows"""
REPEATS = 3


def measure(name: str, n_train: int, n_test: int, n_classes: int) -> Row:
    note(f"asking {name}")
    n_test = n_test // 4 if name in SLOW else n_test
    x, code = features(n_train + n_test, n_classes)
    train, test = x[:n_train], x[n_train:]
    probe = {"classifier": name, **PROBES[name]}
    head = {"task": "t", "title": "T", "dataset": "folder", "metric": "accuracy"}
    task = task_schema().model_validate(head | {"probe": probe})
    labels = np.array([f"class {each:03d}" for each in code[:n_train]])
    fitted = fit_probe(task, task.block("probe"), train, labels)
    own = load_probe(name, PROBES[name]).fit(train, labels)
    once_s, (label, score) = best_of(lambda: fitted.ask_labels(test))
    label_s, alone = best_of(lambda: own.predict(test))
    score_s, sure = best_of(lambda: own.predict_score(test))
    equal = float((label == alone).mean())
    return Row(
        f"{name}, {n_test} rows, {n_classes} classes, d={WIDTH}",
        rival="predict + predict_score",
        rival_s=label_s + score_s,
        ours_s=once_s,
        agreement=f"{equal:.2%} equal; a run's asking / predict = {once_s / label_s:.2f}",
        is_equal=equal == 1 and bool((score == sure).all()),
    )


def best_of(work: Callable[[], Any]) -> tuple[float, Any]:
    """The least of a few times: the machine may be busy with others."""
    tried = [timed(work) for _ in range(REPEATS)]
    return min(seconds for seconds, _ in tried), tried[0][1]


def rows(is_quick: bool) -> Iterator[Row]:
    size = (200, 100, 5) if is_quick else (6_000, 4_000, 200)
    for name in PROBES:
        yield measure(name, *size)
