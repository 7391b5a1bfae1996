"""`fieldmark compare`: two models item by item, and our scores beside published ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fieldmark.lazy import exports

if TYPE_CHECKING:
    from fieldmark.report.compare.models import (
        ComparedTask,
        compare_models,
        comparison_notes,
        not_compared,
    )
    from fieldmark.report.compare.published import match_published, plain_published, published_text
    from fieldmark.report.compare.text import comparison_text, plain_comparison

__all__ = [
    "ComparedTask",
    "compare_models",
    "comparison_notes",
    "comparison_text",
    "match_published",
    "not_compared",
    "plain_comparison",
    "plain_published",
    "published_text",
]

__getattr__ = exports(
    __name__,
    {
        "models": ("ComparedTask", "compare_models", "comparison_notes", "not_compared"),
        "published": ("match_published", "plain_published", "published_text"),
        "text": ("comparison_text", "plain_comparison"),
    },
)
