"""Patch features (patch tokens): how are a model's patches pooled, or written out one by one?

Pooled, they take the place of an image's feature: mean and maximum over the patches, side by side.
The mean says what the picture is made of, the maximum what occurs in it anywhere, such as a fin
that covers a few patches only. They are pooled before they are stored, under a fingerprint of their
own. Written out they are far too many to be cached or held: rows go straight into a file, and a
journal beside it says which are there, so that a command that was killed goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from fieldmark import draws
from fieldmark.data import MEMORY, Content, Contents, ImageRef, item_key
from fieldmark.embed.chunks import refuse_absent, refuse_none, taken
from fieldmark.embed.engine import pipeline_for, refuse_bad
from fieldmark.embed.work import (
    HashedFile,
    ImagePart,
    Throughput,
    WantedFile,
    add_throughputs,
    decode_of,
)
from fieldmark.embed.write import (
    BAD_COLUMNS,
    CsvPart,
    FileForm,
    array_header,
    beside,
    beside_journal,
    check_space,
    open_alone,
    part_of,
    row_names,
    writable,
)
from fieldmark.errors import DataError, ModelError

if TYPE_CHECKING:
    from PIL import Image

    from fieldmark.data import ImageSource, ListedImage
    from fieldmark.embed.engine import EmbedOptions
    from fieldmark.models import Backbone, Features
    from fieldmark.progress import Progress

VERSION = 1
CHUNK = 20_000
"""images whose names and rows are held at a time"""
_RECORD = np.dtype([("row", "<u8"), ("key", "V16")])
_BLOCK = 16 << 20
"""bytes copied at a time"""


def patch_name(model: str) -> str:
    """What the pooled patches of a model are called in the cache."""
    return f"{model} patches"


def patch_fingerprint(fingerprint: str) -> str:
    """Where the pooled patches of a model with this fingerprint are kept."""
    return draws.digest("patches mean max", VERSION, fingerprint).hex()


class _PatchModel(ABC):
    """A backbone whose feature is made of its patches."""

    advice = ""
    """what to do about a model without patches"""

    def __init__(self, model: Backbone, fingerprint: str) -> None:
        self.inner: Any = model
        self.name = patch_name(model.name)
        self.wants_full_batches = getattr(model, "wants_full_batches", False)
        self.fingerprint = fingerprint
        self.decode = decode_of(model)

    @cached_property
    def batch_size(self) -> int:
        return int(getattr(self.inner, "batch_size", 16))

    @cached_property
    def dim(self) -> int:
        """Measured with one grey image, where the model is here."""
        if hasattr(self.inner, "kept_dim"):
            return int(self.inner.kept_dim(self.fingerprint))
        import PIL.Image

        grey = PIL.Image.new("RGB", (256, 256), (128, 128, 128))
        return int(self.embed_images(np.stack([self.transform(grey)])).pooled.shape[1])

    @property
    def preprocess(self) -> Any:
        return self.inner.preprocess

    @property
    def device(self) -> Any:
        return getattr(self.inner, "device", "cpu")

    def transform(self, image: Image.Image) -> np.ndarray:
        return np.asarray(self.inner.transform(image))

    def embed_pixels(self, pixels: Any) -> Any:
        """As `embed_images`, of what is on the device already."""
        import torch

        return self.joined(self._checked(self.inner.embed_pixels(pixels, patches=True)), torch)

    def embed_images(self, batch: np.ndarray) -> Features:
        # Patches must be asked for where a model can leave them out.
        takes = "patches" in inspect.signature(self.inner.embed_images).parameters
        features: Features = self.inner.embed_images(batch, **({"patches": True} if takes else {}))
        joined = self.joined(self._checked(features.patches), np)
        return type(features)(np.ascontiguousarray(joined, np.float32))

    @abstractmethod
    def joined(self, patch_npw: Any, library: Any) -> Any:
        """One vector per image; by numpy, or by torch on its device."""

    def _checked(self, patches: Any) -> Any:
        if patches is None or patches.ndim != 3 or not patches.shape[1]:
            raise ModelError(
                f"model {self.inner.name!r} gives no patch features: take one that does (a "
                f"network of timm, open-clip or hf), or {self.advice}."
            )
        return patches


class PatchFeatures(_PatchModel):
    """A backbone whose feature is what its patches say: their mean and maximum."""

    advice = "`features: image` in the probe block"

    def __init__(self, model: Backbone) -> None:
        super().__init__(model, patch_fingerprint(model.fingerprint))
        again = getattr(model, "load_again", None)
        self.load_again = partial(_load_patch_features, again) if again else None

    def joined(self, patch_npw: Any, library: Any) -> Any:
        return library.concatenate([library.mean(patch_npw, 1), library.amax(patch_npw, 1)], 1)


def _load_patch_features(load: Callable[..., Backbone], **how: Any) -> PatchFeatures:
    """In another process."""
    return PatchFeatures(load(**how))


class PatchRows(_PatchModel):
    """A backbone whose feature is all its patches, one after the other."""

    advice = "leave out --patches"

    def __init__(self, model: Backbone) -> None:
        super().__init__(model, draws.digest("patches all", VERSION, model.fingerprint).hex())
        self.shape: tuple[int, ...] = ()
        """patches of an image, and the width of each"""
        _ = self.dim

    def joined(self, patch_npw: Any, library: Any) -> Any:
        shape = tuple(patch_npw.shape[1:])
        self.shape = self.shape or shape
        if shape != self.shape:
            raise ModelError(
                f"model {self.inner.name!r} gives patches of the shapes {self.shape} and {shape}: "
                "expected one shape for all images."
            )
        return library.reshape(patch_npw, (len(patch_npw), -1))


# --- patches to a file ---


@dataclass(frozen=True, slots=True)
class PatchesWritten:
    """What became of the images."""

    shape: tuple[int, ...]
    n_images: int
    n_bad: int
    n_before: int
    """rows that an earlier command had written"""
    throughput: Throughput
    files: list[Path]


def write_patches(
    model: Backbone,
    sources: Sequence[ImageSource],
    form: FileForm,
    options: EmbedOptions,
    progress: Progress,
) -> PatchesWritten:
    """Writes n × patches × width, in the order of the sources, whole or not at all.

    The rows are in a file beside its place until all are there; the same command goes on with it as
    long as model, precision and list of images are the same. The shape in `form` is found out.
    """
    rows = PatchRows(model)
    form = form.with_shape(rows.shape)
    n, digest = _list_digest(sources)
    about = {"model": rows.fingerprint, "dtype": form.dtype, "shape": list(rows.shape)}
    mark = json.dumps(about | {"images": digest}, sort_keys=True)
    kept = "The rows so far are kept: the same command goes on."
    with writable(form.path, kept), _Rows(form, n, mark) as file:
        file.tell(progress)
        n_before = int(file.is_there.sum())
        bad, speeds = _fill_rows(rows, sources, file, options, progress)
        files = file.finish(sources, bad)
    return PatchesWritten(rows.shape, n, len(bad), n_before, add_throughputs(speeds), files)


def _list_digest(sources: Sequence[ImageSource]) -> tuple[int, str]:
    """How many images there are, and what changes with their list."""
    n, digest = 0, hashlib.blake2b(digest_size=16)
    for source in sources:
        digest.update(repr((source.name, str(source.root.absolute()))).encode())
        for image in source.images():
            digest.update(repr((image.id, image.ref.image, image.ref.crop)).encode())
            n += 1
    return n, digest.hexdigest()


def _fill_rows(
    rows: PatchRows,
    sources: Sequence[ImageSource],
    file: _Rows,
    options: EmbedOptions,
    progress: Progress,
) -> tuple[dict[int, str], list[Throughput]]:
    """Computes the rows that are not there; why images cannot be read, by row, and the speeds."""
    bad: dict[int, str] = {}
    speeds: list[Throughput] = []
    first, embed = 0, pipeline_for(rows)
    progress.start(f"patches of {rows.inner.name}", file.n)
    refuse_absent(sources, options)
    for source in sources:
        for images in taken(source.images(), CHUNK):
            contents = Contents(options.cache / MEMORY, options.threads)
            sink = _PatchSink(source.root, contents, file, _places(images, first), progress)
            try:
                speeds.append(embed(rows, source.root, sink.wanted(), sink, options, progress))
            finally:
                contents.flush()
            reasons = {images[row - first].ref.image: why for row, why in sink.bad.items()}
            refuse_bad(source.name, reasons, len(images), options.bad_images)
            bad |= sink.bad
            first += len(images)
    refuse_none(first - len(bad), next(iter(bad.values()), ""))
    return bad, speeds


def _places(images: Sequence[ListedImage], first: int) -> dict[ImageRef, list[int]]:
    """The rows of each image."""
    places: dict[ImageRef, list[int]] = {}
    for row, image in enumerate(images, first):
        places.setdefault(image.ref, []).append(row)
    return places


class _PatchSink:
    """Takes patches as they come and puts them into their rows."""

    def __init__(
        self,
        root: Path,
        contents: Contents,
        file: _Rows,
        places: Mapping[ImageRef, list[int]],
        progress: Progress,
    ) -> None:
        self._root, self._contents, self._file = root, contents, file
        self._places, self._progress = places, progress
        self._lock = threading.Lock()
        self.bad: dict[int, str] = {}

    def wanted(self) -> Iterator[WantedFile]:
        """The files whose rows are not there, or whose content must be looked at to tell."""
        by_image: dict[str, list[ImageRef]] = {}
        for ref in self._places:
            by_image.setdefault(ref.image, []).append(ref)
        known = self._contents.known(self._root, by_image)
        for image, refs in by_image.items():
            if image not in known or not self._is_settled(refs, known[image]):
                yield WantedFile(image, tuple(refs))
            else:
                self._missing(refs, known[image])

    def _is_settled(self, refs: Sequence[ImageRef], content: Content) -> bool:
        """Is the file known to be bad, or are all its rows there?"""
        keys = ((ref, item_key(content.key, ref.crop)) for ref in refs)
        return bool(content.problem) or all(
            self._file.holds(row, key) for ref, key in keys for row in self._places[ref]
        )

    def read(self, files: Sequence[HashedFile]) -> list[list[ImagePart]]:
        self._contents.note(
            self._root, [(file.wanted.image, file.content, file.mark) for file in files]
        )
        return [self._missing(file.wanted.refs, file.content) for file in files]

    def failed(self, part: ImagePart, reason: str) -> None:
        self._fail(part.ref, reason)

    def keep(self, parts: Sequence[ImagePart], features_nd: np.ndarray) -> None:
        with self._lock:
            for part, values in zip(parts, features_nd, strict=True):
                self._file.write(self._places[part.ref], part.key, values)
                self._progress.advance(len(self._places[part.ref]))

    def _missing(self, refs: Sequence[ImageRef], content: Content) -> list[ImagePart]:
        """The parts whose rows are still to be computed; the others count as done."""
        parts = []
        for ref in refs:
            key, places = item_key(content.key, ref.crop), self._places[ref]
            if content.problem:
                self._fail(ref, content.problem)
            elif all(self._file.holds(row, key) for row in places):
                self._advance(len(places))
            else:
                parts.append(ImagePart(ref, key))
        return parts

    def _advance(self, n: int) -> None:
        with self._lock:
            self._progress.advance(n)

    def _fail(self, ref: ImageRef, reason: str) -> None:
        with self._lock:
            self.bad |= dict.fromkeys(self._places[ref], reason)
            self._progress.advance(len(self._places[ref]))


@dataclass(slots=True)
class _Rows:
    """Rows of a file under way, written in any order, and the journal of those that are there.

    The journal begins with a line that says what the rows are of; then come row and key of each row
    that is there, 24 bytes, written after the row itself.
    """

    form: FileForm
    n: int
    mark: str
    is_there: np.ndarray = field(init=False)
    _keys: np.ndarray = field(init=False)
    _data: IO[bytes] = field(init=False)
    _journal: IO[bytes] = field(init=False)
    _was_other: bool = False

    def __enter__(self) -> _Rows:
        self.is_there, self._keys = np.zeros(self.n, bool), np.zeros(self.n, "V16")
        self._data = open_alone(part_of(self.form.path))
        self._journal = self._journal_path.open("a+b", buffering=0)
        try:
            self._recall()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._data.close()
        self._journal.close()

    @property
    def _journal_path(self) -> Path:
        return beside_journal(self.form.path)

    def _recall(self) -> None:
        self._journal.seek(0)
        line, end, records = self._journal.read().partition(b"\n")
        n_whole = len(records) // _RECORD.itemsize * _RECORD.itemsize
        entries = np.frombuffer(records[:n_whole], _RECORD)
        at = entries["row"].astype(np.int64)
        is_same = end and line.decode(errors="replace") == self.mark
        n_bytes = part_of(self.form.path).stat().st_size
        if is_same and self._offset(int(at.max(initial=-1)) + 1) <= n_bytes:
            self._journal.truncate(len(line) + 1 + n_whole)
            self.is_there[at], self._keys[at] = True, entries["key"]
            return
        self._was_other = bool(end)
        check_space(self.form.path, self.n * self.form.row_bytes)
        self._journal.truncate(0)
        self._journal.write(self.mark.encode() + b"\n")
        self._data.truncate(0)
        self._data.write(array_header(self.form, 0))

    def tell(self, progress: Progress) -> None:
        """Says how an earlier command counts."""
        n = int(self.is_there.sum())
        if n:
            progress.say(f"{self.form.path}  goes on: {n:,} of {self.n:,} rows are there.")
        if self._was_other:
            progress.say(
                f"{self.form.path}  was begun with another model, precision or list of images, or "
                "its parts were deleted: begun anew."
            )

    def holds(self, row: int, key: bytes) -> bool:
        return bool(self.is_there[row]) and self._keys[row].tobytes() == key

    def write(self, places: Sequence[int], key: bytes, values: np.ndarray) -> None:
        data = self.form.cast(values).tobytes()
        records = np.zeros(len(places), _RECORD)
        for at, row in enumerate(places):
            self._data.seek(self._offset(row))
            self._data.write(data)
            records[at] = (row, np.void(key))
        self._data.flush()
        self._journal.write(records.tobytes())
        self.is_there[list(places)], self._keys[list(places)] = True, np.void(key)

    def finish(self, sources: Sequence[ImageSource], bad: Mapping[int, str]) -> list[Path]:
        """Gives the file its name; the files that were written."""
        path = self.form.path
        named = (
            name
            for source in sources
            for name in row_names(source, source.images(), len(sources) > 1)
        )
        n_columns = len(self.form.columns)
        with (
            CsvPart(beside(path, "ids"), ("row", *self.form.columns)) as ids,
            CsvPart(beside(path, "bad"), BAD_COLUMNS) as without,
        ):
            n_rows = 0
            for row, name in enumerate(named):
                if row in bad:
                    without.add([(*name[:2], bad[row])])
                elif row < self.n and self.is_there[row]:
                    ids.add([(n_rows, *name[:n_columns])])
                    n_rows += 1
                else:
                    raise DataError(f"{path}  the images were changed meanwhile: run it again.")
            whole = self._good_rows(bad)
            files = [path, ids.finish(), *without.finish_if(bool(bad))]
        whole.replace(path)
        part_of(path).unlink(missing_ok=True)
        self._journal_path.unlink()
        return files

    def _good_rows(self, bad: Mapping[int, str]) -> Path:
        """The file without the rows of bad images: a copy of the others, where there are any."""
        header = array_header(self.form, self.n - len(bad))
        if not bad:
            self._data.seek(0)
            self._data.write(header)
            self._data.flush()
            return part_of(self.form.path)
        check_space(self.form.path, (self.n - len(bad)) * self.form.row_bytes)
        whole = self.form.path.with_name(f"{self.form.path.name}.whole")
        with whole.open("wb") as out:
            out.write(header)
            start = 0
            for stop in (*sorted(bad), self.n):
                self._copy(out, start, stop)
                start = stop + 1
        return whole

    def _copy(self, out: IO[bytes], start: int, stop: int) -> None:
        n_left = (stop - start) * self.form.row_bytes
        self._data.seek(self._offset(start))
        while n_left > 0:
            n_left -= out.write(self._data.read(min(_BLOCK, n_left)))

    def _offset(self, row: int) -> int:
        return len(array_header(self.form, 0)) + row * self.form.row_bytes
