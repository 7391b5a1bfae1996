"""Documents: which rows of its dataset does a task ask about, and what does each hold?

Opens the task's dataset with the `datasets` library and gives its splits, after the task's own
`process_docs`. Nothing is fetched unless asked. A row without its media is read without them; with
them, pictures are Pillow images as the library gives them, but their pixels are decoded when
somebody looks at them, and until then their bytes are as they were.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from fieldmark import draws
from fieldmark.errors import DataError, FieldmarkError, UsageError, meant
from fieldmark.lmms.code.call import call, load_function, seeded
from fieldmark.lmms.data.open import fresh_transforms, load, quiet_datasets
from fieldmark.lmms.data.pictures import (
    ANYWHERE,
    DAMAGE,
    LISTS,
    PictureFolders,
    decoded,
    folders_for,
    words_of,
)
from fieldmark.lmms.data.sources import DocumentSource, find_source
from fieldmark.lmms.read.schema import DocumentTask
from fieldmark.protocols import Draw


def source_of(task: DocumentTask) -> DocumentSource:
    """Where the task's documents are."""
    return find_source(task, lambda function: load_function(function, task.trust))


def fetch_documents(source: DocumentSource, cache: Path) -> None:
    """Downloads them, where they are not on this machine."""
    if source.kind == "hub" or source.remote:
        with quiet_datasets(is_online=True) as datasets:
            load(datasets, source, cache / "datasets", fetch=True)


def open_documents(task: DocumentTask, cache: Path) -> Documents:
    """The task's documents. Prepared tables are kept below `cache`."""
    source = source_of(task)
    with quiet_datasets(is_online=False) as datasets:
        every = load(datasets, source, cache / "datasets", fetch=False)
    return Documents(task, every, source.notes, source.places)


@dataclass(frozen=True, slots=True)
class OpenTask:
    """Names the documents that one command opened, in whichever process they are open."""

    key: str
    task: DocumentTask = field(compare=False)
    cache: Path = field(compare=False)


@lru_cache(maxsize=4)
def documents_of(opened: OpenTask) -> Documents:
    return open_documents(opened.task, opened.cache)


class Documents:
    """The splits of a task; each is prepared by `process_docs` when it is first looked at."""

    def __init__(
        self,
        task: DocumentTask,
        every: Mapping[str, Any],
        notes: tuple[str, ...] = (),
        folders: tuple[Path, ...] = (),
    ) -> None:
        self.task, self.notes, self.places = task, notes, folders
        self._every = every
        self._made: dict[str, Split] = {}

    @cached_property
    def test(self) -> Split:
        """The split that is asked about: test, else validation."""
        key = "test_split" if self.task.test_split else "validation_split"
        name = self.task.eval_split
        if name is None:
            raise UsageError(
                f"{self.task.line_of('task')}  names neither test_split nor validation_split; "
                f"the dataset has {_listed(self._every)}."
            )
        made = self._split(name, key)
        if not len(made):
            raise DataError(f"{self.task.line_of(key)}  split {name!r} contains no documents.")
        return made

    @cached_property
    def fewshot(self) -> Split | None:
        """Where shots come from: the split named for it, else training, else validation.

        The split that is asked about only if the task says so, and then it is the same object: a
        document must not be its own shot.
        """
        if self.task.fewshot_split:
            return self._split(self.task.fewshot_split, "fewshot_split")
        for key in ("training_split", "validation_split"):
            name = getattr(self.task, key)
            if name and name != self.task.eval_split:
                return self._split(name, key)
        return None

    def _split(self, name: str, key: str) -> Split:
        if name not in self._made:
            where = self.task.line_of(key)
            if name not in self._every:
                reason = f"the dataset has no split {name!r}, it has {_listed(self._every)}."
                raise DataError(f"{where}  {reason}{meant(name, self._every)}")
            data = self._every[name]
            if self.task.process_docs is not None:
                data = self._processed(data, name)
            self._made[name] = Split(data, name, where, folders_for(self.task))
        return self._made[name]

    def _processed(self, data: Any, name: str) -> Any:
        """Task code may draw: the same documents come out whatever ran before."""
        where = self.task.line_of("process_docs")
        function = load_function(self.task.process_docs, self.task.trust)  # type: ignore[arg-type]
        with (
            quiet_datasets(is_online=False) as datasets,
            fresh_transforms(datasets),
            seeded(0, self.task.task, name, "process_docs"),
        ):
            made = call(function, data, where=where)
        if not isinstance(made, datasets.Dataset):
            raise UsageError(
                f"{where}  {self.task.process_docs} gave a {type(made).__name__}: "
                "a datasets.Dataset is expected."
            )
        return made


def _listed(every: Mapping[str, Any]) -> str:
    return ", ".join(every) or "none"


@dataclass(frozen=True, slots=True, eq=False)
class DocumentPart:
    """The documents of a run; there is one part."""

    opened: OpenTask
    rows: tuple[int, ...]
    """of the split that is asked about"""
    k: int = 0
    """examples shown with each"""
    digest: str = ""
    """changes when a document that is asked about, or one that may be shown, changes"""

    name = ""

    @property
    def task(self) -> DocumentTask:
        return self.opened.task

    @property
    def documents(self) -> Documents:
        return documents_of(self.opened)

    def document(self, row: int, media: bool = False) -> dict[str, Any]:
        return self.documents.test.document(row, media=media)

    def refuse_changed(self) -> None:
        """Raises where a document, or a picture it names, is not what it was when this began."""
        if self.digest_now(anew=True) != self.digest:
            raise DataError(
                f"{self.task.line_of('task')}  documents were changed while they were asked "
                "about: run the same command again (answers are kept)."
            )

    def digest_now(self, anew: bool = False) -> str:
        digest = self.documents.test.digest(self.rows, anew)
        shown = self.documents.fewshot if self.k else None
        return digest if shown is None else f"{digest}+{shown.digest(range(len(shown)), anew)}"


def draw_part(opened: OpenTask, draw: Draw) -> DocumentPart:
    """A sample of documents depends on seed and row, not on their order."""
    every = [str(row) for row in range(len(documents_of(opened).test))]
    kept = draws.sample(every, draw.n_test, draw.seed, opened.task.task, "documents")
    part = DocumentPart(opened, tuple(map(int, kept)), draw.n_train)
    return replace(part, digest=part.digest_now())


_MEDIA = ("Image", "Audio")
_AT_ONCE = 32
"""rows that are read together, pictures and all"""


class Split:
    """The documents of one split, by number. `data` is a `datasets.Dataset`.

    `folders` are where files are looked for that rows name.
    """

    def __init__(
        self, data: Any, name: str, where: str = "", folders: PictureFolders = ANYWHERE
    ) -> None:
        self.name, self.where, self.folders = name, where, folders
        self._data = data
        self._digests: dict[tuple[int, ...], str] = {}
        self._is_custom = data.format["type"] == "custom"
        """a task may have hung a function of its own on the rows: only the library can call it"""

    def __len__(self) -> int:
        return len(self._data)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """All of them, media too."""
        is_made = self._is_custom and len(self)
        return tuple(self._own_row(0) if is_made else self._data.column_names)

    @cached_property
    def media_columns(self) -> tuple[str, ...]:
        """Columns of pictures, of lists of pictures, and of sounds."""
        return tuple(name for name, feature in self._features.items() if _is_media(feature))

    def document(self, index: int, media: bool = False) -> dict[str, Any]:
        """A row as plain values, made anew at each call.

        Without `media` its media columns are absent; pictures deeper in a row stay encoded.
        """
        if self._is_custom:
            row = self._own_row(index)
            return row if media else {k: v for k, v in row.items() if k not in self.media_columns}
        if not media:
            plain = self._row(self._plain, index)
            return dict(self._plain_features.decode_example(plain))
        raw = self._row(self._all, index)
        return {name: self._decoded(index, name, raw[name]) for name in self.columns}

    def digest(self, indices: Iterable[int], anew: bool = False) -> str:
        """Stands for the content of these rows, in this order, with the bytes of their media and of
        the image files they name; read once, whoever asks, unless `anew`.
        """
        rows = tuple(indices)
        if anew:
            return self._digest(rows)
        if rows not in self._digests:
            self._digests[rows] = self._digest(rows)
        return self._digests[rows]

    def _digest(self, rows: Iterable[int]) -> str:
        hasher, rest = hashlib.blake2b(digest_size=16), iter(rows)
        while some := list(islice(rest, _AT_ONCE)):
            for row in self._all[some].to_pylist():
                _feed(hasher, row, self.folders)
        return hasher.hexdigest()

    @cached_property
    def _features(self) -> Any:
        """Asked for once: the library copies all of them each time."""
        return self._data.features

    @cached_property
    def _all(self) -> Any:
        return self._data.with_format("arrow")

    @cached_property
    def _plain(self) -> Any:
        keep = [name for name in self.columns if name not in self.media_columns]
        return self._data.select_columns(keep).with_format("arrow")

    @cached_property
    def _plain_features(self) -> Any:
        features = self._plain.features
        return type(features)({name: _encoded(feature) for name, feature in features.items()})

    def _row(self, data: Any, index: int) -> dict[str, Any]:
        if not 0 <= index < len(self):
            raise IndexError(f"document {index} of {len(self)} in split {self.name!r}")
        if not data.column_names:
            return {}
        row: dict[str, Any] = data[index].to_pylist()[0]
        return row

    def _decoded(self, index: int, name: str, value: Any) -> Any:
        try:
            return decoded(self._features[name], value, self.folders)
        except FieldmarkError as error:
            raise type(error)(f"{self._start(index, name)}: {error}") from error
        except DAMAGE as error:
            text = f"{self._start(index, name)} cannot be read: {words_of(error)}."
            raise DataError(text) from error

    def _start(self, index: int, name: str) -> str:
        start = f"{self.where}  " if self.where else ""
        return f"{start}document {index} of split {self.name!r}: column {name!r}"

    def _own_row(self, index: int) -> dict[str, Any]:
        """A row as the task's own function makes it."""
        row: dict[str, Any] = call(lambda: dict(self._data[index]), where=self.where)
        return row


def _is_media(feature: Any) -> bool:
    kind = type(feature).__name__
    if isinstance(feature, list) and len(feature) == 1:
        return type(feature[0]).__name__ == "Image"
    if kind in LISTS:
        return type(feature.feature).__name__ == "Image"
    return kind in _MEDIA


def _encoded(feature: Any) -> Any:
    """The same kind of column, whose pictures, sounds and videos are not decoded."""
    if isinstance(feature, Mapping):
        return {name: _encoded(inner) for name, inner in feature.items()}
    if isinstance(feature, list):
        return [_encoded(inner) for inner in feature]
    if type(feature).__name__ in LISTS:
        return dataclasses.replace(feature, feature=_encoded(feature.feature))
    if getattr(feature, "decode", False) is True:
        return dataclasses.replace(feature, decode=False)
    return feature


def _feed(
    hasher: hashlib.blake2b, value: Any, folders: PictureFolders, is_row: bool = True
) -> None:
    """Every value with its kind and length, so that no two rows look alike; keys in order."""
    if isinstance(value, Mapping):
        if set(value) == {"bytes", "path"}:
            return _feed(hasher, _media_bytes(value, folders), folders, is_row=False)
        hasher.update(f"m{len(value)}:".encode())
        for key in sorted(value, key=str):
            _feed(hasher, str(key), folders, is_row=False)
            _feed(hasher, value[key], folders, is_row)
    elif isinstance(value, (list, tuple)):
        hasher.update(f"l{len(value)}:".encode())
        for inner in value:
            _feed(hasher, inner, folders, is_row)
    else:
        is_bytes = isinstance(value, (bytes, bytearray))
        data = bytes(value) if is_bytes else str(value).encode("utf-8", "surrogatepass")
        hasher.update(f"{type(value).__name__}{len(data)}:".encode() + data)
        is_text = is_row and isinstance(value, str) and folders.folders
        named = folders.find(value) if is_text else None
        if named is not None:
            _feed(hasher, named.read_bytes(), folders, is_row=False)
    return None


def _media_bytes(value: Mapping[str, Any], folders: PictureFolders) -> Any:
    """What a picture's file holds; where it lies does not count."""
    if value["bytes"] is not None or value["path"] is None:
        return value["bytes"]
    try:
        return folders.at(value["path"]).read_bytes()
    except FieldmarkError:  # told by whoever opens it
        return str(value["path"])
