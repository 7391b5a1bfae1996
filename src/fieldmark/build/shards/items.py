"""Items that become samples: which photos of a table, of which taxon, under which key, in order.

A table of photos (CSV, TSV, Parquet), a folder with one folder a class, or any dataset of this
package. The order is drawn from the seed and the ids alone, so it is the same whatever order the
rows have.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

from fieldmark import draws
from fieldmark.data import DATASETS, Box, read_table
from fieldmark.errors import DataError, UnknownName, UsageError
from fieldmark.registry import is_file_reference, short_name
from fieldmark.taxa import Taxon, parse_name, taxon_columns, taxon_of_fields

if TYPE_CHECKING:
    import polars as pl

TABLES = (".csv", ".tsv", ".parquet")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_SAFE_KEY = re.compile(r"[A-Za-z0-9_-]{1,80}")
ALL, TRAIN = "all", "train"
"""words for `--split`"""
_CAPTION = "_caption"
_HASHED_KEY = re.compile(r".*-[0-9a-f]{16}")
_NOT_LATIN = tuple("bcdfghjkpqtvwyz")
"""last letters that epithets hardly ever have, and English words often: leaf, rust, sparrow"""
_MOST_NOT_LATIN = 0.25
"""of the labels that have the form of genus and species: more of them, and all are plain words.
Meta-Album's lists of species have 0 to 10 %, the leaves of PlantDoc and PlantVillage 82 to 90 %."""


@dataclass(frozen=True, slots=True)
class ShardItem:
    """One photo that becomes one sample."""

    id: str
    key: str
    image: str
    """relative to the source's root"""
    crop: Box | None
    split: str
    taxon: Taxon
    caption: str = ""
    """a sentence on what the photo shows, where the table has one"""
    dataset: str = ""
    """name of the source"""


@dataclass(frozen=True, slots=True)
class ShardSource:
    """Photos and what is known of them."""

    name: str
    root: Path
    table: pl.DataFrame


@dataclass(frozen=True, slots=True)
class ChosenItems:
    """The rows that become samples, in their order, and what was left out."""

    table: pl.DataFrame
    n_nameless: int
    """rows without any name"""
    n_repeated: int
    """rows that list a photo again for the same taxon"""
    n_contradicting: int
    """rows that list a photo again for another taxon: they are kept"""
    split: str = ""
    """that all of them are of; "" = any"""
    n_other_splits: int = 0
    """rows of other splits, or of none"""
    scientific_labels: tuple[str, ...] = ()
    """labels that are read as genus and species, as no column says what they are"""
    common_labels: tuple[str, ...] = ()
    """labels that are read as common names"""
    dataset: str = ""
    """name of the source"""

    @property
    def splits(self) -> dict[str, int]:
        """split → photos that become samples, where photos have one"""
        return dict(sorted(Counter(self.table["split"].drop_nulls()).items()))

    @property
    def n_captions(self) -> int:
        return sum(bool(text.strip()) for text in self.table[_CAPTION])

    def items(self, start: int, n: int) -> list[ShardItem]:
        items = []
        for row in self.table.slice(start, n).iter_rows(named=True):
            item, image, crop, split = (row.pop(name) for name in ("id", "image", "crop", "split"))
            caption = " ".join(row.pop(_CAPTION).split())
            box = cast("Box", tuple(map(float, crop))) if crop is not None else None
            taxon = _taxon(tuple(row.items()), bool(self.scientific_labels))
            about = (split or "", taxon, caption, self.dataset)
            items.append(ShardItem(item, safe_key(item), image, box, *about))
        return items


def read_source(word: str, root_of: Callable[[str], Path]) -> ShardSource:
    """A dataset's name, a table file, or a folder: with a table in it, or one folder a class."""
    path = Path(word).expanduser()
    if word in DATASETS.names() or is_file_reference(word):
        root = root_of(word)
        if not root.exists():
            raise DataError(
                f"{root}  does not exist. `fieldmark datasets {word}` says how to get the data; "
                f"--data {word}=FOLDER says where they are."
            )
        return ShardSource(short_name(word), root, _readable(word, root))
    if path.is_file():
        return ShardSource(path.stem, path, _readable("csv", path))
    if path.is_dir():
        has_table = any(child.suffix.lower() in TABLES for child in path.iterdir())
        kind = "csv" if has_table else "folder"
        return ShardSource(path.resolve().name, path, _readable(kind, path))
    if path.suffix or "/" in word:
        raise DataError(f"{word}  does not exist.")
    raise UnknownName("dataset, table or folder", word, DATASETS.names(), "fieldmark datasets")


def _readable(name: str, root: Path) -> pl.DataFrame:
    import polars as pl

    table = read_table(name, root)
    if table.schema["image"] != pl.String:
        raise DataError(f"{root}  contains clips of several frames: shards take single images.")
    return table


def choose_items(
    source: ShardSource, split: str | None, seed: int, caption: str | None = None
) -> ChosenItems:
    """Rows that have a name, each photo once a taxon, in the order that the seed draws. `split` is
    one of the table's, or `all`; `caption` is the column of the captions.
    """
    import polars as pl

    table = source.table
    if caption is not None and caption not in table.columns:
        text_columns = [name for name in table.columns if table.schema[name] == pl.String]
        raise UnknownName("caption column", caption, text_columns, where="--caption")
    split = _split(source, split)
    table = table.filter(pl.col("split") == split) if split else table
    n_other_splits = source.table.height - table.height
    columns = taxon_columns(table.columns)
    fields = ["label", *(name for names in columns.values() for name in names)]
    text = [pl.col(name).cast(pl.String).fill_null("").str.strip_chars() for name in fields]
    box = pl.col("crop").list.eval(pl.element().cast(pl.String)).list.join(" ").fill_null("")
    sentence = pl.lit("") if caption is None else pl.col(caption).cast(pl.String).fill_null("")
    table = table.select(
        "id", "image", "crop", "split", *text, box.alias("_box"), sentence.alias(_CAPTION)
    )
    named = table.filter(pl.any_horizontal(pl.col(name) != "" for name in fields))
    photo, taxon = ["image", "_box"], ["image", "_box", *fields]
    once = named.sort("id").unique(taxon, keep="first", maintain_order=True)
    if once.is_empty():
        raise DataError(f"{source.root}  has no photo with a species or other name to pack.")
    n_photos = once.select(photo).unique().height
    order = pl.DataFrame({"id": draws.shuffled(once["id"], seed, "shards")})
    ordered = order.join(once.drop("_box"), on="id", how="left", maintain_order="left")
    counts = (table.height - named.height, named.height - once.height, once.height - n_photos)
    labels = _read_labels(once.filter(pl.col("label") != "").select(fields).unique())
    return ChosenItems(ordered, *counts, split, n_other_splits, *labels, source.name)


def _read_labels(names: pl.DataFrame) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Labels that are read as scientific names and as common ones, where no column says which.

    The labels of a source are of one sort: `Corn rust leaf` has the form of a name with three
    parts, but it stands among others whose last word cannot be Latin.
    """
    labels: dict[str, Taxon] = {}
    for fields in names.iter_rows(named=True):
        label = fields.pop("label")
        if not (taxon := taxon_of_fields(fields)).name:
            labels[label] = taxon
    scientific = {label for label in labels if _is_binomial(label)}
    n_odd = sum(str(parse_name(label)).endswith(_NOT_LATIN) for label in scientific)
    if n_odd > _MOST_NOT_LATIN * len(scientific):
        scientific = set()
    common = {label for label, taxon in labels.items() if not taxon.common_name} - scientific
    return tuple(sorted(scientific)), tuple(sorted(common))


def _is_binomial(label: str) -> bool:
    parsed = parse_name(label)
    return parsed is not None and bool(parsed.species)


def _split(source: ShardSource, chosen: str | None) -> str:
    """The split to take, "" for all photos. What is not said is the training split, where photos
    have splits: a model must not be trained on those it will be tested with.
    """
    splits = source.table["split"].drop_nulls().unique().sort().to_list()
    if chosen == ALL or (chosen is None and not splits):
        return ""
    split = chosen or TRAIN
    if split not in splits:
        have = ", ".join(splits) if splits else "no splits"
        hint = f" Name one with --split, or --split {ALL}." if chosen is None else ""
        raise UsageError(f"--split {split}: {source.name} has {have}.{hint}")
    return split


def held_out(splits: Mapping[str, int], n_photos: int) -> str:
    """Says which photos are kept for tests; "" where all are training photos.

    >>> held_out({"test": 96, "train": 192}, 288), held_out({"train": 192}, 192)
    ('96 of 288 photos are not training photos (split test: 96)', '')
    """
    others = {split: n for split, n in splits.items() if split not in ("", TRAIN)}
    named = ", ".join(f"split {split}: {n:,}" for split, n in others.items())
    n = sum(others.values())
    return f"{n:,} of {n_photos:,} photos are not training photos ({named})" if n else ""


@lru_cache(maxsize=1 << 16)
def _taxon(fields: tuple[tuple[str, str], ...], has_scientific_labels: bool) -> Taxon:
    """A label is a scientific name where it has the form of one, else a common name."""
    names = dict(fields)
    label = names.pop("label", "")
    taxon = taxon_of_fields(names)
    if not taxon.name and has_scientific_labels and _is_binomial(label):
        taxon = replace(taxon_of_fields({"scientific_name": label}), common_name=taxon.common_name)
    return taxon if taxon.name or taxon.common_name else replace(taxon, common_name=label)


def safe_key(item: str) -> str:
    """A key that no reader takes apart: no dots, no folders; different for different ids.

    >>> safe_key("bird-0001"), safe_key("train/a.b.jpg")
    ('bird-0001', 'train_a_b_jpg-6969d9f505d5d157')
    """
    if _SAFE_KEY.fullmatch(item) and not _HASHED_KEY.fullmatch(item):
        return item
    return f"{_UNSAFE.sub('_', item)[:80]}-{draws.digest(item)[:8].hex()}"
