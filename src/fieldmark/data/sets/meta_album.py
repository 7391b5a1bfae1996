"""Meta-Album (mini): eight of its sets of living things, 40 small images a class.

    set              fng (fungi), ins, ins2 (insects), med_lf (medicinal leaves), plk (plankton),
                     plt_doc, plt_vil (plant diseases) or plt_net (plants)
    label            the class string exactly as it is: underscores, authors, accents, mistakes
    scientific_name  where the string names a species without doubt: fng and plt_net (without the
                     author), the names in parentheses of ins, and med_lf
    common_name      the class in plain words: plt_doc and plt_vil without underscores, the names in
                     parentheses of med_lf
    super_category   where the files give one

`ins2` mixes species, families, trivial names and misspellings, `plk` genera and shapes: only the
label says what they are. `table(root, set="fng")` reads one set, without `set` all that are there.
Two layouts are read, the official one and that of BioCLIP's tests. There is no split: few-shot
protocols draw from all images, zero-shot ones ask about all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from fieldmark.data._check import (
    as_findings,
    class_findings,
    image_findings,
    named_findings,
    set_findings,
)
from fieldmark.data._dataset import Finding, Info, Source, find_home, finish_table
from fieldmark.data._make import PLANTS, PlannedPhoto, plan_photos, write_rows
from fieldmark.data.read.table import (
    is_given,
    read_annotations,
    read_json_object,
    refuse_odd,
    with_optional,
)
from fieldmark.errors import DataError, UsageError
from fieldmark.taxa import parse_name
from fieldmark.world import write_photo

if TYPE_CHECKING:
    from fieldmark.world import Species, World

ClassNames = tuple[str | None, str | None]
"""scientific and common name"""


def _no_names(_: str) -> ClassNames:
    return None, None


def _species(text: str) -> ClassNames:
    """`Amanita excelsa Gonn. & Rabenh.` → Amanita excelsa."""
    name = parse_name(text)
    return (str(name) if name and name.species else None), None


def _in_parentheses(text: str) -> ClassNames:
    """`La Punaise du Chou (Eurydema oleracea)`; genera, `et autres` and families are no species."""
    match = re.search(r"\(([A-Z][a-z]+ [a-z]{3,})\)$", text)
    return (match[1] if match else None), None


def _leaf(text: str) -> ClassNames:
    """`Alpinia Galanga (Rasna)` → Alpinia galanga, Rasna."""
    spaced = " ".join(text.replace("_", " ").split())
    match = re.fullmatch(r"([A-Z][a-z]+) ([A-Za-z-]+) ?\(([^()]+)\)", spaced)
    return (f"{match[1]} {match[2].lower()}", match[3].strip()) if match else (None, None)


def _words(text: str) -> ClassNames:
    """`Tomato___Late_blight` → Tomato Late blight."""
    return None, " ".join(text.replace("_", " ").split())


@dataclass(frozen=True, slots=True)
class AlbumSet:
    """What is known of one set."""

    folder: str
    """as it is published"""
    n_images: int
    n_classes: int
    names: Callable[[str], ClassNames]
    """what a class string says beside itself"""
    plans: tuple[str, ...]
    """body plans of the world that stand for its classes"""


SETS = {
    "fng": AlbumSet("FNG_Mini", 1_000, 25, _species, ("mushroom",)),
    "ins": AlbumSet("INS_Mini", 4_160, 104, _in_parentheses, ("butterfly", "beetle")),
    "ins2": AlbumSet("INS_2_Mini", 4_080, 102, _no_names, ("beetle", "spider")),
    "med_lf": AlbumSet("MED_LF_Mini", 1_000, 25, _leaf, PLANTS),
    "plk": AlbumSet("PLK_Mini", 3_440, 86, _no_names, ("plankton",)),
    "plt_doc": AlbumSet("PLT_DOC_Mini", 1_080, 27, _words, PLANTS),
    "plt_net": AlbumSet("PLT_NET_Mini", 1_000, 25, _species, PLANTS),
    "plt_vil": AlbumSet("PLT_VIL_Mini", 1_520, 38, _words, PLANTS),
}
LABELS, INFO_FILE, METADATA = "labels.csv", "info.json", "metadata.csv"
IMAGE_FOLDER, VAL = "images", "val"
_COLUMNS = {
    "image_column_name": "FILE_NAME",
    "category_column_name": "CATEGORY",
    "super_category_column_name": "SUPER_CATEGORY",
}
"""key of info.json → the name it usually gives"""
_NULLS = ("", "NAN", "NaN", "nan")

INFO = Info(
    title="Meta-Album: eight mini sets of living things",
    licence="each set's own, stated on its page",
    citation="Ullah et al. Meta-Album: Multi-domain Meta-Dataset for Few-Shot Image "
    "Classification. NeurIPS Datasets and Benchmarks 2022. arXiv:2302.08909",
    homepage="https://meta-album.github.io/",
    layout=f"ROOT/SET_Mini/{LABELS}, {INFO_FILE} and {IMAGE_FOLDER}/*  (the official form)\n"
    f"or ROOT/SET_Mini/{METADATA} and CLASS/*  (BioCLIP's; images may lie in SET_Mini/{VAL})\n"
    f"SET_Mini: {', '.join(album.folder for album in SETS.values())}\n"
    "ROOT may itself be the folder of one set",
    sources=(
        Source(
            steps="Get the Mini version of each set from https://meta-album.github.io/ (hosted by "
            "OpenML, without a login) and unpack it to ROOT, so that ROOT/FNG_Mini, ROOT/PLK_Mini "
            "and so on hold the files. Any of the eight will do. Then run `fieldmark data check "
            "meta_album ROOT`."
        ),
    ),
)


def table(root: Path, set: str = "") -> pl.DataFrame:
    """One row per image, in the order of the files; of one set, or of all that are there."""
    folders = _folders(root)
    chosen = _set_name(set)
    if set and not chosen:
        raise UsageError(f"set is {set!r}: expected one of {', '.join(SETS)}.")
    if chosen and root in folders.values():
        set_here = next(iter(folders))
        if set_here not in ("", chosen):
            raise DataError(f"{root}  is the set {set_here!r}: expected {chosen!r}.")
        folders = {chosen: root}
    elif chosen:
        if chosen not in folders:
            raise DataError(
                f"{root / SETS[chosen].folder}  is missing or contains neither {LABELS} nor "
                f"{METADATA}. `fieldmark datasets meta_album` shows layout and sources."
            )
        folders = {chosen: folders[chosen]}
    if not folders:
        raise DataError(
            f"{root}  contains no set of Meta-Album: expected folders like FNG_Mini, each with "
            f"{LABELS} or {METADATA}. `fieldmark datasets meta_album` shows layout and sources."
        )
    return finish_table(
        pl.concat([_read(root, name, folder) for name, folder in folders.items()]), root
    )


@as_findings
def check(root: Path) -> Iterator[Finding]:
    """Sets that are not there, counts, classes of one image, unreadable images."""
    rows = table(root)
    there = rows.get_column("set").unique().to_list()
    missing = [album.folder for name, album in SETS.items() if name not in there]
    if root not in _folders(root).values():
        yield from named_findings("note", missing, f"{len(missing)} of {len(SETS)} sets not there")
    sizes = {name: (album.n_images, album.n_classes) for name, album in SETS.items()}
    yield from set_findings(rows, {name: size for name, size in sizes.items() if name in there})
    for _, part in rows.group_by("set", maintain_order=True):
        yield from class_findings(part, single_level="note")
    yield from image_findings(root, rows.get_column("image"))


# --- reading ---


def _set_name(text: str) -> str:
    """`INS_2_Mini`, `ins-2` and `ins2` are all ins2; "" for what is no set."""
    key = re.sub(r"[^a-z0-9]", "", text.lower()).removesuffix("mini")
    return next((name for name in SETS if name.replace("_", "") == key), "")


def _folders(root: Path) -> dict[str, Path]:
    """Set → its folder, in the order of `SETS`; "" for root itself where nothing names its set."""
    if _is_set(root):
        stated = str(_facts(root).get("dataset_name", ""))
        return {_set_name(root.resolve().name) or _set_name(stated): root}
    # BioCLIP's tests keep them in set0/PLK_Mini, set1/FNG_Mini, …
    inner = sorted(path for level in ("*", "*/*") for path in root.glob(level) if _is_set(path))
    named = {_set_name(path.name): path for path in reversed(inner)}
    return {name: named[name] for name in SETS if name in named}


def _is_set(folder: Path) -> bool:
    return any((folder / file).is_file() for file in (LABELS, METADATA, f"{VAL}/{METADATA}"))


def _facts(folder: Path) -> dict[str, object]:
    path = folder / INFO_FILE
    return read_json_object(path, "facts of the set") if path.is_file() else {}


def _read(root: Path, name: str, folder: Path) -> pl.DataFrame:
    is_official = (folder / LABELS).is_file()
    frame, home = _read_official(folder) if is_official else _read_bioclip(folder)
    below = home.relative_to(root).as_posix()
    classes = frame.get_column("label").unique().sort().to_list()
    names = [SETS[name].names(text) if name else (None, None) for text in classes]
    about = pl.DataFrame(
        {
            "label": classes,
            "scientific_name": [scientific for scientific, _ in names],
            "common_name": [common for _, common in names],
        },
        schema=dict.fromkeys(("label", "scientific_name", "common_name"), pl.String),
    )
    frame = frame.join(about, on="label", how="left", maintain_order="left")
    return frame.select(
        pl.format(f"{name}/{{}}" if name else "{}", "file").alias("id"),
        pl.format("{}" if below == "." else f"{below}/{{}}", "file").alias("image"),
        "label",
        pl.lit(name or None, pl.String).alias("set"),
        "scientific_name",
        "common_name",
        "super_category",
    )


def _read_official(folder: Path) -> tuple[pl.DataFrame, Path]:
    """file, label, super_category; and the folder that files are named from."""
    about = _facts(folder)
    image, category, above = (str(about.get(key) or name) for key, name in _COLUMNS.items())
    path = folder / LABELS
    frame = with_optional(read_annotations(path, (image, category), nulls=_NULLS), (above,))
    rules = {image: (is_given, "a file name"), category: (is_given, "a class")}
    refuse_odd(path, frame, rules)
    frame = frame.select(file=image, label=category, super_category=above)
    return frame, _image_home(folder, frame, (IMAGE_FOLDER, "."))


def _read_bioclip(folder: Path) -> tuple[pl.DataFrame, Path]:
    path = find_home(folder, (".", VAL), METADATA) / METADATA
    frame = read_annotations(path, ("filepath", "class"))
    rules = {"filepath": (is_given, "the path of an image"), "class": (is_given, "a class")}
    refuse_odd(path, frame, rules)
    no_group = pl.lit(None, pl.String)
    frame = frame.select(file="filepath", label="class", super_category=no_group)
    return frame, _image_home(folder, frame, (".", VAL))


def _image_home(folder: Path, frame: pl.DataFrame, homes: tuple[str, ...]) -> Path:
    return find_home(folder, homes, frame.get_column("file")[0]) if len(frame) else folder


# --- making ---

PATTERN = ("all", "all")
"""Two photos of each class, all of no split."""
SIDE_PX = 128


def make(root: Path, world: World, size: int) -> None:
    """All eight sets, an eighth of `size` each, by turns in the official form and in BioCLIP's.

    At least four classes a set, two photos each; the last class of fng has one photo only.
    """
    for set_number, (name, album) in enumerate(SETS.items()):
        rows: list[tuple[str, str, str]] = []
        condition = "microscope" if name == "plk" else "day"
        for photo in plan_photos(
            world, size // len(SETS), "meta-album", PATTERN, album.plans, condition
        ):
            if name == "fng" and photo.rank == 3 and photo.turn:
                continue
            label = _made_label(name, photo.species, photo.rank)
            file = f"{set_number}{photo.rank:03}{photo.turn:04}.jpg"
            folder = IMAGE_FOLDER if set_number % 2 == 0 else label
            _take_small(world, photo, set_number, root / album.folder / folder / file)
            rows.append((file, label, photo.species.ranks["family"]))
        write = _write_official if set_number % 2 == 0 else _write_bioclip
        write(root / album.folder, rows)


def _take_small(world: World, photo: PlannedPhoto, set_number: int, path: Path) -> None:
    """Sets show other individuals of the same species."""
    individual, burst = 1_000 * set_number + photo.turn, 100_000 * set_number + photo.scene.burst
    taken = world.photo(replace(photo.scene, individual=individual, burst=burst))
    write_photo(replace(taken, image=taken.image.resize((SIDE_PX, SIDE_PX))), path)


def _made_label(name: str, species: Species, rank: int) -> str:
    """As the classes of the set are called; the first few show what is odd about them."""
    genus, epithet, common = species.ranks["genus"], species.ranks["species"], species.common_name
    authors = ("(Fieldm.) Mark & Ré", "L., 1753", "var. minor (Fieldm.) Mark", "Fieldm. ex Mark")
    crop = common.capitalize().replace(" ", "_")
    odd = {
        "fng": [f"{genus} × {epithet} L."],
        "ins": [species.ranks["family"], f"Les {common} (femelle) ({genus} et autres)"],
        "ins2": [common, f"{genus} sp", f"{genus.lower()} {epithet} Fieldmark"],
        "plk": [genus, f"{genus}_{epithet}_other"],
        "plt_vil": [f"{crop}___healthy"],
    }
    usual = {
        "fng": f"{genus} {epithet} {authors[rank % 4]}",
        "ins": f"La {common} (tachetée) ({genus} {epithet})",
        "ins2": f"{genus} {epithet}",
        "med_lf": f"{genus} {epithet.capitalize()} ({common.title()})",
        "plk": f"{genus}_{epithet}",
        "plt_doc": f"{crop} leaf spot",
        "plt_net": f"{genus}_{epithet}",
        "plt_vil": f"{crop}___Late_blight_(Black_Spot)",
    }
    return dict(enumerate(odd.get(name, ()))).get(rank, usual[name])


def _write_official(folder: Path, rows: list[tuple[str, str, str]]) -> None:
    write_rows(folder / LABELS, tuple(_COLUMNS.values()), rows)
    about = {
        "dataset_name": folder.name,
        "dataset_description": "made by fieldmark",
        "total_categories": len({label for _, label, _ in rows}),
        "total_super_categories": len({above for _, _, above in rows}),
        "has_super_categories": True,
        **_COLUMNS,
    }
    (folder / INFO_FILE).write_text(json.dumps(about), encoding="utf-8")


def _write_bioclip(folder: Path, rows: list[tuple[str, str, str]]) -> None:
    listed = [[n, f"{label}/{file}", label] for n, (file, label, _) in enumerate(rows)]
    write_rows(folder / METADATA, ("", "filepath", "class"), listed)
