"""Over a checkout of the public lmms-eval repository: is every file read, and who is broken?

The checkout's folder is named by FIELDMARK_LMMS_EVAL; nothing of it lies here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = os.environ.get("FIELDMARK_LMMS_EVAL", "")
pytestmark = [
    pytest.mark.skipif(not ROOT, reason="FIELDMARK_LMMS_EVAL names no checkout of lmms-eval"),
]
TASKS = Path(ROOT) / "lmms_eval" / "tasks"
BROKEN = {
    "aime/aime24_figures.yaml": "aggregation 'mean_last30' is not known",
    "mix_evals/audio2text/mix_evals_audio2text.yaml": "'mix_evals_audio2_text_freeform' is not",
    "mix_evals/audio2text/mix_evals_audio2text_hard.yaml": "'mix_evals_audio2_text_freeform_hard'",
    "mmbench/reasoning/mmbench_en_dev_reasoning.yaml": "'mmbench_en_dev_reasoning' is defined in",
    "mmmu/reasoning/mmmu_val_reasoning.yaml": "'mmmu_val_reasoning' is defined in",
    "mmvetv2/mmvetv2_group_img.yaml": "'mmvetv2' is defined in",
    "olympiadbench/olympiadbench.yaml": "'olympiadbench_testmini' is not known",
    "plm_videobench/rcap/rcap_test.yaml": "metric_list[0] is empty",
}
"""files whose own words are wrong, whatever is installed → what is told of them"""


@pytest.fixture(scope="module")
def told() -> Any:
    """In a process of its own: importing the code of hundreds of tasks leaves traces."""
    words = [sys.executable, "-m", "fieldmark", "check", str(TASKS), "--run-code", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_every_file_is_read_and_known_for_what_it_is(told: Any) -> None:
    forms: dict[str, int] = {}
    for each in told["files"]:
        forms[each["form"]] = forms.get(each["form"], 0) + 1
    assert forms == {"task": 1714, "group": 201, "abstract": 10, "python": 2}


def test_every_file_fits_the_schema_but_one(told: Any) -> None:
    wrong = [each for each in told["problems"] if each["kind"] in ("read", "key")]
    assert [Path(each["file"]).name for each in wrong] == ["rcap_test.yaml"]


def test_the_broken_ones_are_told_by_name(told: Any) -> None:
    of_code = ("function", "package", "network", "key wanted")
    errors = [
        each
        for each in told["problems"]
        if each["level"] == "error" and each["kind"] not in of_code
    ]
    found = {str(Path(each["file"]).relative_to(TASKS)): each["text"] for each in errors}
    assert found.keys() == BROKEN.keys()
    assert all(BROKEN[file] in text for file, text in found.items())


def test_functions_without_their_tag_are_merge_problems_each(told: Any) -> None:
    untagged = [each for each in told["problems"] if each["kind"] == "untagged"]
    assert {each["level"] for each in untagged} == {"warning"}
    stare = [each for each in untagged if "/stare/" in each["file"]]
    assert [(Path(each["file"]).name, each["n_files"]) for each in stare] == [
        ("_default_template_yaml", 15)
    ]


def test_kinds_that_are_not_run_are_noted(told: Any) -> None:
    noted = [each for each in told["problems"] if each["kind"] == "not run"]
    agents = {Path(each["file"]).stem for each in noted if "agentic" in each["text"]}
    assert agents == {"tau2_bench_telecom", "vending_bench2"}
    assert sum("generate_visual_cot" in each["text"] for each in noted) == 31
    assert {each["level"] for each in noted} == {"note"}


def test_enough_tasks_import_their_functions(told: Any) -> None:
    tasks = [each for each in told["files"] if each["form"] == "task"]
    assert len(tasks) == 1714
    assert sum(each["imports"] is True for each in tasks) >= 1057
