"""Saved model (JSON + safetensors, no pickle): what does `predict` need, and is it still the same?

The folder holds arrays and text: nothing in it can run. It names its backbone and the fingerprint
of its weights and transform; another fingerprint is refused. It also holds the features of test
pictures: what a hash cannot see (another version of a resize) shows there, with a warning.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from fieldmark import draws
from fieldmark.embed import does_alike
from fieldmark.errors import DataError, ModelError
from fieldmark.files import write_file
from fieldmark.models import test_pictures
from fieldmark.probes import fitting_threads
from fieldmark.registry import app_version, is_file_reference
from fieldmark.tryout.judge.confidence import nearest_distance, p_value, softmax
from fieldmark.tryout.judge.heads import Head, fit_head

if TYPE_CHECKING:
    from fieldmark.models import Backbone
    from fieldmark.tryout.evaluate import Verdict

ABOUT, ARRAYS = "model.json", "model.safetensors"
MOST_KNOWN = 2000
"""photos of a label whose features are kept, for telling what is unlike anything seen"""
_KEY_BYTES = 16


@dataclass(frozen=True, slots=True)
class About:
    """The text of a saved model."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    model: str
    fingerprint: str
    precision: str
    head: str
    labels: Annotated[tuple[str, ...], Field(min_length=1)]
    temperature: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    threshold: Annotated[float, Field(allow_inf_nan=False)] | None
    """probability from which a label is given; None = never"""
    is_promise: bool
    """at most 5 of 100 photos are named wrongly; False: there were too few units to promise it"""
    neighbour: Annotated[int, Field(ge=1)]
    """the distance to which nearest photo says how unusual a photo is"""
    accuracy: tuple[float, float | None, float | None]
    """on new units, with its 95 % limits"""
    n_photos: int
    n_units: int
    unit_word: str
    is_unit_length: bool
    wrong_of_named: float = 0.0
    """of the photos that it named in its test"""
    format: Literal["fieldmark-model"] = "fieldmark-model"
    version: Literal[2] = 2
    fieldmark: str = app_version()
    """that wrote it"""


@dataclass(frozen=True, slots=True)
class FittedModel:
    """A model that labels photos."""

    about: About
    head: Head
    known_kd: np.ndarray
    """features of photos it was fitted to"""
    distance_k: np.ndarray
    """how far photos of known labels are from those of other units"""
    weight_k: np.ndarray
    drawn_nd: np.ndarray
    """features of test pictures"""
    photo_nb: np.ndarray
    """what stands for the bytes of each photo that it was fitted to: 16 numbers below 256"""

    def probabilities(self, x_nd: np.ndarray) -> np.ndarray:
        return softmax(self.head.scores(x_nd), self.about.temperature)

    def novelty(self, x_nd: np.ndarray) -> np.ndarray:
        """p-values: how often a photo of a known label lies so far from all others."""
        distance_n = nearest_distance(x_nd, self.known_kd, self.about.neighbour)
        return p_value(distance_n, self.distance_k, self.weight_k)

    @property
    def photos(self) -> set[bytes]:
        """The contents of the photos that it was fitted to."""
        return {row.tobytes() for row in self.photo_nb}


def fit_model(
    verdict: Verdict, x_nd: np.ndarray, model: Backbone, contents: Sequence[bytes]
) -> FittedModel:
    """The chosen model, fitted to all photos that were tested."""
    sample, choice = verdict.sample, verdict.choice
    n_labels = len(sample.labels)
    k = 1 if len(x_nd) < 10 * n_labels else 5
    weight_n = 1 / np.bincount(sample.unit_n)[sample.unit_n]
    order = draws.generator("known").permutation(len(x_nd))
    some = [order[sample.code_n[order] == code][:MOST_KNOWN] for code in range(n_labels)]
    kept = np.sort(np.concatenate(some))
    with fitting_threads(x_nd.size):
        head = fit_head(verdict.best.fits, x_nd, sample.code_n, n_labels)
        kept_kd = x_nd.astype(np.float16)[kept]  # after the fit, whose sums are as large
        distance_n = nearest_distance(x_nd, kept_kd, k, sample.unit_n, sample.unit_n[kept])
    is_known = np.isfinite(distance_n)
    at_least = verdict.threshold.at_least
    limits = [None if math.isnan(value) else value for value in (choice.low, choice.high)]
    about = About(
        verdict.best.model,
        model.fingerprint,
        str(getattr(model, "precision", "float32")),
        verdict.best.head,
        sample.labels,
        verdict.temperature,
        None if math.isinf(at_least) else at_least,
        verdict.threshold.is_promise,
        k,
        (choice.accuracy, limits[0], limits[1]),
        len(x_nd),
        sample.n_units,
        sample.unit_word,
        head.is_unit_length,
        verdict.threshold.wrong_of_named,
    )
    drawn, photo_nb = _drawn_features(model), np.frombuffer(b"".join(contents), np.uint8)
    photo_nb, seen_n = photo_nb.reshape(-1, _KEY_BYTES), distance_n[is_known]
    return FittedModel(about, head, kept_kd, seen_n, weight_n[is_known], drawn, photo_nb)


def _drawn_features(model: Backbone) -> np.ndarray:
    """Features of pictures that are the same everywhere."""
    batch = np.stack([model.transform(picture) for picture in test_pictures()])
    return np.asarray(model.embed_images(batch).pooled, np.float32)


# --- on disk

_ABOUT = TypeAdapter(About)


def save_model(fitted: FittedModel, folder: Path) -> None:
    """Writes the folder; the JSON last, so that it never names arrays that are not there."""
    from safetensors.numpy import save

    arrays = {
        "mean": fitted.head.mean_d,
        "weight": fitted.head.weight_dc,
        "bias": fitted.head.bias_c,
        "known": fitted.known_kd,
        "distance": fitted.distance_k,
        "distance_weight": fitted.weight_k,
        "drawn": fitted.drawn_nd,
        "photos": fitted.photo_nb,
    }
    data = save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    (folder / ABOUT).unlink(missing_ok=True)
    write_file(folder / ARRAYS, data)
    write_file(folder / ABOUT, _ABOUT.dump_json(fitted.about, indent=1))


def load_fitted(folder: Path) -> FittedModel:
    """Reads a saved model. It is somebody else's file: everything in it is checked."""
    path = folder / ABOUT
    try:
        about = _ABOUT.validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        inner = folder / "model"
        makes = "`fieldmark try PHOTOS` makes one in try/model."
        hint = f"did you mean {inner}?" if (inner / ABOUT).is_file() else makes
        raise DataError(f"{folder} contains no model: {hint}") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}.") from error
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(map(str, fault["loc"])) or "it"
        raise DataError(
            f"{path} is not a model that this fieldmark has written ({where}: {fault['msg']}): "
            "make it again with `fieldmark try`."
        ) from error
    if is_file_reference(about.model):
        code = Path(about.model.rpartition(":")[0]).resolve()
        if not code.exists():
            raise DataError(
                f"{path} was made with the model file {about.model}, which is not there: give the "
                "command in the folder from which that path leads to it."
            )
        if code.is_relative_to(folder.resolve()):
            raise DataError(
                f"{path} names {code.name} beside it as its model: code that comes with a model is "
                "not run. Move the file elsewhere if you trust it, and try your photos with it."
            )
    return _with_arrays(about, folder)


def _with_arrays(about: About, folder: Path) -> FittedModel:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays = load((folder / ARRAYS).read_bytes())
        head = Head(arrays["mean"], about.is_unit_length, arrays["weight"], arrays["bias"])
        names = ("known", "distance", "distance_weight", "drawn", "photos")
        rest = [arrays[name] for name in names]
    except KeyError as error:
        raise DataError(f"{folder / ARRAYS} lacks {error}.") from error
    except (OSError, SafetensorError) as error:
        raise DataError(f"{folder / ARRAYS} cannot be read: {error}.") from error
    fitted = FittedModel(about, head, *rest)
    dim, n_labels = len(head.mean_d), len(about.labels)
    is_sound = (
        head.weight_dc.shape == (dim, n_labels)
        and head.bias_c.shape == (n_labels,)
        and fitted.known_kd.ndim == 2
        and fitted.known_kd.shape[1] == dim
        and fitted.distance_k.shape == fitted.weight_k.shape
        and fitted.drawn_nd.shape[1:] == (dim,)
        and fitted.photo_nb.dtype == np.uint8
        and fitted.photo_nb.shape[1:] == (_KEY_BYTES,)
        and all(np.isfinite(array).all() for array in (head.mean_d, head.weight_dc, *rest))
        and np.isfinite(head.bias_c).any()
        and len(fitted.known_kd) >= about.neighbour
    )
    if not is_sound:
        raise DataError(f"{folder} does not fit together: make it again with `fieldmark try`.")
    return fitted


def check_backbone(fitted: FittedModel, model: Backbone, folder: Path) -> str:
    """Refuses a backbone that is not the one it was fitted with; a warning, or ""."""
    about = fitted.about
    if model.fingerprint != about.fingerprint:
        raise ModelError(
            f"{about.model} is not the model that {folder} was fitted with: its weights, transform "
            "or precision have changed. Run `fieldmark try` again."
        )
    if not does_alike(fitted.drawn_nd, _drawn_features(model)):
        return (
            f"{about.model} sees test pictures otherwise than when the model was fitted: another "
            "version of a library may be at work. Check some labels."
        )
    return ""
