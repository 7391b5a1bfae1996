"""Which traits does an image show, told by one small network for all of them?

The trait probe of FishNet (Khan et al. 2023): a layer of 512, dropout, a layer with one output a
trait, binary cross-entropy, Adam, the learning rate halved every 20 epochs. As published it has no
non-linearity (`activation: none`); `relu` makes it the network it is called. Labels may also be
classes: then the outputs share one softmax.
"""

from __future__ import annotations

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
from fieldmark.probes._inputs import check_choice, check_count
from fieldmark.probes._network import ACTIVATIONS, Shape
from fieldmark.probes._probabilities import Fitted, Probabilities
from fieldmark.probes._scaling import Scaling
from fieldmark.probes._select import ONE_CLASS, SELECT_BY, edge_notes, load_scorer
from fieldmark.probes._sweep import Recipe, Run, halving, train
from fieldmark.probes._targets import Targets, read_targets
from fieldmark.probes._tensor import as_numpy

SUMMARY = "two layers with dropout by Adam (FishNet), for traits or classes"


class MLP(Probabilities, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Two layers with dropout between them.

    Labels are classes (n), or traits (n × T) of 0, 1 and NaN for what is not known: those count
    nothing in the loss, and predictions are n × T of 0 and 1. Several learning rates: the best on
    held-out rows is trained again on all. `seeds` above 1: that many networks, whose probabilities
    are averaged. `pos_weight: balanced` weighs present traits by absent over present (classes: by
    their rarity). One class only: that class is predicted (`one_class_`); a trait of which nothing
    is known is refused.

    After `fit`: `learning_rate_`, `cv_score_` (NaN without a search), `chosen_` (both, where there
    was a choice), `fit_notes_` (what a reader should know of it). Features may be a tensor on an
    accelerator. Memory beyond the features: five arrays of `networks × hidden ×
    (width + outputs)` and a few of `networks × batch × (width + hidden)`, in their precision.
    """

    is_multilabel = True
    takes_tensors = True

    def __init__(
        self,
        *,
        hidden: int = 512,
        activation: str = "none",
        dropout: float = 0.5,
        learning_rate: Any = 5e-4,
        epochs: int = 100,
        halve_every: int = 20,
        batch_size: int = 256,
        pos_weight: str | None = None,
        threshold: float = 0.5,
        select_by: str = "macro_f1",
        holdout: float = 0.1,
        seeds: int = 1,
        seed: int = 42,
    ) -> None:
        self.hidden = hidden
        self.activation = activation
        self.dropout = dropout
        self.learning_rate = learning_rate
        self.epochs = epochs
        self.halve_every = halve_every  # epochs, not steps
        self.batch_size = batch_size
        self.pos_weight = pos_weight
        self.threshold = threshold  # on the probability that a trait is present
        self.select_by = select_by
        self.holdout = holdout
        self.seeds = seeds
        self.seed = seed

    def check_parameters(self) -> None:
        for name in ("hidden", "epochs", "halve_every", "batch_size", "seeds"):
            check_count("mlp", name, getattr(self, name), least=1)
        check_count("mlp", "seed", self.seed, least=0)
        check_choice("mlp", "activation", self.activation, ACTIVATIONS)
        check_choice("mlp", "pos_weight", self.pos_weight, (None, "balanced"))
        check_choice("mlp", "select_by", self.select_by, SELECT_BY)
        check_share("mlp", "dropout", self.dropout, is_zero_ok=True)
        check_share("mlp", "threshold", self.threshold)
        check_share("mlp", "holdout", self.holdout)
        parse_numbers("mlp", "learning_rate", self.learning_rate)

    def fit(self, X: Any, y: Any) -> MLP:
        self.check_parameters()
        x_nd = read_rows(X)
        targets = read_targets(y, len(x_nd))
        self.classes_, self.has_traits_ = targets.classes, targets.has_traits
        self.n_features_in_ = x_nd.shape[1]
        self.one_class_ = not targets.has_traits and len(self.classes_) == 1
        self.cv_score_ = self.learning_rate_ = float("nan")
        self.chosen_: dict[str, float] = {}
        self.fit_notes_ = [ONE_CLASS] if self.one_class_ else []
        if self.one_class_:
            return self
        self.learning_rate_ = self._choose(x_nd, targets)
        runs = self._runs([self.learning_rate_])
        self.model_ = self._train(x_nd, targets, np.arange(len(x_nd)), runs)
        if not finite_runs(self.model_.flat_sp).all():
            raise diverged("mlp")
        return self

    def predict_with_score(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Labels, or for traits n × T of 0 and 1 (is the probability above the threshold?), and
        the probability of each answer."""
        if not getattr(self, "has_traits_", False):
            return super().predict_with_score(X)
        prob_nt = self.predict_proba(X)
        is_so_nt = prob_nt > self.threshold
        return is_so_nt.astype(np.int64), np.where(is_so_nt, prob_nt, 1 - prob_nt)

    def _runs(self, rates: list[float]) -> list[Run]:
        return [Run(rate, self.seed + each) for rate in rates for each in range(self.seeds)]

    def _choose(self, x_nd: Array, targets: Targets) -> float:
        rates = parse_numbers("mlp", "learning_rate", self.learning_rate)
        rows, held = hold_out(targets.strata(), self.holdout, self.seed)
        if len(rates) == 1:
            return rates[0]
        if not len(held):
            self.fit_notes_.append(NOTHING_HELD_OUT)
            self.chosen_ = {"learning_rate": rates[0]}
            return rates[0]
        tried = self._train(x_nd, targets, rows, self._runs(rates))
        score_r, is_finite_r = np.zeros(len(rates)), np.zeros(len(rates), bool)
        scorer = load_scorer(self.select_by)
        for number, flat_sp in enumerate(np.split(tried.flat_sp, len(rates))):
            some = Fitted(tried.shape, flat_sp, tried.scaling, tried.has_traits)
            prob_ht = np.concatenate([as_numpy(p) for p in some.probabilities(x_nd[held])])
            score_r[number] = targets.score(held, prob_ht, self.threshold, scorer)
            is_finite_r[number] = finite_runs(flat_sp).all()
        score_r = usable_scores("mlp", score_r, is_finite_r)
        chosen, self.cv_score_ = rates[int(score_r.argmax())], float(score_r.max())
        self.chosen_ = {"learning_rate": chosen, "cv_score": self.cv_score_}
        self.fit_notes_ += targets.holdout_notes(held) + holdout_notes(targets.strata(), score_r)
        self.fit_notes_ += edge_notes("learning rate", rates, score_r)
        return chosen

    def _train(self, x_nd: Array, targets: Targets, rows: np.ndarray, runs: list[Run]) -> Fitted:
        n_batches = -(-len(rows) // self.batch_size)
        recipe = Recipe(
            probe="mlp",
            shape=Shape(
                x_nd.shape[1], len(self.classes_), self.hidden, self.activation, self.dropout
            ),
            batch_size=self.batch_size,
            n_steps=self.epochs * n_batches,
            rate=halving(self.halve_every, n_batches),
            scaling=Scaling(),
        )
        loss = targets.loss(rows, self.pos_weight == "balanced", x_nd)
        flat_sp = as_numpy(train(x_nd, rows, loss, runs, recipe))
        return Fitted(recipe.shape, flat_sp, recipe.scaling, targets.has_traits)


Probe = MLP
