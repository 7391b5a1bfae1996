"""What task code finds under `lmms_eval` does what its callers rely on.

With FIELDMARK_LMMS_EVAL the helpers are held against the ones of a checkout, on drawn inputs.
"""

from __future__ import annotations

import ast
import os
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fieldmark import draws
from fieldmark.lmms.code.call import load_function, seeded
from fieldmark.lmms.code.imports import loader
from fieldmark.lmms.code.trust import Function, Trust
from fieldmark.lmms.compat import helpers
from fieldmark.lmms.compat.helpers import GeneralConfigTracker, anls
from fieldmark.lmms.metrics.registry import levenshtein

CHECKOUT = os.environ.get("FIELDMARK_LMMS_EVAL", "")
needs_checkout = pytest.mark.skipif(not CHECKOUT, reason="FIELDMARK_LMMS_EVAL names no checkout")


def theirs(name: str) -> Any:
    """The object of a helper module, from the checkout's own file."""
    tasks = Path(CHECKOUT) / "lmms_eval" / "tasks"
    function = load_function(Function(name, tasks / "any.yaml"), Trust.of(tasks))
    assert function.__module__.startswith("fieldmark_task_")
    return function


def _brute(a: str, b: str) -> int:
    if not a or not b:
        return len(a) + len(b)
    same = _brute(a[1:], b[1:]) + (a[0] != b[0])
    return min(same, _brute(a[1:], b) + 1, _brute(a, b[1:]) + 1)


def _texts(n: int, words: str, *keys: object) -> list[str]:
    """Drawn sequences of the words, which bars separate."""
    some = words.split("|")
    rng = draws.generator("compat", *keys)
    return ["".join(rng.choice(some, rng.integers(0, 8))) for _ in range(n)]


def test_edit_distance_equals_brute_force() -> None:
    texts = [each[:5] for each in _texts(40, "a|b|c|ab", "edit")]
    for a, b in zip(texts, reversed(texts), strict=True):
        assert levenshtein(a, b) == _brute(a, b)
    assert levenshtein(["one", "two"], ["two"]) == 1


@pytest.mark.parametrize(
    ("references", "said", "expected"),
    [
        (["cat"], "cat", 1), (["Cat"], " cAT ", 1), (["cat"], "cut", 2 / 3), (["cat"], "dog", 0),
        (["dog", "cat"], "cat", 1), (["abcd"], "ab", 0.5), (["abcde"], "ab", 0), ([""], "", 1),
    ],
)  # fmt: skip
def test_anls(references: list[str], said: str, expected: float) -> None:
    assert anls(references, [said]) == {"anls": pytest.approx(expected)}
    assert anls(references, [[said]])["anls"] == pytest.approx(expected)


def test_submission_files_lie_under_the_output_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    args = SimpleNamespace(output_path=str(tmp_path / "out"))
    path = helpers.generate_submission_file("a.json", args)
    assert path == str(tmp_path / "out" / "submissions" / "a.json") and Path(path).parent.is_dir()
    path = helpers.generate_submission_file("a.json", None, subpath="x/y")
    assert path == str(tmp_path / "x" / "y" / "a.json") and Path(path).parent.is_dir()


def test_template_is_read_without_its_code(tmp_path: Path) -> None:
    text = "dataset_path: a/b\ndoc_to_text: !function utils.f\ndataset_kwargs:\n  token: true\n"
    (tmp_path / "_default_template_yaml").write_text(text)
    found = helpers.load_default_template_yaml(str(tmp_path / "utils.py"))
    assert found == {"dataset_path": "a/b", "dataset_kwargs": {"token": True}}


def test_names_and_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_FOLDER", "/a")
    assert helpers.resolve_cache_dir("$SOME_FOLDER/b", "/base") == "/a/b"
    assert helpers.resolve_cache_dir("b", "/base") == "/base/b"
    assert helpers.resolve_cache_dir("b") == "b"
    assert helpers.sanitize_model_name("x/org/model:1") == "org__model__1"
    assert helpers.sanitize_model_name("/x/y", full_path=True) == "__x__y"
    name = GeneralConfigTracker._get_model_name
    assert name("device=cuda,pretrained=org/m,model=n") == "org/m"
    assert name("batch=1") == name("") == ""


def test_videos_are_found_whatever_their_ending(tmp_path: Path) -> None:
    (tmp_path / "a.MP4").touch()
    assert helpers.get_video(str(tmp_path), "a") == str(tmp_path / "a.MP4")
    with pytest.raises(FileNotFoundError, match="there is no"):
        helpers.get_video(str(tmp_path), "b")


def test_points() -> None:
    found = helpers.parse_point2d('[{"point_2d": [500, 250]}] and (0.1, 0.5)', 200, 100)
    assert found.tolist() == [[100, 25], [20, 50]]
    assert helpers.parse_point2d("none", 1, 1).size == 0


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("(B)", "B"), ("The answer is B", "B"), ("A or C, so (C)", "C"), ("B.", "B"),
        ("I think that it must be the red newt here", "C"), ("A B", "B"),
    ],
)  # fmt: skip
def test_mmmu_options(response: str, expected: str) -> None:
    by_letter, letters = helpers.get_multi_choice_info(["frog", "toad", "red newt"])
    assert letters == ["A", "B", "C"] and by_letter["C"] == "red newt"
    parse = helpers.parse_mmmu_multi_choice_response
    assert parse(response, letters, by_letter) == expected


@needs_checkout
@pytest.mark.filterwarnings("ignore:invalid escape")
def test_everything_public_task_code_imports_is_offered() -> None:
    """But two modules: a base class for tasks written as classes, and one that is not published."""
    folder = Path(CHECKOUT) / "lmms_eval" / "tasks"
    files = [path for path in folder.rglob("*.py") if path != folder / "__init__.py"]
    wanted = {
        (str(node.module), name.name)
        for file in files
        for node in ast.walk(ast.parse(file.read_bytes()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lmms_eval.")
        if not str(node.module).startswith("lmms_eval.tasks")
        for name in node.names
    }
    absent = set()
    for module, name in wanted:
        try:
            getattr(loader(Trust()).absolute(module, ("*",)), name)
        except (ModuleNotFoundError, AttributeError):
            absent.add(module.removeprefix("lmms_eval."))
    assert len(wanted) > 15
    assert absent == {"api.task", "azure_openai_compat"}


@needs_checkout
def test_mmmu_options_as_upstream() -> None:
    parse = theirs("lmms_eval.tasks._task_utils.mmmu_mcq_utils.parse_mmmu_multi_choice_response")
    options, letters = helpers.get_multi_choice_info(["frog", "a toad", "newt", "D "])
    words = "A|B|C|D|(A)|(C)|A.|D.| |, |frog|a toad|The|newt|so |it is |.|'|answer"
    for i, text in enumerate(_texts(3000, words, "mmmu")):
        with seeded(i):
            expected = parse(text, letters, options)
        with seeded(i):
            found = helpers.parse_mmmu_multi_choice_response(text, letters, options)
        assert found == expected, text


@needs_checkout
def test_points_as_upstream() -> None:
    parse = theirs("lmms_eval.tasks._task_utils.point_format.parse_point2d")
    words = "[|]|(|)|1|20|0.5|,| |, |-|[3,4]|(0.1 , .2)|(0.25, 7)|x"
    for text in _texts(1000, words, "points"):
        found = helpers.parse_point2d(text, 640, 480)
        assert np.array_equal(found, parse(text, 640, 480)), text


@needs_checkout
def test_anls_as_upstream() -> None:
    path = Path(CHECKOUT) / "lmms_eval" / "api" / "metrics.py"
    wanted = ("levenshtein_distance", "anls")
    nodes = [
        node
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name in wanted
    ]
    for node in nodes:
        node.decorator_list = []
    space: dict[str, Any] = {}
    exec(compile(ast.Module(nodes, []), str(path), "exec"), space)
    texts = _texts(400, "a|b |A| |ß|newt|fr", "anls")
    for i in range(0, len(texts) - 3, 3):
        references, said = texts[i : i + 2], texts[i + 2]
        assert anls(references, [said]) == space["anls"](references, [said])


def test_options_without_any_letter_are_drawn_from_the_global_state() -> None:
    letters = ["A", "B", "C"]
    parse = helpers.parse_mmmu_multi_choice_response
    with seeded(1):
        expected = random.choice(letters)
    with seeded(1):
        assert parse("no idea", letters, {"A": "x", "B": "y", "C": "z"}) == expected
