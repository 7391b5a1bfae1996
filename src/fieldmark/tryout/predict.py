"""Prediction: which label do new photos get, how sure is that, and which are unlike anything seen?

An answer is the label where its calibrated probability reaches the threshold; else the genus, where
the probabilities of its species together do; else "unsure". A photo that lies further from all
known ones than 98 of 100 photos of known labels do is "unlike anything seen", whatever its label.
"""

from __future__ import annotations

import codecs
import datetime
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from fieldmark import draws
from fieldmark.data import ImageRef
from fieldmark.data.read.folders import is_image
from fieldmark.data.read.own_formats import OBSERVATIONS, read_resource
from fieldmark.data.read.own_photos import COPIES, photo_files, tell_unread, unread_files
from fieldmark.embed import embed
from fieldmark.errors import DataError, UsageError, meant_path
from fieldmark.files import copy_file, write_file
from fieldmark.models import load_model
from fieldmark.progress import Progress
from fieldmark.registry import app_version
from fieldmark.settings import Settings
from fieldmark.tryout.fitted import About, FittedModel, check_backbone, load_fitted
from fieldmark.tryout.judge.confidence import NOVEL_P
from fieldmark.tryout.judge.findings import genus_of
from fieldmark.tryout.products import label_cells, label_columns, write_table
from fieldmark.tryout.survey import embed_options
from fieldmark.tryout.words import MOST_COLUMNS

UNSURE, UNLIKE, UNREADABLE = "unsure", "unlike anything seen", "unreadable"


@dataclass(frozen=True, slots=True)
class Prediction:
    """What is said about one photo."""

    image: str
    answer: str
    """a label, a genus ("Acer sp."), or why there is none"""
    best_guess: str = ""
    """the most likely label, sure or not"""
    probability: float | None = None
    second: str = ""
    second_probability: float | None = None
    novelty_p: float | None = None
    """small: few photos of known labels are so far from all others"""
    is_training_photo: bool = False
    """was the model made with this very photo? Then its answer says nothing about new ones"""
    problem: str = ""
    """why the file cannot be read"""
    by_label: tuple[float, ...] = ()
    """the probability of each label of the model"""


def predict(folder: Path, photos: Path, settings: Settings, progress: Progress) -> list[Prediction]:
    """Labels of all photos below a folder (or of one photo), by a model that `try` has saved."""
    fitted = load_fitted(folder)
    root, images = _find(photos, progress)
    model = load_model(
        fitted.about.model,
        device=settings.device,
        precision=fitted.about.precision,
        decode=settings.decode,
        offline=settings.offline,
    )
    if warning := check_backbone(fitted, model, folder):
        progress.say(warning)
    refs = [ImageRef(image) for image in images]
    embedded = embed(model, root, refs, embed_options(settings), progress)
    rows = np.flatnonzero(embedded.is_ok)
    answers = _answer(fitted, [images[row] for row in rows], embedded.features[rows])
    by_image, used = {answer.image: answer for answer in answers}, fitted.photos
    return [
        replace(by_image[ref.image], is_training_photo=embedded.keys[ref] in used)
        if ref.image in by_image
        else Prediction(ref.image, UNREADABLE, problem=embedded.bad.get(ref.image, ""))
        for ref in refs
    ]


def _find(photos: Path, progress: Progress) -> tuple[Path, list[str]]:
    if photos.is_file() and is_image(photos.name):
        return photos.parent, [photos.name]
    if not photos.exists():
        near = meant_path(photos) or " Give a folder of photos, or one photo."
        raise DataError(f"{photos} does not exist.{near}")
    images, others = ([], [photos.name]) if photos.is_file() else photo_files(photos)
    unread = " ".join(tell_unread(unread_files(others, images)))
    if not images:
        raise DataError(f"{photos} contains no photos. {unread}".rstrip())
    if unread:
        progress.say(unread)
    return photos, images


def _answer(fitted: FittedModel, images: list[str], x_nd: np.ndarray) -> Iterator[Prediction]:
    labels, threshold = fitted.about.labels, fitted.about.threshold
    if not images:
        return
    prob_nc, p_n = fitted.probabilities(x_nd), fitted.novelty(x_nd)
    order_nc = np.argsort(-prob_nc, axis=1, kind="stable")
    genera = genus_of(labels)
    for image, prob_c, order_c, p in zip(images, prob_nc, order_nc, p_n, strict=True):
        label = labels[order_c[0]]
        answer = UNSURE
        if p < NOVEL_P:
            answer = UNLIKE
        elif threshold is not None and prob_c[order_c[0]] >= threshold:
            answer = label
        elif threshold is not None and genera:
            is_same = [genera[name] == genera[label] for name in labels]
            answer = f"{genera[label]} sp." if prob_c[is_same].sum() >= threshold else UNSURE
        best, *others = [(labels[code], float(prob_c[code])) for code in order_c[:2]]
        second, share = others[0] if others else ("", None)
        of_each = tuple(map(float, prob_c)) if len(labels) <= MOST_COLUMNS else ()
        yield Prediction(image, answer, *best, second, share, float(p), by_label=of_each)


# --- products

_COLUMNS = Prediction.__slots__[:-1]


def refuse_other(path: Path) -> None:
    """Refuses to write over a file that is no table of predictions, before any work."""
    header = ",".join(_COLUMNS)
    if path.is_dir():
        raise UsageError(f"{path} is a folder: --out names a file, such as predictions.csv.")
    if path.exists() and not path.read_bytes().startswith(codecs.BOM_UTF8 + header.encode()):
        raise UsageError(f"{path} contains something else: choose another file with --out.")


def write_csv(predictions: list[Prediction], labels: Sequence[str], path: Path) -> None:
    """One row per photo, and a column for the probability of each label: sorted by it, the photos
    that are most likely to show the label come first.
    """
    rows = (
        [*(_short(getattr(photo, name)) for name in _COLUMNS), *label_cells(photo.by_label)]
        for photo in predictions
    )
    write_table(path, [*_COLUMNS, *label_columns(labels)], rows)


def _short(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, bool):
        return int(value)
    return f"{value:.4f}" if isinstance(value, float) else value


_NO_ANIMAL = {
    **dict.fromkeys(("blank", "empty"), "blank"),
    **dict.fromkeys(("human", "person", "people", "homo sapiens"), "human"),
    "vehicle": "vehicle",
}
_SPECIES = re.compile(r"[A-Z][a-z-]+( [a-z-]+){1,2}")


def write_observations(
    predictions: list[Prediction], about: About, photos: Path, path: Path
) -> int:
    """Camtrap DP observations of the photos that the package names; how many there are."""
    columns = ("filePath", "mediaID", "deploymentID", "timestamp")
    media = read_resource(photos, "media", columns)
    named = media.select(pl.col("filePath").str.replace_all("\\", "/", literal=True), *columns[1:])
    by_image = {image: rest for image, *rest in named.iter_rows()}
    same = {
        "observationLevel": "media",
        "classificationMethod": "machine",
        "classifiedBy": f"{about.model} with {about.head} (fieldmark {app_version()})",
        "classificationTimestamp": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%dT%H:%M:%SZ}",
    }
    rows = []
    for photo in predictions:
        if photo.image in by_image:
            media_id, deployment, time = by_image[photo.image]
            key = draws.digest("observation", media_id, about.fingerprint).hex()
            one = {"observationID": key, "deploymentID": deployment, "mediaID": media_id}
            one |= {"eventStart": time, "eventEnd": time, **same, **_observation(photo)}
            rows.append([one.get(name, "") for name in OBSERVATIONS])
    write_table(path, OBSERVATIONS, rows, "utf-8")
    return len(rows)


def _observation(photo: Prediction) -> dict[str, object]:
    """What is said about the photo, in the standard's words."""
    if photo.answer == UNREADABLE:
        empty = dict.fromkeys(
            ("classificationMethod", "classifiedBy", "classificationTimestamp"), ""
        )
        return {**empty, "observationType": "unclassified", "observationComments": photo.problem}
    if photo.answer in (UNSURE, UNLIKE):
        return {"observationType": "unknown", "observationComments": photo.answer}
    if photo.answer != photo.best_guess:  # a genus; its own probability is not kept
        return {"observationType": "animal", "scientificName": photo.answer.removesuffix(" sp.")}
    name = photo.best_guess.replace("_", " ")
    kind = _NO_ANIMAL.get(name.casefold(), "animal")
    is_species = kind == "animal" and _SPECIES.fullmatch(name)
    return {
        "observationType": kind,
        "scientificName": name if is_species else "",
        "classificationProbability": _short(photo.probability),
        "observationTags": "" if is_species or kind != "animal" else f"label:{photo.best_guess}",
    }


_ABOUT_COPIES = """\
Copies of photos, sorted by the answers of a model. `fieldmark predict` made them.
These answers are not checked. `fieldmark try` ignores this folder while this file is in it.
The next `fieldmark predict` into this folder replaces these copies, but none that you changed:
"""


def refuse_copies(photos: Path, out: Path) -> None:
    """Refuses a folder of somebody's photos, whose labels would then be mixed with answers."""
    if photos.resolve().is_relative_to(out.resolve()):
        raise UsageError(f"--copy-into {out} contains the photos themselves: choose a new folder.")
    is_ours = out.is_dir() and ((out / COPIES).exists() or not any(out.iterdir()))
    if out.exists() and not is_ours:
        raise UsageError(
            f"--copy-into {out} is there already, and `predict` did not make it: choose a new "
            "folder."
        )


def copy_photos(predictions: list[Prediction], photos: Path, out: Path) -> tuple[int, int, int]:
    """Copies each photo into a folder named after its answer: how many were copied now, were there
    already, and were removed, for they stood under an earlier answer. Copies keep all that the
    originals hold, positions too.

    No photo is moved, deleted or written over, nor is a copy that somebody has moved or changed: a
    list in the folder says which copies are ours, and one of the same size is taken to be done. Of
    a photo whose copy somebody has put into another folder, none is made again.
    What is no file (a pipe, a link that leads nowhere) is left out.
    """
    root = photos if photos.is_dir() else photos.parent
    sources = {one.image: root / one.image for one in predictions if (root / one.image).is_file()}
    answers = ((_folder_name(one.answer), one.image) for one in predictions)
    planned = {f"{folder}/{image}": sources[image] for folder, image in answers if image in sources}
    ours = _copies_of(out)
    here = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    moved = {name.partition("/")[2] for name in here - ours}
    listed = "".join(f"{json.dumps(name)}\n" for name in sorted(ours | planned.keys()))
    write_file(out / COPIES, (_ABOUT_COPIES + listed).encode())
    n_copied, n_removed = 0, 0
    for name in ours - planned.keys():
        old, source = out / name, sources.get(name.partition("/")[2])
        is_below = old.resolve().is_relative_to(out.resolve())
        if not (source and is_below and old.is_file()):
            continue
        if old.stat().st_size == source.stat().st_size:
            old.unlink()
            n_removed += 1
            if not any(old.parent.iterdir()):
                old.parent.rmdir()
    for name, source in planned.items():
        target = out / name
        if not target.exists() and name.partition("/")[2] not in moved:
            copy_file(source, target)
            n_copied += 1
        elif target.exists() and target.stat().st_size != source.stat().st_size:
            raise DataError(f"{target} is there already and differs: choose another --copy-into.")
    return n_copied, len(planned) - n_copied, n_removed


def _copies_of(out: Path) -> set[str]:
    """The copies that an earlier command has listed."""
    try:
        lines = (out / COPIES).read_text(encoding="utf-8").splitlines()
        return {str(json.loads(line)) for line in lines if line.startswith('"')}
    except (OSError, ValueError):
        return set()


def _folder_name(answer: str) -> str:
    """Safe on every system.

    >>> _folder_name("Acer sp."), _folder_name("a/b: c")
    ('Acer sp', 'a_b_ c')
    """
    return "".join("_" if mark in '/\\:*?"<>|' else mark for mark in answer).rstrip(". ") or "_"
