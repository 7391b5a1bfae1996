"""Find sentences in Wikipedia on how each species looks.

examples:
  fieldmark describe names.csv --out words --contact me@university.edu
  fieldmark describe catalog.parquet --out words --dump enwiki-pages-articles-multistream.xml.bz2
  fieldmark describe names.csv --out words --contact me@university.edu --filter chat/vllm/MODEL
  fieldmark describe --judge labelled.csv --filter chat/vllm/MODEL

NAMES is a CSV or Parquet file with columns kingdom, phylum, class, order, family, genus, species
(as many as are known; common_name too), or a catalog of TreeOfLife. Run the same command again to
continue after a stop: no page is fetched twice and no answer is paid for twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from fieldmark.cli.flags import ChatFlags, ChatModelFlags, Common, CommonFlags, Only
from fieldmark.cli.show import counted, print_json, rehearsal, show, talk
from fieldmark.errors import DataError, UsageError
from fieldmark.registry import MOCK

if TYPE_CHECKING:
    from fieldmark.build.describe.chat_filter import ChatFilter
    from fieldmark.build.describe.run import Described, Filter, Spans
    from fieldmark.build.taxon_list import TaxonList
    from fieldmark.build.wiki.api import WikiSource
    from fieldmark.build.wiki.store import PageStore
    from fieldmark.progress import Progress
    from fieldmark.settings import Settings

WIKIPEDIA = "https://en.wikipedia.org/w/api.php"
RULES = "rules"


@dataclass(frozen=True, slots=True)
class DescribeArgs:
    names: Annotated[Positional[Path | None], arg(metavar="NAMES", help_behavior_hint="")] = None
    """file of the taxa to describe"""
    out: Annotated[Path | None, arg(metavar="FOLDER", help_behavior_hint="")] = None
    """folder for the descriptions, and for what was fetched"""
    wiki: Annotated[str, arg(metavar="URL")] = WIKIPEDIA
    """address of a MediaWiki's action API"""
    dump: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """read this dump (.xml, .gz, .bz2) instead of asking a wiki; with its index beside it
    (…-index.txt.bz2), only the pages that are needed are read"""
    pages: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """file that keeps the pages, for this list and others [FOLDER/pages.sqlite]; delete it to fetch
    all pages again"""
    contact: Annotated[str, arg(metavar="TEXT", help_behavior_hint="")] = ""
    """your mail address or page, sent to the wiki as its rules ask [FIELDMARK_CONTACT]"""
    wiki_rpm: Annotated[float, arg(metavar="X")] = 60.0
    """most requests to the wiki per minute"""
    filter: Annotated[str, arg(metavar="rules|MODEL")] = RULES
    """what picks the sentences about appearance: rules, or a chat model"""
    judge: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """only measure precision and recall of the filter, on labelled sentences (CSV: sentence,
    visible); `--judge shipped` uses the sentences that come with fieldmark"""
    json: bool = False
    """print the summary as JSON"""
    chat: ChatModelFlags = ChatFlags()
    common: Annotated[
        CommonFlags, Only(("results", "threads", "device", "precision", "offline", "quiet"))
    ] = Common()


def run(args: DescribeArgs) -> int:
    from fieldmark.progress import for_people

    settings = args.common.settings()
    with for_people(args.common.quiet) as progress:
        if args.judge is not None:
            return _judge(args, settings)
        if args.names is None or args.out is None:
            raise UsageError("expected names and a folder: fieldmark describe NAMES --out FOLDER.")
        return _describe(args, args.names, args.out, settings, progress)


def _describe(
    args: DescribeArgs, names: Path, out: Path, settings: Settings, progress: Progress
) -> int:
    from fieldmark.build.describe.run import describe, refuse_other_list
    from fieldmark.build.taxon_list import read_taxa

    taxa = read_taxa(names)
    refuse_other_list(out, names.name)
    with (
        _filter(args, out, settings) as (keep, about),
        _wiki(args, out, taxa, settings, progress) as (store, source),
    ):
        about |= {"names": names.name, "source": args.dump.name if args.dump else args.wiki}
        made = describe(taxa, store, source, out, keep, about, progress=progress)
    if args.json:
        summary = {"status": made.counts, "reasons": made.reasons, "files": made.files}
        print_json(summary | {"is_rehearsal": "stand_in" in about})
    elif not args.common.quiet:
        if "stand_in" in about:
            talk(rehearsal(args.filter, "choice of sentences"))
        _tell(args, settings, taxa, made)
    return 5 if made.counts.get("error") else 0


@contextmanager
def _wiki(
    args: DescribeArgs, out: Path, taxa: TaxonList, settings: Settings, progress: Progress
) -> Iterator[tuple[PageStore, WikiSource | None]]:
    """The pages that are here, and where further ones come from."""
    from fieldmark.build.describe.run import PAGES
    from fieldmark.build.wiki.api import Etiquette, WikiApi
    from fieldmark.build.wiki.dump_index import open_dump
    from fieldmark.build.wiki.store import PageStore

    pages = args.pages or out / PAGES
    if args.dump is not None:
        if not args.dump.is_file():
            raise DataError(f"{args.dump}  does not exist: expected a dump of a wiki.")
        with PageStore.open(pages) as store:
            yield store, open_dump(args.dump, store, len(taxa.taxa), settings.n_threads, progress)
        return
    if settings.offline:
        raise UsageError("--offline asks no wiki: read a dump with --dump FILE.")
    etiquette = Etiquette(per_minute=args.wiki_rpm)
    api = WikiApi(args.wiki, args.contact or settings.contact, etiquette, progress)
    with PageStore.open(pages) as store, api:
        yield store, api


@contextmanager
def _filter(
    args: DescribeArgs, out: Path, settings: Settings
) -> Iterator[tuple[Filter, dict[str, Any]]]:
    """What picks sentences, and what is recorded of it."""
    from fieldmark.build.describe.run import rule_filter

    if args.filter == RULES:
        yield rule_filter, {"filter": RULES}
        return
    chat = _chat_filter(args, out, settings)

    def keep(texts: Mapping[str, str]) -> Iterator[tuple[str, Spans]]:
        for result in chat.filter(texts.items()):
            yield result.key, result.error or result.spans

    yield keep, {"filter": chat.identity} | ({"stand_in": MOCK} if chat.model.is_mock else {})


def _chat_filter(args: DescribeArgs, out: Path, settings: Settings) -> ChatFilter:
    from fieldmark.build.describe.chat_filter import ChatFilter
    from fieldmark.build.describe.run import JOURNAL

    model = args.chat.model(args.filter, settings)
    flags = args.chat
    return ChatFilter(model, out / JOURNAL, flags.options(), flags.budget(), asks_errors_again=True)


def _judge(args: DescribeArgs, settings: Settings) -> int:
    """Precision and recall of the filter; answers of a chat model are kept with the results."""
    from fieldmark.build.describe.judge import SHIPPED, format_report, judge, read_labelled
    from fieldmark.build.describe.rules import score

    path = SHIPPED if str(args.judge) == "shipped" else args.judge
    assert path is not None
    rows = read_labelled(path)
    is_rehearsal = False
    if args.filter == RULES:
        report = judge(rows, lambda sentences: [score(text) > 0 for text in sentences])
    else:
        chat = _chat_filter(args, args.out or settings.results, settings)
        report, is_rehearsal = judge(rows, chat.keep), chat.model.is_mock
    if args.json:
        print_json({**report.facts(), "is_rehearsal": is_rehearsal})
    else:
        show(format_report(report, f"{args.filter} (mock)" if is_rehearsal else args.filter))
    return 5 if report.undecided else 0


def _tell(args: DescribeArgs, settings: Settings, taxa: TaxonList, made: Described) -> None:
    from fieldmark.build.describe.run import WHY
    from fieldmark.cli.next_steps import caption_command
    from fieldmark.data import DATASETS

    n_described, n = made.counts.get("described", 0), len(taxa.taxa)
    rows = counted(taxa.n_rows, "row")
    talk(f"{n_described:,} of {counted(n, 'taxon', 'taxa')} described, from {rows}")
    for reason, n_rows in taxa.skipped.items():
        talk(f"  {n_rows:>8,}  rows left out: {reason}")
    for reason, n_taxa in made.reasons.items():
        talk(f"  {n_taxa:>8,}  {reason}" + (f": {WHY[reason]}" if reason in WHY else ""))
    for path in made.files:
        talk(str(path))
    if not n_described:
        return
    import polars as pl

    texts = pl.read_parquet(made.files[0], columns=["description"])["description"].drop_nulls()
    if len(texts):
        talk(f'example: "{texts[0]}"')
    # The dataset that the names belong to, where they lie in its folder.
    root = args.names.resolve().parent if args.names is not None else Path()
    beside = ("--descriptions", str(made.files[0].parent))
    if root.name in DATASETS.names() and settings.root_of(root.name).resolve() == root:
        talk(f"next: fieldmark shards make {root.name} --out shards")
        talk(f"then: {caption_command(['shards'], *beside)}")
    else:
        talk("Pack your photos with `fieldmark shards make`, and give the shards to")
        talk(f"{caption_command(['SHARDS'], *beside)}")
