"""Killed, out of disk, two at once: nothing that was kept is lost, nothing is ever wrong.

Each scenario runs in a process of its own that forks its victims: forking is safe there.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fieldmark.data import ImageRef
from fieldmark.embed import EmbedOptions, embed
from fieldmark.embed import rows as rows_module
from fieldmark.embed.rows import FeatureRows
from fieldmark.errors import DataError
from fieldmark.models import Features
from fieldmark.progress import Silent
from kit.kills import Victim, run_apart
from kit.pictures import write_image

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and kill -9")

N_PHOTOS = 160
BATCH = 4


# --- rows


DIM = 512


def batch_of(number: int, n: int = 256) -> tuple[list[bytes], np.ndarray]:
    """Keys and vectors of one append, each other than all others."""
    rng = np.random.default_rng(number)
    data = rng.bytes(16 * n)
    values = np.repeat(rng.normal(size=(n, 1)).astype(np.float32), DIM, axis=1)
    return [data[at : at + 16] for at in range(0, 16 * n, 16)], values


def count_right(folder: Path, numbers: list[int]) -> int:
    """Rows of the batches that are there; none of them is wrong."""
    rows, n = FeatureRows(folder, DIM), 0
    for number in numbers:
        keys, values = batch_of(number)
        is_there = ~rows.missing(keys)
        there = [key for key, is_kept in zip(keys, is_there, strict=True) if is_kept]
        assert np.array_equal(rows.gather(there), values[is_there])
        n += len(there)
    return n


def append_until_killed(place: Path) -> None:
    rng = np.random.default_rng(5)
    kept: list[int] = []
    for began in range(0, 15 * 30, 30):
        batches = {number: batch_of(number) for number in range(began, began + 30)}

        def work(report: Callable[[int], object], batches=batches) -> None:  # type: ignore[no-untyped-def]
            rows = FeatureRows(place, DIM)
            for number, (keys, values) in batches.items():
                rows.append(keys, values)
                report(number)

        kept += Victim(work).kill(int(rng.integers(1, 20)), rng.uniform(0, 0.003))
        assert count_right(place, kept[-3:]) == 256 * len(kept[-3:])
        assert count_right(place, [kept[-1] + 1]) <= 256
    assert count_right(place, kept) == 256 * len(kept)
    assert len(list(place.iterdir())) == 2, "a killed writer leaves its lock to the next"


def append_and_die_half_way(place: Path) -> None:
    """Killed in the middle of the values, between values and keys, in the middle of the keys."""
    write = rows_module._write
    for round_number, share_of_values in enumerate((0.0, 0.3, 0.5, 1.0, 1.3, 1.5, 1.999)):
        kept, lost = 2 * round_number, 2 * round_number + 1

        def work(
            report: Callable[[int], object], kept=kept, lost=lost, left=share_of_values
        ) -> None:  # type: ignore[no-untyped-def]
            rows = FeatureRows(place, DIM)
            rows.append(*batch_of(kept))
            report(kept)

            def write_part(file, position, data):  # type: ignore[no-untyped-def]
                nonlocal left
                if left < 1:
                    write(
                        file, position, data.view(np.uint8).reshape(-1)[: int(left * data.nbytes)]
                    )
                    os.kill(os.getpid(), signal.SIGKILL)
                write(file, position, data)
                left -= 1

            rows_module._write = write_part
            rows.append(*batch_of(lost))
            report(lost)

        assert Victim(work).end() == [kept]
        assert count_right(place, list(range(0, kept + 1, 2))) == 256 * (round_number + 1)
        n_whole = int(max(share_of_values - 1, 0) * 256)
        assert count_right(place, [lost]) == n_whole


@pytest.mark.slow
def test_kill_inside_an_append_loses_nothing_that_it_returned_for(tmp_path: Path) -> None:
    run_apart(append_until_killed, tmp_path)


def test_kill_in_the_middle_of_a_write_keeps_whole_rows_only(tmp_path: Path) -> None:
    run_apart(append_and_die_half_way, tmp_path)


def append_three_at_once(place: Path) -> None:
    """Two of them add what the third adds too; one is killed."""

    def writer(numbers: range) -> Callable[[Callable[[int], object]], None]:
        def work(report: Callable[[int], object]) -> None:
            rows = FeatureRows(place, DIM)
            for number in numbers:
                rows.append(*batch_of(number))
                report(number)

        return work

    victims = [Victim(writer(numbers)) for numbers in (range(40), range(20, 60), range(60, 9999))]
    kept = victims[2].kill(20, 0.01)
    for victim in victims[:2]:
        kept += victim.end()
    assert set(kept) >= set(range(80))
    assert count_right(place, sorted(set(kept))) == 256 * len(set(kept))
    assert len(list(place.glob("*.keys"))) <= 3


@pytest.mark.slow
def test_three_write_to_one_cache_at_once_and_one_is_killed(tmp_path: Path) -> None:
    run_apart(append_three_at_once, tmp_path)


def append_to_files_of_every_size(place: Path) -> None:
    """A file may not grow beyond a limit at any byte of the second batch; then it may."""
    import resource

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    highest = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    keys = [bytes([number]) * 16 for number in range(1, 8)]
    for dim in (2, 9):  # where the keys are longer, and where the values are
        values = np.arange(7 * dim, dtype=np.float32).reshape(7, dim)
        size = max(24, 4 * dim)
        for limit in range(3 * size, 6 * size):
            rows = FeatureRows(place, dim)
            rows.append(keys[:3], values[:3])
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, highest))
            try:
                rows.append(keys[3:6], values[3:6])
                raise AssertionError("it should not have been written")
            except DataError as error:
                assert "cannot be written: File too large. Free some space" in str(error)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (highest, highest))
            assert rows.missing(keys).tolist() == [False] * 3 + [True] * 4
            assert FeatureRows(place, dim).missing(keys).tolist() == [False] * 3 + [True] * 4
            rows.append(keys[5:], values[5:])
            rows.close()
            assert np.array_equal(FeatureRows(place, dim).gather(keys[5:]), values[5:])
            assert np.array_equal(FeatureRows(place, dim).gather(keys[:3]), values[:3])
            shutil.rmtree(place)


def test_a_write_that_stops_at_any_byte_is_taken_back(tmp_path: Path) -> None:
    run_apart(append_to_files_of_every_size, tmp_path / "rows")


# --- the whole of embedding


class Slow:
    """The mean colour, many times over; takes its time and counts."""

    name = "test/slow"
    dim = 400
    fingerprint = "slow-1"

    def __init__(self, pause_s: float = 0.0) -> None:
        self.pause_s, self.n_images = pause_s, 0

    def transform(self, image):  # type: ignore[no-untyped-def]
        return np.asarray(image.resize((4, 4)), np.float32)

    def embed_images(self, batch):  # type: ignore[no-untyped-def]
        time.sleep(self.pause_s)
        self.n_images += len(batch)
        return Features(np.repeat(batch.mean(axis=(1, 2)), 200, axis=1)[:, : self.dim])


class Reporting(Silent):
    """What a person sees as done is done for good."""

    def __init__(self, report: Callable[[int], object]) -> None:
        self.report = report

    def advance(self, n: int = 1) -> None:
        if n:
            self.report(n)


def write_photos(place: Path) -> list[ImageRef]:
    paths = [place / "photos" / f"{number:03d}.png" for number in range(N_PHOTOS)]
    for number, path in enumerate(paths):
        write_image(path, number)
    return [ImageRef(path.name) for path in paths]


def embed_photos(
    place: Path, items: list[ImageRef], model: Slow, report: Callable[[int], object] | None = None
) -> np.ndarray:
    options = EmbedOptions(place / "cache", batch_size=BATCH)
    progress = Reporting(report) if report else None
    return embed(model, place / "photos", items, options, progress).features  # type: ignore[arg-type]


def n_rows(place: Path) -> int:
    return sum(path.stat().st_size // 24 for path in (place / "cache").rglob("rows-*.keys"))


def embed_until_killed(place: Path) -> None:
    items = write_photos(place)
    expected = embed_photos(place / "fresh", write_photos(place / "fresh"), Slow())
    rng = np.random.default_rng(3)
    n_before = 0
    for _ in range(6):
        victim = Victim(lambda report: embed_photos(place, items, Slow(0.015), report))
        done = sum(victim.kill(n_before + int(rng.integers(1, 3)), rng.uniform(0, 0.03)))
        n_now = n_rows(place)
        assert done <= n_now, "shown as done, and lost"
        assert n_now <= done + BATCH, "kept, and not shown"
        n_before = n_now
    assert 0 < n_before < N_PHOTOS, "the kills came too late to show anything"
    model = Slow()
    assert np.array_equal(embed_photos(place, items, model), expected)
    assert model.n_images == N_PHOTOS - n_before


@pytest.mark.slow
def test_kill_while_embedding_loses_at_most_the_batch_in_flight(tmp_path: Path) -> None:
    run_apart(embed_until_killed, tmp_path)


def embed_twice_at_once(place: Path) -> None:
    items = write_photos(place)
    expected = embed_photos(place / "fresh", write_photos(place / "fresh"), Slow())

    def work(report: Callable[[int], object]) -> None:
        made = embed_photos(place, items, Slow(0.005))
        report(int(np.array_equal(made, expected)))

    both = [Victim(work), Victim(work)]
    assert [victim.end() for victim in both] == [[1], [1]]
    model = Slow()
    assert np.array_equal(embed_photos(place, items, model), expected)
    assert model.n_images == 0


def test_two_embed_the_same_photos_at_once(tmp_path: Path) -> None:
    run_apart(embed_twice_at_once, tmp_path)


def embed_on_full_disks(place: Path) -> None:
    """Disks of one page more each time, until all fits; then each of them grows."""
    items = write_photos(place)
    expected = embed_photos(place / "fresh", write_photos(place / "fresh"), Slow())
    disk, endings = place / "cache", []
    disk.mkdir()
    for n_pages in range(2, 120, 9):
        _mount(disk, f"size={4 * n_pages}k")
        try:
            embed_photos(place, items, Slow())
            endings.append("")
        except DataError as error:
            endings.append(str(error))
        n_kept = n_rows(place)
        _mount(disk, "remount,size=4m")
        model = Slow()
        assert np.array_equal(embed_photos(place, items, model), expected)
        assert model.n_images == N_PHOTOS - n_kept
        names = {path.name for path in (disk / "features" / Slow.fingerprint).iterdir()}
        assert names == {"model.json", "rows-000.keys", "rows-000.values"}
        subprocess.run(["umount", str(disk)], check=True)
        if not endings[-1]:
            break
    assert not endings[-1] and len(endings) > 6, endings
    for ending in endings[:-1]:
        assert "No space left on device" in ending and "\n" not in ending, endings
        assert "--cache" in ending, endings
    assert sum("the features so far are kept" in ending for ending in endings) > 3, endings


def _mount(disk: Path, options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(disk)], check=True)


@pytest.mark.slow
def test_full_disk_is_one_clear_line_and_the_next_run_goes_on(tmp_path: Path) -> None:
    own_mounts = ("unshare", "--map-root-user", "--mount")
    tried = f"mount -t tmpfs -o size=4k tmpfs {tmp_path}"
    if not shutil.which("unshare") or subprocess.run([*own_mounts, *tried.split()]).returncode:
        pytest.skip("no tmpfs can be mounted here")
    run_apart(embed_on_full_disks, tmp_path, own_mounts)
