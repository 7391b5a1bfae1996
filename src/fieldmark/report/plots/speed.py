"""Score against images per second, with the models nobody beats in both.

Speeds are those of the machine that computed the features, reading and decoding of images included.
"""

from __future__ import annotations

from fieldmark.report.facts import images_per_s
from fieldmark.report.plots._panel import Results, Spec
from fieldmark.report.plots._tradeoff import TradeoffAxis, tradeoff


def plot(results: Results) -> Spec:
    return tradeoff(
        results,
        TradeoffAxis(
            "images per second, on the machine of the run",
            "speed",
            "Speed not recorded",
            False,
            images_per_s(results.store, results.rows),
        ),
    )
