"""Report provider and export of lmms-eval tasks.

Hooks in by two lines: `providers._PROVIDERS` names this package, `export.EXPORTS` names `export`.
"""

from fieldmark.report.lmms.documents import (
    item_texts,
    item_values,
    pairing_metric,
    task_facts,
    value_metric,
    why_not_paired,
)
from fieldmark.report.lmms.groups import group_results

__all__ = [
    "group_results",
    "item_texts",
    "item_values",
    "pairing_metric",
    "task_facts",
    "value_metric",
    "why_not_paired",
]
