"""Write the results as a page that opens by double click, without server or network.

examples:
  fieldmark site report
  fieldmark site report --task newt --task beluga --max-images 1000
  fieldmark site for-the-paper --no-images
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, UseAppendAction, arg

from fieldmark.cli._flags import Common, CommonFlags
from fieldmark.cli._show import size, talk
from fieldmark.errors import UsageError


@dataclass(frozen=True, slots=True)
class SiteArgs:
    out: Annotated[Positional[Path], arg(metavar="OUT")]
    """folder of the site; one that was written before is replaced"""
    model: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="MODEL")] = ()
    """only these (* and ? work; NAME#4ae7 is one version)"""
    task: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="TASK")] = ()
    """only these (* and ? work)"""
    no_images: bool = False
    """no copies of photos, for data that must stay private"""
    max_images: Annotated[int, arg(metavar="N")] = 300
    """photos per task: half those that most models miss, half drawn from all"""
    common: CommonFlags = Common()


def run(args: SiteArgs) -> int:
    from fieldmark.progress import for_people
    from fieldmark.report.site import SiteOptions, build_site
    from fieldmark.store import RunFilter, Store

    if args.max_images < 0:
        raise UsageError(f"--max-images {args.max_images}: expected a whole number, 0 or more.")
    settings = args.common.settings()
    options = SiteOptions(
        RunFilter(models=args.model, tasks=args.task), 0 if args.no_images else args.max_images
    )
    with (
        for_people(args.common.quiet) as progress,
        Store.open(settings.store, read_only=True) as store,
    ):
        page = build_site(store, args.out, settings, options, progress)
    print(page)
    if not args.common.quiet:
        talk(f"{size(folder_bytes(args.out))}, opens by double click, works without internet.")
    return 0


def folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
