"""Are slips in a task's file found, and only slips?"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fieldmark.cli import main
from fieldmark.errors import UsageError
from fieldmark.lmms.check.task import task_problems
from fieldmark.lmms.code.trust import Trust
from fieldmark.lmms.read.groups import load_document_task
from fieldmark.tasks import Problem, merge_problems, problems_of

GOOD = {
    "task": "birds",
    "dataset_path": "someone/birds",
    "test_split": "test",
    "doc_to_text": "question",
    "doc_to_target": "answer",
}


def found(folder: Path, code: str = "", **keys: str) -> list[Problem]:
    """What is told of a task with these keys; `code` stands in `utils.py` beside it."""
    (folder / "utils.py").write_text(code)
    lines = [f"{key}: {value}" for key, value in {**GOOD, **keys}.items() if value]
    (folder / "birds.yaml").write_text("\n".join(lines) + "\n")
    task = load_document_task(folder / "birds.yaml", Trust.of(folder))
    return list(task_problems(task))


def texts(problems: list[Problem]) -> str:
    return "\n".join(f"{each.level} {each.kind} {each.text}" for each in problems)


@pytest.mark.parametrize(
    ("code", "keys"),
    [
        ("def f(doc): ...", {}),
        ("def f(doc, more=None): ...", {}),
        ("def f(*args): ...", {}),
        ("def f(doc, kwargs): ...", {"lmms_eval_specific_kwargs": "{default: {}}"}),
        ("def f(doc, *, more=1): ...", {}),
        ("import functools\n@functools.cache\ndef f(): ...", {}),
        ("from os import path as f", {}),
        ("def f(): ...\nf = len", {}),
        ("if True:\n    def f(): ...", {}),
        ("class f: ...", {}),
        ("def f(", {}),
        (
            "def f(doc, previous_output, round_idx): ...",
            {"output_type": "generate_until_multi_round"},
        ),
    ],
)
def test_calls_that_may_be_right_are_left_alone(
    code: str, keys: dict[str, str], tmp_path: Path
) -> None:
    assert found(tmp_path, code, doc_to_text="!function utils.f", **keys) == []


@pytest.mark.parametrize(
    ("field", "code", "keys"),
    [
        ("doc_to_text", "def f(doc, kwargs): ...", {}),
        ("doc_to_text", "def f(doc): ...", {"lmms_eval_specific_kwargs": "{default: {}}"}),
        ("doc_to_target", "def f(doc, kwargs): ...", {}),
        ("doc_to_target", "def f(doc): ...", {"model_specific_target_kwargs": "{default: a}"}),
        ("doc_to_choice", "def f(doc, kwargs): ...", {}),
        ("process_results", "def f(doc): ...", {}),
        ("process_docs", "def f(): ...", {}),
        ("doc_to_visual", "def f(): ...", {}),
    ],
)
def test_calls_that_must_fail_are_told(
    field: str, code: str, keys: dict[str, str], tmp_path: Path
) -> None:
    problems = found(tmp_path, code, **{field: "!function utils.f"}, **keys)
    assert [each.kind for each in problems] == ["function"], texts(problems)
    assert problems[0].text.startswith(f"{field} 'utils.f' takes ")


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"generation_kwargs": "{max_pixels: 9, min_pixels: 3, downsample_ratio: 1}"}, ""),
        ({"generation_kwargs": "{temperature: '0', top_p: 1.0, until: stop}"}, ""),
        ({"generation_kwargs": "{temperatur: 0}"}, "Did you mean 'temperature'?"),
        ({"generation_kwargs": "{top_p: 2}"}, "expected a number, from 0 to 1."),
        ({"generation_kwargs": "{max_new_tokens: 0}"}, "expected a number, 1 or more."),
        ({"generation_kwargs": "{do_sample: false, temperature: true}"}, "temperature = True"),
        ({"generation_kwargs": '{until: ["\\n"]}'}, ""),
        ({"generation_kwargs": "{until: ['a', 3]}"}, "expected text, or a list of texts."),
        ({"model_specific_generation_kwargs": "{openai: {untill: x}}"}, "Did you mean 'until'?"),
        ({"fewshot_delimiter": r"'\n\n'"}, "not a line break"),
        ({"dataset_kwargs": "{revison: main}"}, "Did you mean 'revision'?"),
        ({"dataset_kwargs": "{category: birds}"}, ""),
        ({"reasoning_tags": "[[a]]"}, "reasoning_tags is"),
        ({"dataset_path": ""}, "dataset_path is missing"),
        ({"dataset_path": "json"}, "reads files: name them"),
        ({"dataset_path": "./nowhere"}, "does not exist"),
        ({"doc_to_text": ""}, "says neither doc_to_text nor doc_to_messages"),
        ({"doc_to_target": ""}, "says neither doc_to_target nor process_results"),
        ({"doc_to_visual": '"{{ image }}"'}, "doc_to_visual is a template"),
        ({"doc_to_choice": "[owl, wren]", "output_type": "multiple_choice"}, ""),
        ({"doc_to_choice": '"{{ names[0] }"'}, "is not valid Jinja"),
    ],
)
def test_fields(keys: dict[str, str], expected: str, tmp_path: Path) -> None:
    problems = found(tmp_path, **keys)
    assert len(problems) == bool(expected), texts(problems)
    assert expected in texts(problems)


CHOICE = {"output_type": "multiple_choice", "doc_to_choice": "[owl, wren]"}


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"metric_list": "[{metric: acc}]"}, "metric 'acc' does not fit output_type 'generate_"),
        (
            {"metric_list": "[{metric: acc}, {metric: acc_norm}, {metric: brier_score}]", **CHOICE},
            "",
        ),
        ({"metric_list": "[{metric: anls}]", **CHOICE}, "metric 'anls' does not fit"),
        ({"metric_list": "[{metric: exact_match, ignore_case: true}]"}, ""),
        (
            {"metric_list": "[{metric: exact_match, ignore_cas: true}]"},
            "has no option 'ignore_cas'",
        ),
        (
            {"metric_list": "[{metric: exact_match, agregation: mean}]"},
            "Did you mean 'aggregation'?",
        ),
        ({"metric_list": "[{metric: exact_match}, {metric: exact_match}]"}, "is listed twice"),
        ({"metric_list": "[{metric: exact_match, aggregation: mean_last30}]"}, "Known: "),
        ({"filter_list": "[{name: a, filter: [{function: zzz}]}]"}, "Known: "),
        ({"filter_list": "[{name: a, filter: [{function: take_first, k: 1}]}]"}, "the option 'k'"),
        (
            {
                "filter_list": "[{name: a, filter: [{function: take_first}]},"
                " {name: a, filter: [{function: lowercase}]}]"
            },
            "pipeline 'a' is listed twice",
        ),
        ({"fewshot_config": "{sampler: first_m}"}, "sampler 'first_m' is not known"),
        ({"fewshot_config": "{sampler: first_n, sample: []}"}, "Did you mean"),
        ({"fewshot_config": "{sampler: first_n, samples: []}"}, ""),
        ({"fewshot_config": "{split: dev}"}, "split of fewshot_config has no effect"),
    ],
)
def test_names(keys: dict[str, str], expected: str, tmp_path: Path) -> None:
    problems = found(tmp_path, **keys)
    assert len(problems) == bool(expected), texts(problems)
    assert expected in texts(problems)


def test_metrics_of_process_results_are_its_own(tmp_path: Path) -> None:
    """Any name goes, options do nothing, a metric without an aggregation is averaged."""
    problems = found(
        tmp_path,
        "def f(doc, results): ...",
        process_results="!function utils.f",
        metric_list="[{metric: my_score, ignore_case: true}, {metric: acc}]",
    )
    assert [each.level for each in problems] == ["note", "note"], texts(problems)
    assert "(ignore_case) have no effect with process_results" in texts(problems)
    assert "'my_score' has no aggregation: the mean is taken" in texts(problems)


def test_equal_problems_become_one_that_knows_its_files() -> None:
    one = Problem("note", "no effect", "template:3", "full_docs is never read.")
    other = Problem("error", "key", "a.yaml:9", "wrong.")
    a, b = Path("a.yaml"), Path("b.yaml")
    told = merge_problems([one.found_in(a), other.found_in(a), one.found_in(b), one.found_in(a)])
    assert [(each.level, each.files) for each in told] == [("error", (a,)), ("note", (a, b))]


def test_lines_of_an_error_keep_their_places() -> None:
    error = UsageError("a/b.yaml:3  wrong: x  y.\nno place here\n2 problems, nothing was started.")
    told = problems_of(error, "key", "c.yaml:1")
    assert [(each.file, each.line, each.text) for each in told] == [
        ("a/b.yaml", 3, "wrong: x  y."),
        ("c.yaml", 1, "no place here"),
    ]


@pytest.mark.parametrize(
    ("files", "split", "told"),
    [
        ("{test: a.jsonl}", "tset", "error data the dataset has no split 'tset', it has test."),
        ("a.jsonl", "test", "error data the dataset has no split 'test', it has train."),
        ("{test: a.jsonl}", "test", ""),
        ("[a.jsonl]", "train", ""),
    ],
)
def test_splits_of_named_files(tmp_path: Path, files: str, split: str, told: str) -> None:
    (tmp_path / "a.jsonl").write_text("{}\n")
    keys = {"dataset_path": "json", "dataset_kwargs": f"{{data_files: {files}}}"}
    problems = found(tmp_path, **keys, test_split=split)
    assert texts(problems).startswith(told) and bool(problems) == bool(told)


def test_a_missing_package_has_one_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Defect: 3 in `check`, 0 in `plan`, 4 in `run`; and nothing in a plain `check`."""
    monkeypatch.chdir(tmp_path)
    Path("birds.jsonl").write_text('{"question": "Which?", "answer": "wren"}\n')
    files = {"dataset_path": "json", "dataset_kwargs": "{data_files: {test: birds.jsonl}}"}
    found(tmp_path, **files)
    monkeypatch.setitem(sys.modules, "datasets", None)
    job = ["--model", "chat/mock/wren", "--task", "birds.yaml"]
    for words in (["check", "birds.yaml", "--n-documents", "1"], ["plan", *job], ["run", *job]):
        assert main(words) == 4, words
        told = capsys.readouterr()
        assert "needs the package 'datasets'" in " ".join((told.out + told.err).split())
    assert main(["check", "birds.yaml"]) == 0
    assert "needs the package 'datasets'" in " ".join(capsys.readouterr().out.split())
