"""What does a newcomer's first command install, and is all of it in the wheel?"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import requires
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
NOT_FOR_ALL = re.compile(r"torch.*|timm|open-clip.*|transformers|accelerate|nvidia-.*|triton")
NOT_FOR_USERS = re.compile(r"pytest.*|hypothesis|mypy|ruff|.*playwright.*|selenium|fastapi|openai")
ABSENT = """
import importlib.util
print([name for name in ("torch", "pytest", "playwright") if importlib.util.find_spec(name)])
"""


def closure(name: str) -> set[str]:
    """A package and everything that it needs without extras, of what is installed here."""
    found, todo = set[str](), [name]
    while todo:
        package = todo.pop()
        if package not in found:
            found.add(package)
            needed = [Requirement(line) for line in requires(package) or ()]
            todo += [
                re.sub(r"[-_.]+", "-", each.name).lower()
                for each in needed
                if each.marker is None or each.marker.evaluate({"extra": ""})
            ]
    return found


def test_the_core_is_light() -> None:
    core = closure("fieldmark")
    assert {"numpy", "scikit-learn", "pillow-heif"} < core
    assert not [name for name in core if NOT_FOR_ALL.fullmatch(name)]
    assert not [name for name in core if NOT_FOR_USERS.fullmatch(name)]
    assert len(core) < 60


def test_uv_run_installs_the_core_only() -> None:
    """uv installs the group `dev` unless it is told not to: torch and a browser came with it."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert table["tool"]["uv"]["default-groups"] == []
    assert set(table["dependency-groups"]) == {"dev"}
    assert "--group dev" in (ROOT / "README.md").read_text()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    asked = subprocess.run(
        ["uv", "pip", "compile", "--quiet", "--no-cache", "-"],
        input="hatchling", text=True, capture_output=True, check=False,
    )  # fmt: skip
    if asked.returncode:
        pytest.skip(f"no package registry answers: {asked.stderr.strip().splitlines()[:1]}")
    call("uv", "build", "--quiet", "--wheel", "--out-dir", str(folder), str(ROOT))
    [path] = folder.glob("*.whl")
    return path


def call(*words: str, cwd: Path | None = None) -> str:
    """A command that knows nothing of this checkout, and what it prints."""
    ours = ("PYTHON", "FIELDMARK", "VIRTUAL_ENV", "UV_PROJECT")
    environment = {name: v for name, v in os.environ.items() if not name.startswith(ours)}
    done = subprocess.run(
        words, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_wheel_works_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    """As `pip install .`, `uvx --from .` and `pipx install .` do it: tasks, page, SQL and recipes
    are in the wheel, and `demo` runs in any folder.
    """
    listed = call("git", "ls-files", "src/fieldmark", cwd=ROOT).split()
    packed = {name for name in ZipFile(wheel).namelist() if name.startswith("fieldmark/")}
    assert packed == {name.removeprefix("src/") for name in listed}

    python = tmp_path / "own" / "bin" / "python"
    call("uv", "venv", "--quiet", "--python", sys.executable, str(tmp_path / "own"))
    pins = ("--constraint", str(ROOT / "constraints.txt"))
    call("uv", "pip", "install", "--quiet", "--python", str(python), *pins, str(wheel))
    place = tmp_path / "any folder"
    place.mkdir()
    fieldmark = str(python.with_name("fieldmark"))
    shown = call(fieldmark, "demo", "--quiet", cwd=place)
    assert "classical/texture" in shown
    assert (place / "fieldmark-demo" / "site" / "index.html").stat().st_size > 1000
    assert call(str(python), "-c", ABSENT, cwd=place) == "[]\n"
