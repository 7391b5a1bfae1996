"""What do commands on results say to stores that hold nothing, rubbish, or nothing in common?"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import pytest

import fieldmark
from fieldmark.cli import main
from fieldmark.store import PartResult, Predictions, RunSpec, Score, Store


def write(
    store: Store,
    model: str,
    task: str,
    answers: Sequence[str],
    prefix: str = "i",
    value: float = 0.5,
) -> None:
    """A run that should have answered "fox" to everything."""
    run = store.begin_run(RunSpec(model, task, "probe/x", {"parts": [""]}))
    ids = [f"{prefix}{each:03d}" for each in range(len(answers))]
    store.write_part(run, PartResult(Predictions(ids, ["fox"] * len(answers), list(answers))))
    score = Score("accuracy", value, low=0.1, high=0.9, n=len(answers), is_primary=True)
    store.finish_run(run, [score])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FIELDMARK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FIELDMARK_RESULTS", str(tmp_path / "results"))
    return tmp_path / "results"


@pytest.fixture
def store(folder: Path):
    with Store.open(folder / "fieldmark.db") as opened:
        yield opened


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    told = capsys.readouterr().err
    assert told.startswith("fieldmark: ") and told.count("\n") == 1
    return told


COMMANDS = [
    ["table"],
    ["compare", "a", "b"],
    ["compare", "--published"],
    ["plot", "forest"],
    ["export", "csv"],
    ["rescore"],
    ["site", "out"],
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_missing_store_is_one_line_and_exit_3(words, capsys) -> None:
    assert main(words) == 3
    assert "does not exist" in one_line(capsys)


@pytest.mark.parametrize("words", [*COMMANDS, ["serve"]], ids=" ".join)
def test_a_file_that_is_no_store_is_one_line_and_exit_3(words, folder, capsys) -> None:
    if words == ["serve"]:
        pytest.importorskip("starlette")
    folder.mkdir()
    (folder / "fieldmark.db").write_text("this is a diary, not a database")
    assert main(words) == 3
    assert "is not a fieldmark store" in one_line(capsys)


def test_models_without_common_items_cannot_be_compared(store, capsys) -> None:
    write(store, "m/one", "t", ["fox"] * 20)
    write(store, "m/two", "t", ["hare"] * 20, prefix="other")
    assert main(["compare", "one", "two"]) == 3
    assert "no photo in common" in one_line(capsys)


def test_one_task_without_common_items_shows_dashes_beside_the_others(store, capsys) -> None:
    for task, prefix in (("same", "i"), ("apart", "other")):
        write(store, "m/one", task, ["fox"] * 20)
        write(store, "m/two", task, ["hare"] * 20, prefix=prefix)
    assert main(["compare", "one", "two"]) == 0
    told = capsys.readouterr()
    assert "nan" not in told.out and "apart: no photo that both answered" in told.err


def test_an_undefined_score_is_null_in_json_and_a_dash_on_screen(store, capsys) -> None:
    for model in ("m/one", "m/two"):
        write(store, model, "t", ["fox", "hare"] * 10, value=float("nan"))
    assert main(["compare", "one", "two", "--json"]) == 0
    told = capsys.readouterr().out
    assert "NaN" not in told and json.loads(told)["tasks"][0]["score_a"] is None
    assert main(["compare", "one", "two"]) == 0
    assert "nan" not in capsys.readouterr().out


def test_equal_models_get_no_recommendation(store, capsys) -> None:
    for model in ("m/a", "m/b", "m/c"):
        write(store, model, "t", ["hare"] * 30, value=0.0)
    assert main(["table"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("Too close to call: m/a, m/b and m/c share the top score.\n")
    write(store, "m/c", "u", ["hare"] * 15 + ["fox"] * 15, value=0.5)
    for model in ("m/a", "m/b"):
        write(store, model, "u", ["hare"] * 14 + ["fox"] * 16, value=16 / 30)
    assert main(["table", "--task", "u"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert told.startswith(
        "Too close to call: m/a and m/b share the top score, but m/c could be as good."
    )


def test_json_rows_carry_the_rank_over_tasks(store, capsys) -> None:
    for task in ("s", "t", "u"):
        write(store, "m/good", task, ["fox"] * 40, value=0.9)
        write(store, "m/bad", task, ["hare"] * 36 + ["fox"] * 4, value=0.1)
    assert main(["table", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    ranks = {row["model"]: (row["rank_low"], row["rank_high"]) for row in rows}
    assert ranks == {"m/good": (1, 1), "m/bad": (2, 2)}
    assert {row["may_be_best_overall"] for row in rows if row["model"] == "m/good"} == {True}


def test_huge_names_become_files_that_every_system_takes(store, folder, capsys) -> None:
    names = [f"m/{'蝙蝠' * 80}{end}" for end in ("a", "b")]
    for name in names:
        write(store, name, "t", ["fox"] * 10)
    assert main(["export", "card", "--out", "cards"]) == 0
    files = list(Path("cards").iterdir())
    assert len(files) == 2 and all(len(each.name.encode()) < 150 for each in files)


def test_runs_without_a_defined_score_say_why_nothing_is_exported(store, capsys) -> None:
    write(store, "m/one", "rarespecies", ["fox"] * 10, value=float("nan"))
    assert main(["export", "eval-results", "--out", "records"]) == 3
    assert "none of these runs has a defined score" in one_line(capsys)


def test_a_name_full_of_signs_names_itself(store, capsys) -> None:
    odd = 'm/"quoted" & <b>[x]*?'
    write(store, odd, "t[1]", ["fox"] * 10)
    write(store, "m/other", "t[1]", ["hare"] * 10)
    assert main(["table", "--model", odd, "--task", "t[1]", "--json"]) == 0
    assert [row["model"] for row in json.loads(capsys.readouterr().out)] == [odd]
    assert main(["compare", odd, "m/other"]) == 0


@pytest.fixture(scope="module")
def uninstalled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a source tree: all packages of this one, without our own metadata."""
    packages = tmp_path_factory.mktemp("packages")
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not path.name.startswith(("fieldmark-", "_editable")):
            (packages / path.name).symlink_to(path)
    source = Path(fieldmark.__file__).parents[1]
    return os.environ | {"PYTHONPATH": f"{source}{os.pathsep}{packages}"}


ELSEWHERE = ("--version", "doctor", "compare a b", "site out")


@pytest.mark.parametrize(
    "words",
    [
        ["table"],
        *(pytest.param(words.split(), marks=pytest.mark.slow) for words in ELSEWHERE),
    ],
)
def test_commands_work_from_a_source_tree(store, uninstalled, words: list[str]) -> None:
    for model in ("a", "b"):
        write(store, model, "t", ["fox", "owl"] * 10)
    command = [sys.executable, "-S", "-m", "fieldmark", *words]
    done = subprocess.run(command, env=uninstalled, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    if words[0] in ("--version", "doctor"):
        assert re.search("^fieldmark +unknown", done.stdout, re.MULTILINE)
