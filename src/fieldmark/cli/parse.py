"""Argument parser (tyro): how do words become a command's arguments, and a slip one line?"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import inspect
import io
import itertools
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

from fieldmark.cli.flags import Only
from fieldmark.cli.show import folded, show, steer, width
from fieldmark.errors import UsageError, closest


@dataclasses.dataclass(frozen=True, slots=True)
class Command:
    """What a word or two on the command line stand for."""

    name: str
    args: type
    run: Callable[[Any], int]
    about: str
    first_flags: Collection[str] = ()
    """the flags that `--help` shows, `--help-all` shows all; () = all of them"""

    @property
    def listing(self) -> str:
        return "--help-all" if self.first_flags else "--help"


def find(words: list[str], files: Mapping[str, Path], plugins: str = "") -> Command | None:
    """The command of exactly these words: of a file, or of the entry-point group `plugins`."""
    if not words or not all(re.fullmatch(r"[A-Za-z][\w-]*", word) for word in words):
        return None
    name, inner = words[0].lower(), "".join(words[1:])
    if name not in files:
        return None if inner else _plugin(name, plugins)
    module = importlib.import_module(f"{__package__}.{files[name].parent.name}.{files[name].stem}")
    has_made = hasattr(module, "make_args")  # its flags depend on the protocols that are known
    single = module.make_args() if has_made else getattr(module, f"{name.capitalize()}Args", None)
    if not inner and single is not None:
        first_flags = getattr(module, "FIRST_FLAGS", ())
        return Command(name, single, module.run, inspect.getdoc(module) or "", first_flags)
    cls = getattr(module, f"{name.capitalize()}{inner.capitalize()}Args", None)
    if not inner or cls is None:
        return None
    run = getattr(module, inner)
    return Command(f"{name} {inner}", cls, run, inspect.cleandoc(cls.__doc__ or ""))


def _plugin(name: str, group: str) -> Command | None:
    """A command that another package has by an entry point."""
    from fieldmark.registry import entry_points_of

    point = entry_points_of(group).get(name)
    if point is None:
        return None
    try:
        module = point.load()
        return Command(name, module.Args, module.run, inspect.getdoc(module) or "")
    except Exception as error:
        raise UsageError(
            f"command {name!r} of {point.value} cannot be loaded: {type(error).__name__}: {error}."
        ) from error


def parse(command: Command, words: list[str]) -> int:
    """Parses the words for the command and runs it."""
    import tyro

    wants_all = "--help-all" in words
    wants_help = wants_all or "-h" in words or "--help" in words
    first_flags = command.first_flags if wants_help and not wants_all else ()
    acting = _shown(command.args)
    arguments = _shown(acting, first_flags) if first_flags else acting
    _check_flags(command, acting, words)
    words = ["--help"] if wants_help else words
    complaint, screen = io.StringIO(), _Screen()
    try:
        with contextlib.redirect_stderr(complaint), contextlib.redirect_stdout(screen):
            args: object = tyro.cli(
                _explained(arguments) if wants_help else arguments,
                prog=f"fieldmark {command.name}",
                description=command.about,
                args=words,
                config=(tyro.conf.FlagCreatePairsOff,),
            )
    except SystemExit as stop:
        if not stop.code:
            steer("".join(f"{line}\n" for line in screen.lines()))
            if first_flags:
                n_more = len(_flags(acting)) - len(_flags(arguments))
                show(f"`fieldmark {command.name} --help-all` shows {n_more} more flags.")
            return 0
        problem, meant = _first_line(complaint.getvalue()), _quoted(command.name, words)
        hint = f"`fieldmark {command.name} --help` shows how to use it."
        if problem.startswith("--"):
            hint = f"`fieldmark {command.name} {command.listing}` shows all flags."
        if problem.startswith("unexpected") and meant:
            hint = f"Put quotes around a name with spaces: {meant}"
        raise UsageError(f"{problem} {hint}") from None
    return int(command.run(args) or 0)


COLOUR = re.compile(r"\x1b\[[\d;]*m")


class _Screen(io.StringIO):
    """Keeps what tyro prints, framed and coloured as the terminal can show it."""

    encoding = property(lambda _: sys.__stdout__.encoding if sys.__stdout__ else "utf-8")

    def isatty(self) -> bool:
        return sys.__stdout__ is not None and sys.__stdout__.isatty()

    def lines(self) -> Iterator[str]:
        """All of it; sentences, but no commands, on as many lines as the terminal needs."""
        for line in self.getvalue().splitlines():
            plain = COLOUR.sub("", line)
            is_sentence = plain[:1].isalpha() and len(plain) > width()
            if not re.fullmatch(r"│ +│", plain):  # tyro breaks a line behind a full one
                yield folded(plain) if is_sentence else line


_METAVARS: dict[Any, str] = {int: "N", float: "X", str: "TEXT", Path: "PATH", Path | None: "PATH"}


def _explained(args: type) -> type:
    """The same flags as `--help` explains them: each text in one piece, a word for each value, and
    a default in brackets where it says something.
    """
    from tyro.conf import Positional, UseAppendAction, arg

    changed: list[tuple[str, Any, Any]] = []
    types, docs = get_type_hints(args, include_extras=True), _docs(args)
    for field in dataclasses.fields(args):
        hint = types[field.name]
        base, *marks = get_args(hint) if hasattr(hint, "__metadata__") else (hint,)
        default = field.default
        if dataclasses.is_dataclass(default):
            group = _explained(type(default))
            changed.append((field.name, Annotated[(group, *marks)] if marks else group, group()))
            continue
        is_unset = default is None or default is False or default in ("", ())
        how = arg(
            help=docs.get(field.name),
            metavar=_METAVARS.get(base),
            help_behavior_hint=None
            if UseAppendAction in marks
            else ""
            if is_unset
            else "[{}]".format,
        )
        value = dataclasses.field() if default is dataclasses.MISSING else default
        if Positional in marks and default is not dataclasses.MISSING:
            words = [getattr(mark, "metavar", None) for mark in (how, *marks)]
            marks.append(arg(metavar=f"[{[word for word in words if word][-1]}]"))
        changed.append((field.name, Annotated[(base, how, *marks)], value))
    return _remade(args, changed)


def _remade(args: type, changed: list[tuple[str, Any, Any]]) -> type:
    """The same flags, some of them changed."""
    made = dataclasses.make_dataclass(
        args.__name__, changed, bases=(args,), frozen=True, kw_only=True
    )
    made.__doc__ = args.__doc__
    return made


def _docs(args: type) -> dict[str, str]:
    """The docstring under each flag, those of inherited flags too."""
    from fieldmark.protocols import field_docs

    docs: dict[str, str] = {}
    for cls in reversed(args.__mro__):
        with contextlib.suppress(OSError, TypeError):  # made here: it has no source
            docs |= field_docs(cls)
    return docs


def _shown(args: type, first_flags: Collection[str] = ()) -> type:
    """The same flags without those that do not act on the command, or are not among the first."""
    from tyro.conf import Suppress

    changed: list[tuple[str, Any, Any]] = []
    types = get_type_hints(args, include_extras=True)
    for field in dataclasses.fields(args):
        hint, default = types[field.name], field.default
        if dataclasses.is_dataclass(default):
            marks = getattr(hint, "__metadata__", ())
            only = next(((*m.names, "debug") for m in marks if isinstance(m, Only)), None)
            kept = (
                only
                if not first_flags
                else [name for name in first_flags if only is None or name in only]
            )
            group = type(default) if kept is None else _without(type(default), kept)
            if group is not type(default):
                changed.append((field.name, Annotated[(group, *marks)], group()))
        elif first_flags and field.name not in first_flags:
            changed.append((field.name, Annotated[hint, Suppress], default))
    return _remade(args, changed) if changed else args


def _without(group: type, kept: Collection[str]) -> type:
    from tyro.conf import Suppress

    types = get_type_hints(group, include_extras=True)
    hidden = [
        (field.name, Annotated[types[field.name], Suppress], field.default)
        for field in dataclasses.fields(group)
        if field.name not in kept and Suppress not in getattr(types[field.name], "__metadata__", ())
    ]
    return _remade(group, hidden) if hidden else group


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


_FEW_SHOT = ("--shots", "--few-shot", "--n-shot", "--num-fewshot", "--num-shots")
SAME = {**dict.fromkeys(_FEW_SHOT, "--n-train"), "--limit": "--n-test"}
"""what other programs call a flag"""


def _check_flags(command: Command, args: type, words: list[str]) -> None:
    """Refuses flags that do not exist, and a flag given twice where only the last value would
    count; nothing is ever taken for the beginning of another flag.
    """
    name, listing = f"`fieldmark {command.name}`", f"`fieldmark {command.name} {command.listing}`"
    flag_of = {flag.name: flag for flag in _flags(args)}
    given: set[str] = set()
    for word, after in itertools.pairwise([*words, "--"]):
        if word == "--":
            return
        flag, equals, _ = word.partition("=")
        flag = flag.replace("_", "-")
        if not _is_flag(flag) or flag in ("--help", "--help-all"):
            continue
        if flag not in flag_of:
            hint = [name for name in flag_of if name.startswith(flag)]
            same = [name for name in flag_of if name == SAME.get(flag)]
            hint = same or hint or closest(flag, flag_of)
            mean = f" Did you mean {hint[0]}?" if hint else ""
            raise UsageError(f"{name} has no flag {flag}.{mean} {listing} shows all.")
        if not flag_of[flag].is_switch and not equals and (after == "--" or _is_flag(after)):
            raise UsageError(f"{flag} needs a value. {listing} shows all flags.")
        if flag in given:
            takes_many = flag_of[flag].default == ()
            one = f"Put all its values after one {flag}" if takes_many else "Give it once"
            raise UsageError(f"{flag} is given twice. {one}.")
        if not flag_of[flag].is_switch and not flag_of[flag].collects:
            given.add(flag)


def _is_flag(word: str) -> bool:
    return re.match(r"--[A-Za-z]", word) is not None


def _flags(args: type) -> list[_Flag]:
    """The flags of a command; a field that is a dataclass itself is a group of them."""
    from tyro.conf import Suppress

    flags: list[_Flag] = []
    types = get_type_hints(args, include_extras=True)
    for field in dataclasses.fields(args):
        if dataclasses.is_dataclass(field.default):
            flags.extend(_flags(type(field.default)))
        elif Suppress not in getattr(types[field.name], "__metadata__", ()):
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
)  # fmt: skip
"""what tyro says → what a person reads"""


def _quoted(name: str, words: list[str]) -> str:
    """The command with quotes, where several words in a row are a path that exists; else ""."""
    for start, stop in itertools.combinations(range(len(words) + 1), 2):
        path = " ".join(words[start:stop])
        if stop - start > 1 and len(path) < 256 and Path(path).exists():
            return " ".join(["fieldmark", name, *words[:start], f'"{path}"', *words[stop:]])
    return ""


def _first_line(box: str) -> str:
    """The message inside the frame that tyro draws around an error."""
    plain = COLOUR.sub("", box)
    lines = [re.sub(r"^-+$", "", line.strip("│╭╮╰╯─ ")) for line in plain.splitlines()[1:]]
    start = next((i for i, line in enumerate(lines) if line), 0)
    stop = next((i for i, line in enumerate(lines) if not line and i > start), len(lines))
    text = " ".join(lines[start:stop]).removesuffix(".")
    for pattern, template in _SLIPS:
        if match := re.fullmatch(pattern, text):
            text = match.expand(template)
    if match := re.fullmatch(r"Missing from .*?: (.*) \(required\)", text):
        flags = match[1].split(" (required) ")  # `--model MODEL what it is`
        text = ".\n".join(re.sub(r"^(--\S+) \S+|^(\S+)", r"\1\2 is missing:", of) for of in flags)
    return f"{text}."
