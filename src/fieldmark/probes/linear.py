"""Which linear layer, trained by gradient, separates the classes?

The linear probe of the self-supervised papers on features that are computed once: softmax
cross-entropy, AdamW, the learning rate falling along a cosine. Many learning rates and weight
decays are trained together (as DINOv2 trains its heads) and the best on held-out rows is trained
again on all of them. `scale: layer`, one learning rate (3e-4), one weight decay (1e-2) and 10,000
steps are the probe of biobench's 2026 results; its LayerNorm's gains are left out, since a linear
layer can express them.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from fieldmark.probes._arrays import Array, read_rows
from fieldmark.probes._holdout import (
    NOTHING_HELD_OUT,
    check_share,
    diverged,
    finite_runs,
    hold_out,
    holdout_notes,
    parse_numbers,
    usable_scores,
)
from fieldmark.probes._inputs import check_choice, check_count, read_labels
from fieldmark.probes._losses import ClassLoss
from fieldmark.probes._network import Shape
from fieldmark.probes._probabilities import Fitted, Probabilities
from fieldmark.probes._scaling import SCALINGS, Scaling
from fieldmark.probes._select import ONE_CLASS, SELECT_BY, edge_notes, load_scorer
from fieldmark.probes._sweep import Recipe, Run, cosine, train
from fieldmark.probes._tensor import as_numpy

SUMMARY = "linear layer by AdamW, learning rate and weight decay from a held-out sweep"


class Linear(Probabilities, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A linear layer whose learning rate and weight decay were chosen on held-out rows.

    After `fit`: `learning_rate_`, `weight_decay_` are what was chosen (the first listed among
    equals, and where nothing can be held out), `cv_score_` its held-out score (NaN without a
    search), `chosen_` all three where there was a choice, `fit_notes_` what a reader should know of
    it. One class only: that class is predicted (`one_class_`). Features may be a tensor on an
    accelerator.

    Memory beyond the features: five arrays of `settings × width × classes` and a few of `settings ×
    batch × (width + classes)`, in the precision of the features.
    """

    takes_tensors = True

    def __init__(
        self,
        *,
        learning_rates: Any = (1e-3, 3e-4, 3e-3, 1e-4, 1e-2),
        weight_decays: Any = (1e-2, 1e-4),
        steps: int = 2000,
        batch_size: int = 2048,
        scale: str = "standardise",
        select_by: str = "accuracy",
        holdout: float = 0.1,
        seed: int = 42,
    ) -> None:
        self.learning_rates = learning_rates
        self.weight_decays = weight_decays
        self.steps = steps
        self.batch_size = batch_size
        self.scale = scale
        self.select_by = select_by
        self.holdout = holdout
        self.seed = seed

    def check_parameters(self) -> None:
        parse_numbers("linear", "learning_rates", self.learning_rates)
        parse_numbers("linear", "weight_decays", self.weight_decays, is_zero_ok=True)
        check_count("linear", "steps", self.steps, least=1)
        check_count("linear", "batch_size", self.batch_size, least=1)
        check_choice("linear", "scale", self.scale, SCALINGS)
        check_choice("linear", "select_by", self.select_by, SELECT_BY)
        check_share("linear", "holdout", self.holdout)
        check_count("linear", "seed", self.seed, least=0)

    def fit(self, X: Any, y: Any) -> Linear:
        self.check_parameters()
        x_nd = read_rows(X)
        code_n, self.classes_ = read_labels(y, len(x_nd))
        self.n_features_in_ = x_nd.shape[1]
        self.one_class_ = len(self.classes_) == 1
        self.cv_score_ = self.learning_rate_ = self.weight_decay_ = float("nan")
        self.chosen_: dict[str, float] = {}
        self.fit_notes_ = [ONE_CLASS] if self.one_class_ else []
        if self.one_class_:
            return self
        chosen = self._choose(x_nd, code_n)
        self.learning_rate_, self.weight_decay_ = chosen.learning_rate, chosen.weight_decay
        self.model_ = self._train(x_nd, code_n, np.arange(len(code_n)), [chosen])
        if not finite_runs(self.model_.flat_sp).all():
            raise diverged("linear")
        return self

    def _runs(self) -> list[Run]:
        rates = parse_numbers("linear", "learning_rates", self.learning_rates)
        decays = parse_numbers("linear", "weight_decays", self.weight_decays, is_zero_ok=True)
        return [Run(rate, self.seed, decay) for rate, decay in product(rates, decays)]

    def _choose(self, x_nd: Array, code_n: np.ndarray) -> Run:
        runs = self._runs()
        rows, held = hold_out(code_n, self.holdout, self.seed)
        if len(runs) == 1:
            return runs[0]
        if not len(held):
            self.fit_notes_.append(NOTHING_HELD_OUT)
            self.chosen_ = _settings(runs[0])
            return runs[0]
        tried = self._train(x_nd, code_n, rows, runs)
        code_rh = np.concatenate(
            [as_numpy(each.argmax(axis=2)) for each in tried.logits(x_nd[held])], axis=1
        )
        scorer = load_scorer(self.select_by)
        score_r = np.array([scorer(code_n[held], each) for each in code_rh])
        score_r = usable_scores("linear", score_r, finite_runs(tried.flat_sp))
        chosen = runs[int(score_r.argmax())]
        self.cv_score_ = float(score_r.max())
        self.chosen_ = {**_settings(chosen), "cv_score": self.cv_score_}
        self.fit_notes_ += holdout_notes(code_n, score_r)
        for name in _settings(chosen):
            alike = [at for at, run in enumerate(runs) if _differ_only_in(name, run, chosen)]
            grid = [getattr(runs[at], name) for at in alike]
            self.fit_notes_ += edge_notes(name.replace("_", " "), grid, score_r[alike])
        return chosen

    def _train(self, x_nd: Array, code_n: np.ndarray, rows: np.ndarray, runs: list[Run]) -> Fitted:
        recipe = Recipe(
            probe="linear",
            shape=Shape(x_nd.shape[1], len(self.classes_)),
            batch_size=min(self.batch_size, len(rows)),
            n_steps=self.steps,
            rate=cosine(self.steps),
            scaling=Scaling.fit(self.scale, x_nd, rows),
        )
        loss = ClassLoss.read(code_n, rows, False, x_nd)
        flat_sp = as_numpy(train(x_nd, rows, loss, runs, recipe))
        return Fitted(recipe.shape, flat_sp, recipe.scaling)


def _settings(run: Run) -> dict[str, float]:
    return {"learning_rate": run.learning_rate, "weight_decay": run.weight_decay}


def _differ_only_in(name: str, one: Run, other: Run) -> bool:
    return replace(one, **{name: getattr(other, name)}) == other


Probe = Linear
