"""Process pool (local processes, CUDA_VISIBLE_DEVICES): how are steps done on this one machine?

A few workers at once, a process for each step; one that asks for GPUs has these to itself, one that
does not sees none. Workers end with the launcher, and what waits then ends with it too, since
nobody would start it: the same command again takes up all that was done. A lease in the job folder
tells others whether the launcher is there.
"""

from __future__ import annotations

import importlib
import os
import secrets
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, redirect_stderr, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from fieldmark.errors import DataError, StoreError, UsageError, join_problems
from fieldmark.experiments.cluster.executors import JobState, StepGroup, StepTaskClass
from fieldmark.experiments.cluster.job_folder import JobRecord, StepFolder
from fieldmark.experiments.cluster.worker import StepTask
from fieldmark.leases import Holder, LeaseFolder
from fieldmark.processes import Child, birth, host, output_of, this_place

LOOK_S = 0.02
"""between two looks at the workers"""
KILL_S = 5.0
"""how long a worker that is to end may take"""


@dataclass(frozen=True, slots=True)
class _QueuedStep:
    step: StepFolder
    n_gpus: int
    after: tuple[StepFolder, ...]


@dataclass(frozen=True, slots=True)
class _Working:
    step: StepFolder
    child: Child
    gpus: tuple[str, ...]


class LocalExecutor:
    """At most `n_jobs` workers at once on this machine; 0 = one to a GPU, or to four cores."""

    name = "local"

    def __init__(
        self,
        n_jobs: int = 0,
        gpus: Sequence[str] | None = None,
        task: StepTaskClass = StepTask,
    ) -> None:
        self._gpus = list(visible_gpus() if gpus is None else gpus)
        """those that no worker has"""
        self.n_gpus = len(self._gpus)
        self.n_jobs = n_jobs or self.n_gpus or max(1, (os.cpu_count() or 1) // 4)
        self._task = task
        self._waiting: list[_QueuedStep] = []
        self._working: dict[str, _Working] = {}
        self._ended: dict[str, str] = {}
        """how steps ended, in words"""
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._own = f"local-{secrets.token_hex(4)}"
        """the lease that says that what waits will be started"""
        self._leases: LeaseFolder | None = None
        self._watch = LauncherWatch()

    def submit(self, groups: Sequence[StepGroup]) -> None:
        if not groups:
            return
        if self._leases is None:
            self._leases = LeaseFolder(groups[0].steps[0].path.parent.parent).__enter__()
            self._leases.claim(self._own)
        waiting = []
        for group in groups:
            for index, step in enumerate(group.steps):
                after = group.after[index : index + 1] if group.is_pairwise else group.after
                step.note("queued")
                step.write_job(process_job(self.name, step, None, self._own))
                waiting.append(_QueuedStep(step, group.request.gpus, after))
        with self._lock:
            self._waiting += waiting
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, daemon=True, name="workers")
            self._thread.start()

    def states(self, steps: Sequence[StepFolder]) -> dict[str, JobState]:
        with self._lock:
            waiting = {waiting.step.id for waiting in self._waiting}
            working, ended = set(self._working), dict(self._ended)
        states = {}
        for step in steps:
            if step.id in waiting:
                states[step.id] = JobState("pending", "waits for a free worker")
            elif step.id in working:
                states[step.id] = JobState("running", host())
            elif step.id in ended:
                states[step.id] = JobState("gone", ended[step.id])
            else:
                states[step.id] = self._watch.state(step)
        return states

    def recover(self, steps: Sequence[StepFolder]) -> list[StepFolder]:
        """A job is noted before anything is started: none of these was."""
        return list(steps)

    def cancel(self, steps: Sequence[StepFolder]) -> None:
        names = {step.id for step in steps}
        with self._lock:
            self._waiting = [one for one in self._waiting if one.step.id not in names]
        cancel_processes(steps, self._watch)

    def close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        for worker in self._working.values():
            worker.child.end()
        if self._leases is not None:
            self._leases.__exit__()
        self._leases = self._thread = None

    def _work(self) -> None:
        while not self._stop.wait(LOOK_S):
            with self._lock:
                for worker in list(self._working.values()):
                    if (status := worker.child.status) is not None:
                        self._ended[worker.step.id] = _ending(status)
                        self._gpus = [*worker.gpus, *self._gpus]
                        del self._working[worker.step.id]
                busy = {one.step.id for one in self._waiting} | self._working.keys()
                while len(self._working) < self.n_jobs and (one := self._next(busy)) is not None:
                    self._waiting.remove(one)
                    if one.step.is_cancelled:
                        continue
                    try:
                        self._start(one)
                    except (OSError, DataError) as error:  # disk full, too many processes
                        self._ended[one.step.id] = f"cannot be started: {error}"

    def _next(self, busy: set[str]) -> _QueuedStep | None:
        """The first that waits for nobody, and whose GPUs are free."""
        for one in self._waiting:
            n_gpus = min(one.n_gpus, self.n_gpus)
            if n_gpus <= len(self._gpus) and not any(self._is_on(s, busy) for s in one.after):
                return one
        return None

    def _is_on(self, step: StepFolder, busy: set[str]) -> bool:
        """Must one that comes after it wait? Steps of other launchers are looked up."""
        if step.id in busy:
            return True
        is_own = step.id in self._ended
        return not is_own and not step.is_finished and self._watch.state(step).is_alive

    def _start(self, one: _QueuedStep) -> None:
        n_gpus = min(one.n_gpus, self.n_gpus)
        gpus = tuple(self._gpus[:n_gpus])
        environment = dict(os.environ)
        if self.n_gpus:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
        task = f"{self._task.__module__}:{self._task.__qualname__}"
        log = one.step.path / "log.txt"
        child = Child(_do_step, task, str(one.step.path), log=log, environment=environment)
        self._gpus = self._gpus[n_gpus:]
        self._working[one.step.id] = _Working(one.step, child, gpus)
        holder = replace(Holder.here(), pid=child.pid, born=birth(child.pid))
        with suppress(StoreError):  # its lease shows that it works
            one.step.write_job(process_job(self.name, one.step, holder, self._own))


def visible_gpus() -> list[str]:
    """What CUDA_VISIBLE_DEVICES may name here."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [name.strip() for name in named.split(",") if name.strip() not in ("", "-1")]
    query = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
    return (output_of(query, 60) or "").split()


def process_job(
    executor: str, step: StepFolder, holder: Holder | None, lease: str = ""
) -> JobRecord:
    """A step as a process of this machine; None = it waits for the launcher with that lease."""
    about = {"host": host(), "holder": asdict(holder) if holder else None, "lease": lease}
    job_id = str(holder.pid) if holder else ""
    return JobRecord(executor, job_id, step.id, str(step.path / "log.txt"), about)


class LauncherWatch:
    """How steps stand that some launcher, here or elsewhere, made processes of."""

    def __init__(self) -> None:
        self._launchers: dict[Path, LeaseFolder] = {}
        """kept, since a launcher on another machine is heard for a while to tell that it lives"""

    def state(self, step: StepFolder) -> JobState:
        job = step.job
        if job is None:
            return JobState("gone", "never started")
        holder, machine = holder_of(job), str(job.facts["host"])
        is_there = None if holder is None else holder.is_running
        if is_there or (holder is not None and is_there is None and step.has_worker):
            return JobState("running", machine)
        if holder is not None and is_there is False:
            return JobState("gone")
        if step.is_cancelled:
            return JobState("gone", "cancelled")
        folder = step.path.parent.parent
        leases = self._launchers.setdefault(folder, LeaseFolder(folder))
        if job.facts["lease"] and not leases.is_free(job.facts["lease"]):
            return JobState("pending", f"waits for its launcher on {machine}")
        return JobState("gone")


def holder_of(job: JobRecord) -> Holder | None:
    """The worker of a step; None while it waits."""
    fields = job.facts["holder"]
    return Holder(**fields) if fields else None


def cancel_processes(steps: Sequence[StepFolder], watch: LauncherWatch) -> None:
    """Ends the workers of steps, whoever started them; a worker elsewhere is out of reach."""
    elsewhere: list[str] = []
    workers: list[Holder] = []
    for step in steps:
        step.note("cancelled")
        state = watch.state(step)
        worker = holder_of(job) if (job := step.job) is not None else None
        if state.state == "running" and worker is not None:
            if worker.place == this_place():
                workers.append(worker)
            else:
                elsewhere.append(f"step {step.id} runs on {state.reason}: cancel it there.")
    for number in (signal.SIGTERM, signal.SIGKILL):
        end = time.monotonic() + KILL_S
        for worker in [worker for worker in workers if worker.is_running]:
            with suppress(ProcessLookupError):
                os.killpg(worker.pid, number)
        while any(worker.is_running for worker in workers) and time.monotonic() < end:
            time.sleep(LOOK_S)
    if elsewhere:
        raise UsageError(join_problems(elsewhere, "the others were cancelled"))


def _do_step(task: str, folder: str) -> int:
    """The exit status of a step, in its worker."""
    module, _, name = task.partition(":")
    return int(getattr(importlib.import_module(module), name)(folder)() or 0)


def _ending(status: int) -> str:
    if status < 0:
        return f"killed by signal {-status}"
    return "" if status == 0 else f"exit status {status}"


# --- in the launcher itself


class DebugExecutor:
    """Steps one after the other in the launcher, for a debugger: `submit` returns when all is done.
    Errors come through as they are, with breakpoints and tracebacks where they belong.
    """

    name = "debug"

    def __init__(self, task: StepTaskClass = StepTask, is_quiet: bool = False) -> None:
        """`is_quiet`: what a step prints goes to its log, not to the terminal."""
        self._task, self._is_quiet = task, is_quiet
        self._ended: dict[str, int] = {}
        self._watch = LauncherWatch()

    def submit(self, groups: Sequence[StepGroup]) -> None:
        for group in groups:
            for step in group.steps:
                step.write_job(process_job(self.name, step, Holder.here()))
                with ExitStack() as stack:
                    if self._is_quiet:
                        log = stack.enter_context((step.path / "log.txt").open("a"))
                        stack.enter_context(redirect_stderr(log))
                    self._ended[step.id] = int(self._task(str(step.path))() or 0)

    def states(self, steps: Sequence[StepFolder]) -> dict[str, JobState]:
        return {step.id: self._state(step) for step in steps}

    def recover(self, steps: Sequence[StepFolder]) -> list[StepFolder]:
        """None of these was begun."""
        return list(steps)

    def cancel(self, steps: Sequence[StepFolder]) -> None:
        jobs = ", ".join(dict.fromkeys(step.job.id for step in steps if step.job is not None))
        raise UsageError(f"a step of --on debug ends with its launcher: Ctrl-C in process {jobs}.")

    def close(self) -> None:
        """Nothing is left running."""

    def _state(self, step: StepFolder) -> JobState:
        if step.id in self._ended:
            status = self._ended[step.id]
            return JobState("gone", f"exit status {status}" if status else "")
        job = step.job
        if job is not None and job.facts["holder"] == asdict(Holder.here()):
            return JobState("gone")  # an earlier launch of this process: `submit` has returned
        return self._watch.state(step)
