"""Reports: what a person looks at.

`rows` reads finished runs, `run_labels` names their models, columns and setups, `tiers` says which
models may be the best, `chance` what guessing scores, `facts` what is known of tasks and models,
`providers` what runs of another kind need. A folder per command: `table`, `compare`, `plots`,
`export`, `site`, `serve`. The names are loaded when first used: lists on the command line want
straight columns, not a database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fieldmark import exports

if TYPE_CHECKING:
    from fieldmark.report.compare.models import ComparedTask, compare_models
    from fieldmark.report.compare.power import measured_spread, needed_text, needed_units
    from fieldmark.report.compare.published import match_published, plain_published, published_text
    from fieldmark.report.compare.text import comparison_text, plain_comparison
    from fieldmark.report.providers import is_valued, register_report_provider
    from fieldmark.report.rows import Table, read_table
    from fieldmark.report.table.layout import align
    from fieldmark.report.table.notes import fit_lines, plain_fits
    from fieldmark.report.table.ranking import plain_standings
    from fieldmark.report.table.slices import STORED, sliced, with_groups
    from fieldmark.report.table.text import (
        long_table,
        part_table,
        plain_rows,
        score_lines,
        wide_table,
    )
    from fieldmark.report.table.verdict import verdict

__all__ = [
    "STORED",
    "ComparedTask",
    "Table",
    "align",
    "compare_models",
    "comparison_text",
    "fit_lines",
    "is_valued",
    "long_table",
    "match_published",
    "measured_spread",
    "needed_text",
    "needed_units",
    "part_table",
    "plain_comparison",
    "plain_fits",
    "plain_published",
    "plain_rows",
    "plain_standings",
    "published_text",
    "read_table",
    "register_report_provider",
    "score_lines",
    "sliced",
    "verdict",
    "wide_table",
    "with_groups",
]

__getattr__ = exports(__name__)
