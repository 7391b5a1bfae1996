"""Taxon records: which taxon do the columns of a table name, and why does a row name none?

Darwin Core, GBIF, iNaturalist and TreeOfLife call the same thing by other columns, and cells hold
codes, doubts ("cf."), hybrid formulas and names in capitals. `normal_taxon` brings a row into one
form, or says why it names no taxon.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from fieldmark.taxa.name import HYBRID_SIGNS, ScientificName, is_formula, parse_name
from fieldmark.taxa.taxon import RANKS, Taxon

EMPTY, UNNAMED, UNSURE, CODE, NO_NAME, BETWEEN, FORMULA = (
    "no name in any rank", "species not named (sp.)", "species not sure (cf., aff., nr.)",
    "a code in place of a species", "not a scientific name", "a group between the seven ranks",
    "a hybrid of two taxa, without a name of its own",
)  # fmt: skip
_NOTHING = {
    "", "-", "--", "—", ".", "?", "na", "n/a", "n.a.", "#n/a", "nan", "none", "null", "nil",
    "unknown", "unidentified", "undetermined", "undefined", "incertae sedis", "not assigned",
    "unassigned", "not available", "not identified", "unclassified",
}  # fmt: skip
_UNSURE_WORDS = re.compile(r"\b(cf|aff|nr|near|affin)\b\.?|\?")
_UNNAMED_WORDS = re.compile(r"\b(sp|spp|indet|ssp|species)\b\.?(?!\w)")
_GROUP_WORDS = re.compile(r" (group|complex|clade|lineage|sect\.|section|subg\.|subgenus|series)\b")
_VIRUS_WORDS = re.compile(r" \S*(virus|viroid|phage)(e?s)?\b")
_X = re.compile(r"(?<!\S)[xX✕✖⨯](?=\s)")
"""a hybrid's sign, as keyboards have it"""
_YEAR = re.compile(r"\b(1[789]|20)\d\d\b")
_WRAPPING = re.compile(r"</?[A-Za-z]+>|[\u200b-\u200f\u2060\ufeff\u00ad†]|^[\"“”'*]+|[\"“”*]+$")
_GENUS, _EPITHET = re.compile(r"[A-Z][a-z]+"), re.compile(r"(?=..)[a-z]+(-[a-z]+)*")

COLUMNS = {
    **{rank: (rank, f"taxon{rank}name", f"{rank}name") for rank in RANKS[:5]},
    "genus": ("genus", "taxongenusname", "genusname", "genericname"),
    "species": (
        "species", "taxonspeciesname", "specificepithet", "speciesepithet", "epithet",
    ),
    "below": ("infraspecificepithet", "subspecies", "taxonsubspeciesname", "subspecificepithet"),
    "scientific_name": (
        "scientificname", "sciname", "binomial", "binomialname", "canonicalname", "latinname",
        "speciesname", "taxonname", "acceptedscientificname", "taxon",
    ),
    "common_name": (
        "commonname", "common", "vernacularname", "vernacular", "englishname",
    ),
}  # fmt: skip
"""what `normal_taxon` wants → spellings of columns that have it, in the order of trust; without
case, blanks, `_` and `-`. Darwin Core, GBIF, iNaturalist and TreeOfLife are among them."""
_MEANING = {spelling: word for word, spellings in COLUMNS.items() for spelling in spellings}
Values = Mapping[str, str | None]
"""by words of `COLUMNS`"""
_NAMING = ("genus", "species", "scientific_name")
_SPECIES_WORDS = ("species", "below", "scientific_name")


def known_column(name: str) -> str:
    """What a column holds, as a key of `COLUMNS`; "" = nothing that is used.

    >>> known_column("dwc:scientificName"), known_column("Latin name"), known_column("photo")
    ('scientific_name', 'scientific_name', '')
    """
    return "scientific_name" if _folded(name) == "name" else _MEANING.get(_folded(name), "")


def _folded(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", re.split(r"[:/#]", name.strip().lower())[-1])


def taxon_columns(names: Iterable[str]) -> dict[str, list[str]]:
    """Word of `COLUMNS` → the columns that have it, in the order of trust.

    A column `name` counts where no other names a species; `class` where it is surely the rank.
    """
    columns_of: dict[str, list[str]] = {}
    for name in names:
        if word := known_column(name):
            columns_of.setdefault(word, []).append(name)
    for word, columns in columns_of.items():
        columns.sort(key=lambda name: [*COLUMNS[word], "name"].index(_folded(name)))
    weak = [name for name in columns_of.get("scientific_name", []) if _folded(name) == "name"]
    if weak and (
        len(columns_of["scientific_name"]) > len(weak) or {"genus", "species"} & columns_of.keys()
    ):
        columns_of["scientific_name"] = [
            name for name in columns_of["scientific_name"] if name not in weak
        ]
    if columns_of.keys() & {*RANKS, *_NAMING} == {"class"}:
        columns_of.pop("class")
    return {word: columns for word, columns in columns_of.items() if columns}


def row_values(row: Mapping[str, str | None], columns: Mapping[str, Sequence[str]]) -> Values:
    """What `normal_taxon` wants of a row: per word the first column that says something."""
    return {
        word: row.get(names[0])
        if len(names) == 1
        else next((text for name in names if _cell(text := row.get(name))), None)
        for word, names in columns.items()
    }


def normal_taxon(values: Values) -> Taxon | str:
    """The taxon that a row names, or why it names none.

    Keys are those of `COLUMNS`: ranks (species as epithet or whole), `below` (an epithet below the
    species), `scientific_name`, `common_name`.

    >>> normal_taxon({"genus": "mentha", "species": "Mentha x piperita L."}).name
    'Mentha × piperita'
    >>> normal_taxon({"genus": "Dasineura", "species": "sp. 2"})
    'species not named (sp.)'
    """
    ranks = [_rank_name(_cell(values.get(rank))) for rank in RANKS[:5]]
    common = _cell(values.get("common_name"))
    genus, species, below, written = (
        _X.sub("×", _cell(values.get(word)))
        for word in ("genus", "species", "below", "scientific_name")
    )
    species, genus = _whole_name(genus, species, below), _rank_name(genus)
    if any(is_formula(text) for text in (species, written) if "×" in text):
        return FORMULA
    whole = species or written or genus
    if not whole or _rank_name(whole) in ranks:
        return _lowest(ranks, common)
    if not genus and "genus" in values and " " not in whole:
        return BETWEEN
    if reason := _why_unnamed(whole):
        return reason
    if _VIRUS_WORDS.search(whole) or _VIRUS_WORDS.search(written):
        return NO_NAME
    parts = _name_parts(whole, genus, written if species else "")
    if parts is None:
        return NO_NAME
    return _lowest(ranks, common) if parts[0] in ranks else _taxon([*ranks, *parts], common)


def _name_parts(whole: str, genus: str, written: str) -> tuple[str, str] | None:
    """Genus and epithet; a subspecies where `written` goes on where the name ends."""
    text = _cased(whole)
    start, _, rest = text.partition(" ")
    if start == genus and _GENUS.fullmatch(start) and _EPITHET.fullmatch(rest):
        name: ScientificName | None = ScientificName(genus, rest)  # also where it is "la" or "de"
    else:
        name = parse_name(text)
    longer = parse_name(_cased(written)) if written.count(" ") > 1 else None
    if name and longer and (name.genus, name.species) == (longer.genus, longer.species):
        name = name if name.below else longer
    if name is None:
        return None
    parts = _signed(name.genus), _signed(f"{name.species} {name.below}".strip())
    n_words = len(parts[0].split())
    is_sure = parts[1] or len(text.split()) <= n_words or parts[0] == genus or _YEAR.search(text)
    return parts if is_sure else None


def _lowest(ranks: list[str], common: str) -> Taxon | str:
    lowest = max((index for index, name in enumerate(ranks) if name), default=-1)
    return _taxon(ranks[: lowest + 1], common) if lowest >= 0 else EMPTY


def _taxon(ranks: list[str], common_name: str) -> Taxon:
    kingdom, phylum, class_, order, family, genus, species = [*ranks, *[""] * 7][:7]
    return Taxon((kingdom, phylum, class_, order, family, genus, species), common_name)


def _rank_name(text: str) -> str:
    """One way to write it: `ANIMALIA`, `animalia` → `Animalia`."""
    if text.isupper() or text.islower():
        sign = "× " if text.startswith("× ") else ""
        return sign + "-".join(part.capitalize() for part in text.removeprefix("× ").split("-"))
    return text


def _cased(text: str) -> str:
    """A name with a capital, and not in capitals; a hybrid's sign stays as it is.

    >>> _cased("corvus corax"), _cased("CORVUS CORAX Linnaeus"), _cased("× CUPROCYPARIS")
    ('Corvus corax', 'Corvus corax Linnaeus', '× Cuprocyparis')
    """
    words = (text.lower() if text.isupper() else text).split()
    sign, name = (words[:1], words[1:]) if words[0] == "×" and len(words) > 1 else ([], words)
    if len(name[0]) > 1 and name[0].isupper():
        name[:2] = [word.lower() if word.isupper() else word for word in name[:2]]
    return " ".join([*sign, name[0][:1].upper() + name[0][1:], *name[1:]])


@lru_cache(maxsize=1 << 16)
def _cell(value: str | None) -> str:
    text = unicodedata.normalize("NFC", value or "").replace("_", " ")
    text = " ".join(_WRAPPING.sub("", " ".join(text.split())).split())
    return "" if text.lower() in _NOTHING or text in ("×", "x", "X") else text


def _whole_name(genus: str, species: str, below: str) -> str:
    """Of genus, epithet and what lies below; "" = they name no species."""
    if " " in below and below[0].isupper():
        return below
    if not species or (not genus and " " not in species):
        return ""
    is_same_case = species.startswith(f"{genus} ")  # else "Alces", "alces shirasi": epithets
    if species.isupper() or " " not in species:
        species = species.lower()
    is_whole = not genus or is_same_case or species[0].isupper()
    genus = _rank_name(genus)
    name = parse_name(genus) if " " in genus else None
    start = name.genus if name and not name.species else genus
    return " ".join(part for part in ("" if is_whole else start, species, below.lower()) if part)


def _why_unnamed(name: str) -> str:
    """Why the name of a species is none; "" = it may be one."""
    rest = name.partition(" ")[2]
    start = " ".join(rest.split()[:2]).lower()
    if _UNSURE_WORDS.search(start):
        return UNSURE
    if _UNNAMED_WORDS.match(start):
        return UNNAMED
    if _GROUP_WORDS.search(name):
        return BETWEEN
    has_code = "BOLD:" in name or bool(re.match(r"\S*\d", rest)) or bool(re.search(r"\d", name[:3]))
    return CODE if has_code else ""


def _signed(name: str) -> str:
    """One sign for all hybrids."""
    sign, _, rest = name.partition(" ")
    return f"× {rest}" if rest and sign in HYBRID_SIGNS else name


def taxon_of_fields(fields: Mapping[str, str]) -> Taxon:
    """The taxon that named fields stand for, such as the columns of a table, as far as it is sure:
    of `Dasineura sp.` the genus, of `white backed plant hopper` nothing but the common name.
    """
    values = row_values(fields, taxon_columns(fields))
    for unsure in ((), _SPECIES_WORDS, ("genus", *_SPECIES_WORDS)):
        taxon = normal_taxon({name: text for name, text in values.items() if name not in unsure})
        if isinstance(taxon, Taxon):
            return taxon
    return Taxon(("",) * 7, values.get("common_name") or "")
