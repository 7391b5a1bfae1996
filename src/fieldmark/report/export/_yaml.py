"""YAML writer: how is YAML written?

Blocks of keys and lists with scalars as JSON writes them, which every YAML reader takes: a YAML
library needs a hundred times as long for a hundred model cards.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_WORDS = ("true", "false", "yes", "no", "on", "off", "null", "y", "n")
"""plain words that are no texts in some version of YAML"""


def yaml_text(value: Any) -> str:
    """The mapping or list, keys in the order given.

    >>> print(yaml_text([{"id": "a/b", "limits": {"low": 0.5}, "notes": "n: 3"}]), end="")
    - id: a/b
      limits:
        low: 0.5
      notes: "n: 3"
    """
    return "".join(f"{line}\n" for line in _lines(value))


def _lines(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _nested(f"{_scalar(key)}:", inner, "" if isinstance(inner, list) else "  ")
    else:
        for inner in value:
            if isinstance(inner, (dict, list)) and inner:
                head, *rest = _lines(inner)
                yield f"- {head}"
                yield from (f"  {line}" for line in rest)
            else:
                yield f"- {_scalar(inner)}"


def _nested(head: str, value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, (dict, list)) and value:
        yield head
        yield from (f"{indent}{line}" for line in _lines(value))
    else:
        yield f"{head} {_scalar(value)}"


def _scalar(value: Any) -> str:
    is_plain = isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS
    return str(value) if is_plain else json.dumps(value, ensure_ascii=False)
