"""Embedding in chunks (bounded memory): how is a list of images embedded that does not fit memory?

Images are listed as they are needed and embedded some thousands at a time; no more than one chunk's
names, contents and features are held, however many there are. What a chunk computed is in the
cache before the next begins, so a list that is stopped goes on where it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fieldmark.embed.engine import Embedded, EmbedOptions, embed
from fieldmark.embed.work import Throughput
from fieldmark.errors import DataError
from fieldmark.progress import Progress, Silent

if TYPE_CHECKING:
    from fieldmark.data import ImageSource, ListedImage
    from fieldmark.models import Backbone

CHUNK = 20_000
"""images embedded at a time: their features take 60 MB at 768 numbers each"""
_NAMED = 3
"""bad images that an error names"""


class EmbeddedChunk(NamedTuple):
    """Some images of one source, in its order, and their features."""

    source: ImageSource
    images: Sequence[ListedImage]
    embedded: Embedded

    @property
    def throughput(self) -> Throughput:
        return Throughput(self.embedded.n_computed, self.embedded.seconds)

    def bad(self) -> Iterator[tuple[int, str]]:
        """The places of images that cannot be read, and why."""
        for at in np.flatnonzero(~self.embedded.is_ok).tolist():
            yield at, self.embedded.bad[self.images[at].ref.image]


@dataclass(slots=True)
class Tally:
    """What became of the images so far."""

    n_images: int = 0
    n_bad: int = 0
    first_bad: list[str] = field(default_factory=list)

    def count(
        self, root: Path, images: Sequence[ListedImage], bad: Iterable[tuple[int, str]]
    ) -> None:
        self.n_images += len(images)
        for at, reason in bad:
            self.n_bad += 1
            if len(self.first_bad) < _NAMED:
                self.first_bad.append(f"{root / images[at].ref.image} ({reason})")

    def refuse(self, policy: str, is_end: bool = True) -> None:
        """Raises where bad images are to end the work: at its end, with all of them counted, or as
        soon as nothing can be read at all.
        """
        is_hopeless = self.n_bad == self.n_images
        if not self.n_bad or not (is_hopeless or (is_end and policy == "fail")):
            return
        more = f" and {self.n_bad - _NAMED:,} more" if self.n_bad > _NAMED else ""
        raise DataError(
            f"{self.n_bad:,} of {self.n_images:,} images cannot be read: "
            f"{'; '.join(self.first_bad)}{more}. Repair or remove them, or pass --bad-images skip "
            "to leave them out and count them."
        )


def embed_chunks(
    model: Backbone,
    sources: Sequence[ImageSource],
    options: EmbedOptions,
    progress: Progress | None = None,
    n_chunk: int = CHUNK,
) -> Iterator[EmbeddedChunk]:
    """Features of all images of the sources, in their order, chunk by chunk.

    Bad images have no row in what is written; with `bad_images="fail"` they end the work when all
    others are done and kept.
    """
    whole = _WholeProgress(progress or Silent(), sum(source.n_images for source in sources))
    tally = Tally()
    for source in sources:
        for images in chunked(source.images(), n_chunk):
            whole.expect(len(images))
            refs = [image.ref for image in images]
            one = replace(options, bad_images="skip", contents=None)
            chunk = EmbeddedChunk(source, images, embed(model, source.root, refs, one, whole))
            tally.count(source.root, images, chunk.bad())
            tally.refuse(options.bad_images, is_end=False)
            yield chunk
    tally.refuse(options.bad_images)


def chunked(images: Iterable[ListedImage], n_chunk: int) -> Iterator[list[ListedImage]]:
    rest = iter(images)
    while some := list(islice(rest, n_chunk)):
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
        if self._chunk == self._total:
            self._shown.start(label, total)
        elif not self._at:
            self._shown.start(label, self._total)
        self._stage = total

    def advance(self, n: int = 1) -> None:
        if self._chunk == self._total:
            self._shown.advance(n)
            return
        self._stage -= n
        self._move_to(self._done - self._stage)

    def say(self, text: str) -> None:
        self._shown.say(text)

    def _move_to(self, place: int) -> None:
        if place > self._at:
            self._shown.advance(place - self._at)
            self._at = place


def add_throughputs(parts: Sequence[Throughput]) -> Throughput:
    """The throughput of all parts together, done one after the other."""
    n = sum(part.n_computed for part in parts)
    busy: dict[str, float] = {}
    for part in parts:
        for name, seconds in part.busy_s.items():
            busy[name] = busy.get(name, 0.0) + seconds
    measured = [part for part in parts if part.device_busy is not None and part.seconds]
    clock = sum(part.seconds for part in measured)
    device = sum((part.device_busy or 0.0) * part.seconds for part in measured)
    worked = [part for part in parts if part.n_computed] or list(parts[-1:])
    return Throughput(
        n_computed=n,
        seconds=sum(part.seconds for part in parts),
        decode=worked[-1].decode if worked else "reference",
        n_fallback=sum(part.n_fallback for part in parts),
        busy_s=busy,
        device_busy=device / clock if clock else None,
        is_compiled=any(part.is_compiled for part in parts),
        batch_size=max((part.batch_size for part in parts), default=0),
    )
