"""Scores, or predictions, as comma-separated values: for spreadsheets and R."""

from __future__ import annotations

from collections.abc import Iterator

from fieldmark.files import UNSAFE_CELL, csv_cell, csv_text
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
    plain = ({**row, "settings": canonical_json(row["settings"])} for row in rows)
    yield csv_text([list(rows[0]), *(list(row.values()) for row in plain)]).encode()


def _predictions(chosen: Chosen) -> Iterator[bytes]:
    import polars as pl

    for number, frame in enumerate(predictions(chosen)):
        texts = [column for column in frame if column.dtype == pl.String]
        odd = [column for column in texts if column.str.contains(UNSAFE_CELL).any()]
        safe = [pl.Series(one.name, list(map(csv_cell, one)), pl.String) for one in odd]
        yield frame.with_columns(safe).write_csv(include_header=number == 0).encode()
