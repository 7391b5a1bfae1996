"""Tasks in lmms-eval's form: each asked once, groups whole however their members were run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fieldmark.experiments import Axes, execute, make_jobs, make_plan
from fieldmark.lmms.report import group_results
from fieldmark.progress import Silent
from fieldmark.settings import Settings
from fieldmark.store import Store
from kit.pictures import mark_drawn

TASK = """
task: {name}
tag: colours
dataset_path: json
dataset_kwargs: {{data_files: rows.jsonl}}
test_split: train
doc_to_text: "{{{{question}}}}"
doc_to_target: answer
doc_to_choice: ["0", "1", "2", "3"]
output_type: {output}
metric_list: [{{metric: {metric}, aggregation: mean, higher_is_better: true}}]
"""
GROUP = """
group: both
task: [one, two]
aggregate_metric_list: [{metric: exact_match, weight_by_size: true}]
"""
WRITES = """
from pathlib import Path

def results(doc, results):
    return {"found": doc["answer"]}

def submit(found, args):
    Path(args.output_path, "sent.txt").write_text(" ".join(found))
    return 1.0
"""
MODEL = "chat/mock/wren"


def write(folder: Path, name: str, n: int = 4, **more: str) -> Path:
    mark_drawn(folder)
    rows = [json.dumps({"question": f"{folder.name} {i}?", "answer": str(i)}) for i in range(n)]
    (folder / "rows.jsonl").write_text("\n".join(rows))
    path = folder / f"{name}.yaml"
    told = {"output": "generate_until", "metric": "exact_match", **more}
    path.write_text(TASK.format(name=name, **told))
    return path


def plan_of(tasks: list[str], settings: Settings, *folders: Path):
    jobs = make_jobs([(MODEL, "")], [(each, "") for each in tasks], Axes(), None, folders)
    return make_plan(jobs, settings)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(cache=tmp_path / "cache", results=tmp_path / "results")


def test_a_task_that_several_names_mean_is_one_job(tmp_path, settings):
    write(tmp_path / "mine", "one")
    write(tmp_path / "mine", "two")
    (tmp_path / "mine" / "both.yaml").write_text(GROUP)
    plan = plan_of(["one", "colours", "both", "t*"], settings, tmp_path / "mine")
    assert [each.job.task_name for each in plan.jobs] == ["one", "two"]
    assert all([told["group"] for told in each.job.groups] == ["both"] for each in plan.jobs)


def test_the_same_words_in_two_folders_ask_about_two_datasets(tmp_path, settings):
    files = [str(write(tmp_path / name, "one")) for name in ("here", "there")]
    plan = plan_of([*files, files[0]], settings)
    assert len(plan.jobs) == len({each.spec.name for each in plan.jobs}) == 2
    copied = tmp_path / "copy" / "here"  # whose documents are the same, word for word
    assert len(plan_of([files[0], str(write(copied, "one"))], settings).jobs) == 1


def test_a_group_takes_in_members_that_ran_before_it_was_asked_for(tmp_path, settings):
    for name in ("one", "two"):
        write(tmp_path / "mine", name)
    (tmp_path / "mine" / "both.yaml").write_text(GROUP)
    execute(plan_of(["one", "two"], settings, tmp_path / "mine"), settings, Silent())
    for _ in range(2):
        plan = plan_of(["both"], settings, tmp_path / "mine")
        assert [each.status for each in plan.jobs] == ["done", "done"]
        execute(plan, settings, Silent())
    with Store.open(settings.store, read_only=True) as store:
        (found,) = group_results(store, store.runs(), store.scores())
        kept = [part.info["asked_with"] for part in store.finished_parts(1)]
    assert found.group == "both" and found.scores[0].n == 8
    assert [[each["group"] for each in groups] for groups in kept] == [["both"]]


def test_what_only_a_local_model_can_tell_is_refused_by_the_plan(tmp_path, settings):
    write(tmp_path / "mine", "one", output="loglikelihood", metric="acc")
    write(tmp_path / "mine", "two", output="multiple_choice", metric="acc_mutual_info")
    one, two = plan_of(["one", "two"], settings, tmp_path / "mine").jobs
    assert one.status == two.status == "refused"
    assert (
        one.why.endswith("'chat/mock/wren' only writes.")
        and "one.yaml:10  loglikelihood" in one.why
    )
    assert "two.yaml:11  acc_mutual_info needs a model" in two.why


@pytest.mark.slow
def test_files_of_an_aggregation_lie_where_it_is_told_to_put_them(tmp_path, monkeypatch):
    """Also when the results folder is named from where one stands."""
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path / "mine", "one")
    (tmp_path / "mine" / "utils.py").write_text(WRITES)
    own = "process_results: !function utils.results\nmetric_list:\n"
    own += "  - {metric: found, aggregation: !function utils.submit, higher_is_better: true}\n"
    path.write_text(path.read_text().rpartition("metric_list")[0] + own)
    settings = Settings(cache=Path("cache"), results=Path("results"))
    execute(plan_of([str(path)], settings), settings, Silent()).raise_if_failed()
    (sent,) = Path("results/files").rglob("sent.txt")
    assert len(sent.relative_to("results/files").parts) == 2
    assert sent.read_text() == "0 1 2 3"


def test_the_cost_of_rounds_is_said_to_be_that_of_the_first(tmp_path, settings):
    path = write(tmp_path / "mine", "one", output="generate_until_multi_round")
    (planned,) = plan_of([str(path)], settings).jobs
    assert planned.cost is not None and planned.cost.n == 4
    assert planned.why == "requests of the first round: how many follow depends on the answers"
