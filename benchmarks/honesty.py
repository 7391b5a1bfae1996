"""Does `fieldmark try` promise what it keeps?

    python benchmarks/honesty.py

Worlds of features, drawn: labels with their own means, units with their own shifts, and several
models that see the same photos through different noise. In each, all that `try` does with features
is done by its own functions: folds by unit, heads, the choice, the temperature, the threshold, the
distances. Then the chosen model, fitted to all photos, labels photos of 6,000 new units.

Printed for each world: the mean accuracy on new units; how far the printed accuracy and the
winner's own score are from it; how often the 95 % interval covers it (bar 91 to 97 %), and how
often the winner's naive interval does; photos named wrongly, of all (promised: at most 5 %); the
calibration error in points, with what sampling alone would give taken off (bar 3); known photos
that are called unlike anything seen (promised: about 2 %).
"""

from __future__ import annotations

import math
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.stats import t as student

from _quick import Flags, finish
from fieldmark.tryout.judge.choice import choose
from fieldmark.tryout.judge.confidence import (
    NOVEL_P,
    fit_temperature,
    fit_threshold,
    nearest_distance,
    p_value,
    softmax,
)
from fieldmark.tryout.judge.heads import fit_head, kinds_for, out_of_unit
from fieldmark.tryout.judge.split import make_folds

LOWEST, HIGHEST, MOST_WRONG, MOST_ECE = 0.91, 0.97, 0.05, 0.03
N_NEW = 6000
"""new units of each world: their luck must be small beside that of the photos tried"""


@dataclass(frozen=True, slots=True)
class Cell:
    """A kind of world."""

    n_labels: int
    dim: int
    n_models: int
    n_units: int
    n_each: int
    """photos of a unit"""
    apart: float
    """distance of label means"""
    shift: float
    """of units"""
    is_burst: bool
    """do photos of a unit share their label?"""


CELLS = (
    Cell(4, 16, 4, 12, 10, 0.6, 0.5, False),
    Cell(4, 16, 4, 30, 8, 0.6, 0.5, False),
    Cell(3, 8, 3, 8, 12, 0.8, 0.6, False),
    Cell(8, 32, 6, 60, 5, 0.5, 0.5, True),
    Cell(6, 24, 5, 120, 1, 0.6, 0.01, True),
    Cell(5, 16, 8, 100, 4, 0.9, 0.4, True),
    Cell(12, 32, 4, 150, 4, 0.5, 0.4, True),
)


class World:
    """Draws photos of one world, again and again."""

    def __init__(self, cell: Cell, seed: int) -> None:
        self.cell, self.random = cell, np.random.default_rng((seed, hash(cell) % 2**32))
        draw = self.random.normal
        self.mean_cd = cell.apart * draw(size=(cell.n_labels, cell.dim))
        self.noise_m = self.random.uniform(0.9, 1.3, cell.n_models)
        mixing = draw(size=(cell.n_models, cell.dim, cell.dim)) / math.sqrt(cell.dim)
        self.mixing_mdd = 0.5 * mixing + np.eye(cell.dim)

    def draw(self, n_units: int) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
        """Features by model, labels and units."""
        cell, random = self.cell, self.random
        n = n_units * cell.n_each
        unit_n = np.repeat(np.arange(n_units), cell.n_each)
        of_unit = np.repeat(random.integers(cell.n_labels, size=n_units), cell.n_each)
        code_n = of_unit if cell.is_burst else random.integers(cell.n_labels, size=n)
        shift_ud = cell.shift * random.normal(size=(n_units, cell.dim))
        z_nd = self.mean_cd[code_n] + shift_ud[unit_n] + random.normal(size=(n, cell.dim))
        features = [
            z_nd @ mixing + noise * random.normal(size=(n, cell.dim))
            for mixing, noise in zip(self.mixing_mdd, self.noise_m, strict=True)
        ]
        return features, code_n, unit_n

    def draw_all_labels(self) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
        """A sample with photos of every label."""
        while True:
            sample = self.draw(self.cell.n_units)
            if len(np.unique(sample[1])) == self.cell.n_labels:
                return sample


def measure(cell: Cell, seed: int) -> tuple[float, ...]:
    """One world: accuracy, errors of the two scores, coverage of both, wrong, ECE, novelty."""
    world = World(cell, seed)
    features, code_n, unit_n = world.draw_all_labels()
    fold_n = make_folds(code_n, unit_n, str(seed))
    pairs = [(m, k) for m in range(cell.n_models) for k in kinds_for(len(code_n), cell.n_labels)]
    scores = [out_of_unit(k, features[m], code_n, fold_n, cell.n_labels) for m, k in pairs]
    hit_nm = np.stack([s.argmax(axis=1) == code_n for s in scores], axis=1).astype(float)
    choice = choose(hit_nm, unit_n, str(seed))
    (model, kind), score_nc = pairs[choice.best], scores[choice.best]
    head = fit_head(kind, features[model], code_n, cell.n_labels)
    new, new_code, _ = world.draw(N_NEW)
    new_score = head.scores(new[model])
    accuracy = float((new_score.argmax(axis=1) == new_code).mean())

    weight_n = 1 / np.bincount(unit_n)[unit_n]
    temperature = fit_temperature(score_nc, code_n, weight_n)
    prob_n = softmax(score_nc, temperature).max(axis=1)
    threshold = fit_threshold(prob_n, score_nc.argmax(axis=1) == code_n, unit_n)
    new_prob, is_right = (
        softmax(new_score, temperature).max(axis=1),
        new_score.argmax(1) == new_code,
    )
    wrong = float(((new_prob >= threshold.at_least) & ~is_right).mean())

    k = 1 if len(code_n) < 10 * cell.n_labels else 5
    seen = nearest_distance(features[model], features[model], k, unit_n, unit_n)
    p_n = p_value(nearest_distance(new[model][:500], features[model], k), seen, weight_n)
    own = hit_nm[:, choice.best]
    return (
        accuracy,
        choice.accuracy - accuracy,
        float(own.mean()) - accuracy,
        float(choice.low <= accuracy <= choice.high),
        float(is_covered_naively(own, unit_n, accuracy)),
        wrong if threshold.is_promise else math.nan,
        # One photo of each unit: what chance gives is worked out for independent photos.
        debiased_ece(new_prob[:: cell.n_each], is_right[:: cell.n_each], world.random),
        float((p_n < NOVEL_P).mean()),
    )


def is_covered_naively(hit_n: np.ndarray, unit_n: np.ndarray, accuracy: float) -> bool:
    """By the winner's own score with Student's limits over units, as if nothing had been chosen."""
    n_units, n = int(unit_n.max()) + 1, len(hit_n)
    residual_u = np.bincount(unit_n, hit_n - hit_n.mean())
    error = math.sqrt(n_units / (n_units - 1) * float((residual_u**2).sum())) / n
    return bool(abs(hit_n.mean() - accuracy) <= student.ppf(0.975, n_units - 1) * error)


def debiased_ece(prob_n: np.ndarray, is_right_n: np.ndarray, random: np.random.Generator) -> float:
    """Calibration error over ten bins of equal size, less that of perfectly calibrated answers."""
    chance = np.mean([ece(prob_n, random.random(len(prob_n)) < prob_n) for _ in range(5)])
    return max(0.0, ece(prob_n, is_right_n) - float(chance))


def ece(prob_n: np.ndarray, is_right_n: np.ndarray) -> float:
    bins = np.array_split(np.argsort(prob_n, kind="stable"), 10)
    gaps = [abs(prob_n[rows].mean() - is_right_n[rows].mean()) * len(rows) for rows in bins]
    return float(sum(gaps) / len(prob_n))


def main() -> int:
    flags = Flags(__doc__)
    flags.add_argument("--worlds", type=int, default=500)
    args = flags.parse(worlds=2)
    print("labels × units × photos | right | bias, winner's | covers, naive | wrong | ECE | novel")
    rows = []
    with ProcessPoolExecutor(2) as pool:
        for cell in CELLS:
            values = np.array(list(pool.map(partial(measure, cell), range(args.worlds))))
            mean = values.mean(axis=0)  # NaN where too few units promise anything
            rows.append(mean)
            right, bias, own, covers, naive, wrong, gap, novel = 100 * mean
            print(
                f"{cell.n_labels} × {cell.n_units} × {cell.n_each} | {right:.1f} | {bias:+.1f}, "
                f"{own:+.1f} | {covers:.1f}, {naive:.1f} | {wrong:.1f} | {gap:.1f} | {novel:.1f}",
                flush=True,
            )
    table = np.array(rows)
    covers = table[:, 3]
    bars = {
        "coverage 91 to 97 %": bool((covers >= LOWEST).all() and (covers <= HIGHEST).all()),
        "wrong ≤ 5 %": bool((np.nan_to_num(table[:, 5]) <= MOST_WRONG).all()),
        "ECE ≤ 3 points": bool((table[:, 6] <= MOST_ECE).all()),
    }
    figure = f"honesty: coverage from {100 * covers.min():.1f} to {100 * covers.max():.1f} %"
    return finish(figure, bars, args.quick)


if __name__ == "__main__":
    raise SystemExit(main())
