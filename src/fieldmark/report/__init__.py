"""Reports: what a person looks at.

The names are loaded when first used: lists on the command line want straight columns, not a
database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'fieldmark.report' has no attribute {name!r}")
    from importlib import import_module

    home = "table" if name.endswith("_table") and name != "read_table" else "rows"
    return getattr(import_module(f"fieldmark.report.{home}"), name)
