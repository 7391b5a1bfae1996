"""Input validation and array back ends: what may a probe be given, and where does it compute?

Every probe reads its arrays here, so that all of them refuse the same things in the same words.
Features are numpy arrays or torch tensors; a tensor on a GPU stays there for probes that say
`takes_tensors`. numpy and torch share most names, so one piece of code serves both (`namespace`).
torch is never imported here: whoever passes a tensor has done so.
"""

from __future__ import annotations

import inspect
import sys
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, Self

import numpy as np

from fieldmark.errors import DataError, UsageError, meant

Array = Any
"""a numpy array, or a torch tensor on an accelerator"""
FLOATS = (np.float64, np.float32)


class ProbeDataError(DataError, ValueError):
    """Features or labels no probe can learn from; a `ValueError` too, as scikit-learn promises."""


class ProbeEstimator(ABC):
    """scikit-learn's conventions for classifiers; `predict` and `predict_score` are views of
    `predict_with_score`.

    Whoever wants both asks once: going through the rows a second time would double the cost.
    scikit-learn's own base classes are not inherited: they take a second to import, and a task
    file is checked, and a finished run found again, by the names of the parameters alone.
    https://scikit-learn.org/stable/developers/develop.html
    """

    @abstractmethod
    def predict_with_score(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Labels, and how sure each is."""

    def predict(self, X: Any) -> np.ndarray:
        """The label of each row."""
        return self.predict_with_score(X)[0]

    def predict_score(self, X: Any) -> np.ndarray:
        """How sure each prediction is; the class says in which unit."""
        return self.predict_with_score(X)[1]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of rows whose label is predicted."""
        return float(np.average(self.predict(X) == as_numpy(y), weights=sample_weight))

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002 - of the convention
        """What `__init__` was given; every parameter is an attribute of its name."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: Any) -> Self:
        parameters = self.get_params()
        for name, value in params.items():
            if name not in parameters:
                raise ValueError(
                    f"{type(self).__name__} has no parameter {name!r}: {list(parameters)}."
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({given})"

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn's tools ask of any classifier: imported by whoever asks."""
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        classifier, target = ClassifierTags(), TargetTags(required=True)
        return Tags("classifier", target, classifier_tags=classifier, input_tags=InputTags())


# --- where an array lives


def is_tensor(x: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def on_accelerator(x: Any) -> bool:
    """A tensor whose products are better left where it lives."""
    return is_tensor(x) and x.device.type != "cpu"


def as_numpy(x: Any) -> np.ndarray:
    """The same values in main memory."""
    if is_tensor(x):
        x = x.detach().cpu()
        x = (x.float() if str(x.dtype) == "torch.bfloat16" else x).numpy()  # numpy has no bfloat16
    return np.asarray(x)


def namespace(x: Array) -> Any:
    """`numpy` or `torch`."""
    return sys.modules["torch"] if on_accelerator(x) else np


def beside(array: np.ndarray, x: Array) -> Array:
    """The array where `x` lives, in its own type."""
    return sys.modules["torch"].as_tensor(array, device=x.device) if on_accelerator(x) else array


def double(x: Array) -> Array:
    """The values in float64, where they are."""
    return x.double() if on_accelerator(x) else x.astype(np.float64, copy=False)


def softmax(value: Array) -> Array:
    """Probabilities over the last axis."""
    if on_accelerator(value):
        return value.softmax(-1)
    share = np.exp(value - value.max(axis=-1, keepdims=True))
    share /= share.sum(axis=-1, keepdims=True)
    return share


def sigmoid(value: Array) -> Array:
    """1 / (1 + e^-value), without overflow at either end."""
    if on_accelerator(value):
        return value.sigmoid()
    small = np.exp(-np.abs(value))
    return np.where(value >= 0, 1 / (1 + small), small / (1 + small))


def top_two(value_bc: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The best column of each row (the first among equals) and its lead over the next.

    No sort: this is asked again and again. The array is changed in between and restored.
    """
    row_b = np.arange(len(value_bc))
    first_b = value_bc.argmax(axis=1)
    best_b = value_bc[row_b, first_b]
    value_bc[row_b, first_b] = -np.inf
    lead_b = best_b - value_bc.max(axis=1)
    value_bc[row_b, first_b] = best_b
    return first_b, lead_b


# --- reading features and labels


def read_rows(X: Any) -> Array:
    """Training features: a finite n × d matrix; a tensor on an accelerator stays there."""
    if not on_accelerator(X):
        return read_features(X)
    if X.ndim == 2 and not len(X):
        raise ProbeDataError("the training set is empty: at least one image is needed.")
    return _checked_tensor(X)


def read_asked(probe: Any, X: Any) -> Array:
    """Features to predict, of the width that was trained on; none at all is fine."""
    if not on_accelerator(X):
        return read_queries(probe, X)
    check_fitted(probe)
    x_nd = _checked_tensor(X)
    _check_width(probe, x_nd)
    return x_nd


def read_queries(probe: Any, X: Any, dtypes: tuple[type, ...] = FLOATS) -> np.ndarray:
    """As `read_asked`, in main memory."""
    check_fitted(probe)
    x_nd = read_features(X, dtypes, is_empty_ok=True)
    _check_width(probe, x_nd)
    return x_nd


class SomeRows:
    """Rows of a matrix that are copied only where they are read, a block at a time: the training
    sets of many folds then take no memory. A probe that reads all rows at once copies them.
    """

    ndim = 2

    def __init__(self, X: Any, rows: np.ndarray) -> None:
        self._x_nd, self._row_n = read_features(X), rows
        self.shape = (len(rows), self._x_nd.shape[1])

    def __len__(self) -> int:
        return len(self._row_n)

    def __getitem__(self, rows: slice | np.ndarray) -> np.ndarray:
        return np.asarray(self._x_nd[self._row_n[rows]])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self[:], dtype, copy=copy)


def read_features(
    X: Any, dtypes: tuple[type, ...] = FLOATS, is_empty_ok: bool = False
) -> np.ndarray:
    """A finite n × d matrix; float32 stays float32."""
    X = as_numpy(X) if is_tensor(X) else X
    if isinstance(X, np.ndarray) and X.ndim == 2:
        if len(X) == 0 and not is_empty_ok:
            raise ProbeDataError("the training set is empty: at least one image is needed.")
        # A sum takes no memory. It is not finite if a value is not, or if values are huge.
        if X.dtype.kind == "f" and not np.isfinite(X.sum()):
            _refuse_non_finite(np.asarray(~np.isfinite(X).all(axis=1)))
    from sklearn.utils import check_array

    checked = check_array(X, dtype=list(dtypes), ensure_min_samples=0 if is_empty_ok else 1)
    return np.asarray(checked)


def read_labels(y: Any, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Class numbers (n) and sorted classes of the labels: `classes[numbers]` are the labels."""
    if y is None:
        raise ProbeDataError("requires y to be passed, but the target y is None.")
    label_n = as_numpy(y)
    if label_n.ndim == 2 and label_n.shape[1] == 1:
        from sklearn.utils import column_or_1d

        label_n = column_or_1d(label_n, warn=True)
    if label_n.ndim != 1 or len(label_n) != n_rows:
        raise ProbeDataError(
            f"labels have the shape {label_n.shape}: expected one label for each of {n_rows} rows."
        )
    if label_n.dtype.kind == "f":
        if not np.isfinite(label_n).all():
            raise ProbeDataError("labels hold NaN or infinity: every image needs a label.")
        if (label_n != np.floor(label_n)).any():
            raise ProbeDataError("Unknown label type: continuous numbers. Expected class labels.")
    if label_n.dtype == object and any(label is None for label in label_n):
        raise ProbeDataError("some labels are missing (None): every image needs a label.")
    try:
        classes, code_n = np.unique(label_n, return_inverse=True)
    except TypeError as error:
        raise ProbeDataError(f"labels of several types cannot be told apart: {error}.") from error
    return code_n.astype(np.intp), classes


def check_fitted(probe: Any) -> None:
    """Raises scikit-learn's NotFittedError before `fit`."""
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(probe)


def _check_width(probe: Any, x_nd: Array) -> None:
    if x_nd.shape[1] != probe.n_features_in_:
        raise ProbeDataError(
            f"X has {x_nd.shape[1]} features, but {type(probe).__name__} is expecting "
            f"{probe.n_features_in_} features as input."
        )


def _checked_tensor(X: Array) -> Array:
    if X.ndim != 2:
        raise ProbeDataError(f"features have the shape {tuple(X.shape)}: expected rows × columns.")
    torch = sys.modules["torch"]
    x_nd = X.detach()
    if x_nd.dtype not in (torch.float32, torch.float64):
        x_nd = x_nd.float()
    _refuse_non_finite(as_numpy(~torch.isfinite(x_nd).all(dim=1)))
    return x_nd


def _refuse_non_finite(is_bad_n: np.ndarray) -> None:
    if is_bad_n.any():
        raise ProbeDataError(
            f"features of {int(is_bad_n.sum())} of {len(is_bad_n)} rows hold NaN or inf "
            f"(first: row {int(is_bad_n.argmax())})."
        )


# --- checking parameters


def check_choice(probe: str, name: str, value: object, choices: tuple[Any, ...]) -> None:
    """Refuses a value that is not one of the known ones."""
    if value in choices:
        return
    hint = meant(str(value), map(str, choices))
    listed = ", ".join(repr(choice) for choice in choices)
    raise UsageError(f"probe {probe!r}: {name} is {value!r}, expected one of {listed}.{hint}")


def check_count(probe: str, name: str, value: object, least: int) -> None:
    """Refuses anything but a whole number from `least` up."""
    is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not is_whole or int(value) < least:  # type: ignore[call-overload]
        raise UsageError(
            f"probe {probe!r}: {name} is {value!r}, expected a whole number from {least} up."
        )


def check_positive(probe: str, name: str, value: object) -> None:
    """Refuses anything but a finite number above zero."""
    if not _is_number(value) or not 0 < float(value) < float("inf"):  # type: ignore[arg-type]
        raise UsageError(f"probe {probe!r}: {name} is {value!r}, expected a number above 0.")


def check_share(probe: str, name: str, value: object, is_zero_ok: bool = False) -> None:
    """Refuses anything but a number between 0 and 1."""
    share = float(value) if _is_number(value) else -1.0  # type: ignore[arg-type]
    if not (0 < share < 1 or (is_zero_ok and share == 0)):
        bounds = "from 0 to below 1" if is_zero_ok else "between 0 and 1"
        raise UsageError(f"probe {probe!r}: {name} is {value!r}, expected a number {bounds}.")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


# --- BLAS threads of a fit: when is one enough?

SMALL_FIT = 20_000_000
"""values in the training matrix, above which several threads pay"""


def fitting_threads(n_values: int) -> AbstractContextManager[object]:
    """One thread for small fits: several wait for each other longer than they compute. Two made a
    192 × 192 ridge grid 9 × slower on two busy cores, and products smaller than that 100 × slower.
    """
    return _libraries().limit(limits=1) if n_values < SMALL_FIT else nullcontext()


@cache
def _libraries() -> Any:
    """Looking for the libraries takes 5 ms: too long to do it for each of NeWT's 164 fits."""
    import scipy.linalg  # noqa: F401  has a BLAS of its own, which must be there to be found
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
