"""Merging: runs of shards enter a store as if they had been done in it, once, whole or not at all.

The oracle is the same work done directly in one store: all tables are equal but for numbers and
times.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fieldmark.errors import StoreError
from fieldmark.store import (
    MergeCounts,
    PartResult,
    Predictions,
    RunSpec,
    Score,
    Store,
    adopt_shard,
    database,
    merge_shards,
)

RIGHT = [Score("accuracy", 0.75, low=0.5, high=0.9, n=4, is_primary=True, warning="few units")]
LABELS = ["fox", "hare", "Füchsin", "lynx"]
SPEC = RunSpec("classical/colour", "beluga", "probe/neighbours", {"k": 1}, n_train=10)


def make_part(random_state: int, part: str = "", repeat: int = 0) -> PartResult:
    """Answers as any protocol may give them: gaps, outcomes, units and digests now and then."""
    draw = random.Random(random_state)
    n = draw.randrange(0, 9)
    ids = draw.sample([f"photo-{number}.jpg" for number in range(30)], n)
    outcomes = [draw.choice(["ok", "ok", "refused"]) for _ in ids]
    return PartResult(
        Predictions(
            ids,
            [draw.choice(LABELS) for _ in ids],
            [draw.choice(LABELS) if outcome == "ok" else None for outcome in outcomes],
            draw.choice([None, [draw.random() for _ in ids]]),
            draw.choice([None, [draw.choice(["burst-1", None]) for _ in ids]]),
            outcomes,
            draw.choice([None, [draw.choice(['{"usd":0.01}', None]) for _ in ids]]),
            draw.choice([None, [draw.choice([None, draw.randbytes(16)]) for _ in ids]]),
        ),
        part=part,
        repeat=repeat,
        n_train=draw.choice([None, 8]),
        seconds=draw.random(),
        info=draw.choice([None, {"alpha": 0.5}]),
    )


def do_run(store: Store, number: int, state: str = "done", **facts: object) -> str:
    """A run of several parts and repeats, the same wherever it is done."""
    spec = replace(SPEC, seed=number, **facts)
    run = store.begin_run(spec, {"host": f"node-{number}"}, "weights-1", f"/data/{number % 3}")
    for part in ("", "birds")[: 1 + number % 2]:
        for repeat in range(1 + number % 3):
            store.write_part(run, make_part(number * 100 + repeat, part, repeat))
    if state == "done":
        store.finish_run(run, [*RIGHT, Score("f1", float("nan"), part="birds", n_units=number)])
    elif state == "failed":
        store.fail_run(run, "ValueError: no\nTraceback")
    return spec.name


def make_shard(path: Path, *numbers: int, state: str = "done", **facts: object) -> Path:
    with Store.open(path, is_private=True) as store:
        for number in numbers:
            do_run(store, number, state, **facts)
    return path


NO_TIMES = ("id", "created", "started", "finished", "turn", "run", "items")


def tables(path: Path) -> dict[str, list]:
    """All rows of a store in names, without numbers and times, in an order of their own."""
    with Store.open(path, read_only=True) as store, closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        assert connection.execute("PRAGMA integrity_check").fetchall()[0][0] == "ok"
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        runs = [dict(row) for row in connection.execute("SELECT * FROM run")]
        texts = dict(connection.execute("SELECT id, value FROM text").fetchall())
        lists = connection.execute("SELECT * FROM item_list").fetchall()
        name = {run["id"]: (run["key"], run["state"]) for run in runs}
        parts = [
            (name[row["run"]], texts[row["part"]], *(row[i] for i in (2, 4, 5, 6, 7, 8)))
            for row in connection.execute("SELECT * FROM part")
        ]
        scores = [
            (name[row["run"]], *tuple(row)[1:]) for row in connection.execute("SELECT * FROM score")
        ]
        listed = [
            [
                [texts.get(number) for number in np.frombuffer(row[column], "<i4").tolist()]
                for column in ("item", "target", "unit")
            ]
            + [row["n"], row["content"]]
            for row in lists
        ]
        answers = [(name[run["id"]], store.predictions(run["id"]).rows()) for run in runs]
        outcomes = [(name[run["id"]], store.outcomes(run["id"])) for run in runs]
    facts = [{k: v for k, v in run.items() if k not in NO_TIMES} for run in runs]
    return {
        "run": sorted(facts, key=repr),
        "part": sorted(parts, key=repr),
        "score": sorted(scores, key=repr),
        "item_list": sorted(listed, key=repr),
        "answer": sorted(answers, key=repr),
        "outcome": sorted(outcomes, key=repr),
        "text": sorted(texts.values()),
    }


def rows_of(path: Path) -> list:
    """Every row, as it is: nothing at all changed."""
    with closing(sqlite3.connect(path)) as connection:
        return [
            (table, sorted(connection.execute(f"SELECT * FROM {table}").fetchall(), key=repr))
            for table in ("run", "part", "score", "item_list", "answer", "text")
        ]


@pytest.fixture
def main(tmp_path: Path):
    with Store.open(tmp_path / "main" / "fieldmark.db") as opened:
        yield opened


# --- the oracle ---


@pytest.mark.slow
@pytest.mark.parametrize("order", [1, 2, 3])
def test_merged_shards_equal_direct_work(tmp_path, main, order):
    direct = tmp_path / "direct.db"
    states = {number: ("done", "done", "failed", "running")[number % 4] for number in range(24)}
    with Store.open(direct) as store:
        for number, state in states.items():
            do_run(store, number, state)
    numbers = list(states)
    random.Random(order).shuffle(numbers)
    shards = []
    for start in range(0, len(numbers), order):
        shards.append(tmp_path / f"shard-{start}.db")
        with Store.open(shards[-1], is_private=True) as store:
            for number in numbers[start : start + order]:
                do_run(store, number, states[number])
    counts = merge_shards(main, shards)
    assert counts.n_runs == 24 and counts.n_before == 0 and counts.faults == ()
    assert tables(main.path) == tables(direct)
    whole = tables(direct)
    assert counts.n_parts == len(whole["part"])
    assert counts.n_rows == sum(len(rows) for _, rows in whole["answer"])


def test_times_record_and_folder_are_the_shards_own(tmp_path, main):
    shard = make_shard(tmp_path / "a.db", 1)
    with closing(sqlite3.connect(shard)) as connection:
        connection.execute(
            "UPDATE run SET created = '2026-01-01T00:00:00Z', started = '2026-01-01T00:00:01Z', "
            "finished = '2026-01-01T00:10:00Z', app = '0.9', seconds = 77.5"
        )
        connection.execute("UPDATE part SET finished = '2026-01-01T00:05:00Z'")
        connection.commit()
    merge_shards(main, [shard])
    with Store.open(shard, read_only=True) as source:
        (theirs,), (ours,) = source.runs(), main.runs()
        assert replace(theirs, id=0) == replace(ours, id=0)
        assert source.finished_parts(theirs.id) == main.finished_parts(ours.id)
        assert source.record(theirs.id) == main.record(ours.id)
        assert repr(source.scores()[theirs.id]) == repr(main.scores()[ours.id])


def test_shards_number_their_names_each_in_its_own_way(tmp_path, main):
    """The same answers written after other names: numbers differ, what they stand for does not."""
    plain = make_shard(tmp_path / "plain.db", 1)
    with Store.open(tmp_path / "other.db", is_private=True) as store:
        store.write_part(store.begin_run(replace(SPEC, task="x")), make_part(7, "zebras"))
        store.drop_runs([replace(SPEC, task="x").name])
        do_run(store, 1, model="classical/shape")
    do_run(main, 2, task="y")
    merge_shards(main, [plain, tmp_path / "other.db"])
    one, two = [run.id for run in main.runs() if run.spec.task == "beluga"]
    assert main.predictions(one).equals(main.predictions(two))
    assert main.answers([one, two]).prediction_mn.shape[1] == len(
        main.predictions(one).filter(main.predictions(one)["repeat"] >= 0)
    )
    lists = main._database.rows("SELECT DISTINCT items FROM answer WHERE run = ?", [one])
    assert lists == main._database.rows("SELECT DISTINCT items FROM answer WHERE run = ?", [two])


@pytest.mark.parametrize("odd", ["\x1f", "a\x1fb", "\x1f\x1e", "a\x00b", "\n", "\x1e\x1d", ","])
def test_odd_names_are_kept(tmp_path, main, odd):
    with Store.open(tmp_path / "a.db", is_private=True) as store:
        run = store.begin_run(SPEC)
        store.write_part(run, PartResult(Predictions([odd, "b"], ["x", odd], [odd, "b"]), part=odd))
        store.finish_run(run, [])
        wanted = store.predictions(run)
    merge_shards(main, [tmp_path / "a.db"])
    assert main.predictions(main.runs()[0].id).equals(wanted)


# --- twice, and by two ---


def test_merging_twice_changes_nothing(tmp_path, main):
    shards = [
        make_shard(tmp_path / f"{n}.db", n, state=s)
        for n, s in enumerate(["done", "failed", "running", "done"])
    ]
    first = merge_shards(main, shards)
    before = rows_of(main.path)
    names = [run.name for run in main.runs()]
    for replaced in ([], names):
        again = merge_shards(main, [*shards, *shards], replaced)
        assert (again.n_runs, again.n_parts, again.n_before) == (0, 0, 8)
        assert rows_of(main.path) == before
    assert first.n_runs == 4


MERGE = """
import sys
from pathlib import Path
from fieldmark.store import Store, merge_shards
with Store.open(sys.argv[1]) as main:
    print("ready", flush=True)
    sys.stdin.readline()
    print(merge_shards(main, sorted(Path(sys.argv[2]).glob("*.db"))).n_runs, flush=True)
"""


def start_merge(main: Path, shards: Path, code: str = MERGE) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", code, str(main), str(shards)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_three_processes_merge_the_same_shards(tmp_path):
    for number in range(12):
        make_shard(tmp_path / "shards" / f"{number:02}.db", number)
    processes = [start_merge(tmp_path / "main.db", tmp_path / "shards") for _ in range(3)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    counts = [int(process.communicate(timeout=60)[0]) for process in processes]
    assert sum(counts) == 12
    with Store.open(tmp_path / "direct.db") as store:
        for number in range(12):
            do_run(store, number)
    assert tables(tmp_path / "main.db") == tables(tmp_path / "direct.db")


KILLED = """
import os, signal, sys
from pathlib import Path
from fieldmark.store import Store, merge, merge_shards
merge._AT_ONCE = 2
class Counting:
    def __init__(self, connection, left):
        self.connection, self.left = connection, left
    def __getattr__(self, name):
        self.left -= 1
        if self.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return getattr(self.connection, name)
def merge_some(path, n):
    with Store.open(path) as main:
        counting = Counting(main._database.connection, n)
        object.__setattr__(main._database, "connection", counting)
        merge_shards(main, sorted(Path(sys.argv[2]).glob("*.db")))
for n in range(10_000):
    if (child := os.fork()) == 0:
        merge_some(Path(sys.argv[1]) / f"main-{n}.db", n)
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        print(n)
        break
"""


@pytest.mark.slow
def test_a_merge_that_is_killed_anywhere_goes_on(tmp_path):
    """SIGKILL before the n-th use of the store's connection, for every n; then merged again."""
    for number in range(5):
        make_shard(
            tmp_path / "shards" / f"{number}.db", number, state=("done", "failed")[number % 2]
        )
    with Store.open(tmp_path / "direct.db") as store:
        for number in range(5):
            do_run(store, number, ("done", "failed")[number % 2])
    wanted = tables(tmp_path / "direct.db")
    shards = tmp_path / "shards"
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path), str(shards)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    n_points = int(done.stdout)
    assert n_points > 60
    whole = set()
    for n in range(n_points):
        path = tmp_path / f"main-{n}.db"
        with Store.open(path) as main:
            keys = {run.key for run in main.runs()}
            whole.add(len(keys))
            for run in main.runs():
                n_parts = len(main.finished_parts(run.id))
                assert n_parts == (1 + run.spec.seed % 2) * (1 + run.spec.seed % 3)
            merge_shards(main, sorted(shards.glob("*.db")))
        assert tables(path) == wanted, f"killed at point {n}"
    assert whole == {0, 2, 4, 5}, "two files to a transaction: all of both or nothing"


# --- what is there already ---


def set_times(path: Path, seed: int, started: str, finished: str | None) -> None:
    """Moves a run to another time of the day."""
    with closing(sqlite3.connect(path)) as connection:
        day = "2026-03-01T"
        moment = finished and f"{day}{finished}Z"
        turn = finished and f"strftime('%s', '{moment}') * 1000"
        connection.execute(
            f"UPDATE run SET started = ?, finished = ?, turn = {turn or 0} WHERE seed = ?",
            [f"{day}{started}Z", moment, seed],
        )
        connection.commit()


def test_a_run_that_is_done_stays(tmp_path, main):
    name = do_run(main, 1)
    shard = make_shard(tmp_path / "a.db", 1, 2)
    with Store.open(shard) as other:  # the shard's score is another
        for run, scores in other.scores().items():
            other.rescore_run(run, [replace(score, value=0.1) for score in scores])
    mine = main.run(name).id
    counts = merge_shards(main, [shard])
    assert (counts.n_runs, counts.n_before) == (1, 1)
    assert main.run(name).id == mine
    assert {score.value for score in main.scores()[mine][:1]} == {0.75}
    assert len(main.runs()) == 2


@pytest.mark.parametrize(("finished", "is_taken"), [("12:00:00", True), ("08:00:00", False)])
def test_a_run_that_was_forced_takes_the_place_of_an_earlier_one(
    tmp_path, main, finished, is_taken
):
    name = do_run(main, 1)
    set_times(main.path, 1, "09:00:00", "10:00:00")
    shard = make_shard(tmp_path / "a.db", 1)
    set_times(shard, 1, "07:00:00", finished)
    former = main.run(name).id
    counts = merge_shards(main, [shard], [name])
    assert (counts.n_runs, counts.n_before) == (is_taken, not is_taken)
    assert (main.run(name).id != former) is is_taken
    assert len(main.runs()) == 1 and len(main.scores()) == 1
    assert main.run(name).finished == f"2026-03-01T{finished if is_taken else '10:00:00'}Z"
    tables(main.path)


@pytest.mark.parametrize("state", ["failed", "running"])
def test_unfinished_work_never_touches_a_done_run(tmp_path, main, state):
    name = do_run(main, 1)
    before = rows_of(main.path)
    shard = make_shard(tmp_path / "a.db", 1, state=state)
    assert merge_shards(main, [shard]).n_before == 1
    assert rows_of(main.path) == before
    set_times(main.path, 1, "09:00:00", "10:00:00")
    assert merge_shards(main, [shard], [name]).n_runs == 1
    assert main.run(name).state == "done" and len(main.runs()) == 1, "as a forced run that failed"
    assert sorted(main._database.rows("SELECT state FROM run")) == [("done",), (state,)]


@pytest.mark.parametrize("state", ["failed", "running"])
def test_a_done_run_takes_the_place_of_unfinished_work(tmp_path, main, state):
    do_run(main, 1, state)
    merge_shards(main, [make_shard(tmp_path / "a.db", 1)])
    assert [run.state for run in main.runs()] == ["done"]
    with Store.open(tmp_path / "direct.db") as store:
        do_run(store, 1)
    assert tables(main.path) == tables(tmp_path / "direct.db")


def write(path: Path, parts: dict[str, int], error: str = "", host: str = "a", **facts) -> Path:
    """A run with these parts (part → number of answers), not finished."""
    with Store.open(path, is_private=True) as store:
        fingerprint = facts.get("fingerprint", "weights-1")
        run = store.begin_run(SPEC, {"host": host}, fingerprint, facts.get("root", ""))
        for part, n_ok in parts.items():
            answers = ["fox"] * n_ok + [None] * (4 - n_ok)
            outcomes = ["ok"] * n_ok + ["failed"] * (4 - n_ok)
            columns = Predictions(list("abcd"), ["fox"] * 4, answers, outcomes=outcomes)
            store.write_part(run, PartResult(columns, part, seconds=1.0))
        if error:
            store.fail_run(run, error)
    return path


def counts_of(store: Store) -> dict[str, int]:
    run = store.run(SPEC.name)
    return {part.part: part.n_ok for part in store.finished_parts(run.id)}


def test_parts_of_several_attempts_add_up(tmp_path, main):
    one = write(tmp_path / "1.db", {"a": 4, "b": 2}, host="a")
    two = write(tmp_path / "2.db", {"b": 4, "c": 4}, "ValueError: no", host="b", root="/data")
    set_times(one, 0, "09:00:00", None)
    set_times(two, 0, "10:00:00", "10:30:00")
    for order in ([one, two], [two, one]):
        with Store.open(tmp_path / f"{order[0].name}-first.db") as store:
            counts = merge_shards(store, order)
            assert counts.n_runs == 2 and counts_of(store) == {"a": 4, "b": 4, "c": 4}
            run = store.run(SPEC.name)
            assert (run.state, run.error, run.root) == ("failed", "ValueError: no", "/data")
            assert (run.n_items, run.n_ok, run.seconds) == (12, 12, 3.0)
            record = store.record(run.id)
            assert record["host"] == "b"
            merge_shards(store, [one, two, one])
            assert store.record(run.id) == record and counts_of(store) == {"a": 4, "b": 4, "c": 4}
            # taken up again, it does only what is missing
            assert store.begin_run(SPEC, {}, "weights-1") == run.id
            assert len(store.finished_parts(run.id)) == 3


def test_parts_of_another_model_do_not_mix(tmp_path, main):
    old = write(tmp_path / "old.db", {"a": 4, "b": 4}, fingerprint="weights-1")
    new = write(tmp_path / "new.db", {"c": 4}, fingerprint="weights-2")
    set_times(old, 0, "09:00:00", None)
    set_times(new, 0, "10:00:00", None)
    for order in ([old, new], [new, old]):
        with Store.open(tmp_path / f"{order[0].name}-first.db") as store:
            merge_shards(store, order)
            assert counts_of(store) == {"c": 4}
            assert store.run(SPEC.name).fingerprint == "weights-2"
            tables(store.path)


def test_a_run_that_a_living_process_is_on_keeps_its_row(tmp_path, main):
    run = main.begin_run(SPEC, {"host": "here"}, "weights-1")
    main._database.connection.execute(
        "INSERT INTO claim VALUES (?, 'elsewhere', 'x', 1, '1', ?, ?)",
        [SPEC.key, *[time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())] * 2],
    )
    shard = write(tmp_path / "a.db", {"a": 4}, "ValueError: no")
    set_times(shard, 0, "23:00:00", "23:30:00")
    merge_shards(main, [shard])
    assert main.run(SPEC.name).state == "running" and counts_of(main) == {"a": 4}
    done = tmp_path / "done.db"
    shutil.copy(shard, done)
    with Store.open(done, is_private=True) as store:
        store.finish_run(store.begin_run(SPEC, {}, "weights-1"), RIGHT)
    merge_shards(main, [done])
    assert main.run(SPEC.name).state == "done" and main.run(SPEC.name).id != run
    assert main._database.rows("SELECT state FROM run WHERE id = ?", [run]) == [("running",)]


# --- the order of runs ---


def test_the_order_of_runs_is_that_of_their_work(tmp_path):
    """The data were changed in place twice; whatever is merged last, the last done run counts."""
    shards = []
    for data, finished in [("first", "10:00:00"), ("second", "11:00:00"), ("third", "12:00:00")]:
        with Store.open(tmp_path / f"{data}.db", is_private=True) as store:
            do_run(store, 3, data=data)
        shards.append(tmp_path / f"{data}.db")
        set_times(shards[-1], 3, "09:00:00", finished)
    for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0]):
        for at_once in (True, False):
            with Store.open(tmp_path / f"main-{order}-{at_once}.db") as main:
                chosen = [shards[place] for place in order]
                for group in [chosen] if at_once else [[one] for one in chosen]:
                    merge_shards(main, group)
                number = {run.spec.data: run.id for run in main.runs()}
                newest = number["third"]
                assert main.superseded() == {
                    number["first"]: newest,
                    number["second"]: newest,
                }
                # confirmed here, then merged again: what was confirmed later still counts
                main.confirm({main.runs()[0].name: ""})
                first = main.runs()[0].id
                merge_shards(main, chosen)
                assert set(main.superseded().values()) == {first}


def test_a_run_done_again_elsewhere_is_right_since(tmp_path, main):
    """Done with data A, then B; a shard says that A was right once more after that."""
    do_run(main, 3, data="A")
    do_run(main, 3, data="B")
    with closing(sqlite3.connect(main.path)) as connection:
        connection.execute("UPDATE run SET turn = (data = 'B') + 1000000000000")
        connection.commit()
    number = {run.spec.data: run.id for run in main.runs()}
    assert main.superseded() == {number["A"]: number["B"]}
    merge_shards(main, [make_shard(tmp_path / "a.db", 3, data="A")])
    assert main.superseded() == {number["B"]: number["A"]}


def test_a_run_done_after_a_merge_comes_later_though_clocks_differ(tmp_path, main):
    ahead = make_shard(tmp_path / "a.db", 3, data="A")
    with closing(sqlite3.connect(ahead)) as connection:
        connection.execute("UPDATE run SET turn = turn + 3600000")
        connection.commit()
    merge_shards(main, [ahead])
    do_run(main, 3, data="B")
    number = {run.spec.data: run.id for run in main.runs()}
    assert main.superseded() == {number["A"]: number["B"]}


# --- files that are not as they should be ---


def damage(path: Path, how: str) -> None:
    data = bytearray(path.read_bytes())
    if how == "no SQLite file":
        data[:] = b"<html>quota exceeded</html>" * 100
    elif how == "cut":
        del data[len(data) // 2 :]
    elif how == "overwritten page":
        data[4096 : 2 * 4096] = os.urandom(4096)
    elif how in ("newer", "older"):
        data[60:64] = (database.VERSION + (1 if how == "newer" else -1)).to_bytes(4, "big")
    elif how == "another program's":
        data[68:72] = b"ABCD"
    path.write_bytes(data)
    statements = {
        "no answers": "DELETE FROM answer",
        "no names": "DROP TRIGGER text_is_kept; DELETE FROM text WHERE id > 3",
        "short column": "UPDATE answer SET prediction = x'00'",
        "no such number": "UPDATE item_list SET item = randomblob(length(item))",
        "no table": "DROP TABLE score",
        "a folder": "",
    }
    if how in statements:
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(statements[how])
    if how == "a folder":
        path.unlink()
        path.mkdir()


@pytest.mark.parametrize(
    "how",
    [
        "no SQLite file",
        "cut",
        "overwritten page",
        "newer",
        "older",
        "another program's",
        "no answers",
        "no names",
        "short column",
        "no such number",
        "no table",
        "a folder",
    ],
)
def test_a_damaged_shard_is_named_and_the_others_are_merged(tmp_path, main, how):
    shards = [make_shard(tmp_path / f"{number}.db", number) for number in range(1, 6)]
    damage(shards[2], how)
    counts = merge_shards(main, shards)
    ((path, error),) = counts.faults
    assert path == shards[2] and str(error).startswith(str(path)) and "\n" not in str(error)
    cannot_be_opened = how in ("newer", "a folder")  # what is in the file is not known to be wrong
    assert error.may_pass == cannot_be_opened
    assert counts.n_runs == 4
    with Store.open(tmp_path / "direct.db") as store:
        for number in (1, 2, 4, 5):
            do_run(store, number)
    assert tables(main.path) == tables(tmp_path / "direct.db"), "nothing of it is in the store"


def test_a_shard_that_cannot_be_read_is_named(tmp_path, main, monkeypatch):
    shard = make_shard(tmp_path / "a.db", 1)

    def stale(*_: object) -> None:
        raise OSError(116, "Stale file handle")

    monkeypatch.setattr("fieldmark.store.shards._files", stale)
    counts = merge_shards(main, [shard])
    ((_, error),) = counts.faults
    assert error.may_pass, "it may be read the next time"
    text = f"{shard}  cannot be read (Stale file handle): check the file and its folder."
    assert str(error) == text


def test_missing_and_empty_shards_hold_no_runs(tmp_path, main):
    (tmp_path / "empty.db").touch()
    Store.open(tmp_path / "new.db", is_private=True).close()
    paths = [tmp_path / name for name in ("none.db", "empty.db", "new.db", "no/such/folder.db")]
    assert merge_shards(main, paths) == merge_shards(main, []) == MergeCounts()
    assert not (tmp_path / "none.db").exists()


def test_nothing_is_written_where_the_shards_are(tmp_path, main):
    shards = [make_shard(tmp_path / "s" / f"{number}.db", number) for number in range(3)]
    before = {file.name: file.read_bytes() for file in (tmp_path / "s").iterdir()}
    assert sorted(before) == ["0.db", "1.db", "2.db"], "no journal is left when a store is closed"
    for shard in shards:
        shard.chmod(0o444)
    (tmp_path / "s").chmod(0o555)
    merge_shards(main, shards)
    assert {file.name: file.read_bytes() for file in (tmp_path / "s").iterdir()} == before
    (tmp_path / "s").chmod(0o755)


def test_a_fault_of_the_store_itself_is_raised(tmp_path):
    shard = make_shard(tmp_path / "a.db", 1)
    Store.open(tmp_path / "main.db").close()
    with (
        Store.open(tmp_path / "main.db", read_only=True) as main,
        pytest.raises(StoreError, match=r"main\.db  cannot be written"),
    ):
        merge_shards(main, [shard])


# --- private stores ---


def test_a_private_store_asks_for_no_lock(tmp_path):
    """Even while another program holds the file locked: as where a server of locks is away."""
    path = make_shard(tmp_path / "a.db", 1)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with Store.open(path, is_private=True, timeout_s=0.1) as store:
            assert store.is_private and len(store.runs()) == 1
            do_run(store, 2)
            assert store._database.rows("PRAGMA journal_mode") == [("delete",)]
    assert len(list(tmp_path.iterdir())) == 1


def test_a_private_store_is_read_without_a_lock_too(tmp_path):
    path = tmp_path / "a.db"
    with Store.open(path, read_only=True, is_private=True) as store:
        assert store.runs() == [] and not path.exists()
    with Store.open(path, is_private=True) as store:
        do_run(store, 1)
        with Store.open(path, read_only=True, is_private=True) as reader:
            assert len(reader.runs()) == 1
            do_run(store, 2)
            assert len(reader.runs()) == 2
            with pytest.raises(StoreError, match="read-only"):
                do_run(reader, 3)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with Store.open(path, read_only=True, is_private=True, timeout_s=0.1) as reader:
            assert len(reader.runs()) == 2


def test_in_a_private_store_every_run_is_ones_own(tmp_path):
    with Store.open(tmp_path / "a.db", is_private=True) as store:
        assert store.claim(SPEC.key) and store.heartbeat(SPEC.key)
        run = store.begin_run(SPEC)
        store.write_part(run, make_part(1))
        store.finish_run(run, RIGHT)
        store.release(SPEC.key)
        assert store.claims() == {} and store.is_done(SPEC.name)
    with Store.open(tmp_path / "a.db") as store:
        assert not store.is_private


def test_a_store_that_was_shared_can_become_private(tmp_path):
    with Store.open(tmp_path / "a.db") as store:
        do_run(store, 1)
    with Store.open(tmp_path / "a.db", is_private=True) as store:
        do_run(store, 2)
        assert store._database.rows("PRAGMA journal_mode") == [("delete",)]
    assert len(list(tmp_path.iterdir())) == 1
    with Store.open(tmp_path / "a.db", read_only=True) as store:
        assert len(store.runs()) == 2


HANGING = """
import os, signal, sys
sys.path.insert(0, sys.argv[2])
from fieldmark.store import Store
from fieldmark.store import writing
import test_merge
with Store.open(sys.argv[1], is_private=sys.argv[3] == "private") as store:
    store._database.connection.execute("PRAGMA cache_size = 1")  # dirty pages go to the file
    test_merge.do_run(store, 1)
    run = store.begin_run(test_merge.SPEC, {}, "weights-1")
    for repeat in range(4):
        store.write_part(run, test_merge.make_part(repeat, "a", repeat))
    original = writing.insert_part
    def insert(connection, names, run, result):
        for repeat in range(200):
            original(connection, names, run, test_merge.make_part(repeat, "b", repeat))
        os.kill(os.getpid(), signal.SIGKILL)
    writing.insert_part = insert
    store.write_part(run, test_merge.make_part(4, "b", 0))
"""


@pytest.mark.parametrize("kind", ["private", "shared"])
def test_what_a_killed_process_left_is_read_without_its_last_transaction(tmp_path, main, kind):
    path = tmp_path / "attempt-0" / "fieldmark.db"
    here = str(Path(__file__).parent)
    done = subprocess.run([sys.executable, "-c", HANGING, str(path), here, kind])
    assert done.returncode == -signal.SIGKILL
    beside = {"private": "-journal", "shared": "-wal"}[kind]
    assert path.with_name(path.name + beside).stat().st_size > 0
    before = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    with Store.open(tmp_path / "attempt-1" / "fieldmark.db", is_private=True) as own:
        adopt_shard(own, path)
        assert sorted(run.state for run in own.runs()) == ["done", "running"]
        run = own.run(SPEC.name)
        assert [(part.part, part.repeat) for part in own.finished_parts(run.id)] == [
            ("a", repeat) for repeat in range(4)
        ]
        again = rows_of(own.path)
        adopt_shard(own, path)
        assert rows_of(own.path) == again
        assert own.begin_run(SPEC, {"host": "b"}, "weights-1") == run.id
        assert len(own.finished_parts(run.id)) == 4
    merge_shards(main, [path])
    assert len(main.runs()) == 2
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == before


def test_an_earlier_attempt_that_is_damaged_or_missing_is_passed_over(tmp_path, caplog):
    broken = make_shard(tmp_path / "broken.db", 1)
    damage(broken, "overwritten page")
    with Store.open(tmp_path / "own.db", is_private=True) as own:
        adopt_shard(own, broken)
        adopt_shard(own, tmp_path / "none.db")
        assert own.runs() == []
    assert [record.getMessage().startswith(str(broken)) for record in caplog.records] == [True]


def test_three_attempts_leave_one_history(tmp_path):
    paths = [tmp_path / f"attempt-{number}.db" for number in range(3)]
    for number, path in enumerate(paths):
        with Store.open(path, is_private=True) as store:
            for earlier in paths[:number]:
                adopt_shard(store, earlier)
            run = store.begin_run(SPEC, {"host": f"node-{number}"}, "weights-1")
            store.write_part(run, make_part(number, "a", number))
        set_times(path, 0, f"1{number}:00:00", None)
    with Store.open(paths[2], is_private=True) as store:
        run = store.run(SPEC.name).id
        assert len(store.finished_parts(run)) == 3
        record = store.record(run)
        assert record["host"] == "node-2"
        assert [one["host"] for one in record["earlier"]] == ["node-0", "node-1"]
        assert json.dumps(record).count("earlier") == 1
