"""Does fieldmark read tasks as lmms-eval's own classes do?

These run from the checkout in a process of their own, with stand-ins for what runs models.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lmms.families.kit import CHECKOUT

pytestmark = [
    pytest.mark.skipif(not CHECKOUT, reason="FIELDMARK_LMMS_EVAL names no checkout"),
]
BROKEN = {"plm_videobench/rcap/rcap_test.yaml"}
"""an entry of its `metric_list` is empty: upstream fails on it when the task is made"""


def differences(what: str, folder: Path) -> tuple[int, list[list[str]]]:
    """How many values were compared, and those that differ: where, what, theirs, ours."""
    environment = {
        **os.environ,
        "FIELDMARK_LMMS_EVAL": CHECKOUT,
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    done = subprocess.run(
        [sys.executable, "-m", "lmms.families.compare_upstream", what],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    return found["n_compared"], found["different"]


def test_every_field_of_every_task(tmp_path: Path) -> None:
    """1,667 tasks: 42 fields each, and what eight models are given."""
    n_compared, found = differences("tasks", tmp_path)
    assert n_compared > 1600 * 40
    assert {file for file, what, *_ in found if what == "cannot be read"} <= BROKEN
    assert [each for each in found if each[0] not in BROKEN] == []


def test_expectations_of_the_families_are_upstreams(tmp_path: Path) -> None:
    """What these tests expect of us is what the real classes give."""
    n_compared, found = differences("families", tmp_path)
    assert n_compared > 500
    assert found == []
