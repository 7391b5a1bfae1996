"""Multilayer perceptron (MLP) for traits or classes: one small network for all traits of an image.

The trait probe of FishNet (Khan et al. 2023): a layer of 512, dropout, a layer with one output a
trait, binary cross-entropy, Adam, the learning rate halved every 20 epochs. As published it has no
non-linearity (`activation: none`); `relu` makes it the network it is called. Labels may also be
classes: then the outputs share one softmax. Needs the `vision` extra.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fieldmark.probes._arrays import (
    Array,
    check_choice,
    check_count,
    check_share,
    read_rows,
)
from fieldmark.probes._gradient.adamw import Training, halving, train
from fieldmark.probes._gradient.probe import (
    ACTIVATIONS,
    GradientProbe,
    Networks,
    Setting,
    Targets,
    read_targets,
)
from fieldmark.probes._select import SELECT_BY, load_scorer, parse_numbers, read_units

SUMMARY = "two layers with dropout by Adam (FishNet), for traits or classes"
RECIPE = "torch: Linear, Dropout, Linear, binary cross-entropy, Adam, StepLR; scikit-learn has none"
EXTRA = "vision"


class MLP(GradientProbe):
    """Two layers with dropout between them.

    Labels are classes (n), or traits (n × T) of 0, 1 and NaN for what is not known: those count
    nothing in the loss, and predictions are n × T of 0 and 1. Several learning rates: the best on
    held-out rows is trained again on all. `seeds` above 1: that many networks, whose probabilities
    are averaged. `pos_weight: balanced` weighs present traits by absent over present (classes: by
    their rarity). One class only: that class is predicted (`one_class_`); a trait of which nothing
    is known is refused.

    After `fit`: `learning_rate_`, `cv_score_` (NaN without a search), `chosen_` (both, where there
    was a choice), `fit_notes_` (what a reader should know of it). Features may be a tensor on an
    accelerator.
    """

    name = "mlp"
    is_multilabel = True
    list_parameters = ("learning_rate",)

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
        """width of the hidden layer"""
        self.activation = activation
        """function between the layers: `none` (as published) or `relu`"""
        self.dropout = dropout
        """share of hidden values left out at each training step"""
        self.learning_rate = learning_rate
        """a number, or a list to choose from on held-out images"""
        self.epochs = epochs
        """how often every image is seen"""
        self.halve_every = halve_every
        """epochs (not steps) after which the learning rate is halved"""
        self.batch_size = batch_size
        """images per training step"""
        self.pos_weight = pos_weight
        """`balanced` (rare traits or classes count more) or none"""
        self.threshold = threshold
        """a trait counts as present from this probability on"""
        self.select_by = select_by
        """what the search maximises: `accuracy`, `macro_accuracy` or `macro_f1`"""
        self.holdout = holdout
        """share of the images (of each class) to hold out for the search"""
        self.seeds = seeds
        """number of networks whose probabilities are averaged"""
        self.seed = seed
        """seed of the first weights, the order of the images, dropout and the held-out images"""

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

    def fit(self, X: Any, y: Any, groups: Any = None) -> MLP:
        self.check_parameters()
        x_nd = read_rows(X)
        targets = replace(read_targets(y, len(x_nd)), unit=read_units(groups, len(x_nd)))
        self._begin(x_nd, targets)
        self.has_traits_ = targets.has_traits
        self.learning_rate_ = float("nan")
        if self.one_class_:
            return self
        scorer = load_scorer(self.select_by)
        rates = parse_numbers("mlp", "learning_rate", self.learning_rate)
        chosen = self._search(
            [{"learning_rate": rate} for rate in rates],
            x_nd,
            targets,
            train=lambda tried, rows: self._train(x_nd, targets, rows, tried),
            score=lambda held, prob_ht: targets.score(held, prob_ht, scorer, self.threshold),
        )
        self.learning_rate_ = chosen["learning_rate"]
        return self

    def predict_with_score(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Labels, or for traits n × T of 0 and 1 (is the probability above the threshold?), and
        the probability of each answer."""
        if not getattr(self, "has_traits_", False):
            return super().predict_with_score(X)
        prob_nt = self.predict_proba(X)
        is_so_nt = prob_nt > self.threshold
        return is_so_nt.astype(np.int64), np.where(is_so_nt, prob_nt, 1 - prob_nt)

    def _train(
        self, x_nd: Array, targets: Targets, rows: np.ndarray, settings: list[Setting]
    ) -> list[Networks]:
        n_batches = -(-len(rows) // self.batch_size)
        training = Training(
            probe="mlp",
            batch_size=self.batch_size,
            n_steps=self.epochs * n_batches,
            rate=halving(self.halve_every, n_batches),
            hidden=self.hidden,
            activation=self.activation,
            dropout=self.dropout,
            is_balanced=self.pos_weight == "balanced",
        )
        seeds = range(self.seed, self.seed + self.seeds)
        return [
            Networks(networks, self.activation, has_traits=targets.has_traits)
            for networks in train(x_nd, targets, rows, training, settings, seeds)
        ]


Probe = MLP
