"""Merge speed: how long do 2,000 shards take to enter a results file, and does a reader wait?

    python benchmarks/merge.py [--shards 2000] [--runs 4] [--items 1000] [--quick]

Every shard is written by a real private store: runs of several models on a few tasks, each with its
own numbering of names. Meanwhile a second process reads and writes the same results file; its
longest wait is told. Then all shards are merged again: nothing may change.
"""

from __future__ import annotations

import multiprocessing
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path

from _quick import Flags, finish
from fieldmark.store import PartResult, Predictions, RunSpec, Score, Store, merge_shards

N_TASKS = 20


def main() -> int:
    flags = Flags(__doc__)
    flags.add_argument("--shards", type=int, default=2_000)
    flags.add_argument("--runs", type=int, default=4, help="in a shard")
    flags.add_argument("--items", type=int, default=1_000, help="in a run")
    args = flags.parse(shards=10, items=20)
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        shards = [
            make_shard(Path(folder) / f"{number:05}.db", number, args.runs, args.items)
            for number in range(args.shards)
        ]
        print(f"{args.shards} shards made in {time.perf_counter() - start:.1f} s")
        figure = measure(Path(folder) / "main.db", shards)
    return finish(figure, {}, args.quick)


def make_shard(path: Path, number: int, n_runs: int, n_items: int) -> Path:
    draw = random.Random(number)
    with Store.open(path, is_private=True) as store:
        store._database.connection.execute("PRAGMA synchronous = OFF")  # making is not measured
        for turn in range(n_runs):
            task = (number + turn) % N_TASKS
            ids = [f"task-{task}/photo-{item:06}.jpg" for item in range(n_items)]
            labels = [f"species-{task}-{item % 50}" for item in range(n_items)]
            answers = draw.sample(labels, n_items)
            scores = [draw.random() for _ in ids]
            spec = RunSpec(f"model-{number}", f"task-{task}", "probe/ridge", n_train=turn)
            run = store.begin_run(spec, {"host": f"node-{number}"}, f"weights-{number}", "/data")
            store.write_part(run, PartResult(Predictions(ids, labels, answers, scores)))
            store.finish_run(run, [Score("accuracy", 0.5, is_primary=True, n=n_items)])
    return path


def measure(path: Path, shards: Sequence[Path]) -> str:
    with Store.open(path) as store:
        ended = multiprocessing.Event()
        waits = multiprocessing.Queue()
        other = multiprocessing.Process(target=use_meanwhile, args=(path, ended, waits))
        other.start()
        figures = []
        for title in ("merged", "merged again"):
            start = time.perf_counter()
            counts = merge_shards(store, shards)
            seconds = time.perf_counter() - start
            figures.append(
                f"{counts.n_runs} runs with {counts.n_rows} predictions in {seconds:.1f} s"
            )
            print(f"{title}: {figures[-1]}, {counts.n_before} runs were there")
            assert not counts.faults, counts.faults
        assert counts.n_runs == counts.n_rows == 0, "merging again changed something"
        ended.set()
        n_runs, longest_read, longest_write = waits.get()
        other.join()
        print(
            f"meanwhile a second process did {n_runs} runs; its longest read took "
            f"{longest_read:.2f} s, its longest write {longest_write:.2f} s"
        )
        ((state,),) = store._database.rows("PRAGMA integrity_check")
        print(f"{len(store.runs())} runs, {path.stat().st_size / 1e6:.0f} MB, integrity: {state}")
        assert state == "ok"
    return f"merge: {len(shards)} shards: {figures[0]}, longest wait {longest_write:.2f} s"


def use_meanwhile(path: Path, ended: Event, waits: Queue[tuple[float, ...]]) -> None:
    n_runs, longest_read, longest_write = 0, 0.0, 0.0
    with Store.open(path) as store:
        while not ended.is_set():
            start = time.perf_counter()
            store.runs()
            read = time.perf_counter()
            run = store.begin_run(RunSpec("local", "task", "probe/ridge", seed=n_runs))
            store.write_part(run, PartResult(Predictions(["a"], ["fox"], ["fox"])))
            store.finish_run(run, [])
            longest_read = max(longest_read, read - start)
            longest_write = max(longest_write, time.perf_counter() - read)
            n_runs += 1
            time.sleep(0.2)
    waits.put((n_runs, longest_read, longest_write))


if __name__ == "__main__":
    sys.exit(main())
