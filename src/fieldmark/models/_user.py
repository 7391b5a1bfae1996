"""How does a class that somebody else wrote become a backbone?

Anything with `transform`, `embed_images` and `dim` will do. What it lacks is supplied (a name, a
fingerprint made of its file and options), what it gets wrong is said in one line when it is
loaded, not hours later.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fieldmark import draws
from fieldmark.errors import FieldmarkError, ModelError, UsageError
from fieldmark.models._backbone import Backbone, Features
from fieldmark.models._files import hash_path, option_files
from fieldmark.models._name import NO, YES, Request, check_options
from fieldmark.registry import load_reference

if TYPE_CHECKING:
    import numpy as np
    from PIL import Image

NEEDED = {
    "transform": "a method: an RGB PIL image in, an array out",
    "embed_images": "a method: stacked transform results in, features (n × dim) out",
    "dim": "the length of a feature, a whole number above 0",
}


def load_file(request: Request) -> Backbone:
    """`path/to/file.py:Class?option=value`."""
    return adopt(load_reference(request.name.base), request)


def adopt(entry: Any, request: Request) -> Backbone:
    """A backbone from a class, a factory or a ready object, checked."""
    built = _call(entry, request) if callable(entry) else _ready(entry, request)
    _check(built, request.name.text)
    return UserBackbone(built, request)


def _ready(entry: Any, request: Request) -> Any:
    check_options(request.name, ())
    return entry


def _call(factory: Callable[..., Any], request: Request) -> Any:
    arguments: dict[str, Any] = {
        key: option_value(text) for key, text in request.name.options.items()
    }
    accepted = _parameters(factory)
    if accepted is not None:
        check_options(request.name, accepted)
        for key, value in (("device", request.device), ("precision", request.precision)):
            if key in accepted:
                arguments.setdefault(key, value)
    try:
        return factory(**arguments)
    except FieldmarkError:
        raise
    except Exception as error:
        raise ModelError(
            f"model {request.name.text!r} cannot be built: {first_line(error)}."
        ) from error


def _parameters(factory: Callable[..., Any]) -> list[str] | None:
    """The names a factory can be given; None when it takes any or does not say."""
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return None
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [each.name for each in parameters if each.kind in by_name]


def option_value(text: str) -> bool | int | float | str:
    """`true`, `12` and `0.5` as what they look like, everything else as text.

    >>> [option_value(each) for each in ("true", "12", "0.5", "a.pt")]
    [True, 12, 0.5, 'a.pt']
    """
    if text.lower() in (*YES[:2], *NO[:2]):
        return text.lower() in YES
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _check(built: Any, name: str) -> None:
    for attribute, meaning in NEEDED.items():
        found = getattr(built, attribute, None)
        is_good = _is_dim(found) if attribute == "dim" else callable(found)
        if is_good:
            continue
        what = "has no" if found is None else f"has an unusable {found!r} as"
        raise ModelError(
            f"model {name!r}: {type(built).__name__} {what} `{attribute}`, expected {meaning}."
        )
    fingerprint = getattr(built, "fingerprint", "none")
    if not isinstance(fingerprint, str) or not fingerprint:
        raise ModelError(
            f"model {name!r}: `fingerprint` is {fingerprint!r}, expected text that changes with "
            "the weights (or none at all: then one is made from the file and the options)."
        )


def _is_dim(value: Any) -> bool:
    try:
        return operator.index(value) > 0
    except TypeError:
        return False


class UserBackbone:
    """Someone's object, with what the contract wants around it; other attributes are the object's
    own.
    """

    def __init__(self, inner: Any, request: Request) -> None:
        self.inner = inner
        self.name = request.name.text
        self._fingerprint = inner.fingerprint if _brings_own(inner) else _derived(inner, request)

    def __getattr__(self, attribute: str) -> Any:
        if attribute == "inner":
            raise AttributeError(attribute)
        return getattr(self.inner, attribute)

    @property
    def dim(self) -> int:
        return operator.index(self.inner.dim)

    @property
    def fingerprint(self) -> str:
        return self._fingerprint

    def transform(self, image: Image.Image) -> np.ndarray:
        import numpy as np

        return np.asarray(self.inner.transform(image))

    def embed_images(self, batch: np.ndarray, *, patches: bool = False) -> Features:
        """Also takes a bare array, or (pooled, patches), from the inner object."""
        import numpy as np

        if len(batch) == 0:
            return Features(np.zeros((0, self.dim), np.float32))
        takes = "patches" in inspect.signature(self.inner.embed_images).parameters
        result = self.inner.embed_images(batch, **({"patches": patches} if takes else {}))
        if isinstance(result, Features):
            pooled, tokens = result.pooled, result.patches
        else:
            pooled, tokens = result if isinstance(result, tuple) else (result, None)
        pooled = np.ascontiguousarray(pooled, dtype=np.float32)
        if pooled.shape != (len(batch), self.dim):
            raise ModelError(
                f"model {self.name!r}: embed_images gave shape {pooled.shape} for {len(batch)} "
                f"images, expected {(len(batch), self.dim)} (`dim` is {self.dim})."
            )
        return Features(pooled, None if tokens is None else np.asarray(tokens, np.float32))


def _brings_own(inner: Any) -> bool:
    """Did its author write a fingerprint? One inherited from us does not know the options of the
    name.
    """
    theirs = [kind for kind in type(inner).__mro__ if not kind.__module__.startswith("fieldmark.")]
    return "fingerprint" in vars(inner) or any("fingerprint" in vars(kind) for kind in theirs)


def _derived(inner: Any, request: Request) -> str:
    """From the code's bytes, the options, the bytes of files the options name, and weights where
    we know them.
    """
    code, inherited = source_hash(inner), getattr(inner, "fingerprint", "")
    if not code and not inherited:
        raise UsageError(
            f"model {request.name.text!r}: the source of {type(inner).__name__} cannot be read, "
            "so it must bring its own `fingerprint`."
        )
    files = [hash_path(path) for path in option_files(request.name)]
    options = sorted(request.name.options.items())
    kind = type(inner).__qualname__
    return draws.digest("user", kind, code, inherited, options, files).hex()


def source_hash(thing: object) -> str:
    """A hash of the file that defines the thing's class; empty where there is none to read."""
    try:
        path = inspect.getsourcefile(type(thing))
    except TypeError:
        return ""
    return hash_path(Path(path)) if path and Path(path).is_file() else ""


def first_line(error: BaseException) -> str:
    """An error in one line, without its final full stop."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0].rstrip('.')}" if lines else type(error).__name__
