"""User models: how does a class that somebody else wrote become a backbone?

Built from a file or a factory; `fingerprint` says when it is another, `wrap` keeps the contract.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fieldmark.errors import FieldmarkError, ModelError, first_line
from fieldmark.models._backbone import Backbone
from fieldmark.models._name import (
    NO,
    YES,
    ModelRequest,
    Wish,
    check_options,
    note_asked,
    wishing,
)
from fieldmark.models._user.fingerprint import code_of, fingerprint_model, named_files, read_closure
from fieldmark.models._user.wrap import UserBackbone, wrap
from fieldmark.registry import resolve_reference, run_file

LOG = logging.getLogger(__name__)


def load_file(request: ModelRequest) -> Backbone:
    """`path/to/file.py:Class?option=value`."""
    path, attribute = resolve_reference(request.name.base)
    closure = read_closure(path)
    before = named_files(closure, request.digest)
    with wishing(request) as wish:
        # Fresh: what a file reads at its top level may have changed since it ran before.
        entry, bundle = run_file(path, attribute, is_fresh=True)
        model = _build(entry, request)
        model.look()
    _tell_unheeded(request, wish)
    fingerprint_model(
        model, request, replace(closure, sources=bundle.closure.sources), before, wish
    )
    return model


def adopt(entry: Any, request: ModelRequest) -> Backbone:
    """A backbone from a class, a factory or a ready object that was registered, checked."""
    closure = code_of(entry)
    before = named_files(closure, request.digest) if closure else {}
    with wishing(request) as wish:
        model = _build(entry, request)
        if closure is None and type(model.inner).__module__.startswith("fieldmark."):
            return model  # one of ours, which knows itself
        model.look()
    _tell_unheeded(request, wish)
    fingerprint_model(model, request, closure, before, wish)
    return model


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


def _build(entry: Any, request: ModelRequest) -> UserBackbone:
    if not callable(entry):  # a ready object
        check_options(request.name, ())
    built = _call(entry, request) if callable(entry) else entry
    return wrap(built, request.name.text)


def _call(factory: Callable[..., Any], request: ModelRequest) -> Any:
    arguments: dict[str, Any] = {
        key: option_value(text) for key, text in request.name.options.items()
    }
    accepted = _parameters(factory)
    if accepted is not None:
        check_options(request.name, accepted)
        given = [key for key in ("device", "precision") if key in accepted]
        arguments = {key: getattr(request, key) for key in given} | arguments
        note_asked(*given)
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
