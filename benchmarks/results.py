"""How long do reports take on a store with 100 models × 30 tasks × 10,000 predictions?

    python benchmarks/results.py            # writes the store first (some minutes, 0.4 GB)
    python benchmarks/results.py --keep DIR # and leaves it there for the next time
    python benchmarks/results.py --quick    # a small store, some of the commands

The bar is 2 s for each command that prints, from its start to its last line, the median of three.
The rival is reading the same predictions as rows, which is what the store did before.
"""

from __future__ import annotations

import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _big_store import Size, write_store
from _quick import Flags, finish
from fieldmark.store import Store

BAR_S = 2.0
REPEATS = 3
COMMANDS = {
    "table": ["table"],
    "table --long": ["table", "--long"],
    "table, one task": ["table", "--task", "task-00"],
    "compare, all tasks": ["compare", "model-000", "model-001"],
    "compare, one task": ["compare", "model-000", "model-001", "--task", "task-01"],
    "compare --published": ["compare", "--published"],
    "plot forest": ["plot", "forest", "--task", "task-00", "--out", "forest.svg"],
    "plot ranks": ["plot", "ranks", "--out", "ranks.svg"],
    "export csv": ["export", "csv", "--out", "scores.csv"],
    "export json": ["export", "json", "--out", "scores.json"],
}
QUICK = ("table", "compare, one task", "plot forest", "export json")


def timed(words: list[str], folder: Path, environment: dict[str, str]) -> tuple[float, float]:
    """Seconds on the clock, and of CPU."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    command = [sys.executable, "-m", "fieldmark", *words, "--results", str(folder)]
    subprocess.run(command, check=True, capture_output=True, env=environment, cwd=folder)
    took, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def as_rows_s(path: Path) -> float:
    """The rival: all predictions of one task as rows of an ordinary table, fetched into Python."""
    with Store.open(path, read_only=True) as store:
        runs = [run.id for run in store.runs() if run.spec.task == "task-00"]
        answers = store.answers(runs)
    with tempfile.TemporaryDirectory() as folder:
        connection = sqlite3.connect(Path(folder) / "rows.db")
        connection.execute(
            "CREATE TABLE p (run INTEGER, item INTEGER, target INTEGER, answer INTEGER)"
        )
        for run, row in zip(runs, answers.prediction_mn, strict=True):
            columns = zip(answers.item.tolist(), answers.target.tolist(), row.tolist(), strict=True)
            connection.executemany(f"INSERT INTO p VALUES ({run}, ?, ?, ?)", columns)
        connection.commit()
        began = time.monotonic()
        connection.execute("SELECT * FROM p").fetchall()
        took = time.monotonic() - began
        connection.close()
    return took


def as_columns_s(path: Path) -> float:
    with Store.open(path, read_only=True) as store:
        runs = [run.id for run in store.runs() if run.spec.task == "task-00"]
        began = time.monotonic()
        store.answers(runs)
        return time.monotonic() - began


def measure(folder: Path, size: Size, is_quick: bool) -> int:
    path = folder / "fieldmark.db"
    if not path.exists():
        began = time.monotonic()
        write_store(path, size)
        print(f"writing the store: {time.monotonic() - began:.0f} s", file=sys.stderr)
    n = size.models * size.tasks * size.items
    print(
        f"{size.models} models × {size.tasks} tasks × {size.items:,} = {n:,} predictions, "
        f"{path.stat().st_size / 2**20:,.0f} MiB"
    )
    rows, columns = as_rows_s(path), as_columns_s(path)
    print(
        f"reading one task: {columns:.3f} s as columns, {rows:.3f} s as rows "
        f"({rows / columns:.0f} ×)"
    )
    environment = os.environ | {"PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["FIELDMARK_CACHE"] = str(folder / "cache")
    medians = {}
    for name in QUICK if is_quick else COMMANDS:
        words = COMMANDS[name]
        timed(words, folder, environment)
        took = [timed(words, folder, environment) for _ in range(1 if is_quick else REPEATS)]
        medians[name] = statistics.median(each for each, _ in took)
        cpu = statistics.median(each for _, each in took)
        print(f"{'fieldmark ' + name:<32}{medians[name]:.2f} s, CPU {cpu:.2f} s")
    site_s, site_cpu = timed(["site", "site", "--no-images"], folder, environment)
    print(f"{'fieldmark site --no-images':<32}{site_s:.1f} s, CPU {site_cpu:.1f} s")
    slowest = max(medians, key=lambda name: medians[name])
    figure = f"results: slowest is `{slowest}` with {medians[slowest]:.2f} s"
    return finish(figure, {f"≤ {BAR_S:g} s": medians[slowest] <= BAR_S}, is_quick)


def main() -> int:
    flags = Flags(__doc__)
    flags.add_argument("--keep", type=Path, help="folder of the store")
    given = flags.parse()
    size = Size(3, 3, 40, 4) if given.quick else Size()
    if given.keep:
        given.keep.mkdir(parents=True, exist_ok=True)
        return measure(given.keep.absolute(), size, given.quick)
    with tempfile.TemporaryDirectory() as folder:
        return measure(Path(folder), size, given.quick)


if __name__ == "__main__":
    sys.exit(main())
