"""Reports: what a person looks at.

The names are loaded when first used: lists on the command line want straight columns, not a
database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fieldmark.lazy import exports

if TYPE_CHECKING:
    from fieldmark.report.rows import Row, Table, plain_rows, read_table
    from fieldmark.report.table import long_table, part_table, wide_table

__all__ = [
    "Row",
    "Table",
    "long_table",
    "part_table",
    "plain_rows",
    "read_table",
    "wide_table",
]

__getattr__ = exports(
    __name__,
    {
        "rows": ("Row", "Table", "plain_rows", "read_table"),
        "table": ("long_table", "part_table", "wide_table"),
    },
)
