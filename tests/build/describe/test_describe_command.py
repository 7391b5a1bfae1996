"""`fieldmark describe` from names to descriptions: through an API, a dump, kills and rubbish."""

from __future__ import annotations

import bz2
import json
from pathlib import Path

import polars as pl
import pytest

from fieldmark.build.describe.run import is_of_sister
from fieldmark.cli import main
from fieldmark.taxa import Taxon
from fieldmark.world.wiki import WorldPage, export_xml
from kit.chat import running
from kit.mediawiki import CONTACT, MediaWiki
from kit.mock_wiki import MockWiki, mock_pages
from kit.wiki_traps import texts_of, trap_wiki, write_names


def described(folder: Path) -> pl.DataFrame:
    return pl.read_parquet(folder / "descriptions.parquet")


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_names(tmp_path_factory.mktemp("names") / "names.csv", 2)


def test_api_and_dump_describe_alike(names: Path, tmp_path: Path) -> None:
    pages = trap_wiki(0, 2).pages
    with running(MockWiki(mock_pages(texts_of(pages)))) as url:
        command = ["describe", str(names), "--wiki", url, "--contact", CONTACT, "--wiki-rpm", "1e6"]
        assert main([*command, "--out", str(tmp_path / "api"), "--quiet"]) == 0
    dump = tmp_path / "wiki.xml.bz2"
    dump.write_bytes(bz2.compress(export_xml(
        WorldPage(title, text) for title, text in texts_of(pages).items()
    )))  # fmt: skip
    out = tmp_path / "dump"
    assert main(["describe", str(names), "--dump", str(dump), "--out", str(out), "--quiet"]) == 0
    by_api, by_dump = described(tmp_path / "api"), described(out)
    # A dump keeps no page without a taxobox, so that the reason for none is another.
    whatever = ["page_id", "revision_id", "timestamp", "url", "licence", "reason"]
    assert by_api.drop(whatever).equals(by_dump.drop(whatever))
    assert by_api.filter(status="described").height > 50
    assert by_api["key"].n_unique() == by_api.height == len(trap_wiki(0, 2).traps)


def test_kept_sentences_are_the_pages_own(names: Path, tmp_path: Path) -> None:
    with running(MockWiki(mock_pages(texts_of(trap_wiki(0, 2).pages)))) as url:
        command = ["describe", str(names), "--wiki", url, "--contact", CONTACT, "--wiki-rpm", "1e6"]
        assert main([*command, "--out", str(tmp_path), "--quiet"]) == 0
    for row in described(tmp_path).filter(status="described").to_dicts():
        kept = [row["text"][start:end] for start, end in row["spans"]]
        assert " ".join(kept) == row["description"].replace(";", "")
        assert row["page_id"] and row["revision_id"] and row["timestamp"] and row["licence"]
        assert row["url"].startswith("http://127.0.0.1/")


def test_a_real_mediawiki_is_described(mediawiki: MediaWiki, tmp_path: Path) -> None:
    made = trap_wiki(0, 2)
    mediawiki.load(mock_pages(texts_of(made.pages)))
    names = write_names(tmp_path / "names.csv", 2)
    command = ["describe", str(names), "--wiki", mediawiki.endpoint, "--contact", CONTACT]
    assert main([*command, "--wiki-rpm", "1e6", "--out", str(tmp_path), "--quiet"]) == 0
    rows = described(tmp_path).to_dicts()
    wrong = [
        (trap.kind, row["title"], row["reason"], trap.title)
        for row, trap in zip(rows, made.traps, strict=True)
        if (row["title"] or "") != trap.title
    ]
    assert len(wrong) <= 0.01 * len(rows), wrong


def test_what_was_fetched_is_not_fetched_again(tmp_path: Path) -> None:
    made = trap_wiki(0, 1)
    names = write_names(tmp_path / "names.csv", 1)
    wiki = MockWiki(mock_pages(texts_of(made.pages)))
    with running(wiki) as url:
        command = ["describe", str(names), "--wiki", url, "--contact", CONTACT, "--wiki-rpm", "1e6"]
        command += ["--out", str(tmp_path / "out"), "--quiet"]
        assert main(command) == 0
        n_first = wiki.counts.n_requests
        assert main(command) == 0
    assert wiki.counts.n_requests == n_first > 0


def test_descriptions_of_another_list_are_not_overwritten(
    names: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "describe.json").write_text('{"names": "leaves.csv", "n_taxa": 46}')
    command = ["describe", str(names), "--contact", CONTACT, "--out", str(tmp_path)]
    assert main(command) == 2
    assert capsys.readouterr().err == (
        f"fieldmark: {tmp_path} has descriptions of 46 taxa from leaves.csv: give another "
        f"--out "
        f"for names.csv. To replace them, remove {tmp_path / 'describe.json'} first.\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["describe.json"]


def test_chat_filter_by_the_mock(names: Path, tmp_path: Path) -> None:
    with running(MockWiki(mock_pages(texts_of(trap_wiki(0, 2).pages)))) as url:
        command = ["describe", str(names), "--wiki", url, "--contact", CONTACT, "--wiki-rpm", "1e6"]
        command += ["--filter", "chat/mock/wren", "--out", str(tmp_path), "--quiet"]
        assert main(command) == 0
    about = json.loads((tmp_path / "describe.json").read_text())
    assert about["filter"]["model"] == "chat/mock/wren" and about["filter"]["prompt"]
    assert about["stand_in"] == "mock", "nobody takes these words for a model's"
    rows = described(tmp_path).filter(status="described")
    assert rows.height > 50
    assert all(part in row["text"] for row in rows.to_dicts() for part in [row["description"][:20]])


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["describe"], 2, "expected names and a folder"),
        (["describe", "no.csv", "--out", "o", "--contact", CONTACT], 3, "no.csv"),
        (["describe", "names.csv", "--out", "o"], 2, "contact"),
        (["describe", "names.csv", "--out", "o", "--contact", "me@example.com"], 2, "contact"),
        (["describe", "names.csv", "--out", "o", "--offline"], 2, "--dump"),
        (["describe", "names.csv", "--out", "o", "--dump", "no.xml.bz2"], 3, "no.xml.bz2"),
        (["describe", "names.csv", "--out", "o", "--dump", "names.csv"], 3, "names.csv"),
        (["describe", "names.csv", "--out", "o", "--filter", "classical/colour"], 2, "chat model"),
        (["describe", "--judge", "names.csv"], 3, "sentence"),
    ],
)
def test_mistakes(
    words: list[str], code: int, told: str, names: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "names.csv").write_bytes(names.read_bytes())
    assert main(words) == code
    error = capsys.readouterr().err
    assert told in error and error.count("\n") == 1 and "Traceback" not in error
    assert not (tmp_path / "o" / "descriptions.parquet").exists()


def test_sentences_of_relatives_are_left_out() -> None:
    magpie = Taxon(("Animalia", "", "", "", "", "Pica", "pica"))
    left_out = ("In P. hudsonia the tail is longer.", "Pica hudsonia has a green tail.")
    kept = (
        "Pica pica is black and white, P. hudsonia has a longer tail.",
        "Pica species are black and white.",
        "P. pica melanotos has a black rump.",
        "It differs from the black-billed magpie, P. hudsonia, by its shorter tail.",
        "The head is black.",
    )
    assert all(is_of_sister(sentence, magpie) for sentence in left_out)
    assert not any(is_of_sister(sentence, magpie) for sentence in kept)
