"""Model fingerprint: which files does a model of the user's open, and which numbers does it hold?

Three kinds of evidence, from outside to inside. Files and folders that options name count by their
content, and libraries by their version. An audit hook (PEP 578) tells of every `open` while a model
is built and looks at its first pictures, so weights count that only the model's own code knows of:
`open`, `numpy.load`, `torch.load`, `pickle`. Readers written in C or Rust (safetensors, HDF5) are
not told of; for those the texts in the source, the neighbours of opened files and the loaded arrays
stand in. What a library reads for itself while it is imported is left out: it would depend on who
imported it first. The state digest follows arrays, tensors, numbers, texts and containers from the
model's attributes and hashes them; what says nothing of the features is left out: places, devices,
names of precisions.
"""

from __future__ import annotations

import argparse
import contextlib
import enum
import functools
import hashlib
import importlib.util
import os
import sys
import threading
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePath
from types import FrameType
from typing import Any

from fieldmark import draws
from fieldmark.code import Digest, file_digest, is_users
from fieldmark.models._name import ModelName

DISTRIBUTIONS = {
    "open_clip": "open_clip_torch",
    "timm": "timm",
    "torch": "torch",
    "torchvision": "torchvision",
    "transformers": "transformers",
}
"""packages whose code decides what a network computes, and the names they are installed under"""
SYSTEM = ("/dev", "/etc", "/proc", "/sys", "/usr/lib", "/usr/share")
STARTS = ("_thread.start_new_thread", "_thread.start_joinable_thread")
UNHEARD = (".gguf", ".h5", ".hdf5", ".onnx", ".safetensors", ".tflite")
"""what C and Rust readers open unheard"""
DEPTH = 8
MOST_OBJECTS = 50_000
"""objects looked at: a model whose tables are larger has them in arrays"""
UNTOLD = ("auto", "bf16", "cpu", "cuda", "float32", "fp16", "mps")


# --- files, folders and libraries by content


def path_digest(path: Path, digest: Digest = file_digest) -> str:
    """A hash of a file's bytes, or of all files below a folder with their names in it; hidden ones
    do not count.
    """
    if not path.is_dir():
        return digest(path).hex()
    names: dict[str, bytes] = {}
    met: set[str] = set()
    for place, folders, files in os.walk(path, followlinks=True):
        real = os.path.realpath(place)
        kept = [name for name in folders if name[0] != "." and name != "__pycache__"]
        folders[:] = kept if real not in met else []
        met.add(real)
        paths = [Path(place, name) for name in files if name[0] != "."]
        names |= {file.relative_to(path).as_posix(): digest(file) for file in paths}
    return draws.digest(*(part for name in sorted(names) for part in (name, names[name]))).hex()


def options_content(name: ModelName, digest: Digest = file_digest) -> list[tuple[str, str]]:
    """The options in order; a file or folder counts by its content, not by its place."""
    contents = []
    for key, text in sorted(name.options.items()):
        path = Path(text).expanduser()
        contents.append((key, f"content {path_digest(path, digest)}" if path.exists() else text))
    return contents


@lru_cache(maxsize=64)
def library_version(package: str) -> str:
    """The installed version, without an import; "" where it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(DISTRIBUTIONS.get(package, package))
    except PackageNotFoundError:
        return ""


# --- files that are opened


@dataclass(slots=True)
class Opened:
    """What one thread, and those it started, opened."""

    threads: list[threading.Thread]
    read: dict[str, None] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)

    def files(self, folder: Path) -> list[Path]:
        """Files of the user's that were read and not written, and unheard ones beside them.
        `folder` is the model's own: what lies below it always counts.
        """
        read = {Path(os.path.realpath(text)) for text in self.read}
        paths = {path for path in self.unwritten(read) if _counts(path, folder)}
        folders = {path.parent for path in paths if path.suffix != ".py"}
        beside = {path for place in folders for path in place.iterdir()}
        return sorted(paths | {path for path in beside if path.suffix in UNHEARD})

    def unwritten(self, paths: set[Path]) -> set[Path]:
        written = {Path(os.path.realpath(text)) for text in self.written}
        return {path for path in paths - written if path.is_file()}


def _counts(path: Path, folder: Path) -> bool:
    if path.is_relative_to(folder):
        return True
    is_hidden = any(part.startswith(".") for part in path.parts)
    is_system = any(path.is_relative_to(place) for place in (*SYSTEM, sys.prefix, sys.base_prefix))
    return not is_hidden and not is_system and is_users(path)


_WATCHES: list[Opened] = []
_LOCK = threading.Lock()


@contextlib.contextmanager
def watch() -> Iterator[Opened]:
    """Notes what is opened inside."""
    _install()
    opened = Opened([threading.current_thread()])
    with _LOCK:
        _WATCHES.append(opened)
    try:
        yield opened
    finally:
        with _LOCK:
            _WATCHES.remove(opened)


@lru_cache(maxsize=1)
def _install() -> None:
    """Once in a process: Python has no way to take an audit hook back."""
    sys.addaudithook(_hear)


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if not _WATCHES or event not in ("open", *STARTS):
        return
    here = threading.current_thread()
    for opened in [watched for watched in _WATCHES if here in watched.threads]:
        if event in STARTS:
            started = getattr(arguments[0], "__self__", None)
            opened.threads += [started] if isinstance(started, threading.Thread) else []
        elif isinstance(arguments[0], str | bytes | os.PathLike):
            _note(opened, os.path.abspath(os.fsdecode(arguments[0])), *arguments[1:3])  # noqa: PTH100


def _note(opened: Opened, path: str, mode: str | None, flags: int) -> None:
    is_read = set(mode) <= set("rbtU") if mode else not flags & (os.O_WRONLY | os.O_RDWR)
    if not is_read:
        opened.written.add(path)
    elif path.endswith(".pyc"):
        with contextlib.suppress(ValueError, NotImplementedError):
            opened.read[importlib.util.source_from_cache(path)] = None
    elif path.endswith(".py") or not _is_import():
        opened.read[path] = None


def _is_import() -> bool:
    """Is a library being imported that reads a file for itself?"""
    frame: FrameType | None = sys._getframe(3)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith("<frozen importlib"):
            return True
        if not name.startswith("<") and is_users(Path(name)):
            return False
        frame = frame.f_back
    return False


# --- state


class StateDigest:
    """A hash of what is reachable, and the files that were met on the way."""

    def __init__(self, folder: Path) -> None:
        self.files: set[Path] = set()
        """files named by texts, and those that define the classes met"""
        self._folder = str(folder)
        self._hasher = hashlib.blake2b(digest_size=16)
        self._met: dict[int, Any] = {}  # keeps them alive: an id must not be used twice

    def hexdigest(self) -> str:
        return self._hasher.hexdigest()

    def add(self, value: Any, depth: int = 0) -> None:
        if value is None or isinstance(value, bool | int | float | complex | bytes | enum.Enum):
            return self._note(type(value).__name__, value)
        if isinstance(value, str | PurePath):
            return self._text(str(value))
        if id(value) in self._met or depth > DEPTH or len(self._met) > MOST_OBJECTS:
            return None
        self._met[id(value)] = value
        return self._compound(value, depth + 1)

    def _note(self, *parts: object) -> None:
        text = "\0".join(map(str, parts)).encode("utf-8", "surrogatepass")
        self._hasher.update(len(text).to_bytes(8, "little") + text)

    def _text(self, text: str) -> None:
        """Places do not count, but a file there is one that the model names."""
        if text.partition(":")[0] in UNTOLD:
            return
        if len(text) < 1024 and "\0" not in text and (path := Path(text)).is_absolute():
            if path.is_file():
                self.files.add(path)
            text = "a place" if path.exists() else text
        self._note("str", text.replace(self._folder, "."))

    def _compound(self, value: Any, depth: int) -> None:
        if _is_torch(value, "Tensor"):
            return self._tensor(value)
        if _is_torch(value, "nn.Module"):
            return self._module(value, depth)
        if _is_numpy(value):
            return self._array(value, depth)
        if isinstance(value, Mapping):
            keys = sorted(value) if all(isinstance(key, str) for key in value) else list(value)
            return self._each([part for key in keys for part in (key, value[key])], depth, "map")
        if isinstance(value, list | tuple):
            return self._each(value, depth, "list")
        if isinstance(value, set | frozenset):
            plain = [str(entry) for entry in value if isinstance(entry, str | int | float)]
            return self._each(sorted(plain), depth, f"set of {len(value)}")
        if isinstance(value, functools.partial):
            return self._each((value.func, value.args, value.keywords), depth, "partial")
        if isinstance(value, types.MethodType):
            return self._each((value.__func__, value.__self__), depth, "method")
        if isinstance(value, types.FunctionType):
            return self._function(value, depth)
        if isinstance(value, type):
            return self._class(value, depth)
        return self._object(value, depth)

    def _each(self, values: Iterable[Any], depth: int, kind: str) -> None:
        self._note(kind)
        for value in values:
            self.add(value, depth)

    def _array(self, value: Any, depth: int) -> None:
        import numpy as np

        array = np.asarray(value)
        self._note("array", array.dtype, array.shape)
        if array.dtype.hasobject:
            return self._each(array.reshape(-1).tolist(), depth, "objects")
        return self._hasher.update(np.ascontiguousarray(array).tobytes())

    def _tensor(self, tensor: Any) -> None:
        import torch

        self._note("tensor", tensor.dtype, tuple(tensor.shape))
        if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_meta:
            return
        flat = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
        self._hasher.update(memoryview(flat.view(torch.uint8).numpy()))

    def _module(self, module: Any, depth: int) -> None:
        from fieldmark.models._weights import hash_weights

        self._note("module", hash_weights(module))
        for name, part in module.named_modules():
            self._note(name, type(part).__qualname__)
            self._source_of(type(part))
            plain = {key: value for key, value in vars(part).items() if not key.startswith("_")}
            self.add(plain, depth)

    def _function(self, function: types.FunctionType, depth: int) -> None:
        self._note("function", function.__qualname__)
        self._source_of(function)
        cells = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
        self._each((cells, function.__defaults__, function.__kwdefaults__), depth, "closure")

    def _class(self, kind: type, depth: int) -> None:
        self._note("class", kind.__qualname__)
        for parent in kind.__mro__:
            if self._source_of(parent):
                self.globals(vars(parent), depth)

    def globals(self, names: Mapping[str, Any], depth: int = 0) -> None:
        """What a module or a class holds, without its functions and without what it imports."""
        skipped = (types.ModuleType, types.FunctionType, property, staticmethod, classmethod)
        for name in sorted(names):
            value = names[name]
            if not name.startswith("__") and not isinstance(value, skipped):
                self._note(name)
                self.add(value, depth)

    def _object(self, value: Any, depth: int) -> None:
        """Any other object: its attributes. Of those of the standard library (locks, loggers,
        pools) only the kind: what they hold changes by itself.
        """
        self._note("object", type(value).__qualname__)
        is_plain = isinstance(value, types.SimpleNamespace | argparse.Namespace)
        if type(value).__module__.partition(".")[0] in sys.stdlib_module_names and not is_plain:
            return
        self.add(type(value), depth)
        slots = [
            name
            for kind in type(value).__mro__
            for name in _as_names(vars(kind).get("__slots__", ()))
        ]
        held = {name: getattr(value, name) for name in slots if hasattr(value, name)}
        held |= getattr(value, "__dict__", {})
        held = {name: held[name] for name in held if name not in _untold_names(value)}
        if held:
            self.add(held, depth)

    def _source_of(self, thing: Any) -> bool:
        """Notes the file that defines a class or function of the user's."""
        text = getattr(sys.modules.get(thing.__module__ or ""), "__file__", None)
        if not text or not text.endswith(".py") or not is_users(Path(text).resolve()):
            return False
        self.files.add(Path(text).resolve())
        return True


def _is_torch(value: Any, name: str) -> bool:
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    return isinstance(value, torch.Tensor if name == "Tensor" else torch.nn.Module)


def _is_numpy(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray | numpy.generic)


def _is_filled(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _untold_names(value: Any) -> tuple[str, ...]:
    """Attributes that a class of ours says are no state."""
    kinds = [kind for kind in type(value).__mro__ if kind.__module__.startswith("fieldmark.")]
    return tuple(name for kind in kinds for name in vars(kind).get("not_state", ()))


def _as_names(slots: Any) -> tuple[str, ...]:
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(name for name in names if not name.startswith("__"))
