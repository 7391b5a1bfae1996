"""Join captions into webdataset shards: copies, byte for byte, with a caption.txt in each sample.

examples:
  fieldmark shards join shards captions --out train
  fieldmark shards join 'shards/a-{000..099}.tar' captions --out train

For tools that want one tar. `fieldmark train` reads captions from beside the shards: --captions.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from fieldmark.cli._flags import Common, CommonFlags
from fieldmark.cli._show import counted, print_json, talk
from fieldmark.errors import DataError


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardsJoinArgs:
    shards: Annotated[Positional[str], arg(metavar="SHARDS")]
    """a tar file or a folder of them; `a-{000..099}.tar` stands for a hundred"""
    captions: Annotated[Positional[Path], arg(metavar="CAPTIONS")]
    """the folder that `fieldmark caption --out FOLDER` wrote"""
    out: Annotated[Path, arg(metavar="FOLDER", help_behavior_hint="")]
    """folder for the copies, which are called as the shards are"""
    json: bool = False
    """print the summary as JSON"""
    common: CommonFlags = Common()


def run(args: ShardsJoinArgs) -> int:
    from fieldmark.build.shards import captions_files, find_shards, join_captions, shard_name
    from fieldmark.progress import for_people

    files = captions_files(find_shards([args.shards]), args.captions)
    if absent := [path for path, captions in files.items() if not captions.is_file()]:
        raise DataError(f"{absent[0]}  has no captions in {args.captions}: caption it first.")
    n_captions = 0
    with for_people(args.common.quiet) as progress:
        progress.start("shards", len(files))
        for shard, captions in files.items():
            progress.status(shard.name)
            n_captions += join_captions(shard, captions, args.out / f"{shard_name(shard)}.tar")
            progress.advance()
    if args.json:
        print_json({"shards": len(files), "captions": n_captions})
    elif not args.common.quiet:
        n = f"{counted(len(files), 'shard')} with {counted(n_captions, 'caption')}"
        talk(f"{args.out}  {n}.")
    return 0
