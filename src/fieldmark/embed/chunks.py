"""Embedding in chunks (bounded memory): how is a list of images embedded that does not fit memory?

Images are listed as they are needed and embedded many thousands at a time; features are read back
from the cache some thousands at a time. No more than one chunk's names and keys is held, however
many images there are. What a chunk computed is in the cache before the next begins, so a list that
is stopped goes on where it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from fieldmark.data import Contents
from fieldmark.embed.engine import EmbedOptions, fill, refuse_bad
from fieldmark.embed.rows import FeatureRows
from fieldmark.embed.work import Throughput
from fieldmark.errors import DataError
from fieldmark.progress import Progress, Silent

if TYPE_CHECKING:
    from fieldmark.data import ImageRef, ImageSource, ListedImage
    from fieldmark.models import Backbone

CHUNK = 100_000
"""images embedded at a time: enough that the start of a pipeline hardly counts; they take 190 MB"""
BLOCK = 10_000
"""features held at a time: 30 MB where they have 768 numbers"""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EmbeddedChunk:
    """Images of one source, in its order, whose features are in the cache."""

    source: ImageSource
    images: Sequence[ListedImage]
    keys: dict[ImageRef, bytes]
    """what the features of those that can be read are kept under"""
    bad: dict[str, str]
    """image → why it cannot be read"""
    throughput: Throughput
    folder: Path
    dim: int

    def blocks(self) -> Iterator[tuple[list[ListedImage], np.ndarray]]:
        """The images that can be read, and their features, some at a time."""
        rows = FeatureRows(self.folder, self.dim)
        good = (image for image in self.images if image.ref in self.keys)
        for images in taken(good, BLOCK):
            yield images, rows.gather([self.keys[image.ref] for image in images])

    def unreadable(self) -> Iterator[tuple[ListedImage, str]]:
        """The other images, and why."""
        for image in self.images if self.bad else ():
            if image.ref not in self.keys:
                yield image, self.bad[image.ref.image]


def embed_chunks(
    model: Backbone,
    sources: Sequence[ImageSource],
    options: EmbedOptions,
    progress: Progress | None = None,
    n_chunk: int = CHUNK,
) -> Iterator[EmbeddedChunk]:
    """All images of the sources, in their order, chunk by chunk, as soon as the cache has them. A
    chunk is empty once the next is asked for: two of them are never held.

    Bad images end the work after the chunk they are in, unless they are to be skipped; missing and
    empty ones before it begins.
    """
    whole = _WholeProgress(progress or Silent(), sum(source.n_images for source in sources))
    folder = options.cache / "features" / model.fingerprint
    chunk_options = replace(
        options, contents=None
    )  # what is known of one chunk is forgotten with it
    n_good, reason = 0, ""
    refuse_absent(sources, options)
    for source in sources:
        for images in taken(source.images(), n_chunk):
            whole.expect(len(images))
            refs = [image.ref for image in images]
            filled = fill(model, source.root, refs, chunk_options, whole)
            refuse_bad(source.name, filled.bad, len(refs), options.bad_images)
            n_good += len(filled.keys)
            reason = reason or next(iter(filled.bad.values()), "")
            yield EmbeddedChunk(
                source, images, filled.keys, filled.bad, filled.throughput, folder, model.dim
            )
            for held in (images, refs, filled.keys):  # whoever still has the chunk
                held.clear()
    refuse_none(n_good, reason)


def refuse_absent(sources: Sequence[ImageSource], options: EmbedOptions) -> None:
    """Raises where files that a table names are missing or empty, before any other is read."""
    for source in sources if options.bad_images != "skip" else ():
        contents, n = Contents(None, options.threads), 0
        bad: dict[str, str] = {}
        names = (image.ref.image for image in source.images()) if source.has_labels else ()
        for images in taken(names, BLOCK):
            n += len(images)
            if contents.has_absent(source.root, images):
                absent = [image for image in images if contents.has_absent(source.root, [image])]
                contents_now = contents.learn(source.root, absent)
                bad |= {
                    image: content.problem
                    for image, content in contents_now.items()
                    if content.problem
                }
        refuse_bad(source.name, bad, n, options.bad_images)


def refuse_none(n_good: int, reason: str) -> None:
    """Raises where not one image can be read; `reason` is that of the first."""
    if not n_good:
        raise DataError(f"none of the images can be read: the first {reason}.")


def taken(images: Iterable[T], n: int) -> Iterator[list[T]]:
    """Some at a time."""
    rest = iter(images)
    while some := list(islice(rest, n)):
        yield some


class _WholeProgress:
    """One bar over all chunks, where there are several."""

    def __init__(self, shown: Progress, total: int) -> None:
        self._shown, self._total = shown, total
        self._done = self._at = self._chunk = self._stage = 0

    def expect(self, n_images: int) -> None:
        """A chunk of so many begins: all before it are done."""
        self._move_to(self._done)
        self._done, self._chunk = self._done + n_images, n_images

    def start(self, label: str, total: int) -> None:
        if self._is_single:
            self._shown.start(label, total)
        elif not self._at:
            self._shown.start(label, self._total)
        self._stage = total

    def advance(self, n: int = 1) -> None:
        if self._is_single:
            self._shown.advance(n)
            return
        self._stage -= n
        self._move_to(self._done - self._stage)

    def say(self, text: str) -> None:
        self._shown.say(text)

    def status(self, text: str) -> None:
        self._shown.status(text)

    @property
    def _is_single(self) -> bool:
        return self._chunk == self._total

    def _move_to(self, position: int) -> None:
        if position > self._at:
            self._shown.advance(position - self._at)
            self._at = position
