"""Takes back what a test registered."""

from __future__ import annotations

from fieldmark.registry import REGISTRIES


def forget(kind: str, name: str) -> None:
    for registry in REGISTRIES:
        if registry.kind == kind:
            registry.added.pop(name, None)
