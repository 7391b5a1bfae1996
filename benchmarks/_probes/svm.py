"""How much sooner does the SVM random search answer than scikit-learn's, with the same answer?

The rival is `RandomizedSearchCV(StandardScaler + SVC)`, 100 draws, 5 folds, four kernels (NeWT and
Ages). Made features: Gaussian classes, 768 columns with a falling spectrum, float32, harder and
easier tasks in turn. CPU seconds of one thread on both sides, `fit` as a whole; compiling (once per
machine) is done before and its time printed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from _features import WIDTH, timed  # isort: skip  (sets one thread before numpy loads)

import numpy as np
from sklearn.model_selection import RandomizedSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from _rows import Row, note, peak_mb
from fieldmark.draws import generator
from fieldmark.probes._select import stratified
from fieldmark.probes.svm import SupportVectors
from fieldmark.probes.svm.search import candidates, distributions, fold_scores, judge_candidates

DIFFICULTIES = (0.06, 0.1, 0.14, 0.2)


@dataclass(frozen=True, slots=True)
class Case:
    n_train: int
    classes: int
    bar: float
    tasks: int
    draws: int = 100


CASES = (Case(100, 2, 50, 8), Case(200, 2, 25, 4), Case(400, 2, 15, 4), Case(240, 12, 0, 1))

TOY = Case(60, 2, 0, 1, draws=8)


@dataclass(slots=True)
class Tally:
    ours_s: float = 0.0
    theirs_s: float = 0.0
    same_winner: int = 0
    cells: int = 0
    same_cells: int = 0
    answers: int = 0
    same_answers: int = 0


def make_task(case: Case, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Training features, their labels, and as many queries."""
    random = generator("benchmark svm", case.n_train, case.classes, number)
    spread_d = np.arange(1, WIDTH + 1) ** -0.5
    gap = DIFFICULTIES[number % len(DIFFICULTIES)]
    centre_cd = gap * random.normal(size=(case.classes, WIDTH)) * spread_d
    y = np.arange(2 * case.n_train) % case.classes
    x_nd = (centre_cd[y] + random.normal(size=(len(y), WIDTH)) * spread_d).astype(np.float32)
    return x_nd[: case.n_train], y[: case.n_train], x_nd[case.n_train :]


def rival(draws: int) -> RandomizedSearchCV:
    drawn = {f"svc__{name}": values for name, values in distributions().items()}
    machine = make_pipeline(StandardScaler(), SVC())
    return RandomizedSearchCV(machine, drawn, n_iter=draws, cv=5, random_state=42)


def compare(case: Case, number: int, tally: Tally) -> None:
    x_nd, y, query_nd = make_task(case, number)
    ours_s, ours = timed(lambda: SupportVectors(search=case.draws, choose="best").fit(x_nd, y))
    theirs_s, theirs = timed(lambda: rival(case.draws).fit(x_nd.astype(np.float64), y))
    tally.ours_s, tally.theirs_s = tally.ours_s + ours_s, tally.theirs_s + theirs_s
    best = {name.removeprefix("svc__"): value for name, value in theirs.best_params_.items()}
    tally.same_winner += ours.best_params_ == best
    cell_sf = np.stack([theirs.cv_results_[f"split{k}_test_score"] for k in range(5)], axis=1)
    drawn = candidates(case.draws, 42)
    folds = stratified(5, y)
    right_sn = judge_candidates(x_nd.astype(np.float64), y, folds, drawn)
    found_sf = fold_scores(right_sn, folds)
    tally.cells += cell_sf.size
    tally.same_cells += int((cell_sf == found_sf).sum())
    tally.answers += len(query_nd)
    tally.same_answers += int(
        (ours.predict(query_nd) == theirs.predict(query_nd.astype(np.float64))).sum()
    )


def measure(case: Case) -> Row:
    tasks, tally = case.tasks, Tally()
    note(f"svm n_train={case.n_train}, {case.classes} classes, {tasks} tasks")
    for number in range(tasks):
        compare(case, number + (tasks == 1), tally)
    x_nd, y, _ = make_task(case, 0)
    return Row(
        f"svm search n_train={case.n_train}, {case.classes} classes, mean of {tasks} tasks",
        rival="RandomizedSearchCV",
        rival_s=tally.theirs_s / tasks,
        ours_s=tally.ours_s / tasks,
        bar=case.bar,
        agreement=f"same winner {tally.same_winner}/{tasks}, CV cells equal "
        f"{tally.same_cells}/{tally.cells}, predictions {tally.same_answers}/{tally.answers}",
        is_equal=tally.same_winner == tasks,
        memory_mb=peak_mb(lambda: SupportVectors(search=case.draws, choose="best").fit(x_nd, y)),
    )


def rows(is_quick: bool) -> Iterator[Row]:
    with threadpool_limits(1):
        first_s, _ = timed(
            lambda: SupportVectors(search=8, choose="best").fit(*make_task(CASES[0], 99)[:2])
        )
        note(f"svm: first fit, compiling or loading compiled code: {first_s:.1f} s")
        for case in (TOY,) if is_quick else CASES:
            yield measure(case)
