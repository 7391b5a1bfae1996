"""Which code answers to a model's name?

Looked up in this order: a file of the user's, a registered factory, a family file of this package,
an entry point. Listing reads the families' tables only: no numpy, no torch, no network.
"""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from fieldmark.code import file_digest
from fieldmark.errors import UnknownName, UsageError, closest
from fieldmark.models._backbone import Backbone, Checkpoint
from fieldmark.models._name import ModelName, Request, check_options, parse_name, wished
from fieldmark.registry import Registry

if TYPE_CHECKING:
    from fieldmark.models._identity import ModelMemory

REGISTRY = Registry("model", "fieldmark.models", "fieldmark models")


def families() -> list[str]:
    """The names that can stand before the slash. Imports nothing."""
    return [name for name in REGISTRY.names() if name not in REGISTRY.added]


def known_models(query: str = "") -> list[Checkpoint]:
    """Rows with full names for everything in the families' tables and everything registered.

    Families such as timm load far more than their tables list. Every word of `query` must occur in
    the name, title, licence or date; case does not count.
    """
    rows = [row for family in families() for row in _rows(family)]
    rows += [Checkpoint(name, source="registered") for name in sorted(REGISTRY.added)]
    words = query.lower().split()
    return [row for row in rows if all(word in _searchable(row) for word in words)]


def _rows(family: str) -> list[Checkpoint]:
    if not _is_ours(family):
        return [Checkpoint(family, source="entry point")]
    table: Iterable[Checkpoint] = getattr(REGISTRY.get(family), "CHECKPOINTS", ())
    return [dataclasses.replace(row, name=f"{family}/{row.name}") for row in table]


def _is_ours(family: str) -> bool:
    return importlib.util.find_spec(f"{REGISTRY.package}.{family.replace('-', '_')}") is not None


def _searchable(row: Checkpoint) -> str:
    return f"{row.name} {row.title} {row.licence} {row.released}".lower()


def register_model(name: str, factory: Callable[..., Any]) -> None:
    """From now on `load_model(name)` calls `factory(**options)`, which returns a backbone."""
    if "?" in name or not name.strip():
        raise UsageError(
            f"model name {name!r} cannot be registered: it must not be empty or hold '?'."
        )
    REGISTRY.register(name, factory)


def load_model(
    name: str,
    *,
    device: str = "auto",
    precision: str = "auto",
    offline: bool = False,
    memory: ModelMemory | None = None,
) -> Backbone:
    """The backbone of that name, in eval mode, on its device, checked against the contract.

    `device`: auto (cuda, else mps, else cpu), cpu, cuda, cuda:1, mps. `precision`: auto (bf16 on
    cuda, float32 elsewhere), float32, bf16, fp16. `offline` forbids fetching weights; weights that
    are here still load. `memory` keeps what the model turned out to be.

    >>> load_model("classical/colour").dim
    246
    """
    device, precision = wished(device, precision)
    digest = memory.digest if memory else file_digest
    backbone = _build(Request(parse_name(name), device, precision, offline, digest))
    backbone.name = name
    _ = backbone.dim  # one blank image goes through: a network that cannot see fails here
    if memory:
        memory.remember(name, backbone, device, precision)
    return backbone


def abilities(name: str) -> frozenset[str]:
    """What a model can do, by its name. Loads nothing."""
    parsed = parse_name(name)
    if parsed.is_file or parsed.base in REGISTRY.added or parsed.family not in families():
        return frozenset({"embeds_images"})
    is_chat = getattr(REGISTRY.get(parsed.family), "PROTOCOL", "") == "ask"
    return frozenset({"answers"} if is_chat else {"embeds_images"})


def load_chat_model(
    name: str, *, device: str = "auto", precision: str = "auto", offline: bool = False
) -> Any:
    """A model that answers messages: `chat/PROVIDER/MODEL` or `hf-chat/REPO`."""
    parsed = parse_name(name)
    return family_of(parsed).load(Request(parsed, device, precision, offline))


def _build(request: Request) -> Backbone:
    from fieldmark.models import _user

    name = request.name
    if name.is_file:
        return _user.load_file(request)
    if name.base in REGISTRY.added:
        return _user.adopt(REGISTRY.added[name.base], request)
    entry = family_of(name)
    if not hasattr(entry, "load"):
        return _user.adopt(entry, request)
    backbone: Backbone = entry.load(request)
    return backbone


def family_of(name: ModelName) -> Any:
    """The family's module (or what an entry point gave), its options checked."""
    if name.base.endswith(".py"):
        raise UsageError(f"model {name.text!r} names no class: expected {name.base}:CLASS.")
    if name.family not in families():
        raise _unknown(name)
    entry = REGISTRY.get(name.family)
    if not hasattr(entry, "load"):
        return entry
    if not name.checkpoint:
        table = getattr(entry, "CHECKPOINTS", ())
        example = f", for example {name.family}/{table[0].name}" if table else ""
        raise UsageError(
            f"model {name.text!r} names a family only: expected {name.family}/CHECKPOINT{example}. "
            f"`fieldmark models {name.family}` lists those known."
        )
    if not hasattr(entry, "check_name"):
        check_options(name, getattr(entry, "OPTIONS", ()))
    else:
        entry.check_name(name.text)
    if hasattr(entry, "check_checkpoint"):
        entry.check_checkpoint(name.checkpoint)
    return entry


def _unknown(name: ModelName) -> UnknownName:
    """Most often the family was left out or mistyped: suggest whole names, then a search that
    finds some.
    """
    names = [row.name for row in known_models()]
    corrected = [f"{family}/{name.checkpoint}" for family in closest(name.family, families())]
    known = corrected if name.checkpoint and corrected else [*families(), *names]
    tails = {each.rpartition("/")[2]: each for each in names}
    found = closest(name.base.rpartition("/")[2], tails, most=1)
    listing = f"{REGISTRY.listing} {found[0]}" if found and not corrected else REGISTRY.listing
    return UnknownName("model", name.base, known, listing)
