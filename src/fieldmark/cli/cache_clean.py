"""Delete cached features. They are computed again when needed.

examples:
  fieldmark cache clean timm/resnet18
  fieldmark cache clean --all
"""

from __future__ import annotations

from dataclasses import dataclass

from tyro.conf import Positional

from fieldmark.cli._flags import Common, CommonFlags
from fieldmark.cli._show import counted, size, talk
from fieldmark.errors import UnknownName, UsageError


@dataclass(frozen=True, slots=True)
class CacheCleanArgs:
    model: Positional[str] = ""
    """delete the features of models whose name contains this"""
    all: bool = False
    """delete the features of every model"""
    common: CommonFlags = Common()


def run(args: CacheCleanArgs) -> int:
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
