"""Slurm (sbatch, squeue, scontrol): how does fieldmark talk to a cluster, whatever its jobs do?

First the table `[slurm]` of the files people write, then the commands, whose answers become rows or
errors. What a job does, and how it resumes after a requeue, is not known here: see
`experiments/cluster/worker.py` for steps of an experiment, `build/train/run.py` for a
training. Only sbatch, squeue, scancel and scontrol are called: sacct needs a database that many
clusters do not have.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from fieldmark.errors import FieldmarkError, RunsFailed, UsageError

_CLOCK = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT])(?:i?B)?", re.IGNORECASE)
_WORD = re.compile(r"[^\s'\"\\]*")


def minutes_of(value: object) -> int:
    """Minutes of a number or of Slurm's `HH:MM:SS`, `D-HH:MM:SS`, `D-HH`; parts of one count full.

    >>> minutes_of("1-02:30:00"), minutes_of("00:10:01"), minutes_of(90)
    (1590, 11, 90)
    """
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    if isinstance(value, datetime.time):  # TOML has times of the day: 04:00:00 without quotes
        value = value.isoformat("seconds")
    match = _CLOCK.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is not None:
        days, *parts = (int(part) if part else 0 for part in match.groups())
        if match[1] is not None or match[4] is not None:  # hours come first
            seconds = days * 86400 + parts[0] * 3600 + parts[1] * 60 + parts[2]
        else:  # MM or MM:SS
            seconds = parts[0] * 60 + parts[1]
        if seconds > 0:
            return -(-seconds // 60)
    raise ValueError(f"{value!r} is not a time: expected minutes, as 90, or a text as '01:30:00'")


def bytes_of(value: str) -> int:
    """
    >>> bytes_of("1.5G")
    1610612736
    """
    match = _MEMORY.fullmatch(value.strip())
    if match is None or not float(match[1]):
        raise ValueError(f"{value!r} is not an amount of memory: expected text as '32G' or '900M'")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def _memory(value: str) -> str:
    if value:
        bytes_of(value)
    return value


def _word(value: str) -> str:
    if not _WORD.fullmatch(value):
        raise ValueError(f"{value!r} has spaces or quotes in it, which Slurm does not allow")
    return value


def _gpus(value: int | str) -> int | str:
    if isinstance(value, str) and not re.fullmatch(r"(?:[\w.-]+:)?\d+", value):
        raise ValueError(f"{value!r} is not a number of GPUs: expected 1, or a text as 'a100:1'")
    if isinstance(value, int) and value < 0:
        raise ValueError(f"{value} is not a number of GPUs: expected 0 or more")
    return value


def _environment(value: dict[str, str]) -> dict[str, str]:
    for name in value:
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise ValueError(f"{name!r} is not a name of an environment variable")
    return value


def _setup(value: object) -> object:
    return value.splitlines() if isinstance(value, str) else value


Word = Annotated[str, AfterValidator(_word)]
SignalDelay = Annotated[int, Field(ge=1, le=3600)]


class JobOptions(BaseModel):
    """What any job is submitted with. What is left out, the cluster decides."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    account: Word = ""
    partition: Word = ""
    qos: Word = ""
    constraint: str = ""
    time: Annotated[int, BeforeValidator(minutes_of)] | None = None
    """minutes, or "HH:MM:SS": no job asks for more; one that needs more goes on in a next one"""
    gpus: Annotated[int | str, AfterValidator(_gpus)] = 0
    """of a job that runs a network, on each node; "a100:1" asks for a type"""
    cpus: Annotated[int, Field(ge=0)] = 0
    """of a process; 0 = as fieldmark sees fit"""
    memory: Annotated[str, AfterValidator(_memory)] = ""
    """of a node, as "32G"; empty = as fieldmark sees fit"""
    setup: Annotated[tuple[str, ...], BeforeValidator(_setup)] = ()
    """lines of shell before the work starts, as "module load cuda" """
    environment: Annotated[dict[str, str], AfterValidator(_environment)] = {}
    """variables that are set before these lines"""
    signal_delay: SignalDelay = 90
    """seconds before the end of its time at which a job is told, and put back into the queue"""

    @property
    def n_gpus(self) -> int:
        return int(str(self.gpus).rpartition(":")[2])

    @property
    def exports(self) -> list[str]:
        """Lines of shell that set the variables."""
        return [f"export {name}={shlex.quote(v)}" for name, v in self.environment.items()]

    def notice_s(self, minutes: int | None) -> int:
        """Seconds before the end at which a job of so many minutes is told."""
        return min(self.signal_delay, 15 * minutes) if minutes else self.signal_delay


class SlurmOptions(JobOptions):
    """What every job of an experiment is submitted with."""

    cpu_partition: Word = ""
    """of jobs without a GPU, where that is another one"""
    array_parallelism: Annotated[int, Field(ge=1)] = 256
    """jobs of one array that run at once, at most"""

    @property
    def time_s(self) -> float:
        """0 = no limit is known."""
        return 60.0 * (self.time or 0)

    @property
    def memory_bytes(self) -> int:
        """0 = as past runs needed."""
        return bytes_of(self.memory) if self.memory else 0


# --- Slurm's commands (squeue, sbatch, scontrol): what do they answer, and what if they do not?
#
# https://slurm.schedmd.com/squeue.html


PATIENCE_S = 60.0
"""for an answer of Slurm"""
_PENDING = {"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT"}
_GONE = {
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
    "PREEMPTED", "REVOKED", "TIMEOUT",
}  # fmt: skip
_DOWN = (
    "unable to contact", "configuration source", "timed out", "connection refused",
    "connect failure",
)  # fmt: skip
_OURS = ("ARRAY_INX", "JOB_NAME", "NO_REQUEUE", "OPEN_MODE", "REQUEUE", "SIGNAL", "TIMELIMIT")
"""of sbatch's variables those that would override what a script of ours must say"""


@dataclass(frozen=True, slots=True)
class QueueRow:
    """How one job, or one task of an array, stands."""

    id: str
    name: str
    state: Literal["pending", "running", "gone"]
    reason: str
    """why it waits, how it ended or where it runs"""


def queue(*which: str) -> list[QueueRow]:
    """What squeue lists, one row for every task of an array."""
    rows = []
    for line in call("squeue", "-h", "-r", "-o", "%i|%T|%j|%N|%r", *which).splitlines():
        job_id, state, name, nodes, reason = line.split("|", 4)
        reason = "" if reason == "None" else reason
        if state in _PENDING:
            row = QueueRow(job_id.strip(), name, "pending", reason)
        elif state in _GONE:
            row = QueueRow(job_id.strip(), name, "gone", state.replace("_", " ").lower())
        else:
            where = nodes if state == "RUNNING" else state.lower()
            row = QueueRow(job_id.strip(), name, "running", where)
        rows.append(row)
    return rows


def read_config() -> dict[str, str]:
    """What the cluster is set up as."""
    pairs = (line.partition("=") for line in call("scontrol", "show", "config").splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def call(*command: str) -> str:
    """What a command of Slurm prints. RunsFailed where Slurm does not answer.

    What the user set for squeue and scancel (`SQUEUE_PARTITION` …) would hide living jobs from us.
    """
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SQUEUE_", "SCANCEL_"))}
    try:
        answer = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
            env=environment,
        )
    except subprocess.TimeoutExpired as error:
        raise refused(command[0], f"timed out after {PATIENCE_S:.0f} s") from error
    except OSError as error:
        raise RunsFailed(f"{command[0]} cannot be started: {error.strerror}.") from error
    if answer.returncode:
        if command[0] == "squeue":  # what it is asked is never wrong
            raise _silent(command[0], answer.stderr)
        raise refused(command[0], answer.stderr)
    return answer.stdout


def refused(command: str, text: str) -> FieldmarkError:
    """Of what a command of Slurm complains about, the error to be shown."""
    if any(word in text.lower() for word in _DOWN):
        return _silent(command, text)
    return UsageError(f"Slurm refused ({command}: {_gist(text)}): look at the table [slurm].")


def _silent(command: str, text: str) -> RunsFailed:
    return RunsFailed(
        f"Slurm does not answer ({command}: {_gist(text)}): run the same command again later."
    )


def _gist(text: str) -> str:
    lines = [
        line.rpartition("error: ")[2].strip(" .") for line in text.splitlines() if line.strip()
    ]
    return "; ".join(dict.fromkeys(lines)) or "no reason given"


def require_commands(instead: str) -> None:
    """UsageError where this machine belongs to no cluster; `instead` is what to do then."""
    missing = [name for name in ("sbatch", "squeue", "scontrol") if shutil.which(name) is None]
    if missing:
        raise UsageError(
            f"--on slurm needs {' and '.join(missing)}, not found here: run on a login node of the "
            f"cluster, or {instead}."
        )


@contextlib.contextmanager
def outside_of_jobs(options: JobOptions) -> Iterator[None]:
    """Hides what the launcher's own job, if it runs in one, would hand on to the new ones."""
    given = ("account", "partition", "qos", "constraint")
    ours = {f"SBATCH_{name}" for name in _OURS}
    ours |= {f"SBATCH_{name.upper()}" for name in given if getattr(options, name)}
    prefixes = ("SLURM_", "SLURMD_", "SRUN_", "SUBMITIT_")
    names = [n for n in os.environ if n in ours or (n.startswith(prefixes) and n != "SLURM_CONF")]
    hidden = {name: os.environ.pop(name) for name in names}
    try:
        yield
    finally:
        os.environ.update(hidden)
