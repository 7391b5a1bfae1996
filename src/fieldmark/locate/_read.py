"""What does a file hold, and where do its keys stand?"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fieldmark.errors import UsageError, at, closest
from fieldmark.locate._lines import Key, toml_lines, yaml_lines

if TYPE_CHECKING:
    from ruamel.yaml.error import MarkedYAMLError

_TOML_WORDS = {
    "Cannot overwrite a value": "a key stands twice, keep one",
    "Invalid value": "a value cannot be read (text needs quotes)",
    "Invalid statement": "a `key = value` line was expected",
}
_YAML_WORDS = (
    (r"found duplicate key [\"'](.+?)[\"'] ", r"duplicate key '\1': it stands twice, keep one"),
    (r"could not determine a constructor for the tag '(.+)'",
     r"the tag '\1' is not allowed: plain values are expected"),
    (r"found character '\\t'", "a tab: spaces are expected"),
    (r"found another document", "a second document begins here: one `---` part is expected"),
    (r"mapping values are not allowed",
     "a `key: value` is not expected here: check the indentation, and quote text with a colon"),
    (r"(.*)'<(?:stream end|block end)>'", r"\1the end of the file or block"),
)  # fmt: skip


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
        line = int(found[1]) if found else max(1, len(text.splitlines()))
        message = re.sub(r"\s*\(at .*\)$", "", str(error))
        told = _TOML_WORDS.get(message, message[:1].lower() + message[1:])
        raise UsageError(at(path, line, f"is not valid TOML: {told}.")) from error
    return Located(path, data, toml_lines(text))


def read_yaml(path: Path) -> Located:
    """YAML 1.2, plain data only: a tag such as `!function` is refused here."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    text = read_text(path)
    try:
        node = YAML(typ="safe", pure=True).compose(text)
        data = YAML(typ="safe", pure=True).load(text)
    except MarkedYAMLError as error:
        raise UsageError(_yaml_problem(path, text, error)) from error
    except (YAMLError, ValueError) as error:  # ValueError: a number or date that is none
        first = str(error).strip().splitlines()[0].rstrip(".")
        raise UsageError(f"{path}  is not valid YAML: {first}.") from error
    if not isinstance(data, dict):
        holds = "a list" if isinstance(data, list) else "a single value"
        found = "is empty" if data is None else f"holds {holds}"
        raise UsageError(at(path, 1, f"{found}: a mapping of `key: value` lines is needed."))
    return Located(path, data, yaml_lines(node))


def _yaml_problem(path: Path, text: str, error: MarkedYAMLError) -> str:
    """Points at where something was opened when only the end of the file shows that it was not
    closed.
    """
    mark = error.problem_mark
    if mark is not None and mark.line >= len(text.splitlines()) and error.context_mark is not None:
        mark = error.context_mark
    problem = (error.problem or "cannot be read").splitlines()[0]
    for pattern, words in _YAML_WORDS:
        if found := re.search(pattern, problem):
            problem = found.expand(words)
            break
    return at(path, mark.line + 1 if mark else None, f"is not valid YAML: {problem}.")


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(f"{path}  does not exist.{_close_file(path)}") from None
    except IsADirectoryError:
        raise UsageError(f"{path}  is a folder; a file is needed.") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        byte = f"byte 0x{error.object[error.start]:02x}"
        raise UsageError(at(path, line, f"is not UTF-8 text ({byte}): save it as UTF-8.")) from None
    except (OSError, ValueError) as error:  # ValueError: a name with a null byte
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{path}  cannot be read: {reason}.") from None


def _close_file(path: Path) -> str:
    """A hint at the file of the same kind that was probably meant."""
    try:
        names = [each.name for each in path.parent.iterdir() if each.suffix == path.suffix]
    except OSError:
        return ""
    near = closest(path.name, names, most=1)
    return f" Did you mean {str(path.with_name(near[0]))!r}?" if near else ""
