"""Influence values: what does each item add to a score, so that models can be paired by items?

The share right, macro accuracy and macro F1 have closed forms; any mean over items has its item
values. What a pair of models' items add to the *difference* is exact for all but F1, whose ratios
are taken at the mean of both models, where the rest is of third order. Nothing is centred within a
class: of a class with one image, centring would say it never varies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fieldmark.stats.items import Items, Metric, item_values

_BY_CLASS = ("recall", "f1")


def form_of(metric: Metric) -> str:
    """Which closed form the metric has: "right", "recall", "f1", "mean" of item values, or ""."""
    form = str(getattr(metric, "closed_form", ""))
    if form in ("right", *_BY_CLASS):
        return form
    return "mean" if getattr(metric, "kind", "other") == "mean" else ""


def item_share(items: Items) -> np.ndarray:
    """The weight of each item in a score that is a mean over items, or over parts."""
    n = len(items.target)
    if items.score == "pooled":
        return np.full(n, 1 / n)
    part = items.part_codes()
    n_items = np.bincount(part)
    return np.asarray((1 / (len(n_items) * n_items))[part])


@dataclass(frozen=True, slots=True)
class Classes:
    """The classes of a score that is a mean over classes, or over parts of such means."""

    target: np.ndarray
    """class of each item, 0 up, apart in each part; some numbers stand for no class"""
    size: np.ndarray
    """items of each class"""
    share: np.ndarray
    """weight of each class in the score"""
    shift: np.ndarray | int
    """what turns an item's answer into a class"""

    def answered(self, answer_n: np.ndarray) -> np.ndarray:
        """One more than the class of each answer; what belongs to no class has no size."""
        return np.asarray(np.add(answer_n, self.shift + 1, dtype=np.intp))


def read_classes(items: Items, top: int) -> Classes:
    """The classes in the truth; `top` is the largest answer."""
    target = np.asarray(items.target, np.intp)
    width = max(int(target.max()), top) + 2  # the place of "no answer" belongs to no class
    if items.score == "pooled":
        size = np.bincount(target, minlength=width)
        return Classes(target, size, (size > 0) / max(1, (size > 0).sum()), 0)
    part = items.part_codes()
    n_parts = int(part.max()) + 1
    code = target + part * width
    size = np.bincount(code, minlength=width * n_parts)
    is_class_pc = (size > 0).reshape(n_parts, width)
    share = is_class_pc / (n_parts * is_class_pc.sum(axis=1, keepdims=True))
    return Classes(code, size, share.ravel(), part * width)


def lead_values(items: Items, a: np.ndarray, b: np.ndarray, metric: Metric) -> np.ndarray | None:
    """What each item adds to the score of `a` minus that of `b`; None for metrics without it."""
    form = form_of(metric)
    if form in ("", "mean"):
        ours, theirs = (item_values(metric, items.target, answer_n) for answer_n in (a, b))
        return None if ours is None or theirs is None else (ours - theirs) * item_share(items)
    is_a, is_b = a == items.target, b == items.target
    lead_n = is_a.astype(np.float64) - is_b
    if form == "right":
        return np.asarray(lead_n * item_share(items))
    classes = read_classes(items, int(max(a.max(), b.max())))
    if form == "recall":
        return np.asarray(lead_n * _per(classes.share, classes.size)[classes.target])
    return _lead_f1(classes, (a, is_a), (b, is_b))


def score_values(
    items: Items, answers_mn: np.ndarray, metric: Metric
) -> tuple[np.ndarray, np.ndarray] | None:
    """Each model's score, and what each unit adds to it (models × units, float32).

    For F1 the values are those of each model's own ratios: near enough to sort clear cases from
    close ones, which `lead_values` then decides. None for metrics whose items' values are unknown.
    """
    form = form_of(metric)
    if not form:
        return None
    classes = read_classes(items, int(answers_mn.max())) if form in _BY_CLASS else None
    share_n = item_share(items)
    if classes is not None:
        share_n = _per(classes.share, classes.size)[classes.target]
    unit_n = items.unit_codes()
    n_units = int(unit_n.max()) + 1
    score_m = np.empty(len(answers_mn))
    value_mu = np.empty((len(answers_mn), n_units), np.float32)
    for model, answer_n in enumerate(answers_mn):
        if form == "mean":
            value_n = share_n * item_values(metric, items.target, answer_n)
        elif classes is not None and form == "f1":
            value_n = _values_f1(classes, answer_n, answer_n == items.target)
        else:
            value_n = share_n * (answer_n == items.target)
        score_m[model] = value_n.sum()
        value_mu[model] = value_n if n_units == len(unit_n) else np.bincount(unit_n, value_n)
    return score_m, value_mu


def _per(share_c: np.ndarray, size_c: np.ndarray) -> np.ndarray:
    return np.asarray(share_c / np.maximum(size_c, 1))


def _lead_f1(
    classes: Classes, a: tuple[np.ndarray, np.ndarray], b: tuple[np.ndarray, np.ndarray]
) -> np.ndarray:
    """F1 of a class is 2 hits / (size + answers): with both at the two models' mean, their
    difference is 2 (hits_a - hits_b) / s - f (answers_a - answers_b) / s."""
    n, answered_a, answered_b = len(classes.size), classes.answered(a[0]), classes.answered(b[0])
    answers = _count(answered_a, n + 1)[1:] + _count(answered_b, n + 1)[1:]
    right = a[1].astype(np.int8) + b[1]
    hits = np.bincount(classes.target, right, n)
    whole = classes.size + answers / 2
    per_hit = 2 * _per(classes.share, whole)
    per_answer = np.r_[0.0, _per(per_hit * hits / 2, whole)]
    apart = np.flatnonzero(answered_a != answered_b)
    lead_n = np.zeros(len(answered_a))
    lead_n[apart] = (
        (a[1][apart].astype(np.float64) - b[1][apart]) * per_hit[classes.target[apart]]
        - per_answer[answered_a[apart]]
        + per_answer[answered_b[apart]]
    )
    return lead_n


def _values_f1(classes: Classes, answer_n: np.ndarray, is_right: np.ndarray) -> np.ndarray:
    """The value of a class shared out evenly, plus what one more such item would change."""
    n, answered_n = len(classes.size), classes.answered(answer_n)
    place_n = classes.target + n * is_right
    whole = np.maximum(classes.size + _count(answered_n, n + 1)[1:], 1)
    per_hit = 2 * classes.share / whole
    f1 = per_hit * _count(place_n, 2 * n)[n:]
    base = _per(f1, classes.size) - f1 / whole
    per_place = np.concatenate([base, base + per_hit])
    per_answer = np.concatenate([[0.0], f1 / whole])
    return np.asarray(per_place.take(place_n) - per_answer.take(answered_n))


def _count(code: np.ndarray, n: int) -> np.ndarray:
    return np.bincount(code, minlength=n)
