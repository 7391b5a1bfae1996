"""A run whose process died out of sight: in a container, on another machine."""

from __future__ import annotations

import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from fieldmark.cli import main
from fieldmark.store import Store, claims
from kit.blobs import answers, make_blobs, n_lines
from kit.slurm import wait_until

CONTAINER = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]


@pytest.mark.slow
@pytest.mark.skipif(
    not shutil.which("unshare") or subprocess.run([*CONTAINER, "true"]).returncode != 0,
    reason="needs a process namespace of its own",
)
def test_what_died_in_a_container_is_taken_over_by_the_same_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Defect K3: the same command ended with 5, and asked for `runs free`."""
    place = make_blobs(tmp_path, monkeypatch)
    run = ["run", "--model", "m.py:Slow", "--task", "blobs.yaml"]
    assert main([*run, "--results", "here", "--cache", "other"]) == 0
    monkeypatch.setenv("EMBED_PAUSE", "0.2")
    n_before = n_lines(place / "log")
    killed = subprocess.Popen([*CONTAINER, sys.executable, "-m", "fieldmark", *run], cwd=place)
    wait_until(lambda: claimed(place) and n_lines(place / "log") > n_before, "its first work")
    killed.kill()
    killed.wait()
    assert claimed(place), "the claim holds: nobody sees that the process is gone"
    monkeypatch.setattr(claims, "SILENCE", timedelta(seconds=3))
    assert main(run) == 0
    assert not claimed(place)
    assert answers(place / "results") == answers(place / "here")


def claimed(place: Path) -> set[str]:
    path = place / "results" / "fieldmark.db"
    if not path.is_file():
        return set()
    with Store.open(path, read_only=True) as store:
        return set(store.claims())
