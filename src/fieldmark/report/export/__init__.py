"""Exports: results → files that other programs and pages read.

A file here without a leading underscore is a format (`eval_results.py` is `fieldmark export
eval-results`): its docstring says what it is for, its `export(chosen)` yields a name and the pieces
of its content for every file. Formats write text in pieces, so that millions of predictions need no
memory. A format that lies elsewhere is registered by the name of its module, and imported when it
is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fieldmark import exports
from fieldmark.registry import Registry

if TYPE_CHECKING:
    from fieldmark.report.export._chosen import Chosen, ExportFile, choose

__all__ = [
    "EXPORTS",
    "Chosen",
    "ExportFile",
    "choose",
    "export",
    "is_binary",
    "register_export",
    "what_it_is",
]

EXPORTS = Registry("export format", "fieldmark.report.export", "fieldmark export")

__getattr__ = exports(__name__)


def register_export(name: str, module: Any) -> None:
    """Makes a format known: a module (or any object) with `export(chosen)`, or a module's name."""
    EXPORTS.register(name, module)


def export(form: str, chosen: Chosen) -> list[ExportFile]:
    """The files of a format; their content is made when it is read.

    UsageError where per-item predictions are asked of a format that has none.
    """
    from fieldmark.errors import UsageError
    from fieldmark.report.export._chosen import ExportFile

    if chosen.has_predictions and not _has_predictions(form):
        able = [name for name in EXPORTS if _has_predictions(name)]
        raise UsageError(
            f"{form} contains no predictions: --predictions works with {', '.join(able)}."
        )
    return [ExportFile(*file) for file in _format(form).export(chosen)]


def what_it_is(form: str) -> str:
    """The first line of the format's docstring."""
    return (_format(form).__doc__ or "").partition("\n")[0]


def is_binary(form: str) -> bool:
    return bool(getattr(_format(form), "IS_BINARY", False))


def _has_predictions(form: str) -> bool:
    return bool(getattr(_format(form), "HAS_PREDICTIONS", False))


def _format(name: str) -> Any:
    entry = EXPORTS.get(name)
    return import_module(entry) if isinstance(entry, str) else entry
