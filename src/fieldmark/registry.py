"""Registry (plug-ins): how is an extension found?

The file's name is its registration: every module of a package whose name has no leading underscore
is one entry (`models/open_clip.py` is the family `open-clip`). Users add theirs without touching
the package: an entry point in the group of the same name (`fieldmark.models`), a `register_*` call,
or the path of a file with the object's name (`my_model.py:MyBackbone`). Listing names imports
nothing.

Here too are the abilities: the words by which a model says how it can be asked, and a protocol what
it needs; and whether it stands in for a model.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from fieldmark.code import DATA, PREFIX, SETTINGS, Bundle, closure_of, load_bundle, names_in
from fieldmark.errors import CodeNotRun, FieldmarkError, UnknownName, UsageError, meant

EMBEDS_IMAGES, EMBEDS_TEXTS = "embeds_images", "embeds_texts"
ANSWERS, SCORES_CONTINUATIONS = "answers", "scores_continuations"
DUAL = frozenset({EMBEDS_IMAGES, EMBEDS_TEXTS})
"""of a dual encoder, whose images and texts live in one space"""

MOCK = "mock"
"""a stand-in that is told the right answers, and gives some of them: for rehearsals"""
CONTROL = "control"
"""a stand-in that cannot see: what it scores, a model must beat"""

BUILT_IN: dict[str, dict[str, str]] = {
    "fieldmark.metric_registrars": {
        "aggregated": "fieldmark.lmms.metrics.registry:register_document_metric"
    },
    "fieldmark.report.export": {"lmms-eval": "fieldmark.lmms.export"},
    "fieldmark.report_providers": {
        "documents": "fieldmark.lmms.report",
        "rerank": "fieldmark.protocols._values",
        "retrieve": "fieldmark.protocols._values",
    },
    "fieldmark.protocols": {"documents": "fieldmark.lmms.protocol:PROTOCOL"},
    "fieldmark.task_readers": {"lmms-eval": "fieldmark.lmms.reader:READER"},
}
"""the package's own plug-ins by group and name: `module:object` or a module, imported when asked"""


REGISTRIES: list[Registry] = []
"""every one that there is"""


@dataclass(frozen=True, slots=True)
class Registry:
    """The entries of one package, by name."""

    kind: str
    """what one entry is called in messages: "model family" """
    package: str
    """the package whose files are entries, and the entry-point group"""
    listing: str = ""
    """the command that lists all, where users name entries"""
    added: dict[str, Any] = field(default_factory=dict)
    """a path is a module of the user's"""
    joint: str = "-"
    """what stands in a name for the `_` of its file"""

    def __post_init__(self) -> None:
        REGISTRIES.append(self)

    def names(self) -> list[str]:
        others = (BUILT_IN.get(self.package, {}), entry_points_of(self.package), self.added)
        return sorted({*self._files(), *(name for others_names in others for name in others_names)})

    def get(self, name: str, where: str = "") -> Any:
        """The entry: a module for files, whatever was registered otherwise."""
        if name in self.added:
            entry = self.added[name]
            return sys.modules[_run(entry).root_name] if isinstance(entry, Path) else entry
        files = self._files()
        if name in files:
            return importlib.import_module(f"{self.package}.{files[name]}")
        built_in = BUILT_IN.get(self.package, {})
        if name in built_in:
            module, _, attribute = built_in[name].partition(":")
            loaded = importlib.import_module(module)
            return getattr(loaded, attribute) if attribute else loaded
        points = entry_points_of(self.package)
        if name in points:
            try:
                return points[name].load()
            except Exception as error:
                raise UsageError(
                    f"{self.kind} {name!r} from {points[name].value!r} cannot be loaded: {error}"
                ) from error
        raise UnknownName(self.kind, name, self.names(), self.listing, where)

    def register(self, name: str, entry: Any) -> None:
        if name in self.names():
            raise UsageError(f"{self.kind} {name!r} already exists: choose another name.")
        self.added[name] = entry

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def add_folder(self, folder: Path) -> None:
        """Every Python file of a user's folder is an entry, run when it is first asked for."""
        if not folder.is_dir():
            raise UsageError(
                f"{folder}  is not a folder: expected one with a {self.kind} per file."
            )
        for path in sorted(folder.resolve().glob("[!_]*.py")):
            name = path.stem.replace("_", self.joint)
            if self.added.get(name) != path:
                self.register(name, path)

    def line_of(self, name: str) -> str:
        """The file of an entry that is the user's, for messages; "" for all others."""
        entry = self.added.get(name)
        return f"{entry}  " if isinstance(entry, Path) else ""

    def code_of(self, name: str) -> str:
        """Stands for the code of an entry that is a file of the user's; "" for all others."""
        entry = self.added.get(name)
        return _code_digest(entry) if isinstance(entry, Path) else ""

    def _files(self) -> dict[str, str]:
        return {file.replace("_", self.joint): file for file in _files_of(self.package)}


@cache  # what is installed does not change while we run, and ten thousand jobs ask
def _files_of(package: str) -> list[str]:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.submodule_search_locations is None:
        return []  # a group without a folder of its own
    return [
        path.stem
        for folder in spec.submodule_search_locations
        for path in Path(folder).iterdir()
        if path.suffix == ".py" or (path / "__init__.py").is_file()
        if not path.name.startswith(("_", "."))
    ]


@cache
def _entry_point_files() -> str:
    """Every installed file of entry points that speaks of us. Reading all of them by
    `importlib.metadata` takes 50 ms, which is a fifth of what `--help` may take.
    """
    folders = [Path(folder) for folder in dict.fromkeys(sys.path)]
    files = (file for folder in folders for file in folder.glob("*-info/entry_points.txt"))
    texts = (file.read_text(encoding="utf-8", errors="replace") for file in files)
    return "\n".join(text for text in texts if "[fieldmark." in text)


@cache
def entry_points_of(group: str) -> dict[str, Any]:
    """The entry points of a group, by name."""
    if f"[{group}]" not in _entry_point_files():
        return {}
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=group)}


@cache
def installed_version(package: str) -> str | None:
    """Without an import; None where it is not installed, as fieldmark run from its source tree."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def app_version() -> str:
    return installed_version("fieldmark") or "unknown"


PROTOCOLS = Registry("protocol", "fieldmark.protocols", joint="_")
"""here, not in its package: task files are read by whoever knows which blocks they may have"""


def is_file_reference(name: str) -> bool:
    """Is this `path/to/file.py:Name`?"""
    path, _, attribute = name.rpartition(":")
    return path.endswith(".py") and attribute.isidentifier()


def resolve_reference(name: str, base: Path | None = None) -> tuple[Path, str]:
    """The file and the object's name of `path/to/file.py:Name`; relative paths start at `base`."""
    text, _, attribute = name.rpartition(":")
    path = Path(text).expanduser()
    if not path.is_absolute():
        path = (base or Path.cwd()) / path
    if not path.is_file():
        beside = sorted(file.name for file in path.parent.glob(f"*{path.suffix}"))
        raise UsageError(f"{path}  does not exist.{meant(path.name, beside)}")
    return path.resolve(), attribute


def refuse_misspelt(path: Path, attribute: str) -> None:
    """Raises, before a file of code is run, for a name that its source has almost."""
    try:
        names = names_in(path)
    except (SyntaxError, ValueError):  # told where it is run
        return
    if names is not None and attribute not in names and (hint := meant(attribute, names)):
        raise UsageError(f"{path}  has no {attribute!r}.{hint}")


def short_name(name: str) -> str:
    """What a `path/to/file.py:Name` is called in tables; other names stay as they are."""
    return name.rpartition(":")[2] if is_file_reference(name) else name


def code_hash(name: str) -> str:
    """Stands for the file a reference names, all of the user's own that it imports, and the files
    that these name; "" for other names. Nothing is run.
    """
    return _code_digest(resolve_reference(name)[0]) if is_file_reference(name) else ""


def _code_digest(path: Path) -> str:
    return closure_of(path, (*DATA, *SETTINGS)).digest()[:16]


def portable_name(name: str) -> str:
    """The same on every machine; an edited file of the user's is another probe or metric."""
    code = code_hash(name)
    return f"{short_name(name)}#{code}" if code else name


def load_reference(name: str, base: Path | None = None) -> Any:
    """The object that `path/to/file.py:Name` names. Runs the file, once per content."""
    path, attribute = resolve_reference(name, base)
    return run_file(path, attribute)[0]


def run_file(path: Path, attribute: str, *, is_fresh: bool = False) -> tuple[Any, Bundle]:
    """An object of a user's file, and the code it came from; its faults in one line."""
    refuse_to_run(path, attribute)
    bundle = _run(path, is_fresh)
    module = sys.modules[bundle.root_name]
    if not hasattr(module, attribute):
        raise UsageError(f"{path}  has no {attribute!r}.{named_instead(module, attribute)}")
    return getattr(module, attribute), bundle


_NOT_RUN: ContextVar[set[Path] | None] = ContextVar("files whose code is not run", default=None)
"""None = code may run"""


@contextlib.contextmanager
def without_code() -> Iterator[set[Path]]:
    """For commands that only look: code of files that they meet raises `CodeNotRun`. Gives the set
    of these files, which fills.

    Protocols are exempt: only the user's own word names their folders.
    """
    outer = _NOT_RUN.get()
    not_run = set[Path]() if outer is None else outer
    token = _NOT_RUN.set(not_run)
    try:
        yield not_run
    finally:
        _NOT_RUN.reset(token)


def may_run() -> bool:
    return _NOT_RUN.get() is None


def ask_nobody() -> None:
    """Code in a model's own files runs only where the caller says so beforehand: transformers would
    ask on the terminal, and take a `yes` from a pipe, also where open_clip or a processor loads a
    part of a model through it.
    """
    from transformers import dynamic_module_utils

    dynamic_module_utils.TIME_OUT_REMOTE_CODE = 0  # s to answer in: it raises at once


def refuse_to_run(path: Path, attribute: str = "") -> None:
    """Raises `CodeNotRun` where code is only looked at; before that, what its source tells."""
    not_run = _NOT_RUN.get()
    if not_run is None:
        return
    try:
        names = names_in(path) if path.suffix == ".py" else None
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        raise UsageError(f"{path}:{line}  cannot be run: {_one_line(error)}.") from error
    if attribute and names is not None and attribute not in names:
        raise UsageError(f"{path}  has no {attribute!r}.{meant(attribute, names)}")
    not_run.add(path)
    raise CodeNotRun(path)


def _run(path: Path, is_fresh: bool = False) -> Bundle:
    try:
        return load_bundle(path, is_fresh=is_fresh)
    except FieldmarkError:
        raise
    except Exception as error:
        file, line = _place_of(error, path)
        raise UsageError(f"{file}:{line}  cannot be run: {_one_line(error)}.") from error


def named_instead(module: ModuleType, name_asked: str) -> str:
    """The name that was probably meant, else what the file defines itself."""
    values = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    own = [n for n, value in values.items() if getattr(value, "__module__", "") == module.__name__]
    return meant(name_asked, values) or f" It defines {', '.join(own[:5]) or 'nothing'}."


def _place_of(error: BaseException, path: Path) -> tuple[str, int]:
    """The file of the user's and the line in it where an error arose."""
    if isinstance(error, SyntaxError):
        return error.filename or str(path), error.lineno or 1
    return innermost_frame(error, PREFIX) or (str(path), 1)


def innermost_frame(error: BaseException, prefix: str) -> tuple[str, int] | None:
    """The file and the line of the innermost frame in a module whose name begins so."""
    frames = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__", "")).startswith(prefix)
    ]
    return frames[-1] if frames else None


def _one_line(error: BaseException) -> str:
    """Without the place that Python adds to a syntax error, without the name a user's package has
    here, and without a final full stop.
    """
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    text = re.sub(rf"{PREFIX}\w+\.?", "", message).strip().splitlines()
    return f"{type(error).__name__}: {text[0].rstrip('.')}" if text else type(error).__name__


def split_options(name: str) -> tuple[str, dict[str, str]]:
    """What stands before the question mark of a name, and the options after it.

    >>> split_options("timm/resnet18?pretrained=false&width=2")
    ('timm/resnet18', {'pretrained': 'false', 'width': '2'})
    """
    base, mark, tail = name.partition("?")
    if not base.strip() or (mark and not tail):
        raise UsageError(
            f"model {name!r} cannot be read: expected family/checkpoint?option=value, "
            "for example timm/resnet18?pretrained=false."
        )
    options: dict[str, str] = {}
    for part in tail.split("&") if tail else []:
        key, equals, value = part.partition("=")
        if not (key and equals and value):
            raise UsageError(f"model {name!r}: option {part!r} cannot be read, expected key=value.")
        if key in options:
            raise UsageError(f"model {name!r}: option {key!r} is given twice: keep one.")
        options[key] = value
    return base, options
