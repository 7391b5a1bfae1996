"""Scores, or predictions, as comma-separated values: for spreadsheets and R."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from typing import Any

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
    plain = ({**row, "settings": canonical_json(row["settings"])} for row in rows)
    writer.writerows({name: _harmless(value) for name, value in row.items()} for row in plain)
    yield text.getvalue().encode()


def _predictions(chosen: Chosen) -> Iterator[bytes]:
    import polars as pl

    for place, frame in enumerate(predictions(chosen)):
        texts = [name for name, kind in frame.schema.items() if str(kind) == "String"]
        safe = frame.with_columns(pl.col(texts).str.replace(_FORMULA, "'$0")) if texts else frame
        yield safe.write_csv(include_header=place == 0).encode()


_FORMULA = r"^[=+\-@\t\r]"
"""the beginning of a cell that a spreadsheet would run"""


def _harmless(value: Any) -> Any:
    """A text that begins like a formula gets an apostrophe, as OWASP advises."""
    return f"'{value}" if isinstance(value, str) and re.match(_FORMULA, value) else value
