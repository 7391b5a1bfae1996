"""Lazy exports: how does a package offer names without importing what is behind them?

`--help` and lists must start at once, so packages whose modules need numpy, polars or torch say
where each public name lives and load it when it is first used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def exports(package: str, homes: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """The `__getattr__` of a package: `homes` are modules (relative to it) and their names."""
    home_of = {name: module for module, names in homes.items() for name in names}

    def load(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{home_of[name]}"), name)

    return load


class Later:
    """A class attribute whose value, `module:name`, is imported when an object is first asked for
    it; the class itself gives the reference.
    """

    def __init__(self, reference: str) -> None:
        self.reference = reference

    def __get__(self, owner: object | None, cls: type) -> Any:
        if owner is None:
            return self
        module, _, name = self.reference.partition(":")
        return getattr(import_module(module), name)
