"""How much CPU does a first look cost? `fieldmark --help`, `tasks`, `models`, each --help.

    python benchmarks/startup.py

The bar is 0.3 s of CPU time (user + system), the median of several runs, with `python -c "import
argparse"` beside it: what any Python command costs on the same machine in the same run. Bytecode is
kept between the runs, as on any ordinary machine; a first run is not counted.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile

from fieldmark.cli import commands

BAR_S = 0.3
REPEATS = 7


def cpu_s(words: list[str], environment: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, check=True, capture_output=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def median_cpu_s(words: list[str], environment: dict[str, str]) -> float:
    cpu_s(words, environment)
    return statistics.median(cpu_s(words, environment) for _ in range(REPEATS))


def main() -> None:
    cases = {"--help": ["--help"], "tasks": ["tasks"], "models": ["models"]}
    cases |= {f"{name} --help": [*name.split(), "--help"] for name in commands()}
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"PYTHONPYCACHEPREFIX": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        bare = median_cpu_s([sys.executable, "-c", "import argparse"], environment)
        print(f"{'python -c import argparse':<32}{bare:.3f} s")
        took = {}
        for name, words in cases.items():
            took[name] = median_cpu_s([sys.executable, "-m", "fieldmark", *words], environment)
            ratio = f"{took[name] / bare:.1f} × bare python"
            print(f"{'fieldmark ' + name:<32}{took[name]:.3f} s   {ratio}")
    slowest = max(took, key=lambda name: took[name])
    print(
        f"startup: slowest is `fieldmark {slowest}` with {took[slowest]:.3f} s CPU "
        f"({took[slowest] / BAR_S:.2f} × the bar of {BAR_S} s)"
    )


if __name__ == "__main__":
    main()
