"""Rows on disk against a plain dict: nothing lost, nothing wrong, whatever is cut or damaged."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import sys
import threading
import tracemalloc
import zlib
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from fieldmark.embed import rows as rows_module
from fieldmark.embed.rows import FeatureRows
from fieldmark.errors import DataError

DIM = 3


def vector_of(key: bytes, dim: int = DIM) -> np.ndarray:
    """What belongs to a key: a row that was mixed up shows."""
    seed = zlib.crc32(key)
    return (np.arange(dim) + seed % 1000003).astype(np.float32)


def vectors_of(keys: list[bytes], dim: int = DIM) -> np.ndarray:
    return np.stack([vector_of(key, dim) for key in keys])


def make_keys(n: int, seed: int = 0) -> list[bytes]:
    data = np.random.default_rng(seed).bytes(16 * n)
    return [data[at : at + 16] for at in range(0, 16 * n, 16)]


def write(folder: Path, keys: list[bytes], dim: int = DIM) -> None:
    rows = FeatureRows(folder, dim)
    rows.append(keys, vectors_of(keys, dim))
    rows.close()


def kept(folder: Path, keys: list[bytes], dim: int = DIM) -> list[bytes]:
    """The keys that are there; their rows are right."""
    rows = FeatureRows(folder, dim)
    there = [key for key, is_gone in zip(keys, rows.missing(keys), strict=True) if not is_gone]
    if there:
        assert np.array_equal(rows.gather(there), vectors_of(there, dim))
    assert (~rows.missing(keys)).tolist() == [key in set(there) for key in keys]
    return there


AWKWARD = [
    bytes(16),
    bytes(15) + b"\1",
    b"\1" + bytes(15),
    b"\1" * 8 + bytes(8),
    b"\xff" * 16,
    b"\x7f" + b"\xff" * 15,
    b"\x80" + bytes(15),
]
"""keys with zeros at the ends, and around the sign bit"""


@pytest.mark.parametrize("seed", range(8))
def test_like_a_dict_through_appends_and_reopening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(rows_module, "FOLD_AT", 20)
    monkeypatch.setattr(rows_module, "READ_BYTES", 300)
    monkeypatch.setattr(rows_module, "SKIP_BYTES", 40)
    rng = np.random.default_rng(seed)
    pool = make_keys(200, seed) + AWKWARD
    expected: dict[bytes, np.ndarray] = {}
    rows = FeatureRows(tmp_path, DIM)
    for step in range(60):
        some = [pool[index] for index in rng.integers(0, len(pool), rng.integers(1, 12))]
        if step % 3 == 0:
            values = rng.normal(size=(len(some), DIM)).astype(np.float32)
            rows.append(some, values)
            expected.update(zip(some, values, strict=True))
        if step % 7 == 0:
            rows.close()
            rows = FeatureRows(tmp_path, DIM)
        assert rows.missing(some).tolist() == [key not in expected for key in some]
        assert (~rows.missing(some)).tolist() == [key in expected for key in some]
        there = [key for key in some if key in expected]
        assert np.array_equal(
            rows.gather(there), np.array([expected[key] for key in there]).reshape(-1, DIM)
        )
    everything = [pool[index] for index in rng.permutation(len(pool)).tolist()]
    assert rows.missing(everything).tolist() == [key not in expected for key in everything]
    with pytest.raises(DataError, match="cached features have disappeared"):
        rows.gather(everything)


@pytest.mark.parametrize("dim", [1, 64, 768, 200_000])
def test_rows_of_any_length_come_back_in_any_order(tmp_path: Path, dim: int) -> None:
    keys = make_keys(60 if dim > 1000 else 3000)
    for start in range(0, len(keys), 700):
        write(tmp_path, keys[start : start + 700], dim)
    rng = np.random.default_rng(1)
    sparse = [keys[index] for index in rng.permutation(len(keys))[: len(keys) // 5]]
    rows = FeatureRows(tmp_path, dim)
    for asked in (keys, keys[::-1], sparse, sparse + sparse, keys[:1], []):
        expected = vectors_of(asked, dim) if asked else np.empty((0, dim), np.float32)
        assert np.array_equal(rows.gather(asked), expected)


def test_files_are_as_they_always_were(tmp_path: Path) -> None:
    """The format by hand, both ways: old caches stay valid."""
    keys = make_keys(5)
    values = [struct.pack(f"<{DIM}f", *vector_of(key)) for key in keys]
    heads = [
        key + struct.pack("<II", zlib.crc32(key + value), 0)
        for key, value in zip(keys, values, strict=True)
    ]
    tmp_path.joinpath("old").mkdir()
    (tmp_path / "old" / "rows-000.keys").write_bytes(b"".join(heads))
    (tmp_path / "old" / "rows-000.values").write_bytes(b"".join(values))
    assert kept(tmp_path / "old", keys) == keys
    write(tmp_path / "new", keys[:2])
    write(tmp_path / "new", keys[2:])
    for name in ("rows-000.keys", "rows-000.values"):
        assert (tmp_path / "new" / name).read_bytes() == (tmp_path / "old" / name).read_bytes()


@pytest.mark.parametrize("name", ["rows-000.values", "rows-001.values"])
def test_damage_in_any_pair_is_computed_once(tmp_path: Path, name: str) -> None:
    """Defect: a row damaged in the second pair and written again to the first was never seen."""
    keys = make_keys(6)
    first, second = FeatureRows(tmp_path, DIM), FeatureRows(tmp_path, DIM)
    first.append(keys[:3], vectors_of(keys[:3]))
    second.append(keys[3:], vectors_of(keys[3:]))
    first.close()
    second.close()
    data = bytearray((tmp_path / name).read_bytes())
    data[5] ^= 1
    (tmp_path / name).write_bytes(data)
    rows = FeatureRows(tmp_path, DIM)
    (index,) = np.flatnonzero(rows.missing(keys))
    assert rows.n_damaged == 1
    rows.append([keys[index]], vectors_of([keys[index]]))
    assert np.array_equal(rows.gather(keys), vectors_of(keys))
    rows.close()
    assert kept(tmp_path, keys) == keys


@pytest.mark.slow
def test_power_cut_at_every_byte_loses_tails_and_gives_no_wrong_row(tmp_path: Path) -> None:
    """Both files cut off anywhere in the last two rows; then the missing ones are added."""
    keys = make_keys(4)
    write(tmp_path / "whole", keys)
    heads, values = (
        (tmp_path / "whole" / f"rows-000.{part}").read_bytes() for part in ("keys", "values")
    )
    for cut_heads, cut_values in product(range(2 * 24 + 1), range(2 * DIM * 4 + 1)):
        folder = tmp_path / "cut"
        folder.mkdir()
        (folder / "rows-000.keys").write_bytes(heads[: len(heads) - cut_heads])
        (folder / "rows-000.values").write_bytes(values[: len(values) - cut_values])
        n_lost = max(-(-cut_heads // 24), -(-cut_values // (DIM * 4)))
        assert kept(folder, keys) == keys[: 4 - n_lost]
        if n_lost:
            write(folder, keys[4 - n_lost :])
        assert kept(folder, keys) == keys
        shutil.rmtree(folder)


@pytest.mark.parametrize("part", ["keys", "values"])
def test_power_cut_that_leaves_zeros_gives_no_wrong_row(tmp_path: Path, part: str) -> None:
    """A file may keep its length and lose its last pages."""
    keys = [key for key in make_keys(4) if key[-1]]
    write(tmp_path, keys)
    path = tmp_path / f"rows-000.{part}"
    data, size = path.read_bytes(), 24 if part == "keys" else DIM * 4
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes(len(data) - at))
        there = kept(tmp_path, keys)
        assert set(keys[: at // size]) <= set(there)
        assert FeatureRows(tmp_path, DIM).missing([bytes(16)]).all()


def test_a_file_cut_short_or_gone_while_it_is_open_is_missing_rows_not_a_crash(
    tmp_path: Path,
) -> None:
    keys = make_keys(5000)
    write(tmp_path, keys, 16)
    rows = FeatureRows(tmp_path, 16)
    with (tmp_path / "rows-000.values").open("r+b") as file:
        file.truncate(4000 * 64 + 7)
    assert rows.missing(keys).tolist() == [False] * 4000 + [True] * 1000
    (tmp_path / "rows-000.values").unlink()
    with pytest.raises(DataError, match="cached features have disappeared"):
        rows.gather(keys[:4000])


def test_threads_ask_while_one_appends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What append returned for is there at once, for all threads, and right; nothing else is."""
    monkeypatch.setattr(rows_module, "FOLD_AT", 64)
    keys, absent = make_keys(3000), make_keys(50, seed=9)
    rows = FeatureRows(tmp_path, DIM)
    done, wrong, is_over = [0], [], threading.Event()

    def ask(seed: int) -> None:
        rng = np.random.default_rng(seed)
        while not is_over.is_set():
            n = done[0]
            some = [keys[index] for index in rng.integers(0, max(n, 1), min(n, 20))]
            if rows.missing(some + absent).tolist() != [False] * len(some) + [True] * 50:
                wrong.append("missing")
            if some and not (
                not rows.missing(some).any() and np.array_equal(rows.gather(some), vectors_of(some))
            ):
                wrong.append("gather")

    askers = [threading.Thread(target=ask, args=[seed]) for seed in range(3)]
    for asker in askers:
        asker.start()
    for start in range(0, len(keys), 7):
        batch = keys[start : start + 7]
        rows.append(batch, vectors_of(batch))
        done[0] = start + len(batch)
    is_over.set()
    for asker in askers:
        asker.join()
    rows.close()
    assert not wrong
    assert kept(tmp_path, keys) == keys


def test_several_threads_append_without_mixing_rows(tmp_path: Path) -> None:
    keys = make_keys(2000)
    rows = FeatureRows(tmp_path, DIM)

    def add(part: list[bytes]) -> None:
        for start in range(0, len(part), 5):
            rows.append(part[start : start + 5], vectors_of(part[start : start + 5]))

    adders = [threading.Thread(target=add, args=[keys[number::4]]) for number in range(4)]
    for adder in adders:
        adder.start()
    for adder in adders:
        adder.join()
    assert np.array_equal(rows.gather(keys), vectors_of(keys))
    rows.close()
    assert kept(tmp_path, keys) == keys


@pytest.mark.slow
def test_a_row_costs_less_than_forty_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Defect: a dict of keys took 250 bytes a row, a set of the new ones 90."""
    monkeypatch.setattr(rows_module, "FOLD_AT", 1000)
    n = 100_000
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    writer = FeatureRows(tmp_path, 1)
    for start in range(0, n, 1000):
        keys = make_keys(1000, seed=start)
        writer.append(keys, np.ones((1000, 1), np.float32))
        del keys
    written = tracemalloc.get_traced_memory()[0] - before
    writer.close()
    del writer
    before = tracemalloc.get_traced_memory()[0]
    reader = FeatureRows(tmp_path, 1)
    opened = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert not reader.missing(make_keys(1000, seed=0)).any()
    assert opened < 40 * n
    assert written < 40 * n


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_does_not_follow_the_number_of_images() -> None:
    """The benchmark with a million images, in small: ten times as many, in chunks of one size."""
    script = Path(__file__).parents[2] / "benchmarks" / "embed_memory.py"
    done = subprocess.run(
        [sys.executable, str(script), "--images", "20000", "--chunk", "2000"],
        capture_output=True,
        text=True,
    )
    growth = re.search(r"embed_memory: (\d+) MB more from 2,000 to 20,000 images", done.stdout)
    assert growth, done.stderr
    assert int(growth[1]) < 15, done.stdout


def test_rows_of_others_are_seen_after_a_refresh_and_only_new_ones_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = make_keys(40)
    mine, theirs = FeatureRows(tmp_path, DIM), FeatureRows(tmp_path, DIM)
    mine.append(keys[:10], vectors_of(keys[:10]))
    theirs.append(keys[10:20], vectors_of(keys[10:20]))
    assert mine.missing(keys[:20]).tolist() == [False] * 10 + [True] * 10
    read: list[int] = []
    add = rows_module._RowIndex.add_many
    monkeypatch.setattr(
        rows_module._RowIndex,
        "add_many",
        lambda self, new, *rest: (read.append(len(new)), add(self, new, *rest)),
    )
    mine.refresh()
    theirs.append(keys[20:25], vectors_of(keys[20:25]))
    mine.append(keys[25:30], vectors_of(keys[25:30]))
    mine.refresh()
    mine.refresh()
    assert read == [10, 5]
    assert np.array_equal(mine.gather(keys[:30]), vectors_of(keys[:30]))
    theirs.close()
    third = FeatureRows(tmp_path, DIM)
    third.append(keys[30:], vectors_of(keys[30:]))
    mine.refresh()
    assert np.array_equal(mine.gather(keys), vectors_of(keys))


def test_rows_that_are_gone_or_cut_short_are_missing_after_a_refresh(tmp_path: Path) -> None:
    keys = make_keys(20)
    mine, theirs = FeatureRows(tmp_path, DIM), FeatureRows(tmp_path, DIM)
    mine.append(keys[:10], vectors_of(keys[:10]))
    theirs.append(keys[10:], vectors_of(keys[10:]))
    mine.refresh()
    assert not mine.missing(keys).any()
    os.truncate(tmp_path / "rows-001.values", 4 * DIM * 5)
    mine.refresh()
    assert mine.missing(keys).tolist() == [False] * 15 + [True] * 5
    for path in tmp_path.glob("rows-001.*"):
        path.unlink()
    mine.refresh()
    assert mine.missing(keys).tolist() == [False] * 10 + [True] * 10
    theirs.close()
    anew = FeatureRows(tmp_path, DIM)
    anew.append(keys[10:12], vectors_of(keys[10:12]))
    mine.refresh()
    assert mine.missing(keys).tolist() == [False] * 12 + [True] * 8


def test_no_file_is_appended_to_from_two_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There, locks need not be seen by the others."""
    keys, names = make_keys(6), iter(["node/1", "node/1", "node 2"])
    monkeypatch.setattr(rows_module, "_host_name", rows_module._host_name.__wrapped__)
    monkeypatch.setattr(rows_module, "host", lambda: next(names))
    rows = [FeatureRows(tmp_path, DIM, is_shared=True) for _ in range(3)]
    for number, own in enumerate(rows):
        own.append(keys[2 * number : 2 * number + 2], vectors_of(keys[2 * number :][:2]))
        own.sync()
    written = sorted(path.name for path in tmp_path.glob("*.keys"))
    assert written == ["rows-node-1-000.keys", "rows-node-1-001.keys", "rows-node-2-000.keys"]
    for own in rows:
        own.refresh()
        assert np.array_equal(own.gather(keys), vectors_of(keys))
    assert len(list(tmp_path.iterdir())) == 6
