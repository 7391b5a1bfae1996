"""What stands for the code of a task changes when that code does, and only then."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fieldmark.lmms.code.digest import code_digest, code_files
from fieldmark.lmms.code.trust import Function, Trust

FILES = {
    "mine/utils.py": "import importlib, os, pathlib\nfrom . import a\n"
    "D = pathlib.Path(__file__).parent\ndef f():\n    import lmms_eval.tasks.other.b\n"
    "    importlib.import_module('late')\n    (D / 'deep' / 'names.json').read_text()\n"
    "    open(os.path.join('deep', 'more.csv'))\n    return open('words.txt')\n",
    "mine/late.py": "x = 1\n",
    "mine/deep/names.json": "{}",
    "mine/deep/more.csv": "a,b",
    "mine/a.py": "import c\n",
    "mine/c.py": "x = 1\n",
    "mine/words.txt": "one two",
    "other/__init__.py": "from .d import y\n",
    "other/b.py": "z = 1\n",
    "other/d.py": "y = 1\n",
    "other/unused.py": "",
}
USED = [name for name in FILES if name != "other/unused.py"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "tasks" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "tasks"


def digest(folder: Path, text: str = "utils.f") -> str:
    return code_digest([Function(text, folder / "mine" / "a.yaml", 1)], Trust.of(folder))


def test_every_file_behind_a_function_is_found(folder: Path) -> None:
    files = code_files([Function("utils.f", folder / "mine" / "a.yaml")], Trust.of(folder))
    assert sorted(each.relative_to(folder).as_posix() for each in files) == sorted(USED)


@pytest.mark.parametrize("name", USED)
def test_any_change_changes_the_digest(folder: Path, name: str) -> None:
    before = digest(folder)
    with (folder / name).open("a") as file:
        file.write("\n# changed\n")
    assert digest(folder) != before


def test_other_files_and_places_do_not(folder: Path, tmp_path: Path) -> None:
    before = digest(folder)
    (folder / "other" / "unused.py").write_text("changed = 1\n")
    assert digest(folder) == before
    shutil.copytree(folder, tmp_path / "elsewhere")
    assert digest(tmp_path / "elsewhere") == before


def test_another_function_of_the_same_file_differs(folder: Path) -> None:
    assert digest(folder, "utils.g") != digest(folder)


def test_files_outside_the_named_folder_are_not_read(folder: Path) -> None:
    (folder / "mine" / "utils.py").write_text("from ...secret import x\nopen('../../secret.py')\n")
    (folder.parent / "secret.py").write_text("x = 1\n")
    files = code_files([Function("utils.f", folder / "mine" / "a.yaml")], Trust.of(folder))
    assert {each.name for each in files} == {"utils.py"}


def test_code_that_cannot_be_parsed_counts_as_it_is(folder: Path) -> None:
    before = digest(folder)
    (folder / "mine" / "c.py").write_text("def (:\n")
    assert digest(folder) != before


def test_files_that_change_places_change_it(folder: Path) -> None:
    """Two helpers of one name in two folders, swapped, are another program."""
    (folder / "mine" / "utils.py").write_text("from .p import h\nfrom .q import h as k\n")
    for name, text in (("p", "x = 1"), ("q", "x = 2")):
        (folder / "mine" / name).mkdir()
        (folder / "mine" / name / "__init__.py").write_text("")
        (folder / "mine" / name / "h.py").write_text(text)
    before = digest(folder)
    (folder / "mine" / "p" / "h.py").write_text("x = 2")
    (folder / "mine" / "q" / "h.py").write_text("x = 1")
    assert digest(folder) != before
