"""How do words become a command's arguments, and a slip one line?"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import inspect
import io
import re
from pathlib import Path

from fieldmark.errors import UsageError, closest


def parse(name: str, path: Path, words: list[str]) -> int:
    """Parses the words for the command and runs it."""
    import tyro

    module = importlib.import_module(f"fieldmark.cli.{path.stem}")
    _check_flags(name, module.Args, words)
    told = io.StringIO()
    wants_help = "-h" in words or "--help" in words
    try:
        with contextlib.nullcontext() if wants_help else contextlib.redirect_stderr(told):
            args = tyro.cli(
                module.Args,
                prog=f"fieldmark {name}",
                description=inspect.getdoc(module),
                args=words,
                config=(tyro.conf.FlagCreatePairsOff,),
            )
    except SystemExit as stop:
        if not stop.code:
            return 0
        raise UsageError(
            f"{_first_line(told.getvalue())} `fieldmark {name} --help` shows all flags."
        ) from None
    return int(module.run(args) or 0)


def _check_flags(name: str, args: type, words: list[str]) -> None:
    """Refuses flags that do not exist; nothing is ever taken for the beginning of another flag."""
    known = {f"--{name.replace('_', '-')}" for name in _names(args)}
    for word in words:
        if word == "--":
            return
        flag = word.partition("=")[0]
        if re.match(r"--[A-Za-z]", flag) and flag.replace("_", "-") not in known | {"--help"}:
            hint = closest(flag, known)
            mean = f" Did you mean {hint[0]}?" if hint else ""
            raise UsageError(
                f"`fieldmark {name}` has no flag {flag}.{mean} `fieldmark {name} --help` shows all."
            )


def _names(args: type) -> list[str]:
    """The flags of a command; a field that is a dataclass itself is a group of them."""
    names = []
    for each in dataclasses.fields(args):
        inner = type(each.default) if dataclasses.is_dataclass(each.default) else None
        names.extend(_names(inner) if inner else [each.name])
    return names


def _first_line(box: str) -> str:
    """The message inside the frame that tyro draws around an error."""
    lines = [line.strip("│╭╮╰╯─ ") for line in box.splitlines()[1:]]
    text = " ".join(lines[: next((i for i, line in enumerate(lines) if not line), 1)])
    number = re.fullmatch(r"Error parsing (\S+): invalid literal for int\(\).*: '(.*)'", text)
    if number:
        return f"{number[1]} {number[2]}: a whole number is needed."
    return text.removesuffix(".") + "."
