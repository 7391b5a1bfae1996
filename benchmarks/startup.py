"""How much CPU does a command cost before it does anything?

    python benchmarks/startup.py [--quick]

CPU time (user + system), the median of several runs. Each of the six commands that people wait for
has a bar; the --help of every other command has that of `run --help`. Beside them stands
`python -c "import argparse"`: what any Python command costs on the same machine in the same run.
Bytecode is kept between the runs, as on any ordinary machine; a first run is not counted.
The finished run and the table are those of NeWT's 164 questions on synthetic photos.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from _quick import Flags, finish
from fieldmark.cli import commands

RUN = ["run", "--model", "classical/colour", "--task", "newt@simpleshot", "--quiet"]
BARS_S = {
    "--help": 0.1,
    "run --help": 0.3,
    "tasks": 0.25,
    "models": 0.25,
    "table": 0.5,
    " ".join(RUN): 0.8,
}
HELP_S = 0.3
QUICK = ("--help", "tasks", "table", " ".join(RUN))
REPEATS = 7


def cpu_s(words: list[str], folder: Path, environment: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, check=True, capture_output=True, cwd=folder, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def median_cpu_s(
    words: list[str], folder: Path, environment: dict[str, str], n_repeats: int
) -> float:
    cpu_s(words, folder, environment)
    return statistics.median(cpu_s(words, folder, environment) for _ in range(n_repeats))


def main() -> int:
    given = Flags(__doc__).parse()
    bars_s = BARS_S | {f"{name} --help": HELP_S for name in commands()}
    n_repeats, cleared, largest = 1 if given.quick else REPEATS, dict[str, bool](), 0.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        places = {"PYTHONPYCACHEPREFIX": name, "FIELDMARK_CACHE": str(folder / "cache")}
        environment = os.environ | places
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        fieldmark = [sys.executable, "-m", "fieldmark"]
        for words in (["data", "make", "newt", "--size", "1312"], RUN):
            cpu_s([*fieldmark, *words], folder, environment)
        bare_s = median_cpu_s(
            [sys.executable, "-c", "import argparse"], folder, environment, n_repeats
        )
        print(f"{'python -c import argparse':<72}{bare_s:.3f} s")
        for command in QUICK if given.quick else bars_s:
            words = [*fieldmark, *command.split()]
            took_s = median_cpu_s(words, folder, environment, n_repeats)
            ratio = f"{took_s / bare_s:.1f} × bare python"
            print(f"{'fieldmark ' + command:<72}{took_s:.3f} s   {ratio}")
            cleared[f"{command} ≤ {bars_s[command]} s"] = took_s <= bars_s[command]
            largest = max(largest, took_s)
    figure = f"startup: {len(cleared)} commands, at most {largest:.2f} s CPU"
    return finish(figure, cleared, given.quick)


if __name__ == "__main__":
    sys.exit(main())
