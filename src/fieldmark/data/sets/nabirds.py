"""NABirds: birds of North America, with a class for each plumage that people tell apart.

    id           the image's id, as in the files
    label        the class's name as it is, `Oldsquaw (Adult male)`; where two classes share one,
                 with the class's number: `Oldsquaw (Adult male) (812)`
    common_name  the same without what stands in parentheses: `Oldsquaw`
    group        the class above it in hierarchy.txt: the species of a plumage, else its family
    top_group    the class just below the root on its way: `Ducks, Geese, and Swans`
    lineage      the names of all classes above it, the root first, with ` > ` between them
    class_id     the number of the class, the name of its image folder

Only the leaves of the hierarchy have images. The published split is train and test; zero-shot
protocols ask about all images.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from fieldmark.data._check import (
    as_findings,
    class_findings,
    counted,
    image_findings,
    name_some,
    named_findings,
    published_findings,
)
from fieldmark.data._dataset import (
    Finding,
    Info,
    Source,
    find_home,
    finish_table,
    need,
    shared_names,
    unique_names,
)
from fieldmark.data._make import PlannedPhoto, photo_key, plan_photos, take_photo, write_rows
from fieldmark.errors import DataError, at

if TYPE_CHECKING:
    from fieldmark.world import World

HOMES = (".", "nabirds")
IMAGES = "images.txt"
LABELS = "image_class_labels.txt"
SPLITS = "train_test_split.txt"
CLASSES = "classes.txt"
HIERARCHY = "hierarchy.txt"
IMAGE_FOLDER = "images"
PUBLISHED = {"train": 23_929, "test": 24_633, "images": 48_562}
N_CLASSES = 555

INFO = Info(
    title="NABirds: North American birds (version 1)",
    licence="non-commercial research and education, by the terms one agrees to; photos keep the "
    "copyright of their authors",
    citation="Van Horn, Branson, Farrell, Haber, Barry, Ipeirotis, Perona, Belongie. Building a "
    "bird recognition app and large scale dataset with citizen scientists: The fine print in "
    "fine-grained dataset collection. CVPR 2015",
    homepage="https://dl.allaboutbirds.org/nabirds",
    layout=f"ROOT/{IMAGE_FOLDER}/CLASS_ID/*.jpg\nROOT/{IMAGES}  (id and path)\n"
    f"ROOT/{LABELS}  (id and class)\nROOT/{SPLITS}  (id and 1 for train, 0 for test)\n"
    f"ROOT/{CLASSES}  (class and name)\nROOT/{HIERARCHY}  (optional: class and the one above it)\n"
    "(all of it may lie in ROOT/nabirds)",
    sources=(
        Source(
            steps="Agree to the terms at https://dl.allaboutbirds.org/nabirds; the page then gives "
            "the address of nabirds.tar.gz. Unpack it so that ROOT or ROOT/nabirds contains "
            f"{IMAGES} and the folder {IMAGE_FOLDER}. Then run `fieldmark data check nabirds ROOT`."
        ),
    ),
)


def table(root: Path) -> pl.DataFrame:
    """One row per image, in the order of images.txt."""
    home = _home(root)
    names = _names(home)
    paths = _pairs(home / IMAGES, "an image's id and its path")
    classes = _of_images(
        home / LABELS, paths, f"an image's id and the number of a class of {CLASSES}", names
    )
    splits = _of_images(
        home / SPLITS, paths, "an image's id and 1 for train or 0 for test", ("0", "1")
    )
    below = (home / IMAGE_FOLDER).relative_to(root).as_posix()
    frame = pl.DataFrame(
        {
            "id": list(paths),
            "image": [f"{below}/{path}" for path in paths.values()],
            "split": ["train" if splits[key] == "1" else "test" for key in paths],
            "class_id": [classes[key] for key in paths],
        },
        schema_overrides=dict.fromkeys(("id", "image", "split", "class_id"), pl.String),
    )
    about = _classes(names, _parents(home, names), sorted(set(classes.values())))
    frame = frame.join(about, on="class_id", how="left", maintain_order="left")
    columns = ("id", "image", "split", "label", "common_name", "group", "top_group", "lineage")
    return finish_table(frame.select(*columns, "class_id"), home / IMAGES)


@as_findings
def check(root: Path) -> Iterator[Finding]:
    """Counts, shared names, classes of one split, images of inner classes, unreadable images."""
    rows = table(root)
    home = _home(root)
    yield from published_findings(rows, PUBLISHED, N_CLASSES)
    names = _names(home)
    used = set(rows.get_column("class_id"))
    twice = shared_names({key: name for key, name in names.items() if key in used})
    yield from named_findings("note", twice, "of several classes, told apart by number", "name")
    if not (home / HIERARCHY).is_file():
        yield Finding("note", f"{home / HIERARCHY}  is missing: classes have no groups.")
    inner = sorted(names[key] for key in used & set(_parents(home, names).values()))
    text = "with images and with classes below"
    yield from named_findings("warning", inner, text, "class", "classes")
    yield from class_findings(rows)
    yield from image_findings(root, rows.get_column("image"))


# --- reading ---


def _home(root: Path) -> Path:
    home = find_home(root, HOMES, IMAGES)
    for name in (IMAGES, LABELS, SPLITS, CLASSES):
        need(home / name, "a table of NABirds", "nabirds")
    return home


def _names(home: Path) -> dict[str, str]:
    return _pairs(home / CLASSES, "a class's number and its name")


def _pairs(path: Path, expected: str, allowed: Container[str] | None = None) -> dict[str, str]:
    """First word of each line → the rest of it, which may have spaces; `allowed`: what it may be.

    A key stands on one line only.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}  cannot be read: {error}.") from error
    pairs: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        key, _, rest = line.strip().partition(" ")
        value = rest.strip()
        if not key:
            continue
        if not value or (allowed is not None and value not in allowed):
            raise DataError(at(path, number, f"found {line.strip()!r}: expected {expected}."))
        if key in pairs:
            raise DataError(at(path, number, f"{key} is already on an earlier line: list it once."))
        pairs[key] = value
    return pairs


def _of_images(
    path: Path, paths: dict[str, str], expected: str, allowed: Container[str]
) -> dict[str, str]:
    """What the file says of each image; it must know all of them."""
    pairs = _pairs(path, expected, allowed)
    missing = [key for key in paths if key not in pairs]
    if missing:
        n = counted(len(missing), "image")
        raise DataError(f"{path}  lacks {n} of {IMAGES}: {name_some(missing)}.")
    return pairs


def _parents(home: Path, names: dict[str, str]) -> dict[str, str]:
    path = home / HIERARCHY
    if not path.is_file():
        return {}
    parents = _pairs(path, f"a class and the one above it, both of {CLASSES}", names)
    for key in parents:
        above = {key}
        while (key := parents.get(key, "")) and key not in above:
            above.add(key)
        if key:
            raise DataError(f"{path}  class {key} lies below itself: expected a tree.")
    return parents


def _classes(names: dict[str, str], parents: dict[str, str], used: list[str]) -> pl.DataFrame:
    labels = unique_names({key: names[key] for key in used})
    rows = []
    for key in used:
        above = [names[parent] for parent in _above(key, parents)]
        rows.append(
            {
                "class_id": key,
                "label": labels[key],
                "common_name": names[key].partition(" (")[0],
                "group": above[0] if above else None,
                "top_group": above[-2] if len(above) > 1 else None,
                "lineage": " > ".join(reversed(above)) or None,
            }
        )
    columns = ("class_id", "label", "common_name", "group", "top_group", "lineage")
    return pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.String))


def _above(key: str, parents: dict[str, str]) -> Iterator[str]:
    """The classes above it, the nearest first."""
    while key in parents:
        key = parents[key]
        yield key


# --- making ---

FIRST_LEAF = 2_000
"""groups have the numbers below, as in the published files"""
FORMS = (" (Adult male)", " (Female/juvenile)")


def make(root: Path, world: World, size: int) -> None:
    """Birds in folders of numbers, half for training; two of them have a class per plumage.

    The fourth bird is called as the third is.
    """
    tables: dict[str, list[list[object]]] = {
        name: [] for name in (IMAGES, LABELS, SPLITS, "sizes.txt", "bounding_boxes.txt")
    }
    leaves: dict[int, PlannedPhoto] = {}
    pattern = ("train", "train", "test", "test")
    for photo in plan_photos(world, size, "nabirds", pattern, plans=("bird",)):
        form = photo.turn % 2 if photo.rank < 2 else 0
        leaf = FIRST_LEAF + 2 * photo.rank + form
        leaves.setdefault(leaf, photo)
        key = str(photo_key(world, "nabirds", photo.rank, photo.turn))
        path = f"{leaf:04}/{key.replace('-', '')}.jpg"
        scene = replace(photo.scene, stage="juvenile" if form else "adult")
        extent = take_photo(world, scene, root / IMAGE_FOLDER / path)
        columns = (path, leaf, int(photo.split == "train"), extent, (0, 0, *extent))
        for rows, fact in zip(tables.values(), columns, strict=True):
            rows.append([key, *fact] if isinstance(fact, tuple) else [key, fact])
    names, above = _tree(leaves)
    for name, rows in tables.items():
        write_rows(root / name, (), rows, separator=" ")
    write_rows(root / HIERARCHY, (), above, separator=" ")
    lines = [f"{number} {name}\n" for number, name in sorted(names.items())]
    (root / CLASSES).write_text("".join(lines), encoding="utf-8")


def _tree(leaves: dict[int, PlannedPhoto]) -> tuple[dict[int, str], list[list[object]]]:
    """Names of all classes, and pairs of a class and the one above it."""
    names = {0: "Birds"}
    numbers: dict[str, int] = {"Birds": 0}
    above: list[list[object]] = []

    def group(name: str, parent: int) -> int:
        if name not in numbers:
            numbers[name] = len(numbers)
            names[numbers[name]] = name
            above.append([numbers[name], parent])
        return numbers[name]

    for leaf, photo in leaves.items():
        ranks, name = photo.species.ranks, photo.species.common_name.title()
        parent = group(f"{ranks['family']} and Allies", group(ranks["order"], 0))
        form = ""
        if photo.rank < 2:
            parent = group(name, parent)
            form = FORMS[(leaf - FIRST_LEAF) % 2]
        if photo.rank == 3:
            name = leaves[leaf - 2].species.common_name.title()
        names[leaf] = name + form
        above.append([leaf, parent])
    return names, above
