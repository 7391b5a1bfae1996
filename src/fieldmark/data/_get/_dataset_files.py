"""How does a dataset get from its sources to the layout its reader expects?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fieldmark.data._check import counted
from fieldmark.data._dataset import Source
from fieldmark.data._get._crew import fetch_all
from fieldmark.data._get._http import ask_size
from fieldmark.data._get._job import Job, Outcome, Pace, fault
from fieldmark.data._get._place import is_unpacked, unpack, unpacked_faults
from fieldmark.data._get._plan import Item, bundle_of, bundles, check_room, make_plan
from fieldmark.data._get._state import State, held
from fieldmark.data._get._tally import Tally
from fieldmark.errors import ModelError, UsageError
from fieldmark.progress import Progress, Silent


@dataclass(frozen=True, slots=True)
class Choice:
    """What of a dataset, and how."""

    only: str = ""
    """annotations or images; "" = all"""
    verify: bool = False
    """read again what is here; fetch nothing"""
    remove_archives: bool = False
    """delete archives once they are unpacked"""
    offline: bool = False
    """fetch nothing; unpack what is here"""
    pace: Pace = field(default_factory=Pace)


@dataclass(frozen=True, slots=True)
class FileState:
    """One file of a dataset after `get`."""

    file: str
    state: str
    """here, fetched, failed, damaged (`verify`), missing (`verify`), by hand"""
    n_bytes: int | None = None
    reason: str = ""
    steps: str = ""
    """what a person must do, where that is the only way"""


def get_sources(
    sources: Sequence[Source], root: Path, choice: Choice, progress: Progress | None = None
) -> list[FileState]:
    """Fetches, checks and unpacks what is not here yet; one line per source, in their order."""
    plan = make_plan(sources, root, choice.only)
    if choice.only and sources and not plan:
        raise UsageError(
            f"--only {choice.only}: no source holds those alone; leave out --only to fetch all."
        )
    if all(item.job is None for item in plan):
        return [FileState("", "by hand", steps=item.source.steps) for item in plan]
    tally = Tally(progress or Silent())
    with held(root) as state:
        work = _Work(root, state, plan, choice, tally)
        return work.verify() if choice.verify else work.get()


@dataclass(slots=True)
class _Work:
    root: Path
    state: State
    plan: list[Item]
    choice: Choice
    tally: Tally
    results: dict[str, FileState] = field(default_factory=dict)

    def get(self) -> list[FileState]:
        self._look()
        jobs = [
            item.job
            for item in self.plan
            if item.job is not None and not item.is_manual and item.name not in self.results
        ]
        coming = {*self.results, *map(self._name, jobs)}
        todo = [
            (name, items)
            for name, items in self._bundles()
            if all(item.name in coming for item in items) and not self._is_unpacked(name, items)
        ]
        if jobs and self.choice.offline:
            raise ModelError(
                f"{jobs[0].target}  is not here and --offline forbids fetching it: leave out "
                "--offline, or put the file there."
            )
        rest = check_room(self.root, jobs, todo, self._size_of)
        if jobs:
            self.tally.start("fetch", rest)
            fetch_all(jobs, self.choice.pace, self.tally, self._note)
        for name, items in todo:
            self._unpack(name, items)
        return self._all()

    def verify(self) -> list[FileState]:
        """Reads again what is here. What is wrong is set aside or forgotten: `get` mends it."""
        for name, items in self._bundles():
            if self.state.file(name, "unpacked").is_file():
                self._verify_unpacked(name, items)
        for item in self.plan:
            if item.job is None:
                continue
            is_told = item.name in self.results
            if item.job.target.is_file():
                why = self._check(item.job)
                if why or not is_told:
                    self._set(item, "damaged" if why else "here", why)
            elif not is_told:
                self._set(item, "by hand" if item.is_manual else "missing", "")
        return self._all()

    # --- what is here ---

    def _look(self) -> None:
        """Files that are here and right need nothing; nor do archives that were unpacked."""
        for name, items in self._bundles():
            if self._is_unpacked(name, items):
                for item in items:
                    self._set(item, "here", "unpacked")
        for item in self.plan:
            job = item.job
            if job is None or item.name in self.results or not job.target.is_file():
                continue
            why = "" if self.state.knows(job) else self._check(job)
            if not why:
                self._set(item, "here", "")
            elif item.is_manual:
                self._set(item, "failed", why)

    def _check(self, job: Job) -> str:
        """Reads a finished file; a wrong one loses its name."""
        why = fault(job, job.target)
        if why:
            self.state.forget(self._name(job), "json")
            job.target.replace(job.bad)
            return f"{why}; kept as {job.bad.name}"
        self.state.remember(job)
        return ""

    def _verify_unpacked(self, name: str, items: list[Item]) -> None:
        bundle = bundle_of(name, items, self.root)
        self.tally.start(f"read {name}", items[0].source.unpacked_bytes or 0)
        wrong = unpacked_faults(bundle, self.state, self.tally.add)
        if wrong:
            self.state.forget(name, "unpacked")
        shown = ", ".join(repr(each) for each in wrong[:3])
        why = f"missing or changed since unpacking: {counted(len(wrong), 'file')} ({shown})"
        for item in items:
            self._set(item, "damaged" if wrong else "here", why if wrong else "unpacked")

    # --- what is done about it ---

    def _note(self, outcome: Outcome) -> None:
        item = next(each for each in self.plan if each.job == outcome.job)
        if outcome.state == "fetched":
            self.state.remember(outcome.job)
            self.tally.say(f"{item.name}  fetched.")
        self._set(item, outcome.state, outcome.reason)

    def _unpack(self, name: str, items: list[Item]) -> None:
        states = [self.results.get(item.name) for item in items]
        if any(each is None or each.state not in ("here", "fetched") for each in states):
            return
        bundle = bundle_of(name, items, self.root)
        self.tally.start(f"unpack {name}", bundle.n_packed)
        n_aside = unpack(bundle, self.state, self.tally.add)
        if n_aside:
            where = self.state.folder / "replaced"
            self.tally.say(f"{name}  replaced {n_aside} other files, which are now in {where}.")
        if self.choice.remove_archives:
            for path in bundle.paths:
                path.unlink(missing_ok=True)

    # --- small things ---

    def _bundles(self) -> list[tuple[str, list[Item]]]:
        return list(bundles(self.plan).items())

    def _is_unpacked(self, name: str, items: list[Item]) -> bool:
        return is_unpacked(bundle_of(name, items, self.root), self.state)

    def _size_of(self, job: Job) -> int | None:
        return ask_size(job.urls[0])

    def _name(self, job: Job) -> str:
        return job.target.relative_to(self.root).as_posix()

    def _set(self, item: Item, state: str, reason: str) -> None:
        job = item.job
        n_bytes = job.target.stat().st_size if job is not None and job.target.is_file() else None
        self.results[item.name] = FileState(item.name, state, n_bytes, reason)

    def _all(self) -> list[FileState]:
        states = []
        for item in self.plan:
            state = self.results.get(item.name, FileState(item.name, "by hand"))
            is_open = state.state in ("by hand", "failed")
            states.append(replace(state, steps=item.source.steps) if is_open else state)
        return states


def announce(states: Sequence[FileState], say: Callable[[str], None]) -> None:
    """The lines a person needs: what failed and why, and what only a person can do."""
    for each in states:
        if each.state in ("failed", "damaged"):
            say(f"{each.file}  {each.state}: {each.reason}.")
    steps = dict.fromkeys(each.steps for each in states if each.steps)
    if steps:
        say("to be done by hand:")
    for number, text in enumerate(steps, 1):
        for line, words in enumerate(text.strip().splitlines()):
            say(f"  {number}. {words}" if line == 0 else f"     {words}")
