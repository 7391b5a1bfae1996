"""Claims and crashes: two processes on one file, and processes that die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from fieldmark.store import Store, claims
from fieldmark.store.place import birth, is_alive

HOLD = """
import sys, time
from fieldmark.store import Store
store = Store.open(sys.argv[1])
print(store.claim("key"), flush=True)
time.sleep(60)
"""

WRITE = """
import sys, time
from fieldmark.store import PartResult, Predictions, RunSpec, Store, columns

def stalling(texts):
    # the items are inserted, the answers are not: in the middle of the transaction
    print("in the middle", flush=True)
    time.sleep(60)

store = Store.open(sys.argv[1])
run = store.begin_run(RunSpec("m", "t", "p"))
store.write_part(run, PartResult(Predictions(["a"], ["x"], ["x"]), part="first"))
columns._pack_texts = stalling
ids = [f"{i:06d}" for i in range(20000)]
store.write_part(run, PartResult(Predictions(ids, ids, ids), part="second"))
"""


def start(code: str, path) -> tuple[subprocess.Popen, str]:
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True
    )
    return child, child.stdout.readline().strip()


@pytest.fixture
def children():
    started: list[subprocess.Popen] = []
    yield started
    for child in started:
        child.kill()
        child.wait()
        child.stdout.close()


def insert(store: Store, **changes) -> None:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    row = {"key": "key", "host": "node12", "place": "elsewhere", "pid": 1, "born": "5"}
    row |= {"started": now, "heartbeat": now} | changes
    marks = ",".join(f":{name}" for name in row)
    store._database.connection.execute(f"INSERT INTO claim ({','.join(row)}) VALUES ({marks})", row)


def minutes_ago(n: float) -> str:
    return (datetime.now(UTC) - timedelta(minutes=n)).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_a_second_process_leaves_a_claimed_run_alone(store, path, children):
    child, said = start(HOLD, path)
    children.append(child)
    assert said == "True"
    assert not store.claim("key")
    assert store.claim("another key")
    assert store.claims()["key"].pid == child.pid
    assert not store.heartbeat("key")
    store.release("key")
    assert "key" in store.claims(), "another process's claim cannot be released"


@pytest.mark.skipif(not hasattr(os, "waitid"), reason="looks at a zombie")
def test_the_claim_of_a_killed_process_is_taken_over(store, path, children):
    child, _ = start(HOLD, path)
    children.append(child)
    assert not store.claim("key")
    child.kill()  # not waited for: a zombie is dead too
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert "key" not in store.claims()
    assert store.claim("key") and store.claims()["key"].pid == os.getpid()


def test_a_process_may_claim_again_and_release(store):
    assert store.claim("key") and store.claim("key") and store.heartbeat("key")
    store.release("key")
    assert store.claims() == {} and not store.heartbeat("key")


@pytest.mark.parametrize(("minutes", "is_free"), [(9, False), (11, True)])
def test_claims_from_elsewhere_last_ten_minutes_after_their_heartbeat(store, minutes, is_free):
    insert(store, started=minutes_ago(90), heartbeat=minutes_ago(minutes))
    assert ("key" not in store.claims()) == is_free
    assert store.claim("key") == is_free


def test_a_number_given_to_a_new_process_does_not_keep_a_claim_alive(store):
    here = claims.this_place()
    insert(store, key="old", place=here, pid=os.getpid(), born="1")
    insert(store, key="mine", place=here, pid=os.getpid(), born=birth(os.getpid()))
    if birth(os.getpid()):
        assert set(store.claims()) == {"mine"}
    assert store.claim("old")


def test_a_living_process_here_needs_no_heartbeat(store, path, children):
    child, _ = start(HOLD, path)
    children.append(child)
    with store._database.writing() as connection:
        connection.execute("UPDATE claim SET heartbeat = ?", [minutes_ago(600)])
    assert not store.claim("key")


def test_processes_are_told_dead_from_alive():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    born = birth(child.pid)
    assert is_alive(child.pid, born)
    child.kill()
    child.wait()
    child.stdin.close()
    assert not is_alive(child.pid, born)


@pytest.mark.skipif(os.name != "posix", reason="kill -9")
def test_kill_nine_in_the_middle_of_a_write_leaves_whole_parts_only(path, children):
    child, said = start(WRITE, path)
    children.append(child)
    assert said == "in the middle"
    child.send_signal(signal.SIGKILL)
    child.wait()
    with Store.open(path) as store:
        (run,) = store.runs()
        assert run.state == "running"
        assert [each.part for each in store.finished_parts(run.id)] == ["first"]
        assert store.predictions(run.id)["part"].unique().to_list() == ["first"]
        assert store._database.rows("SELECT count(*) FROM text WHERE value LIKE '0%'") == [(0,)]
        assert store._database.rows("SELECT n FROM item_list") == [(1,)]
        assert store._database.rows("PRAGMA integrity_check") == [("ok",)]
        assert store._database.rows("PRAGMA foreign_key_check") == []
        assert store.begin_run(run.spec) == run.id
