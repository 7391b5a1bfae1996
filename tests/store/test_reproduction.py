"""The record for doing a run again, with and without git, and at no cost at import."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from fieldmark.store import reproduction_record
from fieldmark.store.records import git_state


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", *who, *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "a.txt").write_text("a")
    git(tmp_path, "add", "a.txt")
    git(tmp_path, "commit", "--quiet", "-m", "first")
    return tmp_path


def test_the_record_holds_what_is_needed(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    record = reproduction_record(["fieldmark", "run"], {"seed": 3}, data="abc", fingerprint="f")
    assert record["command"] == ["fieldmark", "run"] and record["config"] == {"seed": 3}
    assert record["versions"]["python"] == platform.python_version()
    assert record["versions"]["numpy"] == version("numpy")
    assert record["versions"]["fieldmark"] == version("fieldmark")
    assert (record["data"], record["fingerprint"]) == ("abc", "f")
    assert record["host"] and record["platform"] and record["cpu_count"] >= 1
    assert json.loads(json.dumps(record)) == record


def test_the_commit_and_changes_are_recorded(checkout):
    commit = git(checkout, "rev-parse", "HEAD")
    assert git_state(checkout) == {"commit": commit, "is_dirty": False}
    (checkout / "new.txt").write_text("not tracked")
    assert git_state(checkout) == {"commit": commit, "is_dirty": False}
    (checkout / "a.txt").write_text("changed")
    assert git_state(checkout) == {"commit": commit, "is_dirty": True}


def test_no_checkout_and_no_git_are_fine(tmp_path, checkout, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    plain = tmp_path.parent / "plain"
    plain.mkdir()
    assert git_state(plain) is None
    git(plain, "init", "--quiet")
    assert git_state(plain) is None, "a checkout without a commit"
    monkeypatch.setenv("PATH", str(plain))
    assert git_state(checkout) is None


def test_defect_biobench_import_outside_a_git_checkout(tmp_path):
    """The hash was read when a class was defined, so that importing failed outside a checkout."""
    code = "import fieldmark.store as s, json; print(json.dumps(s.reproduction_record([])['git']))"
    env = {**os.environ, "PATH": str(tmp_path), "GIT_DIR": str(tmp_path / "none")}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout.strip()) == (0, "null"), done.stderr


def test_torch_is_not_imported_to_ask_for_it(tmp_path):
    code = (
        "import sys, fieldmark.store as s; record = s.reproduction_record([]); "
        "sys.exit('torch' in sys.modules or 'torch' in record['versions'] or record['gpus'] != [])"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path).returncode == 0
