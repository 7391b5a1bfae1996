from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import f1_score

from fieldmark.errors import DataError, MissingExtra, UsageError
from fieldmark.metrics import load_metric
from fieldmark.probes import load_probe
from fieldmark.probes._gradient.adamw import (
    Training,
    batches,
    dropout_mask,
    first_layers,
    halving,
    train,
)
from fieldmark.probes._gradient.probe import read_targets
from fieldmark.probes.mlp import MLP
from kit.adam import PlainAdam, halved

N_TRAITS = 9
pytest.importorskip("torch", reason="the extra `vision` is not installed")


def fish(
    n: int = 150, dim: int = 12, n_traits: int = N_TRAITS, unknown: float = 0.0, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Features in float64 and traits of very different prevalence."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(n, dim))
    way = np.random.default_rng(99).normal(size=(dim, n_traits))
    y = (x @ way + random.normal(size=(n, n_traits)) > np.linspace(-3, 4, n_traits)) * 1.0
    y[random.random(y.shape) < unknown] = np.nan
    return x, y


def reference(probe: MLP, x: np.ndarray, y: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """The recipe in torch.nn, with this probe's first weights, batches and masks; its logits."""
    torch = pytest.importorskip("torch")
    n_batches = -(-len(x) // probe.batch_size)
    n_out = y.shape[1] if y.ndim == 2 else int(y.max()) + 1
    training = Training(
        probe="mlp",
        batch_size=probe.batch_size,
        n_steps=probe.epochs * n_batches,
        rate=lambda step: 1.0,
        hidden=probe.hidden,
        dropout=probe.dropout,
    )
    sizes = [(x.shape[1], probe.hidden), (probe.hidden, n_out)]
    first, second = (torch.nn.Linear(*size).double() for size in sizes)
    drawn = first_layers(sizes, probe.seed, "mlp")
    for layer, (weight, offset) in zip((first, second), drawn, strict=True):
        layer.weight.data = torch.from_numpy(weight.T.copy())
        layer.bias.data = torch.from_numpy(offset)
    bend = torch.relu if probe.activation == "relu" else torch.nn.Identity()
    adam = PlainAdam([*first.parameters(), *second.parameters()])
    x_all, y_all = torch.from_numpy(x), torch.from_numpy(y)
    for step, (row_b, keep_bh) in enumerate(
        batches(np.arange(len(x)), probe.seed, training, "cpu")
    ):
        hidden = bend(first(x_all[row_b]))
        if keep_bh is not None:
            hidden = hidden * keep_bh / (1 - probe.dropout)
        loss = reference_loss(second(hidden), y_all, row_b, probe.pos_weight == "balanced")
        loss.backward()
        adam.step(halved(probe.learning_rate, step // n_batches, probe.halve_every))
    with torch.no_grad():
        return np.asarray(second(bend(first(torch.from_numpy(queries)))).numpy())


def reference_loss(logits: Any, y_all: Any, rows: Any, is_balanced: bool) -> Any:
    torch = pytest.importorskip("torch")
    if y_all.ndim == 1:
        count = torch.bincount(y_all)
        weight = (len(y_all) / (len(count) * count)).double() if is_balanced else None
        return torch.nn.CrossEntropyLoss(weight=weight)(logits, y_all[rows])
    known = ~y_all[rows].isnan()
    ratio = (y_all == 0).sum(0) / (y_all == 1).sum(0) if is_balanced else torch.ones(y_all.shape[1])
    ratio = ratio.double().expand_as(known)[known]
    return torch.nn.BCEWithLogitsLoss(pos_weight=ratio)(logits[known], y_all[rows][known])


QUICK = {"hidden": 16, "epochs": 7, "halve_every": 2, "batch_size": 64, "learning_rate": 3e-3}


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"activation": "relu"},
        {"dropout": 0.0},
        {"dropout": 0.3, "hidden": 21},
        {"pos_weight": "balanced"},
        {"batch_size": 1000},
    ],
    ids=["recipe", "relu", "no-dropout", "odd-width", "weighted", "one-batch"],
)
@pytest.mark.parametrize("unknown", [0.0, 0.3], ids=["all-known", "masked"])
def test_equals_the_recipe_in_torch(params: dict[str, Any], unknown: float) -> None:
    x, y = fish(unknown=unknown)
    queries, _ = fish(seed=1)
    probe = MLP(**{**QUICK, **params}).fit(x, y)
    logit = reference(probe, x, y, queries)
    np.testing.assert_allclose(probe.predict_proba(queries), 1 / (1 + np.exp(-logit)), atol=1e-9)
    assert (probe.predict(queries) == (logit > 0)).all()


@pytest.mark.parametrize("pos_weight", [None, "balanced"])
def test_classes_equal_the_recipe_in_torch(pos_weight: str | None) -> None:
    torch = pytest.importorskip("torch")
    x, y = fish()
    code = y[:, 3:6].sum(axis=1).astype(np.int64)
    probe = MLP(**QUICK, pos_weight=pos_weight).fit(x, code)
    logit = reference(probe, x, code, x)
    expected = torch.from_numpy(logit).softmax(1).numpy()
    np.testing.assert_allclose(probe.predict_proba(x), expected, atol=1e-9)
    assert (probe.predict(x) == logit.argmax(axis=1)).all()
    np.testing.assert_allclose(probe.predict_score(x), expected.max(axis=1), atol=1e-9)


def test_the_default_is_the_published_recipe() -> None:
    asked = {"hidden": 512, "activation": "none", "dropout": 0.5, "learning_rate": 5e-4}
    asked |= {"epochs": 100, "halve_every": 20, "batch_size": 256, "threshold": 0.5}
    assert asked.items() <= MLP().get_params().items()
    assert MLP.is_multilabel and MLP.takes_tensors


class TestMasks:
    def test_share_and_independence(self) -> None:
        for share in (0.5, 0.1, 0.75):
            keep = dropout_mask(123, range(4000), 63, share, "cpu").numpy()
            assert keep.shape == (4000, 63)
            assert abs(keep.mean() - (1 - share)) < 4 * np.sqrt(share * (1 - share) / keep.size)
        keep, other = (
            dropout_mask(key, range(5000), 16, 0.5, "cpu").numpy() - 0.5 for key in (1, 2)
        )
        bound = 5 / np.sqrt(5000)
        assert np.abs(4 * keep.T @ keep / 5000 - np.eye(16)).max() < bound
        assert np.abs(4 * keep.T @ other / 5000).max() < bound
        assert np.abs(4 * keep[:-1].T @ keep[1:] / 5000).max() < bound

    def test_a_row_is_the_same_in_every_block(self) -> None:
        whole = dropout_mask(2**64 - 1, range(100), 10, 0.5, "cpu")
        assert (dropout_mask(2**64 - 1, range(37, 59), 10, 0.5, "cpu") == whole[37:59]).all()

    def test_masks_are_those_of_the_first_version(self) -> None:
        """Stored results were trained with these masks: bits of splitmix64, sixteen a value."""
        keep = dropout_mask(12345, range(2, 5), 6, 0.3, "cpu")
        assert keep.int().tolist() == [[1, 1, 1, 1, 0, 1], [1, 1, 1, 0, 1, 1], [1, 0, 1, 1, 1, 1]]


def test_defect_biobench_fishnet_threshold_on_logits() -> None:
    """A trait that 58 of 100 fish have, with features that say nothing, is present: p > 0.5."""
    y = (np.arange(100) < 58)[:, None] * 1.0
    probe = MLP(hidden=8, epochs=200, learning_rate=1e-2, halve_every=50)
    probe.fit(np.zeros((100, 3)), np.hstack([y, 1 - y]))
    prob = probe.predict_proba(np.zeros((1, 3)))
    np.testing.assert_allclose(prob, [[0.58, 0.42]], atol=0.03)
    assert np.log(prob[0, 0] / prob[0, 1]) < 0.5
    assert probe.predict(np.zeros((1, 3))).tolist() == [[1, 0]]
    assert MLP(hidden=8, threshold=0.9).fit(np.zeros((9, 3)), y[:9]).predict([[0.0] * 3]) == [[0]]


def test_defect_biobench_fishnet_dropout_when_predicting() -> None:
    x, y = fish()
    probe = MLP(**QUICK).fit(x, y)
    [[(weight_1, offset_1), (weight_2, offset_2)]] = probe.model_.layers
    logit = (x @ weight_1 + offset_1) @ weight_2 + offset_2
    np.testing.assert_allclose(probe.predict_proba(x), 1 / (1 + np.exp(-logit)), atol=1e-12)
    assert (probe.predict_proba(x) == probe.predict_proba(x)).all()


def test_defect_biobench_fishnet_rate_halved_by_steps() -> None:
    """75,631 fish in batches of 256 make 296 steps an epoch; the rate halves every 5,920 steps."""
    rate = halving(20, 296)
    assert [rate(step) for step in (0, 20, 600, 5919, 5920, 29_599)] == [1, 1, 1, 1, 0.5, 2**-4]


def test_defect_biobench_fishnet_f1_of_two_traits_only() -> None:
    """Every trait enters the score by which a learning rate is chosen, known rows only."""
    _, y = fish(unknown=0.2)
    prob = np.random.default_rng(5).random(y.shape)
    expected = []
    for trait in range(N_TRAITS):
        known = ~np.isnan(y[:, trait])
        answers = (prob[known, trait] > 0.5) * 1.0
        expected.append(f1_score(y[known, trait], answers, average="macro"))
    targets = read_targets(y, len(y))
    found = targets.score(np.arange(len(y)), prob, load_metric("macro_f1"))
    assert found == pytest.approx(np.mean(expected))


def test_defect_biobench_fishnet_item_on_a_plain_float() -> None:
    x, y = fish()
    probe = MLP(**{**QUICK, "learning_rate": [1e-4, 3e-2]}).fit(x, y)
    assert type(probe.cv_score_) is float and 0 < probe.cv_score_ <= 1


def test_unknown_traits_teach_nothing() -> None:
    """What stands where a trait is not known cannot matter; a fish known by nothing is no fish."""
    x, y = fish(n=60)
    params = {**QUICK, "batch_size": 1000, "dropout": 0.0}
    nothing = np.full((20, N_TRAITS), np.nan)
    wild = 5 * np.random.default_rng(1).normal(size=(20, x.shape[1]))
    with_them = MLP(**params).fit(np.concatenate([x, wild]), np.concatenate([y, nothing]))
    np.testing.assert_allclose(
        with_them.predict_proba(x), MLP(**params).fit(x, y).predict_proba(x), atol=1e-9
    )


def test_scores_are_the_probability_of_the_answer() -> None:
    x, y = fish()
    probe = MLP(**QUICK).fit(x, y)
    prob, answer, score = probe.predict_proba(x), probe.predict(x), probe.predict_score(x)
    assert prob.shape == answer.shape == score.shape == (150, N_TRAITS)
    assert answer.dtype.kind == "i" and score.min() >= 0.5
    np.testing.assert_allclose(np.where(answer == 1, score, 1 - score), prob)
    for ask in (probe.predict, probe.predict_proba, probe.predict_score):
        assert ask(x[:0]).shape == (0, N_TRAITS)


def test_weights_find_more_of_a_rare_trait() -> None:
    x, y = fish(n=400)
    rare = y[:, -1:]
    assert 0 < rare.mean() < 0.25
    plain = MLP(**QUICK).fit(x, rare).predict(x)
    weighted = MLP(**QUICK, pos_weight="balanced").fit(x, rare).predict(x)
    assert weighted[rare == 1].mean() > plain[rare == 1].mean()


def test_several_seeds_are_averaged() -> None:
    x, y = fish()
    both = MLP(**QUICK, seeds=2, seed=7).fit(x, y).predict_proba(x)
    one, two = (MLP(**QUICK, seed=seed).fit(x, y).predict_proba(x) for seed in (7, 8))
    assert np.abs(one - two).max() > 1e-3
    np.testing.assert_allclose(both, (one + two) / 2, atol=1e-12)


def test_the_better_learning_rate_is_chosen_and_fitted_to_all_rows() -> None:
    x, y = fish(n=300)
    probe = MLP(**{**QUICK, "learning_rate": [1e-7, 1e-2]}).fit(x, y)
    assert probe.learning_rate_ == 1e-2 and probe.fit_notes_ == []
    alone = MLP(**{**QUICK, "learning_rate": 1e-2}).fit(x, y)
    assert np.isnan(alone.cv_score_)
    np.testing.assert_allclose(probe.predict_proba(x), alone.predict_proba(x), atol=1e-12)


def test_fewer_rows_than_a_batch_and_features_that_are_all_alike() -> None:
    probe = MLP(hidden=4, epochs=3).fit(np.ones((5, 2)), np.array([[1.0], [0], [1], [1], [0]]))
    assert np.isfinite(probe.predict_proba(np.ones((2, 2)))).all()


def test_draws_do_not_depend_on_precision() -> None:
    x, y = fish()
    exact = MLP(**QUICK).fit(x, y).predict_proba(x)
    short = MLP(**QUICK).fit(x.astype(np.float32), y).predict_proba(x.astype(np.float32))
    np.testing.assert_allclose(short, exact, atol=1e-3)


@pytest.mark.parametrize(
    ("y", "line"),
    [
        (np.full((6, 2), 2.0), "traits hold 2: expected 0, 1 or NaN (not known)."),
        (np.full((6, 2), "yes"), "traits are not numbers: expected 0, 1 or NaN (not known)."),
        (
            np.array([[0.0, np.nan]] * 6),
            "column 1 of 2 traits is not known for any training image: leave that trait out.",
        ),
        (
            np.ones((5, 2)),
            "traits have the shape (5, 2): expected one row for each of 6 rows of features, "
            "one column a trait.",
        ),
    ],
)
def test_traits_that_cannot_be_learnt(y: np.ndarray, line: str) -> None:
    with pytest.raises(DataError) as caught:
        MLP(hidden=2, epochs=1).fit(np.eye(6), y)
    assert str(caught.value) == line


@pytest.mark.parametrize("name", ["linear", "mlp"])
def test_without_torch_one_line_names_the_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra) as caught:
        load_probe(name).fit(np.eye(4), [0, 0, 1, 1])
    assert str(caught.value).startswith(
        f"probe {name!r} needs the package 'torch', which is not installed: "
        "type `pip install '.[vision]'` in the folder you cloned"
    )


def test_weights_beyond_all_bounds_are_an_error() -> None:
    x, y = fish()
    with pytest.raises(DataError, match="grew beyond all bounds: scale the features"):
        MLP(**{**QUICK, "learning_rate": 1e300}).fit(x.astype(np.float32), y)


@pytest.mark.parametrize(
    ("params", "line"),
    [
        ({"activation": "tanh"}, "activation is 'tanh', expected one of 'none', 'relu'."),
        ({"dropout": 1.0}, "dropout is 1.0, expected a number from 0 to below 1."),
        (
            {"learning_rate": []},
            "learning_rate is [], expected a number above 0 or a list of them.",
        ),
        ({"epochs": 0}, "epochs is 0, expected a whole number from 1 up."),
        ({"threshold": 0}, "threshold is 0, expected a number between 0 and 1."),
    ],
)
def test_mistakes_get_one_line(params: dict[str, Any], line: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_probe("mlp", params)
    assert str(caught.value) == f"probe 'mlp': {line}"


@pytest.mark.parametrize("activation", ["none", "relu"])
@pytest.mark.parametrize("has_traits", [False, True])
def test_networks_trained_together_are_those_trained_alone(
    activation: str, has_traits: bool
) -> None:
    x, y = fish(unknown=0.2)
    targets = read_targets(y if has_traits else np.arange(len(x)) % 3, len(x))
    training = Training("mlp", 64, 12, halving(2, 3), hidden=10, activation=activation, dropout=0.4)
    grid = [{"learning_rate": 1e-3}, {"learning_rate": 3e-2}]
    rows = np.arange(3, len(x))
    together = train(x, targets, rows, training, grid, seeds=[1, 2])
    for setting, networks in zip(grid, together, strict=True):
        for seed, layers in zip((1, 2), networks, strict=True):
            [[alone]] = train(x, targets, rows, training, [setting], [seed])
            for layer, expected in zip(layers, alone, strict=True):
                np.testing.assert_allclose(layer[0], expected[0], atol=1e-12)
                np.testing.assert_allclose(layer[1], expected[1], atol=1e-12)


def test_the_number_of_threads_is_put_back() -> None:
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        MLP(hidden=4, epochs=1).fit(*fish())
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
