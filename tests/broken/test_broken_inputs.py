"""Every folder here is one broken input: does it get exactly the line written beside it?

    command    one line; lines before the last are set-up and must succeed (others than `fieldmark`
               go to the shell)
    expected   `exit N`, then all that is printed, standard output first; the case's folder is `.`
    …          the input itself; what a case does not bring is taken from `_good`

A file is kept as `NAME.broken` where no tool must stumble over it. Nothing may be lost: inputs stay
as they were, finished runs stay finished.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest

from fieldmark.cli import main
from fieldmark.errors import StoreError
from fieldmark.store import Store

FOLDER = Path(__file__).parent
CASES = sorted(path.parent.name for path in FOLDER.glob("*/command"))
NOT_INPUT = ("command", "expected")
STORE = Path("results/fieldmark.db")
WITHOUT_GPU = ("device-cuda-absent",)
"""cases that hold only on a machine without one; loading torch takes them seconds"""


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=pytest.mark.slow) if case in WITHOUT_GPU else case for case in CASES],
)
def test_broken_input(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if case in WITHOUT_GPU and has_gpu():
        pytest.skip("this machine has the device that the case wants to be absent")
    place = lay_out(case, tmp_path)
    monkeypatch.chdir(place)
    *before, last = (FOLDER / case / "command").read_text(encoding="utf-8").splitlines()
    for line in before:
        code, told = play(line, monkeypatch)
        assert code == 0, f"set-up `{line}`: {told}"
    files, done = inputs(case, place), finished_runs()
    code, told = play(last, monkeypatch)
    assert shown(code, told, place) == (FOLDER / case / "expected").read_text(encoding="utf-8")
    assert "Traceback" not in told
    assert inputs(case, place) == files, "an input was changed"
    assert finished_runs() >= done, "a finished run was lost"


def test_there_are_enough_cases() -> None:
    folders = {path.name for path in FOLDER.iterdir() if path.is_dir() and path.name[0] not in "_."}
    assert folders == set(CASES)
    assert len(CASES) >= 45


def has_gpu() -> bool:
    import torch

    return bool(torch.cuda.is_available())


def lay_out(case: str, tmp_path: Path) -> Path:
    """A copy of the case, with the good parts it does not bring itself."""
    place = (tmp_path / case).resolve()
    shutil.copytree(FOLDER / case, place, ignore=shutil.ignore_patterns(*NOT_INPUT))
    for path in place.rglob("*.broken"):
        path.rename(path.with_suffix(""))
    for path in (FOLDER / "_good").iterdir():
        if path.is_file() and not (place / path.name).exists():
            shutil.copy(path, place)
    if not (place / "data").exists():
        shutil.copytree(FOLDER / "_good" / "data", place / "data")
    return place


def play(line: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """The exit code and all that was printed."""
    words = shlex.split(line)
    if "fieldmark" not in words:
        done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr
    start = words.index("fieldmark")
    out, err = io.StringIO(), io.StringIO()
    with monkeypatch.context() as patch:
        for variable in words[:start]:
            patch.setenv(*variable.split("=", 1))
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(words[start + 1 :])
    return code, out.getvalue() + err.getvalue()


def shown(code: int, told: str, place: Path) -> str:
    """As `expected` has it; a model's fingerprint may change with its version."""
    text = f"exit {code}\n{told}".replace(str(place), ".")
    return re.sub(r"\b[0-9a-f]{32}\b", "FINGERPRINT", text)


def inputs(case: str, place: Path) -> dict[Path, bytes]:
    """The case's own files, as they are now."""
    own = [path.relative_to(FOLDER / case) for path in (FOLDER / case).rglob("*")]
    paths = [place / str(path).removesuffix(".broken") for path in own]
    return {path: path.read_bytes() for path in paths if path.is_file()}


def finished_runs() -> set[str]:
    if not STORE.is_file():
        return set()
    try:
        with Store.open(STORE, read_only=True) as store:
            return {run.key for run in store.runs() if run.state == "done"}
    except (StoreError, sqlite3.Error):
        return set()  # a store that was broken on purpose
