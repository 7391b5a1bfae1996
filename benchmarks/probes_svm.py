"""How much sooner does the SVM random search answer than scikit-learn's, with the same answer?

    python benchmarks/probes_svm.py [--quick]

The rival is `RandomizedSearchCV(StandardScaler + SVC)`, 100 draws, 5 folds, four kernels (NeWT and
Ages). Made features: Gaussian classes, 768 columns with a falling spectrum, float32, harder and
easier tasks in turn. CPU seconds of one thread on both sides, `fit` as a whole; compiling (once per
machine) is done before and its time printed.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np
from sklearn.model_selection import RandomizedSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from fieldmark.draws import generator
from fieldmark.probes._folds import stratified
from fieldmark.probes._kernel_search import candidates, distributions, score_candidates
from fieldmark.probes.svm import SupportVectors

WIDTH = 768
DIFFICULTIES = (0.06, 0.1, 0.14, 0.2)


@dataclass(frozen=True, slots=True)
class Case:
    n_train: int
    classes: int
    bar: float
    tasks: int


CASES = (Case(100, 2, 50, 8), Case(200, 2, 25, 4), Case(400, 2, 15, 4), Case(240, 12, 0, 1))


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


def rival() -> RandomizedSearchCV:
    drawn = {f"svc__{name}": values for name, values in distributions().items()}
    machine = make_pipeline(StandardScaler(), SVC())
    return RandomizedSearchCV(machine, drawn, n_iter=100, cv=5, random_state=42)


def compare(case: Case, number: int, tally: Tally) -> None:
    x_nd, y, query_nd = make_task(case, number)
    start = time.process_time()
    ours = SupportVectors().fit(x_nd, y)
    tally.ours_s += time.process_time() - start
    start = time.process_time()
    theirs = rival().fit(x_nd.astype(np.float64), y)
    tally.theirs_s += time.process_time() - start
    best = {name.removeprefix("svc__"): value for name, value in theirs.best_params_.items()}
    tally.same_winner += ours.best_params_ == best
    cell_sf = np.stack([theirs.cv_results_[f"split{k}_test_score"] for k in range(5)], axis=1)
    found_sf = score_candidates(x_nd.astype(np.float64), y, stratified(5, y), candidates(100, 42))
    tally.cells += cell_sf.size
    tally.same_cells += int((cell_sf == found_sf).sum())
    tally.answers += len(query_nd)
    tally.same_answers += int(
        (ours.predict(query_nd) == theirs.predict(query_nd.astype(np.float64))).sum()
    )


def show(case: Case, tally: Tally, tasks: int) -> str:
    ratio = tally.theirs_s / tally.ours_s
    bar = f" (bar {case.bar:.0f}×)" if case.bar else ""
    print(
        f"n_train {case.n_train}, {case.classes} classes, {tasks} tasks: "
        f"scikit-learn {tally.theirs_s / tasks:.2f} s, fieldmark {tally.ours_s / tasks:.3f} s "
        f"a task: {ratio:.1f}×{bar}; same winner {tally.same_winner}/{tasks}, "
        f"CV cells equal {tally.same_cells}/{tally.cells}, "
        f"test predictions equal {tally.same_answers}/{tally.answers}"
    )
    return f"{ratio:.0f}× at {case.n_train}" if case.bar else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one task of each size")
    is_quick = parser.parse_args().quick
    start = time.process_time()
    SupportVectors().fit(*make_task(CASES[0], 99)[:2])
    print(f"first fit, compiling or loading compiled code: {time.process_time() - start:.1f} s")
    figures, winners, tasks_done = [], 0, 0
    for case in CASES:
        tally, tasks = Tally(), 1 if is_quick else case.tasks
        for number in range(tasks):
            compare(case, number + is_quick, tally)
        figures.append(show(case, tally, tasks))
        winners, tasks_done = winners + tally.same_winner, tasks_done + tasks
    told = ", ".join(each for each in figures if each)
    print(f"svm search: {told}; same winner {winners}/{tasks_done}")


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
