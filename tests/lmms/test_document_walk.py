"""A group of tasks in lmms-eval's form, really run, then looked at by every report command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fieldmark.cli import main
from fieldmark.models import chat

pytest.importorskip("datasets", reason="the extra `hub` is not installed")

SUMS = [(2, 2), (3, 2), (1, 2), (0, 4), (5, 0), (2, 1)]
CODE = """
def process(doc, results):
    right = float(str(doc["answer"]) in results[0])
    return {"by_site": {"right": right, "site": doc["site"]}, "mine": right}

def by_site(items):
    sites = {each["site"] for each in items}
    mine = {site: [each["right"] for each in items if each["site"] == site] for site in sites}
    return {site: sum(values) / len(values) for site, values in sorted(mine.items())}
"""
DATA = """
dataset_path: json
dataset_kwargs: {data_files: sums.jsonl}
test_split: train
doc_to_text: "{{question}}"
doc_to_target: "{{answer}}"
"""
TASKS = {
    "sums_text": """
filter_list:
  - {name: none, filter: [{function: take_first}]}
  - {name: digits, filter: [{function: regex, regex_pattern: '([0-9]+)'}, {function: take_first}]}
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
metadata: {version: 1.5}
""",
    "sums_code": """
process_results: !function code.process
metric_list:
  - {metric: by_site, aggregation: !function code.by_site, higher_is_better: true}
  - {metric: mine, aggregation: mean, higher_is_better: true}
""",
    "sums_choice": """
output_type: multiple_choice
doc_to_choice: ["3", "4", "5"]
metric_list:
  - {metric: exact_match, aggregation: mean, higher_is_better: true}
  - {metric: acc_norm, aggregation: mean, higher_is_better: true}
""",
}
GROUP = """
group: sums
task: [sums_text, sums_choice]
aggregate_metric_list: [{metric: exact_match, weight_by_size: true}]
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("walk")
    rows = [
        {"question": f"What is {a}+{b}?", "answer": a + b, "site": "xyz"[n % 3]}
        for n, (a, b) in enumerate(SUMS)
    ]
    (folder / "sums.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (folder / "code.py").write_text(CODE)
    for name, text in TASKS.items():
        (folder / f"{name}.yaml").write_text(f"task: {name}\n{DATA}{text}")
    (folder / "sums.yaml").write_text(GROUP)
    models = ["--model", "chat/mock/wren", "--model", "chat/mock/crow?skill=0.3"]
    tasks = ["--task", str(folder / "sums.yaml"), "--task", str(folder / "sums_code.yaml")]
    place = ["--results", str(folder / "results"), "--cache", str(folder / "cache"), "--quiet"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chat, "stand_in", lambda name: "")  # these mocks play models
        assert main(["run", *models, *tasks, *place]) == 0
    return folder / "results"


def shown(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    assert main(list(command)) == 0
    return capsys.readouterr().out


def test_the_table_has_tasks_and_their_group(results, capsys):
    rows = json.loads(shown(capsys, "table", "--json", "--results", str(results)))
    assert {row["task"] for row in rows} == {*TASKS, "sums"}
    group = next(row for row in rows if row["task"] == "sums")
    members = [row for row in rows if row["task"] in ("sums_text", "sums_choice")]
    mine = [row["value"] for row in members if row["model"] == group["model"]]
    assert group["value"] == pytest.approx(sum(mine) / 2) and group["n"] == 12


@pytest.mark.parametrize(
    "command",
    [
        ["table", "--long"],
        ["table", "--by", "label"],
        ["table", "--metric", "acc_norm"],
        ["compare", "wren", "crow"],
        ["compare", "wren", "crow", "--metric", "mine"],
    ],
)
def test_tables_and_comparisons_print(results, capsys, command):
    assert "sums_" in shown(capsys, *command, "--results", str(results))


@pytest.mark.parametrize("form", ["csv", "json", "parquet", "card", "model-index", "lmms-eval"])
def test_every_export_is_written(results, tmp_path, form):
    out = tmp_path / "out"
    assert main(["export", form, "--results", str(results), "--out", str(out)]) == 0
    assert any(path.is_file() for path in out.rglob("*"))


def test_samples_hold_what_was_asked_and_what_it_was_worth(results, tmp_path):
    out = tmp_path / "out"
    assert main(["export", "lmms-eval", "--results", str(results), "--out", str(out)]) == 0
    found = json.loads(next(out.glob("*wren/*_results.json")).read_text())
    (path,) = out.glob("*wren/*_samples_sums_text.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["filter"] for line in lines] == ["none", "digits"] * 6
    for name in ("none", "digits"):
        mine = [line["exact_match"] for line in lines if line["filter"] == name]
        assert found["results"]["sums_text"][f"exact_match,{name}"] == pytest.approx(sum(mine) / 6)
    assert lines[0]["input"] == "What is 2+2?" and found["versions"]["sums_text"] == "1.5"
    hashes = {line["doc_hash"] for line in lines}
    assert len(hashes) == 6 and all(len(each) == 64 for each in hashes)
    assert found["n-samples"]["sums_text"] == {"original": 6, "effective": 6}
    assert set(found["group_subtasks"]) == {"sums"} and "by_site/x,none" in str(found["results"])
    (path,) = out.glob("*wren/*_samples_sums_choice.jsonl")
    choice = json.loads(path.read_text().splitlines()[0])
    assert len(choice["resps"]) == len(choice["filtered_resps"]) == 3
    assert "letter" in found["notes"]["sums_choice"]


def test_scoring_again_changes_nothing(results, capsys):
    before = shown(capsys, "table", "--json", "--results", str(results))
    assert "0 with new values" in shown(capsys, "rescore", "--results", str(results))
    assert shown(capsys, "table", "--json", "--results", str(results)) == before


def test_the_site_is_written(results, tmp_path, capsys):
    page = shown(capsys, "site", str(tmp_path / "site"), "--results", str(results), "--quiet")
    assert (tmp_path / "site" / "index.html").is_file() and page.strip().endswith("index.html")
