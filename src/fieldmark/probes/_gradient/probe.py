"""Gradient probes: small networks on features, what they learn, and their search over settings.

One linear layer, or two with a gate between them (`adamw.py` fits them by AdamW). What is learnt
is one class an image, or several traits of which some are not known (`Targets`). Predictions need
numpy only, go through the rows in blocks, and are those of eval mode: no value is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fieldmark.probes._arrays import (
    Array,
    ProbeDataError,
    ProbeEstimator,
    as_numpy,
    beside,
    double,
    is_tensor,
    namespace,
    on_accelerator,
    read_asked,
    read_labels,
    sigmoid,
    softmax,
)
from fieldmark.probes._select import (
    NOTHING_HELD_OUT,
    ONE_CLASS,
    Scorer,
    edge_notes,
    hold_out,
    holdout_notes,
)

ACTIVATIONS = ("none", "relu")
SCALINGS = ("none", "layer", "standardise")
_LAYER_EPSILON = 1e-5
_BLOCK_VALUES = 1 << 21
_MOMENT_VALUES = 1 << 22

Setting = dict[str, float]
"""the values a search varies, by name"""
Layer = tuple[Array, Array]
"""weights (rows × columns) and offsets (columns)"""


# --- scaling


@dataclass(frozen=True, slots=True)
class Scaling:
    """`layer`: each row has mean 0 and spread 1 (LayerNorm without gains); `standardise`: columns.

    Constant columns become zeros.
    """

    kind: str = "none"
    mean_d: np.ndarray | None = None
    spread_d: np.ndarray | None = None

    @classmethod
    def fit(cls, kind: str, x_nd: Array, rows: np.ndarray) -> Scaling:
        """Means and spreads of the given rows, in float64."""
        return cls(kind, *column_moments(x_nd, rows)) if kind == "standardise" else cls(kind)

    def apply(self, x_bd: Array) -> Array:
        """The rows after the step, where they are and as precise as they are."""
        if self.kind == "layer":
            centred_bd = x_bd - x_bd.mean(axis=-1)[..., None]
            spread_b = ((centred_bd * centred_bd).mean(axis=-1) + _LAYER_EPSILON) ** 0.5
            return centred_bd / spread_b[..., None]
        if self.mean_d is None or self.spread_d is None:
            return x_bd
        return (x_bd - _like(self.mean_d, x_bd)) / _like(self.spread_d, x_bd)


def column_moments(x_nd: Array, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and spread of each column, in blocks; the spread of a constant column is given as 1."""
    n, n_block = len(rows), max(1, _MOMENT_VALUES // x_nd.shape[1])
    parts = [beside(rows[start : start + n_block], x_nd) for start in range(0, n, n_block)]
    first_d = double(x_nd[parts[0][:1]])[0]
    mean_d = first_d + sum((double(x_nd[part]) - first_d).sum(axis=0) for part in parts) / n
    square_d = sum(((double(x_nd[part]) - mean_d) ** 2).sum(axis=0) for part in parts)
    spread_d = namespace(x_nd).sqrt(square_d / n)
    spread_d[spread_d <= n * float(np.finfo(np.float64).eps) * abs(mean_d)] = 1.0
    return as_numpy(mean_d), as_numpy(spread_d)


def _like(array: Array, x: Array) -> Array:
    """The array where `x` lives, in the precision of `x`."""
    if is_tensor(x):
        return x.new_tensor(array)
    return np.asarray(array, x.dtype)


# --- what is to be learnt


@dataclass(frozen=True, slots=True)
class Targets:
    """Class numbers (n), or traits (n × T) of 0, 1 and NaN; `classes` are labels or columns."""

    value: np.ndarray
    classes: np.ndarray
    unit: np.ndarray | None = None
    """rows of one number are held out together"""

    @property
    def has_traits(self) -> bool:
        return self.value.ndim == 2

    @property
    def strata(self) -> np.ndarray:
        """Groups of which a share is held out: the classes; traits have too many patterns."""
        return np.zeros(len(self.value), np.intp) if self.has_traits else self.value

    def score(
        self, rows: np.ndarray, prob_nt: np.ndarray, scorer: Scorer, threshold: float = 0.5
    ) -> float:
        """The score of the class, or the mean over traits known somewhere in these rows."""
        if not self.has_traits:
            return scorer(self.value[rows], prob_nt.argmax(axis=1))
        scores = []
        for true_n, prob_n in zip(self.value[rows].T, prob_nt.T, strict=True):
            is_known_n = ~np.isnan(true_n)
            if is_known_n.any():
                answer_n = (prob_n > threshold)[is_known_n].astype(np.intp)
                scores.append(scorer(true_n[is_known_n].astype(np.intp), answer_n))
        return float(np.mean(scores)) if scores else 0.0

    def holdout_notes(self, rows: np.ndarray) -> list[str]:
        """Says of how many traits the held-out rows know one answer at most."""
        if not self.has_traits:
            return []
        value_nt = self.value[rows]
        is_judged_t = (value_nt == 0).any(axis=0) & (value_nt == 1).any(axis=0)
        n_poor, n_traits = int((~is_judged_t).sum()), len(is_judged_t)
        note = f"{n_poor} of {n_traits} traits have only one answer in the held-out images"
        return [note] if n_poor else []


def read_targets(y: Any, n_rows: int) -> Targets:
    """Labels of n rows; two dimensions are traits, but for one column that is not of reals."""
    label = as_numpy(y) if y is not None else None
    is_column = label is not None and label.ndim == 2 and label.shape[1] == 1
    if label is None or label.ndim != 2 or (is_column and label.dtype.kind not in "fb"):
        return Targets(*read_labels(y, n_rows))
    if len(label) != n_rows or not label.shape[1]:
        raise ProbeDataError(
            f"traits have the shape {label.shape}: "
            f"expected one row for each of {n_rows} rows of features, one column a trait."
        )
    try:
        target_nt = label.astype(np.float64)
    except (TypeError, ValueError):
        raise ProbeDataError("traits are not numbers: expected 0, 1 or NaN (not known).") from None
    is_odd_nt = ~np.isnan(target_nt) & (target_nt != 0) & (target_nt != 1)
    if is_odd_nt.any():
        raise ProbeDataError(
            f"traits hold {target_nt[is_odd_nt][0]:g}: expected 0, 1 or NaN (not known)."
        )
    is_empty_t = np.isnan(target_nt).all(axis=0)
    if is_empty_t.any():
        raise ProbeDataError(
            f"column {int(is_empty_t.argmax())} of {target_nt.shape[1]} traits is not known for "
            "any training image: leave that trait out."
        )
    return Targets(target_nt, np.arange(target_nt.shape[1]))


# --- fitted networks


def _forward(layers: Sequence[Layer], x_bd: Array, activation: str) -> Array:
    """Logits in eval mode."""
    value = x_bd @ layers[0][0] + layers[0][1]
    for weight, offset in layers[1:]:
        if activation == "relu":
            value = value.clip(0, None)
        value = value @ weight + offset
    return value


@dataclass(frozen=True, slots=True)
class Networks:
    """Networks of one shape whose probabilities are averaged; kept in main memory."""

    layers: list[list[Layer]]
    activation: str = "none"
    scaling: Scaling = Scaling()
    has_traits: bool = False

    @property
    def is_finite(self) -> bool:
        every = (array for layers in self.layers for layer in layers for array in layer)
        return all(bool(np.isfinite(array).all()) for array in every)

    def logits(self, x_nd: Array) -> Iterator[list[Array]]:
        """Of each network, b × outputs, block by block: in float64, or as precise as a tensor."""
        width = max(len(array) for layer in self.layers[0] for array in layer)
        n_block = max(1, _BLOCK_VALUES // (width * len(self.layers)))
        is_far = on_accelerator(x_nd)
        like = x_nd[:0] if is_far else np.empty(0)
        networks = [
            [(_like(weight, like), _like(offset, like)) for weight, offset in layers]
            for layers in self.layers
        ]
        for start in range(0, len(x_nd), n_block):
            x_bd = x_nd[start : start + n_block]
            x_bd = self.scaling.apply(x_bd if is_far else double(as_numpy(x_bd)))
            yield [_forward(layers, x_bd, self.activation) for layers in networks]

    def probabilities(self, x_nd: Array) -> Iterator[Array]:
        """b × outputs, block by block, in float64."""
        share = sigmoid if self.has_traits else softmax
        for logits in self.logits(x_nd):
            yield sum(share(double(logit_bt)) for logit_bt in logits) / len(logits)


class GradientProbe(ProbeEstimator):
    """What `linear`, `logistic` and `mlp` share: a search on held-out rows, and probabilities."""

    takes_tensors = True
    name: ClassVar[str]
    holdout: float
    seed: int
    model_: Networks

    def _begin(self, x_nd: Array, targets: Targets) -> None:
        self.classes_ = targets.classes
        self.n_features_in_ = x_nd.shape[1]
        self.one_class_ = not targets.has_traits and len(targets.classes) == 1
        self.cv_score_ = float("nan")
        self.chosen_: dict[str, float] = {}
        self.tried_: dict[str, list[float]] = {}
        self.fit_notes_ = [ONE_CLASS] if self.one_class_ else []

    def _search(
        self,
        settings: list[Setting],
        x_nd: Array,
        targets: Targets,
        train: Callable[[list[Setting], np.ndarray], list[Networks]],
        score: Callable[[np.ndarray, np.ndarray], float],
    ) -> Setting:
        """The best setting; `model_` is trained with it on all rows.

        `train` gives a model for each setting, `score` judges probabilities of the given rows.
        """

        def judge(tried: list[Setting], rows: np.ndarray, held: np.ndarray) -> list[float]:
            x_hd, scores = x_nd[beside(held, x_nd)], []
            for model in train(tried, rows):
                prob = [as_numpy(prob_bt) for prob_bt in model.probabilities(x_hd)]
                scores.append(score(held, np.concatenate(prob)) if model.is_finite else -np.inf)
            return scores

        chosen = self._choose(settings, targets, judge)
        [self.model_] = train([chosen], np.arange(len(x_nd)))
        if not self.model_.is_finite:
            raise self._diverged()
        return chosen

    def _choose(
        self,
        settings: list[Setting],
        targets: Targets,
        score: Callable[[list[Setting], np.ndarray, np.ndarray], list[float]],
    ) -> Setting:
        """The setting that does best on held-out rows; the first among equals.

        `score` trains all settings on some rows and judges them by others: minus infinity where
        training diverged.
        """
        if len(settings) == 1:
            return settings[0]
        rows, held = hold_out(targets.strata, self.holdout, self.seed, targets.unit)
        if not len(held):
            self.fit_notes_.append(NOTHING_HELD_OUT)
            self.chosen_ = settings[0]
            return settings[0]
        score_s = np.array(score(settings, rows, held))
        if np.isneginf(score_s).all():
            raise self._diverged()
        best, self.cv_score_ = settings[int(score_s.argmax())], float(score_s.max())
        self.chosen_ = {**best, "cv_score": self.cv_score_}
        columns = {name: [setting[name] for setting in settings] for name in best}
        self.tried_ = {**columns, "score": score_s.tolist()}
        self.fit_notes_ += targets.holdout_notes(held) + holdout_notes(targets.strata, score_s)
        for name in best:
            others = {other: value for other, value in best.items() if other != name}
            alike = [at for at, setting in enumerate(settings) if others.items() <= setting.items()]
            grid = [settings[at][name] for at in alike]
            self.fit_notes_ += edge_notes(name.replace("_", " "), grid, score_s[alike])
        return best

    def _diverged(self) -> ProbeDataError:
        return ProbeDataError(
            f"probe {self.name!r}: the weights grew beyond all bounds: scale the features "
            "(normalise: [standardise]) or lower the learning rate."
        )

    def predict_with_score(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """The label of the highest probability, and that probability.

        A tie goes to the class that sorts first; 1 throughout when one class only was seen.
        """
        codes, scores = [np.empty(0, np.intp)], [np.empty(0)]
        for prob_bc in self._probabilities(X):
            codes.append(as_numpy(prob_bc.argmax(axis=1)))
            scores.append(as_numpy(namespace(prob_bc).amax(prob_bc, 1)))
        return np.asarray(self.classes_[np.concatenate(codes)]), np.concatenate(scores)

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class (n × C, float64)."""
        blocks = [as_numpy(prob_bc) for prob_bc in self._probabilities(X)]
        return np.concatenate([np.empty((0, len(self.classes_))), *blocks])

    def _probabilities(self, X: Any) -> Iterator[Array]:
        x_nd = read_asked(self, X)
        if self.one_class_:
            return iter([np.ones((len(x_nd), 1))])
        return self.model_.probabilities(x_nd)
