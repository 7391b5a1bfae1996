"""Code behind `!function`: where it may come from, what it can import, how it fails."""

from __future__ import annotations

import importlib
import os
import pickle
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fieldmark.errors import UsageError
from fieldmark.lmms.code.call import call, load_function, seeded
from fieldmark.lmms.code.trust import Function, Trust

Load = Callable[[str], Any]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Loads from a task file in `tasks/mine`, with `tasks` named."""
    (tmp_path / "tasks" / "mine").mkdir(parents=True)
    trust = Trust.of(tmp_path / "tasks")

    def read(text: str) -> Any:
        return load_function(Function(text, tmp_path / "tasks" / "mine" / "a.yaml", 7), trust)

    return read


@pytest.fixture
def mine(tmp_path: Path, load: Load) -> Path:
    return tmp_path / "tasks" / "mine"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def refusal(load: Load, text: str) -> str:
    with pytest.raises(UsageError) as caught:
        load(text)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_file_runs_once_and_its_globals_are_shared(load: Load, mine: Path) -> None:
    write(mine / "utils.py", "seen = []\ndef add(x): seen.append(x)\ndef show(): return seen\n")
    load("utils.add")(3)
    assert load("utils.show")() == [3]


def test_changed_file_is_loaded_again_also_within_one_clock_tick(load: Load, mine: Path) -> None:
    file = write(mine / "utils.py", "def f(): return 1\n")
    assert load("utils.f")() == 1
    stamp = file.stat()
    write(file, "def f(): return 2\n")
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert load("utils.f")() == 2


def test_dots_in_the_module_are_part_of_the_file_name(load: Load, mine: Path) -> None:
    write(mine / "a.b.py", "def f(): return 'dotted'\n")
    write(mine / "a" / "b.py", "def f(): return 'folder'\n")
    assert load("a.b.f")() == "dotted"


@pytest.mark.filterwarnings("error")
def test_doubtful_escape_sequences_are_not_talked_about(load: Load, mine: Path) -> None:
    write(mine / "utils.py", "def f(): return '\\d'\n")
    assert load("utils.f")() == "\\d"


def test_classes_dataclasses_and_pickles_work(load: Load, mine: Path) -> None:
    write(
        mine / "utils.py",
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass Box:\n    x: int = 1\ndef twice(x): return 2 * x\n",
    )
    box = load("utils.Box")(4)
    assert pickle.loads(pickle.dumps(box)) == box
    assert pickle.loads(pickle.dumps(load("utils.twice")))(4) == 8


def test_absolute_task_modules_are_found_in_the_named_folder(load: Load, mine: Path) -> None:
    write(mine.parent / "other" / "utils.py", "def f(): return 'other'\n")
    write(
        mine / "utils.py",
        "def g():\n    from lmms_eval.tasks.other.utils import f\n    return f()\n",
    )
    assert load("lmms_eval.tasks.other.utils.f")() == "other"
    assert load("utils.g")() == "other"


def test_modules_are_the_same_however_they_are_named(load: Load, mine: Path) -> None:
    write(mine / "__init__.py", "")
    write(mine / "state.py", "values = []\n")
    write(
        mine / "utils.py",
        "import lmms_eval.tasks.mine.state\nfrom . import state\nfrom .state import values\n"
        "from lmms_eval.tasks.mine import state as again\n"
        "def same(): return lmms_eval.tasks.mine.state is state is again, values is state.values\n",
    )
    assert load("utils.same")() == (True, True)


def test_checkout_root_and_inner_folder_can_be_named(tmp_path: Path) -> None:
    tasks = tmp_path / "lmms_eval" / "tasks"
    write(tasks / "__init__.py", "raise RuntimeError('the checkout itself must not run')\n")
    write(tasks / "one" / "utils.py", "from lmms_eval.tasks.one.more import x\ndef f(): return x\n")
    write(tasks / "one" / "more.py", "x = 5\n")
    function = Function("utils.f", tasks / "one" / "a.yaml", 1)
    for folder in (tmp_path, tasks, tasks / "one"):
        assert load_function(function, Trust.of(folder))() == 5


def test_sibling_files_and_search_paths_work_and_stay_private(load: Load, mine: Path) -> None:
    write(mine.parent / "shared_words.py", "word = 'shared'\n")
    write(mine / "beside_words.py", "word = 'beside'\n")
    write(
        mine / "utils.py",
        "import os, sys\nsys.path.insert(0, os.path.dirname(os.path.dirname(__file__)))\n"
        "from shared_words import word\nimport beside_words\n"
        "def f():\n    import shared_words as s\n    return word, s.word, beside_words.word\n",
    )
    before = list(sys.path)
    assert load("utils.f")() == ("shared", "shared", "beside")
    assert sys.path == before
    assert "shared_words" not in sys.modules and "beside_words" not in sys.modules


def test_two_tasks_with_a_module_of_the_same_name_do_not_meet(load: Load, mine: Path) -> None:
    for name in ("mine", "yours"):
        folder = mine.parent / name
        write(folder / "words.py", f"word = {name!r}\n")
        write(folder / "utils.py", "import words\ndef f(): return words.word\n")
    assert load("utils.f")() == "mine"
    assert load("lmms_eval.tasks.yours.utils.f")() == "yours"


def test_compat_package_is_offered_to_such_code_only(load: Load, mine: Path) -> None:
    write(
        mine / "utils.py",
        "from lmms_eval.filters.extraction import RegexFilter\n"
        "import importlib\nfrom lmms_eval.utils import eval_logger\n"
        "def f(): return importlib.import_module('lmms_eval.filters.extraction').RegexFilter\n"
        "def g(): return RegexFilter\n",
    )
    assert load("utils.f")() is load("utils.g")()
    assert not [name for name in sys.modules if name.partition(".")[0] == "lmms_eval"]
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("lmms_eval.filters")


def test_folders_own_helper_comes_before_ours(load: Load, mine: Path) -> None:
    name = "lmms_eval.tasks._task_utils.file_utils"
    text = f"from {name} import generate_submission_file as f\ndef g(): return f.__module__\n"
    write(mine / "utils.py", text)
    assert load("utils.g")().startswith("fieldmark.lmms.compat")
    write(mine.parent / "_task_utils" / "file_utils.py", "def generate_submission_file(): pass\n")
    write(mine / "utils.py", f"{text}# changed\n")
    assert load("utils.g")().startswith("fieldmark_task_file_utils")


def test_helper_that_needs_a_missing_package_is_stood_in_for(load: Load, mine: Path) -> None:
    write(mine.parent / "_task_utils" / "point_format.py", "import a_package_nobody_has\n")
    write(mine / "utils.py", "from lmms_eval.tasks._task_utils.point_format import parse_point2d\n")
    assert len(load("utils.parse_point2d")("(0.5, 0.5)", 8, 8)) == 1
    write(mine.parent / "own_helper.py", "import a_package_nobody_has\n")
    write(mine / "more.py", "from lmms_eval.tasks.own_helper import f\n")
    assert "needs the package 'a_package_nobody_has'" in refusal(load, "more.f")


@pytest.mark.parametrize("is_there", [False, True])
def test_tasks_of_speech_are_refused_by_name(load: Load, mine: Path, is_there: bool) -> None:
    if is_there:
        write(mine.parent / "asr_wer_utils.py", "def compute_wer(): pass\n")
    write(mine / "utils.py", "from lmms_eval.tasks.asr_wer_utils import compute_wer as f\n")
    told = refusal(load, "utils.f")
    assert told.startswith(f"{mine}/a.yaml") and "scores transcripts of speech" in told


def test_optional_imports_stay_optional(load: Load, mine: Path) -> None:
    write(
        mine / "utils.py",
        "found = []\n"
        "for name in ('a_package_nobody_has', 'lmms_eval.models', 'lmms_eval.tasks.not_there'):\n"
        "    try:\n        __import__(name)\n    except ImportError:\n        found.append(name)\n"
        "def f(): return len(found)\n",
    )
    assert load("utils.f")() == 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("utils.doc_to_txt", "utils.py has no 'doc_to_txt'. Did you mean 'doc_to_text'?"),
        ("util.doc_to_text", "there is no util.py in {folder}. Did you mean 'utils'?"),
        ("doc_to_text", "cannot be read: expected !function file.name"),
        ("../other/utils.f", "there is no ../other/utils.py"),
        ("lmms_eval.tasks.nowhere.utils.f", "name lmms-eval's tasks folder too"),
        ("raises.f", "mine/raises.py:3 ValueError: no good"),
        ("broken.f", "mine/broken.py:2 SyntaxError: "),
        ("leaves.f", "mine/leaves.py:2 the code ended the program (SystemExit: 3)"),
        ("lacks.f", "mine/lacks.py:1 needs the package 'cv3', which is not installed: `pip"),
    ],
)
def test_mistakes_are_one_line_with_the_place(
    load: Load, mine: Path, text: str, expected: str
) -> None:
    write(mine / "utils.py", "def doc_to_text(doc): return ''\n")
    write(mine.parent / "other" / "utils.py", "def f(): pass\n")
    write(mine / "raises.py", "x = 1\ndef g():\n    raise ValueError('no\\ngood.')\ng()\n")
    write(mine / "broken.py", "x = 1\ndef f(:\n")
    write(mine / "leaves.py", "import sys\nsys.exit(3)\n")
    write(mine / "lacks.py", "import cv3.inner\n")
    told = refusal(load, text)
    assert told.startswith(f"{mine / 'a.yaml'}:7  ")
    assert expected.format(folder=mine) in told


def test_failed_import_is_tried_again(load: Load, mine: Path) -> None:
    write(mine / "utils.py", "import needed_later\ndef f(): return needed_later.x\n")
    refusal(load, "utils.f")
    write(mine / "needed_later.py", "x = 2\n")
    assert load("utils.f")() == 2


def test_code_outside_the_named_folders_never_runs(tmp_path: Path) -> None:
    outside = write(tmp_path / "outside" / "evil.py", "raise SystemExit('ran')\ndef f(): pass\n")
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link.py").symlink_to(outside)
    (inside / "folder").symlink_to(outside.parent)
    write(inside / "up.py", "from ..outside.evil import f\n")
    write(inside / "down.py", "from .folder.evil import f\n")
    write(inside / "named.py", "from lmms_eval.tasks.folder.evil import f\n")
    trust = Trust.of(inside)
    for text in ("link.f", "up.f", "down.f", "named.f"):
        with pytest.raises(UsageError) as caught:
            load_function(Function(text, inside / "a.yaml", 1), trust)
        assert "ran" not in str(caught.value)
        assert "folder" in str(caught.value)
    with pytest.raises(UsageError, match="outside the folders whose code may run"):
        load_function(Function("evil.f", outside.parent / "a.yaml", 1), trust)


def test_call_tells_place_document_error_and_line(load: Load, mine: Path) -> None:
    write(mine / "utils.py", "def inner(d):\n    return d['answer']\ndef f(d): return inner(d)\n")
    with pytest.raises(UsageError) as caught:
        call(load("utils.f"), {}, where="a.yaml:7", document=12)
    told = "a.yaml:7  document 12: f failed: mine/utils.py:2 KeyError: 'answer'."
    assert str(caught.value) == told
    assert call(load("utils.f"), {"answer": 3}, where="") == 3


def test_call_leaves_a_line_about_the_same_place_alone() -> None:
    def refuse() -> None:
        raise UsageError("a.yaml:7  is wrong.")

    with pytest.raises(UsageError) as caught:
        call(refuse, where="a.yaml:7", document=1)
    assert str(caught.value) == "a.yaml:7  is wrong."
    with pytest.raises(UsageError) as caught:
        call(refuse, where="b.yaml:1", document=1)
    assert str(caught.value) == "b.yaml:1  document 1: refuse failed: a.yaml:7 is wrong."


def test_call_survives_exits_and_long_texts() -> None:
    def leave() -> None:
        raise SystemExit(2)

    def shout() -> None:
        raise ValueError("x" * 5000)

    with pytest.raises(UsageError, match="ended the program"):
        call(leave, where="here")
    with pytest.raises(UsageError) as caught:
        call(shout, where="here")
    assert len(str(caught.value)) < 400


def test_seeded_sets_both_global_states_and_puts_them_back() -> None:
    random.seed(1)
    np.random.seed(1)
    expected = random.random(), np.random.random()
    random.seed(1)
    np.random.seed(1)
    with seeded(0, "task", "document 3"):
        first = random.random(), float(np.random.random())
    with seeded(0, "task", "document 3"):
        assert (random.random(), float(np.random.random())) == first
    with seeded(0, "task", "document 4"):
        assert random.random() != first[0]
    with pytest.raises(KeyError), seeded(1):
        raise KeyError
    assert (random.random(), np.random.random()) == expected


def test_seeded_inside_seeded_leaves_the_outer_states_alone() -> None:
    with seeded(0, "outer"):
        alone = (random.random(), np.random.random(3).tolist(), random.random())
    with seeded(0, "outer"):
        first = random.random()
        with seeded(0, "inner"):
            np.random.random(5)
            random.random()
        assert (first, np.random.random(3).tolist(), random.random()) == alone
