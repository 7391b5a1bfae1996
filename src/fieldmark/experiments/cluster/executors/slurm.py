"""Slurm (sbatch job arrays through submitit): how do steps become jobs, and how do these stand?

submitit writes the script, starts the worker on the node, and at the end of a job's time puts it
back into the queue, where `cluster/worker.py` resumes it. Three things are done otherwise than by
`executor.batch()`. What the worker unpickles is there before sbatch is called, so that a launcher
that dies right after it leaves jobs that work. A task of an array that waits for one other has the
number of that one, which is what `--dependency=aftercorr` asks for. And `exec` makes the worker the
batch script's process, to which `--signal=B:` goes: without srun no other gets it, and none of the
worker's own helpers should.
https://slurm.schedmd.com/job_array.html
"""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import shlex
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fieldmark.errors import MissingExtra, RunsFailed, UsageError
from fieldmark.experiments.cluster.executors import JobState, StepGroup, StepTaskClass
from fieldmark.experiments.cluster.job_folder import JobRecord, StepFolder, short_id
from fieldmark.experiments.cluster.steps import StepRequest
from fieldmark.experiments.cluster.worker import StepTask
from fieldmark.slurm import (
    SlurmOptions,
    call,
    outside_of_jobs,
    queue,
    read_config,
    refused,
    require_commands,
)

MOST_TIMEOUTS = 10_000
"""how often a job is put back at the end of its time: a step ends when its work is done, and one
that makes no progress ends itself"""
DEFAULT_LONGEST = 1001
"""Slurm's MaxArraySize where a cluster sets none"""


class ArrayTask:
    """What every task of an array unpickles: of all its steps it does the one of its number."""

    def __init__(self, tasks: Mapping[int, Any]) -> None:
        self.tasks = tasks

    def __call__(self) -> None:
        status = self._own()
        if status:
            sys.exit(status)

    def checkpoint(self) -> Any:
        """What the task is when its job was put back into the queue; one that is given up ends
        the process, since an exception would count as that of a run.
        """
        return self._own.checkpoint() or sys.exit(1)

    @property
    def _own(self) -> Any:
        return self.tasks[int(os.environ["SLURM_ARRAY_TASK_ID"])]


@dataclass(frozen=True, slots=True)
class _JobArray:
    """The steps of one call of sbatch, by their number."""

    steps: Mapping[int, StepFolder]
    request: StepRequest
    dependency: str


class SlurmExecutor:
    """Workers are jobs of the cluster this machine belongs to."""

    name = "slurm"

    def __init__(self, options: SlurmOptions, task: StepTaskClass = StepTask) -> None:
        self.options, self._task = options, task
        self._jobs: dict[str, JobRecord] = {}

    def submit(self, groups: Sequence[StepGroup]) -> None:
        for folder in {_arrays_folder(group.steps[0]) for group in groups}:
            if any(mark in str(folder) for mark in ("%A", "%a", "%j", "%t")):
                raise UsageError(
                    f"{folder}  contains %A, %a, %j or %t, which Slurm replaces by numbers: choose "
                    "another --results."
                )
        _require_slurm()
        if groups:
            # Removes folders of arrays where no step of their launch is in the job folder any more.
            arrays = _arrays_folder(groups[0].steps[0])
            tags = {StepFolder(path).tag for path in (arrays.parent / "steps").iterdir()}
            for path in arrays.iterdir() if arrays.is_dir() else ():
                if path.name.split("-")[1] not in tags:
                    shutil.rmtree(path, ignore_errors=True)
        for group in groups:
            for array in self._arrays(group):
                self._submit(array)

    def states(self, steps: Sequence[StepFolder]) -> dict[str, JobState]:
        jobs = {step.id: job for step in steps if (job := self._job(step)) is not None}
        states = {step.id: JobState("gone", "never submitted") for step in steps}
        try:
            clusters = {job.facts.get("cluster", "") for job in jobs.values()} - {self._cluster}
            users = {str(job.facts.get("user", os.getuid())) for job in jobs.values()}
            rows = queue("--states=all", f"--user={','.join(sorted(users))}") if jobs else []
        except RunsFailed as error:
            return states | dict.fromkeys(jobs, JobState("unknown", str(error)))
        by_job = {(row.id, row.name): JobState(row.state, row.reason) for row in rows}
        for name, job in jobs.items():
            state = by_job.get((job.id, job.name), JobState("gone"))
            if job.facts.get("cluster", "") in clusters:
                state = JobState("unknown", f"a job of the cluster {job.facts['cluster']}")
            if state.state == "gone":
                del self._jobs[name]
            states[name] = state
        return states

    def recover(self, steps: Sequence[StepFolder]) -> list[StepFolder]:
        if not steps:
            return []
        _require_slurm()
        unknown = {step.id: step for step in steps}
        sent = {tuple(intent): step for step in steps if (intent := step.intent) is not None}
        names = sorted({name for name, _ in sent})
        for row in queue(f"--name={','.join(names)}") if names else []:
            job_id, _, number = row.id.partition("_")
            step = sent.get((row.name, int(number or -1)))
            if step is not None and row.state != "gone":
                self._write_job(step, job_id, int(number), row.name)
                unknown.pop(step.id, None)
        return list(unknown.values())

    def cancel(self, steps: Sequence[StepFolder]) -> None:
        ids = [job.id for step in steps if (job := step.job) is not None]
        for start in range(0, len(ids), 500):
            with contextlib.suppress(UsageError):  # one that has ended is no mistake
                call("scancel", "--quiet", *ids[start : start + 500])

    def close(self) -> None:
        """Jobs need no launcher."""

    @property
    def _cluster(self) -> str:
        return self._config.get("ClusterName", "")

    @cached_property
    def _config(self) -> dict[str, str]:
        return read_config()

    @property
    def longest(self) -> int:
        """How many tasks an array may have; Slurm's own default where no Slurm answers."""
        try:
            return self._longest
        except (RunsFailed, UsageError):
            return DEFAULT_LONGEST

    @cached_property
    def _longest(self) -> int:
        """How many tasks an array may have; their numbers are below that."""
        size = self._config.get("MaxArraySize", "")
        longest = int(size) if size.isdecimal() else DEFAULT_LONGEST
        if longest < 1:
            raise UsageError("this Slurm has no job arrays (MaxArraySize is 0): use --on local.")
        return longest

    def _arrays(self, group: StepGroup) -> Iterator[_JobArray]:
        """A group as calls of sbatch; jobs of the steps it waits for are submitted by now."""
        after = [(other, job) for other in group.after if (job := other.job) is not None]
        after = [(other, job) for other, job in after if not other.is_finished]
        if group.is_pairwise and len(after) == len(group.steps):
            by_array: dict[str, dict[int, StepFolder]] = defaultdict(dict)
            for step, (_, job) in zip(group.steps, after, strict=True):
                job_id, _, number = job.id.partition("_")
                by_array[job_id][int(number)] = step
            for job_id, steps in by_array.items():
                yield _JobArray(steps, group.request, f"aftercorr:{job_id}")
            return
        alive = self.states([other for other, _ in after])
        ids = [job.id for other, job in after if alive[other.id].is_alive]
        dependency = f"afterany:{':'.join(ids)}" if ids else ""
        for start in range(0, len(group.steps), self._longest):
            part = group.steps[start : start + self._longest]
            yield _JobArray(dict(enumerate(part)), group.request, dependency)

    def _submit(self, array: _JobArray) -> None:
        import submitit
        from submitit.helpers import DelayedSubmission

        lowest = array.steps[min(array.steps)]
        name = f"fm-{short_id(lowest.id)}-{secrets.token_hex(2)}"
        folder = _arrays_folder(lowest) / name
        parameters = self._parameters(name, folder, array)
        task = ArrayTask({number: self._task(str(s.path)) for number, s in array.steps.items()})
        delayed = DelayedSubmission(task)
        delayed.set_timeout(parameters["time"], MOST_TIMEOUTS)
        folder.mkdir(parents=True)
        delayed.dump(folder / "task.pkl")
        for number, step in array.steps.items():
            step.note("intent", [name, number])  # `recover` looks for it
        executor = submitit.SlurmExecutor(
            folder, max_num_timeout=MOST_TIMEOUTS, python=f"exec {shlex.quote(sys.executable)} -P"
        )
        executor.update_parameters(**parameters)
        with outside_of_jobs(self.options):
            try:
                job_id = executor.submit(task).job_id
            except (RuntimeError, OSError) as error:
                raise refused("sbatch", str(error)) from error
        for number, step in array.steps.items():
            self._write_job(step, job_id, number, name)

    def _write_job(self, step: StepFolder, job_id: str, number: int, name: str) -> None:
        log = _arrays_folder(step) / name / f"{job_id}_{number}_log.txt"
        about = {"cluster": self._cluster, "user": os.getuid()}
        job = JobRecord(self.name, f"{job_id}_{number}", name, str(log), about)
        step.write_job(job)
        self._jobs[step.id] = job

    def _job(self, step: StepFolder) -> JobRecord | None:
        """Remembered while the job lives: thousands of steps are looked at every few seconds."""
        if (
            step.id not in self._jobs
            and (job := step.job) is not None
            and job.executor == self.name
        ):
            self._jobs[step.id] = job
        return self._jobs.get(step.id)

    def _parameters(self, name: str, folder: Path, array: _JobArray) -> dict[str, Any]:
        """What submitit is told about an array of jobs."""
        from submitit.slurm.slurm import SlurmJobEnvironment

        options, request = self.options, asked(array.request, self.options)
        minutes, memory = round(request.seconds / 60), request.memory_bytes
        partition = options.partition
        if not request.gpus and options.cpu_partition:
            partition = options.cpu_partition
        numbers = f"{_ranges(array.steps)}%{options.array_parallelism}"
        others = {
            "array": numbers,
            "requeue": True,
            "signal": f"B:{SlurmJobEnvironment.USR_SIG}@{options.notice_s(minutes)}",
            "output": f"{str(folder).replace('%', '%%')}/%A_%a_log.txt",
        }
        if array.dependency:
            others |= {"dependency": array.dependency, "kill-on-invalid-dep": "yes"}
        return {
            "job_name": name,
            "comment": f"fieldmark {folder.parents[2]}",
            "time": minutes,
            "nodes": 1,
            "ntasks_per_node": 1,
            "cpus_per_task": request.cpus,
            "gpus_per_node": (options.gpus or request.gpus) if request.gpus else None,
            "mem": f"{math.ceil(memory / (1 << 20))}M" if memory else None,
            "account": options.account or None,
            "partition": partition or None,
            "qos": options.qos or None,
            "constraint": options.constraint or None,
            "setup": _setup_lines(folder, options),
            "stderr_to_stdout": True,
            "use_srun": False,
            "wckey": None,
            "additional_parameters": others,
        }


def asked(request: StepRequest, options: SlurmOptions) -> StepRequest:
    """What a job asks Slurm for: whole minutes, and what [slurm] sets."""
    minutes = max(1, math.ceil(request.seconds / 60))
    return StepRequest(
        60.0 * min(minutes, options.time or minutes),
        options.memory_bytes or request.memory_bytes,
        options.cpus or max(1, request.cpus),
        request.gpus,
    )


def _setup_lines(folder: Path, options: SlurmOptions) -> list[str]:
    """Before the worker starts. submitit looks for its pickle under the name of the job."""
    pickle = shlex.quote(str(folder / "task.pkl"))
    task_path = f"{shlex.quote(str(folder))}/${{SLURM_ARRAY_JOB_ID}}_${{SLURM_ARRAY_TASK_ID}}"
    link = f"[ -e {task_path}_submitted.pkl ] || ln -sf {pickle} {task_path}_submitted.pkl"
    return [link, f"rm -f {task_path}_submitted.pkl.save_tmp", *options.exports, *options.setup]


def _require_slurm() -> None:
    import importlib.util

    if importlib.util.find_spec("submitit") is None:
        raise MissingExtra("--on slurm", "slurm", "submitit")
    require_commands("use --on local")


def _arrays_folder(step: StepFolder) -> Path:
    """Beside the steps: a folder for every array, with script, pickle and logs."""
    return step.path.parent.parent / "slurm"


def _ranges(numbers: Iterable[int]) -> str:
    """
    >>> _ranges([0, 1, 2, 5, 7, 8])
    '0-2,5,7-8'
    """
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
