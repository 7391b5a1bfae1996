"""Model registry: which code answers to a model's name, and how can that model be asked?

Looked up in this order: a file of the user's, a registered factory, a family file of this package,
an entry point. Listing reads the families' tables only: no numpy, no torch, no network.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fieldmark.code import file_digest
from fieldmark.errors import UnknownName, UsageError, closest
from fieldmark.models._backbone import ABILITY_OF_METHOD, Backbone, Checkpoint
from fieldmark.models._name import (
    ModelName,
    ModelRequest,
    check_options,
    parse_name,
    wished,
    wishing,
)
from fieldmark.models._user import adopt, load_file
from fieldmark.registry import EMBEDS_IMAGES, Registry, is_file_reference, resolve_reference

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
    terms = query.lower().split()
    texts = [f"{row.name} {row.title} {row.licence} {row.released}".lower() for row in rows]
    pairs = zip(rows, texts, strict=True)
    matches = [row for row, text in pairs if all(word in text for word in terms)]
    return matches or _relatives(query)


def _relatives(name: str) -> list[Checkpoint]:
    """Of a name that is in no table, what a library has besides; else what a family finds alike."""
    family = name.partition("/")[0]
    if family not in families():
        ours = [one for one in families() if name and _is_ours(one)]
        return [row for one in ours for row in _architectures(one, name)]
    if rows := _architectures(family, name.partition("/")[2]):
        return rows
    find = getattr(REGISTRY.get(family), "relative_of", None)
    with suppress(UsageError):
        row = find(name) if find else None
        return [row] if row else []
    return []


def _architectures(family: str, part: str) -> list[Checkpoint]:
    """Names that the family's library has besides its table."""
    names: list[str] = getattr(REGISTRY.get(family), "architectures", list)()
    return [Checkpoint(f"{family}/{name}") for name in names if part in name]


def _rows(family: str) -> list[Checkpoint]:
    if not _is_ours(family):
        return [Checkpoint(family, source="entry point")]
    table: Iterable[Checkpoint] = getattr(REGISTRY.get(family), "CHECKPOINTS", ())
    return [dataclasses.replace(row, name=f"{family}/{row.name}") for row in table]


def _is_ours(family: str) -> bool:
    return importlib.util.find_spec(f"{REGISTRY.package}.{family.replace('-', '_')}") is not None


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
    decode: str = "auto",
    offline: bool = False,
    memory: ModelMemory | None = None,
) -> Backbone:
    """The backbone of that name, in eval mode, on its device, checked against the contract.

    `device`: auto (cuda, else mps, else cpu), cpu, cuda, cuda:1, mps. `precision`: auto (bf16 on
    cuda, float32 elsewhere), float32, bf16, fp16. `decode`, how photos are read: reference (Pillow,
    exact), cpu or gpu (faster, almost the same pixels), auto (the fastest way here).
    `offline` forbids fetching weights; weights that are here still load. `memory` keeps what the
    model turned out to be.

    >>> load_model("classical/colour").dim
    246
    """
    how = {"device": device, "precision": precision, "decode": decode}
    how = {flag: wished(flag, value) for flag, value in how.items()}
    digest = memory.digest if memory else file_digest
    parsed = parse_name(name)
    backbone: Any = _build(ModelRequest(parsed, **how, offline=offline, digest=digest))
    backbone.name = name
    again = partial(
        load_model, name, precision=how["precision"], decode=how["decode"], offline=offline
    )
    # What is registered in this process is not in others.
    backbone.load_again = again if parsed.base not in REGISTRY.added else None
    _ = backbone.dim  # one blank image goes through: a network that cannot see fails here
    if memory:
        memory.remember(name, backbone, **how)
    loaded: Backbone = backbone
    return loaded


def abilities(name: str) -> frozenset[str]:
    """How a model can be asked: any of embeds_images, embeds_texts, answers, scores_continuations.

    Loads no weights and runs no code of the user's: a family says it for all its checkpoints or for
    a name, a class of your own by the methods it defines (embed_images, embed_texts, answer,
    score). A function that makes a model says nothing, and is taken for one that embeds images.

    >>> sorted(abilities("open-clip/ViT-B-16/openai"))
    ['embeds_images', 'embeds_texts']
    """
    parsed = parse_name(name)
    if parsed.is_file:
        return _abilities_of_methods(_methods_in_source(*resolve_reference(parsed.base)))
    if parsed.base in REGISTRY.added:
        return abilities_of(REGISTRY.added[parsed.base])
    if parsed.family not in families():
        raise _unknown(parsed)
    entry = REGISTRY.get(parsed.family)
    if not hasattr(entry, "load"):
        return abilities_of(entry)
    if hasattr(entry, "abilities"):
        return frozenset(entry.abilities(parsed))
    return frozenset(getattr(entry, "ABILITIES", (EMBEDS_IMAGES,)))


def stand_in(name: str) -> str:
    """What a model that is none stands in as, "mock" or "control"; "" for a real one. Stand-ins run
    like models, and are in no verdict, tier, mean or rank.

    A family says it of a name with a function `stand_in`; all other models are real.

    >>> stand_in("classical/chance"), stand_in("classical/colour")
    ('control', '')
    """
    parsed = parse_name(name)
    if parsed.is_file or parsed.base in REGISTRY.added:
        return ""
    says = getattr(REGISTRY.get(parsed.family), "stand_in", None)
    return str(says(parsed)) if says else ""


def abilities_of(model: object) -> frozenset[str]:
    """The same of a model that is loaded, or of its class."""
    return _abilities_of_methods(
        method for method in ABILITY_OF_METHOD if callable(getattr(model, method, None))
    )


def _abilities_of_methods(methods: Iterable[str]) -> frozenset[str]:
    named = {ABILITY_OF_METHOD[method] for method in methods if method in ABILITY_OF_METHOD}
    return frozenset(named or {EMBEDS_IMAGES})


def _methods_in_source(path: Path, attribute: str) -> set[str]:
    """Names of the methods of a class, and of its parents in the same file."""
    try:
        tree = ast.parse(path.read_bytes())
    except SyntaxError:  # told with its line when the model is loaded
        return set()
    classes = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    methods: set[str] = set()
    names, met = [attribute], set[str]()
    while names:
        node = classes.get(names.pop())
        if node is None or node.name in met:
            continue
        met.add(node.name)
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        methods |= {part.name for part in node.body if isinstance(part, functions)}
        parents = {base.id for base in node.bases if isinstance(base, ast.Name)}
        # One of ours keeps its contract: it embeds images, whatever a subclass adds.
        methods |= {"embed_images"} if "TorchBackbone" in parents else set()
        names += parents
    return methods


def load_chat_model(
    name: str,
    *,
    device: str = "auto",
    precision: str = "auto",
    offline: bool = False,
    send_key: Sequence[str] = (),
) -> Any:
    """A model that answers messages: `chat/PROVIDER/MODEL` or `hf-chat/REPO`."""
    parsed = parse_name(name)
    how = ModelRequest(parsed, device, precision, offline=offline, send_key=send_key)
    return family_of(parsed).load(how)


def full_name(name: str) -> str:
    """The one name under which the results of a model stand; most families have no other. Nothing
    is checked, so that a pattern (`chat/gemini/*`) may stand for several.
    """
    base, family = name.partition("?")[0], name.partition("/")[0]
    if is_file_reference(base) or base in REGISTRY.added or family not in families():
        return name
    entry: Any = REGISTRY.get(family)
    return str(entry.full_name(name)) if hasattr(entry, "full_name") else name


def check_key(name: str, where: str = "", send_key: Sequence[str] = ()) -> None:
    """Refuses a model whose key would go where only a file says; the name stands at `where`."""
    parsed = parse_name(name)
    is_family = not parsed.is_file and parsed.base not in REGISTRY.added
    entry: Any = family_of(parsed) if is_family else None
    if hasattr(entry, "check_key"):
        entry.check_key(name, where, send_key)


def _build(request: ModelRequest) -> Backbone:
    name = request.name
    if name.is_file:
        return load_file(request)
    if name.base in REGISTRY.added:
        return adopt(REGISTRY.added[name.base], request)
    entry = family_of(name)
    if not hasattr(entry, "load"):
        return adopt(entry, request)
    with wishing(request):
        backbone: Backbone = entry.load(request)
    return backbone


def family_of(name: ModelName) -> Any:
    """The family's module (or what an entry point gave), its options checked."""
    if name.base.endswith(".py"):
        raise UsageError(f"model {name.text!r} needs a class: expected {name.base}:CLASS.")
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


WEIGHTS = (".pth", ".pt", ".ckpt", ".bin", ".safetensors")


def _unknown(name: ModelName) -> UsageError:
    """Most often the family was left out or mistyped: suggest whole names, then a search that
    finds some.
    """
    if name.base.endswith(WEIGHTS):
        return UsageError(
            f"model {name.text!r} is a file of weights. Name its network too, as in "
            f"--model 'timm/NAME?weights={name.base}' (`fieldmark models timm` lists the best "
            "known)."
        )
    if name.checkpoint:
        corrected = [f"{family}/{name.checkpoint}" for family in closest(name.family, families())]
        if corrected:
            return UnknownName("model", name.base, corrected, REGISTRY.listing, is_close=True)
    tail = name.base.rpartition("/")[2]
    holding = [row.name for row in known_models(tail)]
    names = holding or [row.name for row in known_models()]
    whole = {full_name.rpartition("/")[2]: full_name for full_name in reversed(names)}
    near = closest(tail, whole if holding else {*whole, *families()})
    suggested = [whole.get(short, short) for short in near] or holding[:2]
    search = tail if holding else near[0] if near and near[0] in whole else ""
    listing = f"{REGISTRY.listing} {search}".strip()
    return UnknownName("model", name.base, suggested, listing, is_close=True)
