"""How near are texts to their references, over the whole corpus: BLEU, chrF and TER?

All three are ratios of sums over documents, so each document is counted once and every resample is
a sum of counts. BLEU and TER are counted by sacrebleu (tokeniser 13a; extra `hub`); chrF (Popović
2015, https://aclanthology.org/W15-3049: character n-grams up to 6 without white space, recall twice
as important) is short enough to stand here. Of several references, each document may have its own
number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from fieldmark.errors import MissingExtra, UsageError
from fieldmark.lmms.metrics.weighted import Weighted

_ORDER, _BETA_SQUARED = 6, 4


def bleu(items: Sequence[Any]) -> Weighted:
    """sacrebleu's corpus BLEU, 0 to 100."""
    metric = _sacrebleu("bleu").BLEU(effective_order=True)
    counts = []
    for references, said in _texts(items):
        found = metric.corpus_score([said], [[each] for each in references])
        counts.append([found.sys_len, found.ref_len, *found.counts, *found.totals])
    count_nk = np.array(counts, np.float64).reshape(len(items), 10)

    def one(sums: np.ndarray) -> float:
        n_said, n_wanted, *counts = np.rint(sums).astype(int).tolist()
        found = metric.compute_bleu(counts[:4], counts[4:], n_said, n_wanted, smooth_method="exp")
        return float(found.score)

    return lambda weight_rn: _each(one, weight_rn, count_nk)


def ter(items: Sequence[Any]) -> Weighted:
    """sacrebleu's translation edit rate, 0 upwards; less is better."""
    metric = _sacrebleu("ter").TER()
    counts = []
    for references, said in _texts(items):
        found = metric.corpus_score([said], [[each] for each in references])
        counts.append([found.num_edits, found.ref_length])
    count_nk = np.array(counts, np.float64).reshape(len(items), 2)

    def one(sums: np.ndarray) -> float:
        if sums[1] > 0:
            return 100 * float(sums[0] / sums[1])
        return 100.0 if sums[0] > 0 else 0.0

    return lambda weight_rn: _each(one, weight_rn, count_nk)


def chrf(items: Sequence[Any]) -> Weighted:
    """chrF of the corpus, 0 to 100."""
    count_nk = np.array(
        [_best_counts(references, said) for references, said in _texts(items)], np.float64
    ).reshape(len(items), 3 * _ORDER)
    return lambda weight_rn: _each(_f_score, weight_rn, count_nk)


def _best_counts(references: Sequence[str], said: str) -> list[float]:
    """N-grams said, wanted and shared of each order, for the reference that fits best."""
    said_o = _ngrams(said)
    found = []
    for reference in references:
        counts: list[float] = []
        for mine, wanted in zip(said_o, _ngrams(reference), strict=True):
            n_said = sum(mine.values()) if wanted else 0
            shared = sum(min(n, wanted[gram]) for gram, n in mine.items())
            counts += [n_said, sum(wanted.values()), shared]
        found.append(counts)
    return max(found, key=lambda counts: _f_score(np.array(counts)))


def _ngrams(text: str) -> list[Counter[str]]:
    letters = "".join(text.split())
    return [
        Counter(letters[place : place + n] for place in range(len(letters) - n + 1))
        for n in range(1, _ORDER + 1)
    ]


def _f_score(counts: np.ndarray) -> float:
    """F2 of the mean precision and recall over the orders that both sides have."""
    said, wanted, shared = counts.reshape(_ORDER, 3).T
    both = (said > 0) & (wanted > 0)
    if not both.any():
        return 0.0
    precision = float((shared[both] / said[both]).mean())
    recall = float((shared[both] / wanted[both]).mean())
    below = _BETA_SQUARED * precision + recall
    return 100 * (1 + _BETA_SQUARED) * precision * recall / below if below else 0.0


def _each(one: Any, weight_rn: np.ndarray, count_nk: np.ndarray) -> np.ndarray:
    total_r = weight_rn.sum(axis=1)
    pairs = zip(total_r, weight_rn @ count_nk, strict=True)
    return np.array([one(sums) if total > 0 else np.nan for total, sums in pairs])


def _texts(items: Sequence[Any]) -> list[tuple[list[str], str]]:
    """(references, response) of each pair; a response may stand in a list of one."""
    found = []
    for place, each in enumerate(items):
        pair = each if isinstance(each, tuple | list) and len(each) == 2 else (None, None)
        references = [pair[0]] if isinstance(pair[0], str) else pair[0]
        said = pair[1][0] if isinstance(pair[1], list | tuple) and len(pair[1]) == 1 else pair[1]
        is_texts = isinstance(references, list | tuple) and all(
            isinstance(x, str) for x in references
        )
        if not is_texts or not references or not isinstance(said, str):
            raise UsageError(
                f"value {place + 1} of {len(items)} is {repr(each)[:60]}: "
                "expected a pair (reference or references, response)."
            )
        found.append((list(references), said))
    return found


def _sacrebleu(wanted_by: str) -> Any:
    try:
        from sacrebleu import metrics
    except ImportError as error:
        raise MissingExtra(f"aggregation {wanted_by!r}", "hub", "sacrebleu") from error
    return metrics
