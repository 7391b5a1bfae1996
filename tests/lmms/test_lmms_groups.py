"""A name becomes tasks: groups push their keys down, nothing is lost and nothing runs twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from fieldmark.errors import UnknownName, UsageError
from fieldmark.lmms.code.trust import Trust
from fieldmark.lmms.read.files import index_folders
from fieldmark.lmms.read.groups import Expanded, expand, expand_file

TASK = "dataset_path: d\ntest_split: test\ndoc_to_text: q\ndoc_to_target: a\n"


def expanded(folder: Path, files: dict[str, str], name: str = "g") -> Expanded:
    for each in "abc":
        (folder / f"{each}.yaml").write_text(f"task: {each}\n{TASK}num_fewshot: 0\ntag: abc\n")
    for file, text in files.items():
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(text)
    return expand(index_folders([folder]), name, Trust.of(folder))


def told(folder: Path, files: dict[str, str], name: str = "g") -> str:
    with pytest.raises(UsageError) as caught:
        expanded(folder, files, name)
    return str(caught.value)


def names(found: Expanded) -> list[str]:
    return [task.task for task in found.tasks]


def test_a_task_a_tag_and_a_pattern(tmp_path: Path) -> None:
    assert names(expanded(tmp_path, {}, "b")) == ["b"]
    assert names(expanded(tmp_path, {}, "abc")) == ["a", "b", "c"]
    assert names(expanded(tmp_path, {}, "[ac]")) == ["a", "c"]
    assert expanded(tmp_path, {}, "b").groups == ()


def test_a_group_puts_its_keys_onto_its_members(tmp_path: Path) -> None:
    found = expanded(
        tmp_path,
        {"g.yaml": "group: g\ntask:\n- a\n- {task: b, repeats: 2, num_fewshot: 7}\n"
                   "num_fewshot: 3\n"},
    )  # fmt: skip
    a, b = found.tasks
    assert (a.num_fewshot, a.repeats, b.num_fewshot, b.repeats) == (3, 1, 3, 2)
    assert a.line_of("num_fewshot") == f"{tmp_path}/g.yaml:5"
    assert b.line_of("repeats") == f"{tmp_path}/g.yaml:4"
    assert a.line_of("doc_to_text") == f"{tmp_path}/a.yaml:4"
    (group,) = found.groups
    assert (group.group.group, group.members, group.tasks) == ("g", ("a", "b"), ("a", "b"))


def test_outer_keys_win_over_inner_ones_and_a_groups_own_stay_its_own(tmp_path: Path) -> None:
    found = expanded(
        tmp_path,
        {
            "inner.yaml": "group: inner\ntask: [a, b]\nnum_fewshot: 1\nrepeats: 4\n"
            "metadata: {version: 2}\naggregate_metric_list: [{metric: acc}]\n",
            "g.yaml": "group: g\ntask:\n- {task: inner, group_alias: Inner, repeats: 5}\n- c\n"
            "num_fewshot: 2\nmetadata: {version: 1}\n",
        },
    )
    a, _, c = found.tasks
    assert (a.num_fewshot, a.repeats, a.metadata) == (2, 5, None)
    assert (c.num_fewshot, c.repeats) == (2, 1)
    inner, outer = found.groups
    assert inner.group.group_alias == "Inner"
    assert inner.group.aggregate_metric_list[0].metric == "acc"
    assert (outer.members, outer.tasks) == (("inner", "c"), ("a", "b", "c"))
    assert outer.group.group_alias is None


def test_a_group_written_inside_a_group(tmp_path: Path) -> None:
    found = expanded(
        tmp_path,
        {"g.yaml": "group: g\ntask:\n- group: in\n  task: [{task: a, repeats: 2}, b]\n"
                   "  aggregate_metric_list: [{metric: acc}]\n- c\nnum_fewshot: 5\n"},
    )  # fmt: skip
    assert [(task.num_fewshot, task.repeats) for task in found.tasks] == [(5, 2), (5, 1), (5, 1)]
    assert found.tasks[0].line_of("repeats") == f"{tmp_path}/g.yaml:4"
    assert [each.group.group for each in found.groups] == ["in", "g"]
    assert found.groups[1].members == ("in", "c")


def test_the_same_task_with_other_keys_gets_a_name_of_its_own(tmp_path: Path) -> None:
    items = "".join(f"- {{task: a, num_fewshot: {shots}}}\n" for shots in (1, 2, 3, 1))
    found = expanded(tmp_path, {"g.yaml": f"group: g\ntask:\n- a\n{items}- a\n"})
    assert names(found) == ["a", "a-1", "a-2", "a-3"]
    assert [task.num_fewshot for task in found.tasks] == [0, 1, 2, 3]
    assert found.groups[0].tasks == ("a", "a-1", "a-2", "a-3")


def test_a_task_in_two_inner_groups_is_one_task_of_both(tmp_path: Path) -> None:
    found = expanded(
        tmp_path,
        {
            "one.yaml": "group: one\ntask: [a, b]\n",
            "two.yaml": "group: two\ntask: [b, c]\n",
            "g.yaml": "group: g\ntask: [one, two]\n",
        },
    )
    assert names(found) == ["a", "b", "c"]
    assert [each.tasks for each in found.groups] == [("a", "b"), ("b", "c"), ("a", "b", "c")]


def test_tags_are_members_too(tmp_path: Path) -> None:
    found = expanded(tmp_path, {"g.yaml": "group: g\ntask:\n- {task: abc, repeats: 3}\n"})
    assert names(found) == ["a", "b", "c"]
    assert {task.repeats for task in found.tasks} == {3}
    assert found.groups[0].members == ("a", "b", "c")


def test_a_whole_task_may_stand_in_a_group(tmp_path: Path) -> None:
    (tmp_path / "_t").write_text("doc_to_text: q\ndoc_to_target: !function u.t\n")
    found = expanded(
        tmp_path,
        {"g.yaml": "group: g\ntask:\n- task: new\n  include: _t\n  dataset_path: d\n"
                   "  test_split: test\nrepeats: 2\n"},
    )  # fmt: skip
    (task,) = found.tasks
    assert (task.task, task.doc_to_text, task.repeats) == ("new", "q", 2)
    assert task.line_of("dataset_path") == f"{tmp_path}/g.yaml:5"
    assert task.line_of("doc_to_text") == f"{tmp_path}/_t:1"


def test_members_may_include_files(tmp_path: Path) -> None:
    (tmp_path / "_t").write_text("doc_to_text: included\ndescription: new\n")
    found = expanded(tmp_path, {"g.yaml": "group: g\ntask:\n- {task: a, include: _t}\n"})
    (task,) = found.tasks
    assert (task.doc_to_text, task.description) == ("q", "new")


def test_groups_in_a_circle_are_told(tmp_path: Path) -> None:
    line = told(
        tmp_path,
        {"g.yaml": "group: g\ntask: [a, h]\n", "h.yaml": "group: h\ntask:\n- b\n- g\n"},
    )
    assert line == f"{tmp_path}/h.yaml:4  groups contain each other: g → h → g."


def test_every_member_that_fails_is_told(tmp_path: Path) -> None:
    files = {
        "bad.yaml": f"task: bad\n{TASK}repeats: none\n",
        "g.yaml": "group: g\ntask:\n- a\n- bb\n- bad\n- {task: b, num_fewshots: 2}\n",
    }
    assert told(tmp_path, files).splitlines() == [
        f"{tmp_path}/g.yaml:4  task, group or tag 'bb' is not known. Did you mean 'b'?",
        f"{tmp_path}/bad.yaml:6  repeats = 'none': expected a whole number.",
        f"{tmp_path}/g.yaml:6  key 'num_fewshots' is not known. Did you mean 'num_fewshot'?",
        "3 problems, nothing was started.",
    ]


def test_a_name_in_two_files_is_settled_by_the_folder_or_told(tmp_path: Path) -> None:
    one, two = f"task: t\n{TASK}repeats: 1\n", f"task: t\n{TASK}repeats: 2\n"
    files = {"x/t.yaml": one, "y/t.yaml": two, "y/h.yaml": "group: h\ntask: [t]\n"}
    (task,) = expanded(tmp_path, files, "h").tasks
    assert task.repeats == 2
    assert "is defined in" in told(tmp_path, files, "t")
    tagged = {"x/t.yaml": one + "tag: both\n", "y/t.yaml": two + "tag: both\n"}
    assert told(tmp_path, tagged, "both") == (
        f"{tmp_path}/y/t.yaml:1  task 't' is defined in {tmp_path}/x/t.yaml too:"
        " rename one, or name its file."
    )


def test_patterns_take_groups_first_and_tell_what_they_cannot_run(tmp_path: Path) -> None:
    files = {
        "a1.yaml": "group: a1\ntask: [a]\nnum_fewshot: 5\n",
        "a2.yaml": "task: a2\nclass: !function u.T\n",
    }
    found = expanded(tmp_path, files, "a*")
    assert [(task.task, task.num_fewshot) for task in found.tasks] == [
        ("a", 5),
        ("b", 0),
        ("c", 0),
    ]
    assert found.notes == (f"{tmp_path}/a2.yaml  is not in a form that a pattern can run.",)
    with pytest.raises(UnknownName, match=r"task, group or tag 'zz\*' is not known"):
        expanded(tmp_path, files, "zz*")


def test_a_file_by_its_path(tmp_path: Path) -> None:
    expanded(tmp_path, {"g.yaml": "group: g\ntask: [a, c]\n"})
    index, trust = index_folders([tmp_path]), Trust.of(tmp_path)
    assert names(expand_file(index, tmp_path / "g.yaml", trust)) == ["a", "c"]
    assert names(expand_file(index, tmp_path / "b.yaml", trust)) == ["b"]
