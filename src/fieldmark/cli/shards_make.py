"""Make webdataset shards of photos and their taxa: a table, a folder or a dataset → tar files.

examples:
  fieldmark shards make photos.csv --out shards --per-shard 10000
  fieldmark shards make inat21 --max-px 224 --out shards --name inat21

Photos of the training split are taken, where photos have splits; --split chooses others.
The same command again goes on where it was stopped, and gives the same bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from fieldmark.cli._flags import Common, CommonFlags, check_least
from fieldmark.cli._show import counted, print_json, printable, size, talk
from fieldmark.errors import UsageError

if TYPE_CHECKING:
    from fieldmark.build.shards import MadeShards

_Word = Annotated[str | None, arg(metavar="WORD", help_behavior_hint="")]


@dataclass(frozen=True, slots=True)
class ShardsMakeArgs:
    source: Annotated[Positional[str], arg(metavar="TABLE|DATASET|FOLDER")]
    """a .csv, .tsv or .parquet file with image paths (or images) and ranks, a folder with one
    folder per class, or a dataset as `fieldmark datasets` lists them"""
    out: Annotated[Path, arg(metavar="FOLDER", help_behavior_hint="")] = Path("shards")
    """folder of the shards and their index [shards]"""
    name: _Word = None
    """shards are called NAME-00000.tar [the source's name]"""
    per_shard: int = 10_000
    """samples a shard"""
    split: _Word = None
    """only photos of this split; `all` takes every photo [train, where photos have splits]"""
    seed: int = 0
    """another seed, another order"""
    max_px: Annotated[int | None, arg(metavar="N", help_behavior_hint="")] = None
    """shrink images whose longer side is longer, and encode them as JPEG [bytes as they are]"""
    caption: Annotated[str | None, arg(metavar="COLUMN", help_behavior_hint="")] = None
    """column with a sentence on each photo, which becomes its caption.txt [none]"""
    json: bool = False
    """print the summary as JSON"""
    common: CommonFlags = Common()


def run(args: ShardsMakeArgs) -> int:
    from fieldmark.build.shards import MakeOptions, make_shards, read_source
    from fieldmark.progress import for_people

    check_least("--per-shard", args.per_shard, 1)
    if args.max_px is not None:
        check_least("--max-px", args.max_px, 1)
    settings = args.common.settings()
    source = read_source(args.source, settings.root_of)
    name = re.sub(r"[^\w-]+", "-", source.name) if args.name is None else args.name
    if not re.fullmatch(r"[\w-]+", name):
        raise UsageError(f"--name {name}: expected letters, digits, - and _.")
    skips_bad = settings.bad_images == "skip"
    options = MakeOptions(
        name, args.per_shard, args.seed, args.split, args.max_px, skips_bad, args.caption
    )
    with for_people(args.common.quiet) as progress:
        made = make_shards(source, args.out, options, progress)
    if args.json:
        print_json(_summary(made))
    elif not args.common.quiet:
        _tell(made, args.out, name, args.caption)
    return 0


def _summary(made: MadeShards) -> dict[str, Any]:
    return {
        "files": [str(path) for path in made.files],
        "samples": made.n_samples,
        "bytes": made.n_bytes,
        "kept": made.n_kept,
        "bad": [{"image": image, "reason": reason} for image, reason in made.bad],
        "split": made.chosen.split or "all",
        "other_splits": made.chosen.n_other_splits,
        "nameless": made.chosen.n_nameless,
        "repeated": made.chosen.n_repeated,
        "contradicting": made.chosen.n_contradicting,
        "captions": made.chosen.n_captions,
    }


def _tell(made: MadeShards, out: Path, name: str, caption: str | None) -> None:
    chosen = made.chosen
    if chosen.split:
        others = f"{counted(chosen.n_other_splits, 'photo')} of other splits left out"
        talk(f"split {chosen.split}: {others} (--split all takes every photo).")
    for image, reason in made.bad[:20]:
        talk(printable(f"left out: {image}  {reason}."))
    if made.bad:
        talk(f"{counted(len(made.bad), 'image')} left out, because unreadable.")
    if chosen.n_nameless:
        talk(f"{counted(chosen.n_nameless, 'row')} without a name of any kind left out.")
    if chosen.n_repeated:
        talk(f"{counted(chosen.n_repeated, 'row')} left out: the same photo and names again.")
    if chosen.n_contradicting:
        talk(
            f"{counted(chosen.n_contradicting, 'row')} name a photo that another row names "
            "otherwise: kept."
        )
    if caption and chosen.n_captions < chosen.table.height:
        n_without = chosen.table.height - chosen.n_captions
        talk(f"{counted(n_without, 'photo')} without a caption in {caption!r}: kept, without one.")
    n = f"{counted(len(made.files), 'shard')}, {counted(made.n_samples, 'sample')}"
    kept = f"; {made.n_kept:,} there already" if made.n_kept else ""
    talk(f"{out}  {n}, {size(made.n_bytes)}{kept}.")
    talk(f"next: fieldmark shards check {out} --index {out / f'{name}-index.json'}")
