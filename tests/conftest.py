"""What every test gets: no network but loopback, and settings that touch nothing of the user's."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

# Before anything imports numpy or torch, and before the workers start. Each worker has one thread:
# with more threads than cores they wait for each other. On two busy cores (2026-11-16) the contract
# of models and four files of probes took 179 s of CPU time, with one thread each 44 s.
os.environ.setdefault("OMP_NUM_THREADS", "1")

if sys.dont_write_bytecode:
    # Every worker and every command in a process of its own would compile all it imports, torch
    # too: that was half of collection. What is compiled stays out of the source folders.
    sys.dont_write_bytecode = False
    sys.pycache_prefix = str(Path(__file__).parents[1] / ".pytest_cache" / "bytecode")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix

# A shell starts background jobs with Ctrl-C ignored, and so would all commands that tests start.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Few examples with the README's command, many in .ci/run (`--hypothesis-profile=thorough`).
# On a busy machine values come slowly: that is no fault of what is tested.
for name, n in (("quick", 25), ("thorough", 300)):
    hypothesis_settings.register_profile(
        name, max_examples=n, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
hypothesis_settings.load_profile("quick")

EXTERNAL = {"slurm", "slurm_of_worker", "mediawiki"}
"""fixtures that start what this package does not bring"""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One worker more than cores: a test that waits for a process or a server leaves its core idle.

    On two cores (2026-11-19) the README's command took 298 s with two workers, 233 s with three.
    """
    return (os.cpu_count() or 1) + 1


LONGEST = {
    "test_a_benchmark_runs_and_prints_its_figure_last[probes]",
    "test_clean_sets_give_few_false_alarms",
    "test_commands_of_a_page_run[README.md]",
    "test_put_back_cancelled_and_submitted_again_the_curve_is_the_same",
    "test_unseen_species_are_above_chance_and_captions_teach_looks",
}
"""more than a minute each: they start first, so that no worker ends alone with one of them"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs the files of lmms-eval skips by their variable."""
    items.sort(key=lambda item: item.name not in LONGEST)
    for item in items:
        reasons = [str(mark.kwargs.get("reason")) for mark in item.iter_markers("skipif")]
        needs_files = any(reason.startswith("FIELDMARK_LMMS_EVAL") for reason in reasons)
        if needs_files or EXTERNAL & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.external)


_connect = socket.socket.connect


def pytest_configure(config: pytest.Config) -> None:
    """Made datasets are shared by all workers, and go with the run."""
    if not hasattr(config, "workerinput"):
        root = os.environ["TEST_DATASETS"] = tempfile.mkdtemp(prefix="made-")
        config.add_cleanup(lambda: shutil.rmtree(root, ignore_errors=True))


def _loopback_only(self: socket.socket, address):  # type: ignore[no-untyped-def]
    host = address[0] if isinstance(address, tuple) else ""
    if self.family != socket.AF_UNIX and host not in ("127.0.0.1", "::1", "localhost"):
        raise OSError(f"tests must not reach {host!r}: only loopback is allowed")
    return _connect(self, address)


def pytest_sessionstart() -> None:
    gc.disable()  # while ten thousand tests are collected, nothing becomes garbage


def pytest_collection_finish() -> None:
    """What is imported and collected stays to the end: nobody looks through it for garbage."""
    gc.freeze()
    atexit.register(gc.unfreeze)  # libraries in C complain of what is left
    gc.enable()


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket.socket, "connect", _loopback_only)


@pytest.fixture(autouse=True)
def _own_places(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Cache and configuration in a fresh folder; nothing of the user's shell reaches a test."""
    for name in [name for name in os.environ if name.startswith("FIELDMARK_")]:
        monkeypatch.delenv(name)
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("FIELDMARK_CACHE", str(home / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="session")
def shared() -> Path:
    """Real annotation tables and photos beside the checkout; the product stands without them."""
    folder = Path(__file__).parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip("the folder with real tables is not here")
    return folder


@pytest.fixture(autouse=True)
def _registries_as_they_were() -> Iterator[None]:
    """A test that leaves an entry behind would change others, in some order, on some worker. A
    model handed over as an object stays known by its name and fingerprint: that is the product's
    way, and harms nobody.
    """
    from fieldmark.registry import REGISTRIES

    registries = list(REGISTRIES)  # one of the test's own is its own affair

    def entries() -> set[str]:
        names = ((registry.kind, name) for registry in registries for name in registry.added)
        return {f"{kind} {name}" for kind, name in names if "#" not in name}

    before = entries()
    yield
    assert entries() <= before, "a test must leave no registry as it did not find it"
