"""Taxon: a name with its seven ranks, which tell apart what one name alone does not.

A binomial can stand for two organisms (a plant genus and an animal genus may share a name: a
hemihomonym), so a taxon is known by all its ranks. Common names are no part of what it is. Most
binomials that stand twice in a list are one organism in two systems, though: `same_organism` tells
the two apart. Lists come as CSV, TSV or Parquet, of any length, one row per image or per taxon.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import polars as pl

from fieldmark.build.names_file import open_names
from fieldmark.data.read.names import HYBRID_SIGNS, ScientificName, is_formula, parse_name
from fieldmark.errors import DataError
from fieldmark.world import RANKS


@dataclass(frozen=True, slots=True)
class Taxon:
    """Ranks from kingdom to species; "" where one is not known."""

    ranks: tuple[str, str, str, str, str, str, str]
    """in the order of `RANKS`; the last one is the epithet alone ("corax")"""
    common_name: str = ""

    @property
    def key(self) -> str:
        """16 hexadecimal digits that stand for the ranks."""
        return hashlib.blake2b("\0".join(self.ranks).encode(), digest_size=8).hexdigest()

    @property
    def rank(self) -> str:
        """The lowest rank that is known; "" = none is."""
        known = [rank for rank, name in zip(RANKS, self.ranks, strict=True) if name]
        return known[-1] if known else ""

    @property
    def name(self) -> str:
        """The scientific name: the binomial, or the name of the lowest rank that is known."""
        genus, epithet = self.ranks[5:]
        if epithet:
            return f"{genus} {epithet}".strip()
        return next((name for name in reversed(self.ranks) if name), "")

    def at(self, rank: str) -> str:
        """The name at a rank of `RANKS`; "" = not known."""
        return self.ranks[RANKS.index(rank)]


# --- names that mean the same ---

_KINGDOMS = {
    "animal": "animalia metazoa animals",
    "plant": "plantae plants viridiplantae archaeplastida chloroplastida",
    "fungus": "fungi eumycota mycota",
    "prokaryote": "bacteria eubacteria monera archaea archaebacteria bacillati pseudomonadati "
    "fusobacteriati thermotogati methanobacteriati thermoproteati promethearchaeati nanobdellati",
    "virus": "viruses virus riboviria duplodnaviria monodnaviria varidnaviria orthornavirae "
    "pararnavirae bamfordvirae helvetiavirae heunggongvirae shotokuvirae loebvirae sangervirae "
    "trapavirae",
    "protist": "chromista protista protozoa protoctista sar stramenopiles heterokonta alveolata "
    "rhizaria harosa chromalveolata excavata discoba amoebozoa haptista cryptista",
}
_KINGDOM_OF = {name: kind for kind, names in _KINGDOMS.items() for name in names.split()}
_SAME_NAMES = {
    other: names.split()[0]
    for names in (
        "asteraceae compositae", "poaceae gramineae", "fabaceae leguminosae papilionaceae",
        "lamiaceae labiatae", "brassicaceae cruciferae", "apiaceae umbelliferae",
        "arecaceae palmae", "clusiaceae guttiferae",
        "actinopterygii actinopteri teleostei osteichthyes",
        "chondrichthyes elasmobranchii", "reptilia sauropsida lepidosauria",
        "insecta hexapoda", "magnoliopsida dicotyledonae dicotyledoneae eudicots",
        "liliopsida monocots monocotyledonae monocotyledoneae", "pinopsida coniferopsida",
        "polypodiopsida pteridopsida filicopsida",
        "tracheophyta tracheophytes magnoliophyta angiosperms angiospermae anthophyta spermatophyta"
        " pteridophyta pinophyta streptophyta",
        "ochrophyta heterokontophyta", "annelida sipuncula",
        "proteobacteria pseudomonadota", "firmicutes bacillota", "actinobacteria actinomycetota",
    )
    for other in names.split()[1:]
}  # fmt: skip
"""names of families, classes and phyla that different systems give to (nearly) the same group"""


def plain_rank(name: str) -> str:
    """A rank's name for comparison: two systems' names for one group become equal.

    >>> plain_rank("Compositae") == plain_rank("Asteraceae")
    True
    """
    name = name.strip().lower()
    return _SAME_NAMES.get(name, _KINGDOM_OF.get(name, name))


def kingdom_kind(names: Iterable[str]) -> str:
    """ "animal", "plant", … by the first of the names that is a kingdom's; "" = none is."""
    return next((_KINGDOM_OF[name.lower()] for name in names if name.lower() in _KINGDOM_OF), "")


def kingdoms_differ(one: str, other: str) -> bool:
    """Do two kinds of kingdom exclude each other? Protists were in all of them at some time."""
    return bool(one and other) and one != other and "protist" not in (one, other)


def same_organism(one: Taxon, other: Taxon) -> bool:
    """Of two taxa of one name: one organism in two systems (or a row with fewer ranks)?

    Systems move classes and split families, but rarely change family and order at once; kingdoms
    that exclude each other never hold the same organism.
    """
    family, order, class_, phylum = (_agree(one, other, rank) for rank in RANKS[4:0:-1])
    if family or order:
        return True
    if _in_other_kingdoms(one, other) or (family is False and order is False):
        return False
    return (phylum if class_ is None else class_) is not False


def _agree(one: Taxon, other: Taxon, rank: str) -> bool | None:
    names = plain_rank(one.at(rank)), plain_rank(other.at(rank))
    return names[0] == names[1] if all(names) else None


def find_homonyms(taxa: Iterable[Taxon]) -> dict[str, str]:
    """Keys of the taxa whose name another organism of the list has too → of what sort they are.

    "hemihomonym": kingdoms tell them apart; "homonym": only other ranks do.
    """
    by_name: dict[str, list[Taxon]] = {}
    for taxon in taxa:
        by_name.setdefault(taxon.name, []).append(taxon)
    kinds: dict[str, str] = {}
    for group in by_name.values():
        for one in group if len(group) > 1 else ():
            others = [other for other in group if not same_organism(one, other)]
            is_apart = all(_in_other_kingdoms(one, other) for other in others)
            if others:
                kinds[one.key] = "hemihomonym" if is_apart else "homonym"
    return kinds


def _in_other_kingdoms(one: Taxon, other: Taxon) -> bool:
    return kingdoms_differ(*(kingdom_kind([taxon.at("kingdom")]) for taxon in (one, other)))


# --- lists of taxa ---


@dataclass(frozen=True, slots=True)
class TaxonList:
    """The taxa of a file, unique by all ranks, in the order of their first rows."""

    taxa: tuple[Taxon, ...]
    n_rows: int
    skipped: Mapping[str, int]
    """why rows name no taxon → how many rows"""

    @property
    def homonyms(self) -> dict[str, str]:
        """Keys of the taxa that share their name with another organism of the list → the sort."""
        return find_homonyms(self.taxa)


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
    "genus": ("genus", "taxongenusname", "genericname"),
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
_NAMING = ("genus", "species", "scientific_name")


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
    known: dict[str, list[str]] = {}
    for name in names:
        if word := known_column(name):
            known.setdefault(word, []).append(name)
    for word, columns in known.items():
        columns.sort(key=lambda name: [*COLUMNS[word], "name"].index(_folded(name)))
    weak = [name for name in known.get("scientific_name", []) if _folded(name) == "name"]
    if weak and (len(known["scientific_name"]) > len(weak) or {"genus", "species"} & known.keys()):
        known["scientific_name"] = [name for name in known["scientific_name"] if name not in weak]
    if known.keys() & set(RANKS) == {"class"}:
        known.pop("class")
    return {word: columns for word, columns in known.items() if columns}


def row_values(row: Mapping[str, str | None], columns: Mapping[str, Sequence[str]]) -> Values:
    """What `normal_taxon` wants of a row: per word the first column that says something."""
    return {
        word: row.get(names[0])
        if len(names) == 1
        else next((text for name in names if _cell(text := row.get(name))), None)
        for word, names in columns.items()
    }


Values = Mapping[str, str | None]


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
    lowest = max((place for place, name in enumerate(ranks) if name), default=-1)
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


def read_taxa(path: Path) -> TaxonList:
    """The taxa of a table; memory grows with the number of taxa, not of rows."""
    frame = _unique_rows(path)
    taxa: dict[tuple[str, ...], Taxon] = {}
    skipped: Counter[str] = Counter()
    names = frame.columns[:-2]
    columns = taxon_columns(names) or {"scientific_name": names}
    for *cells, _, n_rows in frame.iter_rows():
        taxon = normal_taxon(row_values(dict(zip(names, cells, strict=True)), columns))
        if isinstance(taxon, str):
            skipped[taxon] += n_rows
            continue
        known = taxa.setdefault(taxon.ranks, taxon)
        if taxon.common_name and not known.common_name:
            taxa[taxon.ranks] = replace(known, common_name=taxon.common_name)
    if not taxa:
        why = "; ".join(f"{count} × {reason}" for reason, count in skipped.most_common(3))
        raise DataError(f"{path}  names no taxon ({why or 'it has no rows'}).")
    return TaxonList(tuple(taxa.values()), int(frame[_N].sum()), dict(skipped.most_common()))


_ROW, _N = "\0row", "\0n"


def _unique_rows(path: Path) -> pl.DataFrame:
    """Different rows in the order of their first appearance, and how often each stands there."""
    if not path.is_file():
        raise DataError(f"{path}  does not exist: expected a CSV, TSV or Parquet file of taxa.")
    is_parquet = path.suffix.lower() == ".parquet"
    file = None if is_parquet else open_names(path, lambda name: bool(known_column(name)))
    try:
        lazy = file.scan() if file else pl.scan_parquet(path, glob=False)
        names = _used(path, lazy.collect_schema().names())
        rows = lazy.with_row_index(_ROW).select(
            *(pl.col(name).cast(pl.String) for name in names), _ROW
        )
        counted = rows.group_by(names).agg(pl.col(_ROW).min(), pl.len().alias(_N))
        return counted.collect(engine="streaming").sort(_ROW)
    except (pl.exceptions.PolarsError, OSError) as error:
        line = str(error).strip().splitlines()[0].rstrip(".")
        raise DataError(f"{path}  cannot be read as a table of taxa: {line}.") from error


def _used(path: Path, names: Sequence[str]) -> list[str]:
    """The columns that say something of taxa; the only one is that in any case."""
    columns = taxon_columns(names)
    if columns.keys() & set(_NAMING):
        return [name for word in columns for name in columns[word]]
    if len(names) == 1 and not columns:
        return list(names)
    raise DataError(
        f"{path}  has the columns {', '.join(names[:8])}: expected kingdom … species, or one of "
        f"{', '.join(COLUMNS['scientific_name'])}, name."
    )
