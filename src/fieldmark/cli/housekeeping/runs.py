"""List, remove or free the runs in the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, UseAppendAction, arg

from fieldmark.cli.flags import Common, ResultsFlags, RunChoice, existing_store
from fieldmark.cli.show import counted, print_json, show_rows, talk
from fieldmark.errors import DataError, UnknownName, UsageError, join_problems

if TYPE_CHECKING:
    from fieldmark.store import Claim, Run, RunFilter, Store

SHORT = 8
"""hex digits of a key that people are shown"""
RARE = ("data", "folder", "claimed by", "key", "seed", "when (UTC)", "n_train", "photos")
"""columns that a narrow screen leaves out, in this order"""
RunNames = Annotated[Positional[tuple[str, ...]], arg(metavar="ID|KEY…", help_behavior_hint="")]
State = Literal["done", "running", "failed", "killed", "superseded"]
States = Annotated[UseAppendAction[tuple[State, ...]], arg(help_behavior_hint="")]


# --- ls ---


@dataclass(frozen=True, slots=True)
class RunsLsArgs(RunChoice):
    """List the runs, their state, data and process.

    killed: it stopped half-way; run the same command to continue it. superseded: its photos or
    labels were changed in place, and a later run used the new ones.

    examples:
      fieldmark runs ls
      fieldmark runs ls --task newt --state failed --state killed
      fieldmark runs ls --json
    """

    state: States = ()
    """only runs in these states"""
    json: bool = False
    """print JSON"""


def ls(args: RunsLsArgs) -> int:
    path = existing_store(args.common)
    with args.open_store() as store:
        runs = statuses(store, args.where, args.state)
    show_runs(runs, args.json, f"in {path}. `runs rm` removes runs.")
    return 0


# --- rm ---


@dataclass(frozen=True, slots=True)
class RunsRmArgs(RunChoice):
    """Remove runs with their predictions and scores. You cannot undo it: try --dry-run first.

    Several kinds of flags choose the runs that match all of them. Runs in progress are not removed.

    examples:
      fieldmark runs rm 12 3fa9c2d1
      fieldmark runs rm --superseded
      fieldmark runs rm --model 'my_model.py:*' --failed --dry-run
    """

    run: RunNames = ()
    """numbers or keys, as `runs ls` shows them"""
    superseded: bool = False
    """only runs whose photos or labels were changed in place, and that were run again since"""
    failed: bool = False
    """only runs that failed"""
    state: States = ()
    """only runs in these states"""
    all: bool = False
    """remove every run"""
    dry_run: bool = False
    """only show what would be removed"""
    json: bool = False
    """print JSON"""


def rm(args: RunsRmArgs) -> int:
    from fieldmark.store import Store

    states = [*args.state, *["superseded"] * args.superseded, *["failed"] * args.failed]
    n_ways = bool(args.run) + bool(states or args.model or args.task) + args.all
    if n_ways == 0:
        raise UsageError(
            "which runs? `fieldmark runs rm ID`, a flag such as --superseded, or --all."
        )
    if n_ways > 1:
        raise UsageError("give runs, or flags that choose them, or --all: only one of the three.")
    path = existing_store(args.common)
    with Store.open(path, read_only=args.dry_run) as store:
        chosen = _chosen(store, args, states)
        _refuse_claimed(chosen)
        if not args.dry_run:
            store.drop_runs([status.run.name for status in chosen])
    does = "would be removed" if args.dry_run else "removed"
    show_runs(chosen, args.json, f"{does} from {path}.")
    return 0


def _chosen(store: Store, args: RunsRmArgs, states: list[str]) -> list[RunStatus]:
    every = statuses(store, args.where, states)
    if not args.run:
        return every
    by_id = {status.run.id: status for status in every}
    chosen = (_named(word, by_id) for word in args.run)
    return list({status.run.id: status for status in chosen}.values())


def _named(word: str, by_id: Mapping[int, RunStatus]) -> RunStatus:
    """The run of that number, or of that key where only one has it."""
    if word.isdecimal() and int(word) in by_id:
        return by_id[int(word)]
    (key,) = keys_of([word], {}, [status.run.key for status in by_id.values()])
    numbers = [number for number, status in by_id.items() if status.run.key == key]
    if len(numbers) > 1:
        shown = ", ".join(map(str, numbers))
        raise UsageError(
            f"{len(numbers)} runs have the key {word}: give a number instead ({shown})."
        )
    return by_id[numbers[0]]


def _refuse_claimed(chosen: list[RunStatus]) -> None:
    problems = [
        f"run {status.run.id} is in progress in {who(status.claim)}: stop that process first."
        for status in chosen
        if status.claim is not None
    ]
    if problems:
        raise DataError(join_problems(problems, "nothing was removed"))


# --- free ---


@dataclass(frozen=True, slots=True)
class RunsFreeArgs:
    """Free a run that another process has claimed.

    Only needed where fieldmark cannot see that the process has ended: on another machine, or in a
    container. A process that is still alive stops when it next writes to the run.

    examples:
      fieldmark runs free 12
      fieldmark runs free --all
    """

    run: RunNames = ()
    """numbers or keys, as `runs ls` shows them"""
    all: bool = False
    """free every claimed run"""
    common: ResultsFlags = Common()


def free(args: RunsFreeArgs) -> int:
    from fieldmark.store import Store

    if bool(args.run) == args.all:
        raise UsageError("which runs? `fieldmark runs free ID`, or --all for every claimed run.")
    n_freed = 0
    with Store.open(existing_store(args.common)) as store:
        living = store.claims()
        ids = {stored.id: stored.key for stored in store.runs()}
        keys = [*ids.values(), *living]
        for key in list(living) if args.all else keys_of(args.run, ids, keys):
            claim = store.free(key)
            if claim is None or key not in living:
                talk(f"{key[:SHORT]}  was not claimed")
                continue
            n_freed += 1
            since = f"at {claim.started} (last sign of life {claim.heartbeat})"
            talk(f"{key[:SHORT]}  freed; {who(claim)} had claimed it {since}")
    talk(f"{counted(n_freed, 'claim')} freed.")
    return 0


# --- states of runs ---


@dataclass(frozen=True, slots=True)
class RunStatus:
    """A run and how it stands."""

    run: Run
    state: State
    """killed: nobody is on it; superseded: its data were changed in place, and run again"""
    claim: Claim | None
    superseded_by: int | None

    def plain(self) -> dict[str, Any]:
        """All that is known, as JSON values."""
        run = asdict(self.run)
        spec = run.pop("spec")
        error = (self.run.error or "").strip().splitlines()
        return {
            **run,
            **spec,
            "state": self.state,
            "error": error[-1] if error else None,
            "superseded_by": self.superseded_by,
            "claimed_by": None if self.claim is None else asdict(self.claim),
        }

    def row(self) -> dict[str, Any]:
        """What fits on a screen."""
        run, spec = self.run, self.run.spec
        when = (run.finished or run.started).replace("T", " ").rstrip("Z")
        return {
            "id": str(run.id),
            "key": run.key[:SHORT],
            "state": self.state,
            "model": f"{spec.model}{_version(spec.model_version)}",
            "task": f"{spec.task}@{spec.task_variant}" if spec.task_variant else spec.task,
            "protocol": spec.protocol,
            "n_train": "all" if spec.n_train is None else spec.n_train,
            "seed": str(spec.seed),
            "photos": run.n_items,
            "when (UTC)": when,
            "data": "-".join(digest[:SHORT] for digest in spec.data.split("-")),
            "folder": run.root or None,
            "claimed by": None if self.claim is None else who(self.claim),
        }


def show_runs(runs: Sequence[RunStatus], as_json: bool, summary: str) -> None:
    """A table with a line below, or a JSON list."""
    if as_json:
        print_json([status.plain() for status in runs])
        return
    rows = [status.row() for status in runs]
    show_rows(rows, False, ("id", "n_train", "seed", "photos"), RARE)
    talk(f"{counted(len(runs), 'run')} {summary}")


def who(claim: Claim) -> str:
    return f"process {claim.pid} on {claim.host}"


def _version(version: str) -> str:
    """`m.py:Mine#4ae7da83…` → `#4ae7da83`; nothing where there is none."""
    _, sign, digest = version.rpartition("#")
    return f"#{digest[:SHORT]}" if sign else ""


def statuses(store: Store, where: RunFilter, states: Sequence[str]) -> list[RunStatus]:
    """The runs asked for, by number."""
    from fieldmark.report.rows import check_names

    check_names(store, where, "fieldmark runs ls")
    claims, superseded = store.claims(), store.superseded()
    runs = store.runs(where)
    every = [_status(run, claims.get(run.key), superseded.get(run.id)) for run in runs]
    return sorted(
        (status for status in every if not states or status.state in states),
        key=lambda status: status.run.id,
    )


def _status(run: Run, claim: Claim | None, newest: int | None) -> RunStatus:
    if run.state == "done":
        state: State = "done" if newest is None else "superseded"
    elif run.state == "running":
        state = "running" if claim is not None else "killed"
    else:
        state = "failed"
    return RunStatus(run, state, claim, newest)


def keys_of(words: Sequence[str], ids: Mapping[int, str], keys: Sequence[str]) -> list[str]:
    """The keys that words stand for: a run's number, or the beginning of one key only.

    >>> keys_of(["7", "ab"], {7: "cd12"}, ["cd12", "ab34"])
    ['cd12', 'ab34']
    """
    chosen = []
    for word in words:
        if word.isdecimal() and int(word) in ids:
            chosen.append(ids[int(word)])
            continue
        fitting = sorted({key for key in keys if word and key.startswith(word.lower())})
        if len(fitting) > 1:
            shown = ", ".join(key[: max(SHORT, len(word) + 2)] for key in fitting[:5])
            raise UsageError(f"{len(fitting)} runs have a key that starts with {word}: {shown}.")
        if not fitting:
            raise UnknownName("run", word, (), "fieldmark runs ls")
        chosen.append(fitting[0])
    return list(dict.fromkeys(chosen))
