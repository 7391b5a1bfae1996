"""Files in lmms-eval's form are read with what they include, and no further than allowed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fieldmark.errors import UsageError
from fieldmark.lmms.code.trust import Function, Trust
from fieldmark.lmms.read.files import kind_of, read_document_file

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def _write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return _write


@pytest.fixture
def trust(tmp_path: Path) -> Trust:
    return Trust.of(tmp_path)


def told(path: Path, trust: Trust) -> str:
    with pytest.raises(UsageError) as caught:
        read_document_file(path, trust)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_own_keys_win_and_are_replaced_whole(write: Write, trust: Trust) -> None:
    template = write(
        "_t_yaml", "dataset_path: d\nmetric_list:\n- metric: a\nmetadata: {version: 1}\n"
    )
    path = write("x.yaml", "include: _t_yaml\ntask: x\nmetadata: {note: 2}\n")
    located = read_document_file(path, trust)
    assert located.data == {
        "dataset_path": "d",
        "metric_list": [{"metric": "a"}],
        "task": "x",
        "metadata": {"note": 2},
    }
    assert located.where(("metric_list", 0, "metric")) == f"{template}:3"
    assert located.where(("metadata", "note")) == f"{path}:3"
    assert located.where(("task",)) == f"{path}:2"


def test_of_several_included_files_the_first_listed_wins(write: Write, trust: Trust) -> None:
    one = write("one", "dataset_path: one\ntest_split: one\n")
    two = write("two", "dataset_path: two\nfewshot_split: two\n")
    located = read_document_file(write("x.yaml", "task: x\ninclude: [one, two]\n"), trust)
    assert located.data["dataset_path"] == "one"
    assert located.data["fewshot_split"] == "two"
    assert located.file(("dataset_path",)) == one
    assert located.where(("fewshot_split",)) == f"{two}:2"


def test_functions_belong_to_the_file_that_names_them(write: Write, trust: Trust) -> None:
    template = write("base/_t_yaml", "doc_to_text: !function utils.text\n")
    path = write(
        "x/x.yaml", "task: x\ninclude: ../base/_t_yaml\nprocess_docs: !function own.docs\n"
    )
    data = read_document_file(path, trust).data
    assert data["doc_to_text"] == Function("utils.text", template, 1)
    assert data["process_docs"] == Function("own.docs", path, 3)
    assert data["process_docs"].where == f"{path}:3"


@pytest.mark.parametrize("text", ["utils", "", ".x", "utils."])
def test_a_function_needs_a_file_and_a_name(write: Write, trust: Trust, text: str) -> None:
    path = write("x.yaml", f"task: x\ndoc_to_text: !function {text}\n")
    assert told(path, trust) == (
        f"{path}:2  is not valid YAML: '{text}': `!function` needs a file and a name in it,"
        " as in `utils.doc_to_text`."
    )


def test_ten_levels_of_includes_work(write: Write, trust: Trust) -> None:
    for level in range(10):
        write(f"l{level}", f"include: l{level + 1}\nk{level}: {level}\ndataset_path: p{level}\n")
    end = write("l10", "k10: 10\ndataset_path: last\n")
    located = read_document_file(write("x.yaml", "task: x\ninclude: l0\n"), trust)
    assert located.data["dataset_path"] == "p0"
    assert [located.data[f"k{level}"] for level in range(11)] == list(range(11))
    assert located.where(("k10",)) == f"{end}:1"


def test_endless_rows_of_includes_end(write: Write, trust: Trust) -> None:
    for level in range(50):
        write(f"l{level}", f"include: l{level + 1}\n")
    path = write("x.yaml", "task: x\ninclude: l0\n")
    assert told(path, trust).endswith(
        "l30:1  more than 32 files include each other: x.yaml → l0 → … → l30 → l31."
    )


def test_a_circle_of_includes_is_told_with_its_files(write: Write, trust: Trust) -> None:
    write("a", "include: b\n")
    end = write("b", "dataset_path: d\ninclude: [c, a]\n")
    write("c", "x: 1\n")
    path = write("x.yaml", "task: x\ninclude: a\n")
    assert told(path, trust) == f"{end}:2  files include each other in a circle: a → b → a."
    itself = write("self.yaml", "task: x\ninclude: self.yaml\n")
    assert told(itself, trust) == (
        f"{itself}:2  files include each other in a circle: self.yaml → self.yaml."
    )


def test_a_link_does_not_hide_a_circle(write: Write, trust: Trust, tmp_path: Path) -> None:
    path = write("x.yaml", "task: x\ninclude: other\n")
    (tmp_path / "other").symlink_to(path)
    assert "in a circle: x.yaml → other" in told(path, trust)


def test_a_missing_include_is_told_with_the_closest(write: Write, trust: Trust) -> None:
    write("_default_template_yaml", "dataset_path: d\n")
    path = write("x.yaml", "task: x\ninclude: _default_templat_yaml\n")
    missing = path.parent / "_default_templat_yaml"
    assert told(path, trust) == (
        f"{path}:2  include '_default_templat_yaml' does not exist (no file {missing})."
        " Did you mean '_default_template_yaml'?"
    )


@pytest.mark.parametrize("include", ["{a: 1}", "", "[x, 5]", "''", "no"])
def test_an_include_that_is_no_name(write: Write, trust: Trust, include: str) -> None:
    write("x", "dataset_path: d\n")
    path = write("x.yaml", f"task: x\ninclude: {include}\n")
    assert told(path, trust).endswith(": the name of a file is expected.")
    assert told(path, trust).startswith(f"{path}:2  include = ")


def test_a_fault_in_an_included_file_names_both(write: Write, trust: Trust) -> None:
    template = write("_t", "dataset_path: d\n\tx: 1\n")
    path = write("x.yaml", "task: x\ninclude: _t\n")
    assert told(path, trust) == (
        f"{template}:2  is not valid YAML: a tab: spaces are expected (included by {path}:2)."
    )


@pytest.mark.parametrize("way", ["../outside.yaml", "{absolute}", "link"])
def test_includes_stay_inside_the_folders_that_were_named(
    write: Write, tmp_path: Path, way: str
) -> None:
    outside = write("outside.yaml", "dataset_path: d\n")
    name = way.format(absolute=outside)
    path = write("in/x.yaml", f"task: x\ninclude: {name}\n")
    if way == "link":
        (path.parent / "link").symlink_to(outside)
    trust = Trust.of(path.parent)
    assert told(path, trust) == (
        f"{path}:2  include '{name}' lies outside the folders that were named"
        f" ({path.parent}): name its folder too, or copy the file."
    )
    both = Trust.of(path.parent, tmp_path)
    assert read_document_file(path, both).data == {"task": "x", "dataset_path": "d"}


def test_whether_a_file_outside_exists_is_not_told(write: Write) -> None:
    path = write("in/x.yaml", "task: x\ninclude: ../../nothing-there\n")
    assert "lies outside the folders" in told(path, Trust.of(path.parent))


def test_a_file_outside_is_not_read(write: Write, tmp_path: Path) -> None:
    path = write("x.yaml", "task: x\n")
    (tmp_path / "in").mkdir()
    link = tmp_path / "in" / "x.yaml"
    link.symlink_to(path)
    trust = Trust.of(tmp_path / "in")
    assert told(link, trust) == (
        f"{link}  lies outside the folders that were named ({tmp_path / 'in'})."
    )


def test_includes_may_start_at_the_working_folder(
    write: Write, trust: Trust, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write("shared/_t", "dataset_path: d\n")
    path = write("deep/x.yaml", "task: x\ninclude: shared/_t\n")
    monkeypatch.chdir(tmp_path)
    assert read_document_file(path, trust).data["dataset_path"] == "d"
    write("deep/shared/_t", "dataset_path: beside\n")
    assert read_document_file(path, trust).data["dataset_path"] == "beside"


def test_a_changed_template_is_read_again(write: Write, trust: Trust) -> None:
    template = write("_t", "dataset_path: old\n")
    path = write("x.yaml", "task: x\ninclude: _t\n")
    assert read_document_file(path, trust).data["dataset_path"] == "old"
    template.write_text("dataset_path: newer\n")
    os.utime(template, ns=(1, 1))
    assert read_document_file(path, trust).data["dataset_path"] == "newer"


def test_what_code_does_to_its_arguments_stays_with_it(write: Write, trust: Trust) -> None:
    write("_t", "lmms_eval_specific_kwargs: {default: {pre_prompt: a, list: [1]}}\n")
    path = write("x.yaml", "task: x\ninclude: _t\n")
    first = read_document_file(path, trust).data["lmms_eval_specific_kwargs"]["default"]
    first["pre_prompt"] = "changed"
    first["list"].append(2)
    again = read_document_file(path, trust).data["lmms_eval_specific_kwargs"]["default"]
    assert again == {"pre_prompt": "a", "list": [1]}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("task: x\ndataset_path: d\n", "task"),
        ("task: [a, b]\ngroup: g\n", "group"),
        ("task: [a]\n", "group"),
        ("task: x\nclass: !function u.T\n", "python"),
        ("dataset_path: d\n", "abstract"),
        ("task: x\ndataset: folder\nmetric: accuracy\n", "own"),
        ("task: x\n", "own"),
        ("services: {a: 1}\n", "own"),
    ],
)
def test_kinds_of_files(write: Write, trust: Trust, text: str, kind: str) -> None:
    located = read_document_file(write("x.yaml", text), trust)
    assert kind_of(located) == kind_of(located.data) == kind


def test_a_file_in_both_forms_is_told_with_a_line_of_each(write: Write, trust: Trust) -> None:
    template = write("_t", "dataset_path: d\n")
    path = write("x.yaml", "task: x\nmetric: accuracy\ninclude: _t\n")
    with pytest.raises(UsageError) as caught:
        kind_of(read_document_file(path, trust))
    assert str(caught.value) == (
        f"{path}:2  key 'metric' is fieldmark's and key 'dataset_path' ({template}:1) lmms-eval's:"
        " keep to one form."
    )
