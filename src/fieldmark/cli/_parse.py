"""Argument parser (tyro): how do words become a command's arguments, and a slip one line?"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import inspect
import io
import itertools
import re
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

from fieldmark.errors import UsageError, closest


def parse(name: str, path: Path, words: list[str]) -> int:
    """Parses the words for the command and runs it."""
    import tyro

    module = importlib.import_module(f"fieldmark.cli.{path.stem}")
    arguments = _arguments(module, path.stem)
    _check_flags(name, arguments, words)
    complaint = io.StringIO()
    wants_help = "-h" in words or "--help" in words
    try:
        with contextlib.nullcontext() if wants_help else contextlib.redirect_stderr(complaint):
            args: object = tyro.cli(
                arguments,
                prog=f"fieldmark {name}",
                description=inspect.getdoc(module),
                args=words,
                config=(tyro.conf.FlagCreatePairsOff,),
            )
    except SystemExit as stop:
        if not stop.code:
            return 0
        raise UsageError(
            f"{_first_line(complaint.getvalue())} `fieldmark {name} --help` shows all flags."
        ) from None
    return int(module.run(args) or 0)


def _arguments(module: ModuleType, stem: str) -> type:
    """The class that `data_make.py` calls `DataMakeArgs`, or what `make_args()` makes."""
    name = "".join(word.capitalize() for word in stem.split("_"))
    cls: type = module.make_args() if hasattr(module, "make_args") else vars(module)[f"{name}Args"]
    return cls


@dataclasses.dataclass(frozen=True, slots=True)
class _Flag:
    name: str
    default: object
    type: Any
    """the annotation itself, not its text"""

    @property
    def is_switch(self) -> bool:
        return isinstance(self.default, bool)

    @property
    def collects(self) -> bool:
        """May it be given several times? Every value counts then."""
        from tyro.conf import UseAppendAction

        return UseAppendAction in getattr(self.type, "__metadata__", ())


def _check_flags(name: str, args: type, words: list[str]) -> None:
    """Refuses flags that do not exist, and a flag given twice where only the last value would
    count; nothing is ever taken for the beginning of another flag.
    """
    known = {flag.name: flag for flag in _flags(args)}
    given: set[str] = set()
    for word, after in itertools.pairwise([*words, "--"]):
        if word == "--":
            return
        flag, equals, _ = word.partition("=")
        flag = flag.replace("_", "-")
        if not _is_flag(flag) or flag == "--help":
            continue
        if flag not in known:
            hint = [name for name in known if name.startswith(flag)] or closest(flag, known)
            mean = f" Did you mean {hint[0]}?" if hint else ""
            raise UsageError(
                f"`fieldmark {name}` has no flag {flag}.{mean} `fieldmark {name} --help` shows all."
            )
        if not known[flag].is_switch and not equals and (after == "--" or _is_flag(after)):
            raise UsageError(f"{flag} needs a value. `fieldmark {name} --help` shows all flags.")
        if flag in given:
            takes_many = known[flag].default == ()
            one = f"Put all its values after one {flag}" if takes_many else "Give it once"
            raise UsageError(f"{flag} is given twice. {one}.")
        if not known[flag].is_switch and not known[flag].collects:
            given.add(flag)


def _is_flag(word: str) -> bool:
    return re.match(r"--[A-Za-z]", word) is not None


def _flags(args: type) -> list[_Flag]:
    """The flags of a command; a field that is a dataclass itself is a group of them."""
    flags: list[_Flag] = []
    types = get_type_hints(args, include_extras=True)
    for field in dataclasses.fields(args):
        if dataclasses.is_dataclass(field.default):
            flags.extend(_flags(type(field.default)))
        else:
            name = f"--{field.name.replace('_', '-')}"
            flags.append(_Flag(name, field.default, types[field.name]))
    return flags


_SLIPS = (
    (r"Error parsing (\S+): invalid literal for int\(\).*: '(.*)'",
     r"\1 \2: expected a whole number"),
    (r"Error parsing (\S+): Could not find valid parse for arguments: \['(.*)'\]",
     r"\1 \2: expected whole numbers"),
    (r"Error parsing (\S+): could not convert string to float: '(.*)'",
     r"\1 \2: expected a number"),
    (r"Error parsing (\S+): no type matching \{None\}\|INT could be .* from \['(.*)'\]",
     r"\1 \2: expected a whole number"),
    (r"Error parsing (\S+): no type matching \{None\}\|FLOAT could be .* from \['(.*)'\]",
     r"\1 \2: expected a number"),
    (r"invalid choice '(.*)' for argument '(\S+)'\. Expected one of \((.*)\)",
     r"\2 \1: expected one of \3"),
    (r"Unrecognized options: (.*)", r"unexpected: \1"),
    (r"Missing from .*?: (\S+) (.*) \(required\)", r"\1 is missing: \2"),
)  # fmt: skip
"""what tyro says → what a person reads"""


def _first_line(box: str) -> str:
    """The message inside the frame that tyro draws around an error."""
    lines = [re.sub(r"^-+$", "", line.strip("│╭╮╰╯─ ")) for line in box.splitlines()[1:]]
    start = next((i for i, line in enumerate(lines) if line), 0)
    stop = next((i for i, line in enumerate(lines) if not line and i > start), len(lines))
    text = " ".join(lines[start:stop]).removesuffix(".")
    for pattern, words in _SLIPS:
        if match := re.fullmatch(pattern, text):
            text = match.expand(words)
    return f"{text}."
