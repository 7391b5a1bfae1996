"""Smoke tests: does every script of `benchmarks/` still run through, at the toy size of `--quick`?

What a benchmark compares must agree at that size too; no bar is looked at.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
SCRIPTS = sorted(path.stem for path in FOLDER.glob("[!_]*.py"))
RINGS = {"cluster": pytest.mark.external}
"""those that another ring than the slow one runs"""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=RINGS.get(name, pytest.mark.slow)) for name in SCRIPTS]
)
def test_a_benchmark_runs_and_prints_its_figure_last(name: str) -> None:
    """A plain process: its start (threads before numpy, `sys.path`) is part of the script."""
    # Not `tmp_path`, whose name is too long for the sockets that Chromium makes in TMPDIR.
    with tempfile.TemporaryDirectory() as folder:
        own = {"OMP_NUM_THREADS": "1", "TMPDIR": folder, "FIELDMARK_CACHE": f"{folder}/cache"}
        done = subprocess.run(
            [sys.executable, FOLDER / f"{name}.py", "--quick"],
            cwd=folder, env=os.environ | own, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    if last.startswith("skipped: "):
        pytest.skip(last.removeprefix("skipped: "))
    figure, is_quick, _ = last.rpartition(" (quick: toy sizes, no bars)")
    assert is_quick, f"{last}: printed at another size than --quick"
    assert figure.startswith(f"{name}: ") and any(letter.isdigit() for letter in figure), last
