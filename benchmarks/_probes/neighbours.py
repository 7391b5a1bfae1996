"""How much faster are neighbours and repeated class means than the usual way, and are they exact?

Leave-one-out k-NN: the rival is scikit-learn's NearestNeighbors (brute, k + 1 neighbours, the first
being the image itself). Class means, 1 shot, 2,625 test rows: the rivals are scikit-learn's
NearestCentroid, fitted for each repeat on centred features of length one, and the difference array
(256 test rows × classes × width) that earlier suites computed; both timed on a few repeats and
scaled. All on float32, one thread, CPU seconds. Agreement is with scikit-learn in float64.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any

from _features import WIDTH, features, timed  # isort: skip  (sets one thread before numpy loads)

import numpy as np
from sklearn.neighbors import NearestCentroid, NearestNeighbors

from _rows import Row, note, peak_mb
from fieldmark.probes import Normaliser
from fieldmark.probes.neighbours import nearest
from fieldmark.probes.simpleshot import predict_repeats

STEPS = ("centre", "l2")
PER_CLASS, TESTS_PER_CLASS = 40, 5
N_EXACT = 20
N_CHECKED = 4096


def measure(n: int, k: int, bar: float) -> Row:
    """Leave-one-out search for the k nearest."""
    note(f"{k}-NN n={n}")
    x, y = features(n, max(2, n // 50), apart=0.4)
    ours_s, (index, _) = timed(lambda: nearest(x, x, k, y, is_self=True))
    rival = NearestNeighbors(n_neighbors=k + 1, algorithm="brute").fit(x)
    theirs_s, found = timed(lambda: rival.kneighbors(x, return_distance=False))
    some = np.linspace(0, n - 1, min(n, N_CHECKED)).astype(int)
    rival = NearestNeighbors(n_neighbors=k + 1, algorithm="brute").fit(x.astype(np.float64))
    exact = others(rival.kneighbors(x[some].astype(np.float64), return_distance=False), some)
    equal = float((index[some] == exact).mean())
    theirs = float((others(found, np.arange(n)) == index).mean())
    return Row(
        f"{k}-NN leave-one-out n={n} d={WIDTH}",
        rival="NearestNeighbors",
        rival_s=theirs_s,
        ours_s=ours_s,
        bar=bar,
        agreement=f"{equal:.2%} equal to float64 on {len(some)} rows, {theirs:.2%} to its float32",
        is_equal=equal == 1,
        memory_mb=peak_mb(lambda: nearest(x, x, k, y, is_self=True)),
    )


def others(found: np.ndarray, own: np.ndarray) -> np.ndarray:
    """The neighbours that are not the row itself, in order."""
    is_own = found == own[:, None]
    is_own[~is_own.any(axis=1), -1] = True
    return found[~is_own].reshape(len(found), -1)


def measure_repeats(n_classes: int, repeats: int, shots: int, bar: float) -> Iterator[Row]:
    """Class means of many draws, against both rivals."""
    note(f"SimpleShot {repeats} repeats, {shots}-shot")
    x, y = features(n_classes * PER_CLASS, n_classes, apart=0.4)
    test, _ = features(n_classes * TESTS_PER_CLASS, n_classes, apart=0.4, seed=1)
    draws = make_draws(y, repeats, shots)
    ours_s, ours = timed(lambda: predict_repeats(x, y, draws, test, STEPS))
    memory = peak_mb(lambda: predict_repeats(x, y, draws, test, STEPS))
    double, exact_test = x.astype(np.float64), test.astype(np.float64)
    exact = [centroid(double[each], y[each], exact_test) for each in draws[:N_EXACT]]
    equal = float((np.stack(exact) == ours[: len(exact)]).mean())
    for name, rival, n_timed, rival_bar in (
        ("B×C×D difference array", difference, 1, bar),
        ("NearestCentroid", centroid, 5, 0.0),
    ):
        some = draws[:n_timed]
        ask = partial(rival, test=test)
        theirs_s, _ = timed(partial(_ask_each, ask, x, y, some))
        yield Row(
            f"SimpleShot {n_classes} classes × {repeats} repeats, {shots}-shot",
            rival=f"{name} on CL2N a repeat",
            scaled=f"{len(some)} of {repeats} repeats",
            rival_s=theirs_s * repeats / len(some),
            ours_s=ours_s,
            bar=rival_bar,
            agreement=f"{equal:.2%} equal to float64 NearestCentroid on {len(exact)} repeats",
            is_equal=equal == 1,
            memory_mb=memory,
        )


def _ask_each(ask: Any, x: np.ndarray, y: np.ndarray, some: list[np.ndarray]) -> None:
    for each in some:
        ask(x[each], y[each])


def make_draws(y: np.ndarray, repeats: int, shots: int) -> list[np.ndarray]:
    order, random = np.argsort(y, kind="stable"), np.random.default_rng(0)
    ends = np.searchsorted(y[order], np.arange(y.max() + 2))
    return [
        np.concatenate([order[a + random.permutation(b - a)[:shots]] for a, b in pairwise(ends)])
        for _ in range(repeats)
    ]


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


def rows(is_quick: bool) -> Iterator[Row]:
    if is_quick:
        yield measure(400, 10, 0)
        yield from measure_repeats(10, 3, 1, 0)
        return
    yield measure(50_000, 1, 0)
    yield measure(50_000, 10, 0)
    yield from measure_repeats(525, 100, 1, 100)
    yield from measure_repeats(525, 100, 5, 0)
