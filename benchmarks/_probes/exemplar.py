"""How much sooner are 6,800 exemplar machines asked together than one by one, with what agreement?

The rival is one `LinearSVC(class_weight="balanced", C=0.1, tol=1e-6)` per query (LeopardID's
recipe), fitted for a sample of the queries and scaled to all: each fit sees the same rows. Made
features: individuals as Gaussian clouds, 768 columns with a falling spectrum around a common mean,
float32, as they come and with length one; as a hard case without the common mean (hundreds of
active images a query; 2,000 images, no bar). CPU seconds of one thread on both sides; all work
shared between queries counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from _features import WIDTH, timed  # isort: skip  (sets one thread before numpy loads)

import numpy as np
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from _rows import Row, note, peak_mb
from fieldmark.draws import generator
from fieldmark.probes.exemplar import Exemplar, retrieve

LEAST_EQUAL = 0.995
N_MEMORY = 512
"""queries asked to measure memory: they go in blocks of 256"""
LENGTH = 10.0
"""typical distance from the mean, and (times `offset`) of the mean from zero"""


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    offset: float
    is_unit: bool
    bar: float
    most: int = 6_800


CASES = (
    Case("raw", 0.7, False, 5),
    Case("L2-normalised", 0.7, True, 50),
    Case("raw, no common mean", 0.0, False, 0, most=2_000),
)


def make_gallery(case: Case, n: int) -> tuple[np.ndarray, np.ndarray]:
    random = generator("benchmark exemplar", case.offset, n)
    spread_d = np.arange(1, WIDTH + 1) ** -0.25
    y = random.integers(0, n // 16, n)
    x_nd = random.normal(size=(n // 16, WIDTH))[y] + random.normal(size=(n, WIDTH))
    x_nd *= spread_d * LENGTH / np.sqrt(2 * (spread_d**2).sum())
    mean_d = random.normal(size=WIDTH)
    x_nd += case.offset * LENGTH * mean_d / np.linalg.norm(mean_d)
    if case.is_unit:
        x_nd /= np.linalg.norm(x_nd, axis=1, keepdims=True)
    return x_nd.astype(np.float32), y


def rival(x_nd: np.ndarray, own: int) -> tuple[int, int]:
    """The best other image, and how many images are active."""
    is_own_n = np.arange(len(x_nd)) == own
    machine = LinearSVC(class_weight="balanced", C=0.1, tol=1e-6, max_iter=10_000)
    value_n = machine.fit(x_nd, is_own_n).decision_function(x_nd)
    value_n[own] = -np.inf
    return int(value_n.argmax()), int((value_n > -1).sum())


def measure(case: Case, n: int, n_sample: int) -> Row:
    note(f"exemplar {case.name}, n={n}")
    x_nd, y = make_gallery(case, n)
    probe = Exemplar().fit(x_nd, y)
    ours_s, (best_n, _) = timed(probe.retrieve_leave_one_out)
    sample = np.linspace(0, n - 1, n_sample).astype(int)
    theirs_s, theirs = timed(lambda: [rival(x_nd, own) for own in sample])
    same = sum(best_n[own] == best for own, (best, _) in zip(sample, theirs, strict=True))
    own_q = np.arange(min(n, N_MEMORY))
    return Row(
        f"exemplar SVM {case.name}, n={n}, {np.mean([k for _, k in theirs]):.0f} active",
        rival="one LinearSVC a query",
        scaled=f"{n_sample} of {n} queries",
        rival_s=theirs_s * n / n_sample,
        ours_s=ours_s,
        bar=case.bar,
        agreement=f"top-1 equal {same}/{n_sample}",
        is_equal=bool(same >= LEAST_EQUAL * n_sample),
        memory_mb=peak_mb(lambda: retrieve(x_nd, 0.1, x_nd[own_q], own_q)),
    )


def rows(is_quick: bool) -> Iterator[Row]:
    n, n_sample = (320, 4) if is_quick else (6_800, 64)
    with threadpool_limits(1):
        for case in CASES:
            yield measure(case, min(n, case.most), n_sample)
