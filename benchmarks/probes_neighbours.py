"""How much faster are neighbours and repeated class means than the usual way, and are they exact?

    python benchmarks/probes_neighbours.py           1-NN at n=50k; 525 classes × 100 repeats
    python benchmarks/probes_neighbours.py --quick   n=12k; 10 repeats

Leave-one-out 1-NN: the rival is scikit-learn's NearestNeighbors (brute, two neighbours, the first
being the image itself). Class means, 1 shot, 2,625 test rows: the rivals are scikit-learn's
NearestCentroid, fitted for each repeat on centred features of length one, and the difference array
(256 test rows × classes × width) that earlier suites computed; both timed on a few repeats and
scaled. All on float32, one thread, CPU seconds. Agreement is with scikit-learn in float64.
"""

from __future__ import annotations

import sys
import warnings
from itertools import pairwise

from _features import WIDTH, features, timed  # isort: skip  (sets one thread before numpy loads)

import numpy as np
from sklearn.neighbors import NearestCentroid, NearestNeighbors

from fieldmark.probes import Normaliser
from fieldmark.probes._centroids import predict_repeats
from fieldmark.probes._distance import nearest

STEPS = ("centre", "l2")
CLASSES, TESTS = 525, 2625
N_CHECKED = 4096


def neighbours(n: int) -> float:
    x, y = features(n, max(2, n // 50), apart=0.4)
    ours_s, (index, _) = timed(lambda: nearest(x, x, 1, y, is_self=True))
    rival = NearestNeighbors(n_neighbors=2, algorithm="brute").fit(x)
    theirs_s, found = timed(lambda: rival.kneighbors(x, return_distance=False))
    some = np.linspace(0, n - 1, min(n, N_CHECKED)).astype(int)
    rival = NearestNeighbors(n_neighbors=2, algorithm="brute").fit(x.astype(np.float64))
    exact = other(rival.kneighbors(x[some].astype(np.float64), return_distance=False), some)
    print(
        f"1-NN n={n} d={WIDTH}: scikit-learn {theirs_s:.1f} s, ours {ours_s:.1f} s, "
        f"{theirs_s / ours_s:.1f} ×; {(index[some, 0] == exact).mean():.2%} equal to float64 on "
        f"{len(some)} rows, {(other(found, np.arange(n)) == index[:, 0]).mean():.3%} equal to its "
        "float32 answers",
        flush=True,
    )
    return theirs_s / ours_s


def other(found: np.ndarray, own: np.ndarray) -> np.ndarray:
    """The neighbour that is not the row itself."""
    return np.where(found[:, 0] == own, found[:, 1], found[:, 0])


def class_means(repeats: int, shots: int) -> tuple[float, float]:
    x, y = features(CLASSES * 40, CLASSES, apart=0.4)
    test, _ = features(TESTS, CLASSES, apart=0.4, seed=1)
    order, random = np.argsort(y, kind="stable"), np.random.default_rng(0)
    ends = np.searchsorted(y[order], np.arange(CLASSES + 1))
    draws = [
        np.concatenate([order[a + random.permutation(b - a)[:shots]] for a, b in pairwise(ends)])
        for _ in range(repeats)
    ]
    ours_s, ours = timed(lambda: predict_repeats(x, y, draws, test, STEPS))
    some = draws[:5]
    theirs_s, _ = timed(lambda: [centroid(x[each], y[each], test) for each in some])
    usual_s, _ = timed(lambda: [difference(x[each], y[each], test) for each in some[:1]])
    theirs_s, usual_s = theirs_s * repeats / len(some), usual_s * repeats
    double, test = x.astype(np.float64), test.astype(np.float64)
    exact = np.stack([centroid(double[each], y[each], test) for each in draws[:20]])
    print(
        f"class means {CLASSES} × {repeats} repeats, {shots}-shot: NearestCentroid {theirs_s:.1f} s"
        f" (from {len(some)} repeats), difference array {usual_s:.1f} s (from 1), "
        f"ours {ours_s:.2f} s, {theirs_s / ours_s:.1f} × and {usual_s / ours_s:.1f} ×; "
        f"{(exact == ours[: len(exact)]).mean():.2%} equal",
        flush=True,
    )
    return theirs_s / ours_s, usual_s / ours_s


def centroid(x: np.ndarray, y: np.ndarray, test: np.ndarray) -> np.ndarray:
    fitted = Normaliser(STEPS).fit(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(
            NearestCentroid().fit(fitted.transform(x), y).predict(fitted.transform(test))
        )


def difference(x: np.ndarray, y: np.ndarray, test: np.ndarray) -> np.ndarray:
    fitted = Normaliser(STEPS).fit(x)
    x, test = fitted.transform(x), fitted.transform(test)
    classes = np.unique(y)
    means = np.stack([x[y == each].mean(axis=0) for each in classes])
    found = [
        np.linalg.norm(test[start : start + 256, None] - means, axis=2).argmin(axis=1)
        for start in range(0, len(test), 256)
    ]
    return np.asarray(classes[np.concatenate(found)])


def main() -> None:
    is_quick = "--quick" in sys.argv
    over_brute = neighbours(12_000 if is_quick else 50_000)
    over_centroid, over_usual = class_means(10 if is_quick else 100, shots=1)
    if not is_quick:
        class_means(100, shots=5)
    print(
        f"neighbours: 1-NN {over_brute:.1f} × scikit-learn; class means {over_centroid:.1f} × "
        f"scikit-learn's NearestCentroid, {over_usual:.0f} × the difference array"
    )


if __name__ == "__main__":
    main()
