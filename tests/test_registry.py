"""A file is its own registration; users add theirs without touching the package."""

from __future__ import annotations

from pathlib import Path

import pytest

from fieldmark.errors import UnknownName, UsageError, closest
from fieldmark.registry import Registry, is_file_reference, load_reference


def test_files_without_underscore_are_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "zoo"
    package.mkdir()
    for name in ("__init__.py", "_private.py", "red_fox.py", "owl.py"):
        (package / name).write_text("CALL = __name__\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry = Registry("animal", "zoo", "zoo ls")
    assert registry.names() == ["owl", "red-fox"]
    assert registry.get("red-fox").CALL == "zoo.red_fox"
    registry.register("wolf", "howl")
    assert registry.get("wolf") == "howl"
    with pytest.raises(UsageError, match="'owl' already exists"):
        registry.register("owl", None)
    with pytest.raises(UnknownName) as caught:
        registry.get("red_foks", where="grid.toml:3")
    assert str(caught.value) == (
        "grid.toml:3  animal 'red_foks' is not known. Did you mean 'red-fox'? `zoo ls` lists all."
    )


def test_references(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("class Owl:\n    legs = 2\n")
    assert is_file_reference("a/b.py:Name") and not is_file_reference("timm/resnet18")
    assert not is_file_reference("b.py:")
    owl = load_reference(f"{path}:Owl")
    assert owl.legs == 2
    assert load_reference("mine.py:Owl", base=tmp_path) is owl
    path.write_text("class Owl:\n    legs = 3\n")
    assert load_reference(f"{path}:Owl").legs == 3


@pytest.mark.parametrize(
    ("code", "name", "says"),
    [
        ("x = 1\n", "Owl", r"mine\.py  has no 'Owl'\. It defines nothing\."),
        ("class Owls: pass\n", "Owl", r"Did you mean 'Owls'\?"),
        ("import nothing_at_all\n", "Owl", r"mine\.py:1  cannot be run: ModuleNotFoundError"),
        ("x = 1\ny = x / 0\n", "Owl", r"mine\.py:2  cannot be run: ZeroDivisionError"),
        ("def f(:\n", "Owl", r"mine\.py:1  cannot be run: SyntaxError"),
    ],
)
def test_faults_in_user_files(tmp_path: Path, code: str, name: str, says: str) -> None:
    path = tmp_path / "mine.py"
    path.write_text(code)
    with pytest.raises(UsageError, match=says) as caught:
        load_reference(f"{path}:{name}")
    assert "\n" not in str(caught.value)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gone\.py  does not exist"):
        load_reference("gone.py:Owl", base=tmp_path)


def test_closest_ignores_case_and_dashes() -> None:
    assert closest("Red_Fox", ["red-fox", "owl"]) == ["red-fox"]
    assert closest("zzz", ["red-fox", "owl"]) == []
