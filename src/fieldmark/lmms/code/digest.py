"""Files of task code: which ones stand behind the functions of a task, and did one change?

What a file imports and names is read by `fieldmark.code`; here is where `!function` finds it: in
the folders that the user named, beside the file, and as a module of lmms-eval's tasks.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from fieldmark.code import digest_of, facts_of, file_digest
from fieldmark.lmms.code.imports import TASKS, ModulePaths, find_file, module_path
from fieldmark.lmms.code.trust import Function, Trust
from fieldmark.source_lines import is_file


def code_digest(functions: Iterable[Function], trust: Trust) -> str:
    """Changes when a file behind the functions does; the same wherever the folders lie."""
    files = code_files(functions, trust)
    top = os.path.commonpath([file.parent for file in files]) if files else ""
    contents = {f"!function {function.text}": b"" for function in functions}
    contents |= {file.relative_to(top).as_posix(): file_digest(file) for file in files}
    return digest_of(contents)


def code_files(functions: Iterable[Function], trust: Trust) -> set[Path]:
    """Every file that the functions' code consists of, resolved."""
    modules = ModulePaths(trust)
    seen: set[Path] = set()
    waiting = {find_file(function, trust).resolve() for function in functions}
    while waiting:
        path = waiting.pop()
        seen.add(path)
        if path.suffix == ".py":
            named = {file.resolve() for file in _named_by(path, modules) if modules.allows(file)}
            waiting |= named - seen
    return seen


JUDGES = "lmms_eval.llm_judge"


def asks_judge(functions: Iterable[Function], trust: Trust) -> bool:
    """Does a file behind the functions import what asks a judge? No code is run."""
    files = [file for file in code_files(functions, trust) if file.suffix == ".py"]
    imports = (module for file in files for _, module, _ in facts_of(file.read_bytes()).imports)
    return any(f"{module}.".startswith(f"{JUDGES}.") for module in imports)


def _named_by(path: Path, modules: ModulePaths) -> Iterator[Path]:
    source = facts_of(path.read_bytes())
    for dots, module, names in source.imports:
        if dots:
            stem = path.parents[min(dots, len(path.parents)) - 1].joinpath(*module.split("."))
            for inner in (stem, *(stem / name for name in names)):
                yield from _file_of(module_path(inner))
        else:
            for name in (module, *(f"{module}.{name}" for name in names)):
                yield from _absolute(name, path, modules)
    for text in source.texts:
        if text.isprintable() and is_file(path.parent / text):
            yield path.parent / text


def _absolute(name: str, path: Path, modules: ModulePaths) -> Iterator[Path]:
    """Modules of lmms-eval's tasks with the packages around them, or files near this one."""
    parts = name.split(".")
    if name.startswith(f"{TASKS}."):
        for i in range(3, len(parts) + 1):
            yield from _file_of(modules.of_task_module(".".join(parts[:i])))
        return
    for folder in (path.parent, path.parent.parent):
        yield from _file_of(module_path(folder.joinpath(*parts)))


def _file_of(path: Path | None) -> Iterator[Path]:
    if path is not None:
        file = path / "__init__.py" if path.is_dir() else path
        if file.is_file():
            yield file
