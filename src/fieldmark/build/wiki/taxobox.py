"""Taxobox (infobox of a taxon): which taxon is a page about, and where does it stand?

Automatic boxes name a taxon only; what stands above it is in pages `Template:Taxonomy/NAME`, one
per level, whose `parent` leads up. Old boxes name all ranks. Only the box is parsed, never the rest
of a page: https://en.wikipedia.org/wiki/Wikipedia:Automated_taxobox_system. Lists of template names
are English Wikipedia's, with the templates' own redirects, in lower case.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from fieldmark.taxa import parse_name

TAXOBOX_TEMPLATES = frozenset(
    {
        "auto taxobox", "automatic taxobox", "automatic virus taxobox", "autotaxobox", "hybridbox",
        "ichnobox", "infraspeciesbox", "oobox", "species box", "speciesbox", "subspecies box",
        "subspeciesbox", "taxobox", "taxobox begin", "virus box", "virusbox",
    }
)  # fmt: skip
DISAMBIGUATION_TEMPLATES = frozenset(
    {
        "airport disambiguation", "biology disambiguation", "caselaw disambiguation",
        "chinese title disambiguation", "dab", "dab-cleanup", "disam", "disamb", "disambig",
        "disambig cleanup", "disambig-cleanup", "disambiguate", "disambiguation",
        "disambiguation cleanup", "disambiguation page", "genus disambiguation", "geodab", "geodis",
        "hndab", "hndis", "hospital disambiguation", "human name disambiguation",
        "latin name disambiguation", "letter disambiguation",
        "letter-number combination disambiguation", "letter–number combination disambiguation",
        "mathdab", "mathematical disambiguation", "mil-unit-dis", "military unit disambiguation",
        "music disambiguation", "number disambiguation", "numberdis", "opus number disambiguation",
        "phonetics disambiguation", "place name disambiguation", "road disambiguation", "roaddis",
        "school disambiguation", "schooldis", "species latin name abbreviation disambiguation",
        "species latin name disambiguation", "station disambiguation", "stationdis",
        "synagogue disambiguation", "taxonomy disambiguation", "temple disambiguation",
        "title and name disambiguation",
    }
)  # fmt: skip
SET_INDEX_TEMPLATES = frozenset(
    {
        "animal common name", "bird common name", "fish common name", "fungus common name",
        "insect common name", "plant common name", "set index", "set index article", "sia",
    }
)  # fmt: skip
"""of pages that list the taxa of one common name: no disambiguation by page property, yet of use"""

_TEMPLATE_NAME = re.compile(r"\{\{\s*+([^{}|<\n]++)(?=[|}<\n])")  # nothing is tried twice


def template_names(wikitext: str) -> set[str]:
    """The templates that a text calls by a plain name, as they stand in the lists above."""
    return {plain_template(match[1]) for match in _TEMPLATE_NAME.finditer(wikitext)}


def plain_template(name: str) -> str:
    """
    >>> plain_template("Automatic_Taxobox ")
    'automatic taxobox'
    """
    return name.replace("_", " ").strip().lower().removeprefix("template:")


def says_disambiguation(wikitext: str) -> bool:
    """Is it a disambiguation page by its template? For dumps, which have no page properties."""
    has_mark = "__DISAMBIG__" in wikitext
    return has_mark or not DISAMBIGUATION_TEMPLATES.isdisjoint(template_names(wikitext))


def _bare(wikitext: str) -> str:
    """Without comments and references, in a time that grows with the length, whatever it holds."""
    return _without(_REF, _without(_COMMENT, wikitext))


def _without(opening: re.Pattern[str], text: str) -> str:
    pieces, here, unclosed = list[str](), 0, set[str]()
    for start in opening.finditer(text):
        kind = start[0][:3].lower()
        if start.start() < here:
            continue
        end: re.Match[str] | None = start
        if not start[0].endswith("/>"):
            end = None if kind in unclosed else _ENDS[kind].search(text, start.end())
        if end is None:
            unclosed.add(kind)
            continue
        pieces.append(text[here : start.start()])
        here = end.end()
    return "".join((*pieces, text[here:]))


# --- a template's parts ---

_COMMENT = re.compile(r"<!--|<nowiki>", re.IGNORECASE)
_REF = re.compile(r"<ref\b[^<>]*+(?:(?<=/)>)?", re.IGNORECASE)
_ENDS = {
    "<!-": re.compile("-->"),
    "<no": re.compile("</nowiki>", re.IGNORECASE),
    "<re": re.compile(r"</ref\s*+>", re.IGNORECASE),
}
_MOST_OPEN = 20
"""boxes without an end: more have no page that people read"""
_HEADING = re.compile(r"^==[^=\n].*==\s*$", re.MULTILINE)
_TOKEN = re.compile(r"\{\{|\}\}|\[\[|\]\]|\|")


def template_parts(text: str, start: int) -> tuple[list[str], int] | None:
    """Name and arguments of the template that opens at `start`, and where it ends.

    None = it never ends. The text must be without comments and references.
    """
    parts, at, open_marks = list[str](), start + 2, ["{{"]
    for token in _TOKEN.finditer(text, start + 2):
        mark = token[0]
        if mark in ("{{", "[["):
            open_marks.append(mark)
        elif mark == "]]" and open_marks[-1] == "[[":
            open_marks.pop()
        elif mark == "}}":
            while open_marks.pop() == "[[":  # a link that was never closed
                pass
        if (mark == "|" and len(open_marks) == 1) or not open_marks:
            parts.append(text[at : token.start()])
            at = token.end()
        if not open_marks:
            return parts, at
    return None


def _fields(parts: list[str]) -> dict[str, str]:
    """Named arguments; names in lower case with underscores."""
    pairs = (part.partition("=") for part in parts[1:])
    return {
        re.sub(r"[\s_]+", "_", name.strip().lower()): value.strip()
        for name, is_named, value in pairs
        if is_named
    }


_LINK = re.compile(r"\[\[(?:[^\[\]|]*\|)?([^\[\]|]+)\]\]|\[\[([^\[\]|]*)\|\]\]")
_SHOWN = re.compile(r"\{\{\s*(?:nowrap|nobold|noitalics?|small|lang\|la)\s*\|([^{}|]*)\}\}", re.I)
_TEMPLATE = re.compile(r"\{\{[^{}]*\}\}")
_TAG = re.compile(r"<[^<>]*>")
_SUBGENUS = re.compile(r"(?<=\w) \([A-Z][a-z-]+\)(?= [a-z×])")
_QUALIFIER = re.compile(r"\s*\([^()]*\)$")


def _plain(value: str) -> str:
    """A name as a reader sees it: `†''[[Canis lupus|C. lupus]]''{{efn|…}}` → `C. lupus`."""
    text = _LINK.sub(lambda match: match[1] or _QUALIFIER.sub("", match[2]), value)
    text = _SHOWN.sub(r"\1", text)
    while text != (text := _TEMPLATE.sub("", text)):
        pass
    text = html.unescape(_TAG.sub("", text)).replace("''", "")
    text = re.sub(r"[†?\"“”'*]", "", text).replace("\xa0", " ")
    return " ".join(_SUBGENUS.sub("", " ".join(text.split())).split())


# --- the box ---

_LEVELS = {
    "species": "species", "sectio": "", "subgenus": "", "genus": "genus", "subtribus": "",
    "tribus": "", "subfamilia": "", "familia": "family", "superfamilia": "", "infraordo": "",
    "subordo": "", "ordo": "order", "superordo": "", "infraclassis": "", "subclassis": "",
    "classis": "class", "superclassis": "", "subphylum": "", "subdivisio": "", "phylum": "phylum",
    "divisio": "phylum", "superphylum": "", "superdivisio": "", "subregnum": "",
    "regnum": "kingdom", "domain": "", "realm": "",
}  # fmt: skip
"""levels of an old box from the bottom → the rank of `RANKS`"""


def levels_up_to(rank: str) -> list[str]:
    """A rank and those below it, as lineages name them."""
    levels = [plain or latin for latin, plain in _LEVELS.items()]
    return levels[: levels.index(rank) + 1]


_BELOW = ("subspecies", "variety", "varietas", "form", "forma", "infraspecies")


@dataclass(frozen=True, slots=True)
class Taxobox:
    """What one box says of its taxon."""

    name: str
    """the whole scientific name: `Canis lupus`, `Canis lupus familiaris`, `Canidae`"""
    rank: str
    """"subspecies" (or any below species), "species", "genus", …; "" = its template knows"""
    genus: str
    """"" above the genus, and for an automatic box of a genus, whose name is `name`"""
    taxonomy: str
    """NAME of the first page `Template:Taxonomy/NAME` above the species; "" = `ranks` has all"""
    ranks: dict[str, str] = field(default_factory=dict)
    """rank → name, from the bottom up, as far as the box says"""
    synonyms: tuple[str, ...] = ()
    subdivisions: tuple[str, ...] = ()
    """species below a genus, as binomials; () = not known, or not all are listed"""


def read_taxoboxes(wikitext: str, title: str) -> list[Taxobox]:
    """The boxes above the first heading, in order; those below it where there are none above.

    Boxes without a name take the page's title, as wikis do.
    """
    text = _bare(wikitext)
    heading = _HEADING.search(text)
    lead = list(_boxes(text[: heading.start()], title)) if heading else []
    return lead or list(_boxes(text, title))


def _boxes(text: str, title: str) -> Iterator[Taxobox]:
    end = n_open = 0
    for match in _TEMPLATE_NAME.finditer(text):
        kind = plain_template(match[1])
        if match.start() < end or kind not in TAXOBOX_TEMPLATES or n_open == _MOST_OPEN:
            continue
        split = template_parts(text, match.start())
        if split is None:
            n_open += 1
        else:
            parts, end = split
            yield _read_box(kind, _fields(parts), _QUALIFIER.sub("", title))


def _read_box(kind: str, fields: dict[str, str], title: str) -> Taxobox:
    if kind.startswith("taxobox"):
        box = _old_box(fields)
    elif kind.startswith("auto"):
        box = _automatic_box(fields, title)
    else:
        box = _species_box(fields, title)
    genus = box.genus or box.name
    synonyms = tuple(dict.fromkeys(_names(fields.get("synonyms", ""), genus)))
    return Taxobox(
        *(box.name, box.rank, box.genus, box.taxonomy, box.ranks),
        synonyms=synonyms,
        subdivisions=_species_below(fields, genus),
    )


_ALL_SPECIES = re.compile(r"((sole|only|single|type and only) )?species|", re.IGNORECASE)
_MORE = re.compile(
    r"\b(see|others?|more|many|several|numerous|about|etc|incl|including|list of|groups?|complex|"
    r"subg|subgen|subgenus|subgenera|sect|sections?|series|species|approx|ca|incertae)\b|\?",
    re.IGNORECASE,
)
_LINK_TARGET = re.compile(r"\[\[([^\[\]|#]+)")
_IN_LIST = re.compile(r"^\s*[*:#]*\s*†?\s*''+([a-z][a-z-]+)''+", re.MULTILINE)
_SMALL = re.compile(r"<small\b.*?</small\s*>", re.DOTALL | re.IGNORECASE)


def _species_below(fields: dict[str, str], genus: str) -> tuple[str, ...]:
    """The species of a genus where the box surely lists all of them."""
    value, ranks = fields.get("subdivision", ""), _plain(fields.get("subdivision_ranks", ""))
    if not _ALL_SPECIES.fullmatch(ranks) or not value:
        return ()
    shown = _SMALL.sub("", re.sub(r"\{\{\s*[\w ]+", "{{", value))
    if _MORE.search(_LINK.sub(lambda match: match[1] or match[2], shown)):
        return ()
    targets = (_QUALIFIER.sub("", target[1]) for target in _LINK_TARGET.finditer(value))
    listed = (f"{genus} {match[1]}" for match in _IN_LIST.finditer(_linkless(shown)))
    names = [*_names(value, genus), *targets, *listed]
    return tuple(sorted({" ".join(name.split()[:2]) for name in names if _is_in(name, genus)}))


def _linkless(text: str) -> str:
    """Lines in place of what separates entries, links as they are shown."""
    shown = _LINK.sub(lambda match: match[1] or match[2], text)
    return re.sub(r"<br[^<>]*>|\{\{|\||\}\}", "\n", shown)


def _is_in(name: str, genus: str) -> bool:
    parsed = parse_name(name) if name.startswith(f"{genus} ") else None
    return parsed is not None and bool(parsed.species)


def _species_box(fields: dict[str, str], title: str) -> Taxobox:
    """Speciesbox and its kin: `taxon`, or `genus` and `species`, or the page's title."""
    names = ("taxon", "genus", "species", "parent", *_BELOW)
    values = {name: _plain(fields.get(name, "")) for name in names}
    key, epithet = values["genus"], values["species"]
    genus = _QUALIFIER.sub("", key)
    is_whole = epithet[:1].isupper() or epithet.startswith(f"{genus} ")
    name = epithet if is_whole else f"{genus} {epithet}".strip() if epithet else ""
    whole = values["taxon"] or name or title
    below = next((values[rank] for rank in _BELOW if values[rank]), "")
    if below and not whole.endswith(f" {below}"):
        whole = f"{whole} {below}"
    qualified = re.match(r"\S+ \([^()]*\)", whole)
    key = key or (qualified[0] if qualified else _genus_of(whole))
    whole = re.sub(r" \([^()]*\)", "", whole)
    rank = "subspecies" if below or n_words(whole) > 2 else "species"
    return Taxobox(whole, rank, _genus_of(whole), values["parent"] or key)


def _automatic_box(fields: dict[str, str], title: str) -> Taxobox:
    """Automatic taxobox: of a genus or above, now and then of a species."""
    key = _plain(fields.get("taxon", "")) or title
    name = _QUALIFIER.sub("", key.partition("/")[0])
    if n_words(name) > 1:
        rank = "subspecies" if n_words(name) > 2 else "species"
        return Taxobox(name, rank, _genus_of(name), key)
    binomial = _plain(fields.get("binomial", ""))
    return Taxobox(binomial or name, "species" if binomial else "", name if binomial else "", key)


def _old_box(fields: dict[str, str]) -> Taxobox:
    """Taxobox: all ranks, the lowest of which is what the page is about."""
    values = {level: _plain(fields.get(level, "")) for level in _LEVELS}
    genus = _genus_of(parse_or(values["genus"]))
    ranks = {
        _LEVELS[level] or level: parse_or(name)
        for level, name in values.items()
        if name and level != "species"
    }
    extra = {name: _plain(value) for name, value in fields.items() if name.startswith("unranked_")}
    for field_name, rank in (("trinomial", "subspecies"), ("binomial", "species")):
        if name := parse_or(_plain(fields.get(field_name, "")), genus):
            return Taxobox(name, rank, _genus_of(name) or genus, "", {**ranks, **extra})
    species = values["species"]
    name = parse_or(species if " " in species else f"{genus} {species}".strip(), genus)
    if species:
        return Taxobox(name, "species", _genus_of(name) or genus, "", {**ranks, **extra})
    rank, name = next(iter(ranks.items()), ("", ""))
    return Taxobox(name, rank, genus, "", {**ranks, **extra})


def parse_or(text: str, genus: str = "") -> str:
    """The scientific name that a text begins with, else its first word; `C. lupus` in full."""
    text = _expanded(text, genus)
    name = parse_name(text.replace("× ", "×"))
    return str(name) if name else text.split(" ")[0]


def n_words(name: str) -> int:
    """Words of a name without the signs of hybrids and the marks of ranks."""
    return sum(1 for word in name.split() if word not in ("×", "x") and not word.endswith("."))


def _genus_of(name: str) -> str:
    words = name.split()
    n_sign = 2 if words and words[0] in ("×", "x") else 1
    return " ".join(words[:n_sign])


_SHORT = re.compile(r"([A-Z])[a-z]{0,2}\. ?(?=[a-z×])")


def _expanded(name: str, genus: str) -> str:
    """
    >>> _expanded("C. lupus", "Canis"), _expanded("F. leo", "Canis")
    ('Canis lupus', 'F. leo')
    """
    match = _SHORT.match(name)
    same = match is not None and genus.lstrip("× ").startswith(match[1])
    return f"{genus} {name[match.end() :]}" if match and same else name


_MISAPPLIED = re.compile(r"\b(auctt?|sensu|misapplied|misident)\b", re.IGNORECASE)


def _names(value: str, genus: str) -> Iterator[str]:
    """Scientific names of a list: bullets, line breaks or the arguments of a list template.

    Names in the sense of other authors ("auct. non L.") are names of something else.
    """
    text = _LINK.sub(lambda match: match[1] or match[2], html.unescape(value))
    for line in re.split(r"\n|<br[^<>]*>|\{\{|\}\}|\||\*|;", text):
        plain = _plain(re.sub(r"^\s*[:#=]+", "", line))
        if _MISAPPLIED.search(plain):
            continue
        name = parse_name(_expanded(plain, genus).replace("× ", "×"))
        if name is not None:
            genus = name.genus
            yield str(name)


# --- Template:Taxonomy/NAME ---


@dataclass(frozen=True, slots=True)
class TaxonomyEntry:
    """One level of the classification."""

    rank: str
    """as in `RANKS` where it is one of them, else Latin ("subfamilia", "clade")"""
    name: str
    parent: str
    """NAME of the level above; "" = none"""
    same_as: str
    """NAME of the level that says what this one leaves open"""


def taxonomy_title(name: str) -> str:
    return f"Template:Taxonomy/{name}"


def read_taxonomy(wikitext: str, name: str) -> TaxonomyEntry | None:
    """What a page `Template:Taxonomy/NAME` says; None = it is none.

    The text is one call of `{{Don't edit this line …}}`.
    """
    text = _bare(wikitext)
    start = text.find("{{Don't edit this line")
    split = template_parts(text, start) if start >= 0 else None
    if split is None:
        return None
    fields = _fields(split[0])
    latin = _plain(fields.get("rank", "")).lower()
    shown = _QUALIFIER.sub("", name.partition("/")[0])
    parent, same_as = (_plain_key(fields.get(word, "")) for word in ("parent", "same_as"))
    return TaxonomyEntry(_LEVELS.get(latin) or latin, shown, parent, same_as)


def _plain_key(value: str) -> str:
    return "" if "{" in value else " ".join(value.replace("_", " ").split())
