"""Probes (light classifiers on frozen features): which one turns features into predictions?

A probe follows scikit-learn's conventions: `fit(X, y)`, `predict(X)`, `get_params`, `classes_`.
Arrays in, arrays out; labels may be strings or any whole numbers, and predictions are always
labels. Each file or folder here without a leading underscore is one probe: it has `Probe` (the
class) and `SUMMARY`. A parameter whose own value may be a list (`alphas`) is named in the class
attribute `list_parameters`. Users add theirs by `my_probe.py:MyProbe`, an entry point in the group
`fieldmark.probes`, or `register_probe`. The page docs/reference/probes.md is made from the module's
first line, its `RECIPE` (what it equals in scikit-learn), its `EXTRA` (what must be installed), the
class's docstring, and the docstrings under the parameters in `__init__`.

Naming probes must stay cheap, so numpy and scikit-learn are imported only when a probe is loaded.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from fieldmark import exports
from fieldmark.errors import UsageError, meant
from fieldmark.registry import Registry, is_file_reference, load_reference

if TYPE_CHECKING:
    from fieldmark.probes._arrays import ProbeDataError, SomeRows, fitting_threads
    from fieldmark.probes._normalise import Normaliser

__all__ = [
    "PROBES",
    "Normaliser",
    "ProbeDataError",
    "SomeRows",
    "fitting_threads",
    "is_multilabel",
    "list_parameters",
    "load_probe",
    "register_probe",
]

PROBES = Registry(kind="probe", package="fieldmark.probes", listing="fieldmark tasks --probes")


def load_probe(name: str, params: Mapping[str, Any] | None = None, base: Path | None = None) -> Any:
    """The unfitted probe of that name, or of `path/to/file.py:Class` (relative to `base`).

    >>> load_probe("neighbours", {"k": 5}).get_params()["k"]
    5
    """
    cls = _load_class(name, base)
    given = dict(params or {})
    _check_names(name, cls, given)
    try:
        probe = cls(**given)
    except TypeError as error:
        raise UsageError(f"probe {name!r} cannot be made: {error}") from error
    if hasattr(probe, "check_parameters"):
        probe.check_parameters()
    return probe


def list_parameters(name: str, base: Path | None = None) -> frozenset[str]:
    """The parameters of a probe whose own value may be a list: in a grid such a list is one value.

    >>> sorted(list_parameters("ridge"))
    ['alphas']
    """
    return frozenset(getattr(_load_class(name, base), "list_parameters", ()))


def is_multilabel(name: str, params: Mapping[str, Any] | None = None) -> bool:
    """Does one probe of that name learn several traits at once? Those of this package are not
    loaded for it, which would take seconds: their source says so.
    """
    folder = Path(__file__).parent
    for source in (folder / f"{name}.py", folder / name / "probe.py"):
        if source.is_file():
            return "is_multilabel = True" in source.read_text(encoding="utf-8")
    return bool(getattr(load_probe(name, params), "is_multilabel", False))


def register_probe(name: str, cls: type) -> None:
    """Makes a class known under a name, for this process."""
    _check_class(name, cls)
    PROBES.register(name, cls)


def _load_class(name: str, base: Path | None) -> type[Any]:
    cls = load_reference(name, base) if is_file_reference(name) else PROBES.get(name)
    if isinstance(cls, ModuleType):
        cls = getattr(cls, "Probe", None)
    _check_class(name, cls)
    return cls  # type: ignore[no-any-return]


def _check_class(name: str, cls: object) -> None:
    missing = [method for method in ("fit", "predict") if not callable(getattr(cls, method, None))]
    if not isinstance(cls, type) or missing:
        lacks = f" without {' and '.join(missing)}" if isinstance(cls, type) else ""
        raise UsageError(
            f"probe {name!r} is a {type(cls).__name__}{lacks}: "
            "expected a class with fit(X, y) and predict(X)."
        )


def _check_names(name: str, cls: type, given: Mapping[str, Any]) -> None:
    accepted = inspect.signature(cls).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in accepted):
        return
    parameters = [entry.name for entry in accepted if entry.kind is not entry.VAR_POSITIONAL]
    for unknown in (parameter for parameter in given if parameter not in parameters):
        raise UsageError(
            f"probe {name!r} has no parameter {unknown!r}.{meant(unknown, parameters)} "
            f"It has {', '.join(parameters) or 'none'}."
        )


__getattr__ = exports(__name__)
