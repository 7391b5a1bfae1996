"""From names to shards that can be trained on, offline: wiki → filter → shards → captions."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import polars as pl
import pytest
import webdataset

from fieldmark.build.shards.captions import caption_models
from fieldmark.cli import main
from fieldmark.data import load_dataset
from fieldmark.world import World
from fieldmark.world.wiki import visual_sentences, wiki_pages
from kit.chat import running
from kit.mediawiki import CONTACT
from kit.mock_wiki import MockWiki, mock_pages

N_PHOTOS = 80
TEXT_TYPES = {"sci.txt", "com.txt", "taxon.txt", "sci_com.txt", "taxon_com.txt", "caption.txt"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a stranger gave five commands."""
    folder = tmp_path_factory.mktemp("built")
    world = World(seed=0)
    load_dataset("world").make(folder / "data" / "world", world, N_PHOTOS)
    data = ["--data", f"world={folder / 'data' / 'world'}", "--quiet"]
    pages = {page.title: page.wikitext for page in wiki_pages(world).pages}
    names = str(folder / "data" / "world" / "species.csv")
    with running(MockWiki(mock_pages(pages))) as url:
        asked = ["--wiki", url, "--wiki-rpm", "1e6", "--contact", CONTACT]
        assert main(["describe", names, "--out", str(folder / "words"), *asked, "--quiet"]) == 0
    shards, out = folder / "shards", folder / "captions"
    make = ["shards", "make", "world", "--out", str(shards), "--per-shard", "30", "--split", "all"]
    assert main([*make, *data]) == 0
    command = ["caption", f"{shards}/world-{{00000..00002}}.tar", "--out", str(out)]
    command += ["--model", "chat/mock/wren", "--descriptions", str(folder / "words")]
    assert main([*command, "--quiet"]) == 0
    assert main(["shards", "join", str(shards), str(out), "--out", str(folder / "ready")]) == 0
    return folder


@pytest.mark.slow
def test_species_are_described_by_what_is_true_of_them(built: Path) -> None:
    world = World(seed=0)
    rows = pl.read_parquet(built / "words" / "descriptions.parquet").to_dicts()
    titles = wiki_pages(world).titles
    by_name = {f"{row['genus']} {row['species']}": row for row in rows}
    assert set(by_name) == {species.scientific_name for species in world.species}
    n_true = n_kept = n_visible = 0
    for species in world.species:
        row = by_name[species.scientific_name]
        assert (row["title"] or "") == titles[species.scientific_name]
        if row["status"] == "described":
            visible = visual_sentences(world, species)
            n_visible += len(visible)
            n_true += sum(sentence in row["description"] for sentence in visible)
            n_kept += len(row["spans"])
    assert n_visible > 100
    assert n_true / n_visible > 0.9, (n_true, n_visible)
    assert n_true / n_kept > 0.8, (n_true, n_kept)


def test_every_photo_has_one_outcome(built: Path) -> None:
    files = sorted((built / "captions" / "captions").glob("*.parquet"))
    captions = pl.concat(map(pl.read_parquet, files))
    assert len(files) == 3
    assert captions.select("shard", "key").n_unique() == captions.height >= N_PHOTOS - 10
    assert set(captions["status"]) <= {"ok", "rejected"}
    assert captions.filter(status="ok").height > 0.9 * captions.height


def test_a_rehearsal_says_what_it_was(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = built / "captions"
    manifests = [json.loads(path.read_text()) for path in out.rglob("*.json")]
    marks = [facts["made_from"]["stand_in"] for facts in manifests if "made_from" in facts]
    assert marks == ["mock"] * 3
    command = ["caption", str(built / "shards"), "--out", str(out), "--model", "chat/mock/wren"]
    assert main([*command, "--descriptions", str(built / "words")]) == 0
    told = "This was a rehearsal: chat/mock/wren is a mock. Do not use its captions. "
    assert f"{told}You can go on and try training with them." in capsys.readouterr().err
    files = sorted((out / "captions").glob("*.parquet"))
    wrote = "chat/mock/wren (a mock that saw no photo)"
    assert caption_models(files) == (wrote,)
    copies = str(out.parent / "copies")
    assert main(["shards", "join", str(out.parent / "shards"), str(out), "--out", copies]) == 0
    assert f"captions written by {wrote}" in capsys.readouterr().err.splitlines()
    check = ["train", "tiny", "--shards", copies, "--out", copies + "/../run", "--check"]
    assert main([*check, "--set", "train.batch=8"]) == 0
    shown = capsys.readouterr().err.splitlines()
    assert f"captions written by {wrote}" in shown
    assert any("3 shards of world" in line for line in shown)


def test_webdataset_reads_images_and_all_texts(built: Path) -> None:
    photos = {
        hashlib.sha256(path.read_bytes()).digest()
        for path in (built / "data" / "world" / "images").iterdir()
    }
    captions = pl.concat(
        pl.read_parquet(path) for path in (built / "captions" / "captions").glob("*.parquet")
    )
    wanted = {(row["shard"], row["key"]): row["caption"] for row in captions.to_dicts()}
    shards = sorted(map(str, (built / "ready").glob("*.tar")))
    n = 0
    for sample in webdataset.WebDataset(shards, shardshuffle=False):
        place = (Path(sample["__url__"]).name, sample["__key__"])
        assert hashlib.sha256(sample["jpg"]).digest() in photos
        if wanted[place]:
            assert set(sample) >= TEXT_TYPES
            assert sample["caption.txt"].decode() == wanted[place]
        n += 1
    assert n == len(wanted)
