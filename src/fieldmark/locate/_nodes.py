"""How does the text of a YAML file become nodes, which know their lines?

libyaml parses where PyYAML was built with it. What plain words mean is left open here.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from fieldmark.errors import UsageError, at

STANDARD = "tag:yaml.org,2002:"
PLAIN = "?"
"""the tag of words without quotes: what they mean is decided by the dialect, later"""
DEEPEST = 100
TOO_DEEP = f"is nested more than {DEEPEST} deep: write it flatter."
_SAFE_DEPTH = 2_000
"""libyaml's nodes are made by a function that calls itself: far deeper than this it crashes"""
_MOST_RETOLD = 500_000
"""characters of a broken file that are parsed again, slowly, for the words of the fault"""


def compose(path: Path, text: str) -> yaml.Node | None:
    """libyaml's words for a fault are poorer than PyYAML's: the latter are fetched."""
    try:
        _check_depth(path, text)
        return _single_node(_Loader(text))
    except yaml.YAMLError:
        if len(text) <= _MOST_RETOLD:
            with suppress(RecursionError):  # where libyaml stops, PyYAML may go on, ever deeper
                _single_node(_PlainLoader(text))
        raise


def _single_node(loader: Any) -> yaml.Node | None:
    node: yaml.Node | None = loader.get_single_node()
    return node


def _check_depth(path: Path, text: str) -> None:
    """Only a file with many brackets or a very long line can be deep: others are not looked at."""
    deepest = text.count("[") + text.count("{") + 2 * max(map(len, text.splitlines()), default=0)
    if deepest <= _SAFE_DEPTH:
        return
    depth, loader = 0, _Loader(text)
    while loader.check_event():
        event = loader.get_event()
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise UsageError(at(path, event.start_mark.line + 1, TOO_DEEP))


class _Resolver:
    """Leaves the meaning of plain words open."""

    def resolve(self, kind: type[yaml.Node], _value: object, implicit: Any) -> str:
        if kind is yaml.ScalarNode:
            return PLAIN if implicit[0] else f"{STANDARD}str"
        return f"{STANDARD}{'map' if kind is yaml.MappingNode else 'seq'}"

    def descend_resolver(self, _node: object, _index: object) -> None:
        return

    def ascend_resolver(self) -> None:
        return


class _PlainLoader(_Resolver, yaml.SafeLoader):
    pass


_Loader: type[Any] = _PlainLoader
if yaml.__with_libyaml__:

    class _FastLoader(_Resolver, yaml.CSafeLoader):
        pass

    _Loader = _FastLoader
