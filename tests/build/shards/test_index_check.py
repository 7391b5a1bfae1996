"""Index and check: every defect by its name, what wids needs, disagreement with an index."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path

import pytest

from fieldmark.build.shards import (
    check_shards,
    find_shards,
    read_index,
    relative_url,
    shard_index,
    write_index,
)
from fieldmark.build.shards.index import survey
from fieldmark.build.shards.tar import Defect
from fieldmark.errors import DataError, UsageError
from kit.pictures import write_image
from kit.shards import read_by_webdataset, write_shard


@pytest.fixture
def photo(tmp_path: Path) -> bytes:
    return write_image(tmp_path / "photos" / "a.jpg", 3).read_bytes()


def whole(photo: bytes, *keys: str) -> dict[str, bytes]:
    return {f"{key}.{end}": data for key in keys for end, data in (("jpg", photo), ("txt", b"t"))}


def write_set(folder: Path, photo: bytes) -> list[Path]:
    write_shard(folder / "a-000.tar", whole(photo, "a", "b"))
    write_shard(folder / "a-001.tar", whole(photo, "c"))
    paths = find_shards([str(folder)])
    write_index(
        folder / "index.json",
        [shard_index(path).row(relative_url(folder / "index.json", path)) for path in paths],
    )
    return paths


@pytest.mark.parametrize("is_packed", [False, True])
def test_one_pass_gives_counts_and_hashes_of_the_file(
    tmp_path: Path, photo: bytes, is_packed: bool
) -> None:
    path = write_shard(tmp_path / "a.tar", whole(photo, "x/a", "b", "c"))
    data = gzip.compress(path.read_bytes()) if is_packed else path.read_bytes()
    path = tmp_path / ("b.tar.gz" if is_packed else "b.tar")
    path.write_bytes(data)
    index = shard_index(path)
    assert (index.n_samples, index.n_bytes) == (3, len(data))
    assert index.sha256 == hashlib.sha256(data).hexdigest()
    assert index.md5 == hashlib.md5(data).hexdigest()
    assert index.keys_sha256 == hashlib.sha256(b"x/a\nb\nc\n").hexdigest()
    assert index.extensions == {"jpg": 3, "txt": 3}


def test_hashes_are_of_the_whole_file_also_behind_damage(tmp_path: Path, photo: bytes) -> None:
    path = write_shard(tmp_path / "a.tar", whole(photo, "a", "b"))
    data = bytearray(path.read_bytes())
    data[1_100 : 1_100 + 512] = b"x" * 512
    path.write_bytes(data)
    defects: list[Defect] = []
    assert survey(path, defects.append).sha256 == hashlib.sha256(data).hexdigest()
    assert [defect.kind for defect in defects] == ["bad_header"]


def test_the_index_file_has_what_wids_reads(tmp_path: Path, photo: bytes) -> None:
    """`wids.ShardListDataset` takes addresses relative to the file, and asks for these fields. It
    left webdataset with 1.0; that 0.2.86 reads such a file was tried by hand (2026-11-16).
    """
    folder = tmp_path / "set"
    write_set(folder, photo)
    index = json.loads((folder / "index.json").read_text())
    assert index["wids_version"] == 1 and index["__kind__"] == "wids-shard-index-v1"
    assert [row["url"] for row in index["shardlist"]] == ["a-000.tar", "a-001.tar"]
    for row in index["shardlist"]:
        data = (folder / row["url"]).read_bytes()
        assert row["filesize"] == len(data)
        assert row["md5sum"] == hashlib.md5(data).hexdigest()
        assert row["nsamples"] == len(read_by_webdataset(folder / row["url"]))


def test_the_index_is_the_same_from_anywhere(tmp_path: Path, photo: bytes) -> None:
    write_set(tmp_path / "one", photo)
    write_set(tmp_path / "deep" / "one", photo)
    one, two = (tmp_path / place / "index.json" for place in ("one", "deep/one"))
    assert one.read_bytes() == two.read_bytes()


def test_a_sound_set_is_sound(tmp_path: Path, photo: bytes) -> None:
    paths = write_set(tmp_path / "set", photo)
    report = check_shards(paths, tmp_path / "set" / "index.json", has_images=True)
    assert report.is_sound and report.n_samples == 3 and report.lines == []


def test_every_defect_is_counted_by_its_name(tmp_path: Path, photo: bytes) -> None:
    members = whole(photo, "a", "b", "c") | {
        "d.txt": b"no image",
        "e.jpg": photo,
        "f.jpg": photo[:-20],
        "f.txt": b"",
        "g.jpg": photo,
        "g.json": b"{}",
        "a.bin": b"0",
        "README": b"",
    }
    cut = write_shard(tmp_path / "cut.tar", whole(photo, "y", "z"))
    cut.write_bytes(cut.read_bytes()[:-9_000])
    empty = write_shard(tmp_path / "empty.tar", {})
    text = tmp_path / "text.tar"
    text.write_text("no tar" * 200)
    many = write_shard(tmp_path / "many.tar", members)
    other = write_shard(tmp_path / "other.tar", whole(photo, "c", "h"))
    report = check_shards([many, other, cut, empty, text], has_images=True)
    assert report.counts == {
        "no_image": 2,  # d, and the second part of a
        "no_text": 2,  # e, and the second part of a
        "bad_image": 1,
        "key_apart": 1,
        "key_in_two_shards": 1,
        "cut_off": 1,
        "empty": 1,
        "no_tar": 1,
    }
    assert report.notes == {"ignored": 1}
    by_kind = dict(report.lines)
    assert "key 'f': member 'f.jpg' is cut off" in by_kind["bad_image"]
    assert f"key 'c': {many} has a sample" in by_kind["key_in_two_shards"]
    assert by_kind["key_in_two_shards"].startswith(str(other))


def test_images_are_looked_at_only_when_asked(tmp_path: Path, photo: bytes) -> None:
    path = write_shard(tmp_path / "a.tar", whole(photo[:-20], "a"))
    assert check_shards([path]).is_sound
    assert check_shards([path], has_images=True).counts == {"bad_image": 1}


def test_images_of_a_packed_shard_are_looked_at(tmp_path: Path, photo: bytes) -> None:
    path = write_shard(tmp_path / "a.tar", whole(photo, "a") | whole(photo[:-9], "b"))
    (tmp_path / "a.tgz").write_bytes(gzip.compress(path.read_bytes()))
    assert check_shards([tmp_path / "a.tgz"], has_images=True).counts == {"bad_image": 1}


def test_packed_shards_that_are_cut_are_counted(tmp_path: Path, photo: bytes) -> None:
    path = write_shard(tmp_path / "a.tar", whole(photo, "a", "b"))
    packed = tmp_path / "a.tgz"
    packed.write_bytes(gzip.compress(path.read_bytes())[:-30])
    write_index(tmp_path / "index.json", [shard_index(path).row("a.tgz")])
    counts = check_shards([packed], tmp_path / "index.json", has_images=True).counts
    assert counts["cut_off"] == 1 and counts["differs_from_index"] > 2


def test_one_changed_bit_disagrees_with_the_index(tmp_path: Path, photo: bytes) -> None:
    paths = write_set(tmp_path / "set", photo)
    data = bytearray(paths[0].read_bytes())
    data[600] ^= 1
    paths[0].write_bytes(data)
    report = check_shards(paths, tmp_path / "set" / "index.json")
    assert report.counts == {"differs_from_index": 2}  # md5 and sha256
    assert check_shards(paths).is_sound


def test_padding_that_is_cut_disagrees_with_the_index(tmp_path: Path, photo: bytes) -> None:
    """All samples are there, so only the index knows."""
    paths = write_set(tmp_path / "set", photo)
    paths[1].write_bytes(paths[1].read_bytes()[:-512])
    counts = check_shards(paths, tmp_path / "set" / "index.json").counts
    assert counts == {"differs_from_index": 3}


def test_shards_that_are_missing_or_not_listed(tmp_path: Path, photo: bytes) -> None:
    paths = write_set(tmp_path / "set", photo)
    more = write_shard(tmp_path / "set" / "a-002.tar", whole(photo, "z"))
    paths[1].unlink()
    report = check_shards([paths[0], more], tmp_path / "set" / "index.json")
    assert report.counts == {"not_in_index": 1, "shard_missing": 1}


def test_a_thousand_defects_are_counted_and_a_few_shown(tmp_path: Path) -> None:
    path = write_shard(tmp_path / "a.tar", {f"{number}.txt": b"" for number in range(1_000)})
    report = check_shards([path])
    assert report.counts == {"no_image": 1_000} and len(report.lines) == 20


@pytest.mark.parametrize("text", ["", "[]", '{"shardlist": [{"nsamples": 3}]}', "{"])
def test_a_file_that_is_no_index(tmp_path: Path, text: str) -> None:
    (tmp_path / "index.json").write_text(text)
    with pytest.raises(DataError, match="is no"):
        read_index(tmp_path / "index.json")


def test_shards_are_found_by_file_folder_and_range(tmp_path: Path, photo: bytes) -> None:
    paths = write_set(tmp_path, photo)
    assert find_shards([str(tmp_path / "a-{000..001}.tar"), str(tmp_path)]) == paths
    for pattern in ("a-*.tar", "a-00?.tar", "*", "?-*1.tar"):
        assert find_shards([str(tmp_path / pattern)]) == (paths[1:] if "1" in pattern else paths)
    odd = write_shard(tmp_path / "[a]*.tar", whole(photo, "a"))
    assert find_shards([str(odd)]) == [odd], "a name that is there is no pattern"
    assert find_shards([str(tmp_path / "[a]?.t*")]) == [odd]
    with pytest.raises(DataError, match=r"b-\*.tar  matches no .tar"):
        find_shards([str(tmp_path / "b-*.tar")])
    with pytest.raises(DataError, match=r"a-007.tar  does not exist. Did you mean"):
        find_shards([str(tmp_path / "a-007.tar")])
    with pytest.raises(UsageError, match="is not a shard"):
        find_shards([str(tmp_path / "index.json")])
    with pytest.raises(DataError, match="contains no"):
        find_shards([str(tmp_path / "photos")])
