"""List or delete cached features."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional

from fieldmark.cli.flags import Common, CommonFlags, Only
from fieldmark.cli.show import counted, print_json, show_rows, size, talk
from fieldmark.errors import UnknownName, UsageError
from fieldmark.progress import rate

if TYPE_CHECKING:
    from fieldmark.embed import ModelCache


# --- ls ---


@dataclass(frozen=True, slots=True)
class CacheLsArgs:
    """List the cached features by model.

    examples:
      fieldmark cache ls
      fieldmark cache ls timm --json
    """

    model: Positional[str] = ""
    """only models whose name contains this"""
    json: bool = False
    """print JSON"""
    common: Annotated[CommonFlags, Only(("cache",))] = Common()


def ls(args: CacheLsArgs) -> int:
    from fieldmark.embed import cached_models

    settings = args.common.settings()
    models = cached_models(settings.cache, args.model)
    if args.json:
        print_json([_plain(cached) for cached in models])
        return 0
    rows = [
        {
            "model": cached.model,
            "features": cached.n_features,
            "dim": cached.dim,
            "size": size(cached.n_bytes),
            "decode": cached.throughput.decode,
            "speed": rate(cached.images_per_s) if cached.images_per_s else "-",
            "fingerprint": cached.fingerprint[:12],
        }
        for cached in models
    ]
    numbers = ("features", "dim", "size", "speed")
    show_rows(rows, False, numbers, ("fingerprint", "decode", "speed", "dim"))
    total = sum(cached.n_bytes for cached in models)
    n = counted(len(models), "model")
    talk(f"{n}, {size(total)} in {settings.cache}. `cache clean` deletes them.")
    return 0


def _plain(cached: ModelCache) -> dict[str, Any]:
    row = {
        "model": cached.model,
        "features": cached.n_features,
        "dim": cached.dim,
        "size": cached.n_bytes,
        "fingerprint": cached.fingerprint,
    }
    return row | asdict(cached.throughput) | {"images_per_s": cached.images_per_s}


# --- clean ---


@dataclass(frozen=True, slots=True)
class CacheCleanArgs:
    """Delete cached features. They are computed again when needed.

    examples:
      fieldmark cache clean timm/resnet18
      fieldmark cache clean --all
    """

    model: Positional[str] = ""
    """delete the features of models whose name contains this"""
    all: bool = False
    """delete the features of every model"""
    common: Annotated[CommonFlags, Only(("cache",))] = Common()


def clean(args: CacheCleanArgs) -> int:
    from fieldmark.embed import cached_models, clean_cache

    if bool(args.model) == args.all:
        raise UsageError("which models? `fieldmark cache clean MODEL`, or --all for every model.")
    settings = args.common.settings()
    gone = clean_cache(settings.cache, args.model)
    if args.model and not gone:
        names = {cached.model for cached in cached_models(settings.cache)}
        raise UnknownName("cached model", args.model, names, "fieldmark cache ls")
    total = sum(cached.n_bytes for cached in gone)
    talk(f"{counted(len(gone), 'model')} deleted, {size(total)} freed.")
    return 0
