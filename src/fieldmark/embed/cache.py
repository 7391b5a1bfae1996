"""Feature cache on disk, crash-safe: append-only files that a kill at any moment cannot damage.

One folder per model fingerprint: `model.json`, and pairs of append-only files

    rows-000.keys     24 bytes a row: key (16), CRC-32 of key and values (4), zero (4)
    rows-000.values   dim × float32 a row

Values are written before their keys, so a key that is there has its values; a cut-off tail is not
counted and is overwritten by the next writer. Each writing process holds a lock on the pair it
appends to. A row whose checksum fails counts as absent and is computed again.
"""

from __future__ import annotations

import json
import os
import uuid
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from fieldmark import draws
from fieldmark.data import MEMORY
from fieldmark.embed.work import Throughput
from fieldmark.errors import DataError

N = TypeVar("N", int, float)
BEHAVIOUR = "behaviour.npy"
ALIKE = 0.03
"""how far features may be apart that two devices computed, as a share of their length: bf16 kernels
differ by up to 0.8 % (`fieldmark.devices`)"""
KEY_DTYPE = np.dtype([("key", "V16"), ("crc", "<u4"), ("zero", "<u4")])


class FeatureRows:
    """The features of one model: key → vector, on disk."""

    def __init__(self, folder: Path, dim: int) -> None:
        self.folder, self.dim = folder, dim
        self._bad: set[bytes] = set()
        self._new: set[bytes] = set()
        self._writer: _Writer | None = None
        self._map()

    def __contains__(self, key: bytes) -> bool:
        return key in self._new or self._read(key) is not None

    @property
    def n_damaged(self) -> int:
        """Rows met so far whose checksum failed."""
        return len(self._bad)

    def gather(self, keys: Sequence[bytes]) -> np.ndarray:
        """The vectors of the keys, float32, in their order; all of them must be there."""
        if self._new:
            self._map()
        out = np.empty((len(keys), self.dim), np.float32)
        for index, key in enumerate(keys):
            vector = self._read(key)
            if vector is None:
                raise DataError(
                    f"{self.folder}  features are gone that were there before (was the cache "
                    "cleaned meanwhile?): run the same command again."
                )
            out[index] = vector
        return out

    def append(self, keys: Sequence[bytes], values_nd: np.ndarray) -> None:
        """Adds rows; when this returns, `kill -9` no longer loses them."""
        if self._writer is None:
            self._writer = _Writer(self.folder, self.dim)
        self._writer.append(keys, np.ascontiguousarray(values_nd, np.float32))
        self._new.update(keys)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _map(self) -> None:
        self._values: list[np.ndarray] = []
        self._crcs: list[np.ndarray] = []
        self._place: dict[bytes, tuple[int, int]] = {}
        self._bad -= self._new
        self._new.clear()
        for keys_path in sorted(self.folder.glob("rows-*.keys")):
            self._load(keys_path)

    def _load(self, keys_path: Path) -> None:
        values_path = keys_path.with_suffix(".values")
        n = _n_whole_rows(keys_path, values_path, self.dim) if values_path.exists() else 0
        if n == 0:
            return
        heads = np.fromfile(keys_path, KEY_DTYPE, count=n)
        which = len(self._values)
        self._values.append(np.memmap(values_path, np.float32, "r", shape=(n, self.dim)))
        self._crcs.append(heads["crc"])
        names = heads["key"].tobytes()
        for row in range(n):  # a row written again after damage comes later and wins
            self._place[names[16 * row : 16 * row + 16]] = (which, row)

    def _read(self, key: bytes) -> np.ndarray | None:
        place = self._place.get(key)
        if place is None or key in self._bad:
            return None
        which, row = place
        vector = np.asarray(self._values[which][row])
        if _crc(key, vector) != int(self._crcs[which][row]):
            self._bad.add(key)
            return None
        return vector


class _Writer:
    """Appends to one pair of files that no other process appends to."""

    def __init__(self, folder: Path, dim: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._keys = _lock_some_file(folder)
        keys_path = Path(self._keys.name)
        values_path = keys_path.with_suffix(".values")
        values_path.touch()
        # Unbuffered: what could not be written must not be tried again when the file is closed.
        self._values = values_path.open("r+b", buffering=0)
        n = _n_whole_rows(keys_path, values_path, dim)
        self._keys.truncate(n * KEY_DTYPE.itemsize)
        self._values.truncate(n * dim * 4)
        self._keys.seek(0, os.SEEK_END)
        self._values.seek(0, os.SEEK_END)

    def append(self, keys: Sequence[bytes], values: np.ndarray) -> None:
        heads = np.zeros(len(keys), KEY_DTYPE)
        for row, key in enumerate(keys):
            heads[row] = (np.void(key), _crc(key, values[row]), 0)
        start = self._values.tell(), self._keys.tell()
        try:
            _write(self._values, values.tobytes())
            _write(self._keys, heads.tobytes())
        except OSError as error:
            self._undo(start)
            raise DataError(
                f"{self._values.name}  cannot be written: {error.strerror}. Free some space or "
                "choose another place with --cache; the features so far are kept."
            ) from error

    def close(self) -> None:
        self._values.close()
        self._keys.close()

    def _undo(self, start: tuple[int, int]) -> None:
        for file, position in zip((self._values, self._keys), start, strict=True):
            os.ftruncate(file.fileno(), position)
            file.seek(position)


def _write(file: IO[bytes], data: bytes) -> None:
    """All of it: an unbuffered write may take only a part."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def write_about(folder: Path, about: dict[str, Any]) -> None:
    """Keeps what the features belong to, atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f"model.json.{uuid.uuid4().hex}"
    temporary.write_text(json.dumps(about, indent=1))
    temporary.replace(folder / "model.json")


def read_about(folder: Path) -> dict[str, Any] | None:
    """What `write_about` kept; None where it is absent or damaged."""
    try:
        about = json.loads((folder / "model.json").read_text())
    except (OSError, ValueError):
        return None
    return about if isinstance(about, dict) else None


def trusted_fingerprint(
    places: Sequence[Path], fingerprint: str, behaviour: np.ndarray | None
) -> str:
    """Where the features of a model may be kept that has this fingerprint and does this now.

    `behaviour` are its features of fixed test pictures. A fingerprint may miss what a model reads
    by itself: where what is kept under it, in any of the places, comes from a model that did
    otherwise, this one is another model, with a fingerprint of its own.
    """
    for version in range(1, 1000):
        name = fingerprint if version == 1 else draws.digest(fingerprint, version).hex()
        every = [_read_behaviour(place / name) for place in places]
        if behaviour is None or all(kept is None or _is_like(kept, behaviour) for kept in every):
            return name
    raise DataError(f"{places[0]}  {fingerprint} has too many versions: `fieldmark cache clean`.")


def write_behaviour(folder: Path, behaviour: np.ndarray | None) -> None:
    """Keeps what the model did when its first features were computed."""
    path = folder / BEHAVIOUR
    if behaviour is not None and not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        temporary = folder / f"{BEHAVIOUR}.{uuid.uuid4().hex}"
        with temporary.open("wb") as file:
            np.save(file, np.asarray(behaviour, np.float32))
        temporary.replace(path)


def _read_behaviour(folder: Path) -> np.ndarray | None:
    try:
        kept: np.ndarray = np.load(folder / BEHAVIOUR, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return kept


def _is_like(kept: np.ndarray, now: np.ndarray) -> bool:
    """Equal up to what another device, or half precision, makes of the last digits."""
    if kept.shape != now.shape or not np.isfinite(now).all():
        return kept.shape == now.shape and bool(np.array_equal(kept, now, equal_nan=True))
    return float(np.linalg.norm(kept - now)) <= ALIKE * float(np.linalg.norm(kept)) + 1e-12


def number(value: object, kind: Callable[[Any], N]) -> N | None:
    """A number of `model.json`; it is a cache file like others: what it says may be nonsense."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return kind(value) if is_number else None


def _is_features(folder: Path) -> bool:
    """Was this folder made here?"""
    return (folder / "model.json").is_file() or any(folder.glob("rows-*.keys"))


def _delete_features(folder: Path) -> None:
    """Deletes what was written here, and the folder if nothing else is in it."""
    for pattern in ("rows-*.keys", "rows-*.values", "model.json*", f"{BEHAVIOUR}*"):
        for path in folder.glob(pattern):
            path.unlink(missing_ok=True)
    if not any(folder.iterdir()):
        folder.rmdir()


def _count_rows(folder: Path) -> int:
    """How many features the folder holds, without reading them."""
    sizes: Iterable[int] = (path.stat().st_size for path in folder.glob("rows-*.keys"))
    return sum(size // KEY_DTYPE.itemsize for size in sizes)


def read_keys(folder: Path) -> set[bytes]:
    """The keys of all features in the folder."""
    keys: set[bytes] = set()
    for path in folder.glob("rows-*.keys"):
        heads = np.fromfile(path, KEY_DTYPE, count=path.stat().st_size // KEY_DTYPE.itemsize)
        names = heads["key"].tobytes()
        keys.update(names[at : at + 16] for at in range(0, len(names), 16))
    return keys


def _crc(key: bytes, vector: np.ndarray) -> int:
    return zlib.crc32(vector.tobytes(), zlib.crc32(key))


def _n_whole_rows(keys_path: Path, values_path: Path, dim: int) -> int:
    return min(
        keys_path.stat().st_size // KEY_DTYPE.itemsize, values_path.stat().st_size // (dim * 4)
    )


def _lock_some_file(folder: Path) -> IO[bytes]:
    """The first keys file nobody writes to, locked; the lock ends with the process.

    Where files cannot be locked (Windows, some network folders) each process has one of its own.
    """
    try:
        import fcntl
    except ImportError:
        return _own_file(folder)
    for number in range(10_000):
        path = folder / f"rows-{number:03d}.keys"
        is_new = not path.exists()
        path.touch()
        file = path.open("r+b", buffering=0)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except BlockingIOError:
            file.close()
        except OSError:
            file.close()
            if is_new:
                path.unlink(missing_ok=True)
            break
    return _own_file(folder)


def _own_file(folder: Path) -> IO[bytes]:
    path = folder / f"rows-{_process_name()}.keys"
    path.touch()
    return path.open("r+b", buffering=0)


@cache
def _process_name() -> str:
    return uuid.uuid4().hex


# --- what is in the cache, how large it is, and how it is emptied


@dataclass(frozen=True, slots=True)
class ModelCache:
    """The features of one model fingerprint."""

    model: str
    fingerprint: str
    n_features: int
    n_bytes: int
    dim: int
    throughput: Throughput
    """of all of them together"""
    folder: Path

    @property
    def images_per_s(self) -> float | None:
        """How fast all of them together were computed; None where that is not known."""
        return self.throughput.images_per_s or None


def cached_models(cache: Path, model: str = "") -> list[ModelCache]:
    """Every model with features in the cache (those whose name contains `model`), largest first."""
    models = []
    for folder in sorted((cache / "features").glob("*")):
        about = read_about(folder) or {}
        name = str(about.get("model", "unknown"))
        if _is_features(folder) and model in name:
            n_bytes = sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
            models.append(
                ModelCache(
                    name,
                    folder.name,
                    _count_rows(folder),
                    n_bytes,
                    number(about.get("dim"), int) or 0,
                    _throughput(about),
                    folder,
                )
            )
    return sorted(models, key=lambda entry: (-entry.n_bytes, entry.model))


def throughput_of(cache: Path, fingerprint: str) -> Throughput:
    """How fast all features of this model were computed here, and where the time went."""
    return _throughput(read_about(cache / "features" / fingerprint) or {})


def _throughput(about: Mapping[str, Any]) -> Throughput:
    """What `model.json` says of it; nonsense counts as not known."""
    spent = about.get("busy_s")
    parts = spent.items() if isinstance(spent, dict) else ()
    decode = str(about.get("decode"))
    return Throughput(
        n_computed=number(about.get("n_computed"), int) or 0,
        seconds=number(about.get("seconds"), float) or 0.0,
        decode=decode if decode in ("cpu", "gpu") else "reference",
        n_fallback=number(about.get("n_fallback"), int) or 0,
        busy_s={part: number(seconds, float) or 0.0 for part, seconds in parts},
        device_busy=number(about.get("device_busy"), float),
        is_compiled=about.get("is_compiled") is True,
        batch_size=number(about.get("batch_size"), int) or 0,
    )


def clean_cache(cache: Path, model: str = "") -> list[ModelCache]:
    """Deletes the features of the models whose name contains `model` ("" = all); returns them."""
    gone = cached_models(cache, model)
    try:
        for entry in gone:
            _delete_features(entry.folder)
        if not model and cache.is_dir():
            (cache / MEMORY).unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"{cache}  cannot be cleaned: {error.strerror or error}.") from error
    return gone
