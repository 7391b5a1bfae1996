"""Batch script (sbatch) of a training: what does the job ask for, and what runs in it?

The head is written here, from [slurm] of the recipe; what follows is job.sh as it stands. One
process per GPU by srun, with the variables that torchrun sets. https://slurm.schedmd.com/sbatch.html
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from pathlib import Path

from fieldmark.build.train.recipe import SlurmRecipe
from fieldmark.slurm.options import bytes_of

CPUS_WITH_GPU, CPUS_WITHOUT = 8, 4
"""of a process, where [slurm] says nothing"""
_BODY = Path(__file__).with_name("job.sh")


def make_script(options: SlurmRecipe, name: str, out: Path, command: Sequence[str]) -> str:
    """The whole text. `command` is that of every process, `out` the folder of the run."""
    log = str(log_path(out, "%j")).replace("%", "%%").replace("%%j", "%j")
    asked = {
        "job-name": name,
        "comment": f"fieldmark train {out}",
        "account": options.account,
        "partition": options.partition,
        "qos": options.qos,
        "constraint": options.constraint,
        "nodes": options.nodes,
        "ntasks-per-node": options.n_local,
        "cpus-per-task": options.cpus or (CPUS_WITH_GPU if options.n_gpus else CPUS_WITHOUT),
        "gpus-per-node": options.gpus if options.n_gpus else "",
        "mem": f"{math.ceil(bytes_of(options.memory) / (1 << 20))}M" if options.memory else "",
        "time": options.time or "",
        "signal": f"B:USR1@{options.notice_s(options.time)}",
        "open-mode": "append",
        "output": log,
        "chdir": Path.cwd(),
    }
    lines = [f"#SBATCH --{key}={shlex.quote(str(value))}" for key, value in asked.items() if value]
    head = ["#!/bin/bash", *lines, "#SBATCH --requeue", "", *options.exports, *options.setup]
    own = [f"out={shlex.quote(str(out))}", f"train=({shlex.join(command)})", ""]
    return "\n".join([*head, *own, _BODY.read_text(encoding="utf-8")])


def log_path(out: Path, job_id: str) -> Path:
    """What all processes print, over all times that the job was put back."""
    return out / "slurm" / f"{job_id}.log"
