"""Schema validation: each mistake that pydantic finds in a file, as one `file:line` and a hint."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from fieldmark.errors import UsageError, closest, join_problems
from fieldmark.source_lines.located import Key, Located

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic_core import ErrorDetails

    ModelT = TypeVar("ModelT", bound=BaseModel)

_KINDS = {
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "list": "a list",
    "string": "text",
    "tuple": "a list",
}
_FEW = 8
"""so many known keys are named when none is close to the one found"""
_MOST_SHOWN = 60
"""characters of a wrong value"""


class SchemaError(UsageError):
    """Everything in a file that does not fit its schema, one line each."""

    def __init__(self, problems: Sequence[str], keys: frozenset[str]) -> None:
        super().__init__(join_problems(problems))
        self.keys = keys
        """keys at the top that are wrong, missing or unknown, and those probably meant"""


def validate(model: type[ModelT], located: Located) -> ModelT:
    """The typed form of the file, or one `file:line` per problem."""
    from pydantic import ValidationError

    try:
        return model.model_validate(located.data)
    except ValidationError as error:
        problems = [
            (located.file(key) != located.path, located.line(key) or 0, located.where(key), text)
            for key, text in _problems(error.errors(), model, located)
        ]
        unique = list(dict.fromkeys(f"{where}  {text}" for *_, where, text in sorted(problems)))
        keys = {str(problem["loc"][0]) for problem in error.errors() if problem["loc"]}
        meant = {name for key in keys for name in closest(key, model.model_fields, most=1)}
        raise SchemaError(unique, frozenset(keys | meant)) from None


def _problems(
    errors: Sequence[ErrorDetails], model: type[BaseModel], located: Located
) -> Iterator[tuple[Key, str]]:
    """Each key that is wrong, and why; a value that fits no member of a union is one problem."""
    wrong: dict[Key, list[ErrorDetails]] = {}
    inside: set[Key] = set()
    for error in errors:
        key = _real_key(error["loc"], located)
        if error["type"] == "invalid_key":
            yield key, f"key {_shown(error['input'])} is not text: put it in quotes."
        elif error["type"] in ("extra_forbidden", "missing"):
            is_extra = error["type"] == "extra_forbidden"
            inside.update(key[:length] for length in range(len(key) + (not is_extra)))
            missing = f"key {str(error['loc'][-1])!r} is missing: add it."
            yield key, _unknown(error, model) if is_extra else missing
        else:
            inside.update(key[:length] for length in range(len(key)))
            wrong.setdefault(key, []).append(error)
    for key, about in wrong.items():
        if key not in inside or not key:
            yield key, _wrong_value(key, about, located)


def _real_key(loc: Sequence[str | int], located: Located) -> Key:
    """pydantic's location without the parts it invents for the members of a union."""
    key: list[str | int] = []
    here: Any = located.data
    for step in loc:
        is_key = isinstance(here, dict) and step in here
        is_index = isinstance(here, list) and isinstance(step, int) and step < len(here)
        if is_key or is_index:
            key.append(step)
            here = here[step]
    return tuple(key)


def _unknown(error: ErrorDetails, model: type[BaseModel]) -> str:
    name, field_names = str(error["loc"][-1]), _fields_near(model, error["loc"])
    near = closest(name, field_names, most=1)
    if near:
        return f"key {name!r} is not known. Did you mean {near[0]!r}?"
    listed = f" Expected: {', '.join(field_names)}." if len(field_names) <= _FEW else ""
    return f"key {name!r} is not known.{listed}"


def _wrong_value(key: Key, errors: Sequence[ErrorDetails], located: Located) -> str:
    every = " or ".join(dict.fromkeys(_expected(error, located) for error in errors))
    expected = every.replace(" or expected ", " or ")
    if not key:
        return f"{expected}."
    value = errors[0]["input"]
    shown = "is empty" if value is None else f"= {_shown(value)}"
    hints = [hint for error in errors for hint in _close_values(error)]
    mean = f" Did you mean {hints[0]!r}?" if hints else ""
    return f"{_name(key)} {shown}: {expected}.{mean}"


def _expected(error: ErrorDetails, located: Located) -> str:
    kind, about = error["type"], error.get("ctx", {})
    if kind == "value_error":
        return error["msg"].removeprefix("Value error, ")
    if kind.startswith(("dict", "model", "dataclass")):
        expected = "a table" if located.path.suffix == ".toml" else "a mapping of `key: value`"
    elif kind == "literal_error":
        expected = str(about["expected"])
    elif kind == "greater_than_equal":
        expected = f"{about['ge']} or more"
    elif kind == "less_than_equal":
        expected = f"{about['le']:,} or less"
    elif kind == "too_short":
        expected = "at least one entry"
    else:
        expected = _KINDS.get(kind.partition("_")[0], error["msg"].removeprefix("Input should be "))
    return f"expected {expected}"


def _close_values(error: ErrorDetails) -> list[str]:
    if error["type"] != "literal_error" or not isinstance(error["input"], str):
        return []
    return closest(error["input"], re.findall(r"'([^']*)'", error["ctx"]["expected"]), most=1)


def _shown(value: object) -> str:
    text = repr(value) if isinstance(value, (str, list, dict)) else str(value)
    text = text.lower() if isinstance(value, bool) else text
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 1]}…"


def _name(key: Key) -> str:
    """`models[0].method`."""
    parts = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in key]
    return "".join(parts).lstrip(".")


def _fields_near(model: type[BaseModel], loc: Sequence[str | int]) -> list[str]:
    """The keys known where the unknown one stands."""
    here: type[BaseModel] = model
    for step in loc[:-1]:
        field = here.model_fields.get(str(step))
        here = next(_models_in(field.annotation), here) if field else here
    return list(here.model_fields)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    from pydantic import BaseModel

    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for member in get_args(annotation):
        yield from _models_in(member)
