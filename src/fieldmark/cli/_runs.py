"""States of runs (done, running, failed, killed, superseded): which are meant, and how is each?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, UseAppendAction, arg

from fieldmark.cli._show import counted, print_json, printable, show_rows, talk
from fieldmark.errors import UnknownName, UsageError

if TYPE_CHECKING:
    from fieldmark.store import Claim, Run, RunFilter, Store

SHORT = 8
"""hex digits of a key that people are shown"""
RunNames = Annotated[Positional[tuple[str, ...]], arg(metavar="[ID|KEY…]", help_behavior_hint="")]
State = Literal["done", "running", "failed", "killed", "superseded"]
States = Annotated[UseAppendAction[tuple[State, ...]], arg(help_behavior_hint="")]


@dataclass(frozen=True, slots=True)
class Standing:
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
            "items": run.n_items,
            "when (UTC)": when,
            "data": "-".join(digest[:SHORT] for digest in spec.data.split("-")),
            "folder": run.root or None,
            "claimed by": None if self.claim is None else who(self.claim),
        }


def show_runs(runs: Sequence[Standing], as_json: bool, summary: str) -> None:
    """A table with a line below, or a JSON list."""
    if as_json:
        print_json([standing.plain() for standing in runs])
        return
    rows = [standing.row() for standing in runs]
    show_rows(rows, False, right=("id", "n_train", "seed", "items"))
    talk(f"{counted(len(runs), 'run')} {summary}")


def who(claim: Claim) -> str:
    return f"process {claim.pid} on {printable(claim.host)}"


def _version(version: str) -> str:
    """`m.py:Mine#4ae7da83…` → `#4ae7da83`; nothing where there is none."""
    _, sign, digest = version.rpartition("#")
    return f"#{digest[:SHORT]}" if sign else ""


def standings(store: Store, where: RunFilter, states: Sequence[str]) -> list[Standing]:
    """The runs asked for, by number. A name that no run has is a slip, not an empty list."""
    from fieldmark.store import RunFilter

    everything = store.runs()
    for name in where.models if everything else ():
        if not store.runs(RunFilter(models=(name,))):
            known = {run.spec.model for run in everything}
            raise UnknownName("model in these results", name, known, "fieldmark runs ls")
    for name in where.tasks if everything else ():
        if not store.runs(RunFilter(tasks=(name,))):
            known = {run.spec.task for run in everything}
            raise UnknownName("task in these results", name, known, "fieldmark runs ls")
    claims, superseded = store.claims(), store.superseded()
    runs = store.runs(where)
    every = [_standing(run, claims.get(run.key), superseded.get(run.id)) for run in runs]
    return sorted(
        (standing for standing in every if not states or standing.state in states),
        key=lambda standing: standing.run.id,
    )


def _standing(run: Run, claim: Claim | None, newest: int | None) -> Standing:
    if run.state == "done":
        state: State = "done" if newest is None else "superseded"
    elif run.state == "running":
        state = "running" if claim is not None else "killed"
    else:
        state = "failed"
    return Standing(run, state, claim, newest)


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
