"""Launcher (submit, watch, merge): how do steps get to their executor, and results to the store?

A run belongs to one launcher at a time. Another that asks for it says who holds it, and ends;
launchers of other runs share the job folder. Steps are submitted under its lease `launch`, so that
only one launcher at a time decides what is missing. Results are merged under the lease `merge`, so
that the store has one writer. The lease `launcher-TAG` says that the launcher of these steps lives.
It may die at any point: the same command again takes up where it stood. A step that is lost while a
launcher watches (cancelled, out of time, node gone for good) is not submitted again by it, since
that may be what the user wanted; the next command does it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fieldmark.data import MEMORY, snapshot_contents
from fieldmark.errors import MissingExtra, RunsFailed, UsageError
from fieldmark.experiments.cluster.executors import Executor, group_steps
from fieldmark.experiments.cluster.job_folder import JobFolder, StepFolder, new_tag, short_id
from fieldmark.experiments.cluster.merge import merge_ready
from fieldmark.experiments.cluster.status import Executors, StepStatus, recover_steps
from fieldmark.experiments.cluster.steps import StepOptions, make_steps, run_name
from fieldmark.experiments.execute import ExecuteOptions, Failure, Outcome, execute, gaps_of
from fieldmark.experiments.plan import Plan
from fieldmark.leases import Lease, LeaseFolder
from fieldmark.progress import Progress
from fieldmark.settings import Settings
from fieldmark.store import RunName, Store
from fieldmark.words import counted

WAITS_S = {"slurm": (1.0, 10.0)}
"""how long a launcher waits before it looks again, by executor: at first, and after a while"""
SOON_S = (0.1, 1.0)
MERGE_TRIES = 4
"""then a launcher ends without results that cannot be read; the next command tries again"""


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """ExecuteOptions a launcher behaves."""

    is_detached: bool = False
    """it ends when all is submitted"""
    before: Collection[str] = ()
    """steps whose results the plan counts already: what `merge_finished` gave"""
    steps: StepOptions = StepOptions()
    """how the plan is cut"""


def merge_finished(settings: Settings, progress: Progress) -> frozenset[str]:
    """Merges what finished while nobody watched; the steps that a plan made after this counts."""
    job_folder = JobFolder(settings.results)
    if not job_folder.folder.is_dir():
        return frozenset()
    job_folder.prune()
    put_off: set[str] = set()
    with LeaseFolder(job_folder.folder) as leases:
        while True:
            merged = frozenset(step.id for step in job_folder.steps() if step.is_merged)
            waiting = [
                s for s in job_folder.steps() if s.is_finished and s.id not in merged | put_off
            ]
            if not waiting:
                return merged
            merged_now = merge_ready(job_folder, settings, leases)
            put_off |= {step.id for step, _ in merged_now.put_off}
            for line in merged_now.lines.values():
                progress.say(line)
            if not merged_now.steps and not merged_now.lines:  # another process is merging
                time.sleep(SOON_S[0])


def launch(
    plan: Plan,
    settings: Settings,
    executor: Executor,
    how: ExecuteOptions,
    options: LaunchOptions,
    progress: Progress,
) -> Outcome:
    """Submits what is to run and nobody is on, waits for it, and merges what comes."""
    job_folder = JobFolder(settings.results)
    job_folder.make()
    done = tuple(job for job in plan.jobs if job.status == "done")
    execute(replace(plan, jobs=done), settings, progress, how)  # confirms them; nothing is run
    with LeaseFolder(job_folder.folder) as leases:
        executors = Executors(executor)
        launcher = _Launcher(
            plan, settings, job_folder, leases, executors, executor, how, options, progress
        )
        try:
            launcher.submit()
            if options.is_detached:
                return Outcome((), ())
            launcher.watch()
            outcome = launcher.outcome()
        finally:
            launcher.leave()
        _drop_redone(job_folder, executors)
        return outcome


def _drop_redone(job_folder: JobFolder, executors: Executors) -> None:
    """Removes lost steps whose runs later steps have done, and lost embeddings for them."""
    steps = job_folder.steps()
    redone_by = {name: step.id for step in steps if step.is_merged for name in step.record.names}
    statuses = executors.statuses([step for step in steps if not step.is_finished])
    lost = [step for step in steps if step.id in statuses and statuses[step.id].state == "lost"]
    for step in lost:
        names = step.record.names
        if names and all(redone_by.get(name, "") > step.id for name in names):
            job_folder.drop(step)
    awaited = {name for s in job_folder.steps() if not s.is_finished for name in s.record.after}
    for step in lost:
        if not step.record.names and step.id not in awaited:
            job_folder.drop(step)
    job_folder.drop_contents()


@dataclass(slots=True)
class _Launcher:
    plan: Plan
    settings: Settings
    job_folder: JobFolder
    leases: LeaseFolder
    executors: Executors
    executor: Executor
    how: ExecuteOptions
    options: LaunchOptions
    progress: Progress
    held: dict[str, Lease] = field(default_factory=dict)
    """that it has the steps of a launch, by the tag of that launch: its own, and of dead ones"""
    steps: dict[str, StepFolder] = field(default_factory=dict)
    """the steps of its runs, and those that these come after"""
    doubtful: set[str] = field(default_factory=set)
    """steps that may be lost: their worker was alive for all that was known when this started"""
    new: set[str] = field(default_factory=set)
    """those of them that it submitted itself"""
    earlier: list[tuple[set[str], Path]] = field(default_factory=list)
    """what lost steps have left: names of runs, and the folder"""
    put_off: dict[str, tuple[int, str]] = field(default_factory=dict)
    """steps whose results could not be read: how many times in a row, and why"""
    _states: Counter[str] = field(default_factory=Counter)
    _n_shown: int = 0

    def submit(self) -> None:
        """Makes and submits steps for all runs that no other step is on."""
        names = {run_name(self.plan, planned) for planned in self.plan.to_run}
        if not names:
            return
        with self.leases.turn("launch", self._wait_for) as lease:
            for step in recover_steps(self.job_folder.steps(), self.executors):
                self.job_folder.drop(step)  # its launcher died: its runs are planned anew
            taken = self._attach(names)
            new = self._make(taken)
            lease.check()
            self._hand_over(new)
            self.steps |= {step.id: step for step in new}
            self.new |= {step.id for step in new}
        self._say_submitted(new)

    def _hand_over(self, new: Sequence[StepFolder]) -> None:
        try:
            if new:
                self.executor.submit(group_steps(new))
        except (UsageError, MissingExtra):  # refused: what has no job by now will never have one
            refused = [step for step in new if step.job is None]
            for step in refused:
                self.job_folder.drop(step)
            self.job_folder.drop_contents()
            if n := len(new) - len(refused):
                self.progress.say(f"{n} of {counted(len(new), 'step')} submitted: they continue")
            raise

    def _wait_for(self, launcher: str) -> None:
        self.progress.status(f"waiting for {launcher}, which is submitting steps")

    def _attach(self, names: set[str]) -> set[str]:
        """Makes the steps of dead launchers that do some of these runs its own; the runs they do.
        UsageError where a launcher lives that has some of them.
        """
        taken: set[str] = set()
        steps = [step for step in self.job_folder.steps() if step.id not in self.options.before]
        statuses = self.executors.statuses(steps)
        for step in steps:
            status, record = statuses[step.id], step.record
            shared = names & set(record.names)
            if status.state == "lost":
                self.earlier += [(set(record.names), path) for path in step.attempts]
            if not shared or status.state in ("lost", "unsubmitted"):
                continue
            if status.state != "merged":
                self._hold(step.tag, f"it does {len(shared):,} of the {len(names):,} runs")
            taken |= shared
            if status.state == "silent" and step.id not in self.steps:
                self.doubtful.add(step.id)
            for other in (*record.after, step.id):
                if (folder := self.job_folder.step(other)) is not None:
                    self.steps.setdefault(other, folder)
        # What this launcher saw get lost stays lost, unless it was in doubt from the beginning.
        tried = (s for s in self.steps.values() if s.id not in self.doubtful)
        return taken | {name for step in tried for name in step.record.names}

    def _hold(self, tag: str, what: str = "") -> None:
        """From now on other launchers leave the steps of this launch alone."""
        if tag in self.held:
            return
        name = f"launcher-{tag}"
        lease = self.leases.claim(name)
        if lease is None:
            raise UsageError(
                f"{self.leases.holder(name)[0]} is already running this grid ({what}): wait for "
                "it, or stop it. `fieldmark jobs` shows how far it is."
            )
        self.held[tag] = lease

    def leave(self) -> None:
        """Whoever comes next may have its steps."""
        for lease in self.held.values():
            self.leases.give_up(lease, is_done=True)

    def _make(self, taken: Collection[str]) -> list[StepFolder]:
        options = replace(
            self.options.steps,
            command=self.how.command,
            force=self.how.force,
            leave_out=frozenset(taken),
        )
        tag = new_tag()
        snapshot = (self.job_folder.contents_folder / f"{tag}.db").absolute()
        planned = make_steps(self.plan, replace(options, contents=(snapshot,)))
        if not planned:
            return []
        for number, step in enumerate(planned):  # with attempts of lost steps that hold its runs
            earlier = tuple(path for names, path in self.earlier if names & set(step.work.names))
            planned[number] = replace(step, work=replace(step.work, earlier=earlier))
        self._hold(tag)
        steps = self.job_folder.new_steps(planned, self.executor.name, tag)
        snapshot_contents(self.settings.cache / MEMORY, snapshot)
        return steps

    def _say_submitted(self, new: Collection[StepFolder]) -> None:
        n_attached = len(self.steps) - len(self.new)
        if n_attached:
            steps = counted(n_attached, "step")
            self.progress.say(f"waiting for {steps} of an earlier command, with some of these runs")
        if new:
            kinds = Counter(step.record.kind for step in new)
            counts = ", ".join(f"{n} {kind}" for kind, n in kinds.items())
            steps = counted(len(new), "step")
            self.progress.say(f"{steps} submitted ({counts}) on {self.executor.name}")

    def watch(self) -> None:
        """Until none of its steps is alive and all that finished are merged."""
        shortest, longest = WAITS_S.get(self.executor.name, SOON_S)
        wait = shortest
        self.progress.start("runs", sum(len(s.record.names) for s in self.steps.values()))
        while True:
            statuses = self.executors.statuses(list(self.steps.values()))
            is_changed = self._merge_ready()
            is_changed |= self._show(statuses)
            if not any(status.is_alive for status in statuses.values()):
                lost = {name for name, status in statuses.items() if status.state == "lost"}
                if again := lost & self.doubtful:
                    # Submits anew what was in doubt at the beginning and has shown to be lost.
                    self.doubtful -= again
                    self.steps = {k: step for k, step in self.steps.items() if k not in again}
                    self.submit()
                    continue
                if all(map(self._is_closed, self.steps.values())):
                    return
            wait = shortest if is_changed else min(wait * 1.3, longest)
            time.sleep(wait)

    def _is_closed(self, step: StepFolder) -> bool:
        """Is nothing left to be merged, or nothing that can be?"""
        n_tries, _ = self.put_off.get(step.id, (0, ""))
        return step.is_merged or not step.is_finished or n_tries >= MERGE_TRIES

    def _merge_ready(self) -> bool:
        merged_now = merge_ready(self.job_folder, self.settings, self.leases)
        for name, line in merged_now.lines.items():
            if name not in self.put_off:
                self.progress.say(line)
        for late, why in merged_now.put_off:
            n_tries, _ = self.put_off.get(late.id, (0, ""))
            self.put_off[late.id] = n_tries + 1, why
        merged = [step for step in merged_now.steps if step.id in self.steps]
        for step in merged:
            for failure in getattr(step.outcome, "failures", ()):
                self.progress.say(f"{failure.title}: {failure.error}")
        return bool(merged_now.steps)

    def _show(self, statuses: dict[str, StepStatus]) -> bool:
        """Tells how far it is; whether that has changed."""
        states = Counter[str](status.state for status in statuses.values())
        merged = [s for s in self.steps.values() if statuses[s.id].state == "merged"]
        n_done = sum(len(step.record.names) for step in merged)
        self.progress.advance(n_done - self._n_shown)
        self._n_shown = n_done
        pieces = [f"{n} {state}" for state, n in states.items() if state != "merged"]
        reasons = Counter(s.reason for s in statuses.values() if s.state == "pending" and s.reason)
        pieces += [f"({reasons.most_common(1)[0][0]})"] if reasons else []
        self.progress.status(" ".join(pieces))
        is_changed, self._states = states != self._states, states
        return is_changed

    def outcome(self) -> Outcome:
        """What came of its runs, in its own steps and in those of dead launchers."""
        names: list[RunName] = []
        failures: list[Failure] = []
        closing: dict[str, None] = {}
        n_claimed = 0
        titles = {planned.job.title for planned in self.plan.to_run}
        with Store.open(self.settings.store) as store:
            for step in self.steps.values():
                outcome = step.outcome
                if outcome is None:
                    failures += self._lost(step)
                elif step.id in self.put_off and not step.is_merged:
                    _, why = self.put_off[step.id]
                    error = f"it is done, but its results cannot be read now: {why}"
                    failures += [
                        Failure(title, error, RunsFailed.exit_code) for title in step.record.runs
                    ]
                elif step.record.names:
                    names += outcome.names
                    failures += [f for f in outcome.failures if f.title in titles]
                    closing |= dict.fromkeys(outcome.closing_lines)
                    n_claimed += outcome.n_claimed
            gaps = gaps_of(self.plan, names, store)
        return Outcome(
            tuple(dict.fromkeys(names)), tuple(failures), n_claimed, tuple(closing), gaps
        )

    def _lost(self, step: StepFolder) -> list[Failure]:
        """Of a step without a result: where to look, which is the embedding if that has none."""
        before = (self.job_folder.step(name) for name in step.record.after)
        ended = next((one for one in before if one is not None and not one.is_finished), step)
        name = short_id(ended.id)
        error = (
            f"step {name} reached its memory limit. Ask for more (`memory` under [slurm]) and run "
            "the same command again."
            if ended.had_too_little_memory
            else f"step {name} ended without a result (cancelled, killed or out of time). "
            f"`fieldmark jobs logs {name}` shows why; run the same command to retry."
        )
        return [Failure(title, error, RunsFailed.exit_code) for title in step.record.runs]
