"""Writers that share one results file and one cache, and what must be there after them.

    python tests/kit/writers.py FOLDER NUMBER GENERATION SECONDS

is one of them. All they write follows from its name, so that it can be checked without their help.
A line in the log of a writer stands there only after the call that wrote has returned: whatever is
in a log and not in the store is lost.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fieldmark.data import Content, Contents
from fieldmark.embed.rows import FeatureRows
from fieldmark.store import PartResult, Predictions, RunSpec, Score, Store, merge_shards

DIM, N_PARTS, N_ROWS = 16, 3, 32


@dataclass(frozen=True, slots=True)
class Written:
    """What writers left behind."""

    n_runs: int
    """of a writer's own"""
    n_contested: int
    """that all writers were after"""
    n_merged: int
    n_rows: int
    n_contents: int
    n_killed: int


def hammer(folder: Path, n_writers: int, seconds: float, kill_every_s: float = 0.0) -> Written:
    """Lets writers loose on a folder, kills one now and then, and checks all they did."""
    folder.mkdir(parents=True, exist_ok=True)
    until, draw = time.monotonic() + seconds, random.Random(n_writers)
    writers = {number: _start(folder, number, 0, seconds) for number in range(n_writers)}
    n_killed = 0
    while kill_every_s and time.monotonic() + kill_every_s < until:
        time.sleep(kill_every_s * draw.uniform(0.5, 1.0))
        number = draw.randrange(n_writers)
        writers[number].kill()
        assert writers[number].wait() in (-signal.SIGKILL, 0)
        n_killed += 1
        left = max(until - time.monotonic(), 0.1)
        writers[number] = _start(folder, number, n_killed, left)
    for number, writer in writers.items():
        assert writer.wait(seconds + 120) == 0, f"writer {number} failed"
    return _check(folder, n_killed)


def _start(folder: Path, number: int, generation: int, seconds: float) -> subprocess.Popen[bytes]:
    words = [str(folder), str(number), str(generation), str(seconds)]
    return subprocess.Popen([sys.executable, __file__, *words])


# --- what one writer does ---


def make_spec(kind: str, seed: int) -> RunSpec:
    return RunSpec(kind, "beluga", "probe/neighbours", seed=seed)


def make_part(key: str, repeat: int) -> PartResult:
    draw = random.Random(f"{key} {repeat}")
    ids = [f"{draw.randrange(100_000)}-{item}.jpg" for item in range(20)]
    labels = [f"{key[:4]}-{draw.randrange(5)}" for _ in ids]
    return PartResult(Predictions(ids, labels, labels[::-1]), "birds", repeat)


def make_rows(name: str) -> tuple[list[bytes], np.ndarray]:
    keys = [
        hashlib.blake2b(f"{name} {row}".encode(), digest_size=16).digest() for row in range(N_ROWS)
    ]
    return keys, np.stack([np.frombuffer(key, np.uint8).astype(np.float32) for key in keys])


def write(folder: Path, number: int, generation: int, seconds: float) -> None:
    until, turn = time.monotonic() + seconds, 0
    name = f"{number}.{generation}"
    log = os.open(folder / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    rows = FeatureRows(folder / "features", DIM)
    contents = Contents(folder / "contents.db")
    with Store.open(folder / "fieldmark.db") as store:
        while time.monotonic() < until:
            turn += 1
            if _do_run(store, spec := make_spec(f"writer-{name}", turn)):
                _log(log, f"run {spec.key}")
            if _do_run(store, spec := make_spec("all", turn % 40 + 40 * (turn // 200))):
                _log(log, f"contested {spec.key}")
            if turn % 5 == 0:
                _log(log, f"merged {_merge_one(folder, store, name, turn)}")
            keys, values_nd = make_rows(f"{name} {turn}")
            rows.append(keys, values_nd)
            _log(log, f"rows {name} {turn}")
            _note(folder, contents, f"{name} {turn}")
    rows.close()
    os.close(log)


def _do_run(store: Store, spec: RunSpec) -> bool:
    """Does what is missing of a run as `execute` does; False: it is done or in other hands."""
    if store.is_done(spec.name) or not store.claim(spec.key):
        return False
    try:
        if store.is_done(spec.name):
            return False
        run = store.begin_run(spec, {"pid": os.getpid()}, "weights")
        done = {part.repeat for part in store.finished_parts(run)}
        for repeat in sorted(set(range(N_PARTS)) - done):
            store.write_part(run, make_part(spec.key, repeat))
            store.heartbeat(spec.key)
        store.finish_run(run, [Score("accuracy", 0.5, is_primary=True)])
    finally:
        store.release(spec.key)
    return True


def _merge_one(folder: Path, store: Store, name: str, turn: int) -> str:
    spec = make_spec(f"shard-{name}", turn)
    path = folder / "shards" / f"{name}-{turn}.db"
    with Store.open(path, is_private=True) as shard:
        _do_run(shard, spec)
    merge_shards(store, [path])
    return spec.key


def _note(folder: Path, contents: Contents, name: str) -> None:
    image = f"{name}.txt"
    (folder / image).write_text(name)
    os.utime(folder / image, (1, 1))
    state = (folder / image).stat()
    mark = state.st_ino.to_bytes(8, "little")
    contents.note(folder, [(image, Content(make_rows(name)[0][0]), mark)])
    contents.flush()


def _log(log: int, line: str) -> None:
    os.write(log, f"{line}\n".encode())


# --- what must be there ---


def _check(folder: Path, n_killed: int) -> Written:
    lines = [line.split(" ", 1) for log in folder.glob("*.log") for line in _lines(log)]
    logged: dict[str, list[str]] = {"run": [], "contested": [], "merged": [], "rows": []}
    for kind, what in lines:
        logged[kind].append(what)
    with closing(sqlite3.connect(folder / "fieldmark.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    with Store.open(folder / "fieldmark.db", read_only=True) as store:
        runs = {run.key: run for run in store.runs()}
        assert len(runs) == len(store.runs()), "one run of every key"
        for key in (*logged["run"], *logged["contested"], *logged["merged"]):
            assert runs[key].state == "done", f"{key} is lost"
        for run in runs.values():
            parts = store.finished_parts(run.id)
            assert len(parts) == N_PARTS or run.state == "running"
            for part in parts:
                wanted = make_part(run.key, part.repeat).predictions
                kept = store.predictions(run.id).filter(repeat=part.repeat)
                given = sorted(zip(wanted.ids, wanted.targets, wanted.predictions, strict=True))
                assert kept.select("id", "target", "prediction").rows() == given
    again = [key for key, n in Counter(logged["contested"]).items() if n > 1]
    assert not again, f"done twice: {again}"
    n_contents = _check_cache(folder, logged["rows"])
    counts = [len(logged[kind]) for kind in ("run", "contested", "merged")]
    return Written(*counts, N_ROWS * len(logged["rows"]), n_contents, n_killed)


def _lines(log: Path) -> list[str]:
    return log.read_text().splitlines()


def _check_cache(folder: Path, names: list[str]) -> int:
    rows = FeatureRows(folder / "features", DIM)
    for name in names:
        keys, values_nd = make_rows(name)
        assert np.array_equal(rows.gather(keys), values_nd), f"rows {name} are lost"
    assert rows.n_damaged == 0
    rows.close()
    with closing(sqlite3.connect(folder / "contents.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        kept = connection.execute("SELECT name, key FROM content").fetchall()
    for path, key in kept:
        assert key == make_rows(Path(path).stem if path.endswith(".txt") else "")[0][0]
    return len(kept)


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
