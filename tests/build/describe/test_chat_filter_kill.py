"""Is a paid answer ever asked for twice, or a text lost, when the process is killed?"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest

from fieldmark.chat import Journal, MockScript, MockServer
from kit import forked
from kit.chat import running

N, KILLS, CONCURRENCY = 600, 8, 8
HERE = Path(__file__).parent


def start(url: str, journal: Path, out: Path) -> forked.Popen:
    script = str(HERE / "filter_process.py")
    command = [sys.executable, script, url, str(journal), str(N), str(out)]
    return forked.Popen(command, env=dict(os.environ))


def recorder() -> MockServer:
    server = MockServer(MockScript(skill=0.9, p_invent=0.3, latency_s=0.004))
    server.is_recording = True
    return server


@pytest.mark.slow
def test_kill_nine_loses_no_text_and_pays_for_none_twice(tmp_path: Path) -> None:
    server, killed, calm = recorder(), tmp_path / "killed.json", tmp_path / "calm.json"
    with running(server) as url:
        for kill in range(KILLS):
            process = start(url, tmp_path / "journal", killed)
            bound = (kill + 1) * N // KILLS
            while server.counts.n_requests < bound and process.poll() is None:
                time.sleep(0.002)
            assert process.poll() is None, "it was killed in the middle of its work"
            process.kill()
            process.wait()
        with Journal(tmp_path / "journal") as journal:
            kept = len(journal)
        before = server.counts.n_requests
        assert kept >= before - KILLS * CONCURRENCY, "only what was in flight is lost"
        assert start(url, tmp_path / "journal", killed).wait() == 0
        with Journal(tmp_path / "journal") as journal:
            whole = len(journal)
        assert server.counts.n_requests - before == whole - kept, "no kept answer was asked again"
    with running(recorder()) as url:
        assert start(url, tmp_path / "calm", calm).wait() == 0
    results = json.loads(killed.read_text())
    assert len(results) == N and killed.read_bytes() == calm.read_bytes()
    assert whole > N and any(spans[-1] for spans in results.values()), "some were asked again"
