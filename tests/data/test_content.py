"""A file's content is known, or it is read: never trusted."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fieldmark.data import (
    ABSENT,
    Contents,
    absorb_contents,
    content_key,
    read_content,
    snapshot_contents,
)
from fieldmark.data import _content as module
from kit.pictures import write_image

OLD = time.time() - 3600


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for number in range(6):
        write_image(tmp_path / "photos" / f"{number}.png", number)
    return tmp_path / "photos"


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """No file counts as changed a moment ago."""
    monkeypatch.setattr("fieldmark.files.RACY_NS", 0)


def names(photos: Path) -> list[str]:
    return sorted(path.name for path in photos.iterdir())


def keys(photos: Path, memory: Path) -> dict[str, bytes]:
    return {
        name: content.key for name, content in Contents(memory).learn(photos, names(photos)).items()
    }


def true_keys(photos: Path) -> dict[str, bytes]:
    return {name: content_key((photos / name).read_bytes()) for name in names(photos)}


def test_what_was_hashed_is_known_the_next_time(photos: Path, tmp_path: Path, settled) -> None:
    memory = tmp_path / "contents.db"
    assert keys(photos, memory) == true_keys(photos)
    assert len(Contents(memory).known(photos, names(photos))) == 6


def test_a_young_file_is_not_remembered_and_read_again(photos: Path, tmp_path: Path) -> None:
    memory = tmp_path / "contents.db"
    keys(photos, memory)
    assert Contents(memory).known(photos, names(photos)) == {}
    write_image(photos / "0.png", 77)
    assert keys(photos, memory) == true_keys(photos)


@pytest.mark.parametrize("when", [OLD, time.time() + 10**6], ids=["past", "future"])
def test_same_size_and_mtime_hide_no_change(
    photos: Path, tmp_path: Path, settled, when: float
) -> None:
    """A camera's clock may run ahead: one photo dated tomorrow must not blind us to the others."""
    memory, target = tmp_path / "contents.db", photos / "0.png"
    data = bytearray(target.read_bytes())
    os.utime(target, (when, when))
    keys(photos, memory)
    assert len(Contents(memory).known(photos, names(photos))) == 6
    data[-1] ^= 1
    target.write_bytes(data)
    os.utime(target, (when, when))
    assert set(Contents(memory).known(photos, names(photos))) == set(names(photos)) - {"0.png"}
    assert keys(photos, memory) == true_keys(photos)


def test_a_clock_that_was_set_back_makes_files_be_read(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = time.time_ns() - 10**15
    monkeypatch.setattr(module.time, "time_ns", lambda: before)
    memory = tmp_path / "contents.db"
    keys(photos, memory)
    assert Contents(memory).known(photos, names(photos)) == {}


def test_swapped_files_and_links_are_seen(photos: Path, tmp_path: Path, settled) -> None:
    memory, link = tmp_path / "contents.db", photos / "link.png"
    link.symlink_to("1.png")
    keys(photos, memory)
    (photos / "0.png").rename(photos / "x")
    (photos / "2.png").rename(photos / "0.png")
    (photos / "x").rename(photos / "2.png")
    link.unlink()
    link.symlink_to("3.png")
    assert keys(photos, memory) == true_keys(photos)


def test_a_file_whose_name_looks_like_a_member_has_its_own_stamp(
    photos: Path, tmp_path: Path, settled
) -> None:
    """`0.png::x.png` beside `0.png`: only containers have members."""
    memory, odd = tmp_path / "contents.db", photos / "0.png::x.png"
    write_image(odd, 50)
    keys(photos, memory)
    write_image(odd, 51)
    assert keys(photos, memory) == true_keys(photos)


def test_a_table_file_as_root_is_the_folder_it_lies_in(
    photos: Path, tmp_path: Path, settled
) -> None:
    memory, table = tmp_path / "contents.db", tmp_path / "labels.csv"
    table.write_text("image,label\n")
    contents = Contents(memory).learn(table, ["photos/0.png"])
    assert contents["photos/0.png"].key == true_keys(photos)["0.png"]
    assert len(Contents(memory).known(table, ["photos/0.png"])) == 1
    write_image(photos / "0.png", 9)
    assert Contents(memory).known(table, ["photos/0.png"]) == {}


def test_what_cannot_be_read_is_told_and_what_leads_out_is_refused_always(
    photos: Path, tmp_path: Path, settled
) -> None:
    """Defect: `../x.png` was refused with a fresh cache, accepted with cached features."""
    memory = tmp_path / "contents.db"
    inside = photos / "inside"
    inside.mkdir()
    Contents(memory).learn(photos, ["0.png"])
    os.mkfifo(inside / "pipe.jpg")
    for _ in range(2):
        contents = Contents(memory).learn(inside, ["../0.png", "none.png", "pipe.jpg"])
        assert {value.key for value in contents.values()} == {ABSENT}
        assert "is outside the dataset's folder" in contents["../0.png"].problem
        assert "is missing" in contents["none.png"].problem
        assert "is a pipe or a device" in contents["pipe.jpg"].problem


def test_a_broken_image_is_remembered_as_broken(photos: Path, tmp_path: Path, settled) -> None:
    memory = tmp_path / "contents.db"
    (photos / "0.png").write_bytes((photos / "0.png").read_bytes()[:60])
    Contents(memory).learn(photos, ["0.png"])
    known = Contents(memory).known(photos, ["0.png"])["0.png"]
    assert "cut off" in known.problem and known.key != ABSENT


def test_many_names_are_looked_up_like_few(
    photos: Path, tmp_path: Path, settled, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = tmp_path / "contents.db"
    keys(photos, memory)
    one_by_one = Contents(memory).known(photos, names(photos))
    monkeypatch.setattr(module, "_FEW", 2)
    assert Contents(memory).known(photos, names(photos)) == one_by_one


@pytest.mark.parametrize("few", [0, 100])
def test_a_name_that_is_not_utf_8_is_read_each_time_and_the_others_are_known(
    photos: Path, tmp_path: Path, settled, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    """Defect: the second command over a folder with such a name ended in a traceback."""
    monkeypatch.setattr(module, "_FEW", few)
    memory, odd = tmp_path / "contents.db", os.fsdecode(b"9-\xff.png")
    try:
        write_image(photos / odd, 9)
    except OSError:
        pytest.skip("this file system has no such names")
    for _ in range(2):
        assert keys(photos, memory) == true_keys(photos)
        assert sorted(Contents(memory).known(photos, names(photos))) == names(photos)[:6]


def test_any_file_has_a_digest(photos: Path, tmp_path: Path, settled) -> None:
    memory, weights = tmp_path / "contents.db", tmp_path / "weights.bin"
    weights.write_bytes(b"one")
    assert Contents(memory).digest(weights) == content_key(b"one")
    weights.write_bytes(b"two")
    assert Contents(memory).digest(weights) == content_key(b"two")


def test_what_others_read_is_noted_from_many_threads(photos: Path, tmp_path: Path, settled) -> None:
    memory = tmp_path / "contents.db"
    contents = Contents(memory)

    def note(name: str) -> None:
        content, mark, data = read_content(photos, name)
        assert content.key == content_key(data)
        contents.note(photos, [(name, content, mark)])

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(note, names(photos) * 20))
    assert Contents(memory).known(photos, names(photos)) == {}, "not yet written"
    contents.flush()
    known = Contents(memory).known(photos, names(photos))
    assert {name: content.key for name, content in known.items()} == true_keys(photos)
    (photos / "0.png").unlink()
    assert len(contents.known(photos, [*names(photos), "0.png"])) == 6, "as it was when it was read"


def test_what_is_noted_without_a_stamp_is_for_this_command_only(
    photos: Path, tmp_path: Path
) -> None:
    memory = tmp_path / "contents.db"
    contents = Contents(memory)
    content, mark, _ = read_content(photos, "0.png")
    assert mark is None, "it was made a moment ago"
    contents.note(photos, [("0.png", content, mark)])
    contents.flush()
    assert contents.known(photos, ["0.png"]) == {"0.png": content}
    assert Contents(memory).known(photos, ["0.png"]) == {}


def test_absent_files_are_seen_without_reading(photos: Path) -> None:
    contents = Contents(None)
    (photos / "empty.png").touch()
    (photos / "folder.png").mkdir()
    (photos / "a.tar").write_bytes(b"whatever")
    good = ["0.png", "5.png", "a.tar::any.png"]
    assert not contents.has_absent(photos, good * 700)
    for name in ("gone.png", "empty.png", "folder.png", "../photos/0.png", "b.tar::0.png", "x\0y"):
        assert contents.has_absent(photos, [*good * 700, name]), name
    assert not contents.has_absent(photos, [])


# --- memories of several processes


def test_a_snapshot_is_asked_and_never_written(photos: Path, tmp_path: Path, settled) -> None:
    main, copy, own = (tmp_path / f"{name} %?#.db" for name in ("main", "copy", "own"))
    weights = tmp_path / "weights"
    weights.write_bytes(b"of a model")
    known = Contents(main)
    known.learn(photos, names(photos)[:4])
    digest = known.digest(weights)
    snapshot_contents(main, copy)
    copy.chmod(0o444)
    before = copy.read_bytes()
    tmp_files = set(tmp_path.iterdir())
    worker = Contents(own, also=[tmp_path / "gone.db", copy])
    assert sorted(worker.known(photos, names(photos))) == names(photos)[:4]
    assert worker._recalled(weights) == digest
    assert set(tmp_path.iterdir()) == tmp_files, "nothing was made beside it"
    worker.learn(photos, names(photos))
    assert copy.read_bytes() == before
    assert sorted(Contents(own).known(photos, names(photos))) == names(photos)[4:]
    assert not Contents(None, also=[copy]).known(photos, names(photos)[:4], has_asked=True)


def test_what_a_snapshot_says_of_a_changed_file_is_not_believed(
    photos: Path, tmp_path: Path, settled
) -> None:
    Contents(tmp_path / "main.db").learn(photos, names(photos))
    snapshot_contents(tmp_path / "main.db", tmp_path / "copy.db")
    write_image(photos / "0.png", 77)
    assert "0.png" not in Contents(None, also=[tmp_path / "copy.db"]).known(photos, names(photos))


def test_a_snapshot_of_nothing_and_a_damaged_one_know_nothing(photos: Path, tmp_path: Path) -> None:
    snapshot_contents(tmp_path / "none.db", tmp_path / "board" / "copy.db")
    (tmp_path / "damaged.db").write_bytes(b"no database" * 1000)
    also = [tmp_path / "board" / "copy.db", tmp_path / "damaged.db"]
    assert Contents(None, also=also).known(photos, names(photos)) == {}
    assert (tmp_path / "damaged.db").exists(), "it is not put aside: others may read it"
    assert absorb_contents(tmp_path / "main.db", also) == 0


def test_memories_of_workers_are_taken_over(photos: Path, tmp_path: Path, settled) -> None:
    every, main = names(photos), tmp_path / "main.db"
    Contents(main).learn(photos, every[:3])
    write_image(photos / every[0], 55)
    parts = [tmp_path / "1.db", tmp_path / "2.db"]
    Contents(parts[0]).learn(photos, every[:2])
    Contents(parts[1]).learn(photos, every[3:])
    assert absorb_contents(main, [*parts, tmp_path / "gone.db"]) == len(every) - 1
    assert sorted(Contents(main).known(photos, every)) == every
    assert absorb_contents(main, parts) == len(every) - 1, "again changes nothing"
    assert keys(photos, main) == {name: content_key((photos / name).read_bytes()) for name in every}


def test_a_snapshot_is_whole_while_others_write(photos: Path, tmp_path: Path, settled) -> None:
    main, copy = tmp_path / "main.db", tmp_path / "copy.db"
    main_contents = Contents(main)
    main_contents.learn(photos, names(photos))
    stop = time.monotonic() + 1

    def write() -> None:
        while time.monotonic() < stop:
            main_contents.note(photos, [("0.png", *read_content(photos, "0.png")[:2])])
            main_contents.flush()

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        while time.monotonic() < stop:
            snapshot_contents(main, copy)
            assert sorted(Contents(None, also=[copy]).known(photos, names(photos))) == names(photos)
        writing.result()
