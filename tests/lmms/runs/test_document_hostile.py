"""Files and code that are wrong in ways people get them wrong: a line, never a silent number."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from fieldmark.cli import main
from fieldmark.errors import FieldmarkError
from fieldmark.experiments import Evaluation, evaluate
from fieldmark.lmms.score.scores import score_document_run
from fieldmark.settings import Settings
from fieldmark.tasks import load_task
from kit.documents import write_jsonl
from kit.pictures import mark_drawn

ROWS = [{"q": f"question {n}?", "a": f"a{n}", "site": f"s{n // 2}"} for n in range(4)]
KEYS = {
    "task": "made",
    "dataset_path": "json",
    "dataset_kwargs": "{data_files: {test: rows.jsonl}}",
    "test_split": "test",
    "doc_to_text": '"{{q}}"',
    "doc_to_target": "a",
    "generation_kwargs": "{max_new_tokens: 4}",
    "metric_list": "[{metric: exact_match, aggregation: mean, higher_is_better: true}]",
}


def write(folder: Path, code: str = "", rows: Any = ROWS, **keys: str) -> Path:
    write_jsonl(mark_drawn(folder) / "rows.jsonl", rows)
    (folder / "utils.py").write_text(code)
    path = folder / "made.yaml"
    path.write_text("".join(f"{key}: {value}\n" for key, value in (KEYS | keys).items()))
    return path


def ask(folder: Path, code: str = "", **keys: Any) -> Evaluation:
    path = write(folder, code, **keys)
    settings = Settings(cache=folder / "cache", results=folder / "results")
    return evaluate("chat/mock/wren", str(path), settings=settings)


def warning(found: Evaluation) -> str:
    return next(each.warning for each in found.scores if each.is_primary)


def test_a_target_that_is_no_choice_is_told(tmp_path):
    choices = {"output_type": "multiple_choice", "doc_to_choice": '["a0", "a1"]'}
    found = ask(tmp_path, metric_list="[{metric: acc}]", **choices)
    assert warning(found).endswith("2 of 4 documents: the target is not one of the choices")


@pytest.mark.parametrize("column", ["answer", "a"])
def test_a_word_where_a_column_was_meant_is_told(tmp_path, column):
    told = "4 of 4 documents: doc_to_target 'answer' is not a column, so the word itself is the "
    told += "right answer"
    assert warning(ask(tmp_path, doc_to_target=column)) == (told if column == "answer" else "")


@pytest.mark.parametrize("column", ["place", "site"])
def test_clusters_that_are_not_there_are_told(tmp_path, column):
    told = "cluster_key 'place' is in no document: each counts as independent"
    assert warning(ask(tmp_path, cluster_key=column)) == (told if column == "place" else "")


def test_a_value_that_is_nothing_is_no_number(tmp_path):
    code = "def f(doc, results): return {'exact_match': None if doc['a'] == 'a1' else 1.0}"
    found = ask(tmp_path, code, process_results="!function utils.f")
    assert "1 of 4 values are NaN or None" in warning(found)
    assert math.isnan(found.scores[0].value)


def test_a_value_that_cannot_be_kept_names_its_place_and_document(tmp_path):
    code = "class Odd: ...\ndef f(doc, results): return {'exact_match': Odd()}"
    told = r"made.yaml:9  document 0: value is a .*Odd, which cannot be kept"
    with pytest.raises(FieldmarkError, match=told):
        ask(tmp_path, code, process_results="!function utils.f")


def test_code_that_goes_elsewhere_takes_nobody_along(tmp_path, monkeypatch):
    """Tasks and results may be named from the folder the user stands in."""
    monkeypatch.chdir(tmp_path)
    code = "import os\nos.chdir('/')\ndef f(doc):\n    os.chdir('/')\n    return doc['q']"
    write(Path("mine"), code, doc_to_text="!function utils.f")
    told = ["--task", "mine/made.yaml", "--model", "chat/mock/wren", "--cache", "cache", "--quiet"]
    assert main(["run", *told]) == 0
    assert Path.cwd() == tmp_path and Path("results/fieldmark.db").is_file()


def test_rounds_of_a_text_that_hears_no_answer_are_one(tmp_path):
    found = ask(tmp_path, output_type="generate_until_multi_round")
    infos = [json.loads(text) for text in found.predictions["info"]]
    assert [len(info["resps"][0][0]) for info in infos] == [1, 1, 1, 1]


def test_a_group_of_nothing_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("none.yaml").write_text("group: none\ntask: []\n")
    assert main(["check", "none.yaml"]) == 2
    assert "none.yaml:2: group 'none' contains no tasks." in capsys.readouterr().out
    assert main(["run", "--task", "none.yaml", "--model", "chat/mock/wren"]) == 2


def test_a_module_that_is_missing_is_looked_for_beside_the_file(tmp_path, monkeypatch, capsys):
    """`in ..` would send its reader to another folder."""
    monkeypatch.chdir(tmp_path)
    write(Path(), doc_to_text="!function util.f")
    assert main(["check", "made.yaml"]) == 2
    told = "made.yaml:5: there is no util.py beside this file. Did you mean 'utils'?"
    assert told in capsys.readouterr().out


def test_a_file_that_is_no_table_is_one_line(tmp_path, capfd):
    path = write(tmp_path)
    (tmp_path / "rows.jsonl").write_text('{"q": 1\nnope')
    settings = Settings(cache=tmp_path / "cache", results=tmp_path / "results")
    with pytest.raises(FieldmarkError, match="cannot be opened: JSON parse error"):
        evaluate("chat/mock/wren", str(path), settings=settings)
    assert capfd.readouterr().err == ""


def test_a_run_without_a_score_says_so_when_it_ends(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = "def f(values): return 1 / 0"
    metrics = "[{metric: exact_match, aggregation: !function utils.f}]"
    write(Path(), code, metric_list=metrics)
    assert main(["run", "--model", "chat/mock/wren", "--task", "made.yaml", "--cache", "c"]) == 0
    told = "no score: exact_match: not computed: made.yaml:8  f failed: "
    assert f"{told}{tmp_path.name}/utils.py:1 ZeroDivisionError" in capsys.readouterr().err


def test_failures_alone_are_told_in_their_own_words(tmp_path):
    task = load_task(str(write(tmp_path)))
    info = json.dumps({"error": "too long by 4 tokens."})
    frame = {"id": ["0", "1"], "outcome": ["failed"] * 2, "unit": [None] * 2, "info": [info] * 2}
    first, *_ = score_document_run(task, pl.DataFrame(frame), 0, None)
    told = "none of 2 documents was answered: too long by 4 tokens; no document has a value of it"
    assert math.isnan(first.value) and first.warning == told


def test_a_word_where_a_column_was_meant_is_told_by_the_check(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write(Path(), doc_to_target="answer")
    monkeypatch.setenv("FIELDMARK_CACHE", "cache")
    assert main(["check", "made.yaml", "--n-documents", "3"]) == 0
    told = "warning  made.yaml:6: doc_to_target 'answer' is not a column, so the word itself is "
    told += "the right answer."
    assert told in capsys.readouterr().out


def test_code_that_forgets_to_return_asks_nothing(tmp_path):
    with pytest.raises(FieldmarkError, match="document 0: doc_to_text gave None: expected text"):
        ask(tmp_path, "def f(doc): doc['q']", doc_to_text="!function utils.f")
