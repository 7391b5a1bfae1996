"""How does one piece of code compute with numpy arrays and with tensors on an accelerator?

numpy and torch share the names of everything the gradient probes need (`exp`, `amax`, `matmul` with
`out=`, `sum(axis=...)`, indexing, in-place operators). Here is the rest: which of the two an array
belongs to, how an array gets beside another, and how features are read without leaving the device.
torch is never imported: whoever passes a tensor has done so.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from fieldmark.probes._inputs import ProbeDataError, read_features, read_labels, read_queries
from fieldmark.probes._tensor import as_numpy, is_cuda, on_accelerator

Array = Any
"""a numpy array, or a torch tensor on an accelerator"""


def namespace(x: Array) -> Any:
    """`numpy` or `torch`."""
    return sys.modules["torch"] if on_accelerator(x) else np


def beside(array: np.ndarray, x: Array) -> Array:
    """The array where `x` lives, in its own type."""
    if on_accelerator(x):
        return sys.modules["torch"].as_tensor(array, device=x.device)
    return array


def real(array: np.ndarray, x: Array) -> Array:
    """The array where `x` lives, in the precision of `x`."""
    return beside(np.asarray(array, float_type(x)), x)


def zeros(shape: tuple[int, ...], x: Array) -> Array:
    """Zeros where `x` lives, in its precision."""
    if on_accelerator(x):
        return x.new_zeros(shape)
    return np.zeros(shape, x.dtype)


def numbers(span: range, x: Array) -> Array:
    """Whole numbers one after another, made where `x` lives."""
    if on_accelerator(x):
        torch = sys.modules["torch"]
        return torch.arange(span.start, span.stop, device=x.device, dtype=torch.int64)
    return np.arange(span.start, span.stop, dtype=np.int64)


def float_type(x: Array) -> type:
    """numpy's type of the same precision."""
    return np.float64 if str(x.dtype).endswith("float64") else np.float32


def double(x: Array) -> Array:
    """The values in float64, where they are."""
    return x.double() if on_accelerator(x) else x.astype(np.float64, copy=False)


def turned(x: Array) -> Array:
    """Each matrix transposed."""
    return x.swapaxes(-1, -2)


def softmax(value: Array) -> Array:
    """Shares over the last axis."""
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


def read_rows(X: Any) -> Array:
    """Training features: a finite n × d matrix; a tensor on an accelerator stays there."""
    if not on_accelerator(X):
        return read_features(X)
    if X.ndim == 2 and not len(X):
        raise ProbeDataError("the training set is empty: at least one image is needed.")
    return _checked(X)


def read_gallery(X: Any, y: Any) -> tuple[Array, np.ndarray, np.ndarray]:
    """Rows to be found again, where they are best searched, the code of each and the classes."""
    x_nd = read_rows(X)
    code_n, classes = read_labels(y, len(x_nd))
    return (x_nd if is_cuda(x_nd) else as_numpy(x_nd)), code_n, classes


def read_asked(probe: Any, X: Any) -> Array:
    """Features to predict, of the width that was trained on; none at all is fine."""
    if not on_accelerator(X):
        return read_queries(probe, X)
    check_is_fitted(probe)
    x_nd = _checked(X)
    if x_nd.shape[1] != probe.n_features_in_:
        raise ProbeDataError(
            f"X has {x_nd.shape[1]} features, but {type(probe).__name__} is expecting "
            f"{probe.n_features_in_} features as input."
        )
    return x_nd


def _checked(X: Array) -> Array:
    if X.ndim != 2:
        raise ProbeDataError(f"features have the shape {tuple(X.shape)}: expected rows × columns.")
    torch = sys.modules["torch"]
    x_nd = X.detach()
    if x_nd.dtype not in (torch.float32, torch.float64):
        x_nd = x_nd.float()
    is_bad_n = ~torch.isfinite(x_nd).all(dim=1)
    n_bad = int(is_bad_n.sum())
    if n_bad:
        raise ProbeDataError(
            f"features of {n_bad} of {len(x_nd)} rows hold NaN or inf "
            f"(first: row {int(is_bad_n.int().argmax())})."
        )
    return x_nd
