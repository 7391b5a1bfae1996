"""Document metrics: which values does one document get from what a model gave back?

Choices are scored by summed log-probabilities: the largest wins, of equals the first. A gold that
names no choice is never right.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fieldmark.errors import UsageError
from fieldmark.lmms.code.call import takes
from fieldmark.lmms.metrics.registry import (
    CHOICE,
    LIKELIHOOD,
    ROLLING,
    TEXT,
    document_metric,
    metrics_for,
)

Call = Callable[..., Any]
_PAIRS = ("bleu", "chrf", "ter")
_RAW = ("bypass", "by_pass")
_WHOLE_LIST = ("anls", "exact_match")
"""take all references in one call"""


@dataclass(frozen=True, slots=True)
class TextMetric:
    """A metric of a text: by name, or code the user brought."""

    name: str
    function: Callable[..., Any] | None = None
    """None: the registered one"""
    options: Mapping[str, Any] = field(default_factory=dict)
    higher_is_better: bool = True


def gold_places(gold: Any, choices: Sequence[str]) -> tuple[int, ...]:
    """The places among the choices that are right; () where the gold names none of them.

    A gold is a place, a choice's text, or a list of either.
    """
    several = gold if isinstance(gold, list | tuple | np.ndarray) else [gold]
    numbers = []
    for item in several:
        if isinstance(item, str):
            numbers += [list(choices).index(item)] if item in choices else []
        elif isinstance(item, int | np.integer | float) and float(item).is_integer():
            numbers += [int(item)] if 0 <= item < len(choices) else []
    return tuple(dict.fromkeys(numbers))


def choice_values(
    names: Sequence[str],
    logprobs: Sequence[float],
    greedy: Sequence[bool],
    gold: Any,
    choices: Sequence[str],
    unconditional: Sequence[float] | None = None,
) -> dict[str, Any]:
    """The wanted values of a document with choices; `unconditional` is for acc_mutual_info."""
    _check(names, CHOICE)
    if not len(choices) == len(logprobs) == len(greedy):
        raise UsageError(
            f"{len(choices)} choices have {len(logprobs)} log-probabilities and {len(greedy)} "
            "greedy flags: expected one of each for every choice."
        )
    score_k = _finite(logprobs)
    right = gold_places(gold, choices)
    best = int(score_k.argmax())
    pair = (best if best in right else (right or (-1,))[0], best)
    by_name: dict[str, Callable[[], Any]] = {
        "acc": lambda: float(best in right),
        "acc_norm": lambda: _right(score_k / _sizes(map(len, choices)), right),
        "acc_bytes": lambda: _right(
            score_k / _sizes(len(choice.encode("utf-8", "surrogatepass")) for choice in choices),
            right,
        ),
        "acc_mutual_info": lambda: _right(
            _finite(score_k - _unconditional(unconditional, choices)), right
        ),
        "exact_match": lambda: float(any(greedy[number] for number in right)),
        "brier_score": lambda: ((right or (-1,))[0], _softmax(score_k)),
        "f1": lambda: pair,
        "mcc": lambda: pair,
        "matthews_corrcoef": lambda: pair,
        "chance": lambda: len(right) / len(choices),
        "bypass": lambda: list(map(float, logprobs)),
        "by_pass": lambda: list(map(float, logprobs)),
    }
    return {name: by_name[name]() for name in names}


def likelihood_values(names: Sequence[str], logprob: float, is_greedy: bool) -> dict[str, Any]:
    """The wanted values of a document whose target was scored."""
    _check(names, LIKELIHOOD)
    by_name = {
        "perplexity": float(logprob),
        "acc": float(is_greedy),
        "bypass": (float(logprob), bool(is_greedy)),
        "by_pass": (float(logprob), bool(is_greedy)),
    }
    return {name: by_name[name] for name in names}


def rolling_values(names: Sequence[str], text: str, logprob: float) -> dict[str, Any]:
    """The wanted values of a document whose whole text was scored."""
    _check(names, ROLLING)
    in_bytes = (float(logprob), len(text.encode("utf-8", "surrogatepass")))
    by_name = {
        "word_perplexity": (float(logprob), len(text.split())),
        "byte_perplexity": in_bytes,
        "bits_per_byte": in_bytes,
        "bypass": float(logprob),
        "by_pass": float(logprob),
    }
    return {name: by_name[name] for name in names}


def _call(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    return function(*args, **options)


def text_values(
    metrics: Sequence[TextMetric], response: Any, target: Any, call: Call = _call
) -> dict[str, Any]:
    """The values of a document that was answered by text; a list as target is several targets.

    `response`: a text, or several where a pipeline kept several. `call(function, ...)` calls what
    the user brought, and may tell its mistakes in its own way.
    """
    several = response if isinstance(response, list | tuple) else [response]
    texts = [item.strip() if isinstance(item, str) else _as_text(item) for item in several]
    references = list(target) if isinstance(target, list | tuple) else [target]
    return {metric.name: _text_value(metric, references, texts, call) for metric in metrics}


def _text_value(metric: TextMetric, references: list[Any], texts: list[str], call: Call) -> Any:
    function = metric.function
    if function is None:
        _check([metric.name], TEXT)
        function = document_metric(metric.name).function
        call = _call if metric.name in _WHOLE_LIST else call
    if metric.name in _RAW and metric.function is None:
        return texts[0] if len(texts) == 1 else texts
    if metric.name in _PAIRS and metric.function is None:
        return [str(target) for target in references] if len(references) != 1 else str(
            references[0]
        ), texts[0]
    assert function is not None
    if len(references) == 1 or (metric.name in _WHOLE_LIST and metric.function is None):
        return _one(metric, function, references, texts, call)
    # Upstream gives 1 when any target gives more than 0; for values of 0 and 1 that is the best.
    values = [_one(metric, function, [target], texts, call) for target in references]
    return (max if metric.higher_is_better else min)(values, default=0.0)


def _one(
    metric: TextMetric,
    function: Callable[..., Any],
    references: list[Any],
    texts: list[str],
    call: Call,
) -> Any:
    """By keywords, as Hugging Face's metrics are called, else with one list of both."""
    options = dict(metric.options)
    if takes(function, references=references, predictions=texts, **options):
        value = call(function, references=references, predictions=texts, **options)
    elif takes(function, [references, texts], **options):
        value = call(function, [references, texts], **options)
    else:
        raise UsageError(
            f"metric {metric.name!r} with the options {', '.join(options) or 'none'} takes "
            f"{inspect.signature(function)}: expected references, predictions and these options."
        )
    if isinstance(value, Mapping):
        if metric.name not in value:
            raise UsageError(
                f"metric {metric.name!r} gave {', '.join(map(repr, value)) or 'nothing'}: "
                f"expected a number, or a mapping with {metric.name!r}."
            )
        value = value[metric.name]
    return value


def _check(names: Sequence[str], output_type: str) -> None:
    fitting = metrics_for(output_type)
    for name in names:
        if name not in fitting:
            document_metric(name)  # a name nobody knows is told with the closest
            raise UsageError(
                f"metric {name!r} cannot be computed for {output_type}: expected "
                f"{', '.join(fitting)}, or a process_results that gives it."
            )


def _finite(logprobs: Sequence[float] | np.ndarray) -> np.ndarray:
    """NaN is no reason to win."""
    score_k = np.asarray(logprobs, np.float64)
    return np.where(np.isnan(score_k), -math.inf, score_k)


def _sizes(lengths: Any) -> np.ndarray:
    return np.maximum(1.0, np.array(list(lengths), np.float64))


def _right(score_k: np.ndarray, right: Sequence[int]) -> float:
    return float(int(score_k.argmax()) in right)


def _unconditional(unconditional: Sequence[float] | None, choices: Sequence[str]) -> np.ndarray:
    if unconditional is None or len(unconditional) != len(choices):
        raise UsageError(
            "acc_mutual_info needs the log-probability of every choice without the question: "
            f"expected {len(choices)}, found {len(unconditional or ())}."
        )
    return np.asarray(unconditional, np.float64)


def _softmax(score_k: np.ndarray) -> list[float]:
    best = score_k.max()
    if not math.isfinite(best):
        return [1 / len(score_k)] * len(score_k)
    weight_k = np.exp(score_k - best)
    return [float(share) for share in weight_k / weight_k.sum()]


def _as_text(value: Any) -> str:
    return "" if value is None else str(value)
