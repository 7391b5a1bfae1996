"""Write the results as a web page that works offline.

examples:
  fieldmark site report
  fieldmark site report --task newt --task beluga --max-images 1000
  fieldmark site for-the-paper --no-images
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from fieldmark.cli.flags import Common, PhotoFlags, RunChoice, check_least
from fieldmark.cli.show import folder_bytes, show, size, talk


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteArgs(RunChoice):
    out: Annotated[Positional[Path], arg(metavar="OUT")]
    """folder to write; a page written there before is replaced"""
    no_images: bool = False
    """copy no photos: for data that must stay private"""
    max_images: Annotated[int, arg(metavar="N")] = 300
    """photos per task: half are those most models get wrong, half are drawn at random"""
    common: PhotoFlags = Common()


def run(args: SiteArgs) -> int:
    from fieldmark.progress import for_people
    from fieldmark.report.site import SiteOptions, build_site

    check_least("--max-images", args.max_images, 0)
    options = SiteOptions(args.where, 0 if args.no_images else args.max_images)
    with for_people(args.common.quiet) as progress, args.open_store() as store:
        page = build_site(store, args.out, args.common.settings(), options, progress)
    show(str(page))
    if not args.common.quiet:
        talk(f"{size(folder_bytes(args.out))}. Double-click it to open it; it works offline.")
    return 0
