"""A real server: does `transformers serve`, which answers one request at a time, get a run through?

A tiny model with random weights behind it says nonsense, which is all right: what counts is that
every question is answered once and that tokens are booked as the server counts them.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from fieldmark.cli import main
from fieldmark.settings import Settings
from fieldmark.store import Store

NEEDED = ("torch", "transformers.cli.serving", "fastapi", "uvicorn", "openai", "accelerate")


def _has(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server in a process of its own."""
    if missing := [module for module in NEEDED if not _has(module)]:
        pytest.skip(f"`transformers serve` needs {', '.join(missing)}")
    from kit.tiny_chat import save_tiny

    folder = tmp_path_factory.mktemp("serve")
    save_tiny("llava", folder / "tiny")
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["serve", "tiny", "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    code = "from transformers.cli.transformers import main; main()"
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, "-c", code, *words],
            cwd=folder, env=os.environ | {"OMP_NUM_THREADS": "1"}, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        _wait_for(f"http://127.0.0.1:{port}/health", server, folder / "log")
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        server.wait(20)


def _wait_for(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until:
        assert server.poll() is None, log.read_text()[-2000:]
        try:
            with urlopen(address, timeout=2):
                return
        except (URLError, TimeoutError, ConnectionError):
            time.sleep(0.3)
    pytest.fail(f"no server after 120 s: {log.read_text()[-2000:]}")


@pytest.fixture
def settings(fresh_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("CHAT_API_KEY", "none is needed")
    return fresh_settings


def ask_server(url: str, world: Path, *flags: str) -> int:
    model = f"chat/custom/tiny?base_url={url}"
    words = ["run", "--model", model, "--data", f"world={world}", "--quiet", *flags]
    return main([*words, "--max-output", "24"])


@pytest.mark.slow
def test_one_at_a_time_is_answered_to_the_end(settings: Settings, url: str, world: Path) -> None:
    """36 questions, of which it takes one at a time, with a timeout of half the run's length."""
    began = time.monotonic()
    assert ask_server(url, world, "--task", "world-species", "--n-test", "6") in (0, 5)
    for_one_s = (time.monotonic() - began) / 6
    timeout_s = max(2.0, 18 * for_one_s)
    flags = ("--task", "world-species", "--seed", "1", "--timeout", f"{timeout_s:.1f}")
    assert ask_server(url, world, *flags, "--answers", "line") in (0, 5)
    with Store.open(settings.store) as store:
        runs = store.runs()
        rows = [row for run in runs for row in store.predictions(run.id).iter_rows(named=True)]
    assert len(runs) == 2 and len(rows) > 24
    facts = [json.loads(row["info"]) for row in rows]
    assert not [row for row in rows if row["outcome"] == "failed"]
    assert all(fact["tokens_out"] <= 24 and fact["tokens_in"] > 0 for fact in facts)
    assert sum(fact["attempts"] for fact in facts) <= 1.2 * len(facts), "hardly any is sent twice"


@pytest.mark.slow
def test_another_model_than_the_one_served_is_told(
    settings: Settings, url: str, world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = f"chat/custom/other?base_url={url}"
    command = ["run", "--model", model, "--task", "world-stage", "--data", f"world={world}"]
    assert main(command) == 4
    assert "pinned to" in capsys.readouterr().err
    assert main(["table"]) != 0, "nothing is recorded"
