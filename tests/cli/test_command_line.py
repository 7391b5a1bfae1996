"""What a person types first: help, lists, slips, JSON."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import tyro

from fieldmark.cli import commands, main
from fieldmark.cli.answer.run import make_args
from fieldmark.cli.grid_flags import given_settings
from fieldmark.files import FileSystem

HEAVY = ("torch", "numpy", "polars", "sklearn", "scipy", "PIL", "pydantic", "yaml", "rich")


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["tasks"],
        ["models"],
        ["tasks", "--json"],
        *(
            pytest.param(
                [*name.split(), "--help"],
                marks=() if name in ("run", "try", "table", "train") else pytest.mark.slow,
            )
            for name in commands()
        ),
    ],
    ids=" ".join,
)
def test_nothing_heavy_is_imported_to_help_or_list(words: list[str]) -> None:
    code = (
        "import sys; from fieldmark.cli import main; main(sys.argv[1:]);"
        "print('|'.join(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=True
    )
    loaded = set(done.stderr.splitlines()[-1].split("|"))
    assert not loaded & set(HEAVY)
    assert done.stdout


def test_every_command_has_examples_and_documented_flags(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in commands():
        assert main([*name.split(), "--help"]) == 0
        told = capsys.readouterr().out
        assert f"usage: fieldmark {name}" in told
        assert "examples:" in told


def test_the_first_screen_has_six_groups_and_a_dozen_commands(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--help"]) == 0
    first = capsys.readouterr().out
    assert main(["--help-all"]) == 0
    whole = capsys.readouterr().out
    assert len(re.findall(r"^\w.*:$", first, re.M)) == 6
    shown = re.findall(r"^  (\w+) ", first, re.M)
    assert len(shown) == 12 and set(shown) <= {name.split()[0] for name in commands()}
    assert re.findall(r"^  (\w+(?: \w+)?)  ", whole, re.M) == list(commands())
    assert max(map(len, f"{first}{whole}".splitlines())) <= 80


def test_run_shows_the_flags_people_use_and_the_rest_on_request(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def shown(flag: str) -> set[str]:
        assert main(["run", flag]) == 0
        return set(re.findall(r"^. (?:-h, )?(--[a-z][a-z-]+)", capsys.readouterr().out, re.M))

    few, every = shown("--help"), shown("--help-all")
    assert few < every and len(few) <= 20
    assert {"--model", "--n-train", "--max-usd", "--max-tokens"} <= few
    assert {"--exclude-tasks", "--temp", "--threads"} <= every - few


def test_a_command_shows_the_flags_that_act_on_it(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["table"], ["compare"], ["models"], ["runs", "ls"]):
        assert main([*words, "--help"]) == 0
        told = capsys.readouterr().out
        nothing = ("device", "precision", "decode", "threads", "batch-size", "bad-images", "cache")
        assert not [flag for flag in nothing if f"--{flag} " in told]
    assert main(["predict", "m", "photos", "--bad-images", "fail"]) == 2  # it always goes on
    assert "has no flag --bad-images" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["run", "try", "jobs ls", "data make", "tasks"])
def test_help_is_read_at_80_columns(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*name.split(), "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    commands = [line for line in lines if line.startswith("  ")]  # to be copied whole
    assert max(len(line) for line in lines if line not in commands) <= 80
    assert not [line for line in lines if re.fullmatch(r"│ +│", line)]
    text = "\n".join(lines)
    assert not [noise for noise in ("(default", "{None}", " STR ", " INT ") if noise in text]


def test_other_packages_add_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lab_tools.py").write_text(
        '"""Count owls."""\nfrom dataclasses import dataclass\n@dataclass(frozen=True)\n'
        "class Args:\n    n: int = 2\ndef run(args):\n    print(args.n, 'owls')\n    return 0\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    point = EntryPoint("owls", "lab_tools", "fieldmark.commands")
    monkeypatch.setattr("fieldmark.registry.entry_points_of", lambda group: {"owls": point})
    assert main(["owls", "--n", "5"]) == 0
    assert capsys.readouterr().out == "5 owls\n"
    assert main(["--help-all"]) == 0
    assert "owls          from lab_tools" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ["rnu"],
            "command 'rnu' is not known. Did you mean 'run'? `fieldmark --help-all` lists all.",
        ),
        (
            ["data", "mak"],
            "command 'data mak' is not known. Did you mean 'data make'? "
            "`fieldmark data --help` lists all.",
        ),
        (
            ["table", "--tsk", "x"],
            "`fieldmark table` has no flag --tsk. Did you mean --task? "
            "`fieldmark table --help` shows all.",
        ),
        (
            ["table", "--tas", "newt"],
            "`fieldmark table` has no flag --tas. Did you mean --task? "
            "`fieldmark table --help` shows all.",
        ),
        (
            ["tasks", "newtt"],
            "task 'newtt' is not known. Did you mean 'newt'? `fieldmark tasks` lists all.",
        ),
        (
            ["datasets", "nwt"],
            "dataset 'nwt' is not known. Did you mean 'newt'? `fieldmark datasets` lists all.",
        ),
        (
            ["run"],
            "give an experiment file, or at least one --model and one --task "
            "(`fieldmark models` and `fieldmark tasks` list them).",
        ),
        (
            ["cache", "clean"],
            "which models? `fieldmark cache clean MODEL`, or --all for every model.",
        ),
        (
            ["plan", "--data", "newt", "--model", "a/b", "--task", "newt"],
            "--data newt: expected NAME=FOLDER, such as --data newt=/data/newt.",
        ),
        (["table", "--results", "a", "--results", "b"], "--results is given twice. Give it once."),
        (
            ["run", "--n-train=1", "--model", "a/b", "--task", "newt", "--n-train", "3"],
            "--n-train is given twice. Put all its values after one --n-train.",
        ),
        (["embed", "photos", "--out", "a", "--out=b"], "--out is given twice. Give it once."),
        (
            ["plan", "--model", "classical/colour", "--task", "newt", "--probe", "ridge", "svm"],
            "--probe gives classifier twice. Give it once, or list the values in an experiment "
            "file.",
        ),
        (
            ["table", "--device", "cpu"],
            "`fieldmark table` has no flag --device. Did you mean --metric? "
            "`fieldmark table --help` shows all.",
        ),
        (
            ["run", "--num_fewshot", "3"],
            "`fieldmark run` has no flag --num-fewshot. Did you mean --n-train? "
            "`fieldmark run --help-all` shows all.",
        ),
        (
            ["run", "--n-shot", "3"],
            "`fieldmark run` has no flag --n-shot. Did you mean --n-train? "
            "`fieldmark run --help-all` shows all.",
        ),
        (
            ["run", "--shots", "3"],
            "`fieldmark run` has no flag --shots. Did you mean --n-train? "
            "`fieldmark run --help-all` shows all.",
        ),
        (
            ["run", "chat/mine/tiny-vl"],
            "chat/mine/tiny-vl does not exist: an experiment is a .toml file. To run a model, "
            "write `--model chat/mine/tiny-vl`; for a folder of photos, give the right path.",
        ),
        (["doctor", "--threads", "-1"], "--threads -1: expected a whole number, 0 or more."),
        (
            ["doctor", "--bad-images", "ignore"],
            "--bad-images ignore: expected fail or skip.",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_slips_get_one_line_and_exit_2(
    words: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert capsys.readouterr().err == f"fieldmark: {line}\n"


def test_flags_that_collect_and_switches_may_be_given_twice(
    capsys: pytest.CaptureFixture[str],
) -> None:
    both = ["--task", "newt", "--task", "beluga", "--quiet", "--quiet"]
    assert main(["plan", "--model", "classical/colour", "--model", "classical/chance", *both]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[1:5]] == [
        [f"classical/{model}", task]
        for model in ("colour", "chance")
        for task in ("newt", "beluga")
    ]
    assert [line.partition(":")[0] for line in lines[5:]] == [
        "no data (classical/colour · newt; classical/chance · newt)",
        "no data (classical/colour · beluga; classical/chance · beluga)",
    ], "a reason is a line of its own, said once"


def test_a_plan_says_training_sizes_as_a_table_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    task = "task: few\ndataset: folder\nmetric: accuracy\nprobe: {classifier: ridge}\n"
    (tmp_path / "few.yaml").write_text(f"{task}shots: 8\ntest: rest\n")
    words = ["plan", "--model", "classical/colour", "--task", "few.yaml", "--quiet"]
    assert main([*words, "--task", "newt"]) == main([*words, "--n-train", "30"]) == 0
    rows = [re.split("  +", line) for line in capsys.readouterr().out.splitlines()]
    sizes = [row[3] for row in rows if len(row) > 3]
    assert sizes == ["n_train", "8 per class", "all", "n_train", "30"]


def test_a_path_with_spaces_needs_quotes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "My leaf photos").mkdir()
    monkeypatch.chdir(tmp_path)
    assert main(["predict", "try/model", "My", "leaf", "photos"]) == 2
    assert capsys.readouterr().err == (
        "fieldmark: unexpected: leaf, photos. Put quotes around a name with spaces: "
        'fieldmark predict try/model "My leaf photos"\n'
    )


@pytest.mark.parametrize(
    "words", [["try"], ["try", "a", "b"], ["data", "make", "world", "--size=x"]]
)
def test_slips_have_no_colour_codes_on_a_terminal(words: list[str]) -> None:
    pty = pytest.importorskip("pty")
    master, slave = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "fieldmark", *words],
        env=os.environ | {"TERM": "xterm-256color"},
        stdout=slave, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    os.close(slave)
    os.close(master)
    assert done.returncode == 2 and done.stderr.isascii() and "x1b" not in done.stderr
    assert done.stderr.count("\n") == 1


def test_wrong_values_get_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "make", "world", "--size", "ten"]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "--size" in told and "ten" in told


def test_lists_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["tasks"], ["models"], ["datasets"], ["cache", "ls"]):
        assert main([*words, "--json"]) == 0
        assert isinstance(json.loads(capsys.readouterr().out), list)
    assert main(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    parts = {"versions", "devices", "decode", "places", "settings", "extras", "results"}
    assert set(report) == parts
    assert [row["decode"] for row in report["decode"]] == ["reference", "cpu", "gpu"]
    assert [row["used"] for row in report["decode"]].count("yes") == 1
    (vision,) = (row for row in report["extras"] if row["extra"] == "vision")
    assert vision["install"].endswith("pip install 'fieldmark[vision]'")


@pytest.mark.parametrize("decode", ["reference", "cpu", "gpu"])
def test_doctor_shows_which_way_photos_are_read(
    decode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--device", "cpu", "--decode", decode, "--json"]) == 0
    rows = {row["decode"]: row for row in json.loads(capsys.readouterr().out)["decode"]}
    assert [way for way in rows if rows[way]["used"]] == [way for way in rows if way == decode][
        : decode != "gpu"
    ]
    assert rows["reference"]["what"].startswith("Pillow ")
    assert rows["cpu"]["what"].startswith("torchvision ")
    assert rows["gpu"]["what"] == "not possible: models run on cpu"


def test_doctor_names_folders_on_shared_file_systems(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nfs = FileSystem("nfs4", True, Path("/home"))
    monkeypatch.setattr("fieldmark.cli.housekeeping.doctor.filesystem_of", lambda path: nfs)
    assert main(["doctor", "--results", "here"]) == 0
    lines = capsys.readouterr().out.splitlines()
    named = [line.partition(":")[0] for line in lines if "shared file system (nfs4 at" in line]
    assert named == ["results", "feature cache", "datasets"]
    assert main(["doctor", "--json"]) == 0
    places = json.loads(capsys.readouterr().out)["places"]
    assert {row["file system"] for row in places} == {"nfs4, shared"}


def test_data_goes_to_stdout_and_talk_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks"]) == 0
    told = capsys.readouterr()
    assert told.out.splitlines()[0].split() == ["task", "title", "dataset", "metric"]
    assert "tasks. `fieldmark tasks NAME`" in told.err


def test_one_task_is_shown_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks", "beluga"]) == 0
    assert "leave_one_out: true" in capsys.readouterr().out
    assert main(["tasks", "beluga@closed", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["probe"]["metric"] == "cosine"


def test_table_of_nothing_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["table", "--results", str(tmp_path / "none")]) == 3
    assert "does not exist. Start with `fieldmark run`" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    from fieldmark.errors import DataError

    with pytest.raises(DataError):
        main(["table", "--results", str(tmp_path), "--debug"])


def test_data_is_made_checked_and_never_written_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "beluga"
    words = ["data", "make", "beluga", "--size", "24", "--out", str(out)]
    assert main(words) == 0
    assert main(["data", "check", "beluga", "--data", f"beluga={out}"]) == 0
    assert main(words) == 0, "making again what was made here is fine"
    (out / "SYNTHETIC.txt").unlink()
    capsys.readouterr()
    assert main(words) == 3
    assert "has files that fieldmark did not make" in capsys.readouterr().err
    next(out.rglob("*.jpg")).unlink()
    assert main(["data", "check", "beluga", "--data", f"beluga={out}", "--json"]) == 3
    told = json.loads(capsys.readouterr().out)
    assert not told["ok"] and told["findings"]


def test_cache_is_listed_and_cleaned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["data", "make", "beluga", "--size", "24"]) == 0
    run = ["run", "--model", "classical/pixels", "--model", "classical/colour", "--task", "beluga"]
    assert main([*run, "--quiet"]) == 0
    capsys.readouterr()
    assert main(["cache", "ls", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["model"] for row in rows} == {"classical/pixels", "classical/colour"}
    assert {row["decode"] for row in rows} == {"reference"}
    assert all(row["images_per_s"] > 0 and row["busy_s"]["read"] >= 0 for row in rows)
    about = next(Path(os.environ["FIELDMARK_CACHE"]).rglob("model.json"))
    nonsense = {"decode": 7, "busy_s": {"read": "long"}, "device_busy": "very", "seconds": None}
    about.write_text(json.dumps(json.loads(about.read_text()) | nonsense))
    assert main(["cache", "ls"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[4:6] == ["decode", "speed"]
    assert sorted(line.split()[6] for line in lines[1:])[0] == "-", "of the one that is damaged"
    assert main(["cache", "clean", "colour"]) == 0
    assert main(["cache", "clean", "colour"]) == 2
    assert "cached model 'colour' is not known" in capsys.readouterr().err
    assert main(["cache", "clean", "--all"]) == 0
    capsys.readouterr()
    assert main(["cache", "ls", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("fieldmark 0.")


def test_a_flag_of_zero_is_given() -> None:
    def read(*words: str) -> dict[str, Any]:
        return given_settings(tyro.cli(make_args(), args=["--model", "m", "--task", "t", *words]))

    assert read("--temp", "0") == {"temp": 0.0}
    assert read() == {} and read("--cot-enabled") == {"cot_enabled": True}


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        (["caption", "--out", "x"], ["--model is missing: a chat model that can see"]),
        (["caption"], ["--model is missing: a chat ", "--out is missing: folder for "]),
        (["predict"], ["MODEL is missing: the folder ", "PHOTOS is missing: a folder of "]),
    ],
)
def test_each_missing_flag_has_a_line(
    words: list[str], missing: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    lines = capsys.readouterr().err.removeprefix("fieldmark: ").splitlines()
    assert len(lines) == len(missing) and all(map(str.startswith, lines, missing))
    assert "(required)" not in "".join(lines)


def test_data_make_counts_what_it_drew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "make", "world", "--size", "60", "--out", str(tmp_path / "w")]) == 0
    n = len([*(tmp_path / "w").rglob("*.jpg")])
    assert f"contains {n} drawn photos" in capsys.readouterr().err
