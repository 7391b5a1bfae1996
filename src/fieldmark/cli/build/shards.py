"""Make, check, index or join webdataset shards."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from fieldmark.cli.flags import Common, CommonFlags, Only, QuietFlags, check_least
from fieldmark.cli.show import counted, print_json, show, size, talk
from fieldmark.errors import DataError, UsageError, readable
from fieldmark.words import first_few

if TYPE_CHECKING:
    from fieldmark.build.shards import MadeShards, ShardSource
    from fieldmark.build.shards.check import ShardsReport

# --- make ---


_Word = Annotated[str | None, arg(metavar="WORD", help_behavior_hint="")]


@dataclass(frozen=True, slots=True)
class ShardsMakeArgs:
    """Make webdataset shards of photos and their names.

    examples:
      fieldmark shards make photos.csv --out shards --per-shard 10000
      fieldmark shards make inat21 --max-px 224 --out shards --name inat21

    Where photos have splits, only training photos are packed; --split chooses others. Run the same
    command again to continue after a stop: the shards are the same to the byte.
    """

    source: Annotated[Positional[str], arg(metavar="TABLE|DATASET|FOLDER")]
    """a .csv, .tsv or .parquet file with image paths (or images) and ranks, a folder with one
    folder per class, or a dataset as `fieldmark datasets` lists them"""
    out: Annotated[Path, arg(metavar="FOLDER", help_behavior_hint="")] = Path("shards")
    """folder of the shards and their index [shards]"""
    name: _Word = None
    """shards are called NAME-00000.tar [the source's name]"""
    per_shard: int = 10_000
    """photos per shard"""
    split: _Word = None
    """only photos of this split; `all` takes every photo [train, where photos have splits]"""
    seed: int = 0
    """seed of the order of the photos"""
    max_px: Annotated[int | None, arg(metavar="N", help_behavior_hint="")] = None
    """shrink photos with a longer side than this, and store them as JPEG [files unchanged]"""
    caption: Annotated[str | None, arg(metavar="COLUMN", help_behavior_hint="")] = None
    """column with a sentence on each photo, which becomes its caption.txt [none]"""
    json: bool = False
    """print the summary as JSON"""
    common: Annotated[CommonFlags, Only(("data", "data_root", "bad_images", "quiet"))] = Common()


def make(args: ShardsMakeArgs) -> int:
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
        _tell_made(made, args.out, source, name, args.caption)
    return 0


def _summary(made: MadeShards) -> dict[str, Any]:
    return {
        "files": [str(path) for path in made.files],
        "samples": made.n_samples,
        "bytes": made.n_bytes,
        "kept": made.n_kept,
        "replaced": made.n_replaced,
        "bad": [{"image": image, "reason": reason} for image, reason in made.bad],
        "split": made.chosen.split or "all",
        "splits": made.chosen.splits,
        "other_splits": made.chosen.n_other_splits,
        "scientific_labels": len(made.chosen.scientific_labels),
        "common_labels": len(made.chosen.common_labels),
        "nameless": made.chosen.n_nameless,
        "repeated": made.chosen.n_repeated,
        "contradicting": made.chosen.n_contradicting,
        "captions": made.chosen.n_captions,
    }


def _tell_made(
    made: MadeShards, out: Path, source: ShardSource, name: str, caption: str | None
) -> None:
    from fieldmark.build.shards import held_out
    from fieldmark.cli.next_steps import example_of
    from fieldmark.data import SPLITS

    chosen = made.chosen
    if SPLITS.get(source.name.lower(), "train") != "train" and not chosen.splits:
        talk(
            f"Warning: the folder is called {source.name}. Do not test a model on photos it was "
            "trained on."
        )
    if spoilt := held_out(chosen.splits, chosen.table.height):
        talk(f"Warning: {spoilt}. Do not test a model on photos it was trained on.")
    if chosen.split:
        sort = "training" if chosen.split == "train" else chosen.split
        n_out = counted(chosen.n_other_splits, "photo")
        are = "was" if chosen.n_other_splits == 1 else "were"
        left_out = f"; {n_out} of other splits {are} left out (--split all packs them too)"
        talk(f"Packed the {sort} photos only{left_out if chosen.n_other_splits else ''}.")
    if chosen.scientific_labels or chosen.common_labels:
        talk(_label_line(chosen.scientific_labels, chosen.common_labels))
    for image, reason in made.bad[:20]:
        talk(f"left out: {image} ({reason}).")
    if made.bad:
        talk(f"{counted(len(made.bad), 'image')} left out (cannot be read).")
    if chosen.n_nameless:
        talk(f"{counted(chosen.n_nameless, 'row')} left out: no species or other name.")
    if chosen.n_repeated:
        talk(f"{counted(chosen.n_repeated, 'row')} left out: the same photo and names again.")
    if chosen.n_contradicting:
        n = counted(chosen.n_contradicting, "row")
        talk(f"{n} kept, although an earlier row gives the same photo another name.")
    if caption and chosen.n_captions < chosen.table.height:
        n_without = chosen.table.height - chosen.n_captions
        talk(f"{counted(n_without, 'photo')} kept without a caption: {caption!r} is empty there.")
    if made.n_replaced:
        n = counted(made.n_replaced, "shard")
        talk(f"{n} replaced: made of other photos or with other options before.")
    n = f"{counted(len(made.files), 'shard')}, {counted(made.n_samples, 'sample')}"
    kept = f"; {made.n_kept:,} there already" if made.n_kept else ""
    talk(f"{out}  {n}, {size(made.n_bytes)}{kept}.")
    if made.others:
        talk(
            f"Warning: {out} also holds {counted(len(made.others), 'shard')} that were made before "
            f"({first_few(made.others, 3)}). Commands that are given {out} use all of them. "
            "--out packs into another folder."
        )
    talk(example_of(made.files[0]))
    index = out / f"{name}-index.json"
    talk(f"next: {shlex.join(['fieldmark', 'shards', 'check', str(out), '--index', str(index)])}")


def _label_line(scientific: Sequence[str], common: Sequence[str]) -> str:
    """How labels were read, and how to say it otherwise."""
    n = len(scientific) + len(common)
    sorts = ((scientific, "genus and species"), (common, "common names"))
    read = " and ".join(
        f"{len(labels):,} of {counted(n, 'label')} as {sort} ({first_few(labels, 3)})"
        for labels, sort in sorts
        if labels
    )
    way_out = "give a table with a column scientific_name or common_name"
    return f"Read {read}. If that is wrong, {way_out}."


# --- check ---


@dataclass(frozen=True, slots=True)
class ShardsCheckArgs:
    """Check webdataset shards for damage and missing parts.

    examples:
      fieldmark shards check 'shards/a-{000..099}.tar'
      fieldmark shards check shards --index shards/index.json --images
    """

    shards: Annotated[Positional[tuple[str, ...]], arg(metavar="SHARD…", help_behavior_hint="")]
    """.tar, .tar.gz or .tgz files, or folders of them; `a-{000..099}.tar` means 100 files"""
    index: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """index file to compare the checksums with, from `shards index` or wids"""
    images: bool = False
    """also open every image to see whether it is whole"""
    json: bool = False
    """print JSON"""
    common: QuietFlags = Common()


def check(args: ShardsCheckArgs) -> int:
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
            show(f"{kind}  {readable(text)}")
        _tell_counts(report.counts, "defects")
        _tell_counts(report.notes, "ignored, as readers do")
        n = f"{counted(len(paths), 'shard')}, {counted(report.n_samples, 'sample')}"
        state = "sound" if report.is_sound else counted(report.counts.total(), "defect")
        talk(f"{n}, {size(report.n_bytes)}: {state}.")
        if report.is_sound and not args.common.quiet:
            _tell_training(args.shards, report)
    return 0 if report.is_sound else 3


def _tell_training(shards: Sequence[str], report: ShardsReport) -> None:
    """What sound shards are good for: training, or captions and then training."""
    from fieldmark.cli.next_steps import NAMES_ALONE, caption_command, has_names, train_command

    if report.extensions.get("caption.txt"):
        talk(f"next: {train_command(shards, report.n_samples)}")
        return
    talk(f"next: {caption_command(shards)}")
    if has_names(report.extensions):
        names = train_command(shards, report.n_samples, changes=NAMES_ALONE)
        talk(f"The photos have no captions. To train on names alone: {names}")


def _tell_counts(counts: dict[str, int], what: str) -> None:
    if counts:
        talk(f"{what}: {', '.join(f'{kind} {n:,}' for kind, n in sorted(counts.items()))}")


# --- index ---


@dataclass(frozen=True, slots=True)
class ShardsIndexArgs:
    """Write counts and checksums of shards into one JSON file. wids reads it too.

    examples:
      fieldmark shards index shards --out shards/index.json
      fieldmark shards index 'shards/a-{000..099}.tar' --out a.json
    """

    shards: Annotated[Positional[tuple[str, ...]], arg(metavar="SHARD…", help_behavior_hint="")]
    """.tar, .tar.gz or .tgz files, or folders of them; `a-{000..099}.tar` means 100 files"""
    out: Annotated[Path, arg(metavar="FILE", help_behavior_hint="")] = Path("index.json")
    """file to write [index.json]; the paths in it are relative to its folder"""
    json: bool = False
    """print the lines of the index"""
    common: QuietFlags = Common()


def index(args: ShardsIndexArgs) -> int:
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


# --- join ---


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardsJoinArgs:
    """Copy shards with a caption added to each photo. The rest stays the same to the byte.

    examples:
      fieldmark shards join shards captions --out train
      fieldmark shards join 'shards/a-{000..099}.tar' captions --out train

    Some tools need the captions in the same tar. `fieldmark train` does not: it has --captions.
    """

    shards: Annotated[Positional[str], arg(metavar="SHARDS")]
    """a tar file or a folder of them; `a-{000..099}.tar` means 100 files"""
    captions: Annotated[Positional[Path], arg(metavar="CAPTIONS")]
    """the folder that `fieldmark caption --out FOLDER` wrote"""
    out: Annotated[Path, arg(metavar="FOLDER", help_behavior_hint="")]
    """folder for the copies, which keep the names of the shards"""
    json: bool = False
    """print the summary as JSON"""
    common: QuietFlags = Common()


def join(args: ShardsJoinArgs) -> int:
    from fieldmark.build.shards import captions_files, find_shards, join_captions, shard_name
    from fieldmark.build.shards.captions import caption_models
    from fieldmark.cli.next_steps import example_of
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
        if models := caption_models(files.values()):
            talk(f"captions written by {', '.join(models)}")
        talk(example_of(args.out / f"{shard_name(next(iter(files)))}.tar"))
        talk(f"next: fieldmark shards check {shlex.quote(str(args.out))}")
    return 0
