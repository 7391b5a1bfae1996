"""`fieldmark table`: scores as text, their order, slices of them, and the notes under them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fieldmark.lazy import exports

if TYPE_CHECKING:
    from fieldmark.report.table.layout import align
    from fieldmark.report.table.notes import fit_lines, plain_fits, training_notes
    from fieldmark.report.table.ranking import plain_ranks
    from fieldmark.report.table.slices import STORED, sliced
    from fieldmark.report.table.text import long_table, part_table, wide_table

__all__ = [
    "STORED",
    "align",
    "fit_lines",
    "long_table",
    "part_table",
    "plain_fits",
    "plain_ranks",
    "sliced",
    "training_notes",
    "wide_table",
]

__getattr__ = exports(
    __name__,
    {
        "layout": ("align",),
        "notes": ("fit_lines", "plain_fits", "training_notes"),
        "ranking": ("plain_ranks",),
        "slices": ("STORED", "sliced"),
        "text": ("long_table", "part_table", "wide_table"),
    },
)
