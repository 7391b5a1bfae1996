"""Does `fieldmark check` tell people and programs what they need to know of task files?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from fieldmark.cli import main
from fieldmark.tasks import find_file

TEMPLATE = """\
dataset_path: json
dataset_kwargs: {data_files: rows.jsonl}
test_split: train
doc_to_text: "{{ question }} {{ hint }}"
doc_to_target: answer
full_docs: true
"""
OWN = """\
task: finches
title: "Which finch?"
dataset: folder
metric: accuracy
probe: {classifier: simpleshot}
"""


def take_photos(folder: Path, counts: dict[str, int]) -> None:
    """So many photos in each folder, each of another colour."""
    for number, (name, n) in enumerate(counts.items()):
        (folder / name).mkdir(parents=True)
        for i in range(n):
            Image.new("RGB", (8, 8), (i, 40 * number, 9)).save(folder / name / f"{i}.png")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two tasks from one template, a group of them, a task in fieldmark's form, another file."""
    made = tmp_path / "tasks"
    made.mkdir()
    rows = [{"question": f"Bird {i}?", "hint": "Look.", "answer": f"wren {i}"} for i in range(5)]
    (made / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (made / "_template").write_text(TEMPLATE)
    for name in ("wrens", "owls"):
        (made / f"{name}.yaml").write_text(f"include: _template\ntask: {name}\n")
    (made / "birds.yaml").write_text("group: birds\ntask: [wrens, owls]\n")
    (made / "finches.yaml").write_text(f"{OWN}data: ../photos\n")
    take_photos(tmp_path / "photos", {"train/a": 2, "train/b": 2, "test/a": 1, "test/b": 1})
    (made / "compose.yaml").write_text("services: {web: {image: nginx}}\n")
    return made


def check(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = main(["check", *map(str, words)])
    told = capsys.readouterr()
    assert "Traceback" not in told.out + told.err
    return code, told.out, told.err


def as_json(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, Any]:
    code, out, _ = check(capsys, *words, "--json")
    return code, json.loads(out)


def test_what_stands_in_a_template_is_merge_problems_at_its_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = check(capsys, folder, "--run-code")
    assert code == 0
    assert out.splitlines() == [f"note  {folder}/_template:6: full_docs is never read. (2 files)"]
    assert "2 tasks, 1 group, 1 fieldmark task, 1 other YAML file: " in err
    assert "0 errors, 0 warnings, 1 note" in err
    assert "The code of 2 of 2 tasks can be imported here." in err


def test_a_sound_file_is_fine(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "finches.yaml"
    seen = "6 photos, 2 classes, 2 train + 1 test each"
    assert check(capsys, path) == (0, "", f"{path} is fine: {seen}.\n")
    assert as_json(capsys, path)[1]["files"][0]["seen"] == seen


@pytest.mark.parametrize(
    ("counts", "keys", "seen"),
    [
        (
            {"a": 4, "b": 9},
            "shots: 3\ntest: rest\n",
            "13 photos, 2 classes, 3 train + 1–6 test each",
        ),
        (
            {"train/a": 3, "train/b": 1, "test/a": 2},
            "",
            "6 photos, 2 classes, 1–3 train + 0–2 test each",
        ),
        (
            {"train/a": 1000, "train/b": 1, "test/a": 1, "test/b": 1},
            "",
            "1,003 photos, 2 classes, 1–1,000 train + 1 test each",
        ),
        (
            {"train/a": 2, "train/b": 2, "test/a": 2, "test/b": 2},
            "parts:\n"
            "  x: {train: {split: train}, test: {split: test}}\n"
            "  y: {train: {split: test}, test: {split: train}}\n",
            "2 parts, 8 photos",
        ),
        (
            {"a": 4, "b": 4},
            "probe: {classifier: neighbours, leave_one_out: true}\n",
            "8 photos, 2 classes, 4 each",
        ),
    ],
)
def test_what_was_seen_in_words(
    counts: dict[str, int], keys: str, seen: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    take_photos(tmp_path / "pile", counts)
    path = tmp_path / "pile.yaml"
    text = OWN.partition("probe:")[0] if "probe:" in keys else OWN
    path.write_text(f"{text}data: pile\n{keys}")
    assert check(capsys, path) == (0, "", f"{path} is fine: {seen}.\n")


def test_data_that_are_not_here_yet_are_not_a_mistake_of_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, _ = check(capsys, find_file("beluga"))
    assert (code, out) == (
        0, "warning  data/beluga does not exist, so these data were not checked.\n"
    )  # fmt: skip
    monkeypatch.setenv("FIELDMARK_DATA_BELUGA", "whales")
    code, out, _ = check(capsys, find_file("beluga"))
    assert code == 3 and out.startswith("error  whales does not exist. `fieldmark datasets beluga`")


def test_a_group_alone_finds_its_members_beside_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "birds.yaml"
    assert check(capsys, path) == (0, "", f"{path} is fine.\n")
    path.write_text("group: birds\ntask: [wrens, owlz]\n")
    code, out, _ = check(capsys, path)
    assert code == 2
    assert "'owlz' is not known. Did you mean 'owls'?" in out


def test_json_counts_by_level_by_kind_and_by_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "wrens.yaml").write_text(
        "include: _template\ntask: wrens\nmetric_list: [{metric: exact_mach}]\nrepeats: none\n"
    )
    code, told = as_json(capsys, folder, "--run-code")
    assert code == 2
    assert told["ok"] is False
    assert told["levels"] == {"error": 1, "warning": 0, "note": 1}
    assert told["kinds"] == {"key": {"error": 1}, "no effect": {"note": 1}}
    first = told["problems"][0]
    assert (first["level"], first["kind"], first["line"]) == ("error", "key", 4)
    assert first["file"] == str(folder / "wrens.yaml")
    by_name = {each["name"]: each for each in told["files"] if each["name"]}
    assert by_name["wrens"]["problems"] == [0]
    assert (by_name["wrens"]["ok"], by_name["wrens"]["imports"]) == (False, None)
    assert (by_name["owls"]["ok"], by_name["owls"]["imports"]) == (True, True)
    assert {name: each["form"] for name, each in by_name.items()} == {
        "birds": "group", "finches": "own", "owls": "task", "wrens": "task"
    }  # fmt: skip


def test_without_code_nothing_is_imported(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mark = tmp_path / "ran"
    (folder / "utils.py").write_text(
        f"open({str(mark)!r}, 'w').close()\ndef text(doc): return ''\n"
    )
    (folder / "owls.yaml").write_text(
        "include: _template\ntask: owls\ndoc_to_text: !function utils.text\n"
    )
    exit_code, told = as_json(capsys, folder)
    assert exit_code == 0
    assert not mark.exists()
    assert {each["imports"] for each in told["files"]} == {None}
    check(capsys, folder, "--run-code")
    assert mark.exists()


def test_several_paths_of_several_kinds(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = tmp_path / "grid.toml"
    grid.write_text('models = ["classical/colour"]\ntasks = ["world-species"]\n')
    photos = tmp_path / "photos"
    for label in ("finch", "wren"):
        (photos / label).mkdir(parents=True)
        for i in range(4):
            Image.new("RGB", (8, 8), (i, 9, 9)).save(photos / label / f"{i}.png")
    code, told = as_json(capsys, folder / "finches.yaml", grid, photos)
    assert told["paths"] == [str(folder / "finches.yaml"), str(grid), str(photos)]
    assert {each["level"] for each in told["problems"]} <= {"note", "warning"}
    assert code == 0
    grid.write_text('models = ["classical/colour"]\ntaskz = ["world-species"]\n')
    code, told = as_json(capsys, folder / "finches.yaml", grid, photos)
    assert code == 2
    assert any("'taskz' is not known" in each["text"] for each in told["problems"])


def test_code_of_another_folder_needs_its_name(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (folder / "_template").rename(shared / "_template")
    for name in ("wrens", "owls"):
        (folder / f"{name}.yaml").write_text(f"include: ../shared/_template\ntask: {name}\n")
    (folder / "birds.yaml").unlink()
    code, out, _ = check(capsys, folder)
    assert code == 2
    assert out.count("lies outside the folders that were named") == 2
    code, _, _ = check(capsys, folder, "--include-path", shared)
    assert code == 0


def test_a_path_named_twice_is_checked_once(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    code, told = as_json(capsys, folder, "owls.yaml", folder / "owls.yaml", ".")
    assert code == 0
    assert [each["name"] for each in told["files"]].count("owls") == 1


def test_folders_of_the_settings_are_trusted(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (folder / "_template").rename(shared / "_template")
    (folder / "owls.yaml").write_text("include: ../shared/_template\ntask: owls\n")
    assert check(capsys, folder / "owls.yaml")[0] == 2
    monkeypatch.setenv("FIELDMARK_INCLUDE_PATH", str(shared))
    assert check(capsys, folder / "owls.yaml")[0] == 0


def test_photos_beside_a_stray_file_are_photos(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    photos = tmp_path / "photos"
    for label in ("finch", "wren"):
        (photos / label).mkdir(parents=True)
        for i in range(4):
            Image.new("RGB", (8, 8), (i, 9, 9)).save(photos / label / f"{i}.png")
    (photos / "camera.yaml").write_text("lens: long\n")
    _, told = as_json(capsys, photos)
    assert told["files"] == []
    (photos / "birds.yaml").write_text(OWN)
    _, told = as_json(capsys, photos)
    assert [each["form"] for each in told["files"]] == ["own", "other"]
    _, told = as_json(capsys, photos, "--dataset", "folder")
    assert told["files"] == []


def test_nothing_and_nonsense(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    assert check(capsys)[0] == 2
    code, _, err = check(capsys, folder, "--n-documents", "-1")
    assert (code, err) == (2, "fieldmark: --n-documents -1: expected a whole number, 0 or more.\n")
    assert check(capsys, folder, "--code-s", "0")[0] == 2


@pytest.mark.parametrize(
    ("given", "code", "says"),
    [
        ("folder=photos", 0, "8 photos, 2 classes, 2 train + 2 test each"),
        ("finches=photos", 0, "8 photos, 2 classes, 2 train + 2 test each"),
        ("folder=nowhere", 3, "nowhere does not exist"),
        ("fodler=photos", 2, "Did you mean 'folder'?"),
    ],
)
def test_defect_newcomer_f7_the_folder_of_data_is_given_as_to_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    given: str, code: int, says: str,
) -> None:  # fmt: skip
    """`check FILE --data folder=photos` was "unexpected: folder=photos"."""
    monkeypatch.chdir(tmp_path)
    take_photos(tmp_path / "photos", {f"{s}/{c}": 2 for s in ("train", "test") for c in "ab"})
    (tmp_path / "birds.yaml").write_text(OWN)
    (tmp_path / "grid.toml").write_text('models = ["classical/colour"]\ntasks = ["birds.yaml"]\n')
    for file in ("birds.yaml", "grid.toml"):
        ended, out, err = check(capsys, file, "--data", given)
        assert ended == code
        assert says in out + err or (file == "grid.toml" and code == 0)


datasets = pytest.mark.usefixtures("_datasets")


@pytest.fixture
def _datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("datasets")
    monkeypatch.setenv("FIELDMARK_CACHE", str(tmp_path / "cache"))


@datasets
def test_data_shows_what_documents_become(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = check(capsys, folder / "owls.yaml", "--n-documents", "2")
    assert code == 0
    assert out.splitlines()[:7] == [
        "task owls  split train, 5 documents",
        "  document 0",
        "    text    Bird 0? Look.",
        "    target  'wren 0'",
        "  document 1",
        "    text    Bird 1? Look.",
        "    target  'wren 1'",
    ]
    _, told = as_json(capsys, folder / "owls.yaml", "--n-documents", "1")
    assert told["documents"][0]["documents"] == [
        {
            "row": 0,
            "text": "Bird 0? Look.",
            "target": "wren 0",
            "choices": None,
            "visuals": [],
        }
    ]


@datasets
def test_data_names_the_column_that_is_not_there(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "owls.yaml").write_text(
        'include: _template\ntask: owls\ndoc_to_text: "{{ qestion }}"\n'
    )
    assert check(capsys, folder / "owls.yaml")[0] == 0
    code, out, _ = check(capsys, folder / "owls.yaml", "--n-documents", "3")
    assert code == 3
    told = [line for line in out.splitlines() if line.startswith("error")]
    assert len(told) == 1, "one line, not one for each document"
    assert told[0].startswith(f"error  {folder}/owls.yaml:3: document 0: doc_to_text: ")
    assert told[0].endswith("Did you mean 'question'?")


@datasets
def test_data_renders_choices_and_pictures(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Image.new("RGB", (12, 8)).save(folder / "a.png")
    (folder / "utils.py").write_text(
        "from PIL import Image\nfrom pathlib import Path\n"
        "def pictures(doc):\n    return [Image.open(Path(__file__).parent / 'a.png')]\n"
    )
    (folder / "owls.yaml").write_text(
        "include: _template\ntask: owls\noutput_type: multiple_choice\n"
        "doc_to_choice: [owl, wren]\ndoc_to_visual: !function utils.pictures\n"
        "metric_list: [{metric: acc}]\n"
    )
    words = (folder / "owls.yaml", "--n-documents", "1")
    code, out, _ = check(capsys, *words)
    assert code == 0 and "choices owl" not in out and "(utils.py): --run-code shows them" in out
    code, out, _ = check(capsys, *words, "--run-code")
    assert code == 0
    assert "    choices owl | wren" in out
    assert "document 0: target 'wren 0' is none of the choices." in out
    assert "    visual  12×8" in out


@datasets
def test_data_that_is_not_here_is_not_fetched(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "owls.yaml").write_text(
        "include: _template\ntask: owls\ndataset_path: nobody/nowhere\ndataset_kwargs: {}\n"
    )
    code, out, _ = check(capsys, folder / "owls.yaml", "--n-documents", "3")
    assert code == 3
    assert "owls.yaml:3: dataset 'nobody/nowhere' is not on this machine: `--fetch`" in out


@pytest.mark.parametrize("more", [(), ("--run-code",)])
def test_code_that_a_task_names_elsewhere_is_not_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...]
) -> None:
    """A folder of tasks may hold one in fieldmark's own form that names any file of Python."""
    (tmp_path / "tasks").mkdir()
    (tmp_path / "elsewhere.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    task = OWN.replace("metric: accuracy", "metric: ../elsewhere.py:score")
    (tmp_path / "tasks/finches.yaml").write_text(task)
    code, out, _ = check(capsys, tmp_path / "tasks", *more)
    assert code == 2
    assert "finches.yaml:4: " in out
    assert "elsewhere.py lies outside the folders whose code may run" in out
    assert not (tmp_path / "ran").exists()


def test_no_code_runs_none_of_a_task_in_fieldmarks_form(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "beside.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    task = OWN.replace("metric: accuracy", "metric: beside.py:score")
    (tmp_path / "finches.yaml").write_text(task)
    code, out, _ = check(capsys, tmp_path)
    assert code == 2 and "beside.py has no 'score'" in out
    with (tmp_path / "beside.py").open("a") as file:
        file.write("def score(target, prediction, weight=None): return 0.0\n")
    assert check(capsys, tmp_path)[0] == 0
    assert not (tmp_path / "ran").exists()
    assert check(capsys, tmp_path, "--run-code")[0] == 0
    assert (tmp_path / "ran").exists()
