"""Aggregations (mean, F1, perplexity, BLEU, …): values of documents → one number.

Each function reads the values once and gives back the number as a function of weights (resamples
× documents → one value per resample): weight 2 is the document twice, weight 0 is it left out.
Without any document the number is NaN.

BLEU, chrF and TER are ratios of sums over documents, so each document is counted once and every
resample is a sum of counts. BLEU and TER are counted by sacrebleu (tokeniser 13a; extra `hub`);
chrF (Popović 2015, https://aclanthology.org/W15-3049: character n-grams up to 6 without white
space, recall twice as important) is short enough to stand here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from fieldmark.errors import MissingExtra, UsageError

Weighted = Callable[[np.ndarray], np.ndarray]
"""weights (resamples × documents) → values"""
_ANY = (-math.inf, math.inf)


def mean(items: Sequence[Any]) -> Weighted:
    value_n = _numbers(items)
    return lambda weight_rn: _ratio(weight_rn @ value_n, weight_rn.sum(axis=1))


def nanmean(items: Sequence[Any]) -> Weighted:
    """The mean of what is known: None and NaN are left out."""
    value_n = _numbers([math.nan if item is None else item for item in items])
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
        rank = (below <= below[:, -1:] // 2).sum(axis=1)
        middle = value_n[order][np.minimum(rank, len(order) - 1)]
        return np.where(below[:, -1] > 0, middle, np.nan)

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
    totals, second = _pairs(items, "(log-likelihood, count)")
    total_n, count_n = _numbers(totals), _numbers(second)
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
    gold, predicted = _pairs(items, "(truth, prediction)")
    classes = {*gold, *predicted}
    if not classes <= {0, 1}:
        raise UsageError(
            f"aggregation 'f1' found the classes {_few(classes)}: expected 0 and 1. "
            "Use 'f1_macro' or 'f1_micro' for others."
        )
    is_so, is_said = np.array(gold, bool), np.array(predicted, bool)
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
    gold, predicted = _pairs(items, "(truth, prediction)")
    return mean([float(g == p) for g, p in zip(gold, predicted, strict=True)])


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
    predicted, documents = _pairs(items, "(prediction, document)")
    code_n = np.array(questions(items), np.intp)
    is_right = [(doc["label"] == 1) == bool(p) for p, doc in zip(predicted, documents, strict=True)]
    size_q = np.bincount(code_n)
    right_q = np.bincount(code_n, np.array(is_right, float)) == size_q
    share_n = 1 / size_q[code_n]
    return lambda weight_rn: _ratio(weight_rn @ (share_n * right_q[code_n]), weight_rn @ share_n)


def questions(items: Sequence[Any]) -> list[int]:
    """The number of each document's question: what is independent for `acc_all`."""
    number: dict[Hashable, int] = {}
    _, documents = _pairs(items, "(prediction, document)")
    return [number.setdefault(_question_of(document), len(number)) for document in documents]


def _question_of(document: Any) -> tuple[Any, Any]:
    try:
        index = document["idx"]
        return index["paragraph"], index["question"]
    except (KeyError, TypeError):
        raise UsageError(
            "aggregation 'acc_all' needs documents with idx.paragraph, idx.question and label "
            "(MultiRC's columns): use another aggregation for these."
        ) from None


def bypass(items: Sequence[Any]) -> Weighted:  # noqa: ARG001
    """999, whatever the values: for what is scored elsewhere."""
    return lambda weight_rn: np.full(len(weight_rn), 999.0)


def _one_hot(items: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    gold, predicted = _pairs(items, "(truth, prediction)")
    number: dict[Hashable, int] = {}
    for label in (*gold, *predicted):
        number.setdefault(label, len(number))
    every = np.eye(len(number))
    return every[[number[label] for label in gold]], every[[number[label] for label in predicted]]


def _numbers(items: Sequence[Any]) -> np.ndarray:
    """The values as floats; what is none is told with its place."""
    try:
        value_n = np.array(items, np.float64)
    except (TypeError, ValueError):
        value_n = np.empty((0, 0))
    if value_n.shape == (len(items),) and not any(isinstance(item, str) for item in items):
        return value_n
    for index, item in enumerate(items):
        if isinstance(item, str) or not _is_number(item):
            raise UsageError(
                f"value {index + 1} of {len(items)} is {_short(item)}: expected a number."
            )
    return np.array([float(item) for item in items], np.float64)


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _pairs(items: Sequence[Any], expected: str) -> tuple[list[Any], list[Any]]:
    for index, item in enumerate(items):
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise UsageError(
                f"value {index + 1} of {len(items)} is {_short(item)}: expected a pair {expected}."
            )
    return [item[0] for item in items], [item[1] for item in items]


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
    ratio_r = np.divide(part_r, whole_r, out=np.zeros(np.shape(whole_r)), where=whole_r > 0)
    return np.asarray(np.where(weight_rn.sum(axis=1) > 0, ratio_r, np.nan))


def _exp(value_r: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(value_r))


_ORDER, _BETA_SQUARED = 6, 4


def bleu(items: Sequence[Any]) -> Weighted:
    """sacrebleu's corpus BLEU, 0 to 100."""
    metric = _sacrebleu("bleu").BLEU(effective_order=True)
    counts = []
    for references, response in _texts(items):
        score = metric.corpus_score([response], [[reference] for reference in references])
        counts.append([score.sys_len, score.ref_len, *score.counts, *score.totals])
    count_nk = np.array(counts, np.float64).reshape(len(items), 10)

    def one(sums: np.ndarray) -> float:
        n_said, n_wanted, *counts = np.rint(sums).astype(int).tolist()
        score = metric.compute_bleu(counts[:4], counts[4:], n_said, n_wanted, smooth_method="exp")
        return float(score.score)

    return lambda weight_rn: _each(one, weight_rn, count_nk)


def ter(items: Sequence[Any]) -> Weighted:
    """sacrebleu's translation edit rate, 0 upwards; less is better."""
    metric = _sacrebleu("ter").TER()
    counts = []
    for references, response in _texts(items):
        score = metric.corpus_score([response], [[reference] for reference in references])
        counts.append([score.num_edits, score.ref_length])
    count_nk = np.array(counts, np.float64).reshape(len(items), 2)

    def one(sums: np.ndarray) -> float:
        if sums[1] > 0:
            return 100 * float(sums[0] / sums[1])
        return 100.0 if sums[0] > 0 else 0.0

    return lambda weight_rn: _each(one, weight_rn, count_nk)


def chrf(items: Sequence[Any]) -> Weighted:
    """chrF of the corpus, 0 to 100."""
    count_nk = np.array(
        [_best_counts(references, response) for references, response in _texts(items)], np.float64
    ).reshape(len(items), 3 * _ORDER)
    return lambda weight_rn: _each(_f_score, weight_rn, count_nk)


def _best_counts(references: Sequence[str], response: str) -> list[float]:
    """N-grams said, wanted and shared of each order, for the reference that fits best."""
    said_o = _ngrams(response)
    every = []
    for reference in references:
        counts: list[float] = []
        for in_answer, in_reference in zip(said_o, _ngrams(reference), strict=True):
            n_said = sum(in_answer.values()) if in_reference else 0
            shared = sum(min(n, in_reference[gram]) for gram, n in in_answer.items())
            counts += [n_said, sum(in_reference.values()), shared]
        every.append(counts)
    return max(every, key=lambda counts: _f_score(np.array(counts)))


def _ngrams(text: str) -> list[Counter[str]]:
    letters = "".join(text.split())
    return [
        Counter(letters[start : start + n] for start in range(len(letters) - n + 1))
        for n in range(1, _ORDER + 1)
    ]


def _f_score(counts: np.ndarray) -> float:
    """F2 of the mean precision and recall over the orders that both sides have."""
    n_response, n_reference, shared = counts.reshape(_ORDER, 3).T
    both = (n_response > 0) & (n_reference > 0)
    if not both.any():
        return 0.0
    precision = float((shared[both] / n_response[both]).mean())
    recall = float((shared[both] / n_reference[both]).mean())
    below = _BETA_SQUARED * precision + recall
    return 100 * (1 + _BETA_SQUARED) * precision * recall / below if below else 0.0


def _each(one: Any, weight_rn: np.ndarray, count_nk: np.ndarray) -> np.ndarray:
    total_r = weight_rn.sum(axis=1)
    pairs = zip(total_r, weight_rn @ count_nk, strict=True)
    return np.array([one(sums) if total > 0 else np.nan for total, sums in pairs])


def _texts(items: Sequence[Any]) -> list[tuple[list[str], str]]:
    """(references, response) of each pair; a response may stand in a list of one."""
    pairs = []
    for index, item in enumerate(items):
        pair = item if isinstance(item, tuple | list) and len(item) == 2 else (None, None)
        references = [pair[0]] if isinstance(pair[0], str) else pair[0]
        response = (
            pair[1][0] if isinstance(pair[1], list | tuple) and len(pair[1]) == 1 else pair[1]
        )
        is_texts = isinstance(references, list | tuple) and all(
            isinstance(x, str) for x in references
        )
        if not is_texts or not references or not isinstance(response, str):
            raise UsageError(
                f"value {index + 1} of {len(items)} is {repr(item)[:60]}: "
                "expected a pair (reference or references, response)."
            )
        pairs.append((list(references), response))
    return pairs


def _sacrebleu(wanted_by: str) -> Any:
    try:
        from sacrebleu import metrics
    except ImportError as error:
        raise MissingExtra(f"aggregation {wanted_by!r}", "hub", "sacrebleu") from error
    return metrics
