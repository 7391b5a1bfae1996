"""What may a probe be given, and what does it say when it cannot be used?

Every probe reads its arrays here, so that all of them refuse the same things in the same words.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.validation import check_is_fitted

from fieldmark.errors import DataError, UsageError, closest

FLOATS = (np.float64, np.float32)


class ProbeDataError(DataError, ValueError):
    """Features or labels no probe can learn from; a `ValueError` too, as scikit-learn promises."""


def read_training(
    X: Any, y: Any, dtypes: tuple[type, ...] = FLOATS
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features (n × d), class numbers (n), sorted classes: `classes[numbers]` are the labels."""
    x_nd = read_features(X, dtypes)
    code_n, classes = read_labels(y, len(x_nd))
    return x_nd, code_n, classes


def read_labels(y: Any, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Class numbers (n) and sorted classes of the labels of `n_rows` rows."""
    if y is None:
        raise ProbeDataError("requires y to be passed, but the target y is None.")
    label_n = _as_numpy(y)
    if label_n.ndim == 2 and label_n.shape[1] == 1:
        label_n = column_or_1d(label_n, warn=True)
    if label_n.ndim != 1 or len(label_n) != n_rows:
        raise ProbeDataError(
            f"labels have the shape {label_n.shape}: expected one label for each of {n_rows} rows."
        )
    classes, code_n = _number_labels(label_n)
    return code_n, classes


def read_queries(probe: Any, X: Any, dtypes: tuple[type, ...] = FLOATS) -> np.ndarray:
    """Features to predict; none at all is fine, another width than in training is not."""
    check_is_fitted(probe)
    x_nd = read_features(X, dtypes, is_empty_ok=True)
    if x_nd.shape[1] != probe.n_features_in_:
        raise ProbeDataError(
            f"X has {x_nd.shape[1]} features, but {type(probe).__name__} is expecting "
            f"{probe.n_features_in_} features as input."
        )
    return x_nd


def read_features(
    X: Any, dtypes: tuple[type, ...] = FLOATS, is_empty_ok: bool = False
) -> np.ndarray:
    """A finite n × d matrix; float32 stays float32."""
    X = _as_numpy(X) if hasattr(X, "detach") else X
    if isinstance(X, np.ndarray) and X.ndim == 2:
        if len(X) == 0 and not is_empty_ok:
            raise ProbeDataError("the training set is empty: at least one image is needed.")
        if X.dtype.kind == "f":
            _refuse_non_finite(X)
    checked = check_array(X, dtype=list(dtypes), ensure_min_samples=0 if is_empty_ok else 1)
    return np.asarray(checked)


def check_choice(probe: str, name: str, value: object, known: tuple[Any, ...]) -> None:
    """Refuses a value that is not one of the known ones."""
    if value in known:
        return
    near = closest(str(value), [str(each) for each in known], most=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    listed = ", ".join(repr(each) for each in known)
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
    is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not is_number or not 0 < float(value) < float("inf"):  # type: ignore[arg-type]
        raise UsageError(f"probe {probe!r}: {name} is {value!r}, expected a number above 0.")


def _number_labels(label_n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if label_n.dtype.kind == "f":
        if not np.isfinite(label_n).all():
            raise ProbeDataError("labels hold NaN or infinity: every image needs a label.")
        if (label_n != np.floor(label_n)).any():
            raise ProbeDataError("Unknown label type: continuous numbers. Expected class labels.")
    if label_n.dtype == object and any(each is None for each in label_n):
        raise ProbeDataError("some labels are missing (None): every image needs a label.")
    try:
        classes, code_n = np.unique(label_n, return_inverse=True)
    except TypeError as error:
        raise ProbeDataError(f"labels of several types cannot be told apart: {error}.") from error
    return classes, code_n.astype(np.intp)


def _refuse_non_finite(x_nd: np.ndarray) -> None:
    is_bad_n = ~np.isfinite(x_nd).all(axis=1)
    if is_bad_n.any():
        raise ProbeDataError(
            f"features of {int(is_bad_n.sum())} of {len(x_nd)} rows hold NaN or inf "
            f"(first: row {int(is_bad_n.argmax())})."
        )


def _as_numpy(value: Any) -> np.ndarray:
    if hasattr(value, "detach"):  # a torch tensor, on whatever device
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":  # numpy has no such type
            value = value.float()
        value = value.numpy()
    return np.asarray(value)
