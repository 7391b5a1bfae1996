"""How does a list of documents' values become one number, in every resample at once?

Each function reads the values once and gives back the number as a function of weights (resamples
× documents → one value per resample): weight 2 is the document twice, weight 0 is it left out.
Without any document the number is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from fieldmark.errors import UsageError

Weighted = Callable[[np.ndarray], np.ndarray]
"""weights (resamples × documents) → values"""


def mean(items: Sequence[Any]) -> Weighted:
    value_n = _numbers(items)
    return lambda weight_rn: _ratio(weight_rn @ value_n, weight_rn.sum(axis=1))


def nanmean(items: Sequence[Any]) -> Weighted:
    """The mean of what is known: None and NaN are left out."""
    value_n = _numbers([math.nan if each is None else each for each in items])
    is_known = ~np.isnan(value_n)
    known_n = np.where(is_known, value_n, 0.0)
    return lambda weight_rn: _ratio(weight_rn @ known_n, weight_rn @ is_known)


def median(items: Sequence[Any]) -> Weighted:
    """The middle one of the sorted values; of two in the middle the larger."""
    value_n = _numbers(items)
    order = np.argsort(value_n, kind="stable")

    def score(weight_rn: np.ndarray) -> np.ndarray:
        below = np.cumsum(weight_rn[:, order], axis=1)
        if not below.size:
            return np.full(len(weight_rn), np.nan)
        place = (below <= below[:, -1:] // 2).sum(axis=1)
        found = value_n[order][np.minimum(place, len(order) - 1)]
        return np.where(below[:, -1] > 0, found, np.nan)

    return score


def perplexity(items: Sequence[Any]) -> Weighted:
    """exp of minus the mean log-likelihood."""
    of_mean = mean(items)
    return lambda weight_rn: _exp(-of_mean(weight_rn))


def weighted_perplexity(items: Sequence[Any]) -> Weighted:
    """exp of minus the log-likelihood per word (or byte): the sums are divided, not each pair."""
    per_unit = _per_unit(items)
    return lambda weight_rn: _exp(-per_unit(weight_rn))


def bits_per_byte(items: Sequence[Any]) -> Weighted:
    per_unit = _per_unit(items)
    return lambda weight_rn: -per_unit(weight_rn) / math.log(2)


def _per_unit(items: Sequence[Any]) -> Weighted:
    first, second = _pairs(items, "(log-likelihood, count)")
    total_n, count_n = _numbers(first), _numbers(second)
    return lambda weight_rn: _ratio(weight_rn @ total_n, weight_rn @ count_n)


def brier_score(items: Sequence[Any]) -> Weighted:
    """The mean over documents of the squared distance between probabilities and truth, 0 to 2."""
    gold, probabilities = _pairs(items, "(place of the right choice, probabilities)")
    return mean([_brier(int(g), p) for g, p in zip(gold, probabilities, strict=True)])


def _brier(gold: int, probabilities: Any) -> float:
    probability_k = np.asarray(probabilities, np.float64)
    return float(((probability_k - (np.arange(len(probability_k)) == gold)) ** 2).sum())


def f1(items: Sequence[Any]) -> Weighted:
    """F1 of the class 1 of two; 0 where it is neither there nor predicted."""
    gold, said = _pairs(items, "(truth, prediction)")
    classes = {*gold, *said}
    if not classes <= {0, 1}:
        raise UsageError(
            f"aggregation 'f1' found the classes {_few(classes)}: expected 0 and 1. "
            "Use 'f1_macro' or 'f1_micro' for others."
        )
    is_so, is_said = np.array(gold, bool), np.array(said, bool)
    hit_n, size_n = (is_so & is_said) * 2.0, is_so.astype(float) + is_said
    return lambda weight_rn: _or_zero(weight_rn @ hit_n, weight_rn @ size_n, weight_rn)


def f1_macro(items: Sequence[Any]) -> Weighted:
    """The mean of each class's F1, over the classes that are there or predicted."""
    gold_nc, said_nc = _one_hot(items)

    def score(weight_rn: np.ndarray) -> np.ndarray:
        hit_rc = 2 * weight_rn @ (gold_nc * said_nc)
        size_rc = weight_rn @ (gold_nc + said_nc)
        of_class = np.divide(hit_rc, size_rc, out=np.zeros(size_rc.shape), where=size_rc > 0)
        return _ratio(of_class.sum(axis=1), (size_rc > 0).sum(axis=1))

    return score


def f1_micro(items: Sequence[Any]) -> Weighted:
    """F1 over all classes together: with one label a document, the share right."""
    gold, said = _pairs(items, "(truth, prediction)")
    return mean([float(g == p) for g, p in zip(gold, said, strict=True)])


def matthews_corrcoef(items: Sequence[Any]) -> Weighted:
    """Matthews' correlation, of any number of classes (Gorodkin 2004); 0 where it has no spread."""
    gold_nc, said_nc = _one_hot(items)
    right_n = (gold_nc * said_nc).sum(axis=1)

    def score(weight_rn: np.ndarray) -> np.ndarray:
        n = weight_rn.sum(axis=1)
        gold_rc, said_rc = weight_rn @ gold_nc, weight_rn @ said_nc
        together = (weight_rn @ right_n) * n - (gold_rc * said_rc).sum(axis=1)
        spread = (n**2 - (gold_rc**2).sum(axis=1)) * (n**2 - (said_rc**2).sum(axis=1))
        return _or_zero(together, np.sqrt(np.maximum(spread, 0.0)), weight_rn)

    return score


def acc_all(items: Sequence[Any]) -> Weighted:
    """The share of questions of which every answer is right; items are (prediction, document).

    A question is a pair `idx.paragraph`, `idx.question` of the document; all its documents have
    the same weight where it is the unit that is drawn.
    """
    said, documents = _pairs(items, "(prediction, document)")
    code_n = np.array(questions(items), np.intp)
    is_right = [(doc["label"] == 1) == bool(p) for p, doc in zip(said, documents, strict=True)]
    size_q = np.bincount(code_n)
    right_q = np.bincount(code_n, np.array(is_right, float)) == size_q
    share_n = 1 / size_q[code_n]
    return lambda weight_rn: _ratio(weight_rn @ (share_n * right_q[code_n]), weight_rn @ share_n)


def questions(items: Sequence[Any]) -> list[int]:
    """The number of each document's question: what is independent for `acc_all`."""
    number: dict[Hashable, int] = {}
    _, documents = _pairs(items, "(prediction, document)")
    return [number.setdefault(_question_of(each), len(number)) for each in documents]


def _question_of(document: Any) -> tuple[Any, Any]:
    try:
        place = document["idx"]
        return place["paragraph"], place["question"]
    except (KeyError, TypeError):
        raise UsageError(
            "aggregation 'acc_all' wants documents with idx.paragraph, idx.question and label "
            "(MultiRC's columns): use another aggregation for these."
        ) from None


def bypass(items: Sequence[Any]) -> Weighted:  # noqa: ARG001
    """999, whatever the values: for what is scored elsewhere."""
    return lambda weight_rn: np.full(len(weight_rn), 999.0)


def _one_hot(items: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    gold, said = _pairs(items, "(truth, prediction)")
    number: dict[Hashable, int] = {}
    for each in (*gold, *said):
        number.setdefault(each, len(number))
    every = np.eye(len(number))
    return every[[number[each] for each in gold]], every[[number[each] for each in said]]


def _numbers(items: Sequence[Any]) -> np.ndarray:
    """The values as floats; what is none is told with its place."""
    try:
        found = np.array(items, np.float64)
    except (TypeError, ValueError):
        found = np.empty((0, 0))
    if found.shape == (len(items),) and not any(isinstance(each, str) for each in items):
        return found
    for place, each in enumerate(items):
        if isinstance(each, str) or not _is_number(each):
            raise UsageError(
                f"value {place + 1} of {len(items)} is {_short(each)}: expected a number."
            )
    return np.array([float(each) for each in items], np.float64)


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _pairs(items: Sequence[Any], words: str) -> tuple[list[Any], list[Any]]:
    for place, each in enumerate(items):
        if not isinstance(each, tuple | list) or len(each) != 2:
            raise UsageError(
                f"value {place + 1} of {len(items)} is {_short(each)}: expected a pair {words}."
            )
    return [each[0] for each in items], [each[1] for each in items]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _few(values: set[Any]) -> str:
    names = sorted(map(repr, values))
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")


def _ratio(part_r: np.ndarray, whole_r: np.ndarray) -> np.ndarray:
    part_r, whole_r = np.asarray(part_r, np.float64), np.asarray(whole_r, np.float64)
    lacking = np.full(whole_r.shape, np.nan)
    return np.asarray(np.divide(part_r, whole_r, out=lacking, where=whole_r != 0))


def _or_zero(part_r: np.ndarray, whole_r: np.ndarray, weight_rn: np.ndarray) -> np.ndarray:
    """0 where there is nothing to divide by, NaN where there is no document."""
    found = np.divide(part_r, whole_r, out=np.zeros(np.shape(whole_r)), where=whole_r > 0)
    return np.asarray(np.where(weight_rn.sum(axis=1) > 0, found, np.nan))


def _exp(value_r: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(value_r))
