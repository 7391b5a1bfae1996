"""The pins in pyproject.toml are those of the constraints file, and name no registry."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_both_lists_of_pins_are_the_same() -> None:
    pinned = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["uv"]
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert pinned["constraint-dependencies"] == lines
    assert len(lines) > 50


def test_pins_are_versions_only() -> None:
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        name, equals, version = line.partition(" ;")[0].partition("==")
        assert name and equals and version and "/" not in line, line


def test_the_lock_file_stays_out() -> None:
    assert "uv.lock" in (ROOT / ".gitignore").read_text().splitlines()
