"""Results and samples files in the public schema of lmms-eval and LM Evaluation Harness."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fieldmark.cli import main
from fieldmark.lmms.export import standard_error
from fieldmark.metrics import mean_value
from fieldmark.report.export import choose, export
from fieldmark.stats import Items, interval
from fieldmark.store import PartResult, Predictions, RunFilter, RunSpec, Score, Store
from kit import document_results as kit
from kit.document_results import GOOD, POOR, TASKS

FOLDER = "chat_lab_good-1b"
LME = {
    "doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics",
    "doc_hash", "prompt_hash", "target_hash",
}  # fmt: skip


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("lmms") / "results" / "fieldmark.db"
    return kit.make_document_results(made)


def files(path: Path, **where) -> dict[str, str]:
    with Store.open(path, read_only=True) as store:
        chosen = choose(store, RunFilter(**where))
        return {each.name: b"".join(each.chunks).decode() for each in export("lmms-eval", chosen)}


def results(path: Path, **where) -> dict:
    found = files(path, models=(GOOD,), **where)
    (text,) = (text for name, text in found.items() if name.endswith("_results.json"))
    return json.loads(text)


def samples(path: Path, task: str) -> list[dict]:
    found = files(path, models=(GOOD,))
    (text,) = (text for name, text in found.items() if name.endswith(f"_samples_{task}.jsonl"))
    return [json.loads(line) for line in text.splitlines()]


def test_files_lie_where_viewers_look(path):
    names = list(files(path))
    (main_file,) = (n for n in names if n.startswith(FOLDER) and n.endswith("_results.json"))
    date = Path(main_file).name.removesuffix("_results.json")
    assert f"{FOLDER}/{date}_samples_birds-choice.jsonl" in names and len(names) == 10
    assert "_" not in date and ":" not in date


def test_results_hold_values_and_errors_by_metric_and_filter(path):
    found = results(path)["results"]
    values = kit.worth(GOOD, TASKS["birds-filters"], "strict")[6:]
    mine = found["birds-filters"]
    assert mine["exact_match,strict"] == pytest.approx(values.mean())
    error = values.std(ddof=1) / math.sqrt(len(values))
    assert mine["exact_match_stderr,strict"] == pytest.approx(error)
    assert mine["alias"] == "birds filters" and mine["samples"] == 60
    errors = kit.worth(GOOD, TASKS["birds-count"], "none")
    expected = errors.std(ddof=1) / math.sqrt(80)
    assert found["birds-count"]["mae_stderr,none"] == pytest.approx(expected)


def test_clusters_make_the_error_that_of_their_means(path):
    """Units of three documents each: the error is that of 40 unit means, not of 120 documents."""
    means = kit.worth(GOOD, TASKS["birds-choice"], "none").reshape(40, 3).mean(axis=1)
    expected = means.std(ddof=1) / math.sqrt(40)
    found = results(path)["results"]["birds-choice"]["exact_match_stderr,none"]
    assert found == pytest.approx(expected)


def test_intervals_give_back_the_error_they_were_made_from():
    values = np.random.default_rng(1).normal(3, 2, 40)
    found = interval(Items(np.zeros(40, int)), values, mean_value("x"))
    score = Score("x", values.mean(), low=found.low, high=found.high, n=40, n_units=40,
                  method=found.method)  # fmt: skip
    assert standard_error(score) == pytest.approx(values.std(ddof=1) / math.sqrt(40), rel=0.06)


def test_a_score_without_interval_has_no_error():
    assert standard_error(Score("f1", 0.5, n=9)) == "N/A"
    assert standard_error(Score("f1", math.nan, low=0.0, high=1.0, n=9)) == "N/A"


def test_facts_of_tasks_stand_in_their_places(path):
    found = results(path)
    task = "birds-filters"
    assert found["versions"][task] == "1.5" and found["n-shot"][task] == 0
    assert found["n-samples"][task] == {"original": 500, "effective": 60}
    assert found["higher_is_better"]["birds-count"] == {"mae": False, "failure_rate": False}
    assert found["higher_is_better"][task] == {"exact_match": True, "failure_rate": False}
    assert found["configs"][task]["dataset_path"] == "lab/birds"
    assert found["model_name"] == GOOD and found["config"]["limit"] is None


def test_groups_are_averaged_from_their_members(path):
    found = results(path)
    members = [found["results"][task]["exact_match,none"] for task in kit.MEMBERS]
    assert found["groups"]["birds"]["exact_match,none"] == pytest.approx(np.mean(members))
    assert found["results"]["birds"] == found["groups"]["birds"]
    assert found["group_subtasks"] == {"birds": kit.MEMBERS}
    errors = [found["results"][task]["exact_match_stderr,none"] for task in kit.MEMBERS]
    expected = math.hypot(*errors) / 2
    assert found["groups"]["birds"]["exact_match_stderr,none"] == pytest.approx(expected)


def test_a_group_without_all_members_is_left_out_with_a_line(path, tmp_path, capsys):
    flags = ["--results", str(path.parent), "--task", "birds-choice", "--out", str(tmp_path / "o")]
    assert main(["export", "lmms-eval", *flags]) == 0
    assert "left out: group 'birds' of chat/lab/good-1b: birds-filters" in capsys.readouterr().err
    (written,) = (tmp_path / "o" / FOLDER).glob("*_results.json")
    assert "groups" not in json.loads(written.read_text())


def test_samples_have_a_line_per_document_and_filter(path):
    lines = samples(path, "birds-filters")
    assert len(lines) == 120 and all(set(line) >= LME for line in lines)
    assert [line["doc_id"] for line in lines[:4]] == [0, 0, 1, 1], "by number, not by letters"
    mine = next(each for each in lines if each["doc_id"] == 9 and each["filter"] == "strict")
    value = kit.worth(GOOD, TASKS["birds-filters"], "strict")[9]
    assert mine["metrics"] == ["exact_match"] and mine["exact_match"] == value
    assert mine["resps"] == [["It is B2."]] and mine["filtered_resps"] == ["B2"]
    assert mine["arguments"]["gen_args_0"]["arg_0"] == mine["input"] == "Which bird is on photo 9?"
    assert mine["prompt_hash"] == kit.sha("Which bird is on photo 9?")
    assert len({line["doc_hash"] for line in lines}) == 60


def test_all_lines_of_a_file_have_the_same_types(path):
    for name, text in files(path).items():
        if name.endswith(".jsonl"):
            frame = pl.read_ndjson(text.encode(), infer_schema_length=None)
            assert len(frame) == text.count("\n") and frame["doc_id"].dtype == pl.Int64


def test_a_failed_document_is_no_wrong_one(path):
    first = samples(path, "birds-filters")[0]
    assert first["outcome"] == "failed" and first["error"] == "HTTP 500"
    assert first["metrics"] == [] and "exact_match" not in first and first["resps"] == []


def test_values_that_are_no_numbers_are_plain_json(path):
    assert samples(path, "birds-f1")[5]["f1"] == [1, 5]


def test_defect_lmms_eval_task_hashes_verify_something(path, tmp_path):
    """lmms-eval hashes an attribute that is never set: its hash is the same for every sample."""
    before = results(path)["task_hashes"]
    assert len(set(before.values())) == len(before)
    other = tmp_path / "results" / "fieldmark.db"
    with Store.open(other) as store:
        kit.write_run(store, GOOD, replace(TASKS["birds-choice"], n=119))
    assert results(other)["task_hashes"]["birds-choice"] != before["birds-choice"]


def test_a_task_run_twice_makes_two_files(tmp_path):
    path = tmp_path / "fieldmark.db"
    with Store.open(path) as store:
        for more in ({}, {"n_test": 5}, {"seed": 1}):
            kit.write_run(store, GOOD, TASKS["birds-count"], **more)
    names = [name for name in files(path) if name.endswith("_results.json")]
    assert len(names) == 3 and len(set(names)) == 3


def test_runs_of_fieldmarks_own_tasks_are_told_too(tmp_path):
    path = tmp_path / "fieldmark.db"
    with Store.open(path) as store:
        run = store.begin_run(
            RunSpec(
                GOOD, "foxes", "ask", {"shots": 2, "parts": ["day", "night"]}, task_version="3"
            ),
            {"config": {"task": {"task": "foxes", "dataset": "folder"}}},
        )
        for part in ("day", "night"):
            said = [json.dumps({"text": f"A {each}."}) for each in ("fox", "hare")] + [None]
            given = Predictions(["1.jpg", "2.jpg", "3.jpg"], ["fox"] * 3, ["fox", "hare", None],
                                outcomes=["ok", "ok", "unparsed"], infos=said)  # fmt: skip
            store.write_part(run, PartResult(given, part=part))
        score = Score("accuracy", 0.5, low=0.2, high=0.8, n=4, method="wilson", is_primary=True)
        store.finish_run(run, [score, replace(score, part="day", is_primary=False)])
    found = results(path)
    assert found["results"]["foxes"]["accuracy,none"] == 0.5 and found["n-shot"]["foxes"] == 2
    assert found["versions"]["foxes"] == "3" and "groups" not in found
    lines = samples(path, "foxes")
    assert [line["doc_id"] for line in lines] == list(range(6))
    assert lines[1]["resps"] == [["A hare."]] and lines[1]["filtered_resps"] == ["hare"]
    assert [line.get("accuracy") for line in lines[:3]] == [1.0, 0.0, None]
    assert lines[2]["outcome"] == "unparsed" and set(lines[3]) >= LME
    assert len({line["doc_hash"] for line in lines}) == 6


def test_the_other_model_has_a_folder_of_its_own(path):
    names = list(files(path, models=(POOR,), tasks=("birds-f1",)))
    assert all(name.startswith("chat_lab_poor-1b/") for name in names) and len(names) == 2


def test_the_newest_run_of_each_task_stands_with_the_others(tmp_path):
    """A member that ran once before, in another way, does not tear its group apart."""
    made = tmp_path / "fieldmark.db"
    early = replace(TASKS["birds-choice"], pipelines=("strict",), groups=())
    with Store.open(made) as store:
        for each in (early, *(TASKS[name] for name in kit.MEMBERS)):
            kit.write_run(store, GOOD, each)
    found = [
        json.loads(text) for name, text in files(made).items() if name.endswith("results.json")
    ]
    whole = next(each for each in found if "birds-filters" in each["results"])
    assert len(found) == 2 and list(whole["groups"]) == ["birds"]
    assert whole["group_subtasks"]["birds"] == kit.MEMBERS
