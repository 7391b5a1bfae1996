"""Exceptions and exit codes: which code does a mistake get, and how is it told to a person?

One tree, drawn once. Every error a user can cause is a `FieldmarkError` whose text is one line (or
one line per problem): what was found, what was expected, what to do. Anything else is a bug in
fieldmark and keeps its traceback. This module imports nothing heavy: the command line loads it
first.

    FieldmarkError        1
    ├── UsageError        2   a flag, a name, a configuration, task or experiment file is wrong
    │   ├── UnknownName   2   a name nobody registered; carries the closest ones
    │   └── CodeNotRun    2   a command that only looks met code it would have to run
    ├── DataError         3   a dataset, a table, an image or the store cannot be used as it is
    │   └── StoreError    3   the results file is locked, read-only, damaged or from a newer version
    ├── ModelError        4   weights, model code or the network failed
    │   ├── BudgetSpent   4   a limit of cost is reached; the same command continues
    │   ├── MissingExtra  4   the packages of an optional extra are not installed
    │   └── OutOfMemory   4   the device has too little memory even for the smallest batch
    └── RunsFailed        5   some runs failed, the others were kept
        ├── ClaimLost     5   another process is on the run
        ├── BatchPending  5   questions wait in a batch of the provider
        └── Diverged      5   training has gone wrong: no number, or a loss far above the usual
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


class FieldmarkError(Exception):
    """A problem the user can mend. `str(error)` is what is printed, one line per problem."""

    exit_code = 1
    is_recorded: bool | None = None
    """is a run that ends so kept as failed? Not where a name, file or address was wrong from the
    start; None: only if its model was loaded"""


class UsageError(FieldmarkError):
    exit_code = 2


class UnknownName(UsageError):
    """A name that is not registered: names the closest ones and the command that lists all."""

    def __init__(
        self,
        kind: str,
        name: str,
        names: Iterable[str],
        listing: str = "",
        where: str = "",
        *,
        is_close: bool = False,
    ) -> None:
        """`is_close`: the known names are those to suggest."""
        self.kind, self.name = kind, name
        self.closest = list(names) if is_close else closest(name, names)
        is_here = " in these " in kind or " of these " in kind  # `model in these results`
        text = f"No {kind} is called {name!r}." if is_here else f"{kind} {name!r} is not known."
        if self.closest:
            text += f" Did you mean {' or '.join(map(repr, self.closest))}?"
        if listing:
            text += f" `{listing}` lists all."
        super().__init__(at(where, None, text))


class CodeNotRun(UsageError):
    """Only running a file of code would tell, and this command only looks."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(f"{path}  contains code, which was not run: add --run-code to run it.")


class DataError(FieldmarkError):
    exit_code = 3


class StoreError(DataError):
    """`may_pass`: may the same file be read a while later, or by a newer fieldmark?"""

    def __init__(self, text: str, may_pass: bool = False) -> None:
        super().__init__(text)
        self.may_pass = may_pass


class ModelError(FieldmarkError):
    exit_code = 4


class BudgetSpent(ModelError):
    pass


class MissingExtra(ModelError):
    """An optional dependency is absent: says what wants it and the line that installs it."""

    def __init__(self, wanted_by: str, extra: str, package: str) -> None:
        super().__init__(
            f"{wanted_by} needs the package {package!r}, which is not installed: "
            f"type `pip install '.[{extra}]'` in the folder you cloned (with uv: `uv sync --extra "
            f"{extra}`; from an index: `pip install 'fieldmark[{extra}]'`)."
        )


class OutOfMemory(ModelError):
    is_recorded = True


class RunsFailed(FieldmarkError):
    exit_code = 5


class ClaimLost(RunsFailed):
    pass


class BatchPending(RunsFailed):
    pass


class Diverged(RunsFailed):
    pass


def closest(name: str, names: Iterable[str], most: int = 2) -> list[str]:
    """The known names most like `name`, best first; case and the kind of dash do not count.

    >>> closest("Macro-Acuracy", ["accuracy", "macro_accuracy", "macro_f1"])
    ['macro_accuracy']
    """
    import difflib

    by_fold: dict[str, str] = {}
    for candidate in names:
        by_fold.setdefault(_fold(candidate), candidate)
    folded = _fold(name)
    matches = difflib.get_close_matches(folded, by_fold, n=most, cutoff=0.6)
    ratios = [difflib.SequenceMatcher(None, candidate, folded).ratio() for candidate in matches]
    return [
        by_fold[candidate]
        for candidate, ratio in zip(matches, ratios, strict=True)
        if ratio > max(ratios) - 0.1
    ]


def _fold(name: str) -> str:
    return name.lower().replace("_", "-")


def at(path: Path | str, line: int | None, text: str) -> str:
    """`file:line  text`, the form every message about a file has; the text alone without a file."""
    place = f"{path}:{line}" if line else str(path)
    return f"{place}  {text}" if place else text


_PLACE = re.compile(
    r"^(?:fieldmark: )?(?P<place>\S(?:(?!  )[^\n])*)(?<!:)  (?=\S)(?=(?P<next>\w*))", re.M
)
_VERBS = (
    "is", "are", "was", "has", "contains", "does", "cannot", "could", "lacks", "lists", "names",
    "gives", "changed", "now", "would", "lies", "failed",
)  # fmt: skip


def readable(text: str) -> str:
    """Messages as a person reads them: after the place one blank, or a colon where no sentence
    goes on. Inside, two blanks stand there, because names of files have single ones.

    >>> readable("my birds.csv  is empty."), readable("a.yaml:3  key 'tsk' is not known.")
    ('my birds.csv is empty.', "a.yaml:3: key 'tsk' is not known.")
    """

    def ended(one: re.Match[str]) -> str:
        if one["place"] in ("error", "warning", "note"):
            return one[0]
        goes_on = one["next"] in _VERBS and not re.search(r":\d+$", one["place"])
        return one[0].rstrip() + (" " if goes_on else ": ")

    # a file may name another: `grid.toml:4: brids.yaml does not exist`
    return re.sub(r"(:\d+: \S+)  (?=\w)", r"\1 ", _PLACE.sub(ended, text))


def meant(name: str, names: Iterable[str]) -> str:
    """` Did you mean 'x'?`, or nothing where no known name is close."""
    near = closest(name, names, most=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def meant_path(path: Path) -> str:
    """The same for a file or folder that does not exist: one of its kind beside it."""
    try:
        names = [file.name for file in path.parent.iterdir() if file.suffix == path.suffix]
    except OSError:
        return ""
    near = closest(path.name, names, most=1)
    return f" Did you mean {str(path.with_name(near[0]))!r}?" if near else ""


def join_problems(problems: Sequence[str], ending: str = "nothing was started") -> str:
    """One line per problem and, from two on, a closing count."""
    if len(problems) == 1:
        return problems[0]
    return "\n".join([*problems, f"{len(problems)} problems, {ending}."])


def first_line(error: BaseException) -> str:
    """An error in one line, without its final full stop.

    >>> first_line(ValueError("too wide.\nsee above"))
    'ValueError: too wide'
    """
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0].rstrip('.')}" if lines else type(error).__name__


def plain_reason(error: Exception) -> str:
    """What is wrong, without the file's name before it and the full stop behind it.

    >>> plain_reason(DataError("data/a.jpg  is missing."))
    'is missing'
    """
    text = str(error)
    return (text.partition("  ")[2] or text).rstrip(".")


@contextmanager
def naming_model(model: str, doing: str) -> Iterator[None]:
    """Whatever a model's own code raises inside, as a `ModelError` with its name in one line."""
    try:
        yield
    except FieldmarkError:
        raise
    except Exception as error:
        failure = ModelError(
            f"model {model!r} failed in {doing}: {first_line(error)} (--debug shows where)."
        )
        failure.is_recorded = True  # with its traceback
        raise failure from error
