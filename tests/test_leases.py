"""Is a shard ever in two hands, and does a dead worker's shard find another?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fieldmark.errors import ClaimLost, DataError
from fieldmark.leases import SILENCE_S, LeaseFolder
from fieldmark.processes import birth, host, this_place


class HandClock:
    def __init__(self) -> None:
        self.t = 0.0

    def __call__(self) -> float:
        return self.t


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


def rewrite(path: Path, **facts: object) -> None:
    """As if the lease had been written elsewhere."""
    old = json.loads(path.read_text())
    path.write_text(json.dumps({**old, **facts}))


ELSEWHERE = {"place": "another boot/pid:[1]", "host": "another"}


def test_a_lease_has_one_holder_and_is_free_again(tmp_path: Path) -> None:
    first, second = LeaseFolder(tmp_path / "l"), LeaseFolder(tmp_path / "l")
    lease = first.claim("a")
    assert lease is not None and lease.is_held
    assert second.claim("a") is None and second.claim("b") is not None
    first.give_up(lease, is_done=False)
    assert not lease.is_held
    taken = second.claim("a")
    assert taken is not None and taken.is_held
    second.give_up(taken, is_done=True)
    assert not list((tmp_path / "l").glob("a.*"))


def test_a_silent_holder_elsewhere_loses_its_lease_by_its_own_count(
    tmp_path: Path, clock: HandClock
) -> None:
    """Its clock may say what it likes: only whether its count moves is looked at."""
    theirs, mine = LeaseFolder(tmp_path, clock), LeaseFolder(tmp_path, clock)
    lease = theirs.claim("a")
    assert lease is not None
    rewrite(lease.path, **ELSEWHERE)
    assert mine.claim("a") is None
    for count in range(5):
        clock.t += SILENCE_S - 1
        rewrite(lease.path, count=count + 1)
        assert mine.claim("a") is None, "it was heard in time"
    clock.t += SILENCE_S + 1
    taken = mine.claim("a")
    assert taken is not None and taken.is_held
    assert not lease.is_held
    with pytest.raises(ClaimLost, match="taken over by another worker"):
        lease.check()
    lease.beat()
    assert taken.is_held, "a late heartbeat harms nobody"


def test_a_holder_here_that_lives_and_is_silent_loses_its_lease_too(
    tmp_path: Path, clock: HandClock
) -> None:
    """A process that hangs is there for ever."""
    theirs, mine = LeaseFolder(tmp_path, clock), LeaseFolder(tmp_path, clock)
    lease = theirs.claim("a")
    assert lease is not None and mine.claim("a") is None
    clock.t += SILENCE_S - 1
    lease.beat()
    assert mine.claim("a") is None
    clock.t += SILENCE_S - 1
    assert mine.claim("a") is None
    who, silent_s = mine.holder("a")
    assert who == f"process {os.getpid()} on {host()}" and silent_s == SILENCE_S - 1
    clock.t += 2
    taken = mine.claim("a")
    assert taken is not None and taken.is_held and not lease.is_held


def test_a_holder_that_could_not_beat_gives_up_before_others_take_over(
    tmp_path: Path, clock: HandClock
) -> None:
    lease = LeaseFolder(tmp_path, clock).claim("a")
    assert lease is not None
    clock.t += SILENCE_S / 2 + 1
    assert not lease.is_held
    lease.beat()
    assert lease.is_held


def test_a_dead_process_of_this_machine_is_known_at_once(tmp_path: Path) -> None:
    code = (
        "import sys, os, signal; from pathlib import Path\n"
        "from fieldmark.leases import LeaseFolder\n"
        "LeaseFolder(Path(sys.argv[1])).claim('a'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)]).returncode == -9
    assert len(list(tmp_path.iterdir())) == 1
    lease = LeaseFolder(tmp_path).claim("a")
    assert lease is not None and lease.is_held and lease.path.name == "a.1.lease"


def test_a_number_that_was_given_to_another_process_is_not_its_holder(tmp_path: Path) -> None:
    lease = LeaseFolder(tmp_path).claim("a")
    assert lease is not None
    rewrite(lease.path, pid=os.getppid(), born="1")
    assert birth(os.getppid()) and this_place()
    assert LeaseFolder(tmp_path).claim("a") is not None


def test_a_half_written_lease_is_waited_for(tmp_path: Path, clock: HandClock) -> None:
    (tmp_path / "a.0.lease").write_text("")
    folder = LeaseFolder(tmp_path, clock)
    assert folder.claim("a") is None
    clock.t += SILENCE_S + 1
    lease = folder.claim("a")
    assert lease is not None and lease.path.name == "a.1.lease"


def test_of_many_who_take_over_one_gets_it(tmp_path: Path, clock: HandClock) -> None:
    dead = LeaseFolder(tmp_path, clock).claim("a")
    assert dead is not None
    rewrite(dead.path, pid=2**22 + 1, born="1")
    folders = [LeaseFolder(tmp_path, clock) for _ in range(16)]
    with ThreadPoolExecutor(16) as pool:
        leases = [lease for lease in pool.map(lambda own: own.claim("a"), folders) if lease]
    assert len(leases) == 1


CLAIM_ALL = """
import sys; from pathlib import Path
from fieldmark.leases import LeaseFolder
leases = LeaseFolder(Path(sys.argv[1]))
print(*[name for name in map(str, range(200)) if leases.claim(name) is not None], flush=True)
sys.stdin.read()
"""


def test_processes_share_without_overlap(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CLAIM_ALL, str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    workers = [subprocess.Popen(command, **pipes) for _ in range(3)]  # type: ignore[call-overload]
    names = [name for worker in workers for name in worker.stdout.readline().split()]
    for worker in workers:
        worker.communicate("")
    assert sorted(names) == sorted(map(str, range(200)))


def test_leases_beat_while_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fieldmark.leases.BEAT_S", 0.01)
    with LeaseFolder(tmp_path) as folder:
        lease = folder.claim("a")
        assert lease is not None
        while json.loads(lease.path.read_text())["count"] < 3:
            pass
    assert json.loads(lease.path.read_text())["is_free"]


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "l").write_text("a file")
    with pytest.raises(DataError, match="cannot be written"):
        LeaseFolder(tmp_path / "l").claim("a")


def test_free_names_are_found_in_one_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, theirs = LeaseFolder(tmp_path), LeaseFolder(tmp_path)
    held = {name: theirs.claim(name) for name in ("a", "b", "c")}
    assert held["b"] is not None
    theirs.give_up(held["b"], is_done=False)
    looks: list[str] = []
    listed = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: looks.append(path) or listed(path))
    assert mine.free(["a", "b", "c", "d"]) == ["b", "d"]
    assert len(looks) == 1
    assert not mine.is_free("a") and mine.is_free("b")


def test_names_that_begin_alike_are_told_apart(tmp_path: Path) -> None:
    folder = LeaseFolder(tmp_path)
    assert folder.claim("a.1") is not None and folder.claim("a") is not None
    (tmp_path / "a.7.txt").write_text("not a lease")
    (tmp_path / "a.x.lease").write_text("not one either")
    assert sorted(path.name for path in tmp_path.glob("a*.0.lease")) == ["a.0.lease", "a.1.0.lease"]


def test_work_that_was_finished_meanwhile_is_not_taken_over_beside_its_next_holder(
    tmp_path: Path,
) -> None:
    """Another sees a free lease; before it acts, the work is done, and then begun anew."""
    slow, quick, next_one = (LeaseFolder(tmp_path) for _ in range(3))
    first = quick.claim("a")
    assert first is not None
    quick.give_up(first, is_done=False)
    seen = slow._newest("a")
    second = quick.claim("a")
    assert second is not None and second.path.name == "a.1.lease"
    quick.give_up(second, is_done=True)
    anew = next_one.claim("a")
    assert anew is not None and anew.path.name == "a.0.lease"
    assert slow._create("a", seen) is None
    assert slow.claim("a") is None and anew.is_held


def test_who_was_taken_over_from_removes_no_lease_of_others(
    tmp_path: Path, clock: HandClock
) -> None:
    silent, other, third = (LeaseFolder(tmp_path, clock) for _ in range(3))
    old = silent.claim("a")
    assert old is not None and other.claim("a") is None
    clock.t += SILENCE_S + 1
    taken = other.claim("a")
    assert taken is not None
    other.give_up(taken, is_done=True)
    new = third.claim("a")
    assert new is not None and new.path == old.path
    silent.give_up(old, is_done=True)
    assert new.is_held
