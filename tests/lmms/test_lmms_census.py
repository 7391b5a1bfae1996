"""The public files: every one is read, and the few that are broken are told by name.

Needs a checkout of lmms-eval: FIELDMARK_LMMS_EVAL=/path/to/lmms-eval. Nothing of it is kept here;
the counts are those of the version that the reference of the format describes.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from pathlib import Path

import pytest
import yaml

from fieldmark.errors import UsageError
from fieldmark.lmms.code.trust import Function, Trust
from fieldmark.lmms.read.files import Index, _parsed, index_folders, read_document_file
from fieldmark.lmms.read.groups import expand, load_document_task, load_group

ROOT = os.environ.get("FIELDMARK_LMMS_EVAL", "")
pytestmark = pytest.mark.skipif(not ROOT, reason="FIELDMARK_LMMS_EVAL names no checkout")
FOLDER = Path(ROOT) / "lmms_eval" / "tasks"

# field → files that write it, tasks that have it once everything is included
FIELDS = """
task 1916 1714                  include 1279 0                   dataset_name 1046 1098
test_split 944 1657             metric_list 757 1657             process_results 723 1250
doc_to_text 667 1714            doc_to_target 638 1714           doc_to_visual 597 1245
output_type 561 1604            tag 556 575                      dataset_path 532 1714
metadata 512 1433               generation_kwargs 503 1429       description 414 423
dataset_kwargs 402 1338         group 244 43                     process_docs 153 197
task_alias 141 141              doc_to_messages 99 199           fewshot_config 60 361
filter_list 36 231              doc_to_choice 25 207             repeats 21 21
lmms_eval_specific_kwargs 503 923                                process_results_use_image 0 28
model_specific_generation_kwargs 21 67                           aggregate_metric_list 21 0
group_alias 13 0                num_fewshot 10 146               training_split 8 24
validation_split 6 136          cluster_key 4 43                 fewshot_split 3 417
model_specific_target_kwargs 3 3                                 full_docs 1 9
score_key 1 1                   class 2 0                        should_decontaminate 1 2
doc_to_decontamination_query 1 2                                 reasoning_tags 0 7
"""


@pytest.fixture(scope="module")
def index() -> Index:
    return index_folders([FOLDER])


@pytest.fixture(scope="module")
def trust() -> Trust:
    return Trust.of(FOLDER)


def test_a_whole_checkout_is_looked_through_in_seconds() -> None:
    begin = time.process_time()
    assert len(index_folders([FOLDER]).entries) == 1927
    assert time.process_time() - begin < 10


def test_every_file_is_read(index: Index) -> None:
    assert index.problems == ()
    kinds = Counter(entry.kind for entry in index.entries)
    assert kinds == {"task": 1714, "group": 201, "abstract": 10, "python": 2}
    assert sorted(index.duplicates) == [
        "mmbench_en_dev_reasoning",
        "mmmu_val_reasoning",
        "mmvetv2",
    ]


def test_the_fields_are_as_frequent_as_the_census_says(index: Index, trust: Trust) -> None:
    raw = Counter(key for entry in index.entries for key in _parsed(entry.path).data)
    located = [read_document_file(entry.path, trust) for entry in index.of_kind("task")]
    resolved = Counter(key for each in located for key in each.data)
    expected = re.findall(r"(\w+) (\d+) (\d+)", FIELDS)
    assert {key: (raw[key], resolved[key]) for key in {*raw, *resolved}} == {
        key: (int(written), int(had)) for key, written, had in expected
    }
    types = Counter(each.data.get("output_type") for each in located)
    assert types == {
        "generate_until": 1382,
        None: 110,
        "multiple_choice": 187,
        "generate_visual_cot": 31,
        "generate_until_multi_round": 2,
        "generate_until_agentic": 2,
    }


def test_all_tasks_and_groups_are_valid_but_one(index: Index, trust: Trust) -> None:
    problems: dict[str, str] = {}
    for entry in index.entries:
        try:
            if entry.kind == "task":
                load_document_task(entry.path, trust)
            elif entry.kind == "group":
                load_group(entry.path, trust)
        except UsageError as error:
            problems[entry.name] = str(error)
    rcap = FOLDER / "plm_videobench" / "rcap" / "rcap_test.yaml"
    empty = "metric_list[0] is empty: expected a mapping of `key: value`."
    assert problems == {"rcap_test": f"{rcap}:18  {empty}"}


def test_tasks_written_as_classes_are_told_as_such(index: Index, trust: Trust) -> None:
    for entry in index.of_kind("python"):
        with pytest.raises(UsageError, match="is a task written as a Python class"):
            load_document_task(entry.path, trust)
    assert {entry.name for entry in index.of_kind("python")} == {"physical_conflict", "vstat"}


def test_notes_tell_what_was_probably_not_meant(index: Index, trust: Trust) -> None:
    notes: Counter[str] = Counter()
    for entry in index.of_kind("task"):
        if entry.name != "rcap_test":
            task = load_document_task(entry.path, trust)
            notes.update({note.partition("  ")[2] for note in task.notes})
    untagged = "names a function, but without `!function` it is plain text."
    assert notes[f"doc_to_target = 'utils.stare_doc_to_target' {untagged}"] == 15
    assert notes["group in a task is an old word for tag, and is read as tag."] == 43
    assert notes["full_docs is never read."] == 9
    assert notes["key 'doc_to_target' is given twice with the same value."] == 15


def test_groups_expand_but_for_three_that_name_tasks_nobody_wrote(
    index: Index, trust: Trust
) -> None:
    missing = {}
    for entry in index.of_kind("group"):
        try:
            assert expand(index, entry.name, trust).tasks
        except UsageError as error:
            missing[entry.name] = re.findall(r"tag '(\w+)' is not known", str(error))
    assert missing == {
        "mix_evals_audio2text": ["mix_evals_audio2_text_freeform"],
        "mix_evals_audio2text_hard": ["mix_evals_audio2_text_freeform_hard"],
        "olympiadbench": ["olympiadbench_testmini"],
    }


class _Oracle(yaml.FullLoader):
    pass


_Oracle.add_constructor("!function", lambda _loader, node: ("!function", node.value))


def _plain(value: object) -> object:
    if isinstance(value, Function):
        return ("!function", value.text)
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def test_values_are_those_of_pyyaml_and_lines_hold_their_keys() -> None:
    files = [
        path
        for path in FOLDER.rglob("*yaml*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    ]
    assert len(files) > 2000
    for path in files:
        text = path.read_text(encoding="utf-8")
        located = _parsed(path)
        assert repr(_plain(located.data)) == repr(yaml.load(text, _Oracle)), path
        rows = text.splitlines()
        for key, line in located.lines.items():
            assert not isinstance(key[-1], str) or key[-1] in rows[line - 1], (path, key)
