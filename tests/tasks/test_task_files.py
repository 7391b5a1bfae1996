"""Every task file is complete, and every mistake in one is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from fieldmark.data import DATASETS
from fieldmark.errors import UnknownName, UsageError
from fieldmark.metrics import load_metric
from fieldmark.protocols import task_problems
from fieldmark.tasks import _loader, list_tasks, load_task, parse_name, register_task, task_files

NAMES = sorted(task_files())
WITH_VARIANTS = [
    name for base in NAMES for name in (base, *(f"{base}@{v}" for v in load_task(base).variants))
]


@pytest.mark.parametrize("name", WITH_VARIANTS)
def test_every_task_can_be_asked(name: str) -> None:
    task = load_task(name)
    assert task.title and task.protocols
    assert task.dataset in DATASETS.names()
    for metric in (task.metric, *task.also):
        load_metric(metric)
    assert task_problems(task) == []


@pytest.mark.parametrize("name", NAMES)
def test_header_names_a_command_with_the_task(name: str) -> None:
    first = task_files()[name].read_text().splitlines()[0]
    assert first.startswith("# fieldmark ") and name in first


def test_list_agrees_with_the_files() -> None:
    """The list is made by a fast reader of its own; it must say what the YAML says."""
    for row in list_tasks():
        task = load_task(row["task"])
        assert row == {
            "task": task.task, "title": task.title, "dataset": task.dataset, "metric": task.metric
        }  # fmt: skip
    assert [row["task"] for row in list_tasks("beluga")] == ["beluga"]


def test_names() -> None:
    name = parse_name("beluga@closed")
    assert (name.base, name.variant, name.selection) == ("beluga", "closed", "")
    name = parse_name("newt@visipedia/behavior,ml_age_*")
    assert (name.base, name.variant, name.selection) == ("newt", "visipedia", "behavior,ml_age_*")
    name = parse_name("my/own.yaml@fast/a")
    assert (name.base, name.variant, name.selection) == ("my/own.yaml", "fast", "a")


def test_defect_ages_primary_is_whichever_ran_last() -> None:
    """Defect: the primary score was whichever setting ran last."""
    task = load_task("ages")
    assert task.primary == "adult→not_adult" and task.primary in task.parts


def test_adding_a_task_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_loader, "_added", {})
    path = tmp_path / "mine.yaml"
    path.write_text(
        "task: mine\ntitle: Mine\ndataset: folder\nmetric: accuracy\n"
        "probe: {classifier: my_probe.py:Always}\n"
    )
    (tmp_path / "my_probe.py").write_text(
        "class Always:\n    def fit(self, X, y):\n        return self\n"
        "    def predict(self, X):\n        return X\n"
    )
    task = load_task(str(path))
    assert task.block("probe") is not None
    assert task.block("probe").classifier == f"{tmp_path / 'my_probe.py'}:Always"
    assert register_task(path) == "mine"
    assert load_task("mine") == task


def test_variant_replaces_filters_and_merges_the_probe(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "task: mine\ntitle: Mine\ndataset: folder\nmetric: accuracy\n"
        "train: {split: train}\nprobe: {classifier: neighbours, k: 3, normalise: [l2]}\n"
        "variants:\n  other:\n    train: {year: 2020}\n    probe: {k: 5}\n"
    )
    task = load_task(f"{path}@other")
    assert task.train == {"year": ("2020",)}
    assert task.block("probe") is not None and task.block("probe").params == {"k": 5}
    assert task.block("probe").normalise == ("l2",)


def test_defect_fuzzing_a_variant_changes_a_block_that_is_not_there(tmp_path: Path) -> None:
    """`check` ended in a KeyError."""
    path = tmp_path / "mine.yaml"
    start = "task: mine\ntitle: Mine\ndataset: folder\nmetric: accuracy\n"
    path.write_text(f"{start}train: {{split: train}}\nvariants:\n  other:\n    probe: {{k: 5}}\n")
    with pytest.raises(UsageError, match="'classifier' is missing"):
        load_task(f"{path}@other")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("newtt", "task 'newtt' is not known. Did you mean 'newt'? `fieldmark tasks` lists all."),
        ("beluga@clsed", "variant of task 'beluga' 'clsed' is not known. Did you mean 'closed'?"),
    ],
)
def test_unknown_names(name: str, says: str) -> None:
    with pytest.raises(UnknownName) as caught:
        load_task(name)
    assert str(caught.value) == says


def test_missing_file() -> None:
    with pytest.raises(UsageError, match=r"gone\.yaml  does not exist"):
        load_task("gone.yaml")


def test_one_loader_for_both_forms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks in lmms-eval's form are loaded and registered like any other."""
    from fieldmark.lmms.read.schema import DocumentTask

    monkeypatch.setattr(_loader, "_added", {})
    path = tmp_path / "theirs.yaml"
    path.write_text("task: theirs\ndataset_path: json\ndoc_to_text: '{{q}}'\n")
    task = load_task(str(path))
    assert isinstance(task, DocumentTask) and task.task == "theirs"
    assert register_task(path) == "theirs" and load_task("theirs") == task
