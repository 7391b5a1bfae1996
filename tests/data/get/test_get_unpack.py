"""Archives are unpacked whole and inside their folder, or not at all."""

from __future__ import annotations

import gzip
import io
import os
import re
import resource
import stat
import struct
import tarfile
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fieldmark.data.get import unpack as unpack_module
from fieldmark.data.get.state import FolderState
from fieldmark.data.get.unpack import Archive, is_unpacked, unpack, unpacked_faults
from fieldmark.errors import DataError

FILES = {"photos/a/1.jpg": b"one" * 999, "photos/a/2.jpg": b"", "photos/b/3.jpg": b"x" * 600_000}


def nothing(n: int) -> None:
    pass


def pack(path: Path, files: dict[str, bytes] = FILES) -> Path:
    """An archive of the kind its name says."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
            for name, data in files.items():
                zipped.writestr(name, data)
        return path
    kind = {".gz": "w:gz", ".tgz": "w:gz", ".bz2": "w:bz2", ".xz": "w:xz"}.get(path.suffix, "w")
    with tarfile.open(path, kind) as tar:  # type: ignore[call-overload]
        for name, data in files.items():
            add(tar, name, data)
    return path


def add(tar: tarfile.TarFile, name: str, data: bytes = b"", **facts: Any) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in facts.items():
        setattr(info, key, value)
    tar.addfile(info, io.BytesIO(data))


def bundle(root: Path, *paths: Path, **facts: Any) -> Archive:
    name = facts.pop("name", paths[0].name)
    return Archive(name, paths, root / facts.pop("into", "."), "identity", **facts)


def read(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and ".fieldmark" not in path.parts
    }


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    "name", ["a.tar", "a.tar.gz", "a.tgz", "a.tar.bz2", "a.tar.xz", "a.zip", "A.ZIP"]
)
def test_every_kind_is_unpacked(tmp_path: Path, root: Path, name: str) -> None:
    made = pack(tmp_path / name.lower())
    archive = bundle(root, made, name=name)
    state = FolderState(root)
    assert not is_unpacked(archive, state)
    unpack(archive, state, nothing)
    assert read(root) == FILES
    assert is_unpacked(archive, state)
    assert unpacked_faults(archive, state, nothing) == []
    assert not state.scratch(name).exists()


def test_parts_are_read_as_one(tmp_path: Path, root: Path) -> None:
    for name in ("whole.zip", "whole.tar.gz"):
        data = pack(tmp_path / name, FILES | {"photos/n": os.urandom(5000)}).read_bytes()
        parts = []
        for i in range(0, len(data), 700):
            parts.append(tmp_path / f"{name}.{i:06d}")
            parts[-1].write_bytes(data[i : i + 700])
        assert len(parts) > 5
        unpack(bundle(root / name, *parts, name=name), FolderState(root / name), nothing)
        assert FILES.items() <= read(root / name).items()


def test_strip_and_folder(tmp_path: Path, root: Path) -> None:
    made = pack(tmp_path / "a.tar")
    unpack(bundle(root, made, strip=1, into="train"), FolderState(root), nothing)
    assert set(read(root)) == {"train/a/1.jpg", "train/a/2.jpg", "train/b/3.jpg"}


def test_litter_of_desktops_is_left_out(tmp_path: Path, root: Path) -> None:
    made = pack(tmp_path / "a.zip", {"a/1.jpg": b"1", "__MACOSX/a/._1.jpg": b"2", "a/._1.jpg": b"3",
                                     "a/.DS_Store": b"4"})  # fmt: skip
    unpack(bundle(root, made), FolderState(root), nothing)
    assert read(root) == {"a/1.jpg": b"1"}


# --- what must not be unpacked ---


def climbs(tar: tarfile.TarFile) -> None:
    add(tar, "photos/../../outside.txt", b"x")


def absolute(tar: tarfile.TarFile) -> None:
    add(tar, "/tmp/fieldmark-outside.txt", b"x")


def drive(tar: tarfile.TarFile) -> None:
    add(tar, "C:\\outside.txt", b"x")


def link_out(tar: tarfile.TarFile) -> None:
    add(tar, "way", type=tarfile.SYMTYPE, linkname="../..")


def link_absolute(tar: tarfile.TarFile) -> None:
    add(tar, "way", type=tarfile.SYMTYPE, linkname="/etc/passwd")


def link_then_write_through(tar: tarfile.TarFile) -> None:
    add(tar, "way", type=tarfile.SYMTYPE, linkname="..")
    add(tar, "way/outside.txt", b"x")


def link_by_way_of_a_link(tar: tarfile.TarFile) -> None:
    """Each looks harmless by its name: `a/b/c` is the folder itself, so `a/b/c/..` is above it."""
    add(tar, "a/b/c", type=tarfile.SYMTYPE, linkname="../..")
    add(tar, "up", type=tarfile.SYMTYPE, linkname="a/b/c/..")


def link_to_itself(tar: tarfile.TarFile) -> None:
    add(tar, "way", type=tarfile.SYMTYPE, linkname="way")


def twin_out(tar: tarfile.TarFile) -> None:
    add(tar, "way", type=tarfile.LNKTYPE, linkname="../../secret.txt")


def twin_absolute(tar: tarfile.TarFile) -> None:
    add(tar, "way", type=tarfile.LNKTYPE, linkname="/etc/passwd")


def device(tar: tarfile.TarFile) -> None:
    add(tar, "null", type=tarfile.CHRTYPE, devmajor=1, devminor=3)


def pipe(tar: tarfile.TarFile) -> None:
    add(tar, "pipe", type=tarfile.FIFOTYPE)


ESCAPES = (
    climbs, absolute, drive, link_out, link_absolute, link_then_write_through,
    link_by_way_of_a_link, link_to_itself, twin_out, twin_absolute, device, pipe,
)  # fmt: skip


@pytest.mark.parametrize("evil", ESCAPES, ids=lambda evil: evil.__name__)
def test_archive_that_reaches_out_is_refused_whole(
    tmp_path: Path, root: Path, evil: Callable[[tarfile.TarFile], None]
) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as tar:
        add(tar, "photos/1.jpg", b"fine")
        evil(tar)
    before = {one.name for one in tmp_path.iterdir()}
    with pytest.raises(DataError, match=r"a\.tar  contains .*: nothing of it was unpacked\.$"):
        unpack(bundle(root, path), FolderState(root), nothing)
    assert read(root) == {}
    assert {one.name for one in tmp_path.iterdir()} == before
    assert not any(one.is_symlink() for one in root.rglob("*"))


@pytest.mark.parametrize("name", ["../outside.txt", "/tmp/x", "a/../../b", "..\\x/../y"])
def test_zip_that_reaches_out_is_refused(tmp_path: Path, root: Path, name: str) -> None:
    path = pack(tmp_path / "a.zip", {"fine": b"1", name: b"2"})
    with pytest.raises(DataError, match="points outside it"):
        unpack(bundle(root, path), FolderState(root), nothing)
    assert read(root) == {}


def test_link_in_a_zip_is_a_link(tmp_path: Path, root: Path) -> None:
    path = tmp_path / "a.zip"
    for target, is_fine in (("../../secret", False), ("photo.jpg", True)):
        info = zipfile.ZipInfo("way")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        with zipfile.ZipFile(path, "w") as zipped:
            zipped.writestr("photo.jpg", b"photo")
            zipped.writestr(info, target)
        if is_fine:
            unpack(bundle(root, path), FolderState(root), nothing)
            continue
        with pytest.raises(DataError, match="points outside it"):
            unpack(bundle(root, path), FolderState(root), nothing)
    assert (root / "way").is_symlink()
    assert (root / "way").read_bytes() == b"photo"


def test_links_inside_work(tmp_path: Path, root: Path) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as tar:
        add(tar, "a/way", type=tarfile.SYMTYPE, linkname="../b/1.jpg")
        add(tar, "b/1.jpg", b"photo")
        add(tar, "b/twin.jpg", type=tarfile.LNKTYPE, linkname="b/1.jpg")
    unpack(bundle(root, path), FolderState(root), nothing)
    assert (root / "a/way").read_bytes() == (root / "b/twin.jpg").read_bytes() == b"photo"


# --- bombs ---


@pytest.mark.parametrize("name", ["a.tar.gz", "a.zip"])
def test_bomb_of_bytes(
    tmp_path: Path, root: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = pack(tmp_path / name, {f"{i}.bin": bytes(1_000_000) for i in range(4)})
    assert bundle(root, path).most_bytes == 100_000_000
    monkeypatch.setattr(unpack_module, "LEAST_BYTES", 2_000_000)
    with pytest.raises(DataError, match=r"contains more than 2\.0 MB, packed into .* kB: nothing"):
        unpack(bundle(root, path), FolderState(root), nothing)
    assert not any(path.is_file() for path in root.rglob("*") if path.suffix == ".bin")


def test_bomb_is_measured_by_what_the_source_states(tmp_path: Path, root: Path) -> None:
    path = pack(tmp_path / "a.tar.gz", {"a": bytes(5_000_000)})
    with pytest.raises(DataError, match=r"contains more than 2\.1 MB"):
        unpack(bundle(root, path, unpacked_bytes=1_000_000), FolderState(root), nothing)
    unpack(bundle(root, path, unpacked_bytes=5_000_000), FolderState(root), nothing)


def test_bomb_of_files(tmp_path: Path, root: Path) -> None:
    path = pack(tmp_path / "a.tar.gz", {f"d/{i}": b"" for i in range(150)})
    with pytest.raises(DataError, match="contains more than 111 files"):
        unpack(bundle(root, path, n_files=10), FolderState(root), nothing)
    small = bundle(root, path)
    assert small.most_files == 10_000


def long_name(path: Path) -> None:
    with tarfile.open(path, "w:gz", format=tarfile.GNU_FORMAT) as tar:
        add(tar, "n" * 40_000_000)


def zeros_behind(path: Path) -> None:
    plain = pack(path.with_name("plain.tar")).read_bytes()
    path.write_bytes(gzip.compress(plain + bytes(200_000_000), compresslevel=1))


def deep(path: Path) -> None:
    with tarfile.open(path, "w:gz") as tar:
        add(tar, "d/" * 2000 + "x", b"x")


def headers_without_end(path: Path) -> None:
    """Global headers describe no file, so that none is counted."""
    head = tarfile.TarInfo.create_pax_global_header({"comment": "c" * 900_000})
    path.write_bytes(gzip.compress(head * 300, compresslevel=1))


def headers_in_headers(path: Path) -> None:
    info = tarfile.TarInfo("long")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 2
    path.write_bytes(gzip.compress((info.tobuf() + b"x".ljust(512, b"\0")) * 3000))


def negative_size(path: Path) -> None:
    """Python before 3.11.14 reads such a header again and again (CVE-2025-8194)."""
    info = tarfile.TarInfo("x")
    data = bytearray(info.tobuf())
    data[124:136] = b"\xff" * 10 + (0x10000 - 512).to_bytes(2, "big")
    data[148:156] = b" " * 8
    data[148:156] = f"{sum(data):06o}\0 ".encode()
    path.write_bytes(gzip.compress(bytes(data) + bytes(1024)))


TOO_MUCH = {
    long_name: "is damaged (headers of 40,0",
    zeros_behind: "is damaged (more than 10,000,000 bytes behind its end",
    deep: "a name of 4,001 letters and 2,001 parts: nothing of it was unpacked.",
    headers_without_end: "is damaged (headers of 1,",
    headers_in_headers: "is damaged (maximum recursion depth exceeded",
    negative_size: "is damaged ('x' has -",
}


@pytest.mark.parametrize("make", TOO_MUCH, ids=lambda make: make.__name__)
def test_what_fills_the_memory_is_refused(
    tmp_path: Path, root: Path, make: Callable[[Path], None]
) -> None:
    """Third look, S4: a 400 MB name took 1.3 GB, zeros behind the end were read for 20 s."""
    path = tmp_path / "a.tar.gz"
    make(path)
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=re.escape(TOO_MUCH[make])):
            unpack(bundle(root, path), FolderState(root), nothing)
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
    finally:
        tracemalloc.stop()
    assert read(root) == {}


@pytest.mark.parametrize("suffix", ["tar", "zip"])
@pytest.mark.parametrize("name", [".fieldmark/x.json", "a/.FieldMark/lock", "SYNTHETIC.txt"])
def test_names_of_ours_are_refused(tmp_path: Path, root: Path, name: str, suffix: str) -> None:
    path = pack(tmp_path / f"a.{suffix}", {"photo.jpg": b"1", name: b"{}"})
    with pytest.raises(DataError, match=r"contains '.*', a name that is reserved"):
        unpack(bundle(root, path), FolderState(root), nothing)
    assert read(root) == {}


def test_a_name_in_a_zip_that_is_no_text(tmp_path: Path, root: Path) -> None:
    """Found by fuzzing."""
    path = pack(tmp_path / "a.zip", {"é.txt": b"1"})
    path.write_bytes(path.read_bytes().replace("é".encode(), b"\xe9\xe9"))
    with pytest.raises(DataError, match="is damaged"):
        unpack(bundle(root, path), FolderState(root), nothing)


@pytest.mark.parametrize("suffix", ["tar", "zip"])
@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["a", "a/b"], "a file and a folder of one name"),
        (["a/b", "a"], "a file and a folder of one name"),
        (["n" * 256], "a name of 256 letters"),
        (["é" * 128], "a name of 128 letters"),
    ],
)
def test_names_that_no_disk_takes_are_the_archives_fault(
    tmp_path: Path, root: Path, names: list[str], reason: str, suffix: str
) -> None:
    """They read as a disk that cannot be written."""
    path = pack(tmp_path / f"a.{suffix}", dict.fromkeys(names, b"1"))
    with pytest.raises(DataError, match=f"contains .*{reason}"):
        unpack(bundle(root, path), FolderState(root), nothing)
    assert read(root) == {}


def overlapping(data: bytearray, central: int) -> bytearray:
    """A zip bomb: a thousand entries for the same packed bytes (D. Fifield, 2019)."""
    end, n = data.rfind(b"PK\5\6"), 1000
    entry = bytes(data[central:end])
    tail = struct.pack("<HHHHIIH", 0, 0, n, n, n * len(entry), central, 0)
    return data[:central] + entry * n + b"PK\5\6" + tail


def size_lies(data: bytearray, central: int) -> bytearray:
    for place in (central + 24, data.find(b"PK\3\4") + 22):
        data[place : place + 4] = struct.pack("<I", 10)
    return data


def before_the_beginning(data: bytearray, central: int) -> bytearray:
    end = data.rfind(b"PK\5\6")
    data[end + 16 : end + 20] = struct.pack("<I", 0x7FFFFFFF)
    return data


def another_name(data: bytearray, central: int) -> bytearray:
    place = data.find(b"zero.bin")
    data[place : place + 8] = b"../z.bin"
    return data


ZIP_ATTACKS = {
    overlapping: r"contains more than 100\.0 MB|is damaged \(Overlapped entries",
    size_lies: r"is damaged \(Bad CRC-32 for file 'zero.bin'",
    before_the_beginning: r"is damaged \(",
    another_name: r"is damaged \(File name in directory 'zero.bin' and header .* differ",
}


@pytest.mark.parametrize("attack", ZIP_ATTACKS, ids=lambda attack: attack.__name__)
def test_attacks_on_readers_of_zip_files(
    tmp_path: Path, root: Path, attack: Callable[[bytearray, int], bytearray]
) -> None:
    path = pack(tmp_path / "a.zip", {"zero.bin": bytes(2_000_000)})
    data = bytearray(path.read_bytes())
    path.write_bytes(attack(data, data.find(b"PK\1\2")))
    with pytest.raises(DataError, match=ZIP_ATTACKS[attack]):
        unpack(bundle(root, path), FolderState(root), nothing)
    assert read(root) == {}
    assert {one.name for one in tmp_path.iterdir()} == {"a.zip", "root"}


# --- damage ---


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tar.xz", "a.tar.bz2", "a.zip"])
@pytest.mark.parametrize("how", ["cut", "flipped", "text", "empty"])
def test_damaged_archive_is_never_half_unpacked(
    tmp_path: Path, root: Path, name: str, how: str
) -> None:
    files = {f"d/{i}": os.urandom(3000) for i in range(20)}
    path = pack(tmp_path / name, files)
    data = bytearray(path.read_bytes())
    if how == "cut":
        data = data[: len(data) // 2]
    elif how == "flipped":
        # In a plain tar file only headers have checksums.
        at = 512 * 70 + 3 if name == "a.tar" else len(data) // 2
        data[at] ^= 255
    path.write_bytes({"text": b"<html>no</html>" * 100, "empty": b""}.get(how, bytes(data)))
    with pytest.raises(DataError, match="is damaged"):
        unpack(bundle(root, path), FolderState(root), nothing)
    assert read(root) == {}


def test_zip_with_a_password(tmp_path: Path, root: Path) -> None:
    path = pack(tmp_path / "a.zip", {"a": b"1"})
    data = bytearray(path.read_bytes())
    data[data.rindex(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match="needs a password"):
        unpack(bundle(root, path), FolderState(root), nothing)


# --- again and again ---


class Killed(BaseException):
    """As `kill -9`: nothing that handles errors sees it."""


def test_unpacking_that_was_cut_off_starts_again(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {f"d/{i}": os.urandom(300_000) for i in range(4)}
    archive, state = bundle(root, pack(tmp_path / "a.tar", files)), FolderState(root)
    monkeypatch.setattr(unpack_module.shutil, "rmtree", lambda *_, **__: None)
    seen = 0

    def kill(n: int) -> None:
        nonlocal seen
        seen += n
        if seen > 600_000:
            raise Killed

    with pytest.raises(Killed):
        unpack(archive, state, kill)
    monkeypatch.undo()
    assert read(root) == {} and not is_unpacked(archive, state)
    left = state.scratch("a.tar") / "d/0"
    assert left.is_file()
    left.write_bytes(b"half")
    unpack(archive, state, nothing)
    assert read(root) == files
    assert unpacked_faults(archive, state, nothing) == []
    assert not state.scratch("a.tar").exists()


def test_moving_that_was_cut_off_loses_nothing(tmp_path: Path, root: Path) -> None:
    files = {f"{i}/x": bytes([i]) for i in range(5)}
    archive, state = bundle(root, pack(tmp_path / "a.tar", files)), FolderState(root)
    unpack(archive, state, nothing)
    # As it is between two moves: three folders in their place, two still in the scratch tree.
    tree = state.scratch("a.tar")
    tree.mkdir(parents=True)
    for i in (3, 4):
        (root / str(i)).rename(tree / str(i))
    state.file("a.tar", "unpacked").rename(state.file("a.tar", "listing"))
    assert not is_unpacked(archive, state)
    assert unpack(archive, state, nothing) == 0
    assert read(root) == files
    assert is_unpacked(archive, state)


def test_files_in_the_way_are_kept_aside(tmp_path: Path, root: Path) -> None:
    (root / "photos/a").mkdir(parents=True)
    (root / "photos/a/1.jpg").write_bytes(b"mine")
    (root / "photos/a/9.jpg").write_bytes(b"mine too")
    (root / "photos/b").write_bytes(b"a file where a folder belongs")
    path = pack(tmp_path / "a.tar")
    assert unpack(bundle(root, path), FolderState(root), nothing) == 2
    assert read(root) == FILES | {"photos/a/9.jpg": b"mine too"}
    kept = root / ".fieldmark/replaced/a.tar/photos"
    assert (kept / "a/1.jpg").read_bytes() == b"mine"
    assert (kept / "b").read_bytes() == b"a file where a folder belongs"


def test_verifying_finds_what_changed(tmp_path: Path, root: Path) -> None:
    archive, state = bundle(root, pack(tmp_path / "a.tar")), FolderState(root)
    unpack(archive, state, nothing)
    (root / "photos/a/2.jpg").unlink()
    data = bytearray(FILES["photos/b/3.jpg"])
    data[7] ^= 1
    assert zlib.crc32(data) != zlib.crc32(FILES["photos/b/3.jpg"])
    (root / "photos/b/3.jpg").write_bytes(data)
    assert unpacked_faults(archive, state, nothing) == ["photos/a/2.jpg", "photos/b/3.jpg"]


def test_deleted_folder_is_noticed(tmp_path: Path, root: Path) -> None:
    archive, state = bundle(root, pack(tmp_path / "a.tar")), FolderState(root)
    unpack(archive, state, nothing)
    (root / "photos/b/3.jpg").unlink()
    (root / "photos/b").rmdir()
    assert not is_unpacked(archive, state)
    unpack(archive, state, nothing)
    assert read(root) == FILES


@pytest.mark.parametrize("name", ["a.tar", "a.zip"])
def test_full_disk_while_unpacking(tmp_path: Path, root: Path, name: str) -> None:
    """A limit on the size of files stands for the full disk."""
    path, state = pack(tmp_path / name), FolderState(root)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(DataError, match=r"cannot be written \(File too large\)"):
            unpack(bundle(root, path), state, nothing)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert read(root) == {}
    unpack(bundle(root, path), state, nothing)
    assert read(root) == FILES


def test_a_byte_changed_inside_a_file_is_noticed(tmp_path: Path, root: Path) -> None:
    """Stored, not squeezed: nothing but the checksum at the very end can tell."""
    tar = pack(tmp_path / "a.tar", {"d/0": b"x" * 3000}).read_bytes()
    path = tmp_path / "a.tar.gz"
    data = bytearray(gzip.compress(tar, compresslevel=0))
    data[data.index(b"xxxx") + 1500] ^= 255
    path.write_bytes(data)
    with pytest.raises(DataError, match="is damaged"):
        unpack(bundle(root, path), FolderState(root), nothing)
    assert read(root) == {}
