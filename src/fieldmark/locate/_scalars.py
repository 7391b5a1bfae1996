"""What value does a plain word of a YAML file stand for?

The two versions of YAML differ here and nowhere else that matters: in 1.1 `no` is false and `1e-5`
is text, in 1.2 `no` is text and `1e-5` a number. fieldmark's own files are read as 1.2
(https://yaml.org/spec/1.2.2, the core schema), files written for PyYAML as it reads them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal

import yaml

from fieldmark.locate._nodes import STANDARD

Dialect = Literal["1.1", "1.2"]

_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_NUMBER = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_MAKER = yaml.constructor.FullConstructor()
_MAKERS: dict[str, Callable[[yaml.ScalarNode], Any]] = {
    "null": _MAKER.construct_yaml_null,
    "bool": _MAKER.construct_yaml_bool,
    "int": _MAKER.construct_yaml_int,
    "float": _MAKER.construct_yaml_float,
    "binary": _MAKER.construct_yaml_binary,
    "timestamp": _MAKER.construct_yaml_timestamp,
}


def plain_value(text: str, dialect: Dialect) -> Any:
    """The value of a word without quotes; ValueError for a number or date that is none."""
    return _plain_1_2(text) if dialect == "1.2" else tagged_value(_tag_1_1(text), text)


def tagged_value(kind: str, text: str) -> Any:
    """The value of a word that is said to be an `int`, a `bool` …, as PyYAML makes it.

    KeyError for a kind that is none of YAML's own, ValueError for a word that is none of the kind.
    """
    if kind == "str":
        return text
    make = _MAKERS[kind]
    try:
        return make(yaml.ScalarNode(STANDARD + kind, text))
    except (LookupError, AttributeError) as error:  # which PyYAML leaves to its caller
        raise ValueError(f"this is no {kind}") from error


def _plain_1_2(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    if _NUMBER.fullmatch(text):
        is_word = text.lstrip("+-").lower() in (".inf", ".nan")
        return float(text.replace(".", "", 1) if is_word else text)
    return text


@lru_cache(maxsize=4096)
def _tag_1_1(text: str) -> str:
    resolvers = yaml.resolver.Resolver.yaml_implicit_resolvers
    for tag, pattern in [*resolvers.get(text[:1], ()), *resolvers.get(None, ())]:
        if pattern.match(text):
            found = str(tag).removeprefix(STANDARD)
            return found if found in _MAKERS else "str"
    return "str"
