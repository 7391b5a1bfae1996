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
    found = cached_models(settings.cache, args.model)
    rows = [
        {
            "model": each.model,
            "features": each.n_features,
            "dim": each.dim,
            "size": each.n_bytes if args.json else size(each.n_bytes),
            "fingerprint": each.fingerprint if args.json else each.fingerprint[:12],
        }
        for each in found
    ]
    show_rows(rows, args.json, right=("features", "dim", "size"))
    if not args.json:
        total = sum(each.n_bytes for each in found)
        n = counted(len(found), "model")
        talk(f"{n}, {size(total)} in {settings.cache}. `cache clean` deletes.")
    return 0
