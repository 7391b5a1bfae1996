"""Reports: what a person looks at.

The names are loaded when first used: lists on the command line want straight columns, not a
database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fieldmark.lazy import exports

if TYPE_CHECKING:
    from fieldmark.report.compare import (
        Question,
        compare_models,
        comparison_notes,
        not_compared,
    )
    from fieldmark.report.compare_text import comparison_text, plain_comparison
    from fieldmark.report.fits import fit_lines, plain_fits
    from fieldmark.report.places import plain_places
    from fieldmark.report.providers import ReportProvider, is_valued, register_report_provider
    from fieldmark.report.published import match_published, plain_published, published_text
    from fieldmark.report.rows import Row, Table, plain_rows, read_table, with_groups
    from fieldmark.report.slices import STORED, sliced
    from fieldmark.report.table import long_table, part_table, wide_table
    from fieldmark.report.training import training_notes

__all__ = [
    "STORED",
    "Question",
    "ReportProvider",
    "Row",
    "Table",
    "compare_models",
    "comparison_notes",
    "comparison_text",
    "fit_lines",
    "is_valued",
    "long_table",
    "match_published",
    "not_compared",
    "part_table",
    "plain_comparison",
    "plain_fits",
    "plain_places",
    "plain_published",
    "plain_rows",
    "published_text",
    "read_table",
    "register_report_provider",
    "sliced",
    "training_notes",
    "wide_table",
    "with_groups",
]

__getattr__ = exports(
    __name__,
    {
        "compare": ("Question", "compare_models", "comparison_notes", "not_compared"),
        "compare_text": ("comparison_text", "plain_comparison"),
        "fits": ("fit_lines", "plain_fits"),
        "places": ("plain_places",),
        "providers": ("ReportProvider", "is_valued", "register_report_provider"),
        "published": ("match_published", "plain_published", "published_text"),
        "rows": ("Row", "Table", "plain_rows", "read_table", "with_groups"),
        "slices": ("STORED", "sliced"),
        "table": ("long_table", "part_table", "wide_table"),
        "training": ("training_notes",),
    },
)
