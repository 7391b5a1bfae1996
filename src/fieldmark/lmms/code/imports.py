"""Import system of task code: how is a file loaded, what can it import, and from where?

A file runs once for its content and the folders the user named; its globals are shared by all
functions taken from it. Modules of such files carry their own `__import__`: `lmms_eval.tasks.…`
is looked for in the named folders, every other `lmms_eval.…` is fieldmark's compatibility package,
`from .x import y` means a file beside, and the rest is imported as ever. Nobody else's imports
change: `import lmms_eval` anywhere outside this code fails, or finds what is installed, as before.
"""

from __future__ import annotations

import builtins
import contextlib
import hashlib
import importlib
import importlib.util
import os
import pickle
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import fieldmark
from fieldmark import draws
from fieldmark.errors import UsageError, meant
from fieldmark.lmms.code.trust import MARK, Function, Trust
from fieldmark.lmms.compat import MODULES, NOT_RUN
from fieldmark.source_lines import is_file, is_folder

_lock = threading.RLock()


@lru_cache(maxsize=64)
def loader(trust: Trust) -> CodeLoader:
    """The loader of these folders; what it loaded stays loaded."""
    return CodeLoader(ModulePaths(trust))


def _kept(module: ModuleType) -> dict[str, object]:
    defined = [
        thing
        for thing in vars(module).values()
        if getattr(thing, "__module__", "") == module.__name__
    ]
    spaces: dict[str, Mapping[str, object]] = {"": vars(module)}
    spaces |= {thing.__name__: vars(thing) for thing in defined if isinstance(thing, type)}
    for function in (thing for thing in defined if isinstance(thing, FunctionType)):
        spaces[function.__name__] = {"": function.__defaults__, **vars(function)}
    kept: dict[str, object] = {}
    for space, names in spaces.items():
        for name, value in names.items():
            if not (name.startswith("__") or callable(value) or isinstance(value, ModuleType)):
                with contextlib.suppress(Exception):  # whatever its own kind of value does
                    kept[f"{space}.{name}"] = pickle.dumps(value)
    return kept


def forget_code() -> None:
    """Files run again when they are asked for the next time."""
    loader.cache_clear()
    for name in [name for name in sys.modules if name.startswith(MARK)]:
        del sys.modules[name]


class Namespace(ModuleType):
    """A package without a file of its own: its parts are found when they are asked for."""

    def __init__(self, name: str, find: Callable[[str], ModuleType]) -> None:
        super().__init__(name)
        vars(self)["__path__"] = []
        vars(self)["_find"] = find

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            try:
                return vars(self)["_find"](name)
            except ModuleNotFoundError as error:
                if error.name is not None and error.name.rpartition(".")[2] != name:
                    raise
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


@dataclass(frozen=True, slots=True)
class CodeLoader:
    places: ModulePaths
    by_content: dict[tuple[Path, str], ModuleType] = field(default_factory=dict)
    spaces: dict[str, ModuleType] = field(default_factory=dict)

    def run_file(self, path: Path, search: Sequence[Path] = ()) -> ModuleType:
        """The module of a file; runs it unless this content ran before."""
        real = path.resolve()
        if not self.places.allows(real):
            named = self.places.trust.words()
            raise ImportError(f"{path} lies outside the folders that were named ({named})")
        content = real.read_bytes()
        key = real, hashlib.blake2b(content, digest_size=8).hexdigest()
        with _lock:
            if key not in self.by_content:
                self._run(content, key, list(search))
            return self.by_content[key]

    def state(self) -> list[object]:
        """What the modules remember, to compare with later: data in their globals, in classes and
        in defaults of functions.
        """
        return [_kept(module) for module in self.by_content.values()]

    def absolute(self, name: str, names: Sequence[str]) -> ModuleType:
        """`import lmms_eval.a.b` gives the first part, `from lmms_eval.a.b import c` the last."""
        parts = name.split(".")
        module = self._find(ROOT)
        for i, part in enumerate(parts[1:], start=2):
            inner = self._find(".".join(parts[:i]))
            _set_part(module, part, inner)
            module = inner
        for part_name in names:
            if part_name != "*" and not hasattr(module, part_name):
                self._bring_part(module, f"{name}.{part_name}")
        return module if names else self._find(ROOT)

    def beside(self, stem: Path, names: Sequence[str], search: Sequence[Path]) -> ModuleType:
        """What `from .stem import wanted` gives, whatever folder it is taken from."""
        path = module_path(stem)
        if path is None:
            raise ModuleNotFoundError(
                f"there is no {stem.name}.py in {stem.parent}", name=stem.name
            )
        module = self._of_path(path, str(path), search)
        for part in names if path.is_dir() else ():
            if part not in vars(module) and module_path(path / part) is not None:
                vars(module)[part] = self.beside(path / part, (), search)
        return module

    def bare(
        self, name: str, names: Sequence[str], folders: Sequence[Path], search: Sequence[Path]
    ) -> ModuleType | None:
        """`import a.b` where a folder holds the file a.py or the folder a; else None."""
        root, *rest = name.split(".")
        path = self.places.in_folders(root, folders)
        if path is None:
            return None
        top = module = self.beside(path.with_suffix(""), names if not rest else (), search)
        for i, part in enumerate(rest, start=1):
            stem = path.joinpath(*rest[:i])
            inner = self.beside(stem, names if i == len(rest) else (), search)
            _set_part(module, part, inner)
            module = inner
        return module if names else top

    def _find(self, name: str) -> ModuleType:
        if why := NOT_RUN.get(name.removeprefix(f"{ROOT}.")):
            raise UsageError(why)
        if name in (ROOT, TASKS):
            return self._space(name, lambda part: self._find(f"{name}.{part}"))
        path = self.places.of_task_module(name) if name.startswith(f"{TASKS}.") else None
        if path is None:
            return _compat(name)
        try:
            return self._of_path(path, name, ())
        except ModuleNotFoundError as error:
            # What is offered for a helper that needs a package which is not installed
            try:
                return _compat(name)
            except ModuleNotFoundError:
                raise error from None

    def _bring_part(self, module: ModuleType, name: str) -> None:
        try:
            inner = self._find(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            return
        _set_part(module, name.rpartition(".")[2], inner)

    def _of_path(self, path: Path, name: str, search: Sequence[Path]) -> ModuleType:
        if not path.is_dir():
            return self.run_file(path, search)
        start = path / "__init__.py"
        if start.is_file():
            return self.run_file(start, search)
        if name.startswith(f"{TASKS}."):
            return self._space(name, lambda part: self._find(f"{name}.{part}"))
        return self._space(name, lambda part: self.beside(path / part, (), search))

    def _space(self, name: str, find: Callable[[str], ModuleType]) -> ModuleType:
        return self.spaces.setdefault(name, Namespace(name, find))

    def _run(self, content: bytes, key: tuple[Path, str], search: list[Path]) -> None:
        path = key[0]
        short = draws.digest(*key, *self.places.trust.folders).hex()[:12]
        name = f"{MARK}{path.stem}_{short}"
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None:
            raise ImportError(f"{path} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        # Some task code reads HF_HOME: it gets the folder the hub's libraries take without it.
        cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        os.environ.setdefault("HF_HOME", str(Path(cache).expanduser() / "huggingface"))
        importer = Importer(self, path, search, tuple(sys.path))
        vars(module)["__builtins__"] = vars(builtins) | {"__import__": importer}
        sys.modules[name] = self.by_content[key] = module
        try:
            exec(_compiled(content, path), vars(module))
        except BaseException:
            del sys.modules[name], self.by_content[key]
            raise
        finally:
            importer.learn()
            sys.path[:] = importer.known


@dataclass(frozen=True, slots=True)
class Importer:
    """The `__import__` of one file of task code, also for imports inside its functions."""

    loader: CodeLoader
    path: Path
    search: list[Path]
    """folders that the file, or the one that imported it, put on the search path"""
    known: tuple[str, ...]
    """the search path before the file ran"""

    def __call__(
        self,
        name: str,
        _globals: Mapping[str, object] | None = None,
        _locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        names = tuple(fromlist or ())
        root = name.partition(".")[0]
        if level:
            folder = self.path.parents[level - 1]
            stem = folder.joinpath(*name.split(".")) if name else folder
            return self.loader.beside(stem, names, self.search)
        if root == ROOT:
            return self.loader.absolute(name, names)
        self.learn()
        if self.search and root not in sys.stdlib_module_names:
            module = self.loader.bare(name, names, self.search, self.search)
            if module is not None:
                return module
        return self._ordinary(name, names)

    def learn(self) -> None:
        """Remember the folders the code has put on the search path, as far as they are trusted."""
        for entry in sys.path:
            if entry not in self.known and self.loader.places.allows(Path(entry)):
                self.search[:] = dict.fromkeys([*self.search, Path(entry).resolve()])

    def by_name(self, name: str, package: str | None = None) -> ModuleType:
        """`importlib.import_module` as task code sees it."""
        if name.partition(".")[0] != ROOT:
            return importlib.import_module(name, package)
        module: ModuleType = self(name, fromlist=("*",))
        return module

    def _ordinary(self, name: str, names: Sequence[str]) -> Any:
        root = name.partition(".")[0]
        try:
            module = builtins.__import__(name, None, None, names, 0)
        except ModuleNotFoundError as error:
            if error.name != root:
                raise
            beside = self.loader.bare(name, names, [self.path.parent], self.search)
            if beside is None:
                raise
            return beside
        if module is importlib:
            seen = Namespace("importlib", lambda part: getattr(importlib, part))
            vars(seen).update({**vars(importlib), "import_module": self.by_name})
            return seen
        return module


@lru_cache(maxsize=256)
def _compiled(content: bytes, path: Path) -> CodeType:
    with warnings.catch_warnings():  # about other people's escape sequences
        warnings.simplefilter("ignore")
        return compile(content, str(path), "exec", dont_inherit=True)


def _set_part(module: ModuleType, part: str, inner: ModuleType) -> None:
    """As Python does for packages, but never on modules that others share."""
    if module.__name__.startswith(MARK):
        setattr(module, part, inner)


@lru_cache(maxsize=256)
def _compat(name: str) -> ModuleType:
    """What stands for the module `lmms_eval.…`, with the names that `compat` offers."""
    inner = name.removeprefix(ROOT).lstrip(".")
    if not any(key == inner or key.startswith(f"{inner}.") for key in MODULES):
        text = f"fieldmark offers no {name} to the code of tasks"
        if name.startswith(TASKS):
            text = f"no folder you named contains {name}: name lmms-eval's tasks folder too"
        raise ModuleNotFoundError(text, name=name)
    module = Namespace(name, lambda part: _compat(f"{name}.{part}"))
    home, names = MODULES.get(inner, ("", ""))
    for pair in names.split():
        theirs, _, ours = pair.partition("=")
        vars(module)[theirs] = getattr(importlib.import_module(home), ours or theirs)
    return module


ROOT = "lmms_eval"
TASKS = "lmms_eval.tasks"
_PACKAGE = Path(fieldmark.__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class ModulePaths:
    """The files of the folders the user named, by module name."""

    trust: Trust

    def allows(self, path: Path) -> bool:
        """May this file run? Those of named folders, and the package's own."""
        return self.trust.allows(path) or path.resolve().is_relative_to(_PACKAGE)

    def tasks_folders(self) -> list[Path]:
        """The folders that stand for lmms_eval/tasks: around, in, or as the named ones."""
        folders: list[Path] = []
        for folder in self.trust.folders:
            around = [parent for parent in (folder, *folder.parents) if _is_tasks_folder(parent)]
            folders += [*around[:1], folder / ROOT / "tasks", folder / "tasks", folder]
        return list(dict.fromkeys(folders))

    def of_task_module(self, name: str) -> Path | None:
        """The file or folder of `lmms_eval.tasks.a.b`, if a named folder holds it."""
        top, *rest = name.removeprefix(f"{TASKS}.").split(".")
        paths = (module_path(folder.joinpath(top, *rest)) for folder in self.tasks_folders())
        return next((path for path in paths if path and self.allows(path)), None)

    def in_folders(self, name: str, folders: Iterable[Path]) -> Path | None:
        """The file or package `name` of the first folder that has it."""
        for folder in folders:
            path = module_path(folder / name)
            is_package = path is not None and (path / "__init__.py").is_file()
            if path is not None and (path.is_file() or is_package) and self.allows(path):
                return path
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
            f"{function.where}  {str(function)!r} cannot be read: expected !function file.name, "
            "for example utils.doc_to_text."
        )
    beside = function.file.parent / f"{stem}.py"
    path: Path | None = beside if _is_stem(stem) and is_file(beside) else None
    if path is None and stem.startswith(f"{TASKS}."):
        path = ModulePaths(trust).of_task_module(stem)
        path = path / "__init__.py" if path and path.is_dir() else path
    if path is None or not path.is_file():
        raise UsageError(f"{function.where}  {_no_file(function, stem)}")
    if not ModulePaths(trust).allows(path):
        raise UsageError(
            f"{function.where}  {function} lies in {path.resolve()}, outside the folders whose "
            f"code may run ({trust.words()}): name its folder too."
        )
    return path


def _is_stem(stem: str) -> bool:
    return not any(mark in stem for mark in ("/", "\\", "\0")) and stem not in (".", "..")


def _no_file(function: Function, stem: str) -> str:
    folder = function.file.parent
    if stem.startswith(f"{TASKS}."):
        return f"no folder you named contains {stem}: name lmms-eval's tasks folder too."
    stems = sorted(path.stem for path in folder.glob("*.py"))
    where = "beside this file" if str(folder) == "." else f"in {folder}"
    return f"there is no {stem}.py {where}.{meant(stem, stems)}"
