"""Download, check or draw a dataset."""

from __future__ import annotations

import dataclasses
import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

from fieldmark.cli.flags import Common, CommonFlags, DataFlags, Only, Words, check_least
from fieldmark.cli.show import (
    counted,
    print_json,
    show,
    show_rows,
    show_sentence,
    size,
    talk,
)
from fieldmark.errors import DataError, UsageError, readable
from fieldmark.progress import for_people
from fieldmark.settings import dataset_key

if TYPE_CHECKING:
    from fieldmark.data import Dataset, Finding
    from fieldmark.data.get import FileState, Pace


# --- get ---


@dataclass(frozen=True, slots=True)
class DataGetArgs:
    """Download a dataset, or the files in a table of web addresses. Resumes where it stopped.

    examples:
      fieldmark data get newt
      fieldmark data get newt --only annotations
      fieldmark data get newt --verify
      fieldmark data get --urls ENA24-balanced.csv --out photos/
    """

    name: Annotated[Positional[str], arg(metavar="DATASET")] = ""
    """a name as `fieldmark datasets` lists it"""
    only: Literal["all", "annotations", "images"] = "all"
    """which files of the dataset"""
    verify: bool = False
    """only compare the checksums of all files that are here; download nothing"""
    remove_archives: bool = False
    """delete archives after unpacking"""
    urls: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """a .csv, .tsv or .parquet table with a column of web addresses, instead of a dataset"""
    url_column: Annotated[Words, arg(metavar="NAME")] = ()
    """column with web addresses; several are tried in turn [recognised by name]"""
    md5_column: Annotated[str, arg(metavar="NAME", help_behavior_hint="")] = ""
    """column with MD5 or SHA-256 checksums [recognised by name]"""
    save_as: Annotated[str, arg(metavar="NAME", help_behavior_hint="")] = ""
    """column with file names, or a pattern such as '{id}.jpg' [recognised by name]"""
    max_mb: Annotated[float, arg(metavar="MB")] = 2000.0
    """largest file taken from an address of --urls"""
    out: Annotated[Path | None, arg(metavar="FOLDER", help_behavior_hint="")] = None
    """folder to save in [the dataset's folder; required with --urls]"""
    parallel: Annotated[int, arg(metavar="N")] = 4
    """downloads at the same time"""
    json: bool = False
    """print JSON"""
    common: Annotated[CommonFlags, Only(("data", "data_root", "offline", "quiet"))] = Common()


def get(args: DataGetArgs) -> int:
    if bool(args.name) == bool(args.urls):
        raise UsageError(
            "expected either a dataset or --urls FILE: `fieldmark datasets` lists the datasets."
        )
    return _get_listed(args, args.urls) if args.urls else _get_dataset(args)


def _get_dataset(args: DataGetArgs) -> int:
    from fieldmark.data import MARK, Finding, load_dataset
    from fieldmark.data.get import Choice, announce, get_dataset

    dataset = load_dataset(args.name)
    settings = args.common.settings()
    root = args.out or settings.root_of(args.name)
    # Drawn and real photos in one folder could never be told apart again.
    if (root / MARK).exists():
        raise DataError(
            f"{root}  contains a synthetic copy ({MARK}): remove it, or choose another folder "
            "with --out."
        )
    if not args.verify and _is_complete(dataset, root):
        _show(args, root, [], [])
        _next(args, root, [])
        return 0
    choice = Choice(
        only="" if args.only == "all" else args.only,
        verify=args.verify,
        remove_archives=args.remove_archives,
        offline=settings.offline,
        pace=_pace(args),
    )
    with for_people(args.common.quiet) as progress:
        states = get_dataset(dataset, root, choice, progress)
    findings = None
    if any(file.state == "by hand" for file in states):
        absent = Finding("error", f"{root}  does not exist.")
        findings = dataset.check(root) if root.exists() else [absent]
    is_complete = findings is not None and not any(finding.level == "error" for finding in findings)
    if is_complete:  # whoever put it there did so by other means: nothing is left to do
        states = [_done(file) for file in states]
    _show(args, root, states, findings)
    if not args.json:
        announce(states, talk)
        for finding in findings or []:
            talk(f"{finding.level}  {readable(finding.text)}")
    _next(args, root, states)
    return _exit_code(states)


def _is_complete(dataset: Dataset, root: Path) -> bool:
    """Was all of it put there by other means? Then gigabytes need not come once more."""
    from fieldmark.data.get import FOLDER

    is_ours = (root / FOLDER).exists()
    if is_ours or not root.is_dir() or not any(root.iterdir()):
        return False
    return not any(finding.level == "error" for finding in dataset.check(root))


def _done(state: FileState) -> FileState:
    is_open = state.state == "by hand"
    return dataclasses.replace(state, state="here", steps="") if is_open else state


def _exit_code(states: list[FileState]) -> int:
    kinds = {file.state for file in states}
    if "failed" in kinds:
        return 4
    return 3 if kinds & {"by hand", "damaged", "missing"} else 0


def _show(
    args: DataGetArgs, root: Path, states: list[FileState], findings: list[Finding] | None
) -> None:
    if args.json:
        files = [dataclasses.asdict(file) for file in states]
        problems = [dataclasses.asdict(finding) for finding in findings or []]
        print_json({"dataset": args.name, "root": str(root), "files": files, "findings": problems})
        return
    rows = [
        {
            "file": file.file,
            "state": file.state,
            "size": None if file.n_bytes is None else size(file.n_bytes),
        }
        for file in states
        if file.file
    ]
    show_rows(rows, False, right=("size",))


def _next(args: DataGetArgs, root: Path, states: list[FileState]) -> None:
    if args.json:
        return
    where = f" --data {args.name}={root}" if args.out else ""
    code = _exit_code(states)
    same = f"`fieldmark data get {args.name}{f' --out {args.out}' if args.out else ''}`"
    if code == 0:
        talk(
            f"{root}  is complete."
            if args.verify
            else f"{root}  now contains the files you asked for."
        )
        talk(f"next: fieldmark data check {args.name}{where}")
    elif args.verify:
        talk(f"{root}  is not complete: {same} downloads what is missing.")
    else:
        talk(f"{root}  is not complete yet: after those steps, run {same} again.")


def _get_listed(args: DataGetArgs, table: Path) -> int:
    from fieldmark.data.get import REPORT, UrlColumns, get_urls

    if args.out is None:
        raise UsageError("--urls needs --out FOLDER, the folder to save the files in.")
    for flag, is_given in (
        ("--only", args.only != "all"),
        ("--verify", args.verify),
        ("--remove-archives", args.remove_archives),
        ("--offline", args.common.settings().offline),
    ):
        if is_given:
            raise UsageError(f"{flag} cannot be used with --urls, which always compares checksums.")
    if args.max_mb <= 0:
        raise UsageError(f"--max-mb {args.max_mb:g}: expected more than 0.")
    columns = UrlColumns(args.url_column, args.md5_column, args.save_as)
    with for_people(args.common.quiet) as progress:
        pace = dataclasses.replace(_pace(args), most_bytes=int(args.max_mb * 1e6))
        result = get_urls(table, args.out, columns, pace, progress)
    n = {"here": result.n_here, "fetched": result.n_fetched, "failed": len(result.failed)}
    report = args.out / REPORT
    if args.json:
        names = ("row", "file", "url", "reason")
        failed = [dict(zip(names, row, strict=True)) for row in result.failed]
        print_json({"out": str(args.out), **n, "report": str(report), "failures": failed})
        return 5 if result.failed else 0
    talk(f"{args.out}  {counted(n['fetched'], 'file')} downloaded, {n['here']:,} already here.")
    if not result.failed:
        return 0
    for row, file, url, reason in result.failed[:5]:
        talk(f"{table}:{row}  {file or url}: {reason}")
    talk(f"{counted(n['failed'], 'file')} failed; {report} lists them with the reasons.")
    return 5


def _pace(args: DataGetArgs) -> Pace:
    from fieldmark.data.get import Pace

    check_least("--parallel", args.parallel, 1)
    return Pace(parallel=args.parallel)


# --- check ---


@dataclass(frozen=True, slots=True)
class DataCheckArgs:
    """Check a dataset's folder for missing and damaged files.

    examples:
      fieldmark data check newt
      fieldmark data check beluga --data beluga=/data/beluga --json
    """

    name: Annotated[Positional[str], arg(metavar="DATASET")]
    """a name as `fieldmark datasets` lists it"""
    checksums: bool = False
    """also print the SHA-256 of every label file, to compare two copies"""
    json: bool = False
    """print JSON"""
    common: DataFlags = Common()


def check(args: DataCheckArgs) -> int:
    from fieldmark.data import MARK, Finding, annotation_digests, is_as_drawn, load_dataset

    root = args.common.settings().root_of(args.name)
    dataset = load_dataset(args.name)
    if not root.exists():
        from fieldmark.protocols import no_data

        raise DataError(no_data(args.name, root))
    findings = dataset.check(root)
    if (root / MARK).is_file() and not is_as_drawn(root):
        text = f"files have changed since fieldmark drew them. If all are real, remove {MARK}."
        findings.append(Finding("warning", text))
    is_broken = any(finding.level == "error" for finding in findings)
    digests = annotation_digests(root) if args.checksums else {}
    if args.json:
        rows = [{"level": finding.level, "text": finding.text} for finding in findings]
        report = {"dataset": args.name, "root": str(root), "ok": not is_broken, "findings": rows}
        print_json({**report, "sha256": digests} if args.checksums else report)
    else:
        for finding in findings:
            show_sentence(f"{finding.level}  {readable(finding.text)}")
        for path, digest in digests.items():
            show(f"sha256  {digest}  {path}")
        n = counted(len(findings), "finding")
        talk(f"{root}  {n}." if findings else f"{root}  is complete.")
    return 3 if is_broken else 0


# --- make ---


@dataclass(frozen=True, slots=True)
class DataMakeArgs:
    """Draw a synthetic copy of a dataset, in its exact layout.

    examples:
      fieldmark data make newt
      fieldmark data make beluga --size 400 --out /tmp/beluga
    """

    name: Annotated[Positional[str], arg(metavar="DATASET")]
    """a name as `fieldmark datasets` lists it"""
    size: int = 1000
    """about how many images"""
    seed: int = 0
    """seed of the synthetic world; another seed gives other creatures"""
    difficulty: float = 0.5
    """0 = easy, 1 = hard"""
    out: Annotated[Path | None, arg(metavar="FOLDER", help_behavior_hint="")] = None
    """folder to write [the dataset's folder under --data-root]"""
    common: DataFlags = Common()


def make(args: DataMakeArgs) -> int:
    from fieldmark.data import load_dataset
    from fieldmark.data.read.folders import is_image
    from fieldmark.world import World

    dataset = load_dataset(args.name)
    check_least("--size", args.size, 1)
    if not 0 <= args.difficulty <= 1:
        raise UsageError(f"--difficulty {args.difficulty:g}: expected a number from 0 to 1.")
    world = World(seed=args.seed, difficulty=args.difficulty)
    root = args.out or args.common.settings().root_of(args.name)
    making = root.with_name(f".{root.name}.making")
    former = root.with_name(f".{root.name}.former")
    try:
        _refuse_foreign(root)
        for left in (making, former):  # behind by one that was killed
            shutil.rmtree(left, ignore_errors=True)
        making.mkdir(parents=True)
        dataset.make(making, world, args.size)
        # Renamed first: what a kill leaves half deleted would pass for files of the user's.
        if root.exists():
            root.rename(former)
        making.rename(root)
        shutil.rmtree(former, ignore_errors=True)
    except OSError as error:
        raise DataError(
            f"{root}  cannot be written ({error.strerror or error}): choose another folder "
            "with --out."
        ) from error
    n = sum(is_image(path.name) for path in root.rglob("*"))  # none where they lie in archives
    photos = f"{n:,}" if n else f"about {args.size}"
    talk(f"{root}  contains {photos} drawn photos, in the layout of `{args.name}`.")
    if args.name == "folder":  # as a user's own photos lie
        talk(f"next: fieldmark try {shlex.quote(str(root / 'train'))}")
        return 0
    where = f" --data {shlex.quote(f'{dataset_key(args.name)}={root}')}" if args.out else ""
    talk(f"next: {_use_of(args.name)}{where}")
    return 0


def _use_of(name: str) -> str:
    """The run that a task's file opens with, where its model needs no weights."""
    from fieldmark.cli.next_steps import tasks_on
    from fieldmark.tasks import find_file

    for task in tasks_on(name)[:1]:
        head = find_file(task).read_text(encoding="utf-8").partition("\n")[0]
        if run := re.search(r"fieldmark run --task \S+ --model classical/\w+", head):
            return run[0]
    return f"fieldmark data check {name}"


def _refuse_foreign(root: Path) -> None:
    """What was made here may be made anew; anything else is never touched."""
    from fieldmark.data import is_as_drawn

    if root.exists() and not root.is_dir():
        raise DataError(f"{root}  is a file: choose a folder with --out.")
    if root.exists() and any(root.iterdir()) and not is_as_drawn(root):
        raise DataError(
            f"{root}  has files that fieldmark did not make: choose an empty folder with --out."
        )
