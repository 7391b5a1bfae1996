"""A protocol is one module: dropped into a folder, it is everywhere a user looks."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from fieldmark.protocols import Protocol, protocols
from kit import forked
from kit.made import make_dataset

TASK = """\
task: ponds
title: What lives in the pond?
dataset: folder
metric: accuracy
toy: {says: frog}
probe: {classifier: ridge}
"""


class Pond:
    """A folder of a user's, and the commands typed there; each is a process of its own."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def type(self, *words: str, code: int = 0) -> str:
        env = os.environ | {
            "FIELDMARK_PROTOCOL_PATH": str(self.place / "protocols"),
            "FIELDMARK_CACHE": str(self.place / "cache"),
            "COLUMNS": "100",
        }
        done = forked.run(
            [sys.executable, "-m", "fieldmark", *words],
            cwd=self.place, env=env, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    def grid(self, *more: str) -> list[str]:
        base = ["--task", "ponds.yaml", "--model", "classical/colour", "--data", "ponds=photos"]
        return [*base, *more]


@pytest.fixture(scope="module")
def pond(tmp_path_factory: pytest.TempPathFactory) -> Pond:
    place = tmp_path_factory.mktemp("pond")
    (place / "protocols").mkdir()
    shutil.copy(Path(__file__).with_name("toy.py"), place / "protocols" / "toy.py")
    (place / "ponds.yaml").write_text(TASK)
    make_dataset("world", place / "made", 24)
    pictures = sorted((place / "made").rglob("*.jpg"))[:24]
    for number, picture in enumerate(pictures):
        name = ("frog", "newt", "toad")[number % 3]
        split = "train" if number < 12 else "test"
        target = place / "photos" / split / name / f"{number}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(picture, target)
    return Pond(place)


def test_an_author_writes_at_most_fourteen_members() -> None:
    written = {name for name in vars(Protocol) if not name.startswith("_")}
    assert written == {
        "name", "version", "needs", "training", "Settings", "Block", "reads", "problems",
        "why_not", "prepare", "answer", "estimate", "score", "reread",
    }  # fmt: skip
    text = Path(__file__).with_name("toy.py").read_text()
    assert len(text.splitlines()) <= 40, "the smallest protocol is short"
    for protocol in protocols().values():
        further = {name for name in vars(type(protocol)) if not name.startswith("_")}
        assert further <= written, "what a protocol says besides, nobody asks for"


def test_help_shows_its_flags(pond: Pond) -> None:
    assert "--help-all` shows" in pond.type("run", "--help")
    text = pond.type("run", "--help-all")
    assert "--toy KEY=VALUE" in text and "`toy` block" in text
    assert "--whisper" in text and "says nothing at all" in text


@pytest.mark.slow
def test_plan_run_table_and_page_know_it(pond: Pond) -> None:
    planned = json.loads(pond.type("plan", *pond.grid("--json")))["jobs"]
    assert [(job["protocol"], job["status"]) for job in planned] == [
        ("toy", "run"),
        ("probe", "run"),
    ]
    pond.type("run", *pond.grid())
    rows, _ = json.JSONDecoder().raw_decode(pond.type("table", "--json"))  # notes follow it
    assert {row["protocol"] for row in rows} == {"toy", "probe/ridge"}
    (toy,) = (row for row in rows if row["protocol"] == "toy")
    assert toy["value"] == pytest.approx(1 / 3)
    pond.type("site", "page")
    text = "".join(path.read_text() for path in (pond.place / "page").rglob("*.js"))
    assert '"toy"' in text


@pytest.mark.slow
def test_its_settings_block_and_code_are_part_of_a_run(pond: Pond) -> None:
    def status(*more: str) -> str:
        words = pond.grid("--protocol", "toy", "--json", *more)
        (job,) = json.loads(pond.type("plan", *words))["jobs"]
        return str(job["status"])

    pond.type("run", *pond.grid("--protocol", "toy"))
    assert status() == "done"
    assert status("--toy", "newt") == status("--toy", "says=toad") == "run"
    assert status("--whisper") == "run"
    file = pond.place / "protocols" / "toy.py"
    text = file.read_text()
    file.write_text(text.replace("pl.lit(1.0)", "pl.lit(0.5)"))
    assert status() == "run", "an edited protocol is another one"
    file.write_text(text)
    assert status() == "done"
    grid = pond.place / "grid.toml"
    grid.write_text(
        'models = ["classical/colour"]\ntasks = ["ponds.yaml"]\nprotocol = "toy"\n'
        'whisper = [true, false]\ntoy = [{says = ["newt", "toad"]}]\n'
        '[data]\nponds = "photos"\n'
    )
    jobs = json.loads(pond.type("plan", "grid.toml", "--json"))["jobs"]
    assert len(jobs) == 4


@pytest.mark.slow
def test_slips_are_told(pond: Pond) -> None:
    assert "no flag --wisper" in pond.type("run", *pond.grid("--wisper"), code=2)
    wrong = pond.type("plan", *pond.grid("--toy", "sais=newt"), code=2)
    assert "sais" in wrong and "Did you mean 'says'" in wrong
    assert "'tou'" in pond.type("plan", *pond.grid("--protocol", "tou"), code=2)
    (pond.place / "bad.yaml").write_text(TASK.replace("says: frog", "say: frog"))
    assert "bad.yaml:5" in pond.type(
        "plan", "--task", "bad.yaml", "--model", "classical/colour", code=2
    )


def test_a_file_that_is_no_protocol_is_told_with_its_place(pond: Pond) -> None:
    file = pond.place / "protocols" / "odd.py"
    try:
        file.write_text("x = 1\n")
        assert f"{file}: protocol 'odd' has no PROTOCOL" in pond.type("run", "--help", code=2)
        file.write_text((pond.place / "protocols" / "toy.py").read_text())
        assert f"{file}: protocol 'odd' must have" in pond.type("run", "--help", code=2)
    finally:
        file.unlink()
