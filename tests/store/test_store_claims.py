"""Claims and crashes: two processes on one file, and processes that die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from fieldmark.errors import ClaimLost
from fieldmark.processes import birth, boot_of, host, is_alive, this_place
from fieldmark.store import PartResult, Predictions, Store, claims

HOLD = """
import sys, time
from fieldmark.store import Store
store = Store.open(sys.argv[1])
print(store.claim("key"), flush=True)
time.sleep(60)
"""

TAKEN = """
import sys
from fieldmark.errors import ClaimLost
from fieldmark.store import PartResult, Predictions, RunSpec, Store
store = Store.open(sys.argv[1])
spec = RunSpec("m", "t", "p")
store.claim(spec.key)
run = store.begin_run(spec)
store.write_part(run, PartResult(Predictions(["a"], ["x"], ["x"]), part="first"))
late = PartResult(Predictions(["z"], ["x"], ["x"]), part="late")

def attempt(write, *arguments):
    try:
        write(*arguments)
    except ClaimLost as error:
        print(error, flush=True)

print("ready", flush=True)
input()
attempt(store.write_part, run, late)
input()
attempt(store.write_part, run, late)
attempt(store.finish_run, run, [])
attempt(store.drop_run, spec.name)
store.fail_run(run, "ClaimLost")
print(store.run(spec.name).state, flush=True)
"""

WRITE = """
import sys, time
from fieldmark.store import PartResult, Predictions, RunSpec, Store, predictions

def stalling(*answer):
    # the items are inserted, the answers are not: in the middle of the transaction
    print("in the middle", flush=True)
    time.sleep(60)

store = Store.open(sys.argv[1])
run = store.begin_run(RunSpec("m", "t", "p"))
store.write_part(run, PartResult(Predictions(["a"], ["x"], ["x"]), part="first"))
predictions.insert_answer = stalling
ids = [f"{i:06d}" for i in range(20000)]
store.write_part(run, PartResult(Predictions(ids, ids, ids), part="second"))
"""


def start(code: str, path) -> tuple[subprocess.Popen, str]:
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    return child, child.stdout.readline().strip()


@pytest.fixture
def children():
    started: list[subprocess.Popen] = []
    yield started
    for child in started:
        child.kill()
        child.wait()
        child.stdin.close()
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


@pytest.mark.parametrize(
    ("minutes", "is_free"), [(1.5, False), (2.5, True), (-1.5, False), (-2.5, True)]
)
def test_claims_from_elsewhere_last_two_minutes_around_their_heartbeat(store, minutes, is_free):
    """Defect K3: a clock that was set back claims a run for ever."""
    insert(store, started=minutes_ago(90), heartbeat=minutes_ago(minutes))
    assert ("key" not in store.claims()) == is_free
    assert store.claim("key") == is_free


def test_a_number_given_to_a_new_process_does_not_keep_a_claim_alive(store):
    here = this_place()
    insert(store, key="old", place=here, pid=os.getpid(), born="1")
    insert(store, key="mine", place=here, pid=os.getpid(), born=birth(os.getpid()))
    if birth(os.getpid()):
        assert set(store.claims()) == {"mine"}
    assert store.claim("old")


def test_a_claim_from_before_the_machine_was_started_again_is_void(store):
    """Defect K3: a restart within minutes of a crash does nothing."""
    if not boot_of(this_place()):
        pytest.skip("this system does not tell when it was started")
    insert(store, key="rebooted", host=host(), place="another-boot/pid:[4026531836]")
    same = f"{boot_of(this_place())}/pid:[1]"
    insert(store, key="container", host=host(), place=same)
    insert(store, key="elsewhere", host="node12", place="another-boot/pid:[4026531836]")
    assert set(store.claims()) == {"container", "elsewhere"}


def test_a_freed_claim_stops_the_process_that_had_it(path, children):
    """Defect 17: a process whose claim is lost goes on and writes."""
    child, _ = start(TAKEN, path)
    children.append(child)
    with Store.open(path) as store:
        (run,) = store.runs()
        assert store.free(run.key).pid == child.pid and store.free(run.key) is None
        child.stdin.write("\n")
        child.stdin.flush()
        told = child.stdout.readline().strip()
        assert told == (
            f"run {run.key[:8]} was taken over by another process, or freed by "
            "`fieldmark runs free`."
        )
        assert store.claim(run.key)
        store.write_part(run.id, PartResult(Predictions(["b"], ["x"], ["x"]), part="second"))
        child.stdin.write("\n")
        child.stdin.flush()
        told = [child.stdout.readline().strip() for _ in range(4)]
        assert told[0] == (
            f"process {os.getpid()} on {host()} is working on run {run.key[:8]}, so this one left "
            f"it alone. If that process has ended, type `fieldmark runs free {run.key[:8]}`."
        )
        assert told[1:3] == [told[0], told[0]], "neither a part nor the end nor dropping it"
        assert told[3] == "running", "its failure is not the other's"
        assert [each.part for each in store.finished_parts(run.id)] == ["first", "second"]
        store.finish_run(run.id, [])


@pytest.mark.slow
def test_one_who_waits_for_a_process_elsewhere_goes_by_its_heart(store, monkeypatch):
    """Until it beats, or until its claim runs out: then the run is free."""
    monkeypatch.setattr(claims, "SILENCE", timedelta(seconds=3))
    insert(store, key="dead")
    insert(store, key="alive")
    told = []

    def tell(key: str) -> None:
        told.append(key)
        with store._database.writing() as connection:
            sql = "UPDATE claim SET heartbeat = ? WHERE key = 'alive'"
            connection.execute(sql, [minutes_ago(-0.02)])

    store.wait_for_unseen(["dead", "alive", "nobody"], tell)
    assert told and set(store.claims()) == {"alive"} and store.claim("dead")
    store.wait_for_unseen(["dead"], told.clear)  # this process itself: nothing to wait for


def test_who_never_claimed_may_write_a_run_that_nobody_is_on(store, spec, result):
    run = store.begin_run(spec)
    insert(store, key=spec.key, heartbeat=minutes_ago(3))
    store.write_part(run, result)
    store.free(spec.key)
    insert(store, key=spec.key)
    with pytest.raises(ClaimLost, match="process 1 on node12"):
        store.write_part(run, result)


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
