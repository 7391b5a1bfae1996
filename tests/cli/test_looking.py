"""Commands that only look run no code of the files they meet."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fieldmark.cli import main
from kit.pictures import mark_drawn

SPY = "import pathlib\nwith open({marks!r} + '/{name}', 'a') as file:\n    file.write('x')\n"
CLASSES = """
import polars as pl
class Backbone:
    dim = 3
    def transform(self, image): return image
    def embed_images(self, images): return None
class Probe:
    def fit(self, X, y): return self
    def predict(self, X): return X
class INFO: pass
class Dataset:
    INFO = None
    @staticmethod
    def table(root, **options): return pl.DataFrame()
    @staticmethod
    def check(root): return []
    @staticmethod
    def make(root, world, size): return None
def metric(target, prediction, weight=None): return 0.0
def docs(dataset): return dataset
def text(doc): return "which?"
def results(doc, results): return {"score": 1}
def most(values): return max(values)
def kwargs(): return {}
"""
LMMS = """task: {task}
dataset_path: json
dataset_kwargs: {{data_files: {{test: rows.jsonl}}}}
test_split: test
doc_to_text: {text}
doc_to_target: answer
{more}
metric_list:
  - {{metric: {metric}, aggregation: {aggregation}, higher_is_better: true}}
"""
OWN = """task: {task}
title: Grown up?
dataset: {dataset}
label: stage
where: {{question: stage}}
metric: {metric}
probe: {{classifier: {probe}}}
"""


class Danger:
    def __reduce__(self) -> Any:
        return os.system, (f"touch {os.environ['MARKS']}/pickle",)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a stranger's, where every file of code leaves a mark when it is run."""
    place = tmp_path_factory.mktemp("stranger")
    marks = place / "marks"
    marks.mkdir()
    names = (
        "code data_code model probe metric dataset protocols/mine numpy tyro yaml sitecustomize "
        "usercustomize conftest setup __init__ fieldmark lmms_eval"
    )
    (place / "protocols").mkdir()
    for name in names.split():
        spy = SPY.format(marks=str(marks), name=name.replace("/", "_"))
        (place / f"{name}.py").write_text(spy + CLASSES)
    (place / "rows.jsonl").write_text('{"question": "q", "answer": "a"}\n' * 3)
    lmms = {
        "documents": ("question", "process_docs: !function data_code.docs", "exact_match", "mean"),
        "prompts": ("!function code.text", "", "exact_match", "mean"),
        "scoring": (
            "question",
            "process_results: !function code.results",
            "score",
            "!function code.most",
        ),
        "kwargs": ("question", "", "!function code.metric", "mean"),
    }
    for name, (text, more, metric, aggregation) in lmms.items():
        (place / f"{name}.yaml").write_text(
            LMMS.format(task=name, text=text, more=more, metric=metric, aggregation=aggregation)
        )
    os.environ["MARKS"] = str(marks)
    try:
        (place / "rows.pkl").write_bytes(pickle.dumps(Danger()))
    finally:
        del os.environ["MARKS"]
    pickled = LMMS.format(
        task="pickled", text="question", more="", metric="exact_match", aggregation="mean"
    )
    pickled = pickled.replace("json\n", "pandas\n", 1).replace("rows.jsonl", "rows.pkl")
    (place / "pickled.yaml").write_text(pickled)
    own = {
        "own_dataset": ("dataset.py:Dataset", "accuracy", "simpleshot"),
        "own_metric": ("world", "metric.py:metric", "simpleshot"),
        "own_probe": ("world", "accuracy", "probe.py:Probe"),
    }
    for name, (dataset, metric, probe) in own.items():
        (place / f"{name}.yaml").write_text(
            OWN.format(task=name, dataset=dataset, metric=metric, probe=probe)
        )
    (place / "data" / "dataset").mkdir(parents=True)
    every = [f"{name}.yaml" for name in (*lmms, "pickled", *own)]
    (place / "exp.toml").write_text(
        f'models = ["model.py:Backbone", "chat/mock/wren"]\ntasks = {json.dumps(every)}\n'
    )
    fieldmark(place, "data", "make", "world", "--size", "40")
    mark_drawn(place)
    for mark in marks.iterdir():
        mark.unlink()
    return place


def fieldmark(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, as a person would."""
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    code = "import sys; from fieldmark.cli import main; sys.exit(main(sys.argv[1:]))"
    return subprocess.run(
        [sys.executable, "-P", "-c", code, *words],
        cwd=place, env=environment, capture_output=True, text=True,
    )  # fmt: skip


TASKS = [
    *("documents", "prompts", "scoring", "kwargs", "pickled"),
    *("own_dataset", "own_metric", "own_probe"),
]
MODELS = ["--model", "model.py:Backbone", "--model", "chat/mock/wren"]
LOOKS: list[list[str]] = [
    ["--help"],
    ["run", "--help"],
    ["plan", "--help"],
    ["tasks"],
    ["tasks", "--include-path", "."],
    ["tasks", "documents", "--include-path", "."],
    ["models"],
    ["datasets"],
    ["doctor"],
    ["check", "."],
    ["check", ".", "--n-documents", "3"],
    ["check", "exp.toml"],
    ["plan", "exp.toml"],
    *(["check", f"{name}.yaml"] for name in TASKS),
    *(["check", f"{name}.yaml", "--n-documents", "3"] for name in TASKS),
    *(["plan", "--task", f"{name}.yaml", *MODELS] for name in TASKS),
    ["plan", "--include-path", ".", "--task", "documents", *MODELS],
    ["plan", "--task", "world-stage", "--probe", "classifier=probe.py:Probe", *MODELS],
]


def marks_of(folder: Path) -> set[str]:
    """Which files were run; forgets them."""
    names = set()
    for path in (folder / "marks").iterdir():
        names.add(path.name)
        path.unlink()
    return names


@pytest.mark.parametrize("words", LOOKS, ids=" ".join)
def test_looking_runs_nothing(
    folder: Path,
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    code = main(words)
    streams = capsys.readouterr()
    assert code == 0, streams.out + streams.err
    assert not marks_of(folder), streams.out + streams.err


@pytest.mark.slow
@pytest.mark.parametrize("words", [["--help"], ["check", "."], ["plan", "exp.toml"]], ids=" ".join)
def test_looking_runs_nothing_in_a_process_of_its_own(folder: Path, words: list[str]) -> None:
    done = fieldmark(folder, *words)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stdout + done.stderr
    assert not marks_of(folder)


@pytest.mark.parametrize("words", [["run", "--help"], ["plan", "exp.toml"]], ids=" ".join)
def test_projects_file_brings_no_protocols(folder: Path, words: list[str]) -> None:
    (folder / "fieldmark.toml").write_text('protocol_path = ["protocols"]\n')
    try:
        done = fieldmark(folder, *words)
    finally:
        (folder / "fieldmark.toml").unlink()
    assert "Traceback" not in done.stderr
    assert not marks_of(folder)


def test_plan_says_what_only_code_tells(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)

    def why(*words: str) -> str:
        assert main(["plan", "--json", *words]) == 0
        (job,) = json.loads(capsys.readouterr().out)["jobs"]
        assert job["status"] == "run"
        return str(job["why"])

    chat = ["--model", "chat/mock/wren"]
    told = why("--task", "documents.yaml", *chat)
    assert told.startswith("unknown until it runs") and "data_code.py" in told
    assert "--run-code" in told
    told = why("--task", "prompts.yaml", *chat)
    assert told.startswith("cost unknown until it runs") and "code.py" in told
    told = why("--task", "own_dataset.yaml", *MODELS[:2])
    assert told.startswith("unknown until it runs") and "dataset.py" in told


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "marks"),
    [
        (["check", "documents.yaml", "--run-code"], {"data_code"}),
        (["check", "documents.yaml", "--n-documents", "3", "--run-code"], {"data_code"}),
        (["check", "own_metric.yaml", "--run-code"], {"metric"}),
        (
            ["plan", "--task", "documents.yaml", "--model", "chat/mock/wren", "--run-code"],
            {"data_code"},
        ),
    ],
)
def test_flag_lets_code_run(folder: Path, words: list[str], marks: set[str]) -> None:
    """And the spies work."""
    done = fieldmark(folder, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert marks_of(folder) == marks


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("!function code.txt", "code.py has no 'txt'. Did you mean 'text'?"),
        ("!function cod.text", "there is no cod.py"),
        ("!function broken.text", "SyntaxError"),
    ],
)
def test_source_tells_what_is_missing(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    text: str,
    line: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broken.py").write_text("def text(:\n")
    Path("code.py").write_bytes((folder / "code.py").read_bytes())
    Path("wrong.yaml").write_text(
        LMMS.format(task="wrong", text=text, more="", metric="exact_match", aggregation="mean")
    )
    assert main(["check", "wrong.yaml"]) == 2
    told = capsys.readouterr().out
    assert line in told and "wrong.yaml:5" in told
    assert not marks_of(folder)


def test_check_says_which_files_it_did_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(CLASSES)
    task = OWN.format(task="own", dataset="own.py:Dataset", metric="accuracy", probe="simpleshot")
    Path("own.yaml").write_text(task)
    assert main(["check", "own.yaml"]) == 0
    assert "not run: own.py (`--run-code`" in capsys.readouterr().err
    assert main(["check", "own.yaml", "--run-code"]) in (0, 2)
    assert "not run" not in capsys.readouterr().err
