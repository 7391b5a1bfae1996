"""Settings of a protocol: what do a dataclass and its docstrings say of each flag and TOML key?

A protocol declares what a user may set in one frozen dataclass: every field is `T | None = None`
(None = not given) with a docstring under it. From here the command line makes its flags, an
experiment file its keys, the documentation its table, and a run its key.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import json
import math
import re
import textwrap
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NewType

from fieldmark.errors import UsageError, meant

OtherModel = NewType("OtherModel", str)
"""a setting that names a further language model, which is checked like the others"""
Pairs = NewType("Pairs", str)
"""a setting of keys and values: KEY=VALUE … as flags, a table in TOML, kept as a JSON object"""


@dataclass(frozen=True, slots=True)
class NoSettings:
    """nothing can be set"""


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers a setting may have: `Annotated[float, Range(0, 2)] | None`."""

    least: float = -math.inf
    most: float = math.inf
    above: bool = False
    """`least` itself is too little"""

    def holds(self, value: float) -> bool:
        low = self.least < value if self.above else self.least <= value
        return low and value <= self.most and math.isfinite(value)

    @property
    def words(self) -> str:
        if self.above:
            return f" above {self.least:g}"
        if self.most == math.inf:
            return f", {self.least:g} or more"
        return f", {self.least:g} to {self.most:,g}"


@dataclass(frozen=True, slots=True)
class TextForm:
    """How the text of a setting must look: `Annotated[str, TextForm(r"\\d+", " of digits")]`."""

    pattern: str
    words: str
    """after "expected text" """

    def holds(self, value: str) -> bool:
        return re.fullmatch(self.pattern, value) is not None


@dataclass(frozen=True, slots=True)
class Setting:
    """One field of a settings class."""

    name: str
    type: Any
    """bool, int, float, str, Pairs or a Literal"""
    doc: str
    range: Range | TextForm | None
    changes_answers: bool
    """is it part of a run's key, and an axis of a grid? Else it says how, not what"""

    @property
    def choices(self) -> tuple[Any, ...]:
        return typing.get_args(self.type) if typing.get_origin(self.type) is Literal else ()

    def problem(self, value: Any) -> str:
        """What was expected in place of the value; "" if it is right."""
        if self.choices:
            return "" if value in self.choices else f"one of {', '.join(map(repr, self.choices))}"
        kinds: dict[Any, tuple[Any, str]] = {
            bool: (bool, "true or false"),
            int: (int, "a whole number"),
            float: ((int, float), "a number"),
            str: (str, "text"),
            OtherModel: (str, "the name of a model"),
            Pairs: (Mapping, "keys and values"),
        }
        kind, expected = kinds[self.type]
        is_kind = isinstance(value, kind) and (self.type is bool or not isinstance(value, bool))
        expected += self.range.words if self.range else ""
        return "" if is_kind and (self.range is None or self.range.holds(value)) else expected


def how_only() -> Any:
    """The default of a field that changes no answer: how requests are sent, what they may cost."""
    return dataclasses.field(default=None, metadata={"changes_answers": False})


@cache
def settings_of(cls: type) -> tuple[Setting, ...]:
    """The settings a class declares, in order."""
    docs, hints = field_docs(cls), typing.get_type_hints(cls, include_extras=True)
    settings = []
    for field in dataclasses.fields(cls):
        hint, span = hints[field.name], None
        if typing.get_origin(hint) in (typing.Union, types.UnionType):
            hint = next(arg for arg in typing.get_args(hint) if arg is not type(None))
        if typing.get_origin(hint) is typing.Annotated:
            hint, *notes = typing.get_args(hint)
            span = next((note for note in notes if isinstance(note, Range | TextForm)), None)
        changes_answers = field.metadata.get("changes_answers", True)
        settings.append(Setting(field.name, hint, docs.get(field.name, ""), span, changes_answers))
    return tuple(settings)


def field_docs(cls: type) -> dict[str, str]:
    """The docstring under each field of a class, on one line."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    body = typing.cast(ast.ClassDef, tree.body[0]).body
    docs = {}
    for field, below in itertools.pairwise(body):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            docs[field.target.id] = " ".join(str(below.value.value).split())
    return docs


def make_settings(cls: type, values: Mapping[str, Any], protocol: str) -> Any:
    """The settings object of these values; refuses names it has not and values out of range."""
    fields_of = {setting.name: setting for setting in settings_of(cls)}
    for name, value in values.items():
        if name not in fields_of:
            raise UsageError(
                f"{name!r} is not a setting of `{protocol}`.{meant(name, fields_of)} "
                f"Its settings: {', '.join(fields_of)}."
            )
        expected = fields_of[name].problem(value) if value is not None else ""
        if expected:
            raise UsageError(f"{name} = {value!r}: expected {expected}.")
    return cls(**{name: _kept(value) for name, value in values.items()})


def _kept(value: Any) -> Any:
    """Settings are compared and hashed: a table is kept as JSON."""
    if not isinstance(value, Mapping):
        return value
    try:
        return json.dumps(value, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{dict(value)}: expected values that JSON has ({error}).") from None


def given(settings: Any) -> dict[str, Any]:
    """What was given and can change an answer."""
    return {
        setting.name: getattr(settings, setting.name)
        for setting in settings_of(settings.__class__)
        if setting.changes_answers and getattr(settings, setting.name) is not None
    }
