"""What a person reads when a command is done, and names of models as people type them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fieldmark.cli import main
from fieldmark.report.table.layout import align


def test_a_run_ends_with_its_scores_and_the_next_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["data", "make", "world", "--size", "80"]) == 0
    capsys.readouterr()
    assert main(["run", "--model", "classical/co*", "--task", "world-stage"]) == 0
    assert main(["run", "--model", "classical/texture", "--task", "world-stage"]) == 0
    told = capsys.readouterr()
    scores = [line.split()[0] for line in told.out.splitlines() if "(n=" in line]
    assert scores == ["classical/colour", "classical/texture"], "each run shows its own"
    assert told.out.splitlines()[-1].startswith(("Best", "No model", "Too close"))
    assert told.err.splitlines()[-2:] == ["next: fieldmark table", "page: fieldmark site report"]
    assert told.err.count("A: could be the best model for this task") == 1, "of the second run"
    sizes = ["--model", "classical/colour", "--task", "world-stage", "--n-train", "12"]
    assert main(["plan", *sizes]) == 0
    assert "time: about " in capsys.readouterr().err, "as long as with all photos, at most"
    assert main(["table"]) == main(["table", "--long"]) == 0
    short, long = capsys.readouterr().out.split("settings=", 1)
    assert "settings=" not in short and long, "signatures are for --long"
    assert main(["run", "--model", "classical/texture", "--task", "world-individuals"]) == 0
    capsys.readouterr()
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["runs", "ls"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_a_model_that_cannot_be_loaded_leaves_no_run_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("timm")
    monkeypatch.chdir(tmp_path)
    assert main(["data", "make", "world", "--size", "80"]) == 0
    models = ["--model", "classical/colour", "--model", "timm/resnet10"]
    assert main(["run", *models, "--task", "world-stage"]) == 5
    assert "'timm/resnet10' is not known. Did you mean 'timm/" in capsys.readouterr().out
    assert main(["table"]) == 0
    assert "resnet10" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("resnet10t", "Did you mean 'timm/resnet10t'?"),
        ("bioclip", "Did you mean 'open-clip/hf-hub:imageomics/bioclip'?"),
        ("runs/ckpt.pth", "timm/NAME?weights=runs/ckpt.pth"),
        ("chat/http://gpu7:8000/v1/m", "An address is chat/custom/MODEL?base_url=ADDRESS."),
        ("classicl/*", "no model fits 'classicl/*'. `fieldmark models --all` lists them."),
    ],
)
def test_names_as_people_type_them(
    name: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--model", name, "--task", "world-stage"]) == 2
    assert words in capsys.readouterr().err


def test_a_search_for_a_model_finds_what_run_takes(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("timm")
    assert main(["models", "resnet10t"]) == 0
    assert "timm/resnet10t" in capsys.readouterr().out
    assert main(["models", "biolcip"]) == 2
    assert "Did you mean 'open-clip/hf-hub:imageomics/bioclip'" in capsys.readouterr().err


def test_models_to_try_come_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models"]) == 0
    few = capsys.readouterr().out.splitlines()
    assert "bioclip-2" in few[1] and len(few) < 15 and not any("chat/" in line for line in few)
    assert main(["models", "--all"]) == 0
    every = [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]]
    first_chat = next(n for n, name in enumerate(every) if name.startswith("chat/"))
    assert len(every) > 200 and all("chat/" in name for name in every[first_chat:])


@pytest.mark.parametrize("words", ["models", "models chat", "tasks", "datasets", "plan"])
def test_lists_fit_80_columns(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Columns give way before a row takes two lines; only long titles go on below."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    names = ["--model", "open-clip/hf-hub:imageomics/bioclip-2", "--task", "world-individuals"]
    assert main([*words.split(), *(names if words == "plan" else ())]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    if words == "plan":
        why = "data/world does not exist. `fieldmark datasets world` says"
        assert why in " ".join(lines[2:]) and len(lines) < 6
    else:
        n_more = sum(line.startswith("  ") for line in lines)
        assert n_more <= len(lines) / 5


def test_rows_too_wide_for_the_screen_have_their_widest_text_above(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Columns in which rows differ stay; numbers are never broken."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    models = ["--model", "open-clip/hf-hub:imageomics/bioclip-2?pretrained=false&size=224"]
    assert main(["plan", *models, "--task", "world-individuals", "--n-train", "20", "-1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = lines.index(models[1])
    assert [line.split()[2] for line in lines[at + 1 : at + 3]] == ["20", "all"]
    assert max(map(len, lines)) <= 80
    long = "m.py:" + "Net" * 20
    body = [[long, "species", "41.7 ± 18.3 (n=24)"], [long, "stage", " 6.2 [0.4, 40.0] (n=16)"]]
    assert align(["model", "task", "accuracy"], body, ["accuracy"], 80) == [
        "model",
        "  task                    accuracy",
        long,
        "  species       41.7 ± 18.3 (n=24)",
        "  stage     6.2 [0.4, 40.0] (n=16)",
    ]


@pytest.mark.parametrize("width", [80, 100])
def test_tables_fit_the_screen_without_breaking_words(width: int) -> None:
    why = "no row of this dataset fits the split that the task names, so nothing is trained"
    row = ["open-clip/hf-hub:imageomics/bioclip-2", "world-species", "1,024", why]
    lines = align(["model", "task", "images", "why"], [row], ["images"], width)
    assert max(map(len, lines)) <= width
    assert set(" ".join(lines).split()) == {
        "model",
        "task",
        "images",
        "why",
        *" ".join(row).split(),
    }
