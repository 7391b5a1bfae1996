"""Score against the number of parameters, with the models nobody beats in both."""

from __future__ import annotations

from fieldmark.report.facts import parameters
from fieldmark.report.plots._panel import Results, Spec
from fieldmark.report.plots._tradeoff import TradeoffAxis, tradeoff


def plot(results: Results) -> Spec:
    return tradeoff(
        results,
        TradeoffAxis(
            "parameters of the image tower",
            "size",
            "Number of parameters unknown",
            True,
            parameters(results.store, results.rows),
        ),
    )
