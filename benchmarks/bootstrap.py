"""How much faster are resampled scores than a loop over prediction objects?

The rival is the loop an evaluation script writes: pick prediction objects, collect their labels
into arrays, score with scikit-learn, once per resample. Both score *the same* resamples, so the
values must be equal; the rival is timed on a few of them and its time taken per resample.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.metrics import accuracy_score, f1_score, recall_score

from fieldmark.metrics import load_metric
from fieldmark.stats import Items, Resampling, bootstrap
from fieldmark.stats.bootstrap import cell_kinds, mean_kinds, replicate_classes, replicate_mean

N_LOOP = 12


@dataclass
class Prediction:
    target: int
    answer: int


def _macro(score: Callable[..., float]) -> Callable[..., float]:
    def macro(target: np.ndarray, answer: np.ndarray) -> float:
        labels = np.unique(target)
        return float(score(target, answer, labels=labels, average="macro", zero_division=0))

    return macro


RIVALS: dict[str, Callable[..., float]] = {
    "accuracy": lambda target, answer: float(accuracy_score(target, answer)),
    "macro_accuracy": _macro(recall_score),
    "macro_f1": _macro(f1_score),
}


def resamples(name: str, target: np.ndarray, answer: np.ndarray, draws: int) -> np.ndarray:
    """The rows each resample holds (draws × items), drawn as `bootstrap` draws them."""
    settings, is_right = Resampling(draws=draws), (target == answer).astype(float)
    if name == "accuracy":
        kinds, kind_n = mean_kinds(Items(target), is_right).kinds, is_right
    else:
        if name == "macro_accuracy":
            answer = np.where(is_right > 0, answer, -1)
        kinds, kind_n = cell_kinds(Items(target), answer).kinds, target * 100_000 + answer
    first = np.unique(kind_n, return_index=True)[1]
    counts = np.concatenate(list(kinds.resampled(settings, "interval")))
    return np.stack([np.repeat(first, count) for count in counts[:N_LOOP]])


def loop(name: str, objects: list[Prediction], rows: np.ndarray) -> np.ndarray:
    found = []
    for row in rows:
        sample = [objects[place] for place in row]
        target = np.array([each.target for each in sample])
        found.append(RIVALS[name](target, np.array([each.answer for each in sample])))
    return np.array(found)


def main() -> None:
    random = np.random.default_rng(0)
    print("| n / classes / draws | metric | loop, s | fieldmark, s | ratio | largest difference |")
    print("|---|---|---|---|---|---|")
    for n, classes, draws in ((10_000, 200, 500), (10_000, 200, 2000), (50_000, 1000, 500)):
        target = random.integers(0, classes, n)
        answer = np.where(random.random(n) < 0.7, target, random.integers(0, classes, n))
        objects = [Prediction(int(t), int(a)) for t, a in zip(target, answer, strict=True)]
        for name in RIVALS:
            metric, settings = load_metric(name), Resampling(draws=draws)
            began = time.process_time()
            bootstrap(Items(target), answer, metric, settings)
            ours_s = time.process_time() - began
            rows = resamples(name, target, answer, draws)
            began = time.process_time()
            theirs = loop(name, objects, rows)
            loop_s = (time.process_time() - began) / len(rows) * draws
            if name == "accuracy":
                ours = replicate_mean(Items(target), (target == answer).astype(float), settings)
            else:
                ours = replicate_classes(Items(target), answer, metric, settings)
            apart = float(np.abs(ours[: len(theirs)] - theirs).max())
            print(
                f"| {n:,} / {classes:,} / {draws:,} | {name} | {loop_s:.1f} | {ours_s:.3f} "
                f"| {loop_s / ours_s:.0f}x | {apart:.0e} |"
            )


if __name__ == "__main__":
    main()
