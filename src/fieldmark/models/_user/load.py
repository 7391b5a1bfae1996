"""User models: how does a class that somebody else wrote become a backbone?

Built from a file or a factory, and watched meanwhile: its fingerprint is made of its code, the
files it opened, its options and its state. `wrap` keeps the contract for it.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fieldmark import draws
from fieldmark.code import DATA, Bundle, Closure, Digest, closure_of, is_users
from fieldmark.errors import FieldmarkError, ModelError, UsageError, first_line
from fieldmark.models._backbone import Backbone
from fieldmark.models._name import (
    NO,
    YES,
    ModelName,
    ModelRequest,
    Wish,
    check_options,
    decode_mark,
    note_asked,
    resolve_decode,
    resolve_precision,
    wishing,
)
from fieldmark.models._user.fingerprint import (
    DISTRIBUTIONS,
    UNHEARD,
    Opened,
    StateDigest,
    library_version,
    options_content,
    watch,
)
from fieldmark.models._user.wrap import Basis, UserBackbone, wrap
from fieldmark.registry import resolve_reference, run_file

LOG = logging.getLogger(__name__)

READERS = ("flax", "h5py", "jax", "keras", "lmdb", "onnxruntime", "safetensors", "zarr")
"""packages that open files unheard: a model that imports one is known only by its loaded state,
unless the file they read was found
"""


def load_file(request: ModelRequest) -> Backbone:
    """`path/to/file.py:Class?option=value`."""
    path, attribute = resolve_reference(request.name.base)
    with watch() as opened, wishing(request) as wish:
        # Fresh: what a file reads at its top level may have changed since it ran before.
        entry, bundle = run_file(path, attribute, is_fresh=True)
        model = _build(entry, request)
        model.look()
    _tell_unheeded(request, wish)
    _settle(model, request, bundle.closure, _BuildNotes(opened, wish, bundle))
    return model


def adopt(entry: Any, request: ModelRequest) -> Backbone:
    """A backbone from a class, a factory or a ready object that was registered, checked."""
    closure = code_of(entry)
    with watch() as opened, wishing(request) as wish:
        model = _build(entry, request)
        if closure is None and type(model.inner).__module__.startswith("fieldmark."):
            return model  # one of ours, which knows itself
        model.look()
    _tell_unheeded(request, wish)
    _settle(model, request, closure, _BuildNotes(opened, wish))
    return model


@dataclass(frozen=True, slots=True)
class _BuildNotes:
    """What was noted while a model was built."""

    opened: Opened
    wish: Wish
    bundle: Bundle | None = None


def _tell_unheeded(request: ModelRequest, wish: Wish) -> None:
    """A model that takes no device runs where it likes: whoever asked for one must know."""
    flags = (
        ("device", request.device, ("auto", "cpu")),
        ("precision", request.precision, ("auto", "float32")),
        ("decode", request.decode, ("auto", "reference")),
    )
    for flag, value, usual in flags:
        if value not in usual and flag not in wish.asked:
            LOG.warning(
                "model %r takes no `%s`, so --%s %s has no effect on it: see docs/add-a-model.md.",
                request.name.text, flag, flag, value,
            )  # fmt: skip


def code_of(entry: Any) -> Closure | None:
    """The code of a class, a function or an object, where it is the user's and can be read."""
    thing = getattr(entry, "func", getattr(entry, "__func__", entry))  # of a partial, of a method
    thing = thing if inspect.isclass(thing) or inspect.isfunction(thing) else type(thing)
    try:
        text = inspect.getsourcefile(inspect.unwrap(thing))
    except TypeError:
        return None
    path = Path(text).resolve() if text else None
    return closure_of(path) if path and path.is_file() and is_users(path) else None


def source_hash(entry: Any) -> str:
    """Stands for that code; empty where there is none to read."""
    closure = code_of(entry)
    return closure.digest() if closure else ""


def known_key(name: ModelName, closure: Closure | None, digest: Digest) -> str:
    """Stands for all that is known of a model of the user's without loading it; places do not
    count.
    """
    base = name.base.rpartition(":")[2] if name.is_file else name.base
    versions = [(package, library_version(package)) for package in sorted(DISTRIBUTIONS)]
    used = [version for version in versions if closure and version[0] in closure.libraries]
    code = closure.digest(digest) if closure else ""
    return draws.digest("user 2", base, options_content(name, digest), used, code).hex()


def _build(entry: Any, request: ModelRequest) -> UserBackbone:
    built = _call(entry, request) if callable(entry) else _ready(entry, request)
    return wrap(built, request.name.text)


def _ready(entry: Any, request: ModelRequest) -> Any:
    check_options(request.name, ())
    return entry


def _call(factory: Callable[..., Any], request: ModelRequest) -> Any:
    arguments: dict[str, Any] = {
        key: option_value(text) for key, text in request.name.options.items()
    }
    accepted = _parameters(factory)
    if accepted is not None:
        check_options(request.name, accepted)
        asked = [key for key in ("device", "precision") if key in accepted]
        arguments = {key: getattr(request, key) for key in asked} | arguments
        note_asked(*asked)
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
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [parameter.name for parameter in parameters if parameter.kind in by_name]


def option_value(text: str) -> bool | int | float | str:
    """`true`, `12` and `0.5` as what they look like, everything else as text.

    >>> [option_value(text) for text in ("true", "12", "0.5", "a.pt")]
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


def _settle(
    model: UserBackbone, request: ModelRequest, closure: Closure | None, seen: _BuildNotes
) -> None:
    """Says what the model rests on, now that it has been built and has looked."""
    folder = closure.root.parent if closure else Path.cwd()
    state = StateDigest(folder)
    state.add(model.inner)
    for module in seen.bundle.modules() if seen.bundle else ():
        state.globals(vars(module))
    own = _own_fingerprint(model.inner)
    code = [path for path in state.files if path.suffix == ".py"]
    if closure is None and not code and not own:
        raise UsageError(
            f"model {request.name.text!r}: the source of {type(model.inner).__name__} cannot "
            "be read, so it must bring its own `fingerprint`."
        )
    rest = {file for path in code for file in closure_of(path).files if file.is_file()}
    named = {path for path in state.files if path.suffix in DATA}
    rest |= {*seen.opened.files(folder), *seen.opened.unwritten(named)}
    files = sorted(rest - set(closure.files if closure else ()))
    key = known_key(request.name, closure, request.digest)
    asked = seen.wish.asked
    precision = resolve_precision(request.device, request.precision) if "precision" in asked else ""
    decode = resolve_decode(request.device, request.decode) if "decode" in asked else ""
    held = tuple((path, request.digest(path).hex()) for path in files)
    contents = sorted((path.name, content) for path, content in held)
    parts = ["own", own] if own else ["state", state.hexdigest(), contents]
    fingerprint = draws.digest(key, precision, *parts, *decode_mark(model.decode)).hex()
    basis = Basis(key, folder, held, _is_known(closure, files), precision, decode)
    model.settle(fingerprint, basis)


def _own_fingerprint(inner: Any) -> str:
    """What its author wrote as a fingerprint; one inherited from us does not know the code."""
    kinds = [kind for kind in type(inner).__mro__ if "fingerprint" in vars(kind)]
    is_ours = bool(kinds) and kinds[0].__module__.startswith("fieldmark.")
    return "" if is_ours else str(getattr(inner, "fingerprint", ""))


def _is_known(closure: Closure | None, files: Sequence[Path]) -> bool:
    """Can no file have been read that nobody heard of?"""
    if closure is None:
        return False
    is_found = any(path.suffix in UNHEARD for path in (*files, *closure.data.values()))
    return is_found or not closure.libraries.intersection(READERS)
