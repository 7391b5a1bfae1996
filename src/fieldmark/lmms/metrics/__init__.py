"""Which value does a document get, and how do the values of all documents become one number?

The metrics and aggregations that task files in lmms-eval's form name. A metric gives one value per
document (a number, a pair, anything its aggregation understands); an aggregation makes a number of
a list of them. Users add theirs by `!function`, `register_document_metric` (also reached as
`register_metric(name, function, aggregation=...)`) and `register_aggregation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fieldmark.lazy import exports

if TYPE_CHECKING:
    from fieldmark.lmms.metrics.registry import (
        Aggregation,
        DocumentMetric,
        aggregation,
        document_metric,
        find_document_metric,
        known_aggregations,
        known_document_metrics,
        metrics_for,
        register_aggregation,
        register_document_metric,
    )
    from fieldmark.lmms.metrics.values import (
        TextMetric,
        choice_values,
        gold_places,
        likelihood_values,
        rolling_values,
        text_values,
    )

__all__ = [
    "Aggregation",
    "DocumentMetric",
    "TextMetric",
    "aggregation",
    "choice_values",
    "document_metric",
    "find_document_metric",
    "gold_places",
    "known_aggregations",
    "known_document_metrics",
    "likelihood_values",
    "metrics_for",
    "register_aggregation",
    "register_document_metric",
    "rolling_values",
    "text_values",
]

__getattr__ = exports(
    __name__,
    {
        "registry": (
            "Aggregation",
            "DocumentMetric",
            "aggregation",
            "document_metric",
            "find_document_metric",
            "known_aggregations",
            "known_document_metrics",
            "metrics_for",
            "register_aggregation",
            "register_document_metric",
        ),
        "values": (
            "TextMetric",
            "choice_values",
            "gold_places",
            "likelihood_values",
            "rolling_values",
            "text_values",
        ),
    },
)
