"""`fieldmark shards make|check|index|join` as a person uses them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from fieldmark.cli import main
from kit.pictures import write_image
from kit.shards import hashes


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for number in range(6):
        name = ("Corvus corax", "Pica pica")[number % 2]
        write_image(tmp_path / "photos" / name / f"{number}.jpg", number)
    return tmp_path


MAKE = ["shards", "make", "photos", "--per-shard", "4"]


def test_made_indexed_checked(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(MAKE) == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "shards: 2 shards, 6 samples, " in shown.err
    assert (
        "Read 2 of 2 labels as genus and species (Corvus corax, Pica pica). If that is wrong, give "
        "a table with a column scientific_name or common_name." in shown.err.splitlines()
    )
    next_command = shown.err.splitlines()[-1].removeprefix("next: fieldmark ").split()
    assert main(next_command) == 0
    assert "2 shards, 6 samples, " in capsys.readouterr().err
    assert main(["shards", "index", "shards", "--out", "shards/photos-index2.json"]) == 0
    one, two = (json.loads((place / f"shards/photos-index{n}.json").read_text()) for n in ("", "2"))
    assert one["shardlist"] == two["shardlist"]


def test_shards_that_are_replaced_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Two shards become one."""
    told = "2 shards replaced: made of other photos or with other options before."
    assert main(MAKE) == 0 and "replaced" not in capsys.readouterr().err
    for note in Path("shards/manifest").glob("*.json"):
        note.write_text("{}")  # as a kill leaves it
    assert main(MAKE) == 0 and "replaced" not in capsys.readouterr().err
    assert main([*MAKE[:-1], "6"]) == 0
    assert told in capsys.readouterr().err.splitlines()


def test_shards_of_two_datasets_are_not_mixed_silently(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(place / "photos", place / "more")
    assert main(MAKE) == 0 and "Warning" not in capsys.readouterr().err
    assert main(["shards", "make", "more"]) == 0
    assert (
        "Warning: shards also holds 2 shards that were made before (photos-00000.tar, "
        "photos-00001.tar). Commands that are given shards use all of them. --out packs into "
        "another folder." in capsys.readouterr().err.splitlines()
    )


def test_photos_to_be_tested_are_left_out(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "photos").rename(place / "train")
    shutil.copytree(place / "train", place / "set" / "test")
    (place / "train").rename(place / "set" / "train")
    assert main(["shards", "make", "set"]) == 0
    told = (
        "Packed the training photos only; 6 photos of other splits were left out (--split all "
        "packs them too)."
    )
    lines = capsys.readouterr().err
    assert told in lines.splitlines() and "Warning" not in lines
    assert main(["shards", "make", "set/test", "--out", "tests"]) == 0
    called = "Warning: the folder is called test. Do not test a model on photos it was trained on."
    assert called in capsys.readouterr().err.splitlines()
    assert main(["shards", "make", "set", "--split", "all"]) == 0
    assert (
        "Warning: 6 of 12 photos are not training photos (split test: 6). Do not test a model on "
        "photos it was trained on." in capsys.readouterr().err.splitlines()
    )
    assert main(["shards", "make", "set", "--split", "all", "--json", "--quiet"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["samples"], made["split"], made["other_splits"]) == (12, "all", 0)
    assert made["splits"] == {"test": 6, "train": 6}


def test_summaries_are_json(capsys: pytest.CaptureFixture[str]) -> None:
    def run(*words: str) -> Any:
        code = main([*words, "--json", "--quiet"])
        shown = capsys.readouterr()
        assert shown.err == ""
        return code, json.loads(shown.out)

    code, made = run(*MAKE)
    assert code == 0 and made["samples"] == 6 and made["bad"] == []
    code, checked = run("shards", "check", "shards", "--images")
    assert code == 0 and checked["ok"] and checked["extensions"]["jpg"] == 6
    code, rows = run("shards", "index", *made["files"], "--out", "index.json")
    assert code == 0 and [row["url"] for row in rows] == made["files"]
    shard = Path(made["files"][0])
    shard.write_bytes(shard.read_bytes()[:-1024])
    code, checked = run("shards", "check", "shards", "--index", "index.json")
    assert code == 3 and not checked["ok"]
    assert checked["defects"] == {"cut_off": 1, "differs_from_index": 6}
    kinds = [line["kind"] for line in checked["first"]]
    assert kinds == ["cut_off", *["differs_from_index"] * 6]


def test_a_set_without_an_index_is_checked_by_its_headers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main([*MAKE, "--quiet"])
    assert main(["shards", "check", "shards/photos-{00000..00001}.tar"]) == 0
    assert "sound" in capsys.readouterr().err
    assert main(["shards", "check", "shards/photos-{00000..00002}.tar"]) == 3
    assert "photos-00002.tar does not exist." in capsys.readouterr().err


def test_bad_photos_are_left_out_when_asked(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "photos" / "Pica pica" / "1.jpg").write_bytes(b"")
    assert main(MAKE) == 3
    assert "photos/Pica pica/1.jpg is empty (0 bytes)" in capsys.readouterr().err
    assert main([*MAKE, "--bad-images", "skip"]) == 0
    assert "1 image left out (cannot be read)." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--per-shard", "0"], "--per-shard 0: expected"),
        (["--max-px", "0"], "--max-px 0: expected"),
        (["--name", "a/b"], "--name a/b: expected"),
        (["--per-shard", "4", "--per-shard", "8"], "--per-shard is given twice."),
    ],
)
def test_flags_that_cannot_be_meant(
    flags: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["shards", "make", "photos", *flags]) == 2
    assert text in capsys.readouterr().err


def test_the_index_of_a_damaged_shard_is_not_written(place: Path) -> None:
    main([*MAKE, "--quiet"])
    before = hashes(place / "shards")
    shard = place / "shards" / "photos-00001.tar"
    shard.write_bytes(shard.read_bytes()[:2_000])
    assert main(["shards", "index", "shards", "--out", "shards/photos-index.json"]) == 3
    assert hashes(place / "shards")["photos-index.json"] == before["photos-index.json"]


def test_captions_come_from_a_column(capsys: pytest.CaptureFixture[str]) -> None:
    rows = "\n".join(f"photos/Pica pica/{n}.jpg,Pica pica,{'seen' * (n > 1)}" for n in (1, 3, 5))
    Path("table.csv").write_text(f"image,label,words\n{rows}\n")
    assert main(["shards", "make", "table.csv", "--caption", "words", "--out", "s"]) == 0
    assert "1 photo kept without a caption: 'words' is empty there." in capsys.readouterr().err
    assert main(["shards", "check", "s", "--json", "--quiet"]) == 0
    assert json.loads(capsys.readouterr().out)["extensions"]["caption.txt"] == 2


def test_captions_are_joined_into_copies(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asking = ["--model", "chat/mock/wren", "--out", "captions", "--quiet"]
    assert main(MAKE) == 0 and main(["caption", "shards", *asking]) == 0
    capsys.readouterr()
    join = ["shards", "join", "shards", "captions"]
    assert main([*join, "--out", "train"]) == 0
    joined, written_by, example, following = capsys.readouterr().err.splitlines()
    assert joined == "train: 2 shards with 6 captions."
    assert written_by == "captions written by chat/mock/wren (a mock that saw no photo)"
    assert example.startswith('example: "') and following == "next: fieldmark shards check train"
    assert main(["shards", "check", "train", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["extensions"]["caption.txt"] == 6
    assert main([*join, "--out", "shards"]) == 2
    assert "is the shard itself" in capsys.readouterr().err
    (place / "captions/captions/photos-00001.parquet").unlink()
    assert main([*join, "--out", "train"]) == 3
    line = "shards/photos-00001.tar has no captions in captions: caption it first."
    assert capsys.readouterr().err.splitlines()[-1].endswith(line)
    assert main(["shards", "join", "shards", "photos", "--out", "train"]) == 3
    assert "photos contains no captions: expected the folder" in capsys.readouterr().err
