"""Index of training shards: samples by number, captions joined by key, what is missing by name."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from fieldmark.build.caption import CaptionRun, SpeciesWords
from fieldmark.build.shards import captions_files, join_captions, shard_index, taxon_texts
from fieldmark.build.train.feed import index as train_index
from fieldmark.build.train.feed.index import TrainData, open_data
from fieldmark.build.train.recipe import TrainRecipe, load_recipe, recipe_names
from fieldmark.chat import MockScript, MockServer, chat_model
from fieldmark.errors import DataError, UsageError
from fieldmark.taxa import Taxon
from kit.captions import make_shards as make_photo_shards
from kit.captions import stubborn, write_shard
from kit.chat import running
from kit.shards import read_by_webdataset

TYPES = {"taxon": 1.0, "com": 2.0, "caption": 1.0}


def recipe(types: Mapping[str, float] = TYPES, **data: Any) -> TrainRecipe:
    return TrainRecipe.model_validate({"texts": {"types": dict(types)}, "data": data})


def sample(number: int, **changes: bytes | None) -> tuple[str, dict[str, bytes]]:
    """Members as TreeOfLife has them, more than are wanted."""
    members: dict[str, bytes | None] = {
        "sci.txt": b"a photo of Corvus corax.",
        "jpg": b"\xff\xd8" + bytes([number % 256]) * (300 + 77 * number),
        "taxon.txt": f"a photo of Corvus species{number % 3}.".encode(),
        "com.txt": b" a photo of a raven.\n",
        "json": b"{}",
    }
    members |= {name.replace("__", "."): data for name, data in changes.items()}
    return f"{number:06}", {name: data for name, data in members.items() if data is not None}


def make_shards(folder: Path, n_shards: int = 3, n: int = 4) -> list[Path]:
    return [
        write_shard(folder / f"s-{k}.tar", [sample(k * n + i) for i in range(n)])
        for k in range(n_shards)
    ]


def write_sidecar(
    folder: Path, shard: Path, rows: Mapping[str, tuple[str, str]], has_manifest: bool = True
) -> Path:
    """Key → status and caption; as `fieldmark caption` writes it."""
    path = folder / "captions" / f"{shard.stem}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = {
        "shard": [shard.name] * len(rows),
        "key": list(rows),
        "status": [status for status, _ in rows.values()],
        "caption": [text for _, text in rows.values()],
    }
    pl.DataFrame(columns).write_parquet(path)
    if has_manifest:
        facts = shard_index(shard)
        source = {"sha256": facts.sha256, "n_bytes": facts.n_bytes, "n_samples": facts.n_samples}
        path.with_suffix(".json").write_text(json.dumps({"made_from": {"input": source}}))
    return path


class Notes:
    """Progress that remembers what was said."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.totals: list[int] = []

    def start(self, label: str, total: int) -> None:
        self.totals.append(total)

    def advance(self, n: int = 1) -> None: ...

    def status(self, text: str) -> None: ...

    def say(self, text: str) -> None:
        self.lines.append(text)


def captioned(tmp_path: Path) -> tuple[list[Path], Path]:
    """Three shards of four; eight samples have a caption, one was rejected."""
    shards = make_shards(tmp_path / "shards")
    for shard in shards[:2]:
        keys = list(read_by_webdataset(shard))
        write_sidecar(tmp_path / "cap", shard, {key: ("ok", f"Raven {key}.") for key in keys})
    keys = list(read_by_webdataset(shards[1]))
    rows = {key: ("ok", f"Raven {key}.") for key in keys} | {keys[0]: ("rejected", "no")}
    write_sidecar(tmp_path / "cap", shards[1], rows)
    return shards, tmp_path / "cap"


# --- samples ---


def test_samples_are_what_webdataset_reads(tmp_path: Path) -> None:
    shards, captions = captioned(tmp_path)
    notes = Notes()
    data = open_data(shards, captions, tmp_path / "index", recipe(), notes)
    assert (data.n_samples, data.main.counts, data.shards) == (12, (4, 4, 4), tuple(shards))
    number = 0
    for shard in shards:
        for key, members in read_by_webdataset(shard).items():
            raw = data.read(number)
            assert (raw.key, raw.image) == (key, members["jpg"])
            expected = {name: members[f"{name}.txt"].decode().strip() for name in ("taxon", "com")}
            if number < 8 and number != 4:
                expected["caption"] = f"Raven {key}."
            assert raw.texts == expected
            assert data.name_of(number) == f"{shard}  key {key!r}"
            number += 1
    assert data.coverage == {"taxon": 12, "com": 12, "caption": 7}
    assert notes.lines == [
        "12 samples in 3 shards; 7 of 12 samples have a caption; "
        "shards without captions: 1 (s-2.tar)"
    ]


def test_captions_that_no_type_wants_are_left_alone(tmp_path: Path) -> None:
    shards, captions = captioned(tmp_path)
    notes = Notes()
    data = open_data(shards, captions, tmp_path / "index", recipe({"com": 1}), notes)
    assert data.read(0).texts == {"com": "a photo of a raven."}
    assert notes.lines[1] == f"{captions}  is not used: texts.types has no 'caption'."


def test_a_caption_in_the_shard_needs_no_sidecar(tmp_path: Path) -> None:
    rows = [sample(0, caption__txt=b"Raven on a roof."), sample(1, caption__txt=b" \n")]
    shard = write_shard(tmp_path / "a.tar", rows)
    data = open_data([str(shard)], None, tmp_path / "index", recipe())
    assert data.read(0).texts["caption"] == "Raven on a roof."
    assert "caption" not in data.read(1).texts, "blank"
    assert data.coverage["caption"] == 1


def test_types_are_found_whatever_the_case_of_members(tmp_path: Path) -> None:
    shard = write_shard(tmp_path / "a.tar", [sample(0, taxonTag__txt=b"class Aves")])
    data = open_data([shard], None, tmp_path / "index", recipe({"taxontag": 1}))
    assert data.read(0).texts == {"taxontag": "class Aves"}


def test_data_can_be_sent_to_processes_and_read_by_threads(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    shards, captions = captioned(tmp_path)
    data = open_data(shards, captions, tmp_path / "index", recipe())
    expected = [data.read(k) for k in range(12)]
    copy: TrainData = pickle.loads(pickle.dumps(data))
    assert copy.digest == data.digest
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(copy.read, [*range(12)] * 5)) == expected * 5


def test_few_files_are_open_however_many_shards_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train_index, "_MOST_OPEN", 2)
    shards = make_shards(tmp_path, n_shards=8, n=1)
    data = open_data(shards, None, tmp_path / "index", recipe({"taxon": 1}))
    for number in range(8):
        data.read(number)
    open_files = [os.path.realpath(path) for path in Path("/proc/self/fd").iterdir()]
    assert sum(path.endswith(".tar") and str(tmp_path) in path for path in open_files) == 2


def test_long_names_and_odd_keys(tmp_path: Path) -> None:
    import tarfile

    from kit.shards import tar_bytes

    key = "folder/" + "k" * 150 + "é"
    members = [(f"{key}.jpg", b"photo"), (f"{key}.taxon.txt", "Corvus corax é".encode())]
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        path = tmp_path / f"a-{form}.tar"
        path.write_bytes(tar_bytes(members, form))
        data = open_data([path], None, tmp_path / "index", recipe({"taxon": 1}))
        raw = data.read(0)
        assert (raw.key, raw.image, raw.texts) == (key, b"photo", {"taxon": "Corvus corax é"})
    path = tmp_path / "latin.tar"
    path.write_bytes(tar_bytes([("\udce9.jpg", b"photo"), ("\udce9.taxon.txt", b"Corvus \xe9")]))
    data = open_data([path], None, tmp_path / "index", recipe({"taxon": 1}))
    assert (data.read(0).key, data.read(0).texts) == ("\udce9", {"taxon": "Corvus \ufffd"})
    assert data.name_of(0).endswith("key '\\udce9'")


# --- what other parts of fieldmark made ---


def test_captions_as_fieldmark_makes_them(tmp_path: Path) -> None:
    """Two of three species get a caption, in a file beside the shard or in a copy of it."""
    shards = make_photo_shards(tmp_path / "in", 2, 6)
    server = MockServer(MockScript(), answers=stubborn)
    with running(server) as url:
        model = chat_model(f"chat/vllm/seer?base_url={url}")
        CaptionRun(shards, model, SpeciesWords(), tmp_path / "cap").carry_out()
    for shard, captions in captions_files(shards, tmp_path / "cap").items():
        join_captions(shard, captions, tmp_path / "copies" / shard.name)
    rejected = "samples with no text of type caption: 4 (s-000.tar '000002', s-000.tar '000005', "
    text = refusal(shards, tmp_path / "cap", tmp_path / "index", recipe({"caption": 1}))
    assert text.startswith(f"{rejected}s-001.tar '000008', s-001.tar '000011'): in texts.types")
    copies = tmp_path / "copies"
    assert refusal([copies], None, tmp_path / "index", recipe({"caption": 1})) == text
    text = refusal([copies], tmp_path / "cap", tmp_path / "index", recipe({"caption": 1}))
    assert "before that file changed" in text and "needs no --captions" in text


def test_shipped_recipes_want_texts_that_shards_have() -> None:
    taxon = Taxon(("Animalia", "Chordata", "Aves", "", "", "Corvus", "Corvus corax"), "raven")
    made = {name.lower() for name in taxon_texts(taxon)}
    for name in recipe_names():
        types = set(load_recipe(name).texts.types) - {"caption"}
        assert {f"{kind}.txt" for kind in types} <= made


def test_photos_that_are_kept_for_tests_are_told(tmp_path: Path) -> None:
    rows = [
        sample(k, json=json.dumps({"split": "test" if k < 2 else "train"}).encode())
        for k in range(5)
    ]
    shard = write_shard(tmp_path / "a.tar", [*rows, sample(9)])
    for _ in range(2):  # as indexed, and as kept
        notes = Notes()
        data = open_data([shard], None, tmp_path / "index", recipe({"taxon": 1}), notes)
        assert data.main.facts["split"] == {"test": 2, "train": 3}
        assert notes.lines[-1] == (
            "Warning: 2 of 6 photos are not training photos (split test: 2). Scores on them will "
            "be too high. `fieldmark shards make` without --split packs only training photos."
        )


# --- replay ---


def test_replay_is_a_group_of_its_own(tmp_path: Path) -> None:
    shards = make_shards(tmp_path / "main", 2)
    rows = [(f"r{k}", {"jpg": bytes([k]) * 50, "txt": f"a cat {k}".encode()}) for k in range(3)]
    replay = write_shard(tmp_path / "replay" / "laion.tar", rows)
    settings = recipe({"taxon": 1}, replay_shards=[str(replay)], replay_share=0.25)
    data = open_data(shards, None, tmp_path / "index", settings)
    assert (data.n_samples, data.replay.counts, data.replay.n_samples) == (8, (3,), 3)
    assert data.read(8).texts == {"replay": "a cat 0"}
    assert data.coverage == {"taxon": 8}, "counts are not mixed"
    settings = settings.model_copy(update={"train": settings.train.model_copy(update={"batch": 4})})
    numbers = data.order(settings).batch(0)
    assert len(numbers) == 4 and (numbers >= 8).sum() == 1


def test_replay_wants_shards_and_a_share(tmp_path: Path) -> None:
    shards = make_shards(tmp_path)
    with pytest.raises(UsageError, match="0.1 and there are 0 replay shards"):
        open_data(shards, None, tmp_path / "index", recipe({"taxon": 1}, replay_share=0.1))


# --- kept, made anew ---


@pytest.mark.parametrize("n_bytes", [0, 40, -1])
def test_an_index_is_kept_until_something_changes(tmp_path: Path, n_bytes: int) -> None:
    shards, captions = captioned(tmp_path)

    def n_made() -> tuple[int, str]:
        notes = Notes()
        data = open_data(shards, captions, tmp_path / "index", recipe(), notes)
        return sum(notes.totals), data.digest

    assert n_made()[0] == 3
    count, digest = n_made()
    assert count == 0
    keys = list(read_by_webdataset(shards[1]))
    write_sidecar(captions, shards[1], {key: ("ok", f"Crow {key}.") for key in keys})
    count, other = n_made()
    assert count == 1 and other != digest
    write_sidecar(captions, shards[2], {"000008": ("ok", "Raven.")})
    assert n_made()[0] == 1, "captions that were not there before"
    for path in (tmp_path / "index").glob("s-0*"):
        path.write_bytes(path.read_bytes()[:n_bytes])
    assert n_made()[0] == 1, "a damaged index"


@pytest.mark.parametrize(
    "change",
    [
        {"jpg": b"\xff\xd8" + b"\1" * 376},  # the length that it had
        {"jpg": b"\xff\xd8" + b"\2" * 100 + b"\1" * 150 + b"\2" * 126},  # and the end
        {"taxon__txt": b"a photo of Corvus specieX."},
        {"com__txt": None},
    ],
    ids=["image", "padded image", "text", "no text"],
)
def test_other_content_has_another_digest(tmp_path: Path, change: dict[str, bytes | None]) -> None:
    settings = recipe({"taxon": 1, "com": 1})
    rows = [sample(0), sample(1, jpg=b"\xff\xd8" + b"\2" * 376)]
    shard = write_shard(tmp_path / "a.tar", rows)
    digest = open_data([shard], None, tmp_path / "index", settings).digest
    copy = write_shard(tmp_path / "elsewhere" / "b.tar", rows)
    assert open_data([copy], None, tmp_path / "index", settings).digest == digest
    write_shard(shard, [sample(0), sample(1, **({"jpg": rows[1][1]["jpg"]} | change))])
    assert open_data([shard], None, tmp_path / "index", settings).digest != digest


def test_a_shard_that_changes_under_training_is_noticed(tmp_path: Path) -> None:
    shard = make_shards(tmp_path, 1)[0]
    data = open_data([shard], None, tmp_path / "index", recipe({"taxon": 1}))
    write_shard(shard, [sample(7)])
    with pytest.raises(DataError, match=r"s-0\.tar  was changed after it was indexed"):
        data.read(0)


@pytest.mark.slow
def test_other_processes_make_the_same_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards, captions = captioned(tmp_path)
    alone = open_data(shards, captions, tmp_path / "one", recipe())
    monkeypatch.setattr(train_index, "_ALONE_BYTES", 0)
    several = open_data(shards, captions, tmp_path / "two", recipe())
    assert several.digest == alone.digest
    assert _hashes(tmp_path / "one") == _hashes(tmp_path / "two")


def _hashes(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


# --- what is missing ---


def refusal(*arguments: Any) -> str:
    with pytest.raises(DataError) as caught:
        open_data(*arguments)
    return str(caught.value)


def test_everything_that_is_missing_is_named_at_once(tmp_path: Path) -> None:
    rows = [sample(k, jpg=None) for k in range(7)]
    rows += [sample(7, taxon__txt=b"", com__txt=None), sample(8)]
    write_shard(tmp_path / "a.tar", rows)
    whole = write_shard(tmp_path / "b.tar", [sample(9)])
    cut = tmp_path / "c.tar"
    cut.write_bytes(whole.read_bytes()[:2000])
    text = refusal([tmp_path], None, tmp_path / "index", recipe({"taxon": 1, "com": 1}))
    assert text.splitlines() == [
        f"{cut}  at byte 2,000, key '000009': is cut off inside member '000009.jpg': "
        "531 bytes are missing.",
        "samples without an image: 7 (a.tar '000000', a.tar '000001', a.tar '000002', "
        "a.tar '000003', a.tar '000004' and 2 more).",
        "samples with no text of type taxon or com: 1 (a.tar '000007'): "
        "in texts.types, give a weight to a type that they have.",
        "3 problems, nothing was started.",
    ]


def test_many_damaged_shards_are_counted(tmp_path: Path) -> None:
    for k in range(8):
        (tmp_path / f"{k}.tar").write_bytes(b"x" * 600)
    lines = refusal([tmp_path], None, tmp_path / "index", recipe({"taxon": 1})).splitlines()
    assert [line for line in lines if "is not a tar file" in line] == lines[:5]
    assert lines[5] == "3 more shards are damaged."


def test_captions_of_other_bytes_are_refused_by_name(tmp_path: Path) -> None:
    shards, captions = captioned(tmp_path)
    rows = [sample(k) for k in range(4)]
    rows[2][1]["jpg"] = rows[2][1]["jpg"][:-1] + b"!"  # the same length
    write_shard(shards[0], rows)
    text = refusal(shards, captions, tmp_path / "index", recipe())
    assert f"s-0.parquet  was made for {shards[0]} before that file changed" in text
    rows.pop()
    write_shard(shards[0], rows)
    assert "before that file changed" in refusal(shards, captions, tmp_path / "i", recipe())
    shards[0].write_bytes(shards[0].read_bytes()[:2_000])
    text = refusal(shards, captions, tmp_path / "cut", recipe())
    assert (
        f"{shards[0]}  at byte 2,000, key '000000': is cut off" in text
        and "before that file changed" not in text
    )
    (captions / "captions" / "s-0.json").write_text("{}")
    assert "s-0.json  is not a manifest" in refusal(shards, captions, tmp_path / "i", recipe())


def test_captions_for_keys_that_no_shard_has(tmp_path: Path) -> None:
    shard = make_shards(tmp_path, 1)[0]
    rows = {"000000": ("ok", "Raven."), "zebra": ("ok", "Zebra."), "gnu": ("rejected", "Gnu.")}
    write_sidecar(tmp_path / "cap", shard, rows, has_manifest=False)
    text = refusal([shard], tmp_path / "cap", tmp_path / "index", recipe())
    assert text == (
        f"captions in {tmp_path / 'cap'} for photos not in their shards: 1 (s-0.tar 'zebra')."
    )


def test_a_type_that_no_sample_has(tmp_path: Path) -> None:
    shards = make_shards(tmp_path)
    text = refusal(shards, None, tmp_path / "index", recipe({"taxn": 1, "com": 1}))
    assert text == (
        "no photo has a text of type 'taxn' (member taxn.txt). Did you mean 'taxon.txt'?"
    )
    text = refusal(shards, None, tmp_path / "index", recipe())
    assert text == (
        "no photo has a caption (member caption.txt): give --captions FOLDER with what `fieldmark "
        "caption` wrote, or train on names alone with --set texts.types.caption=0 "
        "'model.projectors=[\"taxonomic\"]'."
    )
    (tmp_path / "cap" / "captions").mkdir(parents=True)
    text = refusal(shards, tmp_path / "cap", tmp_path / "index", recipe())
    assert text == (
        f"{tmp_path / 'cap'}  contains captions of other shards, none of s-0.tar, s-1.tar, "
        f"s-2.tar: "
        "run `fieldmark caption` on these."
    )
    for shard in shards:
        write_sidecar(tmp_path / "cap", shard, {"000000": ("rejected", "")}, has_manifest=False)
    text = refusal(shards, tmp_path / "cap", tmp_path / "index", recipe())
    assert text.endswith("cap  has no caption for these shards: all were rejected or failed.")
    text = refusal(shards, tmp_path, tmp_path / "index", recipe())
    assert text.startswith(f"{tmp_path}  contains no captions: expected the folder")


def test_packed_shards_are_refused_with_a_command_that_unpacks_them(tmp_path: Path) -> None:
    plain = make_shards(tmp_path / "plain", 2)
    folder = tmp_path / "two words"
    folder.mkdir()
    packed = [folder / f"{shard.stem}.tar.gz" for shard in plain]
    for path, shard in zip(packed, plain, strict=True):
        path.write_bytes(gzip.compress(shard.read_bytes()))
    text = refusal(packed, None, tmp_path / "index", recipe({"taxon": 1}))
    start, _, rest = text.partition(" Unpack them: `")
    assert start.startswith(f"{packed[0]}, {packed[1]}  training reads shards in random order")
    subprocess.run(rest.removesuffix("`."), shell=True, check=True)
    assert [path.with_suffix("").read_bytes() for path in packed] == [
        shard.read_bytes() for shard in plain
    ]


def test_a_key_that_comes_twice_is_damage(tmp_path: Path) -> None:
    shard = write_shard(tmp_path / "a.tar", [sample(0), sample(1), sample(0)])
    text = refusal([shard], None, tmp_path / "index", recipe({"taxon": 1}))
    assert "key '000000': another sample has the same key" in text


def test_an_empty_shard_is_named(tmp_path: Path) -> None:
    shard = write_shard(tmp_path / "a.tar", [])
    text = refusal([shard], None, tmp_path / "index", recipe({"taxon": 1}))
    assert text == f"{shard}  contains no samples."


def test_nothing_heavy_is_imported_for_shards_without_sidecars(tmp_path: Path) -> None:
    shard = make_shards(tmp_path, 1)[0]
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from fieldmark.build.train.feed.index import open_data\n"
        "from fieldmark.build.train.recipe import TrainRecipe\n"
        f"data = open_data([{str(shard)!r}], None, Path({str(tmp_path / 'index')!r}), "
        "TrainRecipe())\ndata.read(1)\n"
        "assert not {'torch', 'open_clip', 'fieldmark.build.caption'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
