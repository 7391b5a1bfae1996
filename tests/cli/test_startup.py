"""Do commands that people wait for import only what they need? Seconds: benchmarks/startup.py."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from fieldmark.cli import main
from fieldmark.data import load_dataset
from fieldmark.world import World

PROGRAM = """
import json, sys
from fieldmark.cli import main

heavy = {}
for words in json.loads(sys.argv[1]):
    assert main(words) in (0, None), words
    names = ("sklearn", "scipy", "pandas", "polars", "torch", "pillow_heif", "aiohttp", "altair")
    heavy[words[0]] = [name for name in names if name in sys.modules]
print(json.dumps(heavy))
"""


def imported_by(commands: list[list[str]]) -> dict[str, list[str]]:
    """Heavy packages after each command; one process does them all, the lightest first."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(commands)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    heavy: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return heavy


def test_nothing_is_imported_to_do_nothing(tmp_path: Path) -> None:
    load_dataset("world").make(tmp_path / "world", World(), 60)
    places = ["--results", str(tmp_path / "results"), "--cache", str(tmp_path / "cache")]
    run = ["run", "--model", "classical/colour", "--quiet", "--data", f"world={tmp_path / 'world'}"]
    run += [word for name in ("species", "stage", "night") for word in ("--task", f"world-{name}")]
    assert main([*run, *places]) == 0
    heavy = imported_by([["models"], ["tasks"], [*run, *places]])
    assert heavy == {"models": [], "tasks": [], "run": ["polars"]}
    assert imported_by([["table", *places[:2]]]) == {"table": ["scipy"]}  # its special functions
