"""A real Slurm of one node: `.ci/slurm` starts it, in a folder of its own for every xdist worker.

    def test_something(slurm: Slurm) -> None:
        SlurmExecutor(SlurmOptions()).submit(...)

Where Slurm is not installed, or without root, tests skip and say so. It ends with whoever started
it, even by kill -9. A test that stops a daemon starts it again with `slurm.start()`.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from fieldmark.experiments.cluster.job_folder import StepFolder, StepRecord
from fieldmark.experiments.cluster.steps import StepRequest

SCRIPT = Path(__file__).parents[2] / ".ci" / "slurm"
PATIENCE_S = 60.0
SMALL = StepRequest(seconds=60.0, memory_bytes=100 << 20, cpus=1, gpus=0)


def why_not() -> str:
    """Why no Slurm can be started here; "" = it can."""
    missing = [name for name in ("slurmctld", "slurmd", "munged") if _which(name) is None]
    if missing:
        return f"{', '.join(missing)} not installed: `.ci/slurm install` does it (as root)"
    return "" if os.getuid() == 0 else "a Slurm of one's own is started by root only"


class Slurm:
    """One cluster with a folder of its own."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="fieldmark-slurm-", dir="/tmp"))
        self.conf = self.folder / "slurm.conf"
        # Ends the cluster when the pipe closes: also when this process is killed.
        self._guard = subprocess.Popen(
            ["sh", "-c", 'cat > /dev/null; "$@"', "guard", str(SCRIPT), "stop", str(self.folder)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        self.start()

    def start(self) -> None:
        """Starts what does not run."""
        answer = subprocess.run(
            [str(SCRIPT), "start", str(self.folder)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        assert answer.returncode == 0, answer.stdout

    def kill(self, daemon: str) -> None:
        """kill -9, as a machine that fails."""
        pid = int((self.folder / f"{daemon}.pid").read_text())
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not Path(f"/proc/{pid}/cmdline").exists() or _is_zombie(pid), "its end")

    def has_saved(self, since: float) -> bool:
        """Did slurmctld write its state since? What started later it would start twice."""
        path = self.folder / "state" / "job_state"
        return path.exists() and path.stat().st_mtime > since

    def call(self, *command: str) -> str:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def clear(self) -> None:
        """No job is left."""
        self.call("scancel", "--quiet", "--user=root")
        wait_until(lambda: not self.call("squeue", "-h"), "an empty queue")

    def close(self) -> None:
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait(PATIENCE_S)


@pytest.fixture(scope="session")
def slurm_of_worker() -> Iterator[Slurm]:
    if reason := why_not():
        pytest.skip(reason)
    slurm = Slurm()
    yield slurm
    slurm.close()


@pytest.fixture
def slurm(slurm_of_worker: Slurm, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slurm]:
    """An empty cluster which commands of Slurm speak to, as long as the test runs."""
    tests = str(Path(__file__).parents[1])
    monkeypatch.setenv("SLURM_CONF", str(slurm_of_worker.conf))
    paths = [tests, *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    for name in [name for name in os.environ if name.startswith(("SBATCH_", "SLURM_JOB"))]:
        monkeypatch.delenv(name)
    slurm_of_worker.start()
    yield slurm_of_worker
    slurm_of_worker.clear()


def make_step(
    results: Path,
    number: int,
    after: Sequence[StepFolder] = (),
    request: StepRequest = SMALL,
    **script: Any,
) -> StepFolder:
    """A step on the job_folder whose worker, a `ScriptTask`, does what is written down here."""
    folder = results / "cluster" / "steps" / f"20261116T200000-test-{number:04d}"
    folder.mkdir(parents=True)
    kind = "runs" if after else "embed"
    record = StepRecord(
        kind, f"step {number}", after=tuple(step.id for step in after), request=asdict(request)
    )
    step = StepFolder(folder)
    step.write_record(record)
    (folder / "script.json").write_text(json.dumps(script))
    return step


def trace(step: StepFolder) -> list[list[str]]:
    """What its workers wrote down: lines of words, the last one is the time."""
    try:
        lines = (step.path / "trace.txt").read_text().splitlines()
    except FileNotFoundError:
        return []
    return [line.split() for line in lines]


def words(step: StepFolder) -> str:
    """The first words of all lines."""
    return " ".join(line[0] for line in trace(step))


def when(step: StepFolder, word: str) -> float:
    """When the first line with that word was written."""
    return next(float(line[-1]) for line in trace(step) if line[0] == word)


def wait_until(is_so: Callable[[], object], what: str, patience_s: float = PATIENCE_S) -> None:
    end = time.monotonic() + patience_s
    while not is_so():
        assert time.monotonic() < end, f"waited {patience_s:.0f} s for {what}"
        time.sleep(0.05)


def _which(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True
