"""Names to pages: the traps through the mock wiki, a real MediaWiki and a dump; requests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from fieldmark.build.describe.resolve import REASONS, Resolution, resolve
from fieldmark.build.wiki.api import Etiquette, WikiApi
from fieldmark.build.wiki.dump import read_dump
from fieldmark.build.wiki.store import PageStore
from fieldmark.progress import Silent
from fieldmark.taxa import Taxon
from fieldmark.world import World
from fieldmark.world.wiki import export_xml, wiki_pages
from kit.chat import running
from kit.fault_proxy import LeapClock
from kit.mediawiki import CONTACT, MediaWiki
from kit.mock_wiki import MockWiki, mock_pages
from kit.wiki_traps import trap_wiki
from kit.wiki_world import answer_of, as_taxa, as_wiki_pages, wrong_answers

ETIQUETTE = Etiquette(clock=LeapClock().clock)
RAVEN = ("Animalia", "Chordata", "Aves", "Passeriformes", "Corvidae", "Corvus", "corax")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[PageStore]:
    with PageStore.open(tmp_path / "pages.db") as store:
        yield store


def resolved(
    taxa: Sequence[Taxon], store: PageStore, endpoint: str
) -> tuple[list[Resolution], int]:
    """Resolutions and the number of requests."""
    with WikiApi(endpoint, CONTACT, ETIQUETTE) as api:
        return list(resolve(taxa, store, api, Silent())), api.n_requests


def lookup(texts: dict[str, str], *taxa: Taxon, path: Path) -> list[str]:
    """What comes of taxa in a wiki of these texts."""
    wiki = MockWiki(mock_pages(texts))
    with running(wiki) as url, PageStore.open(path / "pages.db") as store:
        return [answer_of(one) for one in resolved(taxa, store, url)[0]]


# --- traps ---


@pytest.mark.parametrize("seed", [0, 1])
def test_traps_through_the_api(store: PageStore, seed: int) -> None:
    trapped = trap_wiki(seed)
    taxa = as_taxa(trapped.traps)
    assert len(taxa) > 200
    assert {trap.reason for trap in trapped.traps} >= REASONS.keys() - {"not_a_name"}
    with running(MockWiki(as_wiki_pages(trapped.pages))) as url:
        answers, _ = resolved(taxa, store, url)
    wrong = wrong_answers(trapped.traps, answers)
    assert len(wrong) <= 0.01 * len(taxa), wrong
    again = list(resolve(taxa, store, None, Silent()))
    assert again == answers, "the store alone decides"


@pytest.mark.slow
def test_traps_through_a_real_wiki(store: PageStore, mediawiki: MediaWiki) -> None:
    trapped = trap_wiki(seed=5, n_each=2)
    mediawiki.load(as_wiki_pages(trapped.pages))
    answers, _ = resolved(as_taxa(trapped.traps), store, mediawiki.endpoint)
    assert len(answers) > 100
    wrong = wrong_answers(trapped.traps, answers)
    assert len(wrong) <= 0.01 * len(answers), wrong


def test_traps_through_a_dump(store: PageStore, tmp_path: Path) -> None:
    """The same pages; reasons are fewer, since pages that are about no taxon are not kept."""
    trapped = trap_wiki()
    path = tmp_path / "dump.xml"
    path.write_bytes(export_xml(trapped.pages))
    read_dump(path, store, Silent())
    answers = list(resolve(as_taxa(trapped.traps), store, None, Silent()))
    titles = [one.page.title if one.page is not None else "" for one in answers]
    assert titles == [trap.title for trap in trapped.traps]


def unkempt(wikitext: str) -> str:
    """The same page as other editors write it: comments, references, spaces, templates above."""
    if wikitext.startswith("#"):
        return wikitext
    ref = "<!-- or: | genus = Aus --><ref name=z>{{cite web|title=''Aus bus''|a=[[b|c]]}}</ref>"
    text = re.sub(r"^\| (genus|species|taxon|binomial) = (.*\S)", rf"|\1=  \2 {ref}", wikitext,
                  flags=re.MULTILINE)  # fmt: skip
    text = re.sub(r"\{\{(Speciesbox|Taxobox|Automatic taxobox)\n", r"{{ \1 \n", text)
    above = "{{Short description|One}}\n{{Infobox event|a={{b|c=[[d|e]]}}|genus=Xus}}\n"
    return (above + text).replace("\n", "\r\n")


def test_traps_as_other_editors_write_them(store: PageStore) -> None:
    trapped = trap_wiki(seed=2, n_each=2)
    pages = [replace(page, wikitext=unkempt(page.wikitext)) for page in trapped.pages]
    with running(MockWiki(as_wiki_pages(pages))) as url:
        answers, _ = resolved(as_taxa(trapped.traps), store, url)
    assert wrong_answers(trapped.traps, answers) == []


# --- the world's species ---


@pytest.mark.slow
def test_thousand_names_take_few_requests(store: PageStore) -> None:
    world = World(n_species=1000)
    wiki = wiki_pages(world)
    taxa = [
        Taxon(tuple(species.ranks.values()), species.common_name)  # type: ignore[arg-type]
        for species in world.species
    ]
    with running(MockWiki(as_wiki_pages(wiki.pages))) as url:
        answers, n_requests = resolved(taxa, store, url)
        again, n_more = resolved(taxa, store, url)
    titles = [one.page.title if one.page else "" for one in answers]
    assert titles == [wiki.titles[taxon.name] for taxon in taxa]
    assert n_requests <= 0.1 * len(taxa)
    assert (again, n_more) == (answers, 0), "nothing is asked for twice"


def test_parts_of_a_list_give_what_the_list_gives(store: PageStore) -> None:
    """Homonyms are known from the whole list."""
    trapped = trap_wiki(n_each=1)
    taxa = as_taxa(trapped.traps)
    with running(MockWiki(as_wiki_pages(trapped.pages))) as url:
        whole, _ = resolved(taxa, store, url)
    parts = [
        one
        for taxon in reversed(taxa)
        for one in resolve([taxon], store, None, Silent(), among=taxa)
    ]
    assert parts[::-1] == whole


# --- single rules ---


def box(genus: str, species: str, **more: str) -> str:
    fields = "".join(f"|{name}={value}\n" for name, value in more.items())
    return f"{{{{Speciesbox\n|genus={genus}\n|species={species}\n{fields}}}}}\nBlack."


def test_what_is_asked_for(tmp_path: Path, store: PageStore) -> None:
    """Never more than its names; the genus only where nothing else led to a page."""
    wiki = MockWiki(mock_pages({"Corvus corax": box("Corvus", "corax")}))
    with running(wiki) as url:
        resolved([Taxon(RAVEN, "Common Raven"), Taxon((*RAVEN[:6], "alter"))], store, url)
    assert wiki.titles == [
        ["Corvus corax", "Corvus alter"],
        ["Template:Taxonomy/Corvus", "Corvus"],
    ]


def test_ranks_that_are_not_known_refuse_nothing(tmp_path: Path) -> None:
    texts = {"Corvus corax": box("Corvus", "corax")}
    bare = Taxon(("", "", "", "", "", "Corvus", "corax"))
    assert lookup(texts, bare, Taxon(RAVEN), path=tmp_path) == ["Corvus corax"] * 2


def test_homonyms_that_cannot_be_told_apart_have_no_page(tmp_path: Path) -> None:
    """Both have the box's name, and the wiki does not say which one is meant."""
    beetle = Taxon(("Animalia", "Arthropoda", "Insecta", "Coleoptera", "Aidae", "Corvus", "corax"))
    texts = {"Corvus corax": box("Corvus", "corax")}
    assert lookup(texts, Taxon(RAVEN), beetle, path=tmp_path) == ["other_taxon"] * 2


def test_phylum_tells_animals_apart(tmp_path: Path) -> None:
    """A name that stands once in the list, while the wiki knows it as another animal."""
    old = "{{Taxobox|regnum=Animalia|phylum=Mollusca|familia=Aidae|binomial=''Corvus corax''}}"
    worm = Taxon(("Animalia", "Annelida", "", "", "", "Corvus", "corax"))
    texts = {"Corvus corax": old}
    assert lookup(texts, Taxon(RAVEN), path=tmp_path / "a") == ["other_taxon"]
    assert lookup(texts, worm, path=tmp_path / "b") == ["other_taxon"]


@pytest.mark.parametrize("ranks", [("", "", "", "", "", "", ""), ("", "", "", "", "", "A[b]", "c")])
def test_rows_without_a_name(ranks: tuple[str, ...], store: PageStore) -> None:
    (one,) = resolve([Taxon(ranks)], store, None, Silent())  # type: ignore[arg-type]
    assert one.page is None and one.reason == f"not_a_name: {REASONS['not_a_name']}"


def test_classification_that_runs_in_circles(tmp_path: Path) -> None:
    def level(name: str, text: str) -> tuple[str, str]:
        return f"Template:Taxonomy/{name}", f"{{{{Don't edit this line {{{{{{m|}}}}}}\n{text}}}}}"

    texts = dict(
        [
            ("Corvus corax", box("Corvus", "corax")),
            level("Corvus", "|rank=genus|parent=Aus"),
            level("Aus", "|same_as=Bus|rank=familia"),
            level("Bus", "|same_as=Aus|parent=Corvus"),
        ]
    )
    assert lookup(texts, Taxon(RAVEN), path=tmp_path) == ["Corvus corax"]
