"""Files of task code that harm are told by name, and the others are still looked at."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

from fieldmark.lmms.check.code import try_imports
from fieldmark.lmms.code.trust import Function, Trust
from fieldmark.lmms.read.files import index_folders
from fieldmark.lmms.read.groups import load_document_task

CHECKOUT = os.environ.get("FIELDMARK_LMMS_EVAL", "")
HOSTILE = {
    "fine": ("def f(): pass\n", ""),
    "talks": ("import sys\nprint('x' * 99999)\nsys.stderr.write('y' * 99999)\ndef f(): pass\n", ""),
    "asks": ("try:\n    input()\nexcept EOFError:\n    def f(): pass\n", ""),
    "raises": ("raise ValueError('no')\n", "mine/raises.py:1 ValueError: no."),
    "exits": ("import sys\nsys.exit()\n", "mine/exits.py:2 the code ended the program"),
    "dies": ("import os\nos._exit(9)\n", "importing dies.py ended its process (exit code 9)."),
    "crashes": ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n", "ended its process"),
    "loops": ("while True: pass\n", "importing loops.py took longer than 3 s."),
    "starts": ("import subprocess\nsubprocess.run(['true'])\n", "mine/starts.py:2 PermissionError"),
    "closes": ("import os\nfor i in range(3, 20):\n    try: os.close(i)\n    except OSError: pass\n"
               "def f(): pass\n", "ended its process"),
    "forges": ("import os\nfor i in range(3, 20):\n    try: os.write(i, b'[\"\"]\\n\\xff')\n"
               "    except OSError: pass\nraise ValueError('no')\n", "ValueError: no."),
    "writes": ("open('litter.txt', 'w').write('x')\ndef f(): pass\n", ""),
}  # fmt: skip


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (tmp_path / "mine").mkdir()
    return tmp_path / "mine"


def functions(mine: Path, *names: str) -> list[Function]:
    return [Function(f"{name}.f", mine / "a.yaml", i) for i, name in enumerate(names, start=1)]


@pytest.mark.slow
def test_hostile_files_are_told_and_the_others_go_on(
    mine: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, (text, _) in HOSTILE.items():
        (mine / f"{name}.py").write_text(text)
    wanted = [*functions(mine, *HOSTILE), Function("fine.f", mine / "b.yaml", 3)]
    told = try_imports(wanted, Trust.of(mine), timeout_s=3)
    assert set(told) == set(wanted)
    for function, (_, expected) in zip(wanted, HOSTILE.values(), strict=False):
        assert "\n" not in told[function]
        assert bool(told[function]) == bool(expected), function
        assert expected in told[function]
        if expected:
            assert told[function].startswith(f"{function.where}  ")
    assert told[wanted[-1]] == ""
    assert capfd.readouterr() == ("", "")
    assert not Path("litter.txt").exists() and not (mine / "litter.txt").exists()


def test_network_is_closed_at_import(mine: Path) -> None:
    reached = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        threading.Thread(target=lambda: (server.accept(), reached.set()), daemon=True).start()
        (mine / "calls.py").write_text(
            f"import socket\nsocket.create_connection(('127.0.0.1', {port}))\ndef f(): pass\n"
        )
        (mine / "tries.py").write_text(
            f"import urllib.request\ntry:\n    urllib.request.urlopen('http://127.0.0.1:{port}')\n"
            "except OSError:\n    def f(): pass\n"
        )
        calls, tries = functions(mine, "calls", "tries")
        told = try_imports([calls, tries], Trust.of(mine))
        assert "PermissionError" in told[calls] and "closed while" in told[calls]
        assert told[tries] == ""
        assert not reached.is_set()
        os.close(server.detach())


def test_nothing_runs_in_this_process(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TASK_CODE_RAN", raising=False)
    (mine / "sets.py").write_text("import os\nos.environ['TASK_CODE_RAN'] = '1'\ndef f(): pass\n")
    assert list(try_imports(functions(mine, "sets"), Trust.of(mine)).values()) == [""]
    assert "TASK_CODE_RAN" not in os.environ


def test_relative_places_stay_as_they_were_written(
    mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (mine / "fine.py").write_text("def f(): pass\n")
    monkeypatch.chdir(mine.parent)
    fine, wrong = (Function(f"fine.{name}", Path("mine/a.yaml"), 2) for name in "fg")
    told = try_imports([fine, wrong], Trust.of(mine))
    assert told[fine] == "" and told[wrong].startswith("mine/a.yaml:2  fine.py has no 'g'.")


def test_missing_files_and_names_are_told_as_elsewhere(mine: Path) -> None:
    (mine / "fine.py").write_text("def g(): pass\n")
    absent, unnamed = functions(mine, "absent", "fine")
    told = try_imports([absent, unnamed], Trust.of(mine))
    assert "there is no absent.py" in told[absent]
    assert "fine.py has no 'f'" in told[unnamed]
    assert try_imports([], Trust.of(mine)) == {}


@pytest.mark.skipif(not CHECKOUT, reason="FIELDMARK_LMMS_EVAL names no checkout")
def test_code_of_public_tasks_imports() -> None:
    """The bar of `benchmarks/yaml_tasks.py`, which tells why the others do not."""
    folder = Path(CHECKOUT) / "lmms_eval" / "tasks"
    trust = Trust.of(folder)
    paths = [each.path for each in index_folders([folder]).entries if each.kind == "task"]
    broken = folder / "plm_videobench" / "rcap" / "rcap_test.yaml"
    tasks = [load_document_task(each, trust).functions for each in paths if each != broken]
    told = try_imports([each for some in tasks for each in some], trust)
    assert len(paths) == 1714
    assert sum(not any(told[each] for each in some) for some in tasks) >= 1057
