"""The chain from names to a trained model: every `next:` that a command prints runs when pasted."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

from kit import forked
from kit.made import make_dataset

pytest.importorskip("torch")


def pasted(command: str, folder: Path) -> tuple[list[str], str]:
    """What a command writes, and the next one that it names."""
    script = Path(sys.executable).with_name("fieldmark")
    words = [script, *shlex.split(command)[1:]]
    done = forked.run(words, folder, os.environ | {"FIELDMARK_OFFLINE": "1", "COLUMNS": "400"})
    lines = (done.stdout + done.stderr).splitlines()
    assert done.returncode == 0, f"{command}\n{lines}"
    named = [line.removeprefix("next: ") for line in lines if line.startswith("next: ")]
    return lines, named[0] if named else ""


@pytest.mark.slow
def test_every_next_command_runs_when_pasted(tmp_path: Path) -> None:
    make_dataset("world", tmp_path / "data" / "world", 60)
    dump = "--dump data/world/wiki.xml.bz2"
    command = f"fieldmark describe data/world/species.csv --out words {dump}"
    steps: list[str] = []
    seen: dict[str, list[str]] = {}
    while command and len(steps) < 9:
        steps.append(" ".join(command.split()[1:3]))
        seen[steps[-1]], command = pasted(command, tmp_path)
        if "train tiny" in command:
            command = command.replace("--set ", "--set train.steps=2 ")
    assert steps == [
        "describe data/world/species.csv", "shards make", "shards check", "caption shards",
        "train tiny", "train tiny", "run --model", "table",
    ]  # fmt: skip
    card = (tmp_path / "runs" / "try" / "model" / "README.md").read_text(encoding="utf-8")
    assert "- datasets: world\n" in card
    assert "written by chat/mock/wren (a mock that saw no photo)\n" in card
    assert 'create_model_and_transforms("local-dir:runs/try/model")' in card
    names = next(line for line in seen["shards check"] if "names alone" in line)
    pasted(names.partition(": ")[2], tmp_path)


def test_drawn_data_lead_to_a_run(tmp_path: Path) -> None:
    _, command = pasted("fieldmark data make world --size 24", tmp_path)
    assert command == "fieldmark run --task world-species --model classical/colour"
    assert pasted(command, tmp_path)[1] == "fieldmark table"
    assert pasted("fieldmark datasets world", tmp_path)[1] == "fieldmark data make world"
    assert pasted("fieldmark datasets newt", tmp_path)[1] == "fieldmark data get newt"
