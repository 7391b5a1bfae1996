"""Making shards: same bytes whatever happened on the way, and what readers need in every sample."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import webdataset
from PIL import Image

from fieldmark.build.shards import (
    MadeShards,
    MakeOptions,
    MemberReader,
    ShardIndex,
    ShardSource,
    check_shards,
    make_shards,
    read_samples,
    read_source,
    sample_taxon,
    shard_index,
)
from fieldmark.build.shards import make as making
from fieldmark.build.shards.items import safe_key
from fieldmark.build.taxon_list import read_taxa
from fieldmark.errors import DataError, UsageError
from fieldmark.files import part_of
from fieldmark.taxa import Taxon
from fieldmark.world import World
from kit.made import make_dataset
from kit.pictures import write_image
from kit.shards import hashes, read_by_webdataset

RANKS = {"kingdom": "Animalia", "phylum": "Chordata", "class": "Aves", "order": "Passeriformes"}
BIRDS = [("Corvus", "corax", "Common raven"), ("Pica", "pica", None), ("Turdus", "merula", "")]
N = 11


def write_photos(folder: Path, n: int = N, reverse: bool = False) -> Path:
    """A table of birds and its photos."""
    rows = []
    for number in range(n):
        genus, species, common = BIRDS[number % 3]
        write_image(folder / "photos" / f"{number}.jpg", number)
        image = f"photos/{number}.jpg"
        more = {"genus": genus, "species": species, "common_name": common}
        rows.append({"id": f"bird/{number}.x", "image": image, **RANKS, **more})
    rows = rows[::-1] if reverse else rows
    pl.DataFrame(rows, infer_schema_length=None).write_csv(folder / "birds.csv")
    return folder / "birds.csv"


def make(source: Path | str, out: Path, **options: Any) -> MadeShards:
    given = read_source(str(source), lambda name: Path(name))
    return make_shards(given, out, MakeOptions(**{"name": "birds", "per_shard": 4, **options}))


def samples_in(out: Path) -> dict[str, dict[str, bytes]]:
    return {
        key: files
        for path in sorted(out.glob("*.tar"))
        for key, files in read_by_webdataset(path).items()
    }


def test_samples_hold_the_photo_as_it_is_and_the_texts_of_treeoflife(tmp_path: Path) -> None:
    made = make(write_photos(tmp_path), tmp_path / "out")
    assert [path.name for path in made.files] == [f"birds-0000{number}.tar" for number in range(3)]
    samples = samples_in(tmp_path / "out")
    assert len(samples) == made.n_samples == N
    files = samples[safe_key("bird/0.x")]
    assert files.pop("jpg") == (tmp_path / "photos" / "0.jpg").read_bytes()
    about = json.loads(files.pop("json"))
    assert about["id"] == "bird/0.x" and about["genus"] == "Corvus" and about["species"] == "corax"
    lineage = "Animalia Chordata Aves Passeriformes Corvus corax"
    tagged = (
        "kingdom Animalia phylum Chordata class Aves order Passeriformes genus Corvus species corax"
    )
    assert {name: text.decode() for name, text in files.items()} == {
        "sci.txt": "a photo of Corvus corax.",
        "com.txt": "a photo of Common raven.",
        "taxon.txt": f"a photo of {lineage}.",
        "taxontag.txt": f"a photo of {tagged}.",
        "sci_com.txt": "a photo of Corvus corax with common name Common raven.",
        "taxon_com.txt": f"a photo of {lineage} with common name Common raven.",
        "taxontag_com.txt": f"a photo of {tagged} with common name Common raven.",
        "scientific_name.txt": "Corvus corax",
        "common_name.txt": "Common raven",
        "taxonomic_name.txt": lineage,
    }


def test_webdataset_decodes_what_was_made(tmp_path: Path) -> None:
    made = make(write_photos(tmp_path), tmp_path / "out")
    samples = webdataset.WebDataset([str(path) for path in made.files], shardshuffle=False)
    triples = list(samples.decode("pil").to_tuple("jpg", "taxontag_com.txt", "json"))
    assert len(triples) == N
    for image, text, about in triples:
        assert image.size == (24, 20) and f"genus {about['genus']} species" in text


def test_what_was_made_is_sound_and_names_its_taxa(tmp_path: Path) -> None:
    made = make(write_photos(tmp_path), tmp_path / "out")
    report = check_shards(made.files, tmp_path / "out" / "birds-index.json", has_images=True)
    assert report.is_sound and report.notes == {}
    taxa = set(taxa_in(made.files).values())
    ranks = tuple(RANKS.values())
    assert taxa == {Taxon((*ranks, "", *bird[:2]), bird[2] or "") for bird in BIRDS}  # type: ignore[arg-type]


def taxa_in(paths: list[Path]) -> dict[str, Taxon | None]:
    """Key of a sample → its taxon."""
    taxa = {}
    for path in paths:
        with MemberReader(path) as reader:
            for sample in read_samples(path):
                taxa[sample.key] = sample_taxon(sample, reader.read)
    return taxa


NAMES = {
    "Corvus corax": "Corvus corax",
    "Mentha x piperita L.": "Mentha × piperita",
    "Amanita muscaria (L.) Lam.": "Amanita muscaria",
    "VULPES VULPES": "Vulpes vulpes",
}


def test_taxa_are_those_under_which_descriptions_are_kept(tmp_path: Path) -> None:
    """Captions look them up by all ranks: `describe` reads the same table with `read_taxa`."""
    write_image(tmp_path / "a.jpg", 1)
    rows = {"image": ["a.jpg"] * len(NAMES), "scientific_name": list(NAMES)}
    pl.DataFrame(rows).with_columns(kingdom=pl.lit("plantae")).write_csv(tmp_path / "t.csv")
    taxa = taxa_in(make(tmp_path / "t.csv", tmp_path / "out").files)
    described = {taxon.key: taxon.name for taxon in read_taxa(tmp_path / "t.csv").taxa}
    assert {taxon.key: taxon.name for taxon in taxa.values() if taxon} == described
    assert sorted(described.values()) == sorted(NAMES.values())


@pytest.mark.parametrize(
    ("genus", "species", "label", "name", "common"),
    [
        ("Dasineura", "sp. 2", "x", "Dasineura", ""),
        ("Corvus", "cf. corax", "x", "Corvus", ""),
        ("", "", "white backed plant hopper", "", "white backed plant hopper"),
        ("", "", "Cat", "", "Cat"),
        ("", "", "Corvus corax", "Corvus corax", ""),
    ],
)
def test_names_are_taken_as_far_as_they_are_sure(
    tmp_path: Path, genus: str, species: str, label: str, name: str, common: str
) -> None:
    write_image(tmp_path / "a.jpg", 1)
    row = {"image": "a.jpg", "label": label, "genus": genus, "species": species}
    pl.DataFrame([row]).write_csv(tmp_path / "t.csv")
    (taxon,) = taxa_in(make(tmp_path / "t.csv", tmp_path / "out").files).values()
    assert taxon is not None and (taxon.name, taxon.common_name) == (name, common)


def test_the_order_of_rows_changes_nothing_the_seed_does(tmp_path: Path) -> None:
    make(write_photos(tmp_path / "a"), tmp_path / "1")
    make(write_photos(tmp_path / "b", reverse=True), tmp_path / "2")
    make(tmp_path / "a" / "birds.csv", tmp_path / "3", seed=1)
    assert hashes(tmp_path / "1") == hashes(tmp_path / "2") != hashes(tmp_path / "3")
    keys = [list(samples_in(tmp_path / place)) for place in ("1", "3")]
    assert keys[0] != keys[1] and sorted(keys[0]) == sorted(keys[1])


def settle() -> None:
    """Files that were just written are not relied on."""
    time.sleep(2.1)


@pytest.mark.slow
def test_finished_shards_are_kept_and_a_changed_photo_makes_its_shard_anew(tmp_path: Path) -> None:
    table, out = write_photos(tmp_path), tmp_path / "out"
    settle()
    make(table, out)
    before, times = hashes(out), {path: path.stat().st_mtime_ns for path in out.glob("*.tar")}
    assert make(table, out).n_kept == 3 and hashes(out) == before
    assert times == {path: path.stat().st_mtime_ns for path in out.glob("*.tar")}
    write_image(tmp_path / "photos" / "5.jpg", 99)
    assert make(table, out).n_kept == 2
    after = hashes(out)
    changed = {name for name in before if before[name] != after[name]}
    shard = next(path for path in times if safe_key("bird/5.x") in read_by_webdataset(path))
    assert changed == {shard.name, "birds-index.json"}
    assert (
        samples_in(out)[safe_key("bird/5.x")]["jpg"] == (tmp_path / "photos" / "5.jpg").read_bytes()
    )


@pytest.mark.slow
def test_a_shard_that_was_damaged_or_taken_away_is_made_anew(tmp_path: Path) -> None:
    table, out = write_photos(tmp_path), tmp_path / "out"
    settle()
    make(table, out)
    before = hashes(out)
    data = bytearray((out / "birds-00000.tar").read_bytes())
    data[700] ^= 1
    (out / "birds-00000.tar").write_bytes(data)
    (out / "birds-00001.tar").unlink()
    assert make(table, out).n_kept == 1
    assert hashes(out) == before


@pytest.mark.parametrize("change", [{"per_shard": 6}, {"seed": 2}, {"max_px": 8}])
def test_other_options_leave_nothing_of_the_old_set(tmp_path: Path, change: dict[str, Any]) -> None:
    table = write_photos(tmp_path)
    make(table, tmp_path / "out")
    make(table, tmp_path / "out", **change)
    make(table, tmp_path / "fresh", **change)
    assert hashes(tmp_path / "out") == hashes(tmp_path / "fresh")


def _made_of_labels(tmp_path: Path, labels: list[str]) -> tuple[MadeShards, set[str]]:
    for number, label in enumerate(labels):
        write_image(tmp_path / "photos" / label / "0.jpg", number)
    made = make(tmp_path / "photos", tmp_path / "out")
    return made, {files["sci.txt"].decode() for files in samples_in(tmp_path / "out").values()}


def test_plain_words_are_not_genus_and_species(tmp_path: Path) -> None:
    """Two words of lower case after a capital have the form of a name with three parts."""
    labels = ["Corn rust leaf", "Apple leaf", "Tomato Early blight leaf", "Common raven"]
    made, texts = _made_of_labels(tmp_path, labels)
    assert made.chosen.scientific_labels == ()
    assert made.chosen.common_labels == tuple(sorted(labels))
    assert texts == {f"a photo of {label}." for label in labels}


def test_a_few_epithets_that_are_no_latin_change_nothing(tmp_path: Path) -> None:
    labels = ["Prunus mahaleb", "Pica pica", "Corvus corax", "Turdus merula", "Weed"]
    made, texts = _made_of_labels(tmp_path, labels)
    assert made.chosen.scientific_labels == tuple(sorted(labels[:4]))
    assert made.chosen.common_labels == ("Weed",)
    assert "a photo of Prunus mahaleb." in texts


def test_a_label_that_changes_is_in_the_shard(tmp_path: Path) -> None:
    table = write_photos(tmp_path)
    make(table, tmp_path / "out")
    table.write_text(table.read_text().replace("Common raven", "Raven"))
    make(table, tmp_path / "out")
    assert samples_in(tmp_path / "out")[safe_key("bird/0.x")]["common_name.txt"] == b"Raven"


# --- photos ---


def test_large_photos_are_shrunk_only_when_asked(tmp_path: Path) -> None:
    table = write_photos(tmp_path)
    write_image(tmp_path / "photos" / "0.jpg", 1, size=(90, 60))
    make(table, tmp_path / "out", max_px=30)
    samples = samples_in(tmp_path / "out")
    (tmp_path / "small.jpg").write_bytes(samples[safe_key("bird/0.x")]["jpg"])
    assert Image.open(tmp_path / "small.jpg").size == (30, 20)
    untouched = (tmp_path / "photos" / "1.jpg").read_bytes()
    assert samples[safe_key("bird/1.x")]["jpg"] == untouched


def test_extensions_follow_the_content(tmp_path: Path) -> None:
    table = write_photos(tmp_path)
    png = write_image(tmp_path / "a.png", 1)
    shutil.copy(png, tmp_path / "photos" / "0.jpg")
    make(table, tmp_path / "out")
    assert samples_in(tmp_path / "out")[safe_key("bird/0.x")]["png"] == png.read_bytes()


def test_crops_are_cut_out(tmp_path: Path) -> None:
    """Two animals on one photo are two samples."""
    image = Image.new("RGB", (60, 40), "white")
    image.paste("red", (0, 0, 20, 40))
    image.save(tmp_path / "a.png")
    rows = {"id": ["left", "right", "whole"], "image": ["a.png"] * 3, "split": [None] * 3}
    crops = [[0.0, 0.0, 20.0, 40.0], [20.0, 0.0, 40.0, 30.0], None]
    table = pl.DataFrame({**rows, "crop": crops, "label": ["Corvus corax"] * 3})
    source = ShardSource("boxes", tmp_path, table)
    make_shards(source, tmp_path / "out", MakeOptions("boxes"))
    samples = samples_in(tmp_path / "out")
    assert samples["whole"]["png"] == (tmp_path / "a.png").read_bytes()
    sizes = {}
    for key in ("left", "right"):
        with Image.open(io.BytesIO(samples[key]["jpg"])) as cut:
            sizes[key] = (cut.size, cut.getpixel((5, 5))[1] > 200)
    assert sizes == {"left": ((20, 40), False), "right": ((40, 30), True)}
    assert json.loads(samples["right"]["json"])["crop"] == [20, 0, 40, 30]


@pytest.mark.slow
def test_bad_photos_stop_the_work_or_are_left_out_by_name(tmp_path: Path) -> None:
    table, out = write_photos(tmp_path), tmp_path / "out"
    photo = tmp_path / "photos" / "3.jpg"
    photo.write_bytes(photo.read_bytes()[:-30])
    with pytest.raises(DataError, match=r"photos/3.jpg  is cut off.*--bad-images skip"):
        make(table, out)
    assert not (out / "birds-index.json").exists()
    made = make(table, out, skips_bad=True)
    assert made.n_samples == N - 1
    assert made.bad == [("photos/3.jpg", "is cut off: the JPEG has no end marker")]
    settle()
    make(table, out, skips_bad=True)
    assert make(table, out, skips_bad=True).bad == made.bad  # also when the shard is kept
    with pytest.raises(DataError, match=r"photos/3.jpg"):
        make(table, out)


def test_missing_photos_are_named_before_anything_is_written(tmp_path: Path) -> None:
    table = write_photos(tmp_path)
    (tmp_path / "photos" / "3.jpg").unlink()
    with pytest.raises(DataError, match=r"1 of 11 image files are missing \(.*3.jpg\)"):
        make(table, tmp_path / "out")
    assert not list((tmp_path / "out").glob("*.tar"))
    assert make(table, tmp_path / "out", skips_bad=True).n_samples == N - 1


def test_photos_that_are_listed_twice(tmp_path: Path) -> None:
    """For one taxon once; for two taxa twice, since nobody knows which is right."""
    table = write_photos(tmp_path)
    with table.open("a") as file:
        file.write(
            "again,photos/0.jpg,Animalia,Chordata,Aves,Passeriformes,Corvus,corax,Common raven\n"
        )
        file.write("other,photos/0.jpg,Animalia,Chordata,Aves,Passeriformes,Pica,pica,\n")
        file.write("nameless,photos/1.jpg,,,,,,,\n")
    made = make(table, tmp_path / "out")
    counts = (made.chosen.n_repeated, made.chosen.n_contradicting, made.chosen.n_nameless)
    assert counts == (1, 1, 1) and made.n_samples == N + 1


def test_keys_are_safe_and_never_meet() -> None:
    ids = ["a", "a.b", "a_b", "a/b", "ä", "", "x" * 300, "x" * 301, "__a__", safe_key("a.b")]
    keys = [safe_key(item) for item in ids]
    assert len(set(keys)) == len(ids)
    assert all(set(key).isdisjoint("./ ") and key.isascii() and len(key) < 100 for key in keys)


# --- sources ---


@pytest.mark.parametrize("name", ["world", "rarespecies", "folder", "csv"])
def test_datasets_of_the_package_become_shards(tmp_path: Path, name: str) -> None:
    """Photos of `rarespecies` lie in Parquet files."""
    root = tmp_path / name
    root.mkdir()
    make_dataset(name, root, 24, World(seed=3))
    source = read_source(name, lambda _: root)
    made = make_shards(source, tmp_path / "out", MakeOptions(name, per_shard=10))
    assert check_shards(made.files, has_images=True).is_sound
    (key, files), *_ = samples_in(tmp_path / "out").items()
    assert len(files["scientific_name.txt"].split()) == 2 and "." not in key


def test_a_split_is_chosen(tmp_path: Path) -> None:
    """Training photos, unless others are asked for: a model is tested with the rest."""
    make_dataset("folder", tmp_path / "set", 24, World(seed=3))
    every, test = (make(tmp_path / "set", tmp_path / name, split=name) for name in ("all", "test"))
    made = make(tmp_path / "set", tmp_path / "train")
    assert made.n_samples + test.n_samples == every.n_samples > test.n_samples > 0
    assert made.chosen.n_other_splits == test.n_samples
    samples = samples_in(tmp_path / "train").values()
    assert {json.loads(files["json"])["split"] for files in samples} == {"train"}
    shutil.rmtree(tmp_path / "set" / "train")
    with pytest.raises(UsageError, match="--split train: set has test. Name one with --split, or"):
        make(tmp_path / "set", tmp_path / "3")
    shutil.copytree(tmp_path / "set" / "test", tmp_path / "set" / "train")
    with pytest.raises(UsageError, match="--split dev: set has test, train"):
        make(tmp_path / "set", tmp_path / "3", split="dev")


@pytest.mark.slow
def test_a_column_of_captions_becomes_a_member(tmp_path: Path) -> None:
    table = write_photos(tmp_path)
    words = [f" A black bird,\n number {number}. " if number % 3 else None for number in range(N)]
    rows = pl.read_csv(table).with_columns(seen=pl.Series(words))
    rows.write_csv(table)
    settle()
    made = make(table, tmp_path / "out", caption="seen")
    samples = samples_in(tmp_path / "out")
    assert samples[safe_key("bird/1.x")]["caption.txt"] == b"A black bird, number 1."
    assert "caption.txt" not in samples[safe_key("bird/0.x")]
    assert made.chosen.n_captions == sum("caption.txt" in files for files in samples.values()) == 7
    assert check_shards(made.files).is_sound
    assert make(table, tmp_path / "out", caption="seen").n_kept == 3
    rows.with_columns(pl.col("seen").str.replace("number 1\\.", "one")).write_csv(table)
    assert make(table, tmp_path / "out", caption="seen").n_kept == 2
    assert make(table, tmp_path / "out").chosen.n_captions == 0
    with pytest.raises(UsageError, match="--caption  caption column 'sen' .* Did you mean 'seen'"):
        make(table, tmp_path / "out", caption="sen")


def test_a_folder_with_shards_of_others_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "birds-00000.tar").write_bytes(b"mine")
    with pytest.raises(DataError, match="did not write"):
        make(write_photos(tmp_path), tmp_path / "out")
    assert [path.read_bytes() for path in (tmp_path / "out").iterdir()] == [b"mine"]


def test_shards_of_a_larger_set_that_was_killed_are_removed(tmp_path: Path) -> None:
    """Its last shard had a name already, but no note of what it is."""
    table, out = write_photos(tmp_path), tmp_path / "out"
    make(table, out, per_shard=1)
    (out / "manifest" / "birds-00007.json").write_bytes(b"{}")
    make(table, out)
    make(table, tmp_path / "clean")
    assert hashes(out) == hashes(tmp_path / "clean")


def test_a_source_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="Did you mean 'world'"):
        read_source("wrld", lambda name: Path(name))
    with pytest.raises(DataError, match="does not exist"):
        read_source("photos/birds.csv", lambda name: Path(name))


def test_stopped_between_the_shard_and_its_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, out = write_photos(tmp_path), tmp_path / "out"
    write_whole = making.write_file

    def stop_at_notes(path: Path, data: bytes, is_durable: bool = False) -> None:
        if b"recipe" in data:
            raise KeyboardInterrupt
        write_whole(path, data, is_durable)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(making, "write_file", stop_at_notes)
        make(table, out)
    assert [path.name for path in out.glob("*.tar")] == ["birds-00000.tar"]
    assert make(table, out).n_kept == 0


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    names = ["birds-00001.tar", "birds-b-00001.tar", "birds.tar"]
    parts = [part_of(tmp_path / "out" / name) for name in names]
    for part in (*parts, tmp_path / "out" / ".birds-00001.tar.part"):
        part.write_bytes(b"half")
    make(write_photos(tmp_path), tmp_path / "out")
    left = {path.name for path in (tmp_path / "out").glob(".*")}
    assert left == {parts[1].name, parts[2].name, ".birds-00001.tar.part"}


def test_an_index_never_outlives_its_shards(tmp_path: Path) -> None:
    table, out = write_photos(tmp_path), tmp_path / "out"
    make(table, out)
    (tmp_path / "photos" / "3.jpg").write_bytes(b"")
    with pytest.raises(DataError, match=r"3.jpg  is empty"):
        make(table, out)
    assert not (out / "birds-index.json").exists()


def test_a_disk_that_changes_bits_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_from_bad_disk(path: Path) -> ShardIndex:
        data = bytearray(path.read_bytes())
        data[600] ^= 1
        path.write_bytes(data)
        return shard_index(path)

    monkeypatch.setattr(making, "shard_index", read_from_bad_disk)
    with pytest.raises(DataError, match="does not read back as it was written"):
        make(write_photos(tmp_path), tmp_path / "out")
    assert not list((tmp_path / "out").glob("*.tar"))


# --- full disks, and two at once ---


@pytest.mark.slow
def test_a_full_disk_is_told_in_one_line_and_finished_shards_stay(tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk."""
    table, out = write_photos(tmp_path), tmp_path / "out"
    write_image(tmp_path / "photos" / "7.jpg", 7, size=(900, 900))
    make(table, tmp_path / "clean")
    words = f"{sys.executable} -B -m fieldmark shards make {table} --out {out} --per-shard 4"
    done = subprocess.run(f"ulimit -f 200; {words}", shell=True, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 3 and done.stderr.count("\n") == 1
    assert "cannot be written: File too large." in done.stderr
    clean, seen = hashes(tmp_path / "clean"), hashes(out)
    assert seen == {name: clean[name] for name in seen} and not list(out.glob(".*.part"))
    make(table, out)
    assert hashes(out) == clean


@pytest.mark.slow
def test_two_processes_do_not_make_the_same_shards(tmp_path: Path) -> None:
    table, out = write_photos(tmp_path, n=60), tmp_path / "out"
    words = [sys.executable, "-m", "fieldmark", "shards", "make", str(table), "--out", str(out)]
    processes = [
        subprocess.Popen([*words, "--per-shard", "1"], stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    errors = [process.communicate()[1] for process in processes]
    codes = sorted(process.returncode for process in processes)
    assert codes in ([0, 0], [0, 3])
    assert codes == [0, 0] or any("another process is making" in text for text in errors)
    assert len(list(out.glob("*.tar"))) == 60
