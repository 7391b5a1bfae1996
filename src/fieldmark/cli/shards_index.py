"""Index webdataset shards: counts and checksums in one JSON file, which wids reads too.

examples:
  fieldmark shards index shards --out shards/index.json
  fieldmark shards index 'shards/a-{000..099}.tar' --out a.json
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from fieldmark.cli._flags import Common, CommonFlags
from fieldmark.cli._show import counted, print_json, size, talk


@dataclass(frozen=True, slots=True)
class ShardsIndexArgs:
    shards: Annotated[Positional[tuple[str, ...]], arg(metavar="SHARD…", help_behavior_hint="")]
    """.tar, .tar.gz or .tgz files, or folders of them; `a-{000..099}.tar` stands for a hundred"""
    out: Annotated[Path, arg(metavar="FILE", help_behavior_hint="")] = Path("index.json")
    """file to write [index.json]; shards are named as seen from its folder"""
    json: bool = False
    """print the lines of the index"""
    common: CommonFlags = Common()


def run(args: ShardsIndexArgs) -> int:
    from fieldmark.build.shards import find_shards, relative_url, shard_index, write_index
    from fieldmark.progress import for_people

    paths, rows = find_shards(args.shards), []
    with for_people(args.common.quiet) as progress:
        progress.start("shards", len(paths))
        for path in paths:
            progress.status(path.name)
            rows.append(shard_index(path).row(relative_url(args.out, path)))
            progress.advance()
    write_index(args.out, rows)
    if args.json:
        print_json(rows)
    elif not args.common.quiet:
        n_samples, n_bytes = (sum(row[name] for row in rows) for name in ("nsamples", "filesize"))
        n = f"{counted(len(rows), 'shard')}, {counted(n_samples, 'sample')}"
        talk(f"{args.out}  {n}, {size(n_bytes)}.")
    return 0
