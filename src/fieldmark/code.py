"""Import closure: which code of the user's own does a file run, and is it what it was?

`my_model.py:Mine` is its file and every module of the user's that it imports, directly or not,
inside functions too. The closure is read from the source (`ast`), so it depends neither on what
was imported before nor on where the files lie. It also holds the files of data that the source
names by text. `load_bundle` runs exactly the bytes that were read, never bytecode from a cache, as
a package of its own: two files that each have a `helper.py` beside them get one each. Names are
looked up as Python does for scripts: beside the file, then on `sys.path`.
https://docs.python.org/3/reference/import.html
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import importlib
import importlib.machinery as machinery
import importlib.util
import itertools
import os
import re
import sys
import sysconfig
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from fieldmark.files import hash_bytes, hash_file, stamp

PREFIX = "fieldmark_user_"
DATA = (
    *(".bin", ".ckpt", ".gguf", ".h5", ".hdf5", ".joblib", ".npy", ".npz", ".onnx", ".parquet"),
    *(".pkl", ".pt", ".pth", ".safetensors", ".tflite", ".ts"),
)
"""files that code reads and seldom writes: named in the source, they belong to it"""
SETTINGS = (
    *(".cfg", ".csv", ".dat", ".ini", ".json", ".jsonl", ".md", ".pickle", ".toml", ".tsv", ".txt"),
    *(".xml", ".yaml", ".yml"),
)
"""files that a program may write as well: they count for code that has no business writing"""
LIBRARIES = ("fieldmark", "numpy", "open_clip", "timm", "torch", "torchvision", "transformers")
"""never the user's own, even where they are built from source"""
FILE_READERS = (
    *("File", "InferenceSession", "fromfile", "genfromtxt", "load", "load_file", "loadtxt"),
    *("memmap", "open", "read_bytes", "read_text", "safe_open"),
)
"""last names of calls that read files"""

Digest = Callable[[Path], bytes]


def file_digest(path: Path) -> bytes:
    """A hash of a file's bytes, read again when its dates, size or inode change."""
    mark, is_settled = stamp(path)
    return _remembered_digest(path, mark) if is_settled else hash_file(path)


@lru_cache(maxsize=4096)
def _remembered_digest(path: Path, _mark: bytes) -> bytes:
    return hash_file(path)


@dataclass(frozen=True, slots=True)
class Closure:
    """A file and what it rests on."""

    root: Path
    sources: dict[str, tuple[Path, bytes]]
    """by the name it is imported under, "" for the file itself: modules, and empty for folders
    without `__init__.py`"""
    libraries: frozenset[str]
    """the packages of others that are imported, by their first name"""
    data: dict[str, Path]
    """weights files that the source names, by the text that names them"""
    folders: tuple[Path, ...]
    """where imports are looked for before `sys.path`"""
    reads_files: bool = False
    """does a call in it look like reading a file?"""

    def digest(self, digest: Digest = file_digest) -> str:
        """Stands for all the content; the same wherever the files lie."""
        contents = {name: hash_bytes(source) for name, (_, source) in self.sources.items()}
        contents |= {f"/{text}": digest(path) for text, path in self.data.items()}
        return digest_of(contents)


def digest_of(contents: Mapping[str, bytes]) -> str:
    """Stands for digests by name, in whatever order they come."""
    hasher = hashlib.blake2b(digest_size=16)
    for name in sorted(contents):
        hasher.update(f"{len(name)} {name} ".encode() + contents[name])
    return hasher.hexdigest()


def closure_of(path: Path, endings: tuple[str, ...] = DATA) -> Closure:
    """Reads a file and, by their names, the modules of the user's that it imports and the files
    with these endings that it names.
    """
    search = _ModuleFinder(path, [path.parent])
    sources: dict[str, tuple[Path, bytes]] = {}
    libraries: set[str] = set()
    data: dict[str, Path] = {}
    queue, reads_files = [("", path)], False
    while queue:
        name, file = queue.pop()
        if name in sources:
            continue
        source = file.read_bytes() if file.is_file() else b""
        sources[name] = (file, source)
        if file.suffix != ".py":
            continue
        source_facts = facts_of(source)
        reads_files = reads_files or source_facts.reads_files
        search.add(file.parent, source_facts.path_texts)
        for text in source_facts.texts:
            named = file.parent / Path(text).expanduser() if text.endswith(endings) else None
            if named is not None and named.is_file():
                data[named.name if Path(text).is_absolute() else text] = named
        package = name if file.name == "__init__.py" else name.rpartition(".")[0]
        for imported in _absolute(source_facts.imports, package):
            modules = list(search.modules(imported))
            queue += [module for module in modules if module[1] != path]
            if not modules:
                libraries.add(imported.partition(".")[0])
    return Closure(path, sources, frozenset(libraries), data, tuple(search.folders), reads_files)


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """What a source says of other files."""

    imports: tuple[tuple[int, str, tuple[str, ...]], ...] = ()
    """dots, module, names"""
    path_texts: tuple[str, ...] | None = None
    """texts in what it adds to `sys.path`; None when it leaves that alone"""
    texts: tuple[str, ...] = ()
    """that may name files, also put together by `/` or `os.path.join`; of none that it writes"""
    reads_files: bool = False


@lru_cache(maxsize=4096)
def facts_of(source: bytes) -> SourceFacts:
    """Nothing where it is no Python."""
    try:
        tree = parsed(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return SourceFacts()
    imports: dict[tuple[int, str, tuple[str, ...]], None] = {}
    paths: list[str] | None = None
    data: dict[str, None] = {}
    is_foreseen = True
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports |= {(0, alias.name, ()): None for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = tuple(alias.name for alias in node.names)
            imports[(node.level, node.module or "", names)] = None
        elif isinstance(node, ast.Call) and _called_name(node).startswith("sys.path."):
            paths = [*(paths or []), *_texts_in(node)]
        elif isinstance(node, ast.Call) and _called_name(node).endswith(
            ("import_module", "__import__")
        ):
            text = "".join(text for part in node.args[:1] for text in _texts_in(part))
            imports |= {(0, text, ()): None} if text and text[0] != "." else {}
            is_foreseen = is_foreseen and _is_text(node.args[:1])
        if isinstance(node, ast.Call | ast.BinOp | ast.Constant):
            data |= dict.fromkeys(_joined_texts(node))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    writers = [call for call in calls if _writes_file(call)]  # so `open(path, "a")`
    written = {_last_part(text) for call in writers for text in _texts_in(call)}
    texts = tuple(text for text in data if _last_part(text) not in written)  # no log of its own
    readers = [call for call in calls if _called_name(call).rpartition(".")[2] in FILE_READERS]
    reads_files = not is_foreseen or any(  # a module of a name not told here is a file as well
        call not in writers and written.isdisjoint(map(_last_part, _texts_in(call)))
        for call in readers
    )
    return SourceFacts(tuple(imports), None if paths is None else tuple(paths), texts, reads_files)


def _is_text(parts: Sequence[ast.expr]) -> bool:
    """Are they nothing but written text, in pieces or not?"""
    allowed = (ast.Constant, ast.BinOp, ast.Add)
    return all(isinstance(node, allowed) for part in parts for node in ast.walk(part))


def names_in(path: Path) -> set[str] | None:
    """The names that a module binds, as far as its source tells; None where only running it does.

    Raises SyntaxError where it is no Python.
    """
    return _names_in(path.read_bytes(), str(path))


@lru_cache(maxsize=1024)
def _names_in(source: bytes, path: str) -> set[str] | None:
    names: set[str] = set()
    for node in ast.walk(parsed(source, path)):
        if isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name):
            names |= {node.id} if isinstance(node.ctx, ast.Store) else set()
            if node.id in ("globals", "exec", "setattr", "vars"):
                return None
    return None if names & {"*", "__getattr__"} else names


def parsed(source: bytes, path: str = "<unknown>") -> ast.Module:
    with warnings.catch_warnings():  # about other people's escape sequences
        warnings.simplefilter("ignore")
        return ast.parse(source, path)


def _called_name(node: ast.Call) -> str:
    """The dotted name of what is called."""
    parts, what = [], node.func
    while isinstance(what, ast.Attribute):
        parts.append(what.attr)
        what = what.value
    return ".".join([what.id if isinstance(what, ast.Name) else "", *reversed(parts)])


def _last_part(text: str) -> str:
    return text.rpartition("/")[2]


def _writes_file(call: ast.Call) -> bool:
    """`open(path, "a")`, `path.open("w")`, `path.write_text(…)`."""
    name = _called_name(call).rpartition(".")[2]
    n_before = 0 if isinstance(call.func, ast.Attribute) else 1  # `path.open(mode)`
    given = [*call.args[n_before:2], *(word.value for word in call.keywords if word.arg == "mode")]
    modes = [mode.value for mode in given if isinstance(mode, ast.Constant)]
    is_write = any(re.fullmatch("[awx][bt+]*", mode) for mode in modes if isinstance(mode, str))
    return name in ("write_bytes", "write_text") or (name == "open" and is_write)


def _texts_in(node: ast.AST) -> list[str]:
    """The texts in an expression, in the order they stand."""
    parts = [part for part in ast.walk(node) if isinstance(part, ast.Constant)]
    parts.sort(key=lambda part: (part.lineno, part.col_offset))
    return [part.value for part in parts if isinstance(part.value, str)]


def _joined_texts(node: ast.AST) -> list[str]:
    """The texts in an expression as one path, and what is left of it without the first ones."""
    texts = [text for text in _texts_in(node) if len(text) < 256 and "\n" not in text]
    return ["/".join(texts[start:]) for start in range(len(texts))][:4]


def _absolute(imports: tuple[tuple[int, str, tuple[str, ...]], ...], package: str) -> Iterator[str]:
    """Full names of the modules that the statements may mean."""
    for dots, module, names in imports:
        parts = package.split(".") if package else []
        if dots > len(parts) + 1:
            continue
        base = parts[: len(parts) - dots + 1] if dots else []
        base += [module] if module else []
        yield from (".".join([*base, name]) for name in names if base or name != "*")
        if base and not names:
            yield ".".join(base)


@dataclass(slots=True)
class _ModuleFinder:
    """Where the imports of one closure are looked for, first to last."""

    root: Path
    folders: list[Path]

    def add(self, folder: Path, texts: tuple[str, ...] | None) -> None:
        """The folders that a change of `sys.path` may mean: those above, and those it names."""
        if texts is None:
            return
        bases = [folder, *list(folder.parents)[:3]]
        joined = ["/".join(texts[start:]) for start in range(len(texts))]
        for candidate in [base / text for text in joined for base in bases] + bases:
            if candidate.is_dir() and candidate.resolve() not in self.folders:
                self.folders.append(candidate.resolve())

    def modules(self, module_name: str) -> Iterator[tuple[str, Path]]:
        """The module `a.b.c` and those it stands in, as far as they are the user's; `c` may be no
        module but something in one, and `*` is every module of a package.
        """
        parts = module_name.split(".")
        path = self.top(parts[0])
        for end in range(1, len(parts) + 1):
            if path is None:
                return
            name = ".".join(parts[:end])
            yield name, path
            folder = path if path.is_dir() else path.parent
            if end == len(parts) or not (path.is_dir() or path.name == "__init__.py"):
                return
            if parts[end] == "*":
                files = sorted(folder.glob("*.py"))
                yield from ((f"{name}.{file.stem}", file) for file in files if file != path)
                return
            path = module_in(folder, parts[end]) or _folder_in(folder, parts[end])

    def top(self, name: str) -> Path | None:
        """The file or folder of a module named without a dot; None when it is not the user's."""
        if name in LIBRARIES or name in sys.builtin_module_names:
            return None
        beside = module_in(self.folders[0], name)
        if beside is not None and beside != self.root:
            return beside
        other = _elsewhere(name)
        if other is not None and not is_users(other):
            return None
        modules = (module_in(folder, name) for folder in self.folders)
        packages = (_folder_in(folder, name) for folder in self.folders)
        return next(filter(None, itertools.chain(modules, [other], packages)), None)


def module_in(folder: Path, name: str) -> Path | None:
    """The package or module of a name in a folder, in Python's order."""
    tails = [f"{name}/__init__.py", *(name + suffix for suffix in machinery.EXTENSION_SUFFIXES)]
    texts = (f"{folder}/{tail}" for tail in (*tails, f"{name}.py"))
    return next((Path(text) for text in texts if os.path.isfile(text)), None)  # noqa: PTH113 - quick


def _folder_in(folder: Path, name: str) -> Path | None:
    """A package without `__init__.py`."""
    return folder / name if name.isidentifier() and (folder / name).is_dir() else None


def _elsewhere(name: str) -> Path | None:
    """Where `import name` leads from anywhere; the standard library for what is built in."""
    if name in sys.stdlib_module_names or name == "__main__":
        return _library_places()[0]
    for finder in sys.meta_path:
        if isinstance(finder, _BundleFinder) or not hasattr(finder, "find_spec"):
            continue
        try:
            spec = finder.find_spec(name, None)
        except (ImportError, ValueError, AttributeError):
            continue
        if spec is not None:
            folders = list(spec.submodule_search_locations or ())
            text = spec.origin if spec.has_location and spec.origin else "".join(folders[:1])
            return Path(text).resolve() if text else _library_places()[0]
    return None


def is_users(path: Path) -> bool:
    """Is a file neither Python's, nor an installed package's, nor ours?"""
    if {"site-packages", "dist-packages"} & set(path.parts):
        return False
    return not any(path.is_relative_to(library) for library in _library_places())


@lru_cache(maxsize=1)
def _library_places() -> tuple[Path, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return (*(Path(sysconfig.get_path(name)).resolve() for name in names), Path(__file__).parent)


@dataclass(slots=True)
class Bundle:
    """A closure as it runs: a package of its own with the file and its modules in it."""

    closure: Closure
    package: str
    _search: _ModuleFinder = field(init=False)
    scope: dict[str, Any] = field(init=False)
    """the builtins its modules see: `import` looks beside the file first"""

    def __post_init__(self) -> None:
        self._search = _ModuleFinder(self.closure.root, list(self.closure.folders))
        self.scope = {**vars(builtins), "__import__": self._import}

    @property
    def root_name(self) -> str:
        return f"{self.package}.{self.closure.root.stem.replace('.', '_')}"

    def _import(
        self,
        name: str,
        globals: Any = None,
        locals: Any = None,
        fromlist: Sequence[str] = (),
        level: int = 0,
    ) -> Any:
        top = name.partition(".")[0]
        if level or not name or self.place(top, ()) is None:
            module = builtins.__import__(name, globals, locals, fromlist, level)
            if module is importlib:  # one whose `import_module` looks where `import` does
                module = ModuleType("importlib")
                vars(module).update(vars(importlib), import_module=self._import_module)
            return module
        module = builtins.__import__(f"{self.package}.{name}", globals, locals, fromlist, 0)
        return module if fromlist else sys.modules[f"{self.package}.{top}"]

    def _import_module(self, name: str, package: str | None = None) -> ModuleType:
        is_here = name[:1] != "." and self.place(name.partition(".")[0], ()) is not None
        return importlib.import_module(f"{self.package}.{name}" if is_here else name, package)

    def place(self, name: str, folders: Sequence[str]) -> Path | None:
        """Where a module of this package lies; `folders` are those of the one it stands in."""
        if name in self.closure.sources:
            return self.closure.sources[name][0]
        if "." not in name:
            return self._search.top(name)
        tail = name.rpartition(".")[2]
        paths = (module_in(Path(folder), tail) for folder in folders)
        return next(filter(None, paths), None)

    def source(self, path: Path) -> bytes:
        """As it was when the closure was read; of modules nobody could foresee, as it is."""
        return dict(self.closure.sources.values()).get(path) or path.read_bytes()


class _BundleLoader(machinery.SourceFileLoader):
    """Compiles the source, always: bytecode files are known by second and size, and two edits can
    share both.
    """

    def __init__(self, name: str, path: Path, bundle: Bundle) -> None:
        super().__init__(name, str(path))
        self._bundle = bundle

    def get_code(self, fullname: str) -> Any:  # noqa: ARG002 - fixed by the protocol
        source = self._bundle.source(Path(self.path))
        return compile(source, self.path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__builtins__"] = self._bundle.scope
        super().exec_module(module)


class _BundleFinder:
    """Finds the modules of bundles, which are known by the package they stand in."""

    @staticmethod
    def find_spec(
        fullname: str, path: Sequence[str] | None = None, target: object = None
    ) -> machinery.ModuleSpec | None:
        del target
        package, _, name = fullname.partition(".")
        if not package.startswith(PREFIX):  # modules of others may compute their attributes
            return None
        bundle = getattr(sys.modules.get(package), "__fieldmark_bundle__", None)
        if bundle is None:
            return None
        is_root = fullname == bundle.root_name
        file = bundle.closure.root if is_root else bundle.place(name, path or ())
        if file is None:
            return None
        if file.is_dir():
            spec = machinery.ModuleSpec(fullname, None, is_package=True)
            spec.submodule_search_locations = [str(file)]
            return spec
        if file.suffix != ".py":
            native = machinery.ExtensionFileLoader(fullname, str(file))
            return importlib.util.spec_from_file_location(fullname, file, loader=native)
        folders = [str(file.parent)] if file.name == "__init__.py" else None
        return importlib.util.spec_from_file_location(
            fullname,
            file,
            loader=_BundleLoader(fullname, file, bundle),
            submodule_search_locations=folders,
        )


_LOCK = threading.Lock()
_FINDER = _BundleFinder()
_FRESH = itertools.count()


def load_bundle(path: Path, *, is_fresh: bool = False) -> Bundle:
    """Runs a file; once per content, or once more when it `is_fresh`. What it raises is its own."""
    closure = closure_of(path)
    content = f"{path} {next(_FRESH) if is_fresh else closure.digest()}"
    package = PREFIX + hash_bytes(content.encode()).hex()[:16]
    with _LOCK:
        if _FINDER not in sys.meta_path:
            sys.meta_path.insert(0, _FINDER)
        if package not in sys.modules:
            parent = ModuleType(package)
            vars(parent).update(__path__=[], __fieldmark_bundle__=Bundle(closure, package))
            sys.modules[package] = parent
    bundle: Bundle = vars(sys.modules[package])["__fieldmark_bundle__"]
    importlib.import_module(bundle.root_name)
    return bundle
