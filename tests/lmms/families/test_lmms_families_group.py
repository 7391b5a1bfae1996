"""Is a group of families run from the command line, and averaged as its file says?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from fieldmark.chat import MockServer
from fieldmark.cli import main
from kit.chat import running
from lmms.families.files import WORLDS
from lmms.families.kit import CHECKOUT, TASKS, Family
from lmms.families.scripted import Script, own_file

pytestmark = pytest.mark.skipif(not CHECKOUT, reason="FIELDMARK_LMMS_EVAL names no checkout")


def own_name(family: Family) -> str:
    return f"made_{family.task}"


def write_group(folder: Path) -> None:
    for family in WORLDS:
        own_file(family, folder, task=own_name(family))
    told = {
        "group": "made_worlds",
        "task": [own_name(family) for family in WORLDS],
        "aggregate_metric_list": [
            {"metric": "wm_abench_acc", "weight_by_size": True},
            {"metric": "wm_abench_acc_clean"},
        ],
    }
    (folder / "_group.yaml").write_text(yaml.safe_dump(told), encoding="utf-8")


def test_group(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One metric by number of documents, one with each task counting the same."""
    write_group(tmp_path)
    script = Script(*WORLDS)
    places = ["--results", str(tmp_path / "results"), "--cache", str(tmp_path / "cache")]
    with running(MockServer(answers=script)) as url:
        words = ["--model", f"chat/mock/parrot?base_url={url}", "--task", "made_worlds"]
        folders = ["--include-path", str(TASKS), "--include-path", str(tmp_path)]
        assert main(["run", *words, *folders, *places]) == 0
    assert script.strange == []
    capsys.readouterr()
    assert main(["table", "--long", "--json", *places[:2]]) == 0
    rows = json.loads(capsys.readouterr().out)
    ours = {(row["task"], row["metric"]): row["value"] for row in rows}
    every = [family.expected_aggregates() for family in WORLDS]
    for family, each in zip(WORLDS, every, strict=True):
        assert ours[own_name(family), "wm_abench_acc"] == pytest.approx(each["wm_abench_acc"])
    sizes = [len(family.documents) for family in WORLDS]
    by_size = sum(n * each["wm_abench_acc"] for n, each in zip(sizes, every, strict=True))
    assert ours["made_worlds", "wm_abench_acc"] == pytest.approx(by_size / sum(sizes))
    alike = sum(each["wm_abench_acc_clean"] for each in every) / len(every)
    assert ours["made_worlds", "wm_abench_acc_clean"] == pytest.approx(alike)
