"""Whatever is killed, and however many work at once: the same captions, nothing asked twice."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from fieldmark.chat import MockScript
from fieldmark.taxa import Taxon
from kit.captions import make_shards, stubborn
from kit.chat import CountingServer, running
from kit.kills import kill_when, wait_for

CONCURRENCY, N_SHARDS, N = 8, 8, 120
RUN = "import sys; from fieldmark.cli import main; sys.exit(main())"
SHORT = "import fieldmark.leases as l; l.BEAT_S, l.SILENCE_S = 0.1, 1.5; " + RUN
"""a run whose leases are lost after a second and a half"""


def start(url: str, shards: Path, out: Path, code: str = RUN) -> subprocess.Popen[str]:
    flags = ["--model", f"chat/vllm/seer?base_url={url}", "--out", str(out)]
    flags += ["--concurrency", str(CONCURRENCY), "--quiet"]
    return subprocess.Popen(
        [sys.executable, "-c", code, "caption", str(shards), *flags],
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(*workers: subprocess.Popen[str]) -> None:
    for worker in workers:
        _, errors = worker.communicate(timeout=120)
        assert worker.returncode == 0, errors


def digests(out: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((out / "captions").iterdir())
    }


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    make_shards(folder, N_SHARDS, N)
    return folder


@pytest.fixture(scope="module")
def serving() -> Iterator[tuple[CountingServer, str]]:
    server = CountingServer(MockScript(latency_s=0.004), answers=stubborn)
    server.is_recording = True
    with running(server) as url:
        yield server, url


@pytest.fixture(scope="module")
def calm(
    serving: tuple[CountingServer, str], shards: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """What an undisturbed run writes."""
    out = tmp_path_factory.mktemp("calm")
    finish(start(serving[1], shards, out))
    return digests(out)


@pytest.fixture
def server(serving: tuple[CountingServer, str], calm: dict[str, str]) -> tuple[CountingServer, str]:
    """A server that counts from nothing."""
    assert len(calm) == 2 * N_SHARDS
    serving[0].asked.clear()
    serving[0].answered.clear()
    serving[0].counts.n_requests = 0
    return serving


def check_rows(out: Path) -> None:
    table = pl.read_parquet(out / "captions/*.parquet")
    assert table.height == table.select("shard", "key").n_unique() == N_SHARDS * N
    assert not list((out / "state/leases").iterdir()), "no leases are left"


@pytest.mark.slow
@pytest.mark.parametrize("n_workers", [2, 3])
def test_workers_share_shards_and_nothing_is_asked_twice(
    server: tuple[CountingServer, str],
    calm: dict[str, str],
    shards: Path,
    tmp_path: Path,
    n_workers: int,
) -> None:
    finish(*(start(server[1], shards, tmp_path / "out") for _ in range(n_workers)))
    assert digests(tmp_path / "out") == calm
    check_rows(tmp_path / "out")
    assert server[0].answered.total() == len(server[0].answered)


@pytest.mark.slow
def test_a_worker_that_dies_with_a_lease_is_replaced_and_its_answers_are_used(
    server: tuple[CountingServer, str], calm: dict[str, str], shards: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    first = start(server[1], shards, out)
    wait_for(first, lambda: server[0].counts.n_requests >= 60)
    second = start(server[1], shards, out)
    kill_when(first, lambda: server[0].counts.n_requests >= 400)
    finish(second)
    assert digests(out) == calm
    n_twice = server[0].answered.total() - len(server[0].answered)
    assert n_twice <= CONCURRENCY


@pytest.mark.slow
def test_a_worker_that_slept_too_long_writes_nothing(
    server: tuple[CountingServer, str], calm: dict[str, str], shards: Path, tmp_path: Path
) -> None:
    """SIGSTOP, as a process that hangs: it is there, and silent."""
    out = tmp_path / "out"
    sleeper = start(server[1], shards, out, SHORT)
    wait_for(sleeper, lambda: server[0].counts.n_requests >= 100)
    os.kill(sleeper.pid, signal.SIGSTOP)
    finish(start(server[1], shards, out, SHORT))
    whole = digests(out)
    os.kill(sleeper.pid, signal.SIGCONT)
    finish(sleeper)
    assert digests(out) == whole == calm
    check_rows(out)


@pytest.mark.slow
@pytest.mark.parametrize("n_bytes", [600, 9_000])
def test_a_disk_that_takes_no_more_is_told_in_one_line(
    server: tuple[CountingServer, str], shards: Path, tmp_path: Path, n_bytes: int
) -> None:
    limit = f"import resource as r; r.setrlimit(r.RLIMIT_FSIZE, ({n_bytes}, {n_bytes})); "
    worker = start(server[1], shards, tmp_path / "out", limit + RUN)
    _, errors = worker.communicate(timeout=60)
    assert worker.returncode == 3, errors
    assert len(errors.splitlines()) == 1 and "File too large" in errors
    assert not list((tmp_path / "out").rglob("*.parquet"))


@pytest.mark.slow
def test_the_command_tells_what_it_did(
    server: tuple[CountingServer, str], shards: Path, tmp_path: Path
) -> None:
    flags = ["--model", f"chat/vllm/seer?base_url={server[1]}", "--out", str(tmp_path / "out")]
    names = [str(shards / "s-000.tar"), str(shards / "s-001.tar"), str(tmp_path / "cut.tar")]
    Path(names[2]).write_bytes(Path(names[0]).read_bytes()[:2048])
    command = [sys.executable, "-c", RUN, "caption"]
    run = subprocess.run([*command, *names, *flags], capture_output=True, text=True)
    assert run.returncode == 5 and "cut.tar: at byte" in run.stderr.splitlines()[-1]
    assert "240 images in 2 of 3 shards: 160 captions, 80 rejected, 0 errors" in run.stderr
    assert run.stderr.count("cut.tar") == 1, "refusals are said once"
    run = subprocess.run([*command, *names, *flags, "--json"], capture_output=True, text=True)
    facts = json.loads(run.stdout)
    assert run.returncode == 5 and facts["n_done"] == 2 and list(facts["refused"]) == ["cut"]
    assert facts["counts"] == {"ok": 160, "rejected": 80, "error": 0}
    run = subprocess.run([*command, *names[:2], *flags, "--json"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    facts = json.loads(run.stdout)
    assert facts["n_skipped"] == 2 and facts["counts"] == {"ok": 160, "rejected": 80, "error": 0}
    assert facts["reasons"] == {"rejected sentences": 80}
    run = subprocess.run([*command, names[2], *flags], capture_output=True, text=True)
    assert run.returncode == 3
    for wrong in ("--max-words 2", "--top-p 7", "--top-p 0", "--max-output 0", "--temp -1"):
        run = subprocess.run(
            [*command, *names[:1], *flags, *wrong.split()], capture_output=True, text=True
        )
        assert run.returncode == 2 and wrong in run.stderr


@pytest.mark.slow
def test_the_command_says_how_many_images_have_a_description(
    server: tuple[CountingServer, str], shards: Path, tmp_path: Path
) -> None:
    """Also where a budget has ended it: what was done is said, then why it ended."""
    ranks = ("kingdom", "phylum", "class", "order", "family", "genus", "species")
    taxon = Taxon(("Animalia", "Chordata", "Aves", "", "", "Corvus", "corax"))
    row = {"key": taxon.key, **dict(zip(ranks, taxon.ranks, strict=True)), "common_name": ""}
    row |= {"status": "described", "description": "It is black."}
    pl.DataFrame([row]).write_parquet(tmp_path / "descriptions.parquet")
    schema = {"class": pl.String, "examples": pl.List(pl.String)}
    pl.DataFrame(schema=schema).write_parquet(tmp_path / "format_examples.parquet")
    flags = ["--model", f"chat/vllm/seer?base_url={server[1]}", "--out", str(tmp_path / "out")]
    flags += ["--descriptions", str(tmp_path), "--concurrency", "4"]
    command = [sys.executable, "-c", RUN, "caption", str(shards / "s-*.tar")]
    run = subprocess.run(
        [*command, *flags, "--max-tokens", "400000"], capture_output=True, text=True
    )
    assert run.returncode == 4 and re.search("in [1-7] of 8 shards", run.stderr), run.stderr
    run = subprocess.run([*command, *flags], capture_output=True, text=True)
    assert run.returncode == 0 and "320 of 960 images have a description" in run.stderr, run.stderr
