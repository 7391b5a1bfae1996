"""Flags of protocols: what may be set on the command line about how models are asked?

Made from the protocols' own settings classes and blocks, so that a new protocol has its flags
without a change here.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any

from tyro.conf import OmitArgPrefixes, arg

from fieldmark.errors import FieldmarkError, UsageError
from fieldmark.protocols import Protocol, Setting, protocols, settings_of
from fieldmark.settings import load_settings

METAVARS = {int: "N", float: "X", str: "TEXT"}


def with_protocol_flags(name: str, base: type) -> type:
    """A command's arguments with a group of flags for every settings class, and a flag `--NAME`
    for every protocol that task files have a block for.
    """
    with suppress(FieldmarkError):  # told by the command, which reads them again
        load_settings()  # protocols of the user's have flags too
    fields: list[tuple[str, Any, Any]] = []
    for protocol in protocols().values():
        if protocol.has_block:
            fields.append((protocol.name, _block_flag(protocol), ()))
    for cls, owner in _settings_classes().items():
        group = _group(cls)
        fields.append((owner, Annotated[group, OmitArgPrefixes], group()))
    made = dataclasses.make_dataclass(name, fields, bases=(base,), frozen=True)
    made.__doc__ = base.__doc__
    return made


def _settings_classes() -> dict[type, str]:
    """Every settings class that has settings, and the group of flags it is: one class may serve
    several protocols.
    """
    owners: dict[type, str] = {}
    for protocol in protocols().values():
        if settings_of(protocol.settings):
            owners.setdefault(protocol.settings, f"{protocol.name}_protocol")
    return owners


def _block_flag(protocol: Protocol) -> Any:
    word = f" (a word alone is its {protocol.head})" if protocol.head else ""
    text = f"changes to the tasks' `{protocol.name}` block{word}"
    return Annotated[tuple[str, ...], arg(metavar="KEY=VALUE …", help=text, help_behavior_hint="")]


def _group(cls: type) -> type:
    fields = [(setting.name, _flag_type(setting), _unset(setting)) for setting in settings_of(cls)]
    made = dataclasses.make_dataclass(f"{cls.__name__}Flags", fields, frozen=True)
    made.__doc__ = cls.__doc__
    return made


def _flag_type(setting: Setting) -> Any:
    if setting.type is bool:
        return Annotated[bool, arg(help=setting.doc, help_behavior_hint="")]
    words = "{" + ",".join(map(str, setting.choices)) + "}"
    kind, metavar = (str, words) if setting.choices else (setting.type, METAVARS[setting.type])
    return Annotated[kind | None, arg(help=setting.doc, help_behavior_hint="", metavar=metavar)]


def _unset(setting: Setting) -> Any:
    return False if setting.type is bool else None


def given_settings(args: Any) -> dict[str, Any]:
    """The settings of protocols that were given, by name; refuses values out of range."""
    values: dict[str, Any] = {}
    for cls, owner in _settings_classes().items():
        for setting in settings_of(cls):
            value = getattr(getattr(args, owner), setting.name)
            if value == _unset(setting):
                continue
            if expected := setting.problem(value):
                flag = setting.name.replace("_", "-")
                raise UsageError(f"--{flag} {value}: expected {expected}.")
            values[setting.name] = value
    return values


def given_blocks(args: Any) -> dict[str, dict[str, Any]]:
    """Protocol → the changes to its block that were given."""
    changes = {
        name: _changes(protocol, getattr(args, name, ())) for name, protocol in protocols().items()
    }
    return {name: change for name, change in changes.items() if change}


def _changes(protocol: Protocol, words: Sequence[str]) -> dict[str, Any]:
    from fieldmark.experiments import named_changes

    changes: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not key.isidentifier():  # a file's name may hold `=`
            changes |= named_changes(protocol, word)
        else:
            changes[key] = _value(text)
    return changes


def _value(text: str) -> Any:
    """As it would stand in a TOML file; whatever is no such value is text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
