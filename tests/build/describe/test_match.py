"""Names that are the same, and ranks that fit."""

from __future__ import annotations

import pytest

from fieldmark.build.describe.match import OPEN, OTHER_KINGDOM, OTHER_TAXON, SAME, match_ranks
from fieldmark.taxa import Taxon
from fieldmark.taxa import same_name as same

RAVEN = Taxon(("Animalia", "Chordata", "Aves", "Passeriformes", "Corvidae", "Corvus", "corax"))
RAVEN_LINES = [("genus", "Corvus"), ("family", "Corvidae"), ("order", "Passeriformes")]
UP = [("class", "Aves"), ("phylum", "Chordata"), ("kingdom", "Animalia")]
BEETLE = [("family", "Aidae"), ("order", "Coleoptera"), ("class", "Insecta")]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Mentha × piperita", "Mentha piperita"),
        ("Aus bus var. cus", "Aus bus cus"),
        ("Isoëtes lacustris", "Isoetes lacustris"),
        ("Aus mülleri", "Aus muelleri"),
        ("Aus smithii", "Aus smithi"),
        ("Aus niger", "Aus nigra"),
        ("Aus vulgaris", "Aus vulgare"),
        ("Aus sylvestris", "Aus silvestris"),
        ("Aus caeruleus", "Aus coeruleus"),
    ],
)
def test_spellings_of_one_name(one: str, other: str) -> None:
    assert same(one, other) and same(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Aus bus", "Aus bus bus"),
        ("Aus smithi", "Aus smithae"),
        ("Aus alba", "Bus alba"),
        ("Aus minor", "Aus minimus"),
        ("Aus bicolor", "Aus tricolor"),
        ("Aus", "Ausa"),
        ("", ""),
    ],
)
def test_names_that_differ(one: str, other: str) -> None:
    assert not same(one, other) and not same(other, one)


@pytest.mark.parametrize(
    ("lineage", "strict", "verdict"),
    [
        (RAVEN_LINES[:1], False, OPEN),
        (RAVEN_LINES[:2], False, SAME),
        (RAVEN_LINES[:2], True, SAME),
        ([("family", "Aidae"), ("clade", "Passeriformes")], True, SAME),
        ([("family", "Aidae"), ("order", "Aiformes"), UP[0]], False, SAME),
        ([("family", "Aidae"), ("order", "Aiformes"), *UP], True, OTHER_TAXON),
        ([*BEETLE, ("phylum", "Arthropoda")], False, OPEN),
        ([*BEETLE, ("phylum", "Arthropoda"), ("kingdom", "Metazoa")], False, OTHER_TAXON),
        ([("family", "Aaceae"), ("clade", "Angiosperms"), ("kingdom", "Plantae")], False,
         OTHER_KINGDOM),
        ([("family", "Aaceae"), ("kingdom", "Chromista")], False, SAME),
    ],
)  # fmt: skip
def test_ranks(lineage: list[tuple[str, str]], strict: bool, verdict: str) -> None:
    assert match_ranks(RAVEN, lineage, is_homonym=strict) == verdict


def test_a_redirect_alone_needs_the_family() -> None:
    assert match_ranks(RAVEN, RAVEN_LINES[:2], needs_family=True) == SAME
    other = [("family", "Aidae"), *RAVEN_LINES[2:], *UP]
    assert match_ranks(RAVEN, other, needs_family=True) == OTHER_TAXON
    bare = Taxon(("Animalia", "", "", "", "", "Corvus", "corax"))
    assert match_ranks(bare, other, needs_family=True) == SAME


@pytest.mark.parametrize("name", ["Bacteria", "Archaea"])
def test_genera_with_the_names_of_kingdoms(name: str) -> None:
    insect = Taxon(("Animalia", "", "", "", "", name, "aurita"))
    assert match_ranks(insect, [("genus", name), ("family", "Aidae")]) == OPEN
    lineage = [("genus", name), ("family", "Aidae"), ("kingdom", "Animalia")]
    assert match_ranks(insect, lineage) == SAME
    assert match_ranks(insect, [("genus", "Aus"), ("domain", name)]) == OTHER_KINGDOM
