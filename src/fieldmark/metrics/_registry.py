"""Metric registry: how is a metric described, and found by its name?"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from fieldmark.errors import UnknownName, UsageError
from fieldmark.metrics._metric import Metric, metric
from fieldmark.registry import Registry, is_file_reference, load_reference

_FACTS = ("direction", "kind", "bounds", "takes_many", "closed_form")
_ADDED = Registry(kind="metric", package="fieldmark.metrics", listing="fieldmark tasks --metrics")
_REGISTRARS = Registry("kind of metric", "fieldmark.metric_registrars")


def known_metrics() -> list[str]:
    """All names, sorted."""
    return sorted({*_built_in(), *_ADDED.names()})


def load_metric(name: str, base: Path | None = None) -> Metric:
    """The metric of that name, or of `path/to/file.py:function` (relative to `base`)."""
    if is_file_reference(name):
        return _described(name, load_reference(name, base))
    built_in = _built_in()
    if name in built_in:
        return built_in[name]
    if name not in _ADDED.names():
        raise UnknownName("metric", name, known_metrics(), _ADDED.listing)
    return _described(name, _ADDED.get(name))


def register_metric(
    name: str,
    function: Callable[..., Any],
    *,
    aggregation: str | Callable[..., Any] | None = None,
    higher_is_better: bool = True,
) -> None:
    """Makes a function known under a name, for this process.

    With an aggregation it is a metric of single answers, f(references=[...], predictions=[...],
    **options), for tasks that value each answer by itself; `higher_is_better` is for these.
    """
    if aggregation is not None:
        register = _REGISTRARS.get("aggregated")
        register(name, function, aggregation, higher_is_better)
        return
    if name in _built_in():
        raise UsageError(f"metric {name!r} already exists: choose another name.")
    _ADDED.register(name, _described(name, function))


def _built_in() -> dict[str, Metric]:
    # Imported here: numpy is not needed to list commands.
    from fieldmark.metrics import _classification, _values

    return {
        name: cast(Metric, function)
        for module in (_classification, _values)
        for name, function in vars(module).items()
        if hasattr(function, "direction") and not name.startswith("_")
    }


def _described(name: str, function: Any) -> Metric:
    """The function as a metric; what it does not say of itself gets the careful default."""
    if not callable(function) or not _takes_weights(function):
        raise UsageError(
            f"metric {name!r} is not a function f(target, prediction, weight=None) -> float."
        )
    if not hasattr(function, "uses"):  # described by hand, if at all
        title = getattr(function, "title", name.rpartition(":")[2])
        attributes = {key: getattr(function, key) for key in _FACTS if hasattr(function, key)}
        return metric(title, **attributes)(function)
    return cast(Metric, function)


def _takes_weights(function: Callable[..., Any]) -> bool:
    further = {"kind": None} if getattr(function, "uses", "") == "kinds" else {}
    try:
        inspect.signature(function).bind(None, None, weight=None, **further)
    except (TypeError, ValueError):
        return False
    return True
