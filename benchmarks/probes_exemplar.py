"""How much sooner are 6,800 exemplar machines asked together than one by one, with what agreement?

    python benchmarks/probes_exemplar.py [--quick]

The rival is one `LinearSVC(class_weight="balanced", C=0.1, tol=1e-6)` per query (LeopardID's
recipe), fitted for a sample of the queries and scaled to all: each fit sees the same rows. Made
features: individuals as Gaussian clouds, 768 columns with a falling spectrum around a common mean,
float32, as they come and with length one; as a hard case without the common mean (hundreds of
active images a query; 2,000 images, no bar). CPU seconds of one thread on both sides; all work
shared between queries counts. `--quick`: 2,000 images and 16 sampled queries, so smaller ratios.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from fieldmark.draws import generator
from fieldmark.probes.exemplar import Exemplar

WIDTH = 768
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
    Case("raw", 0.7, False, 150),
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


def compare(case: Case, n: int, n_sample: int) -> tuple[float, int]:
    """The ratio, and how many sampled queries have the same best image."""
    x_nd, y = make_gallery(case, n)
    start = time.process_time()
    best_n, _ = Exemplar().fit(x_nd, y).retrieve_leave_one_out()
    ours_s = time.process_time() - start
    sample = np.linspace(0, n - 1, n_sample).astype(int)
    start = time.process_time()
    theirs = [rival(x_nd, own) for own in sample]
    theirs_s = (time.process_time() - start) * n / n_sample
    same = sum(best_n[own] == best for own, (best, _) in zip(sample, theirs, strict=True))
    ratio = theirs_s / ours_s
    bar = f" (bar {case.bar:.0f}×)" if case.bar and n == case.most else ""
    print(
        f"{case.name}, n={n}, d={WIDTH}, {np.mean([k for _, k in theirs]):.0f} active: "
        f"LinearSVC {theirs_s:.0f} s (scaled from {n_sample}), fieldmark {ours_s:.1f} s: "
        f"{ratio:.0f}×{bar}; top-1 equal {same}/{n_sample}"
    )
    return ratio, same


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--case", choices=[each.name for each in CASES], help="one of them only")
    given = parser.parse_args()
    n, n_sample = (2_000, 16) if given.quick else (6_800, 64)
    figures, same, asked = [], 0, 0
    for case in CASES:
        if given.case in (None, case.name):
            ratio, equal = compare(case, min(n, case.most), n_sample)
            figures.append(f"{ratio:.0f}× {case.name}")
            same, asked = same + equal, asked + n_sample
    print(f"exemplar SVM: {', '.join(figures)}; top-1 equal {same}/{asked}")


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
