"""What does a YAML file hold?

The file is parsed once into nodes, which know their places; values and lines are made from them.
"""

from __future__ import annotations

import re
import stat
from pathlib import Path

import yaml

from fieldmark.errors import UsageError, at
from fieldmark.locate._nodes import compose
from fieldmark.locate._read import Located, read_text
from fieldmark.locate._scalars import Dialect
from fieldmark.locate._values import Builder, Tags

_MOST_BYTES = 5_000_000
_WORDS = (
    (r"found character '\\t'", "a tab: spaces are expected"),
    (r"found another document", "a second document begins here: one `---` part is expected"),
    (r"mapping values are not allowed",
     "a `key: value` is not expected here: check the indentation, and quote text with a colon"),
    (r"found unexpected end of stream", "a quote is opened here and not closed"),
    (r"found character '(.)' that cannot start", r"'\1' cannot begin a value: quote the text"),
    (r"second occurrence", "an anchor of this name stands above: rename one"),
    (r"(.*)'<(?:stream end|block end)>'", r"\1the end of the file or block"),
)  # fmt: skip


def read_yaml(path: Path, dialect: Dialect = "1.2", tags: Tags | None = None) -> Located:
    """Plain data; a tag such as `!function` is refused unless `tags` says what it means."""
    text = _read(path)
    try:
        node = compose(path, text)
    except yaml.MarkedYAMLError as error:
        raise UsageError(_syntax_problem(path, text, error)) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        code = f"#x{ord(text[error.position]):04x}" if error.position < len(text) else ""
        told = f"holds the unprintable character {code}: plain text is expected."
        raise UsageError(at(path, line, told)) from error
    builder = Builder(path, dialect, tags or {})
    data = builder.value(node, ()) if node is not None else None
    if not isinstance(data, dict):
        holds = "a list" if isinstance(data, list) else "a single value"
        found = "is empty" if data is None else f"holds {holds}"
        raise UsageError(at(path, 1, f"{found}: a mapping of `key: value` lines is needed."))
    return Located(path, data, builder.lines, notes=tuple(builder.notes))


def _read(path: Path) -> str:
    try:
        about = path.stat()
    except (OSError, ValueError):
        return read_text(path)  # which says what is wrong
    if stat.S_ISREG(about.st_mode) and about.st_size > _MOST_BYTES:
        size = f"{about.st_size / 1e6:,.0f} MB"
        raise UsageError(f"{path}  holds {size}: at most {_MOST_BYTES // 10**6} MB are expected.")
    if not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)):
        raise UsageError(f"{path}  is a device or a pipe; a file is needed.")
    return read_text(path)


def _syntax_problem(path: Path, text: str, error: yaml.MarkedYAMLError) -> str:
    """Points at where something was opened when only the end of the file shows that it was not
    closed.
    """
    mark = error.problem_mark
    if mark is not None and mark.line >= len(text.splitlines()) and error.context_mark is not None:
        mark = error.context_mark
    problem = (error.problem or "cannot be read").splitlines()[0]
    for pattern, words in _WORDS:
        if found := re.search(pattern, problem):
            problem = found.expand(words)
            break
    return at(path, mark.line + 1 if mark else None, f"is not valid YAML: {problem}.")
