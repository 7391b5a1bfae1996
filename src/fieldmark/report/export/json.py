"""Scores as a JSON list, or predictions as JSON lines: for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator

from fieldmark.report.export._chosen import Chosen, File, plain_scores, predictions

HAS_PREDICTIONS = True


def export(chosen: Chosen) -> Iterator[File]:
    if chosen.has_predictions:
        lines = (frame.write_ndjson().encode() for frame in predictions(chosen))
        yield File("predictions.jsonl", lines)
    else:
        text = json.dumps(plain_scores(chosen), indent=1, ensure_ascii=False)
        yield File("scores.json", [f"{text}\n".encode()])
