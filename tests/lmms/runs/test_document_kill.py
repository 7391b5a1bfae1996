"""Is a document that was answered ever asked again after the process was killed?"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from fieldmark.chat import MockScript, MockServer
from fieldmark.store import RunFilter, Store
from kit import forked
from kit.chat import running
from kit.documents import write_jsonl

N, KILLS, CONCURRENCY = 300, 3, 8
TASK = """
task: many
dataset_path: json
dataset_kwargs: {data_files: rows.jsonl}
test_split: train
doc_to_text: "What comes after {{n}}?"
doc_to_target: "{{n + 1}}"
"""


def start(folder: Path, url: str, results: str) -> forked.Popen:
    command = [
        sys.executable, "-m", "fieldmark", "run", "--task", "task.yaml", "--quiet",
        "--model", f"chat/mock/wren?base_url={url}", "--results", results,
        "--concurrency", str(CONCURRENCY),
    ]  # fmt: skip
    environment = {**os.environ, "FIELDMARK_CACHE": str(folder / "cache")}
    return forked.Popen(command, cwd=folder, env=environment)


def stored(path: Path) -> pl.DataFrame:
    with Store.open(path / "fieldmark.db", read_only=True) as store:
        (run,) = store.runs(RunFilter(states=("done",)))
        return store.predictions(run.id).select("id", "target", "prediction", "outcome", "score")


@pytest.mark.slow
def test_killed_runs_go_on_where_they_stood(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "rows.jsonl", [{"n": n} for n in range(N)])
    (tmp_path / "task.yaml").write_text(TASK)
    right = {f"What comes after {n}?": str(n + n % 2) for n in range(N)}
    server = MockServer(MockScript(latency_s=0.02), answers=right)
    server.is_recording = True
    with running(server) as url:
        for kill in range(KILLS):
            process = start(tmp_path, url, "killed")
            while server.counts.n_requests < (kill + 1) * N // (KILLS + 1):
                assert process.poll() is None, "it was killed in the middle of its work"
                time.sleep(0.005)
            process.kill()
            process.wait()
        assert start(tmp_path, url, "killed").wait() == 0
        n_asked = server.counts.n_requests
        assert n_asked <= N + KILLS * 2 * CONCURRENCY, "only what was in flight is asked again"
        assert start(tmp_path, url, "calm").wait() == 0
    killed, calm = stored(tmp_path / "killed"), stored(tmp_path / "calm")
    assert killed.equals(calm) and len(killed) == N
    assert killed["score"].sum() == N // 2
