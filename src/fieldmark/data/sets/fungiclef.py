"""FungiCLEF 2023: fungi, some of which are in no training image and some poisonous.

    label         the class (its species' name if the table has one), or "unknown"
    scientific_name, kingdom … species   of the class, as its training photos have them (species is
                  the epithet); null for unknown ones and where the table has no such columns
    is_unknown    true for val photos of classes that train does not have, class_id -1 or not
    unit          the observation: it may have several photos, all of one class
    is_poisonous  from ROOT/poison_status_list.csv if it is there, else from the tables' column
                  `poisonous`, else null; never fetched
    kind          unknown, poisonous or edible; null where nothing says which class is poisonous
    class_id      as written in the file

With `rows="observation"` a row is an observation and `image` the list of its photos.

Photos of train lie in DF20_300, those of val in DF21_300; a name whose case differs on disk is
found too.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from fieldmark.data._check import (
    as_findings,
    count_findings,
    counted,
    image_findings,
    named_findings,
    published_findings,
)
from fieldmark.data._dataset import Finding, Info, Source, finish_table, need
from fieldmark.data._make import both_answers, pick, species_pool, take_photo, write_rows
from fieldmark.data.read.table import (
    is_given,
    is_whole,
    numbered,
    read_annotations,
    refuse_odd,
    with_optional,
)
from fieldmark.errors import UsageError
from fieldmark.taxa import RANKS, parse_name
from fieldmark.world import Scene

if TYPE_CHECKING:
    from fieldmark.world import World


__all__ = ["INFO", "UNKNOWN", "check", "make", "table"]

UNKNOWN = "unknown"
FOLDERS = {"train": "DF20_300", "val": "DF21_300"}
FILES = {split: f"FungiCLEF2023_{split}_metadata_PRODUCTION.csv" for split in FOLDERS}
POISON_FILE = "poison_status_list.csv"
ROWS = ("photo", "observation")
NEEDED = ("image_path", "class_id", "observationID")
OPTIONAL = ("species", "poisonous", *RANKS[:-1])
PUBLISHED = {"train": 295_938}
_ADDRESS = "http://ptak.felk.cvut.cz/plants/DanishFungiDataset"

INFO = Info(
    title="FungiCLEF 2023 (Danish fungi)",
    licence="none stated; for research, as the contest's page says",
    citation="Picek, Šulc, Chamidullin, Matas. Overview of FungiCLEF 2023: Fungi Recognition Beyond"
    " 1/0 Cost. CLEF 2023; Picek et al. Danish Fungi 2020 - Not Just Another Image Recognition "
    "Dataset. WACV 2022",
    homepage="https://www.imageclef.org/FungiCLEF2023",
    layout=f"ROOT/{FILES['train']}\nROOT/{FILES['val']}\nROOT/DF20_300/*.JPG\nROOT/DF21_300/*.JPG\n"
    f"ROOT/{POISON_FILE}  (class_id, poisonous; optional where the tables have `poisonous`)",
    sources=(
        Source(
            steps="The host answers without encryption only, so nothing is fetched for you. "
            f"Download {_ADDRESS}/DF20-300px.tar.gz (6.5 GB), {_ADDRESS}/DF21_300px.tar.gz "
            f"(2.5 GB), {_ADDRESS}/{FILES['train']}, {_ADDRESS}/{FILES['val']} and, for the cost "
            f"metric, {_ADDRESS}/{POISON_FILE} to ROOT, and unpack the two archives there."
        ),
    ),
)


def table(root: Path, rows: str = "photo") -> pl.DataFrame:
    """One row per photo or observation, train first, in the order of the files."""
    if rows not in ROWS:
        raise UsageError(f"rows is {rows!r}: expected {' or '.join(ROWS)}.")
    frame = _photos(root)
    return finish_table(frame if rows == "photo" else _observations(frame), root)


def _photos(root: Path) -> pl.DataFrame:
    parts = {split: _read(root, split) for split in FILES}
    # class_id → species, where the table names exactly one and no other class has it.
    pairs = (
        parts["train"].drop_nulls("species").select("class_id", "species").unique().sort("class_id")
    )
    fit = pairs.filter(
        ~pl.col("class_id").is_duplicated()
        & ~pl.col("species").is_duplicated()
        & (pl.col("species") != UNKNOWN)
    )
    names = dict(fit.rows())
    ranks = _class_ranks(parts["train"])
    trained = parts["train"].get_column("class_id").unique().to_list()
    is_unknown = (pl.col("class_id") == "-1") | ~pl.col("class_id").is_in(trained)
    frame = pl.concat(list(parts.values()))
    frame = frame.with_columns(is_unknown=is_unknown)
    frame = frame.with_columns(_poison(root, frame).alias("is_poisonous"))
    # As the contest counts: a class that is not listed is not poisonous
    is_known = frame.get_column("is_poisonous").is_not_null().any()
    kind = pl.when("is_poisonous").then(pl.lit("poisonous")).otherwise(pl.lit("edible"))
    kind = kind if is_known else pl.lit(None, pl.String)
    return frame.select(
        "id",
        "image",
        "split",
        pl.when("is_unknown")
        .then(pl.lit(UNKNOWN))
        .otherwise(pl.col("class_id").replace(names))
        .alias("label"),
        pl.col("observationID").str.strip_suffix(".0").alias("unit"),
        "is_unknown",
        "is_poisonous",
        pl.when("is_unknown").then(pl.lit(UNKNOWN)).otherwise(kind).alias("kind"),
        pl.col("class_id").cast(pl.Int64),
        *[_of_class(values).alias(rank) for rank, values in ranks.items()],
        *_name_parts(names),
    )


def _of_class(values: dict[str, str]) -> pl.Expr:
    value = pl.col("class_id").replace_strict(values, default=None, return_dtype=pl.String)
    return pl.when(~pl.col("is_unknown")).then(value)


def _name_parts(names: dict[str, str]) -> Iterator[pl.Expr]:
    parsed = {class_id: parse_name(name) for class_id, name in names.items()}
    parts = {class_id: name for class_id, name in parsed.items() if name and name.species}
    yield _of_class({key: name.species for key, name in parts.items()}).alias("species")
    yield _of_class({key: str(name) for key, name in parts.items()}).alias("scientific_name")


def _observations(photos: pl.DataFrame) -> pl.DataFrame:
    """Photos of one observation together; one that contradicts itself is as many as it claims."""
    rest = [name for name in photos.columns if name not in ("id", "image")]
    together = photos.group_by(rest, maintain_order=True).agg("image")
    together = together.with_columns(path=pl.format("{}/{}", "split", "unit"))
    return together.with_columns(numbered("path").alias("id")).drop("path")


@as_findings
def check(root: Path) -> Iterator[Finding]:
    """Unknown classes, observations that contradict themselves or leak, unreadable images."""
    rows = table(root)
    yield from published_findings(rows, PUBLISHED)
    n_train = rows.filter((pl.col("split") == "train") & pl.col("is_unknown")).height
    text = "of train with class_id -1: nothing can be learnt"
    yield from count_findings("warning", n_train, text, "photo")
    trained = rows.filter((pl.col("split") == "train") & ~pl.col("is_unknown"))
    if trained.get_column("label").n_unique() < 2:
        yield Finding("error", "at least two classes are needed in train.")
    val = rows.filter(pl.col("split") == "val")
    n = val.get_column("is_unknown").sum()
    if n:
        n_photos = f"{n:,} of {counted(len(val), 'photo')}"
        yield Finding("note", f"{n_photos} of val have a class that train lacks.")
    elif len(val):
        yield Finding("warning", "val has no unknown class: rejection is not tested.")
    yield from _poison_findings(root, rows)
    by_unit = rows.group_by("unit").agg(
        n_classes=pl.col("class_id").n_unique(), n_splits=pl.col("split").n_unique()
    )
    for column, what in {
        "n_classes": "with photos of several classes",
        "n_splits": "in train and in val",
    }.items():
        odd = sorted(by_unit.filter(pl.col(column) > 1).get_column("unit"))
        yield from named_findings("warning", odd, what, "observation")
    yield from image_findings(root, rows.get_column("image"))


# --- reading ---


def _read(root: Path, split: str) -> pl.DataFrame:
    path = need(root / FILES[split], f"the {split} photos of FungiCLEF", "fungiclef")
    frame = with_optional(read_annotations(path, NEEDED), OPTIONAL)
    frame = frame.with_columns(pl.col("class_id").str.strip_suffix(".0"))
    refuse_odd(
        path,
        frame,
        {
            "image_path": (is_given, "a file name"),
            "class_id": (is_whole, "a whole number, -1 for unknown"),
            "observationID": (is_given, "an observation"),
        },
    )
    folder = FOLDERS[split]
    files = _file_names(root / folder, frame.get_column("image_path"))
    return frame.select(
        pl.format(f"{folder}/{{}}", "image_path").alias("id"),
        pl.format(f"{folder}/{{}}", files).alias("image"),
        pl.lit(split).alias("split"),
        "class_id",
        "observationID",
        *OPTIONAL,
    )


def _file_names(folder: Path, names: pl.Series) -> pl.Series:
    """As the files are called on disk: exactly so, or but for upper and lower case."""
    there = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if there.issuperset(names):
        return names
    by_fold = {name.lower(): name for name in sorted(there, reverse=True)}
    on_disk = [name if name in there else by_fold.get(name.lower(), name) for name in names]
    return pl.Series(names.name, on_disk, dtype=pl.String)


def _class_ranks(train: pl.DataFrame) -> dict[str, dict[str, str]]:
    """Rank → class_id → its value, where all photos of the class agree."""
    values = train.group_by("class_id").agg(
        pl.when(pl.col(rank).drop_nulls().n_unique() == 1)
        .then(pl.col(rank).drop_nulls().first())
        .alias(rank)
        for rank in RANKS[:-1]
    )
    return {rank: dict(values.select("class_id", rank).drop_nulls().rows()) for rank in RANKS[:-1]}


def _poison(root: Path, photos: pl.DataFrame) -> pl.Expr:
    """By class: what the list says, or the tables of photos where there is no list."""
    path = root / POISON_FILE
    if path.is_file():
        frame = read_annotations(path, ("class_id", "poisonous"))
        rule = pl.col("poisonous").is_in(["0", "1"])
        refuse_odd(path, frame, {"poisonous": (rule, "0 or 1")})
    else:
        frame = photos.drop_nulls("poisonous").filter(pl.col("class_id") != "-1")
    answers = frame.select("class_id", pl.col("poisonous").str.strip_suffix(".0") == "1")
    listed = dict(answers.sort("poisonous").iter_rows())
    return pl.col("class_id").replace_strict(listed, default=None, return_dtype=pl.Boolean)


# --- checking ---


def _poison_findings(root: Path, rows: pl.DataFrame) -> Iterator[Finding]:
    path = root / POISON_FILE
    of_classes = rows.filter(~pl.col("is_unknown"))
    if of_classes.get_column("kind").null_count():
        text = f"{path}  is not there: the cost of poisonous species cannot be counted."
        yield Finding("note", text)
        return
    unlisted = (
        of_classes.filter(pl.col("is_poisonous").is_null()).get_column("class_id").unique().sort()
    )
    where = POISON_FILE if path.is_file() else "the column `poisonous`"
    text = f"that {where} does not list"
    yield from named_findings("warning", map(str, unlisted), text, "class", "classes")


# --- making ---

HEADER = (
    "observationID", "year", "month", "day", *RANKS[:-1], "species", "class_id", "image_path",
    "poisonous",
)  # fmt: skip
_ROUND = ("train", "train", "val", "train")
"""where the observations of a species go, in turn"""


def make(root: Path, world: World, size: int) -> None:
    """Mushrooms, up to three photos an observation; about `size`, at least four a species.

    Two species are in val only: one coded -1, as in the published table, one with a number that
    train does not have.
    """
    pool = species_pool(world, "fungiclef", 7, "mushroom", "herb", "tree")
    pool = pool[: max(4, min(len(pool), size // 8))]
    classes: dict[int, int] = {species: rank for rank, species in enumerate(pool[:-2])}
    classes |= {pool[-2]: len(pool) + 7, pool[-1]: -1}
    poisonous = _poisonous(world, classes)
    rows: dict[str, list[list[object]]] = {"train": [], "val": []}
    number = 0
    while number < 4 * len(pool) or sum(map(len, rows.values())) < size:
        turn, rank = divmod(number, len(pool))
        split = "val" if rank >= len(pool) - 2 else _ROUND[turn % 4]
        species = pool[rank]
        seen = (number, species, classes[species], poisonous.get(species))
        rows[split] += _write(root, world, seen, split)
        number += 1
    for split, listed in rows.items():
        write_rows(root / FILES[split], HEADER, listed)
    listed_poison = [[classes[species], answer] for species, answer in poisonous.items()]
    write_rows(root / POISON_FILE, ("class_id", "poisonous"), listed_poison)


def _write(
    root: Path, world: World, seen: tuple[int, int, int, int | None], split: str
) -> list[list[object]]:
    """One observation: up to three photos of one fungus."""
    number, species, class_id, poisonous = seen
    observation = 2_238_500_000 + number
    rows: list[list[object]] = []
    for shot in range(1 + pick(3, world.seed, "fungiclef", "photos", number)):
        name = f"{observation}-{10 * number + shot}.JPG"
        scene = Scene(species=species, individual=number, burst=number, shot=shot)
        take_photo(world, scene, root / FOLDERS[split] / name)
        day = [2020 + (split == "val"), 1 + number % 12, 1 + number % 28]
        ranks: list[str | None] = [world.species[species].ranks[rank] for rank in RANKS[:-1]]
        named = [*ranks, world.species[species].scientific_name]
        if class_id == -1:
            named = [None] * len(named)
        rows.append([observation, *day, *named, class_id, name, poisonous])
    return rows


def _poisonous(world: World, classes: dict[int, int]) -> dict[int, int]:
    """1 or 0 for each species with a number."""
    truth = {
        species: bool(world.species[species].traits["is_poisonous"])
        for species, class_id in classes.items()
        if class_id >= 0
    }
    answers = both_answers(truth, world.seed, "fungiclef", "poisonous")
    return {species: int(answer) for species, answer in answers.items()}
