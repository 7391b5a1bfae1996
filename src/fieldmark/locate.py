"""On which line of a TOML or YAML file does a value stand?

Files people write are read here, with the line of every key, so that each mistake in them can be
told as `file:line`. Nothing here knows what the files mean.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from fieldmark.errors import UsageError, at, closest, join_problems

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic_core import ErrorDetails

    ModelT = TypeVar("ModelT", bound=BaseModel)

Key = tuple[str | int, ...]

_TOML_HEADER = re.compile(r"^\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(#.*)?$")
_TOML_KEY = re.compile(
    r"""^\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*[A-Za-z0-9_-]+)*)\s*="""
)


@dataclass(frozen=True, slots=True)
class Located:
    """The content of a file and where its keys stand."""

    path: Path
    data: dict[str, Any]
    lines: dict[Key, int]

    def line(self, key: Sequence[str | int]) -> int | None:
        """The line of the key, or of the nearest thing around it."""
        for length in range(len(key), 0, -1):
            if tuple(key[:length]) in self.lines:
                return self.lines[tuple(key[:length])]
        return None

    def where(self, key: Sequence[str | int]) -> str:
        line = self.line(key)
        return f"{self.path}:{line}" if line else str(self.path)


def read_toml(path: Path) -> Located:
    text = read_text(path)
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"line (\d+)", str(error))
        message = re.sub(r"\s*\(at .*\)$", "", str(error))
        raise UsageError(
            at(path, int(found[1]) if found else None, f"is not valid TOML: {message}.")
        ) from error
    return Located(path, data, _toml_lines(text))


def read_yaml(path: Path) -> Located:
    """YAML 1.2, plain data only: a tag such as `!function` is refused here."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError

    text = read_text(path)
    try:
        node = YAML(typ="safe", pure=True).compose(text)
        data = YAML(typ="safe", pure=True).load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark
        problem = (error.problem or "cannot be read").splitlines()[0]
        raise UsageError(
            at(path, mark.line + 1 if mark else None, f"is not valid YAML: {problem}.")
        ) from error
    if not isinstance(data, dict):
        raise UsageError(at(path, 1, "holds no `key: value` lines: a mapping is needed."))
    lines: dict[Key, int] = {}
    _yaml_lines(node, (), lines)
    return Located(path, data, lines)


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(f"{path}  does not exist.") from None
    except IsADirectoryError:
        raise UsageError(f"{path}  is a folder; a file is needed.") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}  is not UTF-8 text (byte {error.start}).") from None
    except OSError as error:
        raise UsageError(f"{path}  cannot be read: {error.strerror}.") from None


def validate(model: type[ModelT], located: Located, data: object = None) -> ModelT:
    """The typed form of the file, or one `file:line` per problem."""
    from pydantic import ValidationError

    try:
        return model.model_validate(located.data if data is None else data)
    except ValidationError as error:
        problems = sorted(
            (located.line(_real_key(each["loc"], located)) or 0, _tell(each, model, located))
            for each in error.errors()
        )
        unique = list(dict.fromkeys(text for _, text in problems))
        raise UsageError(join_problems(unique)) from None


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


def _tell(error: ErrorDetails, model: type[BaseModel], located: Located) -> str:
    loc = error["loc"]
    key = _real_key(loc, located)
    name = ".".join(str(step) for step in (key or loc))
    if error["type"] == "extra_forbidden":
        known = closest(str(loc[-1]), _fields_near(model, loc))
        hint = f" Did you mean {known[0]!r}?" if known else ""
        text = f"key {str(loc[-1])!r} is not known.{hint}"
    elif error["type"] == "missing":
        text = f"key {str(loc[-1])!r} is missing."
    else:
        message = error["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
        expected = message if error["msg"].startswith("Value error") else f"expected {message}"
        text = f"{name} = {error['input']!r}: {expected}."
    return at(located.path, located.line(key), text)


def _fields_near(model: type[BaseModel], loc: Sequence[str | int]) -> list[str]:
    from pydantic import BaseModel

    here: type[BaseModel] = model
    for step in loc[:-1]:
        field = here.model_fields.get(str(step))
        inner = (
            [
                each
                for each in (getattr(field.annotation, "__args__", None) or [field.annotation])
                if isinstance(each, type) and issubclass(each, BaseModel)
            ]
            if field
            else []
        )
        if inner:
            here = inner[0]
    return list(here.model_fields)


def _toml_lines(text: str) -> dict[Key, int]:
    lines: dict[Key, int] = {}
    table: Key = ()
    counts: dict[Key, int] = {}
    quote = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if quote:
            quote = "" if line.count(quote) % 2 else quote
            continue
        header = _TOML_HEADER.match(line)
        if header:
            table = _split_key(header[2])
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            lines.setdefault(table, number)
            lines.setdefault(table[:1], number)
        elif match := _TOML_KEY.match(line):
            lines.setdefault((*table, *_split_key(match[1])), number)
        quote = next((mark for mark in ('"""', "'''") if line.count(mark) % 2), "")
    return lines


def _split_key(text: str) -> Key:
    return tuple(part.strip().strip("\"'") for part in text.split("."))


def _yaml_lines(node: Any, key: Key, lines: dict[Key, int]) -> None:
    kind = type(node).__name__
    if kind == "MappingNode":
        for name, value in node.value:
            inner = (*key, name.value)
            lines[inner] = name.start_mark.line + 1
            _yaml_lines(value, inner, lines)
    elif kind == "SequenceNode":
        for index, value in enumerate(node.value):
            inner = (*key, index)
            lines[inner] = value.start_mark.line + 1
            _yaml_lines(value, inner, lines)
