"""Scores as a JSON list, or predictions as JSON lines: for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator

from fieldmark.report.export._chosen import Chosen, ExportFile, plain_scores, predictions
from fieldmark.report.table.notes import plain_fits

HAS_PREDICTIONS = True


def export(chosen: Chosen) -> Iterator[ExportFile]:
    if chosen.has_predictions:
        lines = (frame.write_ndjson().encode() for frame in predictions(chosen))
        yield ExportFile("predictions.jsonl", lines)
    else:
        fits = plain_fits(chosen.store, (*chosen.rows, *chosen.joined))
        rows = [{**row, **fit} for row, fit in zip(plain_scores(chosen), fits, strict=True)]
        text = json.dumps(rows, indent=1, ensure_ascii=False)
        yield ExportFile("scores.json", [f"{text}\n".encode()])
