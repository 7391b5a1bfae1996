"""Do groups and tags of the fixture families mean the files their authors list?"""

from __future__ import annotations

import pytest

from fieldmark.errors import UsageError
from fieldmark.lmms.code.trust import Function
from fieldmark.lmms.read.files import Index, index_folders
from fieldmark.lmms.read.groups import expand, load_document_task
from lmms.families.kit import CHECKOUT, TASKS, read_plainly
from lmms.families.letters import VISRES
from lmms.families.made_data import trusted
from lmms.families.written import MMLU

pytestmark = pytest.mark.skipif(not CHECKOUT, reason="FIELDMARK_LMMS_EVAL names no checkout")
FOLDERS = ("visres_bench", "mmlu", "wm_abench", "screenspot", "cv_bench", "arc", "mmvetv2")


@pytest.fixture(scope="module")
def index() -> Index:
    return index_folders([TASKS / name for name in FOLDERS])


def test_group_of_28_includes(index: Index) -> None:
    found = expand(index, "visres_bench", trusted())
    listed = read_plainly("visres_bench/_visres_bench.yaml")["task"]
    assert [task.task for task in found.tasks] == listed
    assert set(listed) == {family.task for family in VISRES}
    assert {task.dataset_name for task in found.tasks} == {
        read_plainly(family.file)["dataset_name"] for family in VISRES
    }


def test_group_of_groups_of_tags(index: Index) -> None:
    """Four groups are written inside one; each holds the files of a tag."""
    found = expand(index, "mmlu_continuation", trusted())
    assert {task.task for task in found.tasks} == {family.task for family in MMLU}
    *inner, outer = found.groups
    assert outer.group.group == "mmlu_continuation"
    assert outer.members == tuple(each.group.group for each in inner)
    for each in inner:
        tag = f"mmlu_continuation_{each.group.group.replace(' ', '_')}"
        assert set(each.tasks) == {family.task for family in MMLU if family.tags == (tag,)}
        (metric,) = each.group.aggregate_metric_list
        assert (metric.metric, metric.aggregation, metric.weight_by_size) == ("acc", "mean", True)


def test_group_with_functions(index: Index) -> None:
    found = expand(index, "wm_abench", trusted())
    raw = read_plainly("wm_abench/wm_abench.yaml")
    (group,) = found.groups
    assert list(group.tasks) == raw["task"]
    told = [
        (each.metric, str(each.aggregation))
        for each in group.group.aggregate_metric_list
        if isinstance(each.aggregation, Function)
    ]
    assert told == [(each["metric"], each["aggregation"]) for each in raw["aggregate_metric_list"]]


def test_old_groups_are_tags(index: Index) -> None:
    names = [task.task for task in expand(index, "screenspot_rec", trusted()).tasks]
    assert names == ["screenspot_rec_test"]


def test_tags_come_by_include(index: Index) -> None:
    names = {task.task for task in expand(index, "ai2_arc", trusted()).tasks}
    assert names == {"arc_easy", "arc_challenge"}


def test_pattern(index: Index) -> None:
    names = {task.task for task in expand(index, "cv_bench_?d", trusted()).tasks}
    assert names == {"cv_bench_2d", "cv_bench_3d"}


def test_two_files_of_one_name_are_told(index: Index) -> None:
    assert [path.name for path in index.duplicates["mmvetv2"]] == [
        "mmvetv2.yaml",
        "mmvetv2_group_img.yaml",
    ]


def test_empty_entry_is_one_line() -> None:
    with pytest.raises(UsageError) as told:
        load_document_task(TASKS / "plm_videobench" / "rcap" / "rcap_test.yaml", trusted())
    assert "rcap_test.yaml:18" in str(told.value)
    assert "is empty" in str(told.value)
    assert "\n" not in str(told.value)


def test_function_without_its_tag_is_told() -> None:
    task = load_document_task(TASKS / "stare" / "stare_2d_va.yaml", trusted())
    (note,) = task.notes
    assert "_default_template_yaml:13" in note
    assert "utils.stare_doc_to_target" in note
