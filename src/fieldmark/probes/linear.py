"""Linear probe (softmax regression by AdamW): which linear layer separates the classes?

The linear probe of the self-supervised papers on features that are computed once: softmax
cross-entropy, AdamW, the learning rate falling along a cosine. Many learning rates and weight
decays are trained together (as DINOv2 trains its heads) and the best on held-out rows is trained
again on all of them. `scale: layer`, one learning rate (3e-4), one weight decay (1e-2) and 10,000
steps are the probe of biobench's 2026 results; its LayerNorm's gains are left out, since a linear
layer can express them. Needs the `vision` extra.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from fieldmark.probes._arrays import (
    Array,
    check_choice,
    check_count,
    check_share,
    read_labels,
    read_rows,
)
from fieldmark.probes._gradient.adamw import Training, cosine, train
from fieldmark.probes._gradient.probe import (
    SCALINGS,
    GradientProbe,
    Networks,
    Scaling,
    Setting,
    Targets,
)
from fieldmark.probes._select import SELECT_BY, load_scorer, parse_numbers, read_units

SUMMARY = "linear layer by AdamW, learning rate and weight decay from a held-out sweep"
RECIPE = "torch: Linear, cross-entropy, AdamW, CosineAnnealingLR; scikit-learn has none"
EXTRA = "vision"


class Linear(GradientProbe):
    """A linear layer whose learning rate and weight decay were chosen on held-out rows.

    After `fit`: `learning_rate_`, `weight_decay_` are what was chosen (the first listed among
    equals, and where nothing can be held out), `cv_score_` its held-out score (NaN without a
    search), `chosen_` all three where there was a choice, `fit_notes_` what a reader should know of
    it. One class only: that class is predicted (`one_class_`). Features may be a tensor on an
    accelerator.
    """

    name = "linear"
    list_parameters = ("learning_rates", "weight_decays")

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
        """a number, or a list to choose from on held-out images"""
        self.weight_decays = weight_decays
        """penalty on the weights: a number, or a list to choose from, 0 or more"""
        self.steps = steps
        """number of training steps"""
        self.batch_size = batch_size
        """images per training step"""
        self.scale = scale
        """`none`, `layer` (each row to mean 0 and spread 1) or `standardise` (each column)"""
        self.select_by = select_by
        """what the search maximises: `accuracy`, `macro_accuracy` or `macro_f1`"""
        self.holdout = holdout
        """share of each class to hold out for the search"""
        self.seed = seed
        """seed of the first weights, the order of the images and the held-out images"""

    def check_parameters(self) -> None:
        parse_numbers("linear", "learning_rates", self.learning_rates)
        parse_numbers("linear", "weight_decays", self.weight_decays, is_zero_ok=True)
        check_count("linear", "steps", self.steps, least=1)
        check_count("linear", "batch_size", self.batch_size, least=1)
        check_choice("linear", "scale", self.scale, SCALINGS)
        check_choice("linear", "select_by", self.select_by, SELECT_BY)
        check_share("linear", "holdout", self.holdout)
        check_count("linear", "seed", self.seed, least=0)

    def fit(self, X: Any, y: Any, groups: Any = None) -> Linear:
        self.check_parameters()
        x_nd = read_rows(X)
        targets = Targets(*read_labels(y, len(x_nd)), read_units(groups, len(x_nd)))
        self._begin(x_nd, targets)
        self.learning_rate_ = self.weight_decay_ = float("nan")
        if self.one_class_:
            return self
        scorer = load_scorer(self.select_by)
        rates = parse_numbers("linear", "learning_rates", self.learning_rates)
        decays = parse_numbers("linear", "weight_decays", self.weight_decays, is_zero_ok=True)
        settings = [{"learning_rate": r, "weight_decay": d} for r, d in product(rates, decays)]
        chosen = self._search(
            settings,
            x_nd,
            targets,
            train=lambda tried, rows: self._train(x_nd, targets, rows, tried),
            score=lambda held, prob_hc: targets.score(held, prob_hc, scorer),
        )
        self.learning_rate_, self.weight_decay_ = chosen["learning_rate"], chosen["weight_decay"]
        return self

    def _train(
        self, x_nd: Array, targets: Targets, rows: np.ndarray, settings: list[Setting]
    ) -> list[Networks]:
        training = Training(
            probe="linear",
            batch_size=min(self.batch_size, len(rows)),
            n_steps=self.steps,
            rate=cosine(self.steps),
            scaling=Scaling.fit(self.scale, x_nd, rows),
        )
        trained = train(x_nd, targets, rows, training, settings, [self.seed])
        return [Networks(networks, scaling=training.scaling) for networks in trained]


Probe = Linear
