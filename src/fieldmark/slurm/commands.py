"""Slurm's commands (squeue, sbatch, scontrol): what do they answer, and what if they do not?

https://slurm.schedmd.com/squeue.html
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from fieldmark.errors import FieldmarkError, RunsFailed, UsageError
from fieldmark.slurm.options import JobOptions

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
    own = {k: v for k, v in os.environ.items() if not k.startswith(("SQUEUE_", "SCANCEL_"))}
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=own
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
        f"Slurm does not answer ({command}: {_gist(text)}): give the same command again later."
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
