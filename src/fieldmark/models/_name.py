"""Model names and requests: what does a name ask for, and can it be had here?

`family/checkpoint?option=value&option=value`, or `path/to/file.py:Class?option=value`. Names are
text on the command line, in TOML files and in the store, so everything that makes one model differ
from another is in them.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.util
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from fieldmark.code import Digest, file_digest
from fieldmark.errors import MissingExtra, ModelError, UnknownName, UsageError, first_line
from fieldmark.registry import ask_nobody, is_file_reference, split_options

YES = ("true", "yes", "1", "on")
NO = ("false", "no", "0", "off")


@dataclass(frozen=True, slots=True)
class ModelName:
    """A name taken apart."""

    text: str
    """as the user wrote it"""
    base: str
    """without the options"""
    options: dict[str, str] = field(default_factory=dict)

    @property
    def is_file(self) -> bool:
        return is_file_reference(self.base)

    @property
    def family(self) -> str:
        return self.base.partition("/")[0]

    @property
    def checkpoint(self) -> str:
        return self.base.partition("/")[2]

    @property
    def portable(self) -> str:
        """The same for names that differ in the order of their options only; without the folders of
        files: where these lie does not count.
        """
        base = Path(self.base).name if self.is_file else self.base
        values = {key: _file_name(value) for key, value in sorted(self.options.items())}
        options = "&".join(f"{key}={value}" for key, value in values.items())
        return f"{base}?{options}" if options else base


def _file_name(value: str) -> str:
    path = Path(value).expanduser()
    return path.name if path.exists() else value


def parse_name(text: str) -> ModelName:
    """Takes a name apart; says which part of it cannot be read."""
    base, options = split_options(text)
    return ModelName(text, base, options)


def check_options(name: ModelName, allowed: Iterable[str]) -> None:
    """Refuses an option nobody reads: a silent typo would be another model than the one meant."""
    allowed = sorted(allowed)
    for key in name.options:
        if key not in allowed:
            takes = ", ".join(allowed) or "no options"
            raise UnknownName(f"model {name.text!r} takes {takes}: option", key, allowed)


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What a family is asked to load."""

    name: ModelName
    device: str = "auto"
    precision: str = "auto"
    decode: str = "auto"
    offline: bool = False
    digest: Digest = file_digest
    """how the content of a file is hashed"""
    send_key: Sequence[str] = ()
    """`VARIABLE=HOST`: keys that the user lets go to addresses that only files name"""

    @property
    def checkpoint(self) -> str:
        return self.name.checkpoint

    def says(self, library: str, error: Exception) -> ModelError:
        """What a library that cannot build the model says, in one line."""
        return ModelError(f"model {self.name.text!r}: {library} says {first_line(error)}.")

    def own_folder(self, folder: Path, config: str) -> Path:
        """The user's folder, or an error where it does not hold the file."""
        if not (folder / config).is_file():
            inside = next(iter(sorted(folder.glob(f"*/{config}"))), None)  # runs/a: runs/a/model
            meant = "" if inside is None else f" Did you mean {str(inside.parent)!r}?"
            text = f"model {self.name.text!r}: {folder / config} does not exist.{meant}"
            raise UsageError(text)
        return folder.resolve()

    def flag(self, key: str, default: bool) -> bool:
        value = self.name.options.get(key)
        if value is None:
            return default
        if value.lower() not in YES + NO:
            raise self.wrong(key, "true or false")
        return value.lower() in YES

    def pixels(self, key: str = "size") -> int | None:
        value = self.name.options.get(key)
        if value is None:
            return None
        if not value.isascii() or not value.isdigit() or not 8 <= int(value) <= 8192:
            raise self.wrong(key, "a whole number of pixels from 8 to 8192")
        return int(value)

    def choice(self, key: str, allowed: Sequence[str]) -> str | None:
        value = self.name.options.get(key)
        if value is not None and value not in allowed:
            raise self.wrong(key, f"one of {', '.join(allowed)}")
        return value

    def path(self, key: str) -> Path | None:
        value = self.name.options.get(key)
        if value is None:
            return None
        path = Path(value).expanduser()
        if not path.exists():
            raise UsageError(f"model {self.name.text!r}: {key}={value} does not exist.")
        return path.resolve()

    def wrong(self, key: str, expected: str) -> UsageError:
        value = self.name.options[key]
        return UsageError(f"model {self.name.text!r}: {key}={value}, expected {expected}.")


@dataclass(slots=True)
class Wish:
    """Where and how the user wants a model to run, and which of that the model asked for."""

    request: ModelRequest
    asked: set[str] = field(default_factory=set)
    """of device, precision and decode"""


_WISH: ContextVar[Wish | None] = ContextVar("fieldmark_wish", default=None)


@contextlib.contextmanager
def wishing(request: ModelRequest) -> Iterator[Wish]:
    """While a model is built, `auto` means what the request asks for."""
    wish = Wish(request)
    token = _WISH.set(wish)
    try:
        yield wish
    finally:
        _WISH.reset(token)


def note_asked(*flags: str) -> None:
    """The model takes these by itself."""
    wish = _WISH.get()
    if wish is not None:
        wish.asked.update(flags)


def wished(flag: str, value: str) -> str:
    """The device, precision or decode, with `auto` as it is meant here."""
    wish = _WISH.get()
    if wish is None or value != "auto":
        return value
    wish.asked.add(flag)
    return str(getattr(wish.request, flag))


# --- is the optional package here, in which arithmetic would a model run, how are photos read


def need_package(request: ModelRequest, package: str) -> Any:
    """The imported package, with torch seen to first; the line that installs them where it is
    missing.
    """
    for name in ("torch", package):
        try:
            module = importlib.import_module(name)
        except ImportError as error:
            raise MissingExtra(request.name.text, "vision", name) from error
    if package in ("open_clip", "transformers"):
        ask_nobody()
    return module


@lru_cache(maxsize=64)
def resolve_device(device: str) -> Any:
    """torch's device for a model; as text where no GPU can be meant, or torch is not installed: it
    is imported only where a GPU may be. None for a cuda device that is not here.
    """
    if device in ("cpu", "mps") or (device == "auto" and not _may_have_gpu()):
        return "cpu" if device == "auto" else device
    try:
        from fieldmark import devices
    except ImportError:
        return "cpu"
    try:
        return devices.choose_device(device)
    except ModelError:
        return None


@lru_cache(maxsize=64)
def resolve_precision(device: str, precision: str) -> str:
    """The arithmetic that a torch model would run in; torch is imported only where a GPU may be.

    A cuda device that is not here is taken for one that has bf16: such a plan is made for another
    machine.
    """
    if precision != "auto":
        return precision
    chosen = resolve_device(device)
    if chosen is None:
        return "bf16"
    if isinstance(chosen, str):
        return "float32"
    from fieldmark import devices

    return devices.choose_precision("auto", chosen)


@lru_cache(maxsize=64)
def resolve_decode(device: str, decode: str) -> str:
    """How photos would be read for a torch model; torch is imported only where a GPU may be.

    A cuda device that is not here is taken for one that has nvJPEG: such a plan is made for another
    machine.
    """
    if decode != "auto":
        return decode
    chosen = resolve_device(device)
    if chosen is None:
        return "gpu"
    if isinstance(chosen, str):
        return "cpu" if importlib.util.find_spec("torchvision") else "reference"
    from fieldmark import devices

    return devices.choose_decode("auto", chosen)


def decode_mark(decode: str) -> tuple[str, ...]:
    """What a way of reading photos adds to a fingerprint: nothing where it is the exact one."""
    return (f"decode {decode} 1",) if decode in ("cpu", "gpu") else ()


def _may_have_gpu() -> bool:
    """False only where torch could find no CUDA or ROCm device; costs no import."""
    if sys.platform != "linux" or "torch" in sys.modules:
        return sys.platform != "darwin"
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return Path("/dev/kfd").exists()
    return True
