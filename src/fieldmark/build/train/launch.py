"""Launcher of a training (sbatch): submitted once, however often the command is given.

`OUT/slurm` holds the script, the recipe as it was when the job was submitted, the logs, and
`job.json` with the job's name, which is written before sbatch is called: a launcher that dies right
after it has left a job that the next one finds. Of two launchers at a time one submits, under a
lease. What the job does on its nodes is in `job.sh`. Nothing here imports torch.
"""

from __future__ import annotations

import json
import math
import re
import secrets
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fieldmark.build.shards import find_shards
from fieldmark.build.train.recipe import (
    SlurmRecipe,
    TrainRecipe,
    load_recipe,
    recipe_toml,
    refuse_other,
)
from fieldmark.build.train.record.log import FINISHED, STATE, read_rows
from fieldmark.errors import ClaimLost, UsageError
from fieldmark.files import small_json, write_file
from fieldmark.leases import LeaseFolder
from fieldmark.slurm import (
    QueueRow,
    bytes_of,
    call,
    outside_of_jobs,
    queue,
    read_config,
    require_commands,
)

PATIENCE_S = 90.0
"""for another launcher; one that is gone loses its lease before"""


@dataclass(frozen=True, slots=True)
class TrainStanding:
    """How a training on a cluster stands."""

    state: Literal["submitted", "pending", "running", "finished"]
    job: str = ""
    reason: str = ""
    """why it waits, where it runs; of one that was submitted, what became of the job before"""
    log: Path | None = None
    step: int = 0
    n_steps: int = 0
    """0 = not known yet"""
    loss: float | None = None


def launch(recipe: TrainRecipe, out: Path, flags: Sequence[str]) -> TrainStanding:
    """Submits the training, or goes on with it, unless it is queued, running or finished.

    `flags` are those of `fieldmark train` that say where files are and what to compute on.
    """
    require_commands("train here, without --on slurm")
    _check(recipe, out)
    out = out.absolute()
    folder = out / "slurm"  # one launcher at a time, on all machines that see it
    with LeaseFolder(folder) as leases, leases.turn("launch", _only_for(PATIENCE_S, folder)):
        job = small_json(out / "slurm" / "job.json")
        row = _row(job, out)
        if row is not None and row.state != "gone":
            if _text(out / "slurm" / "recipe.toml") != recipe_toml(recipe):
                raise UsageError(
                    f"{out}  is being trained by job {row.id} with another recipe: wait for it, "
                    f"end it (`scancel {row.id}`), or give another --out."
                )
            return _standing(out, row.state, row.id, row.reason)
        is_finished = small_json(out / STATE).get("state") == FINISHED
        if is_finished and _text(out / "recipe.toml") == recipe_toml(recipe):
            return _standing(out, "finished", str(job.get("id", "")))
        before = f"job {job['id'] or job['name']} is gone" if job else ""
        before += f" ({row.reason})" if row is not None else ""
        return _standing(out, "submitted", _submit(recipe, out, flags), before)


def _check(recipe: TrainRecipe, out: Path) -> None:
    """What can be known to be wrong before a job has waited for hours."""
    recipe.check_shares(recipe.slurm.n_processes)
    find_shards(recipe.data.shards)
    if recipe.data.replay_share:
        find_shards(recipe.data.replay_shards)
    if any((out / "checkpoints").glob("step-*.json")):
        try:
            before = load_recipe(out / "recipe.toml")
        except UsageError:  # of another version: the job will say
            return
        refuse_other(out, before.facts(), recipe.facts())


def _only_for(seconds: float, folder: Path) -> Callable[[str], None]:
    """Waits for another launcher that long."""
    end = time.monotonic() + seconds

    def wait(launcher: str) -> None:
        if time.monotonic() > end:
            raise ClaimLost(
                f"{folder}  is in use: {launcher} is submitting the same training. Run the same "
                "command again later."
            )

    return wait


def _row(job: dict[str, Any], out: Path) -> QueueRow | None:
    """What Slurm knows of a job; None where it knows nothing any more."""
    if not job:
        return None
    cluster = read_config().get("ClusterName", "")
    if job.get("cluster", "") != cluster:
        raise UsageError(
            f"{out}  was submitted on the cluster {job.get('cluster')}, but this is {cluster}: run "
            "the command there. Once that job has ended, you can remove slurm/job.json instead."
        )
    rows = queue("--states=all", f"--name={job['name']}")
    return rows[-1] if rows else None


def _submit(recipe: TrainRecipe, out: Path, flags: Sequence[str]) -> str:
    """The number of the job."""
    folder = out / "slurm"
    slug = re.sub(r"\W+", "-", out.name)
    name = f"fm-train-{slug}-{secrets.token_hex(2)}"
    command = [sys.executable, "-P", "-m", "fieldmark", "train", str(folder / "recipe.toml")]
    command += ["--out", str(out), *flags]
    job = {"name": name, "cluster": read_config().get("ClusterName", ""), "id": ""}
    write_file(folder / "recipe.toml", recipe_toml(recipe).encode())
    write_file(folder / "job.sh", make_script(recipe.slurm, name, out, command).encode())
    write_file(folder / "job.json", json.dumps(job).encode())
    with outside_of_jobs(recipe.slurm):
        answer = call("sbatch", "--parsable", str(folder / "job.sh"))
    job["id"] = answer.strip().partition(";")[0]
    write_file(folder / "job.json", json.dumps(job).encode())
    return job["id"]


def _standing(out: Path, state: Any, job_id: str, reason: str = "") -> TrainStanding:
    rows = read_rows(out / "log.jsonl")
    last = rows[-1] if rows else {}
    return TrainStanding(
        state=state,
        job=job_id,
        reason=reason,
        log=log_path(out, job_id) if job_id else None,
        step=last.get("step", 0),
        n_steps=small_json(out / STATE).get("n_steps", 0),
        loss=last.get("loss"),
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


# --- the script
# Its head is written here, from [slurm] of the recipe; what follows is job.sh as it stands. One
# process per GPU by srun, with the variables that torchrun sets. https://slurm.schedmd.com/sbatch.html


CPUS_WITH_GPU, CPUS_WITHOUT = 8, 4
"""of a process, where [slurm] says nothing"""
_BODY = Path(__file__).with_name("job.sh")


def make_script(options: SlurmRecipe, name: str, out: Path, command: Sequence[str]) -> str:
    """The whole text. `command` is that of every process, `out` the folder of the run."""
    log = str(log_path(out, "%j")).replace("%", "%%").replace("%%j", "%j")
    sbatch = {
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
    lines = [f"#SBATCH --{key}={shlex.quote(str(value))}" for key, value in sbatch.items() if value]
    head = ["#!/bin/bash", *lines, "#SBATCH --requeue", "", *options.exports, *options.setup]
    variables = [f"out={shlex.quote(str(out))}", f"train=({shlex.join(command)})", ""]
    return "\n".join([*head, *variables, _BODY.read_text(encoding="utf-8")])


def log_path(out: Path, job_id: str) -> Path:
    """What all processes print, over all times that the job was put back."""
    return out / "slurm" / f"{job_id}.log"
