"""Registry of document metrics and aggregations: which names may a task file use?

Users add theirs by `!function`, `register_metric(name, function, aggregation=…)` and
`register_aggregation`.
"""

from __future__ import annotations

import math
import re
import string
from collections import ChainMap
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from fieldmark.errors import UnknownName, UsageError

if TYPE_CHECKING:
    from fieldmark.lmms.metrics.aggregations import Weighted


# --- Exact match, ANLS and edit distance: how near is a text to what was wanted?
# ANLS is the average normalised Levenshtein similarity (Biten et al. 2019,
# https://arxiv.org/abs/1905.13648), here of one document.

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_NO_DIGITS = str.maketrans("", "", string.digits)


def exact_match(
    references: Sequence[object],
    predictions: Sequence[object],
    regexes_to_ignore: Sequence[str] | None = None,
    ignore_case: bool = False,
    ignore_punctuation: bool = False,
    ignore_numbers: bool = False,
) -> float:
    """The share of predictions that equal one of the references, without what does not count.

    `ignore_punctuation` and `ignore_numbers` drop ASCII punctuation and digits.
    """
    if not predictions:
        return 0.0
    patterns = [_compiled(pattern) for pattern in regexes_to_ignore or ()]

    def plain(value: object) -> str:
        text = str(value)
        for pattern in patterns:
            text = pattern.sub("", text)
        text = text.lower() if ignore_case else text
        text = text.translate(_NO_PUNCTUATION) if ignore_punctuation else text
        return text.translate(_NO_DIGITS) if ignore_numbers else text

    accepted = {plain(reference) for reference in references}
    return sum(plain(prediction) in accepted for prediction in predictions) / len(predictions)


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise UsageError(
            f"regexes_to_ignore: {pattern!r} is not a regular expression: {error}."
        ) from error


def anls(
    references: Sequence[object], predictions: Sequence[object], thresh_hold: float = 0.5
) -> float:
    """How alike the first prediction and the nearest reference are; 0 below the threshold.

    Case and runs of white space do not count, but the distance is divided by the length of the
    texts as they stand.
    """
    if not references or not predictions:
        return 0.0
    prediction = str(predictions[0])
    best = max(_likeness(str(reference), prediction, thresh_hold) for reference in references)
    return best if best >= thresh_hold else 0.0


def _likeness(reference: str, prediction: str, least: float) -> float:
    # In capitals, as the metric's authors count: ß has two.
    length = max(len(reference.upper()), len(prediction.upper()))
    if not length:
        return 1.0
    a, b = (" ".join(text.lower().split()) for text in (reference, prediction))
    if 1 - abs(len(a) - len(b)) / length < least:  # no alignment can be closer than that
        return 0.0
    return 1 - levenshtein(a, b) / length


def levenshtein(a: Sequence[Any], b: Sequence[Any]) -> int:
    """Edit distance: the fewest letters (or words) to insert, delete or replace."""
    if len(a) > len(b):
        a, b = b, a
    before = list(range(len(a) + 1))
    for row, letter in enumerate(b, 1):
        here = [row]
        for column, other in enumerate(a):
            change = before[column] + (letter != other)
            here.append(min(change, before[column + 1] + 1, here[-1] + 1))
        before = here
    return before[-1]


# --- the registry


CHOICE, LIKELIHOOD, ROLLING = "multiple_choice", "loglikelihood", "loglikelihood_rolling"
TEXT = "generate_until"
"""stands for all output types whose response is a text"""

Limits = tuple[float, float]
_ANY: Limits = (-math.inf, math.inf)
_SHARE: Limits = (0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Aggregation:
    """A list of documents' values → one number."""

    name: str
    function: Callable[..., Any] | None = None
    """of the list; None where `weighted` says it all"""
    weighted: Callable[[Sequence[Any]], Weighted] | None = None
    """the list → the number as a function of resampling weights: intervals are fast so"""
    bounds: Limits = _ANY
    higher_is_better: bool = True
    units: Callable[[Sequence[Any]], Sequence[Hashable]] | None = None
    """what is independent, where the values themselves say so"""

    def __call__(self, items: Sequence[Any]) -> Any:
        if self.weighted is None:
            assert self.function is not None
            return self.function(items)
        import numpy as np

        return float(self.weighted(items)(np.ones((1, len(items))))[0])


@dataclass(frozen=True, slots=True)
class DocumentMetric:
    """What is known of a metric by its name."""

    name: str
    aggregation: str | Callable[..., Any] = "mean"
    higher_is_better: bool = True
    bounds: Limits = _ANY
    """of a document's value"""
    outputs: tuple[str, ...] = ()
    """the output types whose responses give it; () = `process_results` must"""
    function: Callable[..., Any] | None = None
    """f(references=[...], predictions=[...], **options), for texts"""


_ADDED_METRICS: dict[str, DocumentMetric] = {}
_ADDED_AGGREGATIONS: dict[str, Aggregation] = {}


def document_metric(name: str, where: str = "") -> DocumentMetric:
    """The metric of that name."""
    every = _metrics()
    if name not in every:
        raise UnknownName("metric", name, every, where=where)
    return every[name]


def find_document_metric(name: str) -> DocumentMetric | None:
    """The metric of that name; None where a task's own code must give it."""
    return _metrics().get(name)


def aggregation(name: str, where: str = "") -> Aggregation:
    """The aggregation of that name."""
    every = _aggregations()
    if name not in every:
        raise UnknownName("aggregation", name, every, where=where)
    return every[name]


def known_document_metrics() -> list[str]:
    """All names, sorted."""
    return sorted(_metrics())


def known_aggregations() -> list[str]:
    """All names, sorted."""
    return sorted(_aggregations())


def metrics_for(output_type: str) -> list[str]:
    """The names that responses of this output type can be scored by without `process_results`."""
    kind = output_type if output_type in (CHOICE, LIKELIHOOD, ROLLING) else TEXT
    return sorted(name for name, metric in _metrics().items() if kind in metric.outputs)


def register_aggregation(
    name: str, function: Callable[..., Any], higher_is_better: bool = True
) -> None:
    """Makes a function of a list of values known under a name, for this process."""
    if name in known_aggregations():
        raise UsageError(f"aggregation {name!r} already exists: choose another name.")
    if not callable(function):
        raise UsageError(f"aggregation {name!r} is not a function of a list of values.")
    _ADDED_AGGREGATIONS[name] = Aggregation(name, function, higher_is_better=higher_is_better)


def register_document_metric(
    name: str,
    function: Callable[..., Any],
    aggregation: str | Callable[..., Any] = "mean",
    higher_is_better: bool = True,
) -> None:
    """Makes f(references=[...], predictions=[...], **options) known, for this process."""
    if name in known_document_metrics():
        raise UsageError(f"metric {name!r} already exists: choose another name.")
    if not callable(function):
        raise UsageError(f"metric {name!r} is not a function of references and predictions.")
    if isinstance(aggregation, str) and aggregation not in known_aggregations():
        raise UnknownName("aggregation", aggregation, known_aggregations())
    _ADDED_METRICS[name] = DocumentMetric(
        name, aggregation, higher_is_better, outputs=(TEXT,), function=function
    )


Added = tuple[list[DocumentMetric], list[Aggregation]]
_OF_METRIC = "aggregation of "


def added() -> Added:
    """What users added in this process, without its functions: another process cannot have them."""
    metrics = [
        replace(metric, function=None, aggregation=way if isinstance(way, str) else "")
        for metric in _ADDED_METRICS.values()
        for way in (metric.aggregation,)
    ]
    return metrics, [replace(way, function=None) for way in _ADDED_AGGREGATIONS.values()]


def adopt(users: Added, call: Callable[..., Any]) -> None:
    """Makes known here what another process added: `call(name, ...)` runs it there."""
    metrics, aggregations = users
    _ADDED_METRICS.clear()
    _ADDED_AGGREGATIONS.clear()
    for metric in metrics:
        aggregation = metric.aggregation or partial(call, f"{_OF_METRIC}{metric.name}")
        function = partial(call, metric.name)
        _ADDED_METRICS[metric.name] = replace(metric, function=function, aggregation=aggregation)
    for way in aggregations:
        _ADDED_AGGREGATIONS[way.name] = replace(way, function=partial(call, way.name))


def call_added(name: str, *args: Any, **options: Any) -> Any:
    """What the function that was added under the name gives."""
    if name.startswith(_OF_METRIC):
        function: Any = _ADDED_METRICS[name.removeprefix(_OF_METRIC)].aggregation
    else:
        function = (_ADDED_METRICS.get(name) or _ADDED_AGGREGATIONS[name]).function
    return function(*args, **options)


_BUILT_IN = (
    DocumentMetric("acc", bounds=_SHARE, outputs=(CHOICE, LIKELIHOOD)),
    DocumentMetric("acc_all", "acc_all", bounds=_SHARE),
    DocumentMetric("acc_bytes", bounds=_SHARE, outputs=(CHOICE,)),
    DocumentMetric("acc_mutual_info", bounds=_SHARE, outputs=(CHOICE,)),
    DocumentMetric("acc_norm", bounds=_SHARE, outputs=(CHOICE,)),
    DocumentMetric("anls", bounds=_SHARE, outputs=(TEXT,), function=anls),
    DocumentMetric("bits_per_byte", "bits_per_byte", False, outputs=(ROLLING,)),
    DocumentMetric("bleu", "bleu", outputs=(TEXT,)),
    DocumentMetric("brier_score", "brier_score", False, outputs=(CHOICE,)),
    DocumentMetric("by_pass", "bypass", outputs=(CHOICE, LIKELIHOOD, ROLLING, TEXT)),
    DocumentMetric("bypass", "bypass", outputs=(CHOICE, LIKELIHOOD, ROLLING, TEXT)),
    DocumentMetric("byte_perplexity", "weighted_perplexity", False, outputs=(ROLLING,)),
    DocumentMetric("chance", bounds=_SHARE, outputs=(CHOICE,)),
    DocumentMetric("chrf", "chrf", outputs=(TEXT,)),
    DocumentMetric("exact_match", bounds=_SHARE, outputs=(CHOICE, TEXT), function=exact_match),
    DocumentMetric("f1", "f1", outputs=(CHOICE,)),
    DocumentMetric("matthews_corrcoef", "matthews_corrcoef", outputs=(CHOICE,)),
    DocumentMetric("mcc", "matthews_corrcoef", outputs=(CHOICE,)),
    DocumentMetric("perplexity", "perplexity", False, outputs=(LIKELIHOOD,)),
    DocumentMetric("ter", "ter", False, outputs=(TEXT,)),
    DocumentMetric("word_perplexity", "weighted_perplexity", False, outputs=(ROLLING,)),
)


def _metrics() -> Mapping[str, DocumentMetric]:
    return ChainMap(_ADDED_METRICS, {metric.name: metric for metric in _BUILT_IN})


def _aggregations() -> Mapping[str, Aggregation]:
    return ChainMap(_ADDED_AGGREGATIONS, _built_in_aggregations())


@lru_cache(maxsize=1)
def _built_in_aggregations() -> dict[str, Aggregation]:
    # Imported here: numpy is not needed to check a name.
    from fieldmark.lmms.metrics import aggregations as weighted

    hundred, positive = (0.0, 100.0), (0.0, math.inf)
    every = (
        Aggregation("acc_all", weighted=weighted.acc_all, bounds=_SHARE, units=weighted.questions),
        _lower("bits_per_byte", weighted.bits_per_byte, _ANY),
        Aggregation("bleu", weighted=weighted.bleu, bounds=hundred),
        _lower("brier_score", weighted.brier_score, (0.0, 2.0)),
        Aggregation("bypass", weighted=weighted.bypass),
        Aggregation("chrf", weighted=weighted.chrf, bounds=hundred),
        Aggregation("f1", weighted=weighted.f1, bounds=_SHARE),
        Aggregation("f1_macro", weighted=weighted.f1_macro, bounds=_SHARE),
        Aggregation("f1_micro", weighted=weighted.f1_micro, bounds=_SHARE),
        Aggregation("matthews_corrcoef", weighted=weighted.matthews_corrcoef, bounds=(-1.0, 1.0)),
        Aggregation("mcc", weighted=weighted.matthews_corrcoef, bounds=(-1.0, 1.0)),
        Aggregation("mean", weighted=weighted.mean),
        Aggregation("median", weighted=weighted.median),
        Aggregation("nanmean", weighted=weighted.nanmean),
        _lower("perplexity", weighted.perplexity, positive),
        _lower("ter", weighted.ter, positive),
        _lower("weighted_perplexity", weighted.weighted_perplexity, positive),
    )
    return {aggregation.name: aggregation for aggregation in every}


def _lower(name: str, weighted: Callable[[Sequence[Any]], Weighted], bounds: Limits) -> Aggregation:
    return Aggregation(name, weighted=weighted, bounds=bounds, higher_is_better=False)
