"""Write one checked caption for each photo in webdataset shards.

examples:
  fieldmark caption shards/a-000.tar --model chat/mock/wren --out captions
  fieldmark caption shards/*.tar --model chat/openrouter/qwen/qwen2.5-vl-72b-instruct \\
      --descriptions described --out captions --max-usd 20
  fieldmark caption 'shards/a-{000..159}.tar' --descriptions described --out captions \\
      --model 'chat/vllm/OpenGVLab/InternVL3-38B-AWQ?base_url=http://gpu7:8000/v1'

Run the same command again to continue after a stop: no photo is paid for twice. On a cluster,
`sbatch --array=1-12` of one command lets twelve processes share the shards. `vllm serve MODEL`
starts the server for chat/vllm/MODEL.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from fieldmark.cli.flags import ChatFlags, ChatModelFlags, Common, CommonFlags, Only, check_least
from fieldmark.cli.next_steps import train_command
from fieldmark.cli.show import counted, print_json, rehearsal, talk
from fieldmark.errors import UsageError

if TYPE_CHECKING:
    from fieldmark.build.caption import CaptionOptions, CaptionTotals

_Number = Annotated[float | None, arg(metavar="X", help_behavior_hint="")]
_Count = Annotated[int | None, arg(metavar="N", help_behavior_hint="")]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptionArgs:
    shards: Annotated[Positional[tuple[str, ...]], arg(metavar="SHARD…", help_behavior_hint="")]
    """tar files or folders; `a-{000..159}.tar` means 160 files, and * and ? are wildcards"""
    model: Annotated[str, arg(metavar="MODEL", help_behavior_hint="")]
    """a chat model that can see: chat/PROVIDER/MODEL or hf-chat/REPO_OR_FOLDER"""
    out: Annotated[Path, arg(metavar="FOLDER", help_behavior_hint="")]
    """folder for the captions, and for what is needed to continue after a stop"""
    descriptions: Annotated[Path | None, arg(metavar="FOLDER", help_behavior_hint="")] = None
    """folder that `fieldmark describe` wrote [none: the model is given names only]"""
    max_words: Annotated[int, arg(metavar="N")] = 20
    """most words in a caption"""
    tries: Annotated[int, arg(metavar="N")] = 3
    """captions to try per photo before it is rejected"""
    temp: Annotated[float, arg(metavar="X")] = 0.0
    """sampling temperature"""
    top_p: _Number = None
    """nucleus sampling: share of the likeliest words to choose from [the model's own]"""
    max_output: _Count = None
    """most tokens in an answer, thoughts included [the model's own]"""
    json: bool = False
    """print the summary as JSON"""
    chat: ChatModelFlags = ChatFlags()
    common: Annotated[CommonFlags, Only(("device", "precision", "offline", "quiet"))] = Common()


def run(args: CaptionArgs) -> int:
    from fieldmark.build.caption import CaptionRun, read_words
    from fieldmark.build.shards import find_shards
    from fieldmark.progress import for_people

    options = _options(args)
    shards = find_shards(args.shards)
    descriptions = read_words(args.descriptions)
    model = args.chat.model(args.model, args.common.settings())
    progress = for_people(args.common.quiet)
    captions = CaptionRun(shards, model, descriptions, args.out, options, progress)
    try:
        with progress:
            captions.carry_out()
    finally:  # what was done is kept, and said, whatever ended the run
        _show(captions.totals, args, model.is_mock)
    return captions.totals.exit_code


def _options(args: CaptionArgs) -> CaptionOptions:
    from fieldmark.build.caption import CaptionOptions

    check_least("--max-words", args.max_words, 5)
    check_least("--tries", args.tries, 1)
    if not 0 <= args.temp <= 2:
        raise UsageError(f"--temp {args.temp}: expected a number from 0 to 2.")
    if args.top_p is not None and not 0 < args.top_p <= 1:
        raise UsageError(f"--top-p {args.top_p}: expected a number above 0, 1 at most.")
    if args.max_output is not None:
        check_least("--max-output", args.max_output, 1)
    return CaptionOptions(
        max_words=args.max_words,
        tries=args.tries,
        temperature=args.temp,
        top_p=args.top_p,
        max_output=args.max_output,
        sending=args.chat.options(),
        budget=args.chat.budget(),
    )


def _show(totals: CaptionTotals, args: CaptionArgs, is_rehearsal: bool) -> None:
    if args.json:
        print_json(totals.summary() | {"is_rehearsal": is_rehearsal})
        return
    if totals.n_done and not args.common.quiet:
        _tell(totals, args)
        if is_rehearsal:
            rehearsed = rehearsal(args.model, "captions")
            talk(f"{rehearsed} You can go on and try training with them.")
        if totals.counts["ok"]:
            shards = [shard for shard in args.shards if Path(shard).stem not in totals.refused]
            beside = ("--captions", str(args.out))
            talk(f"next: {train_command(shards, totals.counts.total(), beside)}")
    for reason in totals.refused.values():
        talk(f"left out: {reason}")


def _tell(totals: CaptionTotals, args: CaptionArgs) -> None:
    counts = totals.counts
    n, n_of = totals.n_done, totals.n_shards
    done = counted(n, "shard") if n == n_of else f"{n:,} of {counted(n_of, 'shard')}"
    before = f"; {counted(totals.n_skipped, 'shard')} done before" if totals.n_skipped else ""
    talk(
        f"{counted(counts.total(), 'image')} in {done}: {counts['ok']:,} captions, "
        f"{counts['rejected']:,} rejected, {counts['error']:,} errors{before}"
    )
    if args.descriptions is not None:
        talk(f"{totals.n_described:,} of {counted(counts.total(), 'image')} have a description")
    for reason, n_images in totals.reasons.most_common():
        if not reason.startswith("ok "):
            talk(f"  {n_images:>8,}  {reason}")
    folder = args.out / "captions"
    for path in sorted(folder.glob("*.parquet"))[:1]:
        # The first caption of a shard; "" where none passed.
        import polars as pl

        captions = pl.read_parquet(path, columns=["status", "caption"])
        good = captions.filter(pl.col("status") == "ok")["caption"]
        if example := (str(good[0]) if len(good) else ""):
            talk(f'example: "{example}"')
    talk(f"captions: {folder}")
