"""Synthetic encyclopedia: the world's species as pages of a wiki, in the wikitext of real ones.

A page has a taxobox, a lead, and sections in which what can be seen stands between measurements,
behaviour, range and the history of the name. Titles are as in nature: most pages carry the
binomial, a sixth the common name, those of a genus' only species that of the genus, some species
have none. `Template:Taxonomy/…` pages lead from each genus up to its kingdom.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from fieldmark.taxa import RANKS
from fieldmark.world.rng import Rng
from fieldmark.world.species import Species
from fieldmark.world.world import World

LATIN_RANKS = dict(
    zip(RANKS, ("regnum", "phylum", "classis", "ordo", "familia", "genus", "species"), strict=True)
)
"""as taxoboxes and taxonomy templates call the ranks"""
_NO_PAGE, _COMMON_NAME = 0.1, 0.17
"""shares of species without a page, and of pages under the common name"""
_ABOVE = {"Animalia": "Eukaryota", "Plantae": "Archaeplastida", "Fungi": "Opisthokonta",
          "Chromista": "SAR"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class WorldPage:
    """A page to load into a wiki; the text of a redirect begins with `#REDIRECT`."""

    title: str
    wikitext: str
    is_disambiguation: bool = False
    """as page property, whether or not the text has a template that says so"""
    wikidata: str = ""


@dataclass(frozen=True, slots=True)
class WorldWiki:
    """All pages, in order, and what is true of them."""

    pages: tuple[WorldPage, ...]
    titles: Mapping[str, str]
    """scientific name → title of its page; "" = it has none"""


def wiki_pages(world: World) -> WorldWiki:
    """The world's encyclopedia."""
    genera: dict[str, list[Species]] = {}
    for species in world.species:
        genera.setdefault(species.ranks["genus"], []).append(species)
    pages: dict[str, WorldPage] = {}
    titles: dict[str, str] = {}
    for genus, members in genera.items():
        if len(members) > 1:
            names = [species.scientific_name for species in members]
            pages[genus] = WorldPage(genus, genus_text(members[0].ranks, names))
        for species in members:
            title = _title(world, species, len(members) == 1)
            titles[species.scientific_name] = title
            for page in _pages_of(world, species, title):
                pages.setdefault(page.title, page)
    return WorldWiki(tuple(pages.values()), titles)


def _title(world: World, species: Species, is_only: bool) -> str:
    rng = Rng(world.seed, "wiki title", species.index)
    if rng.chance(_NO_PAGE):
        return ""
    if is_only:
        return species.ranks["genus"]
    is_common = rng.chance(_COMMON_NAME)
    return sentence_case(species.common_name) if is_common else species.scientific_name


def _pages_of(world: World, species: Species, title: str) -> Iterable[WorldPage]:
    yield from taxonomy_pages(species.ranks)
    if not title:
        return
    yield WorldPage(title, article(world, species), wikidata=f"Q{9000 + species.index}")
    for name in (species.scientific_name, sentence_case(species.common_name)):
        if name != title:
            yield redirect(name, title)


def sentence_case(text: str) -> str:
    return text[:1].upper() + text[1:]


# --- pieces of wikitext ---


def template(name: str, values: Mapping[str, str]) -> str:
    """
    >>> template("Speciesbox", {"genus": "Corvus"})
    '{{Speciesbox\\n| genus = Corvus\\n}}'
    """
    lines = [f"| {key} = {value}" for key, value in values.items()]
    return "\n".join([f"{{{{{name}", *lines, "}}"])


def redirect(title: str, target: str) -> WorldPage:
    return WorldPage(title, f"#REDIRECT [[{target}]]\n\n{{{{R from scientific name}}}}")


def taxonomy_pages(ranks: Mapping[str, str], genus_key: str = "") -> list[WorldPage]:
    """From the genus up, one page a level, with levels between the ranks as real ones have.

    `genus_key` is the name of the genus' page where two genera share theirs: `Abronia (plant)`.
    """
    steps = [(LATIN_RANKS[rank], ranks[rank]) for rank in reversed(RANKS[:-1]) if ranks[rank]]
    levels = [(latin, genus_key if latin == "genus" and genus_key else name)
              for latin, name in steps]  # fmt: skip
    if ranks["order"]:
        levels.insert(2, ("subordo", f"{ranks['order']}oidei"))
    if ranks["phylum"]:
        levels.insert(-2, ("clade", f"Eu{ranks['phylum'].lower()}"))
    above = _ABOVE.get(ranks["kingdom"], "Life")
    parents = [*[name for _, name in levels[1:]], above]
    return [
        taxonomy_page(name, latin, parent)
        for (latin, name), parent in zip(levels, parents, strict=True)
    ]


def taxonomy_page(name: str, latin_rank: str, parent: str) -> WorldPage:
    link = re.sub(r"^(.*) \((.*)\)$", r"\1 (\2)|\1", name)
    text = (
        "{{Don't edit this line {{{machine code|}}}\n"
        f"|rank={latin_rank}\n|link={link}\n|parent={parent}\n"
        "|refs=<!--Shown on this page only; don't include <ref> tags here -->\n}}\n"
    )
    return WorldPage(f"Template:Taxonomy/{name}", text)


def genus_text(ranks: Mapping[str, str], species: Sequence[str], key: str = "") -> str:
    """The page of a genus: an automatic taxobox with its species below."""
    names = [f"| ''[[{name}]]'' | [[Olm]], 1871" for name in species]
    box = template(
        "Automatic taxobox",
        {
            "taxon": key or ranks["genus"],
            "authority": "[[Olm (naturalist)|Olm]], 1869",
            "subdivision_ranks": "[[Species]]",
            "subdivision": "{{Species list\n" + "\n".join(names) + "\n}}",
        },
    )
    return (
        f"{box}\n'''''{ranks['genus']}''''' is a [[genus]] of the family [[{ranks['family']}]]. "
        f"It holds {len(names)} [[species]].<ref>{{{{cite book|title=Index|year=1990}}}}</ref>\n\n"
        "==References==\n{{reflist}}\n"
    )


# --- the article of a species ---


@dataclass(frozen=True, slots=True)
class _Statement:
    """A sentence of an article, and whether it speaks of what can be seen."""

    section: str
    text: str
    is_visual: bool = False


def visual_sentences(world: World, species: Species) -> list[str]:
    """The article's sentences about appearance, as plain text, in page order."""
    return [_plain(part.text) for part in _parts(world, species) if part.is_visual]


def article(world: World, species: Species) -> str:
    """The wikitext of a species' page."""
    parts = _parts(world, species)
    sections = list(dict.fromkeys(part.section for part in parts))
    lines = [_head(world, species)]
    for section in sections:
        text = " ".join(part.text for part in parts if part.section == section)
        lines += [section, text] if section else [text]
        lines.append("")
    lines += ["==References==", "{{reflist}}", "", "{{Taxonbar|from=Q1}}", ""]
    return "\n".join([*lines, f"[[Category:{species.ranks['family']}]]"])


def _head(world: World, species: Species) -> str:
    """Templates above the lead: most boxes are speciesboxes, some are of the old kind."""
    rng = Rng(world.seed, "wiki box", species.index)
    ranks, author = species.ranks, f"[[{rng.choice(_PEOPLE)}]], {1758 + rng.below(200)}"
    about = {
        "name": sentence_case(species.common_name),
        "image": f"{species.ranks['genus']} {rng.below(90)}.jpg",
        "image_caption": "In [[captivity]], {{circa|1990}}",
        "status": "LC",
        "status_ref": '<ref name="iucn">{{cite iucn |year=2019 |title=Status}}</ref>',
    }
    if rng.chance(0.25):
        short = f"'''''{ranks['genus'][0]}. {ranks['species']}'''''"
        links = {LATIN_RANKS[rank]: f"[[{ranks[rank]}]]" for rank in RANKS[:6]}
        more = {"species": short, "binomial": f"''{species.scientific_name}''"}
        box = template("Taxobox", {**about, **links, **more, "binomial_authority": author})
    else:
        names = {"genus": ranks["genus"], "species": ranks["species"], "authority": author}
        box = template("Speciesbox", {**about, **names})
    return f"{{{{Short description|Species of {species.plan.name}}}}}\n{box}"


_PEOPLE = ("Ada Olm", "Johan Vesk", "M. T. Arrand", "Lio Sund")
_BEHAVIOUR = (
    "It feeds mainly on {diet}, most often in the first hours after rain.",
    "Pairs stay together and defend a territory of about {{{{convert|{n}|ha}}}}.",
    "The yellow fever of {region} was once wrongly blamed on it.",
    "Records of white herons feeding beside it come from a single valley.",
    "Its call resembles that of the black kite, and is heard at dusk.",
)  # fmt: skip
_HISTORY = (
    "The species was first described in {year} by [[{person}]], who named it after his red house.",
    "A study of {n} genes placed it beside the brown-backed group of the same family.<ref>{{{{cite"
    " journal|title=Genes of [[{region}]]|year=2011}}}}</ref>",
    "The epithet is [[Latin]]; the type was collected on a green hill in {year}.",
)
_MEASURES = (
    'The largest of {n} specimens measured {{{{convert|{size}|cm|in|abbr=on}}}}.<ref name="m" />',
    "Weights between {{{{convert|{n}|g|oz}}}} and twice as much have been published.",
    "Its genome has {n} chromosomes.",
)
_RANGE = (
    "It is found from sea level to {{{{convert|{n}00|m|ft}}}} and is common in parks.",
    "The population of {region} fell by {n}&nbsp;% between 1970 and 2000.",
)


def _parts(world: World, species: Species) -> list[_Statement]:
    """Sentences section by section; what is visible stands between what is not."""
    rng = Rng(world.seed, "wiki text", species.index)
    lead, home, *looks = re.split(r"(?<=\.) ", species.description)
    values = {
        "diet": str(species.traits["diet"]),
        "n": str(11 + rng.below(80)),
        "region": str(species.traits["range"]),
        "year": str(1800 + rng.below(120)),
        "person": rng.choice(_PEOPLE),
        "size": str(species.traits["size_cm"]),
    }
    measures, behaviour, history, ranges = (
        [text.format(**values) for text in rng.sample(texts, len(texts))]
        for texts in (_MEASURES, _BEHAVIOUR, _HISTORY, _RANGE)
    )
    colouring, *others = (_marked_up(sentence) for sentence in looks)
    named = lead.replace(f"({species.scientific_name})", f"('''''{species.scientific_name}''''')")
    parts = [_Statement("", named.replace(species.common_name, f"'''{species.common_name}'''", 1))]
    parts += [_Statement("", home), _Statement("", behaviour[0])]
    parts += [_Statement("==Taxonomy==", text) for text in history[:2]]
    parts += [
        _Statement("==Description==", measures[0]),
        _Statement("==Description==", colouring, True),
    ]
    parts += [_Statement("===Marks===", behaviour[1])]
    parts += [_Statement("===Marks===", text, True) for text in others[:1]]
    parts += [_Statement("===Build===", measures[1])]
    parts += [_Statement("===Build===", text, ", with" in text) for text in others[1:]]
    parts += [_Statement("==Distribution and habitat==", text) for text in ranges]
    return parts + [_Statement("==Behaviour and ecology==", text) for text in behaviour[2:]]


def _marked_up(sentence: str) -> str:
    """A link, a reference and a unit template, as editors put them."""
    sentence = re.sub(r"\b(crest|collar|stripes|spots|leaves|tail)\b", r"[[\1]]", sentence, count=1)
    sentence = re.sub(r"([\d.]+) cm\b", r"{{convert|\1|cm|in}}", sentence)
    return sentence.replace("markings", "[[marking (biology)|markings]]") + '<ref name="a" />'


def _plain(wikitext: str) -> str:
    """The sentence as a reader sees it, measures as they were written."""
    text = re.sub(r"<ref[^>]*/>", "", wikitext)
    text = re.sub(r"\{\{convert\|([\d.]+)\|cm\|in\}\}", r"\1 cm", text)
    return re.sub(r"\[\[(?:[^\]|]*\|)?([^\]]*)\]\]", r"\1", text)


# --- MediaWiki XML export (schema 0.11): the world's encyclopedia as a dump file holds it
#
# https://www.mediawiki.org/wiki/Help:Export#Export_format


_NAMESPACES = {0: "", 10: "Template"}
_SCHEMA = "http://www.mediawiki.org/xml/export-0.11/"
_REDIRECT = re.compile(r"#REDIRECT \[\[([^\]#|]+)", re.IGNORECASE)
_TIMESTAMP = "2026-01-01T00:00:00Z"
_SITE = ("Encyclopedia of the synthetic world", "https://world.invalid/wiki/Main_Page")


def export_xml(pages: Iterable[WorldPage]) -> bytes:
    """A dump of the pages, numbered in their order; the same for the same pages."""
    return "".join(_lines(pages)).encode()


def _lines(pages: Iterable[WorldPage]) -> Iterator[str]:
    yield f'<mediawiki xmlns="{_SCHEMA}" version="0.11" xml:lang="en">\n  <siteinfo>\n'
    yield f"    <sitename>{_SITE[0]}</sitename>\n    <base>{_SITE[1]}</base>\n    <namespaces>\n"
    for number, name in _NAMESPACES.items():
        yield f'      <namespace key="{number}" case="first-letter">{name}</namespace>\n'
    yield "    </namespaces>\n  </siteinfo>\n"
    for number, page in enumerate(pages, 1):
        yield from _page(page, number)
    yield "</mediawiki>\n"


def _page(page: WorldPage, number: int) -> Iterator[str]:
    namespace = 10 if page.title.startswith("Template:") else 0
    yield f"  <page>\n    <title>{escape(page.title)}</title>\n    <ns>{namespace}</ns>\n"
    yield f"    <id>{number}</id>\n"
    if target := _REDIRECT.match(page.wikitext):
        yield f"    <redirect title={quoteattr(target[1].strip())} />\n"
    yield f"    <revision>\n      <id>{number}</id>\n      <timestamp>{_TIMESTAMP}</timestamp>\n"
    yield "      <model>wikitext</model>\n      <format>text/x-wiki</format>\n"
    yield f'      <text xml:space="preserve">{escape(page.wikitext)}</text>\n'
    yield "    </revision>\n  </page>\n"
