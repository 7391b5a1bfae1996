"""Many small runs through Slurm: what does fieldmark cost beyond Slurm itself?

    python benchmarks/cluster.py [--runs 2000] [--quick]    as root, with slurm-wlm and munge

Starts a Slurm of one node (`.ci/slurm`), makes a small dataset, and does the same grid of runs

    here      `fieldmark run`: one process (half of the runs, counted twice)
    slurm     `fieldmark run --on slurm`: steps, arrays, shards, merged into one store
    empty     `sbatch --array` of as many tasks as there were steps, each doing nothing

Overhead of a run: (slurm − empty − here ÷ processes that Slurm ran at once) ÷ runs, and the
launcher's own CPU time ÷ runs. Its memory is measured for half of the runs too: it must not grow
with what is merged. Both tables must be equal.

Bars: 50 ms a run, memory for all runs at most 1.25 times that for half of them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from _quick import Flags, finish, skip

SLURM = Path(__file__).parents[1] / ".ci" / "slurm"
GRID = """
models = ["classical/colour"]
tasks = ["beluga"]
n_train = [-1, 20]
seed = [{seeds}]
[slurm]
cpus = 1
memory = "700M"
time = 30
"""


class Took(NamedTuple):
    seconds: float
    cpu_s: float
    peak_bytes: int


def timed(*words: str, folder: Path) -> Took:
    """A fieldmark command in a process of its own."""
    began = time.perf_counter()
    child = subprocess.Popen(
        [sys.executable, "-m", "fieldmark", *words],
        cwd=folder,
        stdout=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(child.pid, 0)
    assert status == 0, f"{' '.join(words)}: exit {os.waitstatus_to_exitcode(status)}"
    seconds = time.perf_counter() - began
    return Took(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


def table(folder: Path, results: str) -> list[Any]:
    words = [sys.executable, "-m", "fieldmark", "runs", "ls", "--results", results, "--json"]
    rows = json.loads(subprocess.run(words, cwd=folder, capture_output=True, check=True).stdout)
    return sorted((row["key"], row["state"], row["n_items"], row["n_ok"]) for row in rows)


def empty_jobs(folder: Path, n: int) -> float:
    """Seconds that Slurm takes for n tasks that do nothing, as our arrays are cut."""
    config = subprocess.run(["scontrol", "show", "config"], capture_output=True, text=True).stdout
    most = int(next(line.split("=")[1] for line in config.splitlines() if "MaxArraySize" in line))
    began = time.perf_counter()
    jobs = []
    for start in range(0, n, most - 1):
        size = min(most - 1, n - start)
        words = ["sbatch", "--parsable", f"--array=0-{size - 1}", "--mem=100", "-o", "/dev/null"]
        answer = subprocess.run(
            [*words, "--wrap", "true"], cwd=folder, capture_output=True, text=True, check=True
        )
        jobs.append(answer.stdout.strip())
    while subprocess.run(["squeue", "-h"], capture_output=True, text=True).stdout.strip():
        time.sleep(0.2)
    return time.perf_counter() - began


def write_grid(folder: Path, n: int) -> str:
    name = f"grid-{n}.toml"
    (folder / name).write_text(GRID.format(seeds=", ".join(map(str, range(n // 2)))))
    return name


def measure(folder: Path, n: int, is_quick: bool) -> int:
    timed("data", "make", "beluga", "--size", "120", folder=folder)
    half, whole = write_grid(folder, n // 2), write_grid(folder, n)
    run = partial(timed, "run", "--quiet", folder=folder)
    here = run(half, "--results", "here", "--cache", "cache-here", "--on", "here")
    print(f"{n // 2:,} runs here: {here.seconds:.1f} s", flush=True)
    first = run(half, "--results", "half", "--cache", "cache-half")
    slurm = run(whole, "--results", "slurm", "--cache", "cache-slurm")
    n_steps = len(list((folder / "slurm" / "cluster" / "steps").iterdir()))
    empty = empty_jobs(folder, n_steps)
    cpus = os.cpu_count() or 1
    beyond = (slurm.seconds - empty - 2 * here.seconds / cpus) / n
    growth = slurm.peak_bytes / first.peak_bytes
    print(f"on Slurm: {slurm.seconds:.1f} s in {n_steps} steps; as many empty jobs: {empty:.1f} s")
    print(f"launcher: {1000 * slurm.cpu_s / n:.1f} ms of CPU a run")
    print(f"its memory: {slurm.peak_bytes / 2**20:.0f} MiB, {growth:.2f} x that of half the runs")
    assert table(folder, "here") == table(folder, "half"), "other runs in the two stores"
    figure = (
        f"cluster: {1000 * beyond:.1f} ms a run beyond Slurm's own, the same runs in both stores"
    )
    bars = {"≤ 50 ms a run": beyond <= 0.05, "≤ 1.25 x memory": growth <= 1.25}
    return finish(figure, bars, is_quick)


def main() -> int:
    flags = Flags(__doc__)
    flags.add_argument("--runs", type=int, default=2000)
    given = flags.parse(runs=8)
    if os.getuid() or not shutil.which("sbatch"):
        return skip("needs root, slurm-wlm and munge (`.ci/slurm install`)")
    folder = Path(tempfile.mkdtemp(prefix="fieldmark-", dir="/tmp"))
    cluster = Path(tempfile.mkdtemp(prefix="fieldmark-slurm-", dir="/tmp"))
    try:
        subprocess.run([SLURM, "start", cluster], check=True, stdout=subprocess.DEVNULL)
        os.environ["SLURM_CONF"] = str(cluster / "slurm.conf")
        return measure(folder, given.runs, given.quick)
    finally:
        subprocess.run([SLURM, "stop", cluster], check=False)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(cluster, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
