"""A full disk, a locked file, Ctrl-C, two at once, odd names: one line each, and nothing is lost.

What no folder of files can show; the line each must print stands here.
"""

from __future__ import annotations

import contextlib
import io
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from fieldmark.cli import main
from fieldmark.data.read.table import read_columns, read_json
from fieldmark.errors import DataError
from fieldmark.store import RunFilter, Store

GOOD = Path(__file__).parent / "_good"
RUN = ["run", "--task", "birds.yaml", "--cache", "cache", "--model"]
COLOUR = [*RUN, "classical/colour"]
SLOW = """
import time
from pathlib import Path
import numpy as np

class Slow:
    dim, batch_size = 3, 1
    def transform(self, image):
        return np.asarray(image.resize((4, 4)), np.float32)
    n_checks = 2
    def embed_images(self, batch):
        if self.n_checks:  # the test pictures, together and one alone
            self.n_checks -= 1
            return batch.mean(axis=(1, 2))
        with Path("seen.txt").open("a") as file:
            file.write("x")
        time.sleep(0.3 if Path("slowly").exists() else 0)
        return batch.mean(axis=(1, 2))
"""
ODD_NAMES = [
    "größe 日本", "-dash", "semi;colon", "quo'te\"s", "star*[x]", "a,b", "%s{}", "emoji🦜", "train",
]  # fmt: skip


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a good task, good photos, and a model that can be slow."""
    shutil.copytree(GOOD, tmp_path / "here")
    (tmp_path / "here" / "slow.py").write_text(SLOW)
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def told(words: list[str]) -> tuple[int, list[str]]:
    err = io.StringIO()
    with contextlib.redirect_stderr(err):
        code = main(words)
    return code, err.getvalue().splitlines()


def done() -> list[str]:
    with Store.open("results/fieldmark.db", read_only=True) as store:
        return sorted(run.spec.model for run in store.runs(RunFilter(states=("done",))))


def start_slow(place: Path) -> subprocess.Popen[str]:
    """A run of its own process that has begun to embed."""
    (place / "slowly").touch()
    words = [sys.executable, "-m", "fieldmark", *RUN, "slow.py:Slow"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 60
    while not (place / "seen.txt").exists() and process.poll() is None:
        assert time.monotonic() < until
        time.sleep(0.02)
    return process


@pytest.mark.slow
def test_interrupted_once_the_same_command_goes_on(place: Path) -> None:
    process = start_slow(place)
    time.sleep(0.7)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.splitlines()[-1] == (
        "fieldmark: interrupted. Finished work is kept; run the same command to continue it."
    )
    assert "Traceback" not in err
    n_before = len((place / "seen.txt").read_text())
    assert 1 <= n_before < 14
    (place / "slowly").unlink()
    code, _ = told([*RUN, "slow.py:Slow"])
    assert code == 0 and done() == ["slow.py:Slow"]
    n_in_flight = 1
    assert len((place / "seen.txt").read_text()) <= 14 + n_in_flight


@pytest.mark.slow
def test_two_at_once_do_not_do_the_same_run(place: Path) -> None:
    process = start_slow(place)
    code, lines = told([*RUN, "slow.py:Slow", "--model", "classical/colour"])
    assert code == 5, "a run that was left to another process is not done"
    assert lines[0].startswith("skipped (claimed): slow.py:Slow · birds.yaml · seed 0: process")
    assert done() == ["classical/colour"]
    (place / "slowly").unlink()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert done() == ["classical/colour", "slow.py:Slow"]


def test_locked_store(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, _ = told(COLOUR)
    assert code == 0
    monkeypatch.setattr(Store.open.__func__, "__defaults__", (False, 0.2, False))
    holder = sqlite3.connect("results/fieldmark.db", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    try:
        code, lines = told([*COLOUR, "--seed", "1"])
    finally:
        holder.execute("ROLLBACK")
        holder.close()
    assert (code, lines) == (
        3,
        [
            "fieldmark: results/fieldmark.db is locked by another process (waited 0.2 s): wait "
            "for it or stop it, then run the same command again."
        ],
    )
    assert told([*COLOUR, "--seed", "1"])[0] == 0 and len(done()) == 2


@contextlib.contextmanager
def no_file_larger_than(n_bytes: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_store_that_cannot_grow(place: Path) -> None:
    assert told(COLOUR)[0] == 0
    with no_file_larger_than(Path("results/fieldmark.db").stat().st_size + 4096):
        code, lines = told([*RUN, "classical/pixels", "--seed", *map(str, range(40)), "--quiet"])
    assert code == 3 and len(lines) == 1
    assert lines[0].startswith("fieldmark: results/fieldmark.db could not ")
    assert "classical/colour" in done()
    assert told([*RUN, "classical/pixels", "--quiet"])[0] == 0
    assert "classical/pixels" in done()


def test_cache_that_cannot_grow(place: Path) -> None:
    assert told([*RUN, "classical/pixels", "--quiet"])[0] == 0
    features = sum(path.stat().st_size for path in Path("cache").rglob("*.values"))
    limit = max(Path("results/fieldmark.db").stat().st_size * 3, features)
    wide = [*RUN, "classical/all", "--quiet"]
    with no_file_larger_than(limit):
        for number in range(60):
            picture = Image.new("RGB", (9, 9), (number, 2 * number, 90))
            picture.save(Path("data/folder/train/wren") / f"more{number}.png")
        code, lines = told(wide)
    if code == 0:
        pytest.skip("the features of this model fit below the limit of the store")
    assert code == 3 and len(lines) == 1
    assert lines[0].endswith(
        "cannot be written: File too large. Free some space or choose another folder with --cache; "
        "the features so far are kept."
    )
    assert told(wide)[0] == 0 and done() == ["classical/all", "classical/pixels"]


@pytest.fixture
def small_disk(place: Path) -> Iterator[Path]:
    """A file system of its own, of 60 KiB."""
    disk = place / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=60k", "tmpfs", str(disk)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("only root may mount a disk")
    yield Path("disk")
    subprocess.run(["umount", str(disk)], check=True)


def test_full_disk(place: Path, small_disk: Path) -> None:
    code, lines = told([*COLOUR, "--results", "disk/results", "--quiet"])
    assert (code, lines) == (
        3,
        [
            "fieldmark: disk/results/fieldmark.db could not grow, the disk is full: free some "
            "space, then run the same command again; finished parts are kept."
        ],
    )
    code, lines = told(["data", "make", "folder", "--size", "24", "--out", "disk/made"])
    assert code == 3 and len(lines) == 1 and "No space left on device" in lines[0]


def test_read_only_disk(place: Path, small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(place / "disk")], check=True)
    assert told([*COLOUR, "--results", "disk/results"]) == (
        3,
        [
            "fieldmark: disk/results cannot be made (Read-only file system): make this folder by "
            "hand, or choose another folder with --results."
        ],
    )
    code, lines = told([*COLOUR, "--results", "disk/results", "--on", "local"])
    assert code == 3 and len(lines) == 1, "a traceback (N7 of the third look)"
    assert lines[0].endswith("disk/results/cluster cannot be written: Read-only file system.")
    code, lines = told([*COLOUR[:3], "--cache", "disk/cache", *COLOUR[5:], "--quiet"])
    assert (code, lines) == (
        3,
        [
            "fieldmark: disk/cache cannot be used as the feature cache (Read-only file system): "
            "choose another folder with --cache."
        ],
    )
    code, lines = told(["data", "make", "folder", "--size", "24", "--out", "disk/made"])
    assert (code, lines) == (
        3,
        [
            "fieldmark: disk/made cannot be written (Read-only file system): choose another "
            "folder with --out."
        ],
    )


def test_a_name_that_no_disk_takes_is_one_line(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIELDMARK_CACHE", "c" * 300)
    assert told([*RUN[:3], *COLOUR[5:]]) == (
        3,
        [f"fieldmark: {'c' * 300}/features cannot be used: File name too long."],
    )


NO_RIGHTS = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
"""takes from root what ordinary users do not have"""
UNREADABLE = {
    "data/folder/train": "data/folder/train cannot be listed: Permission denied.",
    "birds.yaml": "birds.yaml cannot be read: Permission denied.",
    "cache": "cache/features cannot be used: Permission denied.",
    "home/.config/fieldmark": "config.toml cannot be used: Permission denied.",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", UNREADABLE)
def test_what_an_ordinary_user_may_not_read_is_one_line(place: Path, name: str) -> None:
    (place / "home/.config/fieldmark").mkdir(parents=True)
    (place / "home/.config/fieldmark/config.toml").touch()
    (place / "cache").mkdir(exist_ok=True)
    before = NO_RIGHTS if os.geteuid() == 0 else []
    if before and not shutil.which(before[0]):
        pytest.skip("root reads everything")
    mode = (place / name).stat().st_mode
    (place / name).chmod(0)
    try:
        done = subprocess.run(
            [*before, sys.executable, "-m", "fieldmark", *COLOUR, "--quiet"],
            env=os.environ | {"HOME": str(place / "home"), "XDG_CONFIG_HOME": ""},
            capture_output=True, text=True,
        )  # fmt: skip
    finally:
        (place / name).chmod(mode)
    assert done.returncode in (2, 3)
    (line,) = done.stderr.splitlines()
    assert line.startswith("fieldmark: ") and line.endswith(UNREADABLE[name])


@pytest.mark.parametrize("name", ["labels.csv", "labels.parquet", "labels.json"])
@pytest.mark.parametrize("link", ["", "/dev/zero"])
def test_a_table_that_is_no_file_is_one_line(tmp_path: Path, name: str, link: str) -> None:
    """A pipe was waited at for ever."""
    path = tmp_path / name
    if link:
        path.symlink_to(link)
    else:
        os.mkfifo(path)
    with pytest.raises(DataError, match="is a pipe or a device"):
        read_json(path) if name.endswith("json") else read_columns(path)


def test_odd_names_and_sizes_are_only_names_and_sizes(place: Path) -> None:
    shutil.rmtree("data/folder")
    sizes = [(1, 1), (20_000, 10), (3, 500)]
    for split in ("train", "test"):
        for number, name in enumerate(ODD_NAMES):
            folder = Path("data/folder") / split / name
            folder.mkdir(parents=True)
            for size in sizes:
                colour = (25 * number, 255 - 25 * number, size[1] % 200)
                Image.new("RGB", size, colour).save(folder / f"{size[0]} {name}.png")
    assert told(COLOUR)[0] == 0
    with Store.open("results/fieldmark.db", read_only=True) as store:
        (run,) = store.runs()
        rows = store.predictions(run.id)
    assert set(rows["target"]) == set(ODD_NAMES)
    assert f"test/{ODD_NAMES[0]}/1 {ODD_NAMES[0]}.png" in set(rows["id"])
    assert len(rows) == len(ODD_NAMES) * len(sizes)


def test_a_closed_pipe_is_no_mistake() -> None:
    words = [sys.executable, "-m", "fieldmark", "models", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        err = process.stderr.read().decode()
    assert "Traceback" not in err
