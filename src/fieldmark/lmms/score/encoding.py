"""Serialisation: how is a document's value kept as text, so that scoring needs no second run?

JSON, with marks for what JSON lacks: tuples, mappings whose keys are no texts, sets, arrays, bytes,
NaN and infinities. numpy's scalars become plain numbers. Anything else is told with its place.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Set
from typing import Any

import numpy as np

from fieldmark.errors import UsageError

_MARK = "~"
_DEEPEST = 100


def as_number(value: Any) -> float | None:
    """The value as a float, truths too; None where it is no single number.

    >>> as_number(np.True_), as_number("1"), as_number(np.zeros(2))
    (1.0, None, None)
    """
    is_number = isinstance(value, int | float | np.integer | np.floating | np.bool_)
    return float(value) if is_number else None


def encode(value: Any) -> str:
    """The value as text; `decode` gives an equal one back.

    >>> encode({"gold": (1, 2.0), "odds": float("nan")})
    '{"gold":{"~tuple":[1,2.0]},"odds":{"~float":"nan"}}'
    """
    text = json.dumps(to_json(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which no file can hold
        return json.dumps(to_json(value), separators=(",", ":"))
    return text


def decode(text: str) -> Any:
    """What was encoded."""
    return from_json(json.loads(text))


def plain_json(value: Any) -> str:
    """The value as JSON that anyone reads: tuples are lists, keys texts, NaN null, the rest words.

    >>> plain_json({1: (True, float("nan"))})
    '{"1": [true, null]}'
    """
    return json.dumps(_plain(value, 0), ensure_ascii=False, allow_nan=False)


def _plain(value: Any, depth: int) -> Any:
    if isinstance(value, Mapping) and depth < _DEEPEST:
        return {str(key): _plain(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple) and depth < _DEEPEST:
        return [_plain(inner, depth + 1) for inner in value]
    if isinstance(value, Set) and depth < _DEEPEST:
        return [_plain(inner, depth + 1) for inner in sorted(value, key=repr)]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist(), depth + 1)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def to_json(value: Any, where: str = "value", depth: int = 0) -> Any:
    """The value of JSON's own kinds only."""
    if depth > _DEEPEST:
        raise UsageError(f"{where[:60]}... is nested deeper than {_DEEPEST}: expected plain data.")
    if value is None or isinstance(value, bool | np.bool_):
        return None if value is None else bool(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        number = float(value)
        return number if math.isfinite(number) else {f"{_MARK}float": str(number)}
    return _container(value, where, depth + 1)


def _container(value: Any, where: str, depth: int) -> Any:
    if isinstance(value, Mapping):
        return _mapping(value, where, depth)
    if isinstance(value, list | tuple):
        inside = [to_json(inner, f"{where}[{i}]", depth) for i, inner in enumerate(value)]
        return inside if isinstance(value, list) else {f"{_MARK}tuple": inside}
    if isinstance(value, np.ndarray):
        inside = to_json(value.ravel().tolist(), where, depth)
        return {f"{_MARK}array": inside, "dtype": str(value.dtype), "shape": list(value.shape)}
    if isinstance(value, bytes | bytearray):
        return {f"{_MARK}bytes": base64.b64encode(value).decode()}
    if isinstance(value, Set):
        return {f"{_MARK}set": [to_json(inner, where, depth) for inner in sorted(value, key=repr)]}
    kind = type(value)
    raise UsageError(
        f"{where} is a {kind.__module__}.{kind.__qualname__}, which cannot be kept: expected "
        "numbers, texts, lists, tuples, mappings, sets or numpy arrays."
    )


def _mapping(value: Mapping[Any, Any], where: str, depth: int) -> Any:
    is_plain = all(isinstance(key, str) and not key.startswith(_MARK) for key in value)
    inside = [(key, to_json(inner, f"{where}[{key!r}]", depth)) for key, inner in value.items()]
    if is_plain:
        return {str(key): inner for key, inner in inside}
    return {f"{_MARK}dict": [[to_json(key, f"a key of {where}", depth), e] for key, e in inside]}


def from_json(value: Any) -> Any:
    """What `to_json` was given."""
    if isinstance(value, list):
        return [from_json(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    mark = next(iter(value), "")
    if not mark.startswith(_MARK):
        return {key: from_json(inner) for key, inner in value.items()}
    return _marked(mark[1:], value[mark], value)


def _marked(kind: str, inside: Any, value: dict[str, Any]) -> Any:
    if kind == "tuple":
        return tuple(from_json(item) for item in inside)
    if kind == "dict":
        return {from_json(key): from_json(item) for key, item in inside}
    if kind == "set":
        return {from_json(item) for item in inside}
    if kind == "float":
        return float(inside)
    if kind == "bytes":
        return base64.b64decode(inside)
    if kind == "array":
        array = np.empty(len(inside), dtype=value["dtype"])
        array[:] = from_json(inside)
        return array.reshape(value["shape"])
    raise UsageError(f"a value is marked {_MARK + kind!r}: expected one that `encode` wrote.")
