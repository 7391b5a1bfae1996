"""KEY=VALUE words of a command line: how do they say what a TOML file would?"""

from __future__ import annotations

import tomllib
from typing import Any


def toml_value(text: str) -> Any:
    """As it would stand in a TOML file; whatever is no such value is text.

    >>> toml_value("3"), toml_value("[1, 2]"), toml_value("a word")
    (3, [1, 2], 'a word')
    """
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def set_dotted(table: dict[str, Any], key: str, text: str) -> None:
    """Sets `a.b.c`, making the tables on the way; ValueError names one that is a value already.

    >>> table = {"a": {"b": 1}}
    >>> set_dotted(table, "a.c", "true"); table
    {'a': {'b': 1, 'c': True}}
    """
    *outer, last = key.split(".")
    for name in outer:
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            raise ValueError(name)
    table[last] = toml_value(text)
