"""Command dispatch and exit codes: which command was asked for, and how does it end?

A file here without a leading underscore is a command (`data_make.py` is `fieldmark data make`,
`try_.py` is `fieldmark try`): its docstring is the help, its `DataMakeArgs` (or what `make_args()`
makes) the flags, its `run(args)` the work. Only the command asked for is imported, and nothing
heavy before it needs it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(__file__).parent
ORDER = (
    "try", "predict", "demo", "run", "plan", "status", "logs", "cancel",
    "table", "compare", "plot", "site", "serve", "export", "rescore",
    "tasks", "models", "datasets", "check", "data", "embed", "describe",
    "shards", "caption", "train", "cache", "runs",
)  # fmt: skip
"""what a newcomer needs first comes first; the rest follows by name"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; returns what the shell sees. 130 = interrupted."""
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words
    from fieldmark.errors import FieldmarkError

    try:
        return _dispatch(words)
    except FieldmarkError as error:
        if debug:
            raise
        print(f"fieldmark: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(
            "fieldmark: interrupted. Finished work is kept; the same command continues it.",
            file=sys.stderr,
        )
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0


def commands() -> dict[str, Path]:
    """`data make` → its file, in the order shown."""
    names = {
        path.stem.replace("_", " ").strip(): path
        for path in FOLDER.glob("*.py")
        if not path.name.startswith("_")
    }

    def place(name: str) -> tuple[int, str]:
        first = name.split()[0]
        return (ORDER.index(first) if first in ORDER else len(ORDER), name)

    return {name: names[name] for name in sorted(names, key=place)}


def _dispatch(words: list[str]) -> int:
    from fieldmark.cli._parse import parse

    if not words or words[0] in ("-h", "--help", "help"):
        print(_overview())
        return 0
    if words[0] in ("-V", "--version", "version"):
        from fieldmark.registry import app_version

        print(f"fieldmark {app_version()}")
        return 0
    known = commands()
    for length in (2, 1):
        name = " ".join(words[:length])
        if name in known:
            return parse(name, known[name], words[length:])
    return _unknown(words, known)


def _unknown(words: list[str], known: dict[str, Path]) -> int:
    from fieldmark.errors import UnknownName

    inner = [name for name in known if name.startswith(f"{words[0]} ")]
    if inner and (len(words) == 1 or words[1] in ("-h", "--help")):
        print(_overview(inner))
        return 0 if len(words) > 1 else 2
    if inner:
        raise UnknownName("command", " ".join(words[:2]), inner, f"fieldmark {words[0]} --help")
    if words[0].endswith((".toml", ".yaml", ".yml")):
        from fieldmark.errors import UsageError

        does = (
            f"run {words[0]}" if words[0].endswith(".toml") else f"run --task {words[0]} --model M"
        )
        raise UsageError(
            f"{words[0]!r} is not a command: `fieldmark check {words[0]}` checks the file, "
            f"`fieldmark {does}` runs it."
        )
    firsts = dict.fromkeys(name.split()[0] for name in known)
    raise UnknownName("command", words[0], firsts, "fieldmark --help")


def _overview(only: Sequence[str] = ()) -> str:
    import ast

    rows = []
    for name, path in commands().items():
        if not only or name in only:
            text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            rows.append(f"  {name:<14}{text.splitlines()[0]}")
    if only:
        return "\n".join(["usage: fieldmark COMMAND [flags]", "", *rows])
    return "\n".join(
        [
            "fieldmark measures how well any vision model does real biology and says which to use.",
            "",
            "  fieldmark demo                                        one minute, no download",
            "  fieldmark run --model classical/colour --task newt    one run (try `plan` first)",
            "  fieldmark table                                       the results so far",
            "",
            "commands:",
            *rows,
            "",
            "`fieldmark COMMAND --help` shows the flags of a command; --debug shows tracebacks.",
        ]
    )
