"""Child processes: they answer, end with their parent, and it is told why one died."""

from __future__ import annotations

import ast
import os
import platform
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

import fieldmark
from fieldmark.processes import Channel, Child, ChildDied, kept_memory, output_of, process_pool

BLOCK_MB, N_ROUNDS = 48, 20
"""more than glibc ever keeps by itself"""


# --- children: functions that they run


def add(channel: Channel, start: str) -> None:
    sys.stdout.write("not a message\n")
    for number in channel.messages():
        channel.send(int(start) + number)


def fail(channel: Channel) -> None:
    raise ValueError(f"no {channel.receive()}.\nSee above.")


def hang(channel: Channel) -> None:
    channel.send(os.getpid())
    time.sleep(600)


def babble(channel: Channel) -> None:
    channel.send("x" * channel.receive())


def log_session(name: str) -> int:
    sys.stdout.write(f"{name} {os.getsid(0) == os.getpid()}\n")
    return 3


def family(folder: str) -> int:
    """A parent, its child from the main thread and one from another, and a grandchild."""
    from threading import Thread

    children = [Child(grow, "1", folder)]
    other = Thread(target=lambda: children.append(Child(grow, "0", folder)))
    other.start()
    other.join()
    time.sleep(600)
    return 0


def grow(channel: Channel, has_child: str, folder: str) -> None:
    child = Child(grow, "0", folder) if int(has_child) else None
    (Path(folder) / str(os.getpid())).touch()
    np.linalg.norm(np.ones(3))
    time.sleep(600)
    assert child


# --- tests


def test_a_child_answers_until_its_input_ends() -> None:
    child = Child(add, "40")
    child.send(2)
    child.send(3)
    assert [child.receive(), child.receive()] == [42, 43]
    child.close_input()
    assert child.wait(20) == 0
    child.end()


def test_one_that_is_not_trusted_sends_json_only() -> None:
    child = Child(add, "1", is_trusted=False)
    child.send(1)
    assert child.receive(timeout_s=20) == 2
    child.end()
    child = Child(babble, is_trusted=False)
    child.send(5000)
    with pytest.raises(ChildDied, match="too long"):
        child.receive(most_bytes=1000)
    child.end()


def test_why_one_died() -> None:
    child = Child(fail)
    child.send("wren")
    with pytest.raises(ChildDied, match="^ValueError: no wren$"):
        child.receive()
    child.end()
    child = Child(hang)
    os.kill(child.receive(), signal.SIGKILL)
    with pytest.raises(ChildDied, match="^ended by SIGKILL$"):
        child.receive()
    child.end()
    child = Child(hang)
    child.receive()
    with pytest.raises(ChildDied, match=r"^took longer than 0\.2 s$"):
        child.receive(timeout_s=0.2)
    child.end()


def test_one_with_a_log_gives_its_exit_status(tmp_path: Path) -> None:
    child = Child(log_session, "wren", log=tmp_path / "log.txt")
    assert child.wait(20) == 3
    assert (tmp_path / "log.txt").read_text() == "wren True\n"
    child.end()


def test_a_pool_says_that_one_was_killed() -> None:
    with process_pool(1) as pool:
        assert list(pool.map(abs, [-1, 2])) == [1, 2]
    with pytest.raises(ChildDied, match="was killed"), process_pool(1) as pool:
        pool.submit(os.kill, 0, 0).result()
        pool.submit(os.abort).result()


def test_what_a_program_prints() -> None:
    say = [sys.executable, "-c", "import os; print(os.environ['WORD'])"]
    assert output_of(say, 20, environment={"WORD": "wren"}) == "wren\n"
    assert output_of([sys.executable, "-c", "1/0"], 20) is None
    assert output_of(["no-such-program"], 20) is None


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_child_and_no_grandchild_outlives_a_parent(how: signal.Signals, tmp_path: Path) -> None:
    code = f"""
        import sys
        sys.path[:0] = {sys.path!r}
        import test_processes
        test_processes.family({str(tmp_path)!r})
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], cwd="/", stderr=subprocess.DEVNULL
    )
    wait_until(lambda: len(list(tmp_path.iterdir())) == 3, 60)
    parent.send_signal(how)
    parent.wait()
    wait_until(lambda: not any(is_there(path.name) for path in tmp_path.iterdir()), 5)


def wait_until(is_so, at_most_s: float) -> None:  # type: ignore[no-untyped-def]
    end = time.monotonic() + at_most_s
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def is_there(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# --- one module starts processes

STARTERS = {"subprocess", "multiprocessing", "pty", "concurrent.futures.process"}
NAMES = {"ProcessPoolExecutor", "DataLoader", "create_subprocess_exec", "create_subprocess_shell"}
CALLS = {"fork", "forkpty", "system", "popen", "posix_spawn", "posix_spawnp", "startfile"}


def starts_processes(path: Path) -> list[str]:
    """Where a file imports or calls what starts processes."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module or "", *(alias.name for alias in node.names)]
        elif isinstance(node, ast.Attribute):
            is_os = isinstance(node.value, ast.Name) and node.value.id == "os"
            starts = node.attr in CALLS or node.attr.startswith(("exec", "spawn"))
            modules = ["pty"] if is_os and starts else [node.attr]
        if any(name.split(".")[0] in STARTERS or name in STARTERS | NAMES for name in modules):
            found.append(f"{path}:{getattr(node, 'lineno', 0)}")
    return found


def test_one_module_starts_processes() -> None:
    """`processes.py`; and `slurm`, which calls Slurm's commands."""
    source = Path(fieldmark.__file__).parent
    found = []
    for path in source.rglob("*.py"):
        name = path.relative_to(source).as_posix()
        if name not in ("processes.py", "slurm/__init__.py"):
            found += starts_processes(path)
    assert found == []
    assert starts_processes(source / "processes.py") and starts_processes(
        source / "slurm" / "__init__.py"
    ), "the walk sees them"


# --- memory that a process keeps while it embeds


def n_faults() -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def use_and_free() -> int:
    """Page faults of filling a block and freeing it, again and again."""
    before = n_faults()
    for _ in range(N_ROUNDS):
        np.empty(BLOCK_MB << 20, np.uint8).fill(1)
    return n_faults() - before


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's")
def test_freed_memory_is_used_again() -> None:
    usual = use_and_free()
    with kept_memory():
        use_and_free()
        kept = use_and_free()
    assert kept < usual / 4, "the block is there: nothing is mapped anew"
