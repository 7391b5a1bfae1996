"""Rare classes: what may rare classes hide, and when can no interval be vouched for?

A class with one image that was answered rightly may be wrong every third time. An exact bound: m
classes in which all of N units were right may still hold an error rate of 1 - 0.05^(1/N), which
moves a mean over C classes by m / C times that; the worst m counts. Macro F1 of rare classes is
biased when wrong answers go to common ones, which no width mends: then there is no interval.
"""

from __future__ import annotations

import numpy as np

from fieldmark.stats.influence import form_of
from fieldmark.stats.items import Items, Metric, number_rows

FEW = 5
"""test images below which a class is rare"""
MOST_THIN = 0.1
"""share of rare classes up to which macro F1 has an interval"""
MOST_SINGLE = 0.25
"""share of classes with one unit up to which it has one"""
FEWEST_YES = 20
"""and as many noes, below which average precision has none"""
ALARM = 0.05


def class_of(items: Items) -> np.ndarray:
    """The class of each item, 0 up, apart in each part where parts are averaged."""
    target = np.asarray(items.target)
    columns = (items.part_codes(), target) if items.score == "mean" else (target,)
    return number_rows(*columns)[1]


def class_units(items: Items) -> tuple[np.ndarray, np.ndarray]:
    """Every class with each of its units (class, unit)."""
    class_n, unit_n = class_of(items), items.unit_codes()
    first_k = number_rows(class_n, unit_n)[0]
    return class_n[first_k], unit_n[first_k]


def hidden_in_rare_classes(items: Items, right_mn: np.ndarray) -> np.ndarray:
    """How much lower and higher (models × 2) each mean over classes may be, from classes in which
    all was right, or all wrong."""
    class_n, units_c = class_of(items), np.bincount(class_units(items)[0])
    size_c = np.bincount(class_n)
    hidden_m2 = np.zeros((len(right_mn), 2))
    for model, right_n in enumerate(right_mn):
        right_c = np.bincount(class_n, right_n)
        hidden_m2[model] = [
            may_hide(units_c[is_pure_c], len(size_c))
            for is_pure_c in (right_c == size_c, right_c == 0)
        ]
    return hidden_m2


def hidden_from_pair(class_k: tuple[np.ndarray, np.ndarray], is_apart_u: np.ndarray) -> float:
    """How much a difference of two means over classes may be off, from classes in which both
    models fared alike on every unit."""
    units_c = np.bincount(class_k[0])
    n_apart_c = np.bincount(class_k[0], is_apart_u[class_k[1]])
    return may_hide(units_c[n_apart_c == 0], len(units_c))


def may_hide(units_c: np.ndarray, n_classes: int) -> float:
    """What the worst so many of the rarest classes add to a mean over all of them."""
    if not len(units_c):
        return 0.0
    # The m rarest classes with N units in all: m / C of the mean, times 1 - 0.05^(1/N).
    share = np.arange(1, len(units_c) + 1) / n_classes
    return float((share * (1 - ALARM ** (1 / np.cumsum(np.sort(units_c))))).max())


def rarer_answers(items: Items, of_units: bool = True) -> float:
    """Items whose truth is yes, or no, whichever are fewer, in one repeat; of these as many as
    there are effective units, where positives come as a few species.
    """
    is_yes = np.asarray(items.target) > 0
    is_rare = is_yes if 2 * is_yes.sum() <= len(is_yes) else ~is_yes
    n = int(is_rare.sum()) // (int(items.repeat_codes().max(initial=0)) + 1)
    # Kish's effective number, (Σ n)² / Σ n².
    size_u = np.bincount(items.unit_codes()[is_rare])
    return n if not of_units or not n else float(size_u.sum() ** 2 / (size_u**2).sum())


def no_interval(items: Items, metric: Metric) -> str:
    """Why the score has no interval, in words; "" where it has one."""
    if form_of(metric) == "f1" and len(items.target):
        units_c = np.bincount(class_units(items)[0])
        size_c = np.bincount(class_of(items)) / (int(items.repeat_codes().max()) + 1)
        n_thin, n_single = int((size_c < FEW).sum()), int((units_c < 2).sum())
        what = f"have < {FEW} test images" if n_thin > MOST_THIN * len(size_c) else ""
        if not what and n_single > MOST_SINGLE * len(size_c):
            n_thin, what = n_single, "come from one unit"
        if what:
            return (
                f"{n_thin} of {len(size_c)} classes {what}, whose F1 is biased: "
                "macro_accuracy has an interval"
            )
    if getattr(metric, "uses", "") == "score":
        least = int(rarer_answers(items, of_units=False))
        if least < FEWEST_YES:
            return f"{least} items of the rarer answer: average precision needs {FEWEST_YES}"
    return ""
