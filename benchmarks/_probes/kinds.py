"""How much sooner is each probe than scikit-learn's recipe on features that nobody made to suit it?

Six kinds of 1,000 made images: ReLU-sparse, correlated, heavy-tailed, with one massive coordinate
(1,000 beside 1), narrow and wide. The rival is the `RECIPE` of the probe, in float64. Rows give the
worst and the median of the six ratios, twice: of the inner call (fit, then labels of 500 other
images), and of what a run does (normalising, checks, labels with certainties, the score with its
interval) against the recipe alone.
One thread, CPU seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

from _features import timed  # isort: skip  (sets one thread before numpy loads)

import numpy as np
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from threadpoolctl import threadpool_limits

from _rows import Row, note
from fieldmark.metrics import load_metric
from fieldmark.probes import load_probe
from fieldmark.probes.svm.search import distributions
from fieldmark.protocols.probe.fit import fit_probe
from fieldmark.stats import Items, interval
from fieldmark.tasks import task_schema

WIDTHS = {"narrow": 128, "wide": 1536}
KINDS = ("relu-sparse", "correlated", "heavy-tailed", "massive", *WIDTHS)


@dataclass(frozen=True, slots=True)
class Case:
    """A probe, its recipe, and how many images of how many classes it learns from."""

    name: str
    params: dict[str, Any]
    rival: Callable[[], Any]
    n_train: int = 1_000
    n_classes: int = 20
    sample: int = 0
    """queries of which the rival's time is measured, where it is asked image by image"""
    least_equal: float = 1.0


def grid() -> Any:
    alphas = {"ridgeclassifier__alpha": [2.0**power for power in range(-15, 11)]}
    return GridSearchCV(make_pipeline(StandardScaler(), RidgeClassifier()), alphas, cv=5)


def search() -> Any:
    settings = {f"svc__{name}": values for name, values in distributions().items()}
    machine = make_pipeline(StandardScaler(), SVC())
    return RandomizedSearchCV(machine, settings, n_iter=100, cv=5, random_state=42)


CASES = (
    Case("ridge", {}, grid),
    Case("svm", {"choose": "best"}, search, n_train=100, n_classes=2),
    # Newton's method to the same answers; its default solver stops up to 19 % of answers away.
    Case(
        "logistic",
        {},
        lambda: LogisticRegression(
            class_weight="balanced", solver="newton-cg", tol=1e-8, max_iter=500
        ),
        least_equal=0.998,
    ),
    Case(
        "exemplar",
        {},
        # The primal: beside a massive coordinate liblinear's dual does not converge.
        lambda: LinearSVC(class_weight="balanced", C=0.1, tol=1e-6, max_iter=10_000, dual=False),
        n_classes=100,
        sample=8,
        least_equal=0.9,
    ),
    Case("neighbours", {"k": 1}, lambda: KNeighborsClassifier(1)),
    Case("neighbours", {"k": 10, "ties": "first"}, lambda: KNeighborsClassifier(10)),
)


def features(kind: str, n: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng([len(kind), n_classes])
    width = WIDTHS.get(kind, 768)
    y = np.arange(n) % n_classes
    x = 0.35 * random.normal(size=(n_classes, width))[y] + random.normal(size=(n, width))
    if kind == "heavy-tailed":
        x += random.standard_t(2.5, size=x.shape)
    if kind != "massive":
        x = x @ random.normal(size=(width, width)) * np.arange(1, width + 1) ** -0.4 / width**0.5
    if kind == "relu-sparse":
        x = np.maximum(x, 0)
    if kind == "correlated":
        x += 3 * random.normal(size=(n, 4)) @ random.normal(size=(4, width))
    if kind == "massive":
        x[:, 5] = 1_000 * (1 + 0.05 * x[:, 5])
    return x.astype(np.float32), y


@dataclass(frozen=True, slots=True)
class Outcome:
    rival_s: float
    own_s: float
    run_s: float
    equal: float
    """share of answers"""


def compare(case: Case, kind: str, n_train: int, n_test: int) -> Outcome:
    x, y = features(kind, n_train + n_test, case.n_classes)
    train, test, label = x[:n_train], x[n_train:], np.array([f"c{code:03d}" for code in y])
    own_s, answer = timed(lambda: ask(case, train, label[:n_train], test))
    run_s, _ = timed(lambda: as_a_run(case, train, label[:n_train], test, y[n_train:]))
    wide = train.astype(np.float64)
    if case.sample:
        some = np.linspace(0, n_test - 1, min(case.sample, n_test)).astype(int)
        rival_s, theirs = timed(lambda: [one_by_one(case, wide, test[row]) for row in some])
        rival_s *= n_test / len(some)
        theirs, answer = label[:n_train][theirs], answer[some]
    else:
        rival_s, theirs = timed(
            lambda: case.rival().fit(wide, label[:n_train]).predict(test.astype(np.float64))
        )
    return Outcome(rival_s, own_s, run_s, float((answer == theirs).mean()))


def ask(case: Case, train: np.ndarray, label: np.ndarray, test: np.ndarray) -> np.ndarray:
    return np.asarray(load_probe(case.name, case.params).fit(train, label).predict(test))


def as_a_run(
    case: Case, train: np.ndarray, label: np.ndarray, test: np.ndarray, code: np.ndarray
) -> Any:
    head = {"task": "t", "title": "T", "dataset": "folder", "metric": "accuracy"}
    block = {"classifier": case.name, **case.params}
    task = task_schema().model_validate(head | {"probe": block})
    units = [f"row {row}" for row in range(len(train))]
    fitted = fit_probe(task, task.block("probe"), train, label, units=units)
    answer, _ = fitted.ask_labels(test)
    number = np.array([int(name[1:]) for name in answer])
    return interval(Items(code, np.arange(len(code))), number, load_metric("accuracy"))


def one_by_one(case: Case, gallery: np.ndarray, query: np.ndarray) -> int:
    """The row that one machine of this image against the gallery scores highest."""
    rows = np.concatenate([gallery, query[None]])
    machine = case.rival().fit(rows, np.arange(len(rows)) == len(gallery))
    return int(machine.decision_function(gallery).argmax())


def rows(is_quick: bool) -> Iterator[Row]:
    with threadpool_limits(1):
        ask(CASES[1], *features("narrow", 60, 2), features("narrow", 9, 2)[0])  # compiles
        for case in CASES:
            n_train, n_test = (120, 20) if is_quick else (case.n_train, 500)
            note(f"kinds {case.name} {case.params}")
            outcomes = {kind: compare(case, kind, n_train, n_test) for kind in KINDS}
            inner = {kind: one.rival_s / one.own_s for kind, one in outcomes.items()}
            whole = [one.rival_s / one.run_s for one in outcomes.values()]
            equal = min(one.equal for one in outcomes.values())
            worst = min(inner, key=inner.__getitem__)
            yield Row(
                f"{case.name} {case.params or ''} n={n_train}, worst of {len(KINDS)} ({worst})",
                rival="its recipe",
                rival_s=outcomes[worst].rival_s,
                ours_s=outcomes[worst].own_s,
                agreement=f"median {median(inner.values()):.1f}×; as a run: worst {min(whole):.1f}×"
                f", median {median(whole):.1f}×; answers equal: {equal:.1%} at worst",
                is_equal=is_quick or equal >= case.least_equal,
            )
