"""Model identity: is this the model it was, told without loading it?

A model is what it does: code, weights by content, options, arithmetic, the library that defines
it. Families say all of that in their names and files. What a model of the user's turned out to be
when it was loaded is remembered with its code, its options and the files that its code names, and
holds as long as none of them has changed. Where that is not enough, only loading tells. What that
fingerprint is made of: `_user/fingerprint.py`.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fieldmark import draws
from fieldmark.code import Closure, Digest, file_digest
from fieldmark.errors import DataError
from fieldmark.files import write_file
from fieldmark.models._backbone import Backbone
from fieldmark.models._load import REGISTRY, family_of
from fieldmark.models._name import (
    ModelName,
    ModelRequest,
    decode_mark,
    parse_name,
    resolve_decode,
    resolve_precision,
)
from fieldmark.models._user import (
    Basis,
    UserBackbone,
    code_of,
    known_key,
    library_version,
    path_digest,
    read_closure,
)
from fieldmark.registry import ANSWERS, refuse_misspelt, resolve_reference

LOG = logging.getLogger(__name__)
MOST = 16
"""records kept of one model: precisions, ways of reading, and places whose files differ"""


@dataclass(frozen=True, slots=True)
class Identity:
    """What stands for a model in runs and in the feature cache."""

    version: str
    """`m.py:Mine#4ae7da83c0ffee12`: two with one version give the same features; "" when that
    shows only once the model is loaded"""
    fingerprint: str = ""
    """of its features in the cache; "" when not known before it is loaded"""
    dim: int = 0
    """length of a feature; 0 when not known"""


UNKNOWN = Identity("")


@dataclass(frozen=True, slots=True)
class _Record:
    """What a model turned out to be, and the content of the files that decide whether it still
    is.
    """

    fingerprint: str
    """"" of one that only loading tells"""
    dim: int
    precision: str = ""
    """"" when it is the same in any"""
    decode: str = ""
    """"" when it is the same in any"""
    files: tuple[tuple[str, str], ...] = ()
    """place (from the model's folder where it lies below) and content"""

    @property
    def key(self) -> tuple[object, ...]:
        return self.precision, self.decode, self.files


class ModelMemory:
    """Remembers what models turned out to be, under `folder/models`, or in itself without one.

    `digest` gives what `fieldmark.code.file_digest` gives (16 bytes of BLAKE2b), and may remember
    it between processes: weights are large.
    """

    def __init__(self, folder: Path | None = None, digest: Digest | None = None) -> None:
        self.digest = digest or file_digest
        self._folder = folder / "models" if folder else None
        self._records: dict[str, list[_Record]] = {}
        self._families: dict[tuple[str, ...], _Family] = {}

    def identify(
        self,
        name: str,
        *,
        device: str = "auto",
        precision: str = "auto",
        decode: str = "auto",
        loaded: Backbone | None = None,
    ) -> Identity:
        """Who a model is; `loaded` is the model itself where it is at hand. Nothing is loaded."""
        parsed = parse_name(name)
        if isinstance(loaded, UserBackbone):
            return _of_user(parsed, _record_of(loaded))
        if is_own_model(name):
            return self._user(parsed, _code(parsed), (device, precision, decode))
        family = self._family(name, device, precision, decode)
        if family.code is not None:
            return self._user(parsed, family.code, (device, precision, decode))
        version = family.version(self.digest)
        if family.is_chat:
            return Identity(version)
        if loaded is not None:
            return Identity(version, loaded.fingerprint, loaded.dim)
        record = next(iter(self._recall(version)), None)
        return Identity(version, record.fingerprint, record.dim) if record else Identity(version)

    def remember(
        self, name: str, model: Backbone, device: str, precision: str, decode: str
    ) -> Identity:
        """Keeps what a loaded model turned out to be."""
        identity = self.identify(
            name, device=device, precision=precision, decode=decode, loaded=model
        )
        if not isinstance(model, UserBackbone):
            self._keep(identity.version, _Record(identity.fingerprint, identity.dim))
        elif model.basis and model.basis.is_known:
            self._keep(model.basis.key, self._to_remember(name, model))
        return identity

    def _to_remember(self, name: str, model: UserBackbone) -> _Record:
        """What to remember: of a model that was something else before, though its code and files
        were the same, only that it must be loaded to be known.
        """
        assert model.basis is not None
        current, others = _record_of(model), self._recall(model.basis.key)
        former = [record for record in others if record.key == current.key]
        if all(record.fingerprint == current.fingerprint for record in former):
            return current
        if any(record.fingerprint for record in former):
            LOG.warning(
                "model %r has changed since it was last loaded, although its code and the files "
                "it names have not (random weights, or another file?). Its new results are listed "
                "as another version.",
                name,
            )  # fmt: skip
        return replace(current, fingerprint="")

    def _user(self, name: ModelName, code: Closure | None, wish: tuple[str, str, str]) -> Identity:
        if code is None:
            return UNKNOWN
        folder, key = code.root.parent, known_key(name, code, self.digest)
        if self._folder:
            self._records.pop(key, None)  # another process may have loaded it since
        device, precision, decode = wish
        for record in self._recall(key):
            is_same = record.precision in ("", resolve_precision(device, precision))
            is_same = is_same and record.decode in ("", resolve_decode(device, decode))
            if is_same and self._holds(record, folder):
                return _of_user(name, record) if record.fingerprint else UNKNOWN
        return UNKNOWN

    def _holds(self, record: _Record, folder: Path) -> bool:
        try:
            return all(
                self.digest(folder / name).hex() == content for name, content in record.files
            )
        except OSError:
            return False

    def _family(self, name: str, device: str, precision: str, decode: str) -> _Family:
        key = (name, device, precision, decode)
        if key not in self._families:
            self._families[key] = _family(*key)
        return self._families[key]

    def _recall(self, key: str) -> list[_Record]:
        """The newest first; what other processes wrote is read while nothing is there."""
        if not self._records.get(key) and self._folder:
            with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
                rows = json.loads(self._file(key).read_text(encoding="utf-8"))["records"]
                self._records[key] = [_read_record(row) for row in rows]
        return self._records.get(key, [])

    def _keep(self, key: str, record: _Record) -> None:
        others = [other for other in self._recall(key) if other.key != record.key]
        self._records[key] = [record, *others][:MOST]
        if self._folder:
            rows = [asdict(kept) for kept in self._records[key]]
            text = json.dumps({"model": key, "records": rows})
            with contextlib.suppress(DataError):  # a memory that cannot be written is only slower
                write_file(self._file(key), text.encode())

    def _file(self, key: str) -> Path:
        assert self._folder is not None
        return self._folder / f"{draws.digest(key).hex()}.json"


def identify(
    name: str,
    *,
    device: str = "auto",
    precision: str = "auto",
    decode: str = "auto",
    memory: ModelMemory | None = None,
    loaded: Backbone | None = None,
) -> Identity:
    """Who a model is, without loading it; of models of the user's only what the memory knows."""
    memory = memory or ModelMemory()
    return memory.identify(name, device=device, precision=precision, decode=decode, loaded=loaded)


def is_own_model(name: str) -> bool:
    """Is this a model of the user's, a file or a registered one?"""
    parsed = parse_name(name)
    return parsed.is_file or parsed.base in REGISTRY.added


def may_use_gpu(name: str) -> bool:
    """Can it run on one? Of a model of the user's that is not known before it is loaded."""
    parsed = parse_name(name)
    if is_own_model(name):
        return True
    entry = family_of(parsed)
    if ANSWERS in getattr(entry, "ABILITIES", ()):
        return hasattr(entry, "local_files")
    return bool(getattr(entry, "LIBRARY", "")) or not _is_ours(entry)


def check_model_name(name: str) -> None:
    """Refuses a name that cannot be loaded, as far as that shows without reading any weights."""
    parsed = parse_name(name)
    if parsed.is_file:
        refuse_misspelt(*resolve_reference(parsed.base))
    elif parsed.base not in REGISTRY.added:
        _ = _family(name, "cpu", "float32", "reference").files


@dataclass(frozen=True, slots=True)
class _Family:
    """What a name of a family says; the content of its files is looked at each time."""

    name: str
    """without the folders of files"""
    parts: tuple[object, ...] = ()
    precision: str = ""
    decode: str = ""
    files: tuple[Path, ...] = ()
    is_chat: bool = False
    code: Closure | None = None
    """of a single class that an entry point gave"""

    def version(self, digest: Digest) -> str:
        contents = [path_digest(path, digest) for path in self.files]
        if self.is_chat:
            return "#".join(
                [self.name, *map(str, self.parts), *(content[:16] for content in contents)]
            )
        parts = (*self.parts, self.precision, contents, *decode_mark(self.decode))
        mark = draws.digest("family 1", self.name, *parts)
        return _version(self.name, self.precision, mark.hex())


def _family(name: str, device: str, precision: str, decode: str) -> _Family:
    parsed = parse_name(name)
    entry = family_of(parsed)
    if not hasattr(entry, "load"):
        return _Family(parsed.portable, code=code_of(entry))
    is_chat = ANSWERS in getattr(entry, "ABILITIES", ())
    library = getattr(entry, "LIBRARY", "")
    is_torch = bool(library) or not _is_ours(entry)
    has_arithmetic = is_torch and not is_chat
    weights = None if is_chat else ModelRequest(parsed).path("weights")
    own_files = getattr(entry, "local_files", None)
    local = own_files(parsed.checkpoint) if own_files else []
    own_rows = getattr(entry, "own_rows", None)
    parts: tuple[Any, ...] = (own_rows(name),) if own_rows and own_rows(name) else ()
    if not is_chat:
        parts = (getattr(entry, "VERSION", 0), library_version(library) if library else "")
    return _Family(
        parsed.portable,
        parts,
        resolve_precision(device, precision) if has_arithmetic else "",
        resolve_decode(device, decode) if has_arithmetic else "",
        (*local, *([weights] if weights else [])),
        is_chat,
    )


def _is_ours(entry: Any) -> bool:
    return str(getattr(entry, "__name__", "")).startswith("fieldmark.models.")


def _code(name: ModelName) -> Closure | None:
    if name.is_file:
        return read_closure(resolve_reference(name.base)[0])
    return code_of(REGISTRY.added[name.base])


def _of_user(name: ModelName, record: _Record) -> Identity:
    mark = draws.digest("user version", record.fingerprint).hex()
    version = _version(name.portable, record.precision, mark)
    return Identity(version, record.fingerprint, record.dim)


def _version(name: str, precision: str, mark: str) -> str:
    prefix = "" if precision in ("", "float32") else f"{precision}-"
    return f"{name}#{prefix}{mark[:16]}"


def _record_of(model: UserBackbone) -> _Record:
    basis: Basis | None = model.basis
    if basis is None:
        return _Record(model.fingerprint, model.dim)
    files = tuple((_place(path, basis.folder), content) for path, content in basis.files)
    return _Record(model.fingerprint, model.dim, basis.precision, basis.decode, files)


def _place(path: Path, folder: Path) -> str:
    return str(path.relative_to(folder) if path.is_relative_to(folder) else path)


def _read_record(row: dict[str, Any]) -> _Record:
    files: Iterable[list[str]] = row["files"]
    pairs = tuple((str(name), str(content)) for name, content in files)
    precision, decode = str(row["precision"]), str(row["decode"])
    return _Record(str(row["fingerprint"]), int(row["dim"]), precision, decode, pairs)
