"""Is a paid answer ever asked twice, or lost, when the process is killed?"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from pathlib import Path

import pytest

from fieldmark.chat import Journal, MockScript, MockServer
from kit import forked
from kit.chat import make_jpegs, running

N, KILLS, CONCURRENCY = 2000, 10, 16
HERE = Path(__file__).parent


def start(url: str, journal: Path, out: Path) -> forked.Popen:
    command = [sys.executable, str(HERE / "asker.py"), url, str(journal), str(N), str(out)]
    path = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    return forked.Popen(command, env={**os.environ, "PYTHONPATH": path})


def recorder() -> MockServer:
    labels = {
        hashlib.sha256(photo).hexdigest(): ("wren", "robin")[i % 2]
        for i, photo in enumerate(make_jpegs(N))
    }
    server = MockServer(MockScript(skill=0.7, latency_s=0.003), labels)
    server.is_recording = True
    return server


@pytest.mark.slow
def test_kill_nine_ten_times_asks_nothing_twice_but_what_was_in_flight(tmp_path: Path) -> None:
    server = recorder()
    with running(server) as url:
        for kill in range(KILLS):
            process = start(url, tmp_path / "journal", tmp_path / "never.json")
            bound = (kill + 1) * (N - 100) // KILLS
            while server.counts.n_requests < bound and process.poll() is None:
                time.sleep(0.002)
            assert process.poll() is None, "it was killed in the middle of its work"
            process.kill()
            process.wait()
        with Journal(tmp_path / "journal") as journal:
            kept = len(journal)
        before = server.counts.n_requests
        assert kept >= before - KILLS * CONCURRENCY, "only what was in flight is lost"
        assert start(url, tmp_path / "journal", tmp_path / "killed.json").wait() == 0
        assert server.counts.n_requests - before == N - kept, "no kept answer was asked again"
    asked = server.counts.n_requests
    assert len(server.asked) == N and asked - N <= KILLS * CONCURRENCY
    calm = recorder()
    with running(calm) as url:
        assert start(url, tmp_path / "calm", tmp_path / "calm.json").wait() == 0
    killed, undisturbed = (
        json.loads((tmp_path / f"{name}.json").read_text()) for name in ("killed", "calm")
    )
    assert len(killed) == N and killed == undisturbed
    assert len({tuple(each) for each in killed.values()}) == 2
