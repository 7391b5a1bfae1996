"""Feature cache on disk: whose features are kept where, how large it is, how it is emptied.

One folder per model fingerprint: the rows (`rows.py`), `model.json` (which model, how fast) and
`behaviour.npy` (what it made of fixed test pictures).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from fieldmark import draws
from fieldmark.data import MEMORY
from fieldmark.embed.rows import KEY_DTYPE
from fieldmark.embed.shards import LEASES
from fieldmark.embed.work import Throughput, n_parameters_of, noted_decode
from fieldmark.errors import DataError
from fieldmark.files import remove_parts, replacing, small_json

if TYPE_CHECKING:
    from fieldmark.models import Backbone

N = TypeVar("N", int, float)
BEHAVIOUR = "behaviour.npy"
ALIKE = 0.03
"""how far features may be apart that two devices computed, as a share of their length: bf16 kernels
differ by up to 0.8 % (`fieldmark.devices`)"""


def write_about(folder: Path, about: dict[str, Any]) -> None:
    """Keeps what the features belong to."""
    with replacing(folder / "model.json") as file:
        file.write(json.dumps(about, indent=1).encode())


def kept_facts(folder: Path) -> dict[str, Any]:
    """What `write_about` kept of a model; nothing where that is absent or damaged."""
    return small_json(folder / "model.json")


def trusted_fingerprint(
    folders: Sequence[Path], fingerprint: str, behaviour: np.ndarray | None
) -> str:
    """Where the features of a model may be kept that has this fingerprint and does this now.

    `behaviour` are its features of fixed test pictures. A fingerprint may miss what a model reads
    by itself: where what is kept under it, in any of the places, comes from a model that did
    otherwise, this one is another model, with a fingerprint of its own.
    """
    for version in range(1, 1000):
        name = fingerprint if version == 1 else draws.digest(fingerprint, version).hex()
        every = [read_behaviour(folder / name) for folder in folders]
        if behaviour is None or all(kept is None or does_alike(kept, behaviour) for kept in every):
            return name
    raise DataError(f"{folders[0]}  {fingerprint} has too many versions: `fieldmark cache clean`.")


def write_behaviour(folder: Path, behaviour: np.ndarray | None) -> None:
    """Keeps what the model did when its first features were computed."""
    path = folder / BEHAVIOUR
    if behaviour is not None and not path.exists():
        with replacing(path) as file:
            np.save(file, np.asarray(behaviour, np.float32))


def read_behaviour(folder: Path) -> np.ndarray | None:
    """What `write_behaviour` kept; None where nothing is."""
    try:
        kept: np.ndarray = np.load(folder / BEHAVIOUR, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return kept


def behaviour_of(model: Any) -> np.ndarray | None:
    """Features of fixed pictures, of a model of the user's; None for all others."""
    behaviour = getattr(model, "behaviour", None)
    return behaviour() if callable(behaviour) else None


def does_alike(kept: np.ndarray, now: np.ndarray) -> bool:
    """Equal up to what another device, or half precision, makes of the last digits."""
    if kept.shape != now.shape or not np.isfinite(now).all():
        return kept.shape == now.shape and bool(np.array_equal(kept, now, equal_nan=True))
    return float(np.linalg.norm(kept - now)) <= ALIKE * float(np.linalg.norm(kept)) + 1e-12


def number(value: object, kind: Callable[[Any], N]) -> N | None:
    """A number of `model.json`; it is a cache file like others: what it says may be nonsense."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return kind(value) if is_number else None


def keep_about(model: Backbone, folder: Path, now: Throughput | None = None) -> None:
    """Whose features these are, how fast all of them together were computed, and where the time
    went.
    """
    before = kept_facts(folder)
    of_model = {
        "model": model.name,
        "dim": model.dim,
        "fingerprint": model.fingerprint,
        "n_parameters": n_parameters_of(model),
        "reads": noted_decode(model),
    }
    about = before | of_model | (_speed(before, now) if now else {})
    if about != before:
        write_about(folder, about)
    write_behaviour(folder, behaviour_of(model))


def _speed(before: Mapping[str, Any], now: Throughput) -> dict[str, Any]:
    """Sums over all passes; the rest is of the last one."""
    n, seconds, n_fallback = (
        (number(before.get(name), float) or 0.0) + getattr(now, name)
        for name in ("n_computed", "seconds", "n_fallback")
    )
    had = before.get("busy_s")
    spent = had if isinstance(had, dict) else {}
    busy_s = {part: (number(spent.get(part), float) or 0.0) + s for part, s in now.busy_s.items()}
    return {
        "images_per_s": n / seconds if seconds else 0.0,
        "n_computed": int(n),
        "seconds": seconds,
        "decode": now.decode,
        "n_fallback": int(n_fallback),
        "busy_s": busy_s,
        "device_busy": now.device_busy,
        "n_devices": now.n_devices,
        "batch_size": now.batch_size,
        "is_compiled": now.is_compiled,
    }


def _delete_features(folder: Path) -> None:
    """Deletes what was written here, and the folder if nothing else is in it."""
    patterns = ("rows-*.keys", "rows-*.values", "model.json*", f"{BEHAVIOUR}*", f"{LEASES}/*.lease")
    for pattern in patterns:
        for path in folder.glob(pattern):
            path.unlink(missing_ok=True)
    remove_parts(folder)
    with suppress(OSError):
        (folder / LEASES).rmdir()
    if not any(folder.iterdir()):
        folder.rmdir()


def read_keys(folder: Path) -> set[bytes]:
    """The keys of all features in the folder."""
    keys: set[bytes] = set()
    for path in folder.glob("rows-*.keys"):
        heads = np.fromfile(path, KEY_DTYPE, count=path.stat().st_size // KEY_DTYPE.itemsize)
        names = heads["key"].tobytes()
        keys.update(names[at : at + 16] for at in range(0, len(names), 16))
    return keys


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
        about = kept_facts(folder)
        name = str(about.get("model", "unknown"))
        row_files = list(folder.glob("rows-*.keys"))
        is_ours = row_files or (folder / "model.json").is_file()
        if is_ours and model in name:
            n_bytes = sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
            sizes = [path.stat().st_size for path in row_files]
            models.append(
                ModelCache(
                    name,
                    folder.name,
                    sum(n // KEY_DTYPE.itemsize for n in sizes),
                    n_bytes,
                    number(about.get("dim"), int) or 0,
                    _throughput(about),
                    folder,
                )
            )
    return sorted(models, key=lambda entry: (-entry.n_bytes, entry.model))


def throughput_of(cache: Path, fingerprint: str) -> Throughput:
    """How fast all features of this model were computed here, and where the time went."""
    return _throughput(kept_facts(cache / "features" / fingerprint))


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
