"""List the cached features: which models, how many, how large.

examples:
  fieldmark cache ls
  fieldmark cache ls timm --json
"""

from __future__ import annotations

from dataclasses import dataclass

from tyro.conf import Positional

from fieldmark.cli._flags import Common, CommonFlags
from fieldmark.cli._show import counted, show_rows, size, talk


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
    rows = [
        {
            "model": cached.model,
            "features": cached.n_features,
            "dim": cached.dim,
            "size": cached.n_bytes if args.json else size(cached.n_bytes),
            "fingerprint": cached.fingerprint if args.json else cached.fingerprint[:12],
        }
        for cached in models
    ]
    show_rows(rows, args.json, right=("features", "dim", "size"))
    if not args.json:
        total = sum(cached.n_bytes for cached in models)
        n = counted(len(models), "model")
        talk(f"{n}, {size(total)} in {settings.cache}. `cache clean` deletes them.")
    return 0
