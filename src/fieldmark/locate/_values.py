"""Which values do the nodes of a YAML file stand for, and on which lines?

Everything that makes a file dangerous or ambiguous is refused with one line: keys that stand twice,
tags nobody expects, anchors that multiply or hold themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from fieldmark.errors import UsageError, at
from fieldmark.locate._lines import Key
from fieldmark.locate._nodes import DEEPEST, PLAIN, STANDARD, TOO_DEEP
from fieldmark.locate._scalars import Dialect, plain_value, tagged_value

Tags = Mapping[str, Callable[[str, Path, int], Any]]
"""a tag that is allowed → what makes its value from the text, the file and the line"""
Pair = tuple[Any, yaml.Node, yaml.Node]
"""a key, the node it stands in, and the node of its value"""

_MOST_VALUES = 200_000
"""values of a file with its anchors written out"""


class Builder:
    """Makes values from nodes and notes the line of every key and entry."""

    def __init__(self, path: Path, dialect: Dialect, tags: Tags) -> None:
        self.lines: dict[Key, int] = {}
        self.notes: list[str] = []
        self._path, self._dialect, self._tags = path, dialect, tags
        self._open: set[int] = set()
        self._pairs: dict[int, list[Pair]] = {}
        self._n_values = 0

    def value(self, node: yaml.Node, key: Key) -> Any:
        self._n_values += 1
        if self._n_values > _MOST_VALUES:
            raise self._fault(node, f"holds more than {_MOST_VALUES:,} values (anchors count)")
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if id(node) in self._open:
            raise self._fault(node, "an anchor holds itself")
        if len(key) > DEEPEST:
            raise UsageError(at(self._path, node.start_mark.line + 1, TOO_DEEP))
        self._open.add(id(node))
        made = self._mapping(node, key) if self._is_mapping(node) else self._list(node, key)
        self._open.discard(id(node))
        return made

    def _is_mapping(self, node: yaml.Node) -> bool:
        kind = "map" if isinstance(node, yaml.MappingNode) else "seq"
        if node.tag not in (STANDARD + kind, "!"):
            raise self._wrong_tag(node)
        return kind == "map"

    def _mapping(self, node: yaml.Node, key: Key) -> dict[Any, Any]:
        made = {}
        for name, name_node, value in self._pairs_of(node):
            inner = (*key, name)
            self.lines[inner] = name_node.start_mark.line + 1
            made[name] = self.value(value, inner)
        return made

    def _list(self, node: yaml.Node, key: Key) -> list[Any]:
        made = []
        for index, value in enumerate(node.value):
            inner = (*key, index)
            self.lines[inner] = value.start_mark.line + 1
            made.append(self.value(value, inner))
        return made

    def _pairs_of(self, node: yaml.Node) -> list[Pair]:
        """The keys of a mapping, those of its `<<` first: its own win."""
        if id(node) in self._pairs:
            return self._pairs[id(node)]
        self._pairs[id(node)] = []  # a mapping merged into itself adds nothing
        own: dict[Any, Pair] = {}
        merged: dict[Any, Pair] = {}
        for name_node, value in node.value:
            if name_node.tag == PLAIN and name_node.value == "<<":
                for pair in self._merged(value):
                    merged.setdefault(pair[0], pair)
                continue
            if not isinstance(name_node, yaml.ScalarNode):
                raise self._fault(name_node, "a key is a list or mapping: text is expected")
            name = self._scalar(name_node)
            if name in own:
                self._note_twice(name_node, own[name][2], value)
            own[name] = (name, name_node, value)
        self._pairs[id(node)] = list((merged | own).values())
        return self._pairs[id(node)]

    def _note_twice(self, name: yaml.Node, first: yaml.Node, second: yaml.Node) -> None:
        """PyYAML takes the last of several values: harmless where they are the same."""
        key = repr(str(name.value))
        if self._dialect == "1.2" or not _is_same(first, second):
            raise self._fault(name, f"duplicate key {key}: it stands twice, keep one")
        line = name.start_mark.line + 1
        self.notes.append(at(self._path, line, f"key {key} stands twice with the same value."))

    def _merged(self, node: yaml.Node) -> Iterator[Pair]:
        """What `<<` brings; of several mappings the first wins."""
        for each in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            if not isinstance(each, yaml.MappingNode):
                raise self._fault(each, "`<<` needs a mapping, or a list of them")
            yield from self._pairs_of(each)

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        tag, line = node.tag, node.start_mark.line + 1
        try:
            if tag == PLAIN:
                return plain_value(node.value, self._dialect)
            if tag in (f"{STANDARD}str", "!"):
                return node.value
            if tag in self._tags:
                return self._tags[tag](node.value, self._path, line)
            return tagged_value(tag.removeprefix(STANDARD), node.value)
        except KeyError:
            raise self._wrong_tag(node) from None
        except (ValueError, yaml.YAMLError, OverflowError) as error:
            told = f"{_shown(node.value)}: {_reason(error)}"
            raise self._fault(node, told) from error

    def _wrong_tag(self, node: yaml.Node) -> UsageError:
        if node.tag in self._tags:
            return self._fault(node, f"the tag {node.tag!r} needs text, not a list or mapping")
        tag = node.tag.replace(STANDARD, "!!")
        return self._fault(node, f"the tag {tag!r} is not allowed: plain values are expected")

    def _fault(self, node: yaml.Node, text: str) -> UsageError:
        line = node.start_mark.line + 1
        return UsageError(at(self._path, line, f"is not valid YAML: {text}."))


def _is_same(one: yaml.Node, other: yaml.Node) -> bool:
    """Of words only: whether larger values are the same is not worth a search."""
    are_words = isinstance(one, yaml.ScalarNode) and isinstance(other, yaml.ScalarNode)
    return are_words and (one.tag, one.value) == (other.tag, other.value)


def _reason(error: Exception) -> str:
    text = str(getattr(error, "problem", None) or error).splitlines() or ["no value"]
    return "too many digits" if "int_max_str_digits" in text[0] else text[0].rstrip(".")


def _shown(text: str) -> str:
    return repr(text) if len(text) <= 40 else f"{text[:40]!r}…"
