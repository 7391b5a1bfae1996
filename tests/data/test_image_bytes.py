"""Do paths, tar members and parquet rows give the right bytes to many threads, none left open?"""

import gzip
import io
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fieldmark.data import _bytes
from fieldmark.data._bytes import LruCache, archive_order, read_bytes, split_reference
from fieldmark.errors import DataError

N_FILES = 40


def contents(size: int = 3000) -> dict[str, bytes]:
    generator = np.random.default_rng(3)
    return {f"photos/{n:03}.jpg": generator.bytes(size + n) for n in range(N_FILES)}


def write_tar(path: Path, files: dict[str, bytes], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def message(root: Path, image: str) -> str:
    with pytest.raises(DataError) as caught:
        read_bytes(root, image)
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(str(root), "ROOT")


def n_open_files() -> int:
    handles = Path("/proc/self/fd")
    return len(list(handles.iterdir())) if handles.exists() else 0


def read_all_ways(root: Path, images: list[str], expected: list[bytes]) -> None:
    """Forwards, backwards and shuffled, under eight threads."""
    orders = [
        range(len(images)),
        range(len(images) - 1, -1, -1),
        [7 * n % N_FILES for n in range(N_FILES)],
    ]
    before = n_open_files()
    with ThreadPoolExecutor(8) as pool:
        for order in orders:
            got = list(pool.map(lambda n: read_bytes(root, images[n]), order))
            assert got == [expected[n] for n in order]
    assert n_open_files() <= before + images[0].lower().startswith(("a.tar.gz", "a.tgz"))


def test_plain_paths(tmp_path: Path):
    (tmp_path / "photos").mkdir()
    for name, data in contents().items():
        (tmp_path / name).write_bytes(data)
    read_all_ways(tmp_path, list(contents()), list(contents().values()))


def test_paths_start_beside_a_table_file(tmp_path: Path):
    (tmp_path / "table.csv").write_text("image,label\n")
    (tmp_path / "a.jpg").write_bytes(b"a")
    assert read_bytes(tmp_path / "table.csv", "a.jpg") == b"a"


@pytest.mark.parametrize("name, mode", [("a.tar", "w"), ("a.tar.gz", "w:gz"), ("A.TGZ", "w:gz")])
def test_tar_members_under_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, mode: str
):
    monkeypatch.setattr(_bytes, "BLOCK", 5000)  # members cross the borders of blocks
    monkeypatch.setattr(_bytes, "WINDOW", 9000)  # and who goes back must start again
    write_tar(tmp_path / name, contents(), mode)
    read_all_ways(
        tmp_path, [f"{name}::{content}" for content in contents()], list(contents().values())
    )


def test_members_written_with_a_leading_dot(tmp_path: Path):
    write_tar(tmp_path / "a.tar", {"./x/1.jpg": b"one"})
    assert (
        read_bytes(tmp_path, "a.tar::x/1.jpg") == read_bytes(tmp_path, "a.tar::./x/1.jpg") == b"one"
    )


def test_members_are_told_apart_by_their_whole_names(tmp_path: Path):
    """Prefixes of each other, other scripts, written twice (the last one counts)."""
    names = [
        "a",
        "a/b",
        "a/b.jpg",
        "a/b.jpg.jpg",
        "ab",
        "ä/é.jpg",
        "z" * 300,
        "日本.jpg",
        "a/b.jpg",
    ]
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        for number, name in enumerate(names):
            info = tarfile.TarInfo(name)
            info.size = number + 1
            archive.addfile(info, io.BytesIO(bytes([number]) * info.size))
    for number, name in list(enumerate(names))[3:]:
        assert read_bytes(tmp_path, f"x.tar::{name}") == bytes([number]) * (number + 1)
    for name in ("b", "a/", "a/b.jp", "a/b.jpgx", "zz", "é.jpg", "\udcff"):
        with pytest.raises(DataError):
            read_bytes(tmp_path, f"x.tar::{name}")


def test_a_forgotten_archive_is_indexed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_bytes, "BLOCK", 5000)
    write_tar(tmp_path / "a.tar.gz", contents(), "w:gz")
    for _ in range(3):
        monkeypatch.setattr(_bytes, "_ARCHIVES", LruCache(most=1))
        for name, data in contents().items():
            assert read_bytes(tmp_path, f"a.tar.gz::{name}") == data


def test_packed_tar_is_unpacked_once_by_readers_that_go_forwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    files = {f"{number:03d}": bytes([number]) * 4000 for number in range(40)}
    write_tar(tmp_path / "a.tgz", files, "w:gz")
    archive_order(tmp_path, ["a.tgz::000"])  # lists its members
    n_opened, gzip_open = 0, gzip.open

    def opened(*args):
        nonlocal n_opened
        n_opened += 1
        return gzip_open(*args)

    monkeypatch.setattr(_bytes.gzip, "open", opened)
    monkeypatch.setattr(_bytes, "BLOCK", 1000)
    monkeypatch.setattr(_bytes, "WINDOW", 30_000)
    order = sorted(files, key=lambda name: int(name) ^ 3)  # as threads ask: nearly in order
    for name in order:
        assert read_bytes(tmp_path, f"a.tgz::{name}") == files[name]
    assert n_opened == 1
    assert read_bytes(tmp_path, "a.tgz::000") == files["000"] and n_opened == 2


def test_gzip_of_several_parts_with_padding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_bytes, "BLOCK", 700)
    plain = write_tar(tmp_path / "a.tar", {"x": b"x" * 3000, "y": b"y" * 100_000}).read_bytes()
    parts = [gzip.compress(plain[start : start + 4000]) for start in range(0, len(plain), 4000)]
    (tmp_path / "a.tar.gz").write_bytes(b"".join(parts) + b"\0" * 512)
    assert read_bytes(tmp_path, "a.tar.gz::y") == b"y" * 100_000
    assert read_bytes(tmp_path, "a.tar.gz::x") == b"x" * 3000


@pytest.mark.parametrize("rows_a_group", [None, 7])
@pytest.mark.parametrize("is_pair", [True, False])
def test_parquet_rows_under_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_a_group: int | None, is_pair: bool
):
    monkeypatch.setattr(_bytes, "PARQUET_BLOCK_BYTES", 20_000)
    names, data = list(contents()), list(contents().values())
    cells = [{"bytes": b, "path": n} for b, n in zip(data, names, strict=True)] if is_pair else data
    frame = pl.DataFrame({"image": cells, "label": names})
    frame.write_parquet(tmp_path / "t[1].parquet", row_group_size=rows_a_group)
    read_all_ways(tmp_path, [f"t[1].parquet::{n}" for n in range(N_FILES)], data)


def test_parquet_other_column(tmp_path: Path):
    pl.DataFrame({"photo": [b"a", b"b"], "n": [1, 2]}).write_parquet(tmp_path / "t.parquet")
    assert read_bytes(tmp_path, "t.parquet::1::photo") == b"b"
    assert message(tmp_path, "t.parquet::1") == (
        "ROOT/t.parquet  has no image column 'image': columns that hold images: 'photo'."
    )


def test_parquet_reading_in_order_is_not_quadratic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    reads: list[int] = []
    read_block = _bytes._read_block

    def counted(path: Path, column: str, facts: object, index: int) -> pl.Series:
        reads.append(index)
        return read_block(path, column, facts, index)  # type: ignore[arg-type]

    monkeypatch.setattr(_bytes, "_read_block", counted)
    monkeypatch.setattr(_bytes, "PARQUET_BLOCK_BYTES", 60_000)
    frame = pl.DataFrame({"image": [np.random.default_rng(n).bytes(2000) for n in range(300)]})
    frame.write_parquet(tmp_path / "t.parquet")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: read_bytes(tmp_path, f"t.parquet::{n}"), range(300)))
    assert sorted(reads) == list(range(len(reads))) and 5 <= len(reads) <= 12


def test_a_changed_archive_is_read_anew(tmp_path: Path):
    write_tar(tmp_path / "a.tar", {"x": b"old"})
    assert read_bytes(tmp_path, "a.tar::x") == b"old"
    time.sleep(0.01)
    write_tar(tmp_path / "a.tar", {"first": b"..", "x": b"new"})
    assert read_bytes(tmp_path, "a.tar::x") == b"new"


@pytest.mark.parametrize(
    "image", ["../x.jpg", "/etc/hostname", "a/../../x.jpg", "C:\\x.jpg", "", "../a.tar::x"]
)
def test_paths_may_not_leave_the_root(tmp_path: Path, image: str):
    assert message(tmp_path, image) == (
        f"ROOT  image {image.split('::')[0]!r} is outside the dataset's folder: give a path "
        f"inside it."
    )


def test_missing_and_unreadable_files_are_named(tmp_path: Path):
    (tmp_path / "folder.jpg").mkdir()
    (tmp_path / "text.tar").write_bytes(b"no tar at all" * 100)
    (tmp_path / "text.tar.gz").write_bytes(b"no gzip at all")
    (tmp_path / "text.parquet").write_bytes(b"no parquet at all")
    assert message(tmp_path, "a.jpg") == "ROOT/a.jpg  is missing."
    assert message(tmp_path, "a.tar::x") == "ROOT/a.tar  is missing."
    assert message(tmp_path, "a.parquet::0") == "ROOT/a.parquet  is missing."
    assert message(tmp_path, "folder.jpg") == "ROOT/folder.jpg  is a folder, not an image file."
    assert message(tmp_path, "a\0.jpg") == "ROOT/a\0.jpg  cannot be read: embedded null byte."
    assert message(tmp_path, "text.tar::x").startswith(
        "ROOT/text.tar  is not a tar file that can be"
    )
    assert message(tmp_path, "text.tar.gz::x") == (
        "ROOT/text.tar.gz  is not a tar file that can be read: Not a gzipped file (b'no')."
    )
    assert message(tmp_path, "text.parquet::0").startswith(
        "ROOT/text.parquet  is not a parquet file"
    )


def test_what_an_archive_lacks_is_named(tmp_path: Path):
    write_tar(tmp_path / "a.tar", {"photos/001.jpg": b"1"})
    pl.DataFrame({"image": [b"1", None]}).write_parquet(tmp_path / "t.parquet")
    assert message(tmp_path, "a.tar::photos/01.jpg") == (
        "ROOT/a.tar  has no member 'photos/01.jpg'. Did you mean 'photos/001.jpg'?"
    )
    assert (
        message(tmp_path, "t.parquet::2") == "ROOT/t.parquet  has no row '2': its rows are 0 to 1."
    )
    assert message(tmp_path, "t.parquet::-1").startswith("ROOT/t.parquet  has no row '-1'")
    assert (
        message(tmp_path, "t.parquet::1")
        == "ROOT/t.parquet  row 1 contains no image in column 'image'."
    )


def test_cut_off_archives_give_what_they_hold(tmp_path: Path):
    whole = write_tar(tmp_path / "a.tar", contents()).read_bytes()
    (tmp_path / "a.tar").write_bytes(whole[:20_000])
    first, *_, last = contents()
    assert read_bytes(tmp_path, f"a.tar::{first}") == contents()[first]
    assert message(tmp_path, f"a.tar::{last}").endswith("The archive is cut off: fetch it again.")
    packed = gzip.compress(whole)
    (tmp_path / "b.tar.gz").write_bytes(packed[: len(packed) // 2])
    assert message(tmp_path, f"b.tar.gz::{last}") == (
        "ROOT/b.tar.gz  is damaged: Compressed file ended before the end-of-stream marker was "
        "reached. Fetch it again."
    )


def test_two_colons_in_an_ordinary_name(tmp_path: Path):
    (tmp_path / "a::b.jpg").write_bytes(b"1")
    assert read_bytes(tmp_path, "a::b.jpg") == b"1"
    assert split_reference("x/a.tar::b::c") == ("x/a.tar", "b::c")


def test_shelf_keeps_the_last_and_makes_each_once():
    made: list[int] = []

    def make(n: int) -> int:
        time.sleep(0.002)
        made.append(n)
        return n

    shelf: LruCache[int] = LruCache(most=3)
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: shelf.get("a", lambda: make(1)), range(50))) == {1}
    assert made == [1]
    for n in range(10):
        shelf.get(n, lambda n=n: make(n))
    assert len(shelf) == 3

    def fail() -> int:
        raise DataError("no")

    with pytest.raises(DataError):
        shelf.get("b", fail)
    assert shelf.get("b", lambda: 5) == 5
