"""Do the files under `examples/` plan, stand in the docs, and hold every published table?"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fieldmark.cli import main
from fieldmark.experiments import read_grid
from fieldmark.report.compare.published import Published, published

ROOT = Path(__file__).parents[2]
OFFLINE = ROOT / "examples" / "small-data.toml"
TABLES = sorted(path for path in OFFLINE.parent.glob("*.toml") if path != OFFLINE)


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_the_head_of_a_published_table_says_what_it_takes(path: Path) -> None:
    head = path.read_text().partition("\n\n")[0]
    assert f"#   fieldmark run {path.name}" in head
    for word in ("Expected", "Hours: ", "Disk: ", "Dollars: "):
        assert f"\n# {word}" in head, word
    assert f"`{path.name}`" in (ROOT / "docs" / "reproduce.md").read_text()


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_a_published_table_is_planned(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["plan", str(path)]) == 0
    n_jobs = len(read_grid(path).jobs)
    assert re.search(rf"(?m)^{n_jobs} jobs?: ", capsys.readouterr().err)


def test_every_published_number_has_an_experiment() -> None:
    """Of a model and a task that are ours; those known to be of another question are left out."""
    jobs = [job for path in TABLES for job in read_grid(path).jobs]
    planned = {(job.model, job.task_name, job.protocol) for job in jobs}
    missing = {
        (number.models[0], number.task, number.protocol)
        for number in published()
        if number.models and number.task and not _is_of_another_question(number)
    }
    # A full ranking needs photos that were embedded by the very model: its file holds one model.
    missing = {entry for entry in missing - planned if entry[1] != "inquire-fullrank"}
    assert missing == set()


def _is_of_another_question(number: Published) -> bool:
    return "discover new categories" in number.faulty


def test_the_small_data_example_stands_in_the_docs() -> None:
    """Its commands are run with the page it stands on."""
    block = f'title="{OFFLINE.name}"\n{OFFLINE.read_text()}```'
    assert sum(block in page.read_text() for page in (ROOT / "docs").glob("*.md")) == 1


def test_the_small_data_example_starts_probes_at_one_and_chat_models_at_none() -> None:
    jobs = read_grid(OFFLINE).jobs
    shots = {job.protocol: set[int]() for job in jobs}
    for job in jobs:
        shots[job.protocol].add(job.draw.n_train)
    assert shots == {"ask": {0, 1, 3, 10, 30, 100}, "probe": {1, 3, 10, 30, 100}}
