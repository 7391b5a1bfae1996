"""Captioned copies: not one byte of a member changes, and nothing is ever half written."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import tarfile
from pathlib import Path

import polars as pl
import pytest

from fieldmark.build.shards import join_captions, read_samples
from fieldmark.errors import DataError, UsageError
from kit.shards import read_by_webdataset, tar_bytes

LONG = "train/" + "ü" * 70
MEMBERS = [
    (f"{key}.{end}", data)
    for key, n in (("a", 30), ("b", 1_000), (LONG, 513))
    for end, data in (("jpg", os.urandom(n)), ("sci.txt", b"a photo of Corvus corax."))
]
CAPTIONS = {"a": "A black raven.", LONG: "Ein Rabe, schwarz und groß."}


@pytest.fixture
def shard(tmp_path: Path) -> Path:
    path = tmp_path / "a.tar"
    path.write_bytes(tar_bytes(MEMBERS, tarfile.PAX_FORMAT))
    return path


def captions_file(folder: Path, texts: dict[str, str], **more: list[object]) -> Path:
    path = folder / "captions.parquet"
    frame = pl.DataFrame({"key": list(texts), "caption": list(texts.values()), **more})
    frame.write_parquet(path)
    return path


def test_members_stay_and_captions_lie_in_their_samples(tmp_path: Path, shard: Path) -> None:
    out = tmp_path / "out" / "a.tar"
    assert join_captions(shard, captions_file(tmp_path, CAPTIONS), out) == 2
    before, after = read_by_webdataset(shard), read_by_webdataset(out)
    added = {key: after[key].pop("caption.txt", b"").decode() for key in after}
    assert after == before and list(after) == list(before)
    assert added == {"a": CAPTIONS["a"], "b": "", LONG: CAPTIONS[LONG]}
    with tarfile.open(shard) as old, tarfile.open(out) as new:
        times = {member.name: member.mtime for member in new}
        assert all(times.pop(member.name) == member.mtime for member in old)
    assert set(times.values()) == {0}
    assert len(list(read_samples(out))) == 3


def test_a_copy_without_captions_differs_in_padding_only(tmp_path: Path, shard: Path) -> None:
    out = tmp_path / "b.tar"
    join_captions(shard, captions_file(tmp_path, {"a": "x"}).with_name("captions.parquet"), out)
    join_captions(out, _nothing(tmp_path), tmp_path / "c.tar")
    assert (tmp_path / "c.tar").read_bytes() == out.read_bytes()


def _nothing(folder: Path) -> Path:
    path = folder / "none.parquet"
    pl.DataFrame(schema={"key": pl.String, "caption": pl.String}).write_parquet(path)
    return path


def test_the_same_bytes_every_time_packed_or_not(tmp_path: Path, shard: Path) -> None:
    captions = captions_file(tmp_path, CAPTIONS)
    packed = tmp_path / "a.tar.gz"
    packed.write_bytes(gzip.compress(shard.read_bytes()))
    for number, source in enumerate((shard, shard, packed)):
        join_captions(source, captions, tmp_path / f"{number}.tar")
    copies = {(tmp_path / f"{number}.tar").read_bytes() for number in range(3)}
    assert len(copies) == 1


def test_only_good_captions_of_this_shard_are_taken(tmp_path: Path, shard: Path) -> None:
    texts = {"a": "one", "b": "two", LONG: "three", "x": "four"}
    status = ["ok", "rejected", "ok", "ok"]
    shards = ["a.tar", "a.tar", "a.tar", "other.tar"]
    captions = captions_file(tmp_path, texts, status=status, shard=shards)
    out = tmp_path / "out.tar"
    assert join_captions(shard, captions, out) == 2
    assert [key for key, files in read_by_webdataset(out).items() if "caption.txt" in files] == [
        "a",
        LONG,
    ]


@pytest.mark.parametrize(
    ("texts", "match"),
    [({"a": "x", "missing": "y"}, "captions for keys that .* lacks")],
)
def test_captions_that_do_not_fit(
    tmp_path: Path, shard: Path, texts: dict[str, str], match: str
) -> None:
    with pytest.raises(DataError, match=match):
        join_captions(shard, captions_file(tmp_path, texts), tmp_path / "out.tar")
    assert not list(tmp_path.glob("*out.tar*"))


def test_a_captioned_shard_is_not_captioned_again(tmp_path: Path, shard: Path) -> None:
    captions = captions_file(tmp_path, CAPTIONS)
    join_captions(shard, captions, tmp_path / "b.tar")
    with pytest.raises(DataError, match=r"key 'a' already has a caption.txt"):
        join_captions(tmp_path / "b.tar", captions, tmp_path / "c.tar")


def test_a_cut_shard_leaves_nothing(tmp_path: Path, shard: Path) -> None:
    shard.write_bytes(shard.read_bytes()[:2_048])
    with pytest.raises(DataError, match="cut off"):
        join_captions(shard, captions_file(tmp_path, CAPTIONS), tmp_path / "out.tar")
    assert not list(tmp_path.glob("*out.tar*"))


def test_captions_of_other_bytes_are_refused(tmp_path: Path, shard: Path) -> None:
    captions, data = captions_file(tmp_path, CAPTIONS), shard.read_bytes()
    source = {"n_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    captions.with_suffix(".json").write_text(json.dumps({"made_from": {"input": source}}))
    assert join_captions(shard, captions, tmp_path / "out.tar") == 2
    shard.write_bytes(data.replace(b"Corvus corax", b"Corvus corvus"[:12]))
    for _ in range(2):
        with pytest.raises(DataError, match="before that file changed"):
            join_captions(shard, captions, tmp_path / "other.tar")
        shard.write_bytes(data + bytes(512))
    assert not (tmp_path / "other.tar").exists()


def test_places_that_cannot_be_meant(tmp_path: Path, shard: Path) -> None:
    captions = captions_file(tmp_path, CAPTIONS)
    with pytest.raises(UsageError, match="is the shard itself"):
        join_captions(shard, captions, shard)
    with pytest.raises(UsageError, match="ends in .tar"):
        join_captions(shard, captions, tmp_path / "out.tar.gz")
