"""Calling task code: what does the code behind `!function` give, and how are its errors told?

Code comes only from folders the user named (`Trust`). Whatever goes wrong in it, at import or when
it is called, is one line that names the place in the task file, the document, the error and the
line of the code. How modules are found and what they can import: `imports`.
"""

from __future__ import annotations

import contextlib
import inspect
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fieldmark import draws
from fieldmark.code import names_in
from fieldmark.errors import CodeNotRun, FieldmarkError, ModelError, UsageError, meant
from fieldmark.lmms.code.dialogue import JudgeSilent, NetworkRefused, NoJudgement
from fieldmark.lmms.code.imports import CodeLoader, ModulePaths, find_file, loader
from fieldmark.lmms.code.inside import code_runs
from fieldmark.lmms.code.trust import MARK, Function, Trust
from fieldmark.registry import innermost_frame, may_run, named_instead

if TYPE_CHECKING:
    import numpy as np

_SPARE: list[np.random.MT19937] = []
"""generators that stand in numpy's place while task code runs, kept since making one is slow"""


FAILURES = (Exception, NoJudgement, NetworkRefused, SystemExit)
"""what may come out of task code"""


@dataclass(frozen=True, slots=True)
class FreshFunction:
    """A function of task code whose modules are run anew, so that they remember nothing."""

    function: Function
    trust: Trust
    path: Path
    """absolute: aggregations stand in a folder of their own"""

    def __call__(self) -> tuple[Any, CodeLoader]:
        """The function, and the loader that holds its modules."""
        fresh = CodeLoader(ModulePaths(self.trust))
        return _load(self.function, self.path, fresh), fresh


def load_function(function: Function, trust: Trust) -> Any:
    """The object that `!function module.name` stands for. Runs its file, once per content."""
    path = find_file(function, trust)
    if not may_run():
        refuse_function(function, path)
    return _load(function, path, loader(trust))


def _load(function: Function, path: Path, modules: CodeLoader) -> Any:
    try:
        with _talking(), code_runs(is_import=True):
            module = modules.run_file(path)
    except FAILURES as error:
        raise UsageError(f"{function.where}  {function}: {describe_error(error, path)}.") from error
    name = function.text.rpartition(".")[2]
    if not hasattr(module, name):
        raise UsageError(
            f"{function.where}  {path.name} has no {name!r}.{named_instead(module, name)}"
        )
    return getattr(module, name)


def refuse_function(function: Function, path: Path) -> None:
    """What the source of its file says against it; else that it is not run to look."""
    name = function.text.rpartition(".")[2]
    try:
        names = names_in(path)
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"{function.where}  {function}: {describe_error(error, path)}.") from error
    if names is not None and name not in names:
        raise UsageError(f"{function.where}  {path.name} has no {name!r}.{meant(name, names)}")
    raise CodeNotRun(f"{function.where}  {path.name}")


def call(
    function: Callable[..., Any],
    *args: Any,
    where: str,
    document: object = None,
    **options: Any,
) -> Any:
    """What the function returns; its exceptions become one line about `where` and the document."""
    try:
        with _talking(), code_runs():
            return function(*args, **options)
    except FAILURES as error:
        if isinstance(error, FieldmarkError) and str(error).startswith(where):
            raise
        about = "" if document is None else f"document {document}: "
        name = getattr(function, "__name__", type(function).__name__)
        kind = ModelError if isinstance(error, JudgeSilent) else UsageError
        raise kind(f"{where}  {about}{name} failed: {describe_error(error)}.") from error


def takes(function: Callable[..., Any], *args: Any, **options: Any) -> bool:
    """Can the function be called with these?"""
    try:
        inspect.signature(function).bind(*args, **options)
    except TypeError:
        return False
    except ValueError:  # some built-in functions tell nothing of themselves
        return True
    return True


@contextlib.contextmanager
def _talking() -> Iterator[None]:
    """What code prints belongs to the talk: stdout is for data. And it moves nobody elsewhere:
    tasks and results may be named from the folder the user stands in.
    """
    with contextlib.chdir("."), contextlib.redirect_stdout(sys.stderr):
        yield


def describe_error(error: BaseException, path: Path | None = None) -> str:
    """`utils.py:12 KeyError: 'answer'`: the last line of task code that was on the way."""
    if isinstance(error, FieldmarkError | NoJudgement | NetworkRefused):
        return " ".join(str(error).split()).rstrip(".")
    where = _place(error)
    if where is None and path is not None:
        where = path.name
    start = f"{where} " if where else ""
    if isinstance(error, ModuleNotFoundError):
        missing = missing_package(error)
        if missing:
            return f"{start}{missing}"
    return f"{start}{one_line(error)}"


def one_line(error: BaseException) -> str:
    """The kind and the text of an error, at most 300 characters of it."""
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    flat = " ".join(text.split()).rstrip(".")
    flat = flat if len(flat) <= 300 else f"{flat[:297]}..."
    if isinstance(error, SystemExit):
        return f"the code ended the program (SystemExit: {flat})"
    return f"{type(error).__name__}: {flat}" if flat else type(error).__name__


def _place(error: BaseException) -> str | None:
    """`folder/file.py:line` of the innermost frame that is task code."""
    if isinstance(error, SyntaxError) and error.filename:
        return _short(Path(error.filename), error.lineno or 1)
    place = innermost_frame(error, MARK)
    return None if place is None else _short(Path(place[0]), place[1])


def _short(path: Path, line: int) -> str:
    return f"{path.parent.name}/{path.name}:{line}"


@contextlib.contextmanager
def seeded(seed: int, *keys: object) -> Iterator[None]:
    """Python's and numpy's global random states, set for these keys and put back after.

    Task code draws from them. They belong to the whole process: not for several threads at once.
    """
    import numpy as np
    from numpy.random import mtrand

    number = draws.number(seed, *keys, "task code")
    # Another generator in numpy's place: reading and writing its state takes three times as long.
    spare = _SPARE.pop() if _SPARE else np.random.MT19937()
    python_state, numpy_own = random.getstate(), mtrand.get_bit_generator()
    random.seed(number)
    mtrand.set_bit_generator(spare)
    np.random.seed(number % 2**32)
    try:
        yield
    finally:
        random.setstate(python_state)
        mtrand.set_bit_generator(numpy_own)
        _SPARE.append(spare)


INSTALLED_AS = {
    "Levenshtein": "levenshtein",
    "PIL": "pillow",
    "azure": "azure-identity",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "dotenv": "python-dotenv",
    "google": "google-genai",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
"""names that are imported → what they are called where one installs them, if that differs"""
OF_EXTRA = {"datasets": "hub", "loguru": "hub", "sacrebleu": "hub", "torch": "vision"}


def missing_package(error: ModuleNotFoundError) -> str:
    """`needs the package 'x', …`; "" when the error is not about a package that can be had."""
    name = (error.name or "").partition(".")[0]
    if not name or name in ("lmms_eval", "fieldmark") or not str(error).startswith("No module"):
        return ""
    install = INSTALLED_AS.get(name, name)
    if name in OF_EXTRA:
        install = f"'fieldmark[{OF_EXTRA[name]}]'"
    return f"needs the package {name!r}, which is not installed: `pip install {install}`"
