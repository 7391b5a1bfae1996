"""Taxon: a name with its seven ranks, which tell apart what one name alone does not.

A binomial can stand for two organisms (a plant genus and an animal genus may share a name: a
hemihomonym), so a taxon is known by all its ranks. Common names are no part of what it is. Most
binomials that stand twice in a list are one organism in two systems, though: `same_organism` tells
the two apart. Lists come as CSV, TSV or Parquet, of any length, one row per image or per taxon.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import polars as pl

from fieldmark.data.read.names import HYBRID_SIGNS, parse_name
from fieldmark.data.read.table import SEPARATORS
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


EMPTY, UNNAMED, UNSURE, CODE, NO_NAME, BETWEEN = (
    "no name in any rank", "species not named (sp.)", "species not sure (cf., aff., nr.)",
    "a code in place of a species", "not a scientific name", "a group between the seven ranks",
)  # fmt: skip
_NOTHING = {
    "", "-", "?", "na", "n/a", "nan", "none", "null", "unknown", "unidentified", "incertae sedis",
    "not assigned", "unassigned",
}  # fmt: skip
_UNSURE_WORDS = re.compile(r"\b(cf|aff|nr|near|affin)\b\.?")
_UNNAMED_WORDS = re.compile(r"\b(sp|spp|indet|ssp|species)\b\.?(?!\w)")
_GENUS, _EPITHET = (
    re.compile(r"[A-Z][a-z]+"),
    re.compile(r"(?=\w\S)[a-z]+(-[a-z]+)*( [a-z]+(-[a-z]+)*)?"),
)
_NAMES = ("scientific_name", "scientificname", "binomial", "canonicalname", "species_name")
_COMMON = ("common_name", "common", "vernacular", "vernacular_name", "vernacularname")
_EPITHETS = ("specificepithet", "specific_epithet", "epithet")
_BELOW = ("infraspecificepithet", "infraspecific_epithet", "subspecies")


def normal_taxon(values: Mapping[str, str | None]) -> Taxon | str:
    """The taxon that a row names, or why it names none.

    Keys are those of `RANKS` (species as epithet or whole), `below` (an epithet below the species),
    `scientific_name`, `common_name`.

    >>> normal_taxon({"genus": "mentha", "species": "Mentha x piperita L."}).name
    'Mentha × piperita'
    >>> normal_taxon({"genus": "Dasineura", "species": "sp. 2"})
    'species not named (sp.)'
    """
    ranks = [_capital(_cell(values.get(rank))) for rank in RANKS[:5]]
    genus, species = _cell(values.get("genus")), _cell(values.get("species"))
    common = _cell(values.get("common_name"))
    if species and (below := _cell(values.get("below"))):
        species = f"{species} {below}"
    whole = _whole_name(genus, species) or _cell(values.get("scientific_name")) or genus
    if not whole or whole in ranks:
        lowest = max((place for place, name in enumerate(ranks) if name), default=-1)
        return _taxon(ranks[: lowest + 1], common) if lowest >= 0 else EMPTY
    if not genus and "genus" in values and " " not in whole:
        return BETWEEN
    if reason := _why_unnamed(whole):
        return reason
    if _EPITHET.fullmatch(species) and _GENUS.fullmatch(genus):
        return _taxon([*ranks, genus, species], common)
    name = parse_name(whole.capitalize() if whole.isupper() else _capital(whole))
    if name is None or (" " in whole.strip("x× ") and not name.species):
        return NO_NAME
    parts = (_signed(name.genus), _signed(f"{name.species} {name.below}".strip()))
    return _taxon([*ranks, *parts], common)


def _taxon(ranks: list[str], common_name: str) -> Taxon:
    kingdom, phylum, class_, order, family, genus, species = [*ranks, *[""] * 7][:7]
    return Taxon((kingdom, phylum, class_, order, family, genus, species), common_name)


def _capital(text: str) -> str:
    """With a capital; a hybrid's sign stays as it is."""
    start = 2 if text.startswith(("x ", "× ")) else 0
    return text[:start] + text[start : start + 1].upper() + text[start + 1 :]


@lru_cache(maxsize=1 << 16)
def _cell(value: str | None) -> str:
    text = " ".join((value or "").replace("_", " ").split())
    return "" if text.lower() in _NOTHING else text


def _whole_name(genus: str, species: str) -> str:
    if not species or (not genus and " " not in species):
        return ""
    if species.isupper() or " " not in species:
        species = species.lower()
    is_whole = not genus or species.lower().startswith(f"{genus.lower()} ") or species[0].isupper()
    return species if is_whole else f"{genus} {species}"


def _why_unnamed(name: str) -> str:
    """Why the name of a species is none; "" = it may be one."""
    rest = name.partition(" ")[2]
    start = " ".join(rest.split()[:2]).lower()
    if _UNSURE_WORDS.search(start):
        return UNSURE
    if _UNNAMED_WORDS.match(start):
        return UNNAMED
    has_code = "BOLD:" in name or bool(re.match(r"\S*\d", rest)) or bool(re.search(r"\d", name[:3]))
    return CODE if has_code else NO_NAME if rest.endswith("virus") else ""


def _signed(name: str) -> str:
    """One sign for all hybrids."""
    sign, _, rest = name.partition(" ")
    return f"× {rest}" if rest and sign in HYBRID_SIGNS else name


def read_taxa(path: Path) -> TaxonList:
    """The taxa of a table; memory grows with the number of taxa, not of rows."""
    frame = _unique_rows(path)
    taxa: dict[tuple[str, ...], Taxon] = {}
    skipped: Counter[str] = Counter()
    for row in frame.iter_rows(named=True):
        taxon = normal_taxon(row)
        if isinstance(taxon, str):
            skipped[taxon] += row["n"]
            continue
        known = taxa.setdefault(taxon.ranks, taxon)
        if taxon.common_name and not known.common_name:
            taxa[taxon.ranks] = replace(known, common_name=taxon.common_name)
    if not taxa:
        why = "; ".join(f"{count} × {reason}" for reason, count in skipped.most_common(3))
        raise DataError(f"{path}  names no taxon ({why or 'it has no rows'}).")
    return TaxonList(tuple(taxa.values()), int(frame["n"].sum()), dict(skipped.most_common()))


def _unique_rows(path: Path) -> pl.DataFrame:
    """Different rows in the order of their first appearance, and how often each stands there."""
    try:
        lazy = _scan(path)
        columns = _columns(path, lazy.collect_schema().names())
        rows = lazy.with_row_index("row").select(
            "row", *(pl.col(name).cast(pl.String).alias(word) for word, name in columns.items())
        )
        counted = rows.group_by(list(columns)).agg(pl.col("row").min(), pl.len().alias("n"))
        return counted.collect(engine="streaming").sort("row")
    except (pl.exceptions.PolarsError, OSError) as error:
        line = str(error).strip().splitlines()[0].rstrip(".")
        raise DataError(f"{path}  cannot be read as a table of taxa: {line}.") from error


def _scan(path: Path) -> pl.LazyFrame:
    if not path.is_file():
        raise DataError(f"{path}  does not exist: expected a CSV, TSV or Parquet file of taxa.")
    if path.suffix.lower() == ".parquet":
        return pl.scan_parquet(path, glob=False)
    with path.open("rb") as file:
        header = file.readline(1 << 16).decode("utf-8-sig", "replace").strip()
    separator = max(SEPARATORS, key=header.count)
    name = parse_name(header) if header.count(separator) == 0 else None
    return pl.scan_csv(
        path,
        separator=separator,
        has_header=not (name and name.species),
        infer_schema=False,
        encoding="utf8-lossy",
        glob=False,
    )


def _columns(path: Path, names: Sequence[str]) -> dict[str, str]:
    """What `normal_taxon` wants → the column that has it."""
    plain = {re.sub(r"[\s\-]+", "_", name.strip().lower()): name for name in names}
    columns = {rank: plain[rank] for rank in RANKS if rank in plain}
    for word, aliases in (
        ("species", () if "species" in columns else _EPITHETS),
        ("below", _BELOW),
        ("scientific_name", _NAMES),
        ("common_name", _COMMON),
    ):
        known = [plain[alias] for alias in aliases if alias in plain]
        columns |= {word: known[0]} if known else {}
    if len(names) == 1 and not columns:
        return {"scientific_name": names[0]}
    if not any(word in columns for word in ("genus", "species", "scientific_name")):
        have = ", ".join(names[:8])
        raise DataError(
            f"{path}  has the columns {have}: expected kingdom … species, or scientific_name."
        )
    return columns
