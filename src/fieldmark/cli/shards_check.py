"""Check webdataset shards: cut off, damaged, samples without image or text, keys twice.

examples:
  fieldmark shards check 'shards/a-{000..099}.tar'
  fieldmark shards check shards --index shards/index.json --images
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from fieldmark.cli._flags import Common, CommonFlags
from fieldmark.cli._show import counted, print_json, printable, size, talk


@dataclass(frozen=True, slots=True)
class ShardsCheckArgs:
    shards: Annotated[Positional[tuple[str, ...]], arg(metavar="SHARD…", help_behavior_hint="")]
    """.tar, .tar.gz or .tgz files, or folders of them; `a-{000..099}.tar` stands for a hundred"""
    index: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """index file to hold them against, by checksums: what `shards index` or wids wrote"""
    images: bool = False
    """also look at every image: is it one, and is it whole?"""
    json: bool = False
    """print JSON"""
    common: CommonFlags = Common()


def run(args: ShardsCheckArgs) -> int:
    from fieldmark.build.shards import check_shards, find_shards
    from fieldmark.progress import for_people

    paths = find_shards(args.shards)
    with for_people(args.common.quiet) as progress:
        report = check_shards(paths, args.index, args.images, progress)
    if args.json:
        print_json(
            {
                "ok": report.is_sound,
                "shards": len(paths),
                "samples": report.n_samples,
                "bytes": report.n_bytes,
                "extensions": dict(sorted(report.extensions.items())),
                "defects": dict(report.counts),
                "passed_over": dict(report.notes),
                "first": [{"kind": kind, "text": text} for kind, text in report.lines],
            }
        )
    else:
        for kind, text in report.lines:
            print(f"{kind}  {printable(text)}")
        _tell(report.counts, "defects")
        _tell(report.notes, "passed over, as readers do")
        n = f"{counted(len(paths), 'shard')}, {counted(report.n_samples, 'sample')}"
        state = "sound" if report.is_sound else counted(report.counts.total(), "defect")
        talk(f"{n}, {size(report.n_bytes)}: {state}.")
    return 0 if report.is_sound else 3


def _tell(counts: dict[str, int], what: str) -> None:
    if counts:
        talk(f"{what}: {', '.join(f'{kind} {n:,}' for kind, n in sorted(counts.items()))}")
