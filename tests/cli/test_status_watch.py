"""A log is one key away from the table of steps."""

from __future__ import annotations

import os
import pty
import select
import sys
from pathlib import Path

import pytest

from fieldmark.cli import main
from kit.blobs import make_blobs


def read_until(terminal: int, word: str) -> str:
    text = ""
    while word not in text:
        ready, _, _ = select.select([terminal], [], [], 60)
        assert ready, f"{word!r} is not in {text!r}"
        text += os.read(terminal, 4096).decode("utf-8", "replace")
    return text


@pytest.mark.slow
def test_a_digit_shows_a_log_and_q_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_blobs(tmp_path, monkeypatch)
    run = ["run", "--model", "classical/colour", "--task", "blobs.yaml", "--quiet"]
    assert main([*run, "--on", "local", "--jobs", "1"]) == 0
    process, terminal = pty.fork()
    if not process:
        command = [sys.executable, "-m", "fieldmark", "jobs", "--watch", "--all"]
        os.execv(sys.executable, command)
    try:
        table = read_until(terminal, "q to leave")
        assert "embed" in table and "done" in table
        os.write(terminal, b"2")
        log = read_until(terminal, "any key goes back")
        assert "classical/colour" in log and "run 1 of 1: " in log
        os.write(terminal, b" ")
        read_until(terminal, "q to leave")
        os.write(terminal, b"q")
        _, status = os.waitpid(process, 0)
        process = 0
        assert os.waitstatus_to_exitcode(status) == 0
    finally:
        if process:
            os.kill(process, 9)
            os.waitpid(process, 0)
        os.close(terminal)
