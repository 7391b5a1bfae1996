"""Exports: results → files that other programs and pages read.

A file here without a leading underscore is a format (`eval_results.py` is `fieldmark export
eval-results`): its docstring says what it is for, its `export(chosen)` yields the files. Formats
write text in pieces, so that millions of predictions need no memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fieldmark.lazy import exports
from fieldmark.registry import Registry

if TYPE_CHECKING:
    from fieldmark.report.export._chosen import Chosen, File, choose

__all__ = ["EXPORTS", "Chosen", "File", "choose", "export", "what_it_is"]

EXPORTS = Registry("export format", "fieldmark.report.export", "fieldmark export")

__getattr__ = exports(__name__, {"_chosen": ("Chosen", "File", "choose")})


def export(form: str, chosen: Chosen) -> list[File]:
    """The files of a format; their content is made when it is read.

    UsageError where per-item predictions are asked of a format that has none.
    """
    from fieldmark.errors import UsageError

    module = EXPORTS.get(form)
    if chosen.has_predictions and not getattr(module, "HAS_PREDICTIONS", False):
        able = [each for each in EXPORTS if getattr(EXPORTS.get(each), "HAS_PREDICTIONS", False)]
        raise UsageError(
            f"{form} holds no predictions: --predictions works with {', '.join(able)}."
        )
    return list(module.export(chosen))


def what_it_is(form: str) -> str:
    """The first line of the format's docstring."""
    return (EXPORTS.get(form).__doc__ or "").partition("\n")[0]
