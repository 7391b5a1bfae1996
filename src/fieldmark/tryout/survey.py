"""Survey: what are the photos, which belong together, and can a model be tested on them?

Everything that is known before a model is tried; `fieldmark check` says it, and `try` goes on. Of
EXIF only time and device are read. Positions never are: rare species.
"""

from __future__ import annotations

import contextlib
import datetime
import re
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from fieldmark import draws
from fieldmark.data import ImageRef, open_header
from fieldmark.data.read.own_photos import LabelledPhotos, merge_spellings, place_word
from fieldmark.embed import Embedded, EmbedOptions, embed
from fieldmark.errors import DataError
from fieldmark.progress import Progress
from fieldmark.settings import Settings
from fieldmark.tryout.judge.split import LEAST_PHOTOS, can_be_tested
from fieldmark.tryout.look.audit import Audit, Evidence, audit
from fieldmark.tryout.look.hashes import Looker, Looks, read_looks
from fieldmark.words import first_few


@dataclass(frozen=True, slots=True)
class Survey:
    """Photos that were looked at, whether or not a model can be tested on them."""

    photos: LabelledPhotos
    audit: Audit
    is_ok_n: np.ndarray
    """can it be read, and is it no copy from another unit? One entry for each photo of the table"""
    looks: Looks
    unit_n: np.ndarray

    @property
    def n_units(self) -> int:
        return len(np.unique(self.unit_n[self.is_ok_n]))

    @property
    def unit_name(self) -> str:
        """Camera, site; bursts are not what a person counts, so that they are called photos."""
        source = self.photos.unit_from
        if not source.startswith("column "):
            return place_word(self.photos.table.get_column("unit")) if source else "photo"
        word = source.removeprefix("column ").removesuffix("_id").removesuffix("ID").lower()
        return word if word.isalpha() else "unit"

    @property
    def unit_word(self) -> str:
        """What there are several of: cameras, localities, days, boxes, series."""
        stem = re.sub("(?<=[^aeiou])y$", "ie", re.sub("(x|ch|sh|ss)$", r"\1e", self.unit_name))
        return stem.removesuffix("s") + "s"

    @property
    def counts(self) -> dict[str, int]:
        """Label → photos that can be read; by name."""
        names, n_c = np.unique(self.audit.label_n[self.is_ok_n], return_counts=True)
        return dict(zip(names.tolist(), n_c.tolist(), strict=True))

    @property
    def can_test_c(self) -> np.ndarray:
        """Of each label: are there photos enough, of two units at least?"""
        code_k = np.unique(self.audit.label_n[self.is_ok_n], return_inverse=True)[1]
        return can_be_tested(code_k, self.unit_n[self.is_ok_n], len(self.counts))

    @property
    def in_one_unit(self) -> tuple[str, ...]:
        """Labels with photos enough, all of one unit."""
        pairs = zip(self.counts.items(), self.can_test_c, strict=True)
        return tuple(name for (name, n), can in pairs if n >= LEAST_PHOTOS and not can)

    @property
    def too_little(self) -> str:
        """Why no model can be tested on these photos; "" = it can."""
        return _too_little(self.photos, tuple(self.counts), int(self.can_test_c.sum()))


def refuse_small(photos: LabelledPhotos) -> None:
    """Refuses photos of which no model can be tested, before any of them is read."""
    merged = merge_spellings(photos.table.get_column("label").to_list())
    n_of = Counter(merged[name] for name in photos.table.get_column("label"))
    n_testable = sum(n >= LEAST_PHOTOS for n in n_of.values())
    if why := _too_little(photos, tuple(n_of), n_testable):
        raise DataError(why)


def _too_little(photos: LabelledPhotos, labels: Sequence[str], n_testable: int) -> str:
    if len(labels) < 2:
        flag = "--label" if photos.label_from.startswith("column ") else "--label-part"
        return (
            f"{photos.root} has photos of one label only ({labels[0]}): a model is tested on two "
            f"labels or more. Labels were read from {photos.label_from}; {flag} says what else to "
            "read."
        )
    if n_testable < 2:
        return (
            f"{photos.root} has {len(labels):,} labels, and {n_testable} of them can be tested: "
            f"that takes {LEAST_PHOTOS} photos, from two units or more. Add photos first."
        )
    return ""


def look_at(photos: LabelledPhotos, settings: Settings, progress: Progress) -> Survey:
    """Looks at every photo: what is wrong with them, and which belong together?"""
    embedded = embed_photos(Looker(), photos.root, photos.table, settings, progress)
    if not embedded.is_ok.any():
        why = first_few([f"{name} ({reason})" for name, reason in embedded.bad.items()], 2)
        is_table = photos.label_from.startswith("column ")
        hint = " Paths in a table start at the table's folder." if is_table else ""
        raise DataError(f"{photos.root}: no photo can be read: {why}.{hint}")
    looks = read_looks(np.nan_to_num(embedded.features, copy=False))
    seen = audit(photos, _evidence(photos, embedded, looks))
    small = replace(looks, grey_np=np.empty((len(looks.grey_np), 0), np.float32))
    is_used_n = embedded.is_ok & ~seen.is_spare_n
    return Survey(photos, seen, is_used_n, small, _units(photos, seen))


def embed_photos(
    model: Any, root: Path, table: pl.DataFrame, settings: Settings, progress: Progress
) -> Embedded:
    """Features of the photos of a table, or of some of its rows."""
    images, crops = (table.get_column(name).to_list() for name in ("image", "crop"))
    refs = [
        ImageRef(image, tuple(crop) if crop else None)
        for image, crop in zip(images, crops, strict=True)
    ]
    return embed(model, root, refs, embed_options(settings), progress)


def embed_options(settings: Settings) -> EmbedOptions:
    return EmbedOptions(settings.cache, settings.n_threads, settings.batch_size, bad_images="skip")


def _evidence(photos: LabelledPhotos, embedded: Embedded, looks: Looks) -> Evidence:
    images, crops = (photos.table.get_column(name).to_list() for name in ("image", "crop"))
    key_of = {ref.image: key for ref, key in embedded.keys.items()}
    content = [
        draws.digest(key_of[image], crop) if image in key_of and is_ok else None
        for image, crop, is_ok in zip(images, crops, embedded.is_ok, strict=True)
    ]
    with ThreadPoolExecutor(4) as pool:
        shots = list(pool.map(lambda image: _read_exif(photos.root / image), images))
    return Evidence(looks, embedded.is_ok, embedded.bad, content, shots)


_EXIF, _TAKEN, _FRACTION = 0x8769, 0x9003, 0x9291
_MAKE, _MODEL, _SERIAL = 0x010F, 0x0110, 0xA431


def _read_exif(path: Path) -> tuple[datetime.datetime | None, str]:
    """When a photo was taken, and by what; None and "" where its file does not say."""
    # Damaged files raise whatever Pillow's parsers run into; they are told elsewhere.
    with contextlib.suppress(Exception), open_header(path) as image:
        exif = image.getexif()
        inner = exif.get_ifd(_EXIF)
        device = (exif.get(_MAKE), exif.get(_MODEL), inner.get(_SERIAL))
        time = _time(str(inner.get(_TAKEN, "")), str(inner.get(_FRACTION, "")))
        return time, " ".join(map(str, device))
    return None, ""


def _time(text: str, fraction: str) -> datetime.datetime | None:
    """Clocks that were reset (1970, 2000-01-01) and years to come say nothing. The date of the file
    is when it was copied, and is not used either.
    """
    with contextlib.suppress(ValueError):
        time = datetime.datetime.strptime(text.strip(), "%Y:%m:%d %H:%M:%S")
        is_reset = (time.month, time.day) == (1, 1) and time.year in (1970, 1980, 2000, 2010)
        if is_reset or not 1990 <= time.year <= datetime.date.today().year:
            return None
        digits = fraction.strip()[:6]
        return time.replace(microsecond=int(digits.ljust(6, "0")) if digits.isdecimal() else 0)
    return None


def _units(photos: LabelledPhotos, seen: Audit) -> np.ndarray:
    """The unit of each photo: the one that is named, else that of a copy of it, else its own."""
    if not photos.unit_from:
        return seen.burst_n
    pairs = list(zip(photos.table.get_column("unit"), seen.copy_n.tolist(), strict=True))
    unit_of = {copy: unit for unit, copy in reversed(pairs) if unit is not None}
    names = [unit_of.get(copy, f"\0{copy}") if unit is None else unit for unit, copy in pairs]
    return np.asarray(np.unique(np.array(names), return_inverse=True)[1])
