"""Command dispatch and exit codes: which command was asked for, and how does it end?

A file of a folder here is a command: `results/table.py` is `fieldmark table`, with a class
`TableArgs` (or `make_args()`) for its flags, the docstring for its help and `run(args)` for its
work. A file without such a class is a family of commands: in `data/data.py`, `DataMakeArgs` and
`make(args)` are `fieldmark data make`. A leading underscore keeps a file from being a command.
Other packages add commands by an entry point in the group `fieldmark.commands`: a module with a
docstring, `Args` and `run(args)`. Only the command asked for is imported, and nothing heavy before
it needs it.
"""

from __future__ import annotations

import errno
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from fieldmark.cli.show import show, spell_out, talk

FILES = {path.stem.strip("_"): path for path in Path(__file__).parent.glob("*/[!_]*.py")}
"""of commands, by name"""
PLUGINS = "fieldmark.commands"
GROUPS = {
    "get an answer": "demo* try* predict* run* plan",
    "data": "check* models* tasks* data datasets embed",
    "results": "table* site* compare plot serve export rescore",
    "build a model": "train* describe shards caption",
    "cluster": "jobs*",
    "housekeeping": "doctor* runs cache",
}
"""what the overview shows, in this order; the starred ones on the first screen"""
MACHINE = {
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ELOOP,
    errno.ENAMETOOLONG, errno.ESTALE,
}  # fmt: skip
"""errors of a disk or of permissions, which no code of ours can mend"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; returns what the shell sees. 130 = interrupted."""
    words = list(sys.argv[1:] if argv is None else argv)
    if argv is None:  # a process of its own
        spell_out()
    debug = "--debug" in words
    from fieldmark.errors import FieldmarkError

    try:
        return _dispatch(words)
    except FieldmarkError as error:
        if debug:
            raise
        talk(f"fieldmark: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        talk("fieldmark: interrupted. Finished work is kept; run the same command to continue it.")
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except OSError as error:
        if debug or error.filename is None or error.errno not in MACHINE:
            raise
        talk(f"fieldmark: {error.filename}  cannot be used: {error.strerror}.")
        return 3


def commands() -> dict[str, str]:
    """`data make` → what it does, in the order shown. Imports no command."""
    every: dict[str, str] = {}
    listed = [name.strip("*") for names in GROUPS.values() for name in names.split()]
    for name in [*listed, *sorted(set(FILES) - set(listed))]:
        text = FILES[name].read_text(encoding="utf-8")
        every |= {f"{name} {inner}": about for inner, about in _members(name, text).items()} or {
            name: _first_sentence(text)
        }
    from fieldmark.registry import entry_points_of

    return every | {name: f"from {one.value}" for name, one in entry_points_of(PLUGINS).items()}


def _members(name: str, text: str) -> dict[str, str]:
    """The commands of a family, by the classes of their flags; {} for a single command."""
    classes = re.findall(rf'^class {name.capitalize()}(\w+)Args\b.*:\n    """(.*)', text, re.M)
    return {inner.lower(): _first_sentence(about) for inner, about in classes}


def _first_sentence(text: str) -> str:
    return re.sub(r"(?<=[.?])(?:\s.*|\"*)$", "", text.removeprefix('"""').partition("\n")[0])


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "--help-all", "help"):
        show(_overview(is_whole=words[:1] == ["--help-all"]))
        return 0
    if words[0] in ("-V", "--version", "version"):
        from fieldmark.registry import app_version

        show(f"fieldmark {app_version()}")
        return 0
    from fieldmark.cli.parse import find, parse

    for length in (2, 1):
        command = find(words[:length], FILES, PLUGINS)
        if command is not None:
            return parse(command, words[length:])
    listing = find([words[0], "ls"], FILES)
    if listing is not None and (len(words) == 1 or re.match("-(?!h|-help)", words[1])):
        return parse(listing, words[1:])
    return _unknown(words)


def _unknown(words: list[str]) -> int:
    from fieldmark.errors import UnknownName, UsageError

    all_commands = commands()
    inner = [name for name in all_commands if name.startswith(f"{words[0]} ")]
    if inner and (len(words) == 1 or words[1] in ("-h", "--help", "--help-all")):
        rows = [f"  {name:<14}{all_commands[name]}" for name in inner]
        usage = f"usage: fieldmark {words[0]} COMMAND [flags]"
        show("\n".join([usage, "", *rows]))
        return 0 if len(words) > 1 else 2
    if inner:
        raise UnknownName("command", " ".join(words[:2]), inner, f"fieldmark {words[0]} --help")
    if words[0].endswith((".toml", ".yaml", ".yml")):
        does = (
            f"run {words[0]}" if words[0].endswith(".toml") else f"run --task {words[0]} --model M"
        )
        raise UsageError(
            f"{words[0]!r} is not a command: `fieldmark check {words[0]}` checks the file, "
            f"`fieldmark {does}` runs it."
        )
    firsts = dict.fromkeys(name.split()[0] for name in all_commands)
    raise UnknownName("command", words[0], firsts, "fieldmark --help-all")


def _overview(is_whole: bool) -> str:
    all_commands = commands() if is_whole else {}
    groups = [_group(title, names.split(), all_commands) for title, names in GROUPS.items()]
    listed = {name.strip("*") for names in GROUPS.values() for name in names.split()}
    others = [name for name in all_commands if name.split()[0] not in listed]
    groups += [_group("added", others, all_commands)] if others else []
    more = "" if is_whole else "`fieldmark --help-all` lists all commands. "
    lines = [line for group in groups for line in group]
    return "\n".join(
        [
            "fieldmark measures how well vision models do biology, and says which to use.",
            *lines,
            "",
            f"{more}`fieldmark COMMAND --help` shows one.",
        ]
    )


def _group(title: str, names: Iterable[str], all_commands: dict[str, str]) -> list[str]:
    """The lines of a group: those on the first screen, or all commands that are known."""
    rows = []
    for name in names:
        if all_commands:
            members = [one for one in all_commands if one.split()[0] == name.strip("*").split()[0]]
            rows += [(one, all_commands[one]) for one in members]
        elif name.endswith("*"):
            text = FILES[name.strip("*")].read_text(encoding="utf-8")
            rows.append((name.strip("*"), _first_sentence(text)))
    return ["", f"{title}:", *(f"  {name:<14}{about}" for name, about in rows)]
