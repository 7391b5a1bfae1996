"""Where do the modules that task code names lie on disk?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import fieldmark
from fieldmark.errors import UsageError, meant
from fieldmark.lmms.read.marks import Function, Trust
from fieldmark.locate import is_file, is_folder

ROOT = "lmms_eval"
TASKS = "lmms_eval.tasks"
_PACKAGE = Path(fieldmark.__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Places:
    """The files of the folders the user named, by module name."""

    trust: Trust

    def allows(self, path: Path) -> bool:
        """May this file run? Those of named folders, and the package's own."""
        return self.trust.allows(path) or path.resolve().is_relative_to(_PACKAGE)

    def tasks_folders(self) -> list[Path]:
        """The folders that stand for lmms_eval/tasks: around, in, or as the named ones."""
        found: list[Path] = []
        for folder in self.trust.folders:
            around = [each for each in (folder, *folder.parents) if _is_tasks_folder(each)]
            found += [*around[:1], folder / ROOT / "tasks", folder / "tasks", folder]
        return list(dict.fromkeys(found))

    def of_task_module(self, name: str) -> Path | None:
        """The file or folder of `lmms_eval.tasks.a.b`, if a named folder holds it."""
        first, *rest = name.removeprefix(f"{TASKS}.").split(".")
        found = (module_path(each.joinpath(first, *rest)) for each in self.tasks_folders())
        return next((each for each in found if each and self.allows(each)), None)

    def in_folders(self, name: str, folders: Iterable[Path]) -> Path | None:
        """The file or package `name` of the first folder that has it."""
        for folder in folders:
            found = module_path(folder / name)
            is_package = found is not None and (found / "__init__.py").is_file()
            if found is not None and (found.is_file() or is_package) and self.allows(found):
                return found
        return None


def _is_tasks_folder(folder: Path) -> bool:
    return folder.name == "tasks" and folder.parent.name == ROOT


def module_path(stem: Path) -> Path | None:
    """A package `stem/`, else `stem.py`, else a folder `stem/` that may hold modules."""
    file = stem.with_name(f"{stem.name}.py")
    if is_file(stem / "__init__.py"):
        return stem
    if is_file(file):
        return file
    return stem if is_folder(stem) else None


def find_file(function: Function, trust: Trust) -> Path:
    """The file of the module: beside the YAML file, else in lmms-eval's tasks as it was named."""
    stem, _, name = function.text.rpartition(".")
    if not stem or not name.isidentifier():
        raise UsageError(
            f"{function.place}  {str(function)!r} cannot be read: expected !function file.name, "
            "for example utils.doc_to_text."
        )
    beside = function.file.parent / f"{stem}.py"
    found: Path | None = beside if _is_stem(stem) and is_file(beside) else None
    if found is None and stem.startswith(f"{TASKS}."):
        found = Places(trust).of_task_module(stem)
        found = found / "__init__.py" if found and found.is_dir() else found
    if found is None or not found.is_file():
        raise UsageError(f"{function.place}  {_no_file(function, stem)}")
    if not Places(trust).allows(found):
        raise UsageError(
            f"{function.place}  {function} lies in {found.resolve()}, outside the folders whose "
            f"code may run ({trust.words()}): name its folder too."
        )
    return found


def _is_stem(stem: str) -> bool:
    return not any(each in stem for each in ("/", "\\", "\0")) and stem not in (".", "..")


def _no_file(function: Function, stem: str) -> str:
    folder = function.file.parent
    if stem.startswith(f"{TASKS}."):
        return f"no folder that was named holds {stem}: name lmms-eval's tasks folder too."
    known = sorted(each.stem for each in folder.glob("*.py"))
    where = "beside this file" if str(folder) == "." else f"in {folder}"
    return f"there is no {stem}.py {where}.{meant(stem, known)}"
