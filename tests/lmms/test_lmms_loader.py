"""A file becomes a task or a group; what is wrong in it is told with its place."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from fieldmark.errors import UsageError
from fieldmark.lmms.code.trust import Function, Trust
from fieldmark.lmms.read.groups import load_document_task, load_group
from fieldmark.lmms.read.schema import NO_EFFECT, DocumentTask
from fieldmark.source_lines import Located

GOOD = "task: x\ndataset_path: d\ntest_split: test\ndoc_to_text: q\ndoc_to_target: a\n"
"""five lines: what a test adds stands on line six"""


def load(folder: Path, more: str, name: str = "x.yaml") -> DocumentTask:
    path = folder / name
    path.write_text(GOOD + more)
    return load_document_task(path, Trust.of(folder))


def told(folder: Path, more: str) -> list[str]:
    with pytest.raises(UsageError) as caught:
        load(folder, more)
    return [line.removeprefix(f"{folder}/x.yaml") for line in str(caught.value).splitlines()]


def test_a_task_knows_its_values_and_where_they_stand(tmp_path: Path) -> None:
    more = (
        "metric_list:\n- metric: acc\n  aggregation: !function u.mean\n  higher_is_better: true\n"
        "  ignore_case: yes\nfilter_list:\n- name: strict\n  filter:\n"
        "  - {function: regex, group_select: -1}\n  - function: !function u.Last\n"
        "tag: [one, two]\nmetadata:\n- version: 0.5\n- note: 1\n"
    )
    task = load(tmp_path, more)
    path = tmp_path / "x.yaml"
    assert task.metric_list is not None and task.filter_list is not None
    metric, (pipeline,) = task.metric_list[0], task.filter_list
    assert (metric.name, metric.options) == ("acc", {"ignore_case": True})
    assert metric.aggregation == Function("u.mean", path, 8)
    assert [step.options for step in pipeline.filter] == [{"group_select": -1}, {}]
    assert (task.version, task.tags, task.eval_split) == ("0.5", ("one", "two"), "test")
    assert task.line_of("metric_list", 0, "aggregation") == f"{path}:8"
    assert task.line_of("metric_list").startswith(f"{path}:")
    assert task.trust.allows(path)
    assert task.notes == ()


PUBLIC_FIELDS = """
task task_alias tag group group_alias dataset_path dataset_name dataset_kwargs training_split
validation_split test_split fewshot_split full_docs process_results_use_image process_docs
doc_to_visual doc_to_text doc_to_target doc_to_choice doc_to_messages process_results use_prompt
description target_delimiter fewshot_delimiter fewshot_config num_fewshot metric_list output_type
generation_kwargs repeats filter_list should_decontaminate doc_to_decontamination_query cluster_key
score_key metadata lmms_eval_specific_kwargs model_specific_generation_kwargs
model_specific_target_kwargs reasoning_tags auto_strip_thinking
"""


def test_every_field_of_the_public_configuration_is_known_and_two_of_its_guide() -> None:
    fields = set(PUBLIC_FIELDS.split())
    assert len(fields) == 42
    assert set(DocumentTask.model_fields) - fields == {"batch_size", "doc_to_audio"}
    assert fields <= set(DocumentTask.model_fields)


WRONG = [
    ("doc_to_txt: x\n", [":6  key 'doc_to_txt' is not known. Did you mean 'doc_to_text'?"]),
    ("metric_list:\n- metric: acc\n-\n- aggregation: mean\n- acc\n", [
        ":8  metric_list[1] is empty: expected a mapping of `key: value`.",
        ":9  key 'metric' is missing: add it.",
        ":10  metric_list[3] = 'acc': expected a mapping of `key: value`.",
        "3 problems, nothing was started.",
    ]),
    ("process_results: utils.f\n",
     [":6  process_results = 'utils.f': expected `!function` with a file and a name in it."]),
    ("process_docs: {text: a.b, file: /x}\n",
     [":6  process_docs = {'text': 'a.b', 'file': '/x'}: expected `!function` with a file and a"
      " name in it."]),
    ("dataset_name: !function u.x\n", [":6  dataset_name = !function u.x: expected text."]),
    ("dataset_name: no\n", [":6  dataset_name = false: expected text."]),
    ("yes: 1\n", [":6  key true is not text: put it in quotes."]),
    ("repeats: 0\nnum_fewshot: -1\n", [
        ":6  repeats = 0: expected 1 or more.",
        ":7  num_fewshot = -1: expected 0 or more.",
        "2 problems, nothing was started.",
    ]),
    ("tag: a\ngroup: b\n",
     [":7  group = 'b': expected `tag` only: group is an old word for it, inside tasks."]),
    ("doc_to_visual: [a]\n",
     [":6  doc_to_visual = ['a']: expected text or `!function` with a file and a name in it."]),
    ("filter_list:\n- name: a\n  filter:\n  - functon: x\n",
     [":9  key 'function' is missing: add it."]),
    ("probe: {classifier: ridge}\n", [
        ":6  key 'probe' is fieldmark's and key 'dataset_path' ({path}:2) lmms-eval's:"
        " keep to one form."
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("more", "lines"), WRONG, ids=[more.split(":")[0] for more, _ in WRONG])
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, more: str, lines: list[str]) -> None:
    expected = [line.replace("{path}", f"{tmp_path}/x.yaml") for line in lines]
    assert told(tmp_path, more) == expected


def test_a_wrong_output_type_is_told_with_the_closest(tmp_path: Path) -> None:
    (line,) = told(tmp_path, "output_type: generate_untill\n")
    assert line.startswith(":6  output_type = 'generate_untill': expected 'generate_until', ")
    assert line.endswith("Did you mean 'generate_until'?")


def test_a_fault_in_a_template_is_told_at_the_template(tmp_path: Path) -> None:
    (tmp_path / "_t").write_text("repeats: none\nnum_fewshot: x\n")
    path = tmp_path / "x.yaml"
    path.write_text(GOOD + "include: _t\nnum_fewshot: few\n")
    with pytest.raises(UsageError) as caught:
        load_document_task(path, Trust.of(tmp_path))
    assert str(caught.value).splitlines()[:2] == [
        f"{path}:7  num_fewshot = 'few': expected a whole number.",
        f"{tmp_path}/_t:1  repeats = 'none': expected a whole number.",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("task: [a]\ngroup: g\n", ":1  is a group of tasks, not a task."),
        ("task: x\nclass: !function u.T\n", ":2  is a task written as a Python class: "),
        ("dataset_path: d\n", "  names no task: it is a template for other files to include."),
        ("task: x\ntitle: y\n", "  is a task in fieldmark's own form, not in lmms-eval's."),
        ("task:\ndataset_path: d\n", ":1  task is empty: expected text."),
        ("task: ''\ndataset_path: d\n", ":1  task = '': expected text."),
    ],
)
def test_files_that_are_no_task_say_what_they_are(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        load_document_task(path, Trust.of(tmp_path))
    assert str(caught.value).removeprefix(str(path)).startswith(words)


@pytest.mark.parametrize("key", sorted(set(NO_EFFECT)))
def test_keys_without_effect_are_accepted_with_a_note(tmp_path: Path, key: str) -> None:
    is_flag = DocumentTask.model_fields[key].annotation is bool
    task = load(tmp_path, f"{key}: {'true' if is_flag else 'text'}\n")
    assert task.notes == (f"{tmp_path}/x.yaml:6  {key} {NO_EFFECT[key]}.",)


def test_a_function_that_lost_its_tag_is_noted(tmp_path: Path) -> None:
    (tmp_path / "utils.py").write_text("")
    task = load(tmp_path, "doc_to_visual: utils.pictures\ndoc_to_choice: other.choices\n")
    assert task.notes == (
        f"{tmp_path}/x.yaml:6  doc_to_visual = 'utils.pictures' names a function, but without"
        " `!function` it is plain text.",
    )


def test_group_in_a_task_is_a_tag(tmp_path: Path) -> None:
    task = load(tmp_path, "group: old\n")
    assert task.tags == ("old",)
    assert task.notes == (
        f"{tmp_path}/x.yaml:6  group in a task is an old word for tag, and is read as tag.",
    )


def test_a_key_that_stands_twice_the_same_is_noted(tmp_path: Path) -> None:
    task = load(tmp_path, "doc_to_target: a\n")
    assert task.doc_to_target == "a"
    assert task.notes == (
        f"{tmp_path}/x.yaml:6  key 'doc_to_target' is given twice with the same value.",
    )
    assert "duplicate key 'doc_to_target'" in told(tmp_path, "doc_to_target: b\n")[0]


def test_overrides_win_and_keep_their_place(tmp_path: Path) -> None:
    load(tmp_path, "num_fewshot: 1\n")
    path, trust = tmp_path / "x.yaml", Trust.of(tmp_path)
    plain = load_document_task(path, trust, {"num_fewshot": 3})
    assert plain.num_fewshot == 3
    assert plain.line_of("num_fewshot") == str(path)
    group = tmp_path / "g.yaml"
    put = Located(group, {"num_fewshot": 4}, {("num_fewshot",): 9})
    task = load_document_task(path, trust, put)
    assert task.num_fewshot == 4
    assert task.line_of("num_fewshot") == f"{group}:9"
    assert task.line_of("doc_to_text") == f"{path}:4"
    with pytest.raises(UsageError, match=rf"^{group}:9  num_fewshot = 'many': expected a whole"):
        load_document_task(path, trust, Located(group, {"num_fewshot": "many"}, put.lines))


def test_a_task_travels_to_another_process_whole(tmp_path: Path) -> None:
    task = load(tmp_path, "doc_to_visual: !function u.v\nfull_docs: true\n")
    again = pickle.loads(pickle.dumps(task))
    assert again == task
    assert again.line_of("full_docs") == task.line_of("full_docs")
    assert (again.notes, again.trust) == (task.notes, task.trust)


def test_a_renamed_task_stays_the_same_otherwise(tmp_path: Path) -> None:
    task = load(tmp_path, "full_docs: true\n")
    other = task.renamed("y")
    assert (other.task, task.task) == ("y", "x")
    assert (other.notes, other.trust, other.origin) == (task.notes, task.trust, task.origin)


def test_group_files(tmp_path: Path) -> None:
    path = tmp_path / "g.yaml"
    path.write_text(
        "group: g\ngroup_alias: G\ntask:\n- a\n- {task: b, num_fewshot: 2}\n"
        "- group: inner\n  task: [c]\n  repeats: 2\nnum_fewshot: 1\n"
        "aggregate_metric_list:\n  metric: acc\n  weight_by_size: yes\nmetadata: {version: 1}\n"
    )
    group = load_group(path, Trust.of(tmp_path))
    assert [item.name for item in group.task] == ["a", "b", "inner"]
    assert group.task[1].overrides == {"num_fewshot": 2}
    inner = group.task[2].inner
    assert inner is not None and inner.overrides == {"repeats": 2}
    assert group.overrides == {"num_fewshot": 1}
    (metric,) = group.aggregate_metric_list
    assert (metric.metric, metric.aggregation, metric.weight_by_size) == ("acc", "mean", True)
    assert metric.filter_list == ("none",)
    assert group.line_of("aggregate_metric_list", "weight_by_size") == f"{path}:12"


def test_what_is_wrong_in_a_group_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "g.yaml"
    path.write_text(
        "task:\n- 5\n-\n- {x: 1}\n- {group: h, task: [a, 7]}\n- {task: [a]}\n"
        "aggregate_metric_list:\n- {metric: acc, weigth_by_size: 1}\n"
    )
    with pytest.raises(UsageError) as caught:
        load_group(path, Trust.of(tmp_path))
    lines = str(caught.value).replace(str(path), "").splitlines()
    assert lines == [
        "  key 'group' is missing: add it.",
        ":2  task[0] = 5: expected the name of a task, or a mapping with `task`.",
        ":3  task[1] is empty: expected the name of a task, or a mapping with `task`.",
        ":4  task[2] = {'x': 1}: expected a mapping with `task`, the name of a task.",
        ":5  task[3].task[1] = 7: expected the name of a task, or a mapping with `task`.",
        ":6  key 'group' is missing: add it.",
        ":8  key 'weigth_by_size' is not known. Did you mean 'weight_by_size'?",
        "7 problems, nothing was started.",
    ]
    path.write_text(GOOD)
    with pytest.raises(UsageError, match=r":1  is a task, not a group\.$"):
        load_group(path, Trust.of(tmp_path))
