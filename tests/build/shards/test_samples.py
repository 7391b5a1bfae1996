"""Reading shards: webdataset's rule of keys, and every way in which a tar file can be damaged."""

from __future__ import annotations

import gzip
import re
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from webdataset.tariterators import base_plus_ext

from fieldmark.build.shards import MemberReader, Sample, read_samples, sample_taxon, taxon_texts
from fieldmark.build.shards.samples import split_name
from fieldmark.errors import DataError
from fieldmark.taxa import Taxon
from kit.shards import read_by_webdataset, tar_bytes

RAVEN = Taxon(
    ("Animalia", "Chordata", "Aves", "Passeriformes", "Corvidae", "Corvus", "corax"),
    "Common raven",
)


MEMBERS = [
    (f"{folder}{key}.{extension}", f"{key} {extension}".encode() * n)
    for folder, key, n in (("", "a", 1), ("", "b", 200), ("train/", "c", 30))
    for extension in ("jpg", "Taxon.TXT", "json")
]


def shard(folder: Path, data: bytes, name: str = "a.tar") -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    return path


def read_by_us(path: Path) -> dict[str, dict[str, bytes]]:
    with MemberReader(path) as reader:
        return {
            sample.key: {member.extension: reader.read(member) for member in sample.members}
            for sample in read_samples(path)
        }


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tgz"])
def test_samples_are_those_that_webdataset_reads(tmp_path: Path, form: int, name: str) -> None:
    long = ("x" * 70 + "/") * 3 + "ü" * 40 if form != tarfile.USTAR_FORMAT else "x/y"
    more = [(f"{long}.jpg", b"1"), (f"{long}.txt", b"22"), ("README", b"no"), ("__m__", b"no")]
    path = shard(tmp_path, tar_bytes([*MEMBERS, *more], form), name)
    assert read_by_us(path) == read_by_webdataset(path)
    assert list(read_by_us(path)) == ["a", "b", "train/c", long]


@given(st.text(alphabet="ab._/", min_size=1, max_size=14))
def test_keys_follow_webdataset(name: str) -> None:
    key, extension = base_plus_ext(name)
    is_meta = re.match(r"__[^/]*__($|/)", name)
    expected = None if key is None or is_meta else (key, extension.lower())
    assert split_name(name) == expected


LONG = "train/" + "ü" * 60
WHOLE = {
    form: tar_bytes([(f"{LONG}.jpg", b"1" * 700), *MEMBERS, (f"{LONG}2.jpg", b"2")], form)
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)
}
END_MARK = {form: -(-len(data.rstrip(b"\0")) // 512) * 512 + 1024 for form, data in WHOLE.items()}
"""what lies behind it is padding: a shard without it is whole"""


@given(st.data(), st.sampled_from(list(WHOLE)), st.booleans())
def test_a_cut_is_noticed_wherever_it_is(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, form: int, at_block: bool
) -> None:
    at = data.draw(st.integers(0, END_MARK[form] - 1))
    path = shard(tmp_path_factory.mktemp("cut"), WHOLE[form][: at // 512 * 512 if at_block else at])
    with pytest.raises(DataError, match="cut off|empty") as caught:
        list(read_samples(path))
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("form", list(WHOLE))
def test_a_cut_at_every_block_is_noticed(tmp_path: Path, form: int) -> None:
    for at in range(0, END_MARK[form], 512):
        with pytest.raises(DataError, match="at byte .*cut off|empty"):
            list(read_samples(shard(tmp_path, WHOLE[form][:at])))


@pytest.mark.parametrize("form", list(WHOLE))
def test_padding_behind_the_end_mark_is_no_loss(tmp_path: Path, form: int) -> None:
    whole = WHOLE[form]
    for data in (whole, whole[: END_MARK[form]], whole + bytes(10_240)):
        assert len(list(read_samples(shard(tmp_path, data)))) == 5


@given(st.data())
def test_a_cut_in_a_packed_shard_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    packed = gzip.compress(WHOLE[tarfile.PAX_FORMAT])
    path = tmp_path_factory.mktemp("cut") / "a.tar.gz"
    path.write_bytes(packed[: data.draw(st.integers(0, len(packed) - 1))])
    with pytest.raises(DataError, match="cut off|empty"):
        list(read_samples(path))


def special(name: str, kind: bytes) -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, "a.jpg"
    return info.tobuf(tarfile.USTAR_FORMAT)


ONE = tar_bytes([("a.jpg", b"1"), ("a.txt", b"2")])[:2048]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (
            tar_bytes([("a.jpg", b"1"), ("b.jpg", b"1"), ("a.txt", b"1")]),
            "'a': .*not next to each other",
        ),
        (tar_bytes([("a.jpg", b"1"), ("b.jpg", b"1"), ("a.jpg", b"1")]), "'a': another sample"),
        (tar_bytes([("a.jpg", b"1"), ("a.JPG", b"1")]), "'a': .*two 'jpg'"),
        (tar_bytes([("t/._a.jpg", b"1"), ("t/a.jpg", b"1")]), "hidden file 't/._a.jpg'"),
        (ONE + special("b.jpg", tarfile.SYMTYPE) + bytes(1024), "'b': .*symbolic link"),
        (ONE + special("b.jpg", tarfile.LNKTYPE) + bytes(1024), "'b': .*hard link"),
        (ONE + special("b.jpg", tarfile.FIFOTYPE) + bytes(1024), "not an ordinary file"),
        (ONE + b"x" * 512 + bytes(1024), "at byte 2,048, key 'a': has a damaged header"),
        (ONE + bytes(1024) + ONE + bytes(1024), "more after its end mark"),
        (ONE + bytes(512) + ONE + bytes(1024), "more after its end mark"),
        (b"\x89PNG" * 300, "is not a tar file"),
        (b"", "is empty"),
    ],
)
def test_damage_is_named_with_its_place(tmp_path: Path, data: bytes, text: str) -> None:
    with pytest.raises(DataError, match=text):
        list(read_samples(shard(tmp_path, data)))


def test_folders_are_passed_over(tmp_path: Path) -> None:
    data = special("train/", tarfile.DIRTYPE) + ONE + bytes(1024)
    assert [sample.key for sample in read_samples(shard(tmp_path, data))] == ["a"]


def test_a_size_beyond_the_file_is_noticed(tmp_path: Path) -> None:
    info = tarfile.TarInfo("a.jpg")
    info.size = 1 << 40
    with pytest.raises(DataError, match=r"inside member 'a.jpg': 1,099,\d+,\d+,\d+ bytes are"):
        list(read_samples(shard(tmp_path, info.tobuf(tarfile.GNU_FORMAT) + bytes(4096))))


def test_a_shard_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No such file"):
        list(read_samples(tmp_path / "a.tar"))


@given(st.data())
def test_damage_of_any_kind_gives_samples_or_a_data_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    broken = bytearray(WHOLE[tarfile.PAX_FORMAT])
    headers = st.integers(0, 600)  # the first member has an extended header
    places = data.draw(st.lists(headers | st.integers(0, len(broken) - 1), min_size=1, max_size=8))
    for place in places:
        broken[place] = data.draw(st.sampled_from(b"\0 059=xgLKS\xff\n"))
    path = shard(tmp_path_factory.mktemp("broken"), bytes(broken))
    try:
        assert all(sample.members for sample in read_samples(path))
    except DataError as error:
        assert "\n" not in str(error)


# --- taxa ---


def taxon_of(folder: Path, texts: dict[str, str]) -> Taxon | None:
    path = shard(folder, tar_bytes([(f"a.{name}", text.encode()) for name, text in texts.items()]))
    with MemberReader(path) as reader:
        (sample,) = read_samples(path)
        assert isinstance(sample, Sample)
        return sample_taxon(sample, reader.read)


@pytest.mark.parametrize("left_out", range(5))
def test_a_taxon_is_read_back_from_its_texts(tmp_path: Path, left_out: int) -> None:
    order = ["taxonTag.txt", "taxonTag_com.txt", "taxonomic_name.txt", "taxon.txt"]
    texts = taxon_texts(RAVEN)
    for name in order[:left_out]:
        del texts[name]
    assert taxon_of(tmp_path, texts) == RAVEN


def test_the_scientific_name_alone_gives_genus_and_species(tmp_path: Path) -> None:
    taxon = taxon_of(tmp_path, {"sci.txt": "a photo of Corvus corax."})
    assert taxon == Taxon(("", "", "", "", "", "Corvus", "corax"))


def test_tags_behind_their_values_are_not_believed(tmp_path: Path) -> None:
    texts = {"taxonTag.txt": "a photo of Animalia kingdom Corvus genus.", "sci.txt": "Corvus corax"}
    taxon = taxon_of(tmp_path, texts)
    assert taxon is not None and taxon.name == "Corvus corax" and taxon.at("kingdom") == ""


def test_ranks_of_a_json_member_come_first(tmp_path: Path) -> None:
    texts = {"json": '{"Genus": "Pica", "species": "Pica pica", "n": 3}', "sci.txt": "Corvus corax"}
    taxon = taxon_of(tmp_path, texts)
    assert taxon is not None and taxon.name == "Pica pica"


def test_a_sample_without_names_has_no_taxon(tmp_path: Path) -> None:
    assert taxon_of(tmp_path, {"jpg": "x", "json": "{broken"}) is None
