"""List the cached features: which models, how many, how large.

examples:
  fieldmark cache ls
  fieldmark cache ls timm --json
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tyro.conf import Positional

from fieldmark.cli._flags import Common, CommonFlags
from fieldmark.cli._show import counted, print_json, show_rows, size, talk
from fieldmark.progress import rate

if TYPE_CHECKING:
    from fieldmark.embed import ModelCache


@dataclass(frozen=True, slots=True)
class CacheLsArgs:
    model: Positional[str] = ""
    """only models whose name contains this"""
    json: bool = False
    """print JSON"""
    common: CommonFlags = Common()


def run(args: CacheLsArgs) -> int:
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
    show_rows(rows, False, right=("features", "dim", "size", "speed"))
    total = sum(cached.n_bytes for cached in models)
    n = counted(len(models), "model")
    talk(f"{n}, {size(total)} in {settings.cache}. `cache clean` deletes them.")
    return 0


def _plain(cached: ModelCache) -> dict[str, Any]:
    own = {
        "model": cached.model,
        "features": cached.n_features,
        "dim": cached.dim,
        "size": cached.n_bytes,
        "fingerprint": cached.fingerprint,
    }
    return own | asdict(cached.throughput) | {"images_per_s": cached.images_per_s}
