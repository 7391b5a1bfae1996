"""Hash of task code: which files stand behind the functions of a task, and did one change?

Read, not run: the file of each function, the files of the named folders that it imports anywhere
(also inside functions), theirs, and the files beside them whose names they spell out.
"""

from __future__ import annotations

import ast
import os
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

from fieldmark import draws
from fieldmark.code import called_name, joined_texts, texts_in
from fieldmark.lmms.code.imports import TASKS, ModulePaths, find_file, module_path
from fieldmark.lmms.code.trust import Function, Trust
from fieldmark.source_lines import is_file

LONGEST_NAME = 200
"""characters of a text that may be the name of a file"""


def code_digest(functions: Iterable[Function], trust: Trust) -> str:
    """Changes when a file behind the functions does; the same wherever the folders lie."""
    wanted = sorted({function.text for function in functions})
    files = code_files(functions, trust)
    top = os.path.commonpath([file.parent for file in files]) if files else ""
    parts = sorted(
        f"{file.relative_to(top).as_posix()} {draws.digest(file.read_bytes()).hex()}"
        for file in files
    )
    return draws.digest(*wanted, "", *parts).hex()


def code_files(functions: Iterable[Function], trust: Trust) -> set[Path]:
    """Every file that the functions' code consists of, resolved."""
    places = ModulePaths(trust)
    seen: set[Path] = set()
    waiting = {find_file(function, trust).resolve() for function in functions}
    while waiting:
        path = waiting.pop()
        seen.add(path)
        if path.suffix == ".py":
            waiting |= {file for file in _named_by(path, places) if file not in seen}
    return seen


def syntax_of(path: Path) -> ast.Module:
    """What the file says, without running it; nothing where it is no Python."""
    try:
        with warnings.catch_warnings():  # about other people's escape sequences
            warnings.simplefilter("ignore")
            return ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def _named_by(path: Path, places: ModulePaths) -> set[Path]:
    tree = syntax_of(path)
    named = {file for node in ast.walk(tree) for file in _of_node(node, path, places)}
    return {file.resolve() for file in named if places.allows(file)}


def _of_node(node: ast.AST, path: Path, places: ModulePaths) -> Iterator[Path]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield from _absolute(alias.name, path, places)
    elif isinstance(node, ast.ImportFrom):
        yield from _imported_from(node, path, places)
    elif isinstance(node, ast.Constant | ast.BinOp | ast.Call):
        if isinstance(node, ast.Call) and called_name(node).endswith("import_module"):
            for name in texts_in(node)[:1]:
                yield from _absolute(name, path, places)
        for text in joined_texts(node):
            yield from _beside(text, path)


def _imported_from(node: ast.ImportFrom, path: Path, places: ModulePaths) -> Iterator[Path]:
    name = node.module or ""
    if node.level == 0:
        for module in (name, *(f"{name}.{part.name}" for part in node.names)):
            yield from _absolute(module, path, places)
        return
    stem = path.parents[min(node.level, len(path.parents)) - 1].joinpath(*name.split("."))
    for inner in (stem, *(stem / part.name for part in node.names)):
        yield from _file_of(module_path(inner))


def _absolute(name: str, path: Path, places: ModulePaths) -> Iterator[Path]:
    """Modules of lmms-eval's tasks with the packages around them, or files near this one."""
    if name.startswith(f"{TASKS}."):
        parts = name.split(".")
        for i in range(3, len(parts) + 1):
            yield from _file_of(places.of_task_module(".".join(parts[:i])))
        return
    parts = name.split(".")
    for folder in (path.parent, path.parent.parent):
        yield from _file_of(module_path(folder.joinpath(*parts)))


def _file_of(path: Path | None) -> Iterator[Path]:
    if path is None:
        return
    file = path / "__init__.py" if path.is_dir() else path
    if file.is_file():
        yield file


def _beside(text: str, path: Path) -> Iterator[Path]:
    if text and len(text) <= LONGEST_NAME and text.isprintable():
        file = path.parent / text
        if is_file(file):
            yield file
