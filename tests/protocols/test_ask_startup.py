"""Does asking load only what it needs before its first request?"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kit.made import make_dataset

PROGRAM = """
import json, os, sys
from fieldmark.chat.send import http_client
from fieldmark.cli import main

async def send(self, *_, **__):
    heavy = [name for name in ("sklearn", "scipy.stats", "pandas", "torch") if name in sys.modules]
    print(json.dumps(heavy), flush=True)
    os._exit(0)

http_client.HttpClient.send = send
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "more"),
    [
        ("world-species", ("--n-train", "3")),
        ("world-stage", ("--circular",)),
        ("beluga", ()),
        ("fishvista", ()),
        ("inquire-rerank", ()),
    ],
)
def test_nothing_heavy_is_imported_before_the_first_request(
    tmp_path: Path, task: str, more: tuple[str, ...]
) -> None:
    name = task.partition("-")[0]
    make_dataset(name, tmp_path / "data", 60)
    words = ["run", "--model", "chat/mock/wren", "--task", task, *more, "--n-test", "24"]
    words += ["--data", f"{name}={tmp_path / 'data'}", "--results", str(tmp_path / "results")]
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, timeout=300,
        check=False, cwd=tmp_path,
    )  # fmt: skip
    assert ran.returncode == 0 and ran.stdout, ran.stderr
    assert json.loads(ran.stdout) == []
