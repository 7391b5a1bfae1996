"""Scores, or predictions, as Parquet: typed columns for data frames."""

from __future__ import annotations

import io
from collections.abc import Iterator

from fieldmark.report.export._chosen import Chosen, ExportFile, plain_scores, predictions
from fieldmark.store import canonical_json

HAS_PREDICTIONS = True
IS_BINARY = True


def export(chosen: Chosen) -> Iterator[ExportFile]:
    name = "predictions" if chosen.has_predictions else "scores"
    yield ExportFile(f"{name}.parquet", _content(chosen))


def _content(chosen: Chosen) -> Iterator[bytes]:
    import polars as pl

    if chosen.has_predictions:
        frame = pl.concat(list(predictions(chosen)))
    else:
        rows = plain_scores(chosen)
        flat = [{**row, "settings": canonical_json(row["settings"])} for row in rows]
        frame = pl.DataFrame(flat, infer_schema_length=None)
    content = io.BytesIO()
    frame.write_parquet(content)
    yield content.getvalue()
