"""Scores, or predictions, as comma-separated values: for spreadsheets and R."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from fieldmark.report.export._chosen import Chosen, ExportFile, plain_scores, predictions
from fieldmark.store import canonical_json

HAS_PREDICTIONS = True


def export(chosen: Chosen) -> Iterator[ExportFile]:
    if chosen.has_predictions:
        yield ExportFile("predictions.csv", _predictions(chosen))
    else:
        yield ExportFile("scores.csv", _scores(chosen))


def _scores(chosen: Chosen) -> Iterator[bytes]:
    rows = plain_scores(chosen)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({**row, "settings": canonical_json(row["settings"])} for row in rows)
    yield text.getvalue().encode()


def _predictions(chosen: Chosen) -> Iterator[bytes]:
    for place, frame in enumerate(predictions(chosen)):
        yield frame.write_csv(include_header=place == 0).encode()
