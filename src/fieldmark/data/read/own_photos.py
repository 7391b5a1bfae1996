"""Labelled photos as people have them (class folders, tables): which photo has which label?

Class folders may lie at any depth, with or without train and test folders; a table names a photo
and its label in each row. What says the label and what says the unit (camera, site, individual) is
guessed from names and can be said; either way it is told.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import polars as pl

from fieldmark.data._dataset import COLUMNS, SPLITS
from fieldmark.data.read.folders import is_image, walk_files
from fieldmark.data.sets.csv import LEAST_UNITS
from fieldmark.data.sets.csv import table as read_csv
from fieldmark.errors import DataError, UsageError
from fieldmark.words import counted, first_few

COPIES = "fieldmark-copies.txt"
"""marks a folder of copies that `predict` has sorted by a model's answers"""
JUNK = (
    *("__MACOSX", "@eaDir", "Thumbs.db", "desktop.ini", "$RECYCLE.BIN"),
    *("site-packages", "node_modules"),
)
SHOWN = 3
"""files that are named where all are counted"""
_MARKS = (COPIES, "pyvenv.cfg")
"""files whose folder holds nobody's labelled photos; the second is of a Python environment"""
_NEITHER = re.compile(r"conf_[\d.-]+|verified|DCIM|\d{3}[A-Z_]{5}|\d[\d ._:T-]*", re.IGNORECASE)
"""folders that name neither a label nor a place: confidences, camera folders, dates, counters"""
_PLACE = re.compile(
    r"(cam|camera|site|station|plot|trap|deployment|location|loc|transect|card|session|visit|"
    r"burst|seq|sequence|observer|individual|animal|day|week|month)[ _-]?[\w-]*",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r".*\d")
_SPECIES = re.compile(r"[A-Z][a-z-]+[ _][a-z-]{3,}([ _][a-z-]{3,})?")
FIGURE = "confusion.png"
"""that `try` leaves"""
TABLES = (".csv", ".tsv", ".txt", ".parquet")
"""Darwin Core archives call theirs .txt"""
RAW = {
    ".3fr", ".arw", ".cr2", ".cr3", ".crw", ".dng", ".iiq", ".nef", ".nrw", ".orf", ".pef", ".raf",
    ".raw", ".rw2", ".rwl", ".sr2", ".srf", ".srw", ".x3f",
}  # fmt: skip
VIDEO = {
    ".3gp", ".asf", ".avi", ".flv", ".m2ts", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg",
    ".mts", ".webm", ".wmv",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Columns:
    """What the user says about the input; "" and 0 mean that it is guessed."""

    image: str = ""
    label: str = ""
    unit: str = ""
    label_part: int = 0
    """which folder names the label: 1 is the outermost"""
    boxes: Path | None = None
    """results of MegaDetector: photos are cut to their animal"""


@dataclass(frozen=True, slots=True)
class LabelledPhotos:
    """Labelled photos."""

    root: Path
    table: pl.DataFrame
    """the columns of a dataset; `unit` is null where nothing names it"""
    label_from: str
    """what names the label, in words: "the folder names", "folder 2", "column species" """
    unit_from: str
    """what names the unit; "" = nothing does"""
    hint: str = ""
    """what else could name the label or the unit, and how to say so"""
    n_ignored: int = 0
    """files that are not photos, and photos in no folder or without a label"""
    ignored: tuple[str, ...] = ()
    """the first of them"""
    unread: tuple[str, ...] = ()
    """RAW files and videos"""
    empty: tuple[str, ...] = ()
    """folders without photos"""


# --- folders


def photo_files(root: Path) -> tuple[list[str], list[str]]:
    """Photos below a folder, and other files; what systems and programs leave there is neither."""
    files = list(walk_files(root))
    marked = (path.rpartition("/")[::2] for path in files)
    skipped = tuple({f"{folder}/" for folder, name in marked if folder and name in _MARKS})
    own = [p for p in files if not p.startswith(skipped) and not set(JUNK) & set(p.split("/"))]
    paths = [path for path in own if is_image(path) and not _is_ours(root / path)]
    return paths, sorted(set(own) - set(paths))


def unread_files(others: Iterable[str], photos: Iterable[str] = ()) -> list[str]:
    """RAW files and videos, but those beside a photo of the same name: a camera saved it twice, or
    a phone filmed what it photographed.
    """
    names = {_stem(path) for path in photos}
    return [path for path in others if _suffix(path) in RAW | VIDEO and _stem(path) not in names]


def tell_unread(paths: Sequence[str]) -> Iterator[str]:
    """What to do about RAW files and videos, in a line each."""
    raw = [path for path in paths if _suffix(path) in RAW]
    if n := len(raw):
        kinds = ", ".join(sorted(set(map(_suffix, raw))))
        files = counted(n, f"RAW file ({kinds}) was", f"RAW files ({kinds}) were")
        yield f"{files} left out: export {'it' if n == 1 else 'them'} as JPEG."
    if n := len(paths) - len(raw):
        yield (
            f"{counted(n, 'video was', 'videos were')} left out: take frames out of "
            f"{'it' if n == 1 else 'them'} first."
        )


def _suffix(path: str) -> str:
    return f".{path.rpartition('.')[2].lower()}"


def _stem(path: str) -> str:
    return path.rpartition(".")[0].casefold()


def _is_ours(path: Path) -> bool:
    """The figure of an earlier verdict, which lies in the folder of the photos."""
    return path.name == FIGURE and (path.parent / "methods.txt").is_file()


def read_folder(root: Path, columns: Columns) -> LabelledPhotos:
    if columns.image or columns.label or columns.unit:
        raise UsageError(
            f"{root} is a folder, and --image, --label and --unit name columns of a table: leave "
            "them out, or give the table."
        )
    if (root / COPIES).exists():
        raise DataError(
            f"{root} has copies that `fieldmark predict` sorted by a model's answers. A model is "
            f"tested on labels that a person gave: check them, remove folders that are no label "
            f"(unsure, unlike anything seen), then delete {COPIES} in it."
        )
    paths, others = photo_files(root)
    unread = unread_files(others, paths)
    folders = [tuple(path.split("/")[:-1]) for path in paths]
    n_shared = _count_shared(folders)
    inner = [parts[n_shared:] for parts in folders]
    # A label may be called train: only a folder of folders is a split.
    has_splits = any(len(parts) > 1 and _split_of(parts) for parts in inner)
    rest = [parts[1:] if has_splits and _split_of(parts) else parts for parts in inner]
    depth = max(map(len, rest), default=0)
    if not depth:
        raise _flat(root, len(paths), len(others) - len(unread), unread)
    label_part, least = columns.label_part, n_shared + has_splits + 1
    if label_part and not least <= label_part < least + depth:
        numbers = " or ".join(f"{least + at} ({_names_at(rest, at)})" for at in range(depth))
        raise UsageError(f"--label-part {label_part}: expected {numbers}.")
    parts = _choose_parts(rest, label_part - least if label_part else None)
    rows, ignored = [], sorted(set(others) - set(unread))
    for path, outer, names in zip(paths, inner, rest, strict=True):
        if len(names) <= parts.label:
            ignored.append(path)
        else:
            split = _split_of(outer) if has_splits else None
            unit = () if parts.unit is None else names[parts.unit : parts.unit + 1]
            rows.append((path, path, split, names[parts.label], next(iter(unit), None), None))
    return LabelledPhotos(
        root,
        pl.DataFrame(rows, orient="row", schema=SCHEMA),
        f"folder {least + parts.label}" if depth > 1 else "the folder names",
        "" if parts.unit is None else f"folder {least + parts.unit}",
        _or_else(rest, parts.other, least),
        len(ignored),
        tuple(ignored[:SHOWN]),
        tuple(unread),
        _empty_folders(root),
    )


def _flat(root: Path, n_photos: int, n_other: int, unread: Sequence[str]) -> DataError:
    advice = " ".join(tell_unread(unread))
    if advice and not n_photos:
        return DataError(f"{root} contains no photos. {advice}")
    content = f"{n_photos:,} photos outside any folder" if n_photos else "no photos"
    others = f" ({counted(n_other, 'other file')})" if n_other else ""
    return DataError(
        f"{root} contains {content}{others}: sort them into one folder per label, or give a table "
        f"(.csv) with a column for the photo and one for the label. {advice}".rstrip()
    )


def _count_shared(folders: Sequence[Sequence[str]]) -> int:
    """How many outer folders all photos share: they name nothing, one too high was given."""
    shared = takewhile(lambda names: len(set(names)) == 1, zip(*folders, strict=False))
    return max(0, min(len(list(shared)), min(map(len, folders), default=0) - 1))


def _or_else(folders: Sequence[Sequence[str]], at: int | None, offset: int) -> str:
    """What else the label could be, and how to say so."""
    if at is None:
        return ""
    folder = f"folder {offset + at} ({_names_at(folders, at)})"
    return f"The label could also be {folder}: `--label-part {offset + at}` reads it from there."


def _names_at(folders: Sequence[Sequence[str]], at: int) -> str:
    return first_few(sorted({parts[at] for parts in folders if len(parts) > at}), 3)


SCHEMA: dict[str, Any] = {
    **dict.fromkeys(("id", "image", "split", "label", "unit"), pl.String),
    "crop": pl.List(pl.Float64),
}


def _empty_folders(root: Path) -> tuple[str, ...]:
    """Innermost folders in which nobody put a photo; hidden ones are other programs'."""
    empty = []
    for folder, inner, names in os.walk(root):
        path = Path(folder).relative_to(root)
        if path.name.startswith(".") or path.name in JUNK or set(_MARKS) & set(names):
            inner.clear()
        elif not inner and not any(map(is_image, names)) and "model.safetensors" not in names:
            empty.append(path.as_posix())
    return tuple(sorted(empty))


def _split_of(parts: Sequence[str]) -> str | None:
    return SPLITS.get(parts[0].lower()) if parts else None


@dataclass(frozen=True, slots=True)
class _Parts:
    """Which folder of a path, counted from 0, is what."""

    label: int
    unit: int | None
    other: int | None
    """could be the label as well"""


def _choose_parts(folders: Sequence[Sequence[str]], chosen: int | None) -> _Parts:
    """The label is the folder with the names of species. Else it is the first that reads like a
    label, or one inside it whose names return in most of those above: sites that hold species, and
    not a label's plants (plant 1, plant 2). The unit is the first that reads like a place (camera
    3, site_B), else one above the label of which most hold several labels.
    """
    depth = max(map(len, folders))
    values = [Counter(p[at] for p in folders if len(p) > at) for at in range(depth)]
    is_neither, is_place, is_species = (
        [_reads_as(pattern, names) for names in values] for pattern in (_NEITHER, _PLACE, _SPECIES)
    )
    named = [at for at in range(depth) if not is_neither[at] and not is_place[at]]
    species = [at for at in named if is_species[at]]
    is_known = chosen is not None or len(species) == 1
    inner = [at for at in named[1:] if _is_crossed(folders, named[0], at)]
    inside = [at for at in inner if not _reads_as(_NUMBERED, values[at])]
    candidates = species if len(species) == 1 else inside or named or [0]
    label = candidates[0] if chosen is None else chosen
    others = [at for at in named if at != label and _is_crossed(folders, label, at)]
    units = [at for at in range(depth) if is_place[at] and at != label]
    units += [at for at in others if at < label]
    return _Parts(label, next(iter(units), None), None if is_known else next(iter(others), None))


def _is_crossed(folders: Sequence[Sequence[str]], one: int, other: int) -> bool:
    """Do most folders at one depth hold, or lie in, several of those at the other, both ways?"""
    pairs = {(p[one], p[other]) for p in folders if len(p) > max(one, other)}
    sides = [Counter(pair[side] for pair in pairs) for side in (0, 1)]
    return all(sum(n > 1 for n in side.values()) > len(side) / 2 for side in sides)


def place_word(names: Iterable[str | None]) -> str:
    """What several folders call their places.

    >>> place_word(["Site North", "site_2"]), place_word(["Site North", "Creek"])
    ('site', 'unit')
    """
    places = [_PLACE.fullmatch(name) for name in names if name is not None]
    words = {place[1].lower() if place else "unit" for place in places}
    return words.pop() if len(words) == 1 else "unit"


def _reads_as(pattern: re.Pattern[str], names: Counter[str]) -> bool:
    """Do most of several names have this form? A single folder decides nothing."""
    n = sum(bool(pattern.fullmatch(name)) for name in names)
    return len(names) > 1 and n > 0.8 * len(names)


# --- tables


def read_table(path: Path, columns: Columns) -> LabelledPhotos:
    if columns.label_part:
        raise UsageError("--label-part is about folders: name the column with --label.")
    given = {role: getattr(columns, role) or None for role in ("image", "label", "unit")}
    every = read_csv(path, **given)
    table = every.filter(pl.col("label").is_not_null())
    if table.is_empty():
        raise DataError(f"{path} has no row with a label.")
    unit_from = "" if table.get_column("unit").is_null().all() else _same_column(table, "unit")
    if unit_from and table.get_column("unit").equals(table.get_column("label")):
        raise UsageError(
            f"--unit {columns.unit} names the labels: name the column of the camera, site or "
            "individual, or leave --unit out."
        )
    hint = "" if unit_from else _could_be_unit(table)
    label_from, ignored = _same_column(table, "label"), every.filter(pl.col("label").is_null())
    names = tuple(ignored.get_column("image").head(SHOWN))
    return LabelledPhotos(path.parent, table, label_from, unit_from, hint, len(ignored), names)


def _could_be_unit(table: pl.DataFrame) -> str:
    """Columns whose values repeat, within labels and not with them: cameras, sites, plants?"""
    label, names = table.get_column("label"), list[str]()
    for column in table.drop(*COLUMNS, strict=False).iter_columns():
        values = column.cast(pl.String)
        n, pairs = values.n_unique(), pl.DataFrame([label, values.alias("value")])
        is_word = not column.dtype.is_float() and not values.is_null().any()
        if is_word and LEAST_UNITS <= n <= len(table) / 2 and pairs.n_unique() > label.n_unique():
            names.append(column.name)
    if not names:
        return ""
    return (
        f"Values repeat in column {first_few(names, 3)}: if these are cameras, sites or "
        f"individuals, add --unit {names[0]}."
    )


def _same_column(table: pl.DataFrame, role: str) -> str:
    """Which of the table's own columns plays this role, in words."""
    values = table.get_column(role)
    others = (name for name in table.columns if name not in COLUMNS)
    same = (name for name in others if table.get_column(name).cast(pl.String).equals(values))
    return f"column {next(same, role)}"


# --- spellings of labels ---


def merge_spellings(labels: Sequence[str]) -> dict[str, str]:
    """Each spelling → the commonest spelling of that label."""
    counts = Counter(labels)
    by_key: dict[str, list[str]] = defaultdict(list)
    for name in sorted(counts):
        by_key[fold_label(name)].append(name)
    best = {key: max(names, key=lambda name: counts[name]) for key, names in by_key.items()}
    return {name: best[fold_label(name)] for name in counts}


def fold_label(label: str) -> str:
    """The same for all spellings of one label; numbers have one spelling.

    >>> fold_label("Acer_rubrum ") == fold_label("acer  Rubrum")
    True
    >>> fold_label("-1") == fold_label("1")
    False
    """
    if re.fullmatch(r"[+-]?[\d.,]+", label):
        return label
    label = unicodedata.normalize("NFC", label)
    return re.sub(r"[\s_\-\u00a0\u200b-\u200d\ufeff]+", " ", label).strip(" .").casefold()
