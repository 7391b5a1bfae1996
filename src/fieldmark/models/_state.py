"""State digest: what numbers and texts does an object hold?

Weights that no file or line of code tells of (a reader written in Rust, a random draw) are still
in the object: arrays, tensors, numbers, texts and containers are followed from its attributes and
hashed. What says nothing of the features is left out: places, devices, names of precisions.
"""

from __future__ import annotations

import argparse
import enum
import functools
import hashlib
import sys
import types
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from fieldmark.code import is_users

DEPTH = 8
MOST = 50_000
"""objects looked at: a model whose tables are larger has them in arrays"""
UNTOLD = ("auto", "bf16", "cpu", "cuda", "float32", "fp16", "mps")


class State:
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
        if id(value) in self._met or depth > DEPTH or len(self._met) > MOST:
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
        if isinstance(value, np.ndarray | np.generic):
            return self._array(np.asarray(value), depth)
        if isinstance(value, Mapping):
            keys = sorted(value) if all(isinstance(key, str) for key in value) else list(value)
            return self._each([part for key in keys for part in (key, value[key])], depth, "map")
        if isinstance(value, list | tuple):
            return self._each(value, depth, "list")
        if isinstance(value, set | frozenset):
            plain = [str(each) for each in value if isinstance(each, str | int | float)]
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

    def _array(self, array: np.ndarray, depth: int) -> None:
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
        for each in kind.__mro__:
            if self._source_of(each):
                self.globals(vars(each), depth)

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


def _is_filled(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _as_names(slots: Any) -> tuple[str, ...]:
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(name for name in names if not name.startswith("__"))
