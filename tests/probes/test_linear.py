from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import f1_score

from fieldmark.errors import DataError, UsageError
from fieldmark.probes import Normaliser, load_probe
from fieldmark.probes._gradient.adamw import Training, batches, cosine, first_layers, train
from fieldmark.probes._gradient.probe import read_targets
from fieldmark.probes._select import hold_out, parse_numbers
from fieldmark.probes.linear import Linear
from fieldmark.tasks import load_own_task
from kit.adam import PlainAdam, annealed


def species(n: int = 200, dim: int = 10, classes: int = 5, seed: int = 0) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    code = random.integers(0, classes, n)
    centres = np.random.default_rng(77).normal(size=(classes, dim))
    x = centres[code] + random.normal(size=(n, dim))
    return x * np.logspace(-1, 1, dim) + 2, code


def reference(probe: Linear, x: np.ndarray, code: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """The recipe in torch.nn, with this probe's first weights and batches; probabilities."""
    torch = pytest.importorskip("torch")
    sizes = [(x.shape[1], int(code.max()) + 1)]
    training = Training("linear", probe.batch_size, probe.steps, lambda _: 1.0)
    layer = torch.nn.Linear(*sizes[0]).double()
    [(weight, offset)] = first_layers(sizes, probe.seed, "linear")
    layer.weight.data = torch.from_numpy(weight.T.copy())
    layer.bias.data = torch.from_numpy(offset)
    norm = torch.nn.Identity()
    if probe.scale == "layer":
        norm = torch.nn.LayerNorm(x.shape[1], elementwise_affine=False)
    elif probe.scale == "standardise":
        mean, spread = torch.from_numpy(x.mean(axis=0)), torch.from_numpy(x.std(axis=0))
        norm = lambda rows: (rows - mean) / spread  # noqa: E731
    adam = PlainAdam([layer.weight, layer.bias], decay=probe.weight_decays)
    for step, (row_b, _) in enumerate(batches(np.arange(len(x)), probe.seed, training, "cpu")):
        logits = layer(norm(torch.from_numpy(x)[row_b]))
        torch.nn.functional.cross_entropy(logits, torch.from_numpy(code)[row_b]).backward()
        adam.step(annealed(probe.learning_rates, step, probe.steps))
    with torch.no_grad():
        return np.asarray(layer(norm(torch.from_numpy(queries))).softmax(1).numpy())


@pytest.mark.parametrize("scale", ["none", "layer", "standardise"])
@pytest.mark.parametrize("batch_size", [64, 5000])
def test_equals_the_recipe_in_torch(scale: str, batch_size: int) -> None:
    x, code = species()
    queries, _ = species(seed=1)
    probe = Linear(
        learning_rates=1e-2, weight_decays=0.3, steps=50, batch_size=batch_size, scale=scale
    ).fit(x, code)
    expected = reference(probe, x, code, queries)
    np.testing.assert_allclose(probe.predict_proba(queries), expected, atol=1e-9)
    assert (probe.predict(queries) == expected.argmax(axis=1)).all()
    np.testing.assert_allclose(probe.predict_score(queries), expected.max(axis=1), atol=1e-9)
    assert probe.fit_notes_ == [] and np.isnan(probe.cv_score_)


@pytest.mark.slow
@pytest.mark.parametrize("dataset", ["imagenet1k", "inat21", "iwildcam", "plankton", "plantnet"])
def test_variants_of_tasks_are_what_biobench_runs(dataset: str) -> None:
    """10,000 steps of torch's own AdamW behind a LayerNorm, from this probe's first weights."""
    torch = pytest.importorskip("torch")
    x, code = species(120)
    queries, _ = species(seed=1)
    block = load_own_task(f"{dataset}@biobench2026").block("probe")
    ours = load_probe(block.classifier, block.params).fit(x.astype(np.float32), code)
    model = torch.nn.Sequential(
        torch.nn.LayerNorm(10, elementwise_affine=False), torch.nn.Linear(10, 5)
    ).double()
    [(weight, offset)] = first_layers([(10, 5)], ours.seed, "linear")
    model[1].weight.data, model[1].bias.data = map(torch.from_numpy, (weight.T.copy(), offset))
    adam = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=1e-2)
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(adam, 10_000, eta_min=3e-6)
    for _ in range(10_000):
        adam.zero_grad()
        torch.nn.functional.cross_entropy(
            model(torch.from_numpy(x)), torch.from_numpy(code)
        ).backward()
        adam.step()
        rate.step()
    theirs = model(torch.from_numpy(queries)).argmax(1).numpy()
    assert (ours.predict(queries.astype(np.float32)) == theirs).mean() >= 0.99


def test_the_rate_falls_along_a_cosine() -> None:
    rate = cosine(10_000)
    assert rate(0) == 1 and rate(5000) == pytest.approx(0.505) and rate(10_000) == 0.01
    assert rate(2500) == pytest.approx(0.01 + 0.99 * (1 + math.sqrt(0.5)) / 2)


def test_the_sweep_chooses_as_if_each_setting_were_tried_alone() -> None:
    x, code = species(n=300)
    sweep = Linear(learning_rates=[1e-6, 1e-4, 3e-2], weight_decays=[0, 1.0], steps=60, holdout=0.3)
    sweep.fit(x, code)
    rows, held = hold_out(code, 0.3, 42)
    found = {}
    for rate, decay in product((1e-6, 1e-4, 3e-2), (0, 1.0)):
        # Trained on the rows that are kept, scored on the others.
        alone = Linear(learning_rates=rate, weight_decays=decay, steps=60).fit(x[rows], code[rows])
        found[rate, decay] = np.mean(alone.predict(x[held]) == code[held])
    assert sweep.cv_score_ == max(found.values()) > 0.5
    assert found[sweep.learning_rate_, sweep.weight_decay_] == sweep.cv_score_
    chosen = {"learning_rates": sweep.learning_rate_, "weight_decays": sweep.weight_decay_}
    alone = Linear(**chosen, steps=60).fit(x, code)
    np.testing.assert_allclose(sweep.predict_proba(x), alone.predict_proba(x), atol=1e-12)


def test_the_first_of_equals_is_chosen_and_never_one_that_ran_away() -> None:
    x, code = species()
    equal = Linear(learning_rates=[1e-2, 1e-2], weight_decays=[0.1, 0.1], steps=20).fit(x, code)
    assert equal.chosen_["learning_rate"] == 1e-2
    probe = Linear(learning_rates=[1e300, 1e-2], weight_decays=[1e20, 0.0], steps=30).fit(x, code)
    assert probe.weight_decay_ == 0.0 and probe.model_.is_finite
    assert any("settings diverged" in note for note in probe.fit_notes_)
    with pytest.raises(DataError, match="lower the learning rate"):
        Linear(learning_rates=1e300, weight_decays=1e20, steps=30).fit(x, code)
    with pytest.raises(DataError, match="beyond all bounds"):
        Linear(learning_rates=[1e300, 1e299], weight_decays=1e20, steps=30).fit(x, code)


def test_macro_f1_and_accuracy_are_judged_on_the_same_rows() -> None:
    x, code = species()
    code[code > 1] = 0
    params = {"steps": 60, "learning_rates": [1e-2, 1e-1], "holdout": 0.3}
    rows, held = hold_out(code, 0.3, 42)
    probe = Linear(**params, select_by="macro_f1").fit(x, code)
    alone = Linear(
        steps=60, learning_rates=probe.learning_rate_, weight_decays=probe.weight_decay_
    ).fit(x[rows], code[rows])
    expected = f1_score(code[held], alone.predict(x[held]), average="macro")
    assert probe.cv_score_ == pytest.approx(expected)


class TestHoldOut:
    def test_each_class_gives_its_share(self) -> None:
        code = np.repeat(np.arange(4), [1, 2, 10, 100])
        rows, held = hold_out(code, 0.2, 0)
        assert np.bincount(code[held], minlength=4).tolist() == [0, 1, 2, 20]
        assert sorted([*rows, *held]) == list(range(113))
        assert not (hold_out(code, 0.2, 1)[1] == held).all()
        assert (hold_out(code, 0.2, 0)[1] == held).all()

    def test_a_class_is_never_held_out_whole(self) -> None:
        rows, held = hold_out(np.array([0, 0, 1, 1, 1]), 0.9, 0)
        assert len(rows) == 2 and len(held) == 3

    def test_nothing_to_hold_out(self) -> None:
        x = np.eye(3)
        probe = Linear(learning_rates=[1e-2, 1e-3], steps=50).fit(x, ["a", "b", "c"])
        assert probe.learning_rate_ == 1e-2 and probe.weight_decay_ == 1e-2
        assert probe.fit_notes_[0].startswith("too few images to hold any out")
        assert probe.predict(x).tolist() == ["a", "b", "c"]


def test_scaling_inside_equals_standardising_before() -> None:
    x, code = species()
    params = {"learning_rates": 1e-2, "weight_decays": 0.1, "steps": 40}
    inside = Linear(**params, scale="standardise").fit(x, code).predict_proba(x)
    before = Normaliser(["standardise"]).fit(x).transform(x)
    outside = Linear(**params, scale="none").fit(before, code).predict_proba(before)
    np.testing.assert_allclose(inside, outside, atol=1e-9)


def test_columns_that_never_change_do_no_harm() -> None:
    x, code = species()
    x[:, 3], x[:, 4] = 0.0, 1e6
    for scale in ("standardise", "none"):
        probe = Linear(learning_rates=1e-2, steps=100, scale=scale).fit(x, code)
        assert np.isfinite(probe.predict_proba(x)).all()
    assert Linear(steps=5, scale="layer").fit(np.ones((9, 4)), [0, 1, 2] * 3).model_.is_finite


def test_numbers_may_be_written_as_yaml_reads_them() -> None:
    assert parse_numbers("linear", "learning_rates", "1e-3") == [1e-3]
    assert parse_numbers("linear", "weight_decays", (0, 1), is_zero_ok=True) == [0, 1]


@pytest.mark.parametrize(
    ("params", "line"),
    [
        (
            {"learning_rates": [1e-3, 0]},
            "learning_rates is [0.001, 0], expected a number above 0 or a list of them.",
        ),
        (
            {"weight_decays": "some"},
            "weight_decays is 'some', expected a number from 0 up or a list of them.",
        ),
        (
            {"learning_rates": True},
            "learning_rates is True, expected a number above 0 or a list of them.",
        ),
        ({"holdout": 1}, "holdout is 1, expected a number between 0 and 1."),
        ({"steps": 0}, "steps is 0, expected a whole number from 1 up."),
        (
            {"scale": "layers"},
            "scale is 'layers', expected one of 'none', 'layer', 'standardise'. "
            "Did you mean 'layer'?",
        ),
    ],
)
def test_mistakes_get_one_line(params: dict[str, Any], line: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_probe("linear", params)
    assert str(caught.value) == f"probe 'linear': {line}"


@pytest.mark.slow  # torch.optim imports the compiler, for seconds
def test_a_setting_inside_a_batch_is_the_one_torch_optim_trains_alone() -> None:
    torch = pytest.importorskip("torch")
    x, code = species()
    rows, targets = np.arange(len(x)), read_targets(code, len(x))
    training = Training("linear", 64, 40, cosine(40))
    grid = [{"learning_rate": r, "weight_decay": d} for r, d in product((1e-3, 1e-1), (0, 0.5))]
    trained = train(x, targets, rows, training, grid, seeds=[3, 4])
    for (setting, networks), (number, seed) in product(
        zip(grid, trained, strict=True), enumerate((3, 4))
    ):
        [(weight, offset)] = first_layers([(x.shape[1], 5)], seed, "linear")
        w, b = (torch.tensor(array, requires_grad=True) for array in (weight, offset))
        groups = [{"params": [w]}, {"params": [b], "weight_decay": 0.0}]
        adam = torch.optim.AdamW(
            groups, lr=setting["learning_rate"], weight_decay=setting["weight_decay"]
        )
        falls = torch.optim.lr_scheduler.LambdaLR(adam, training.rate)
        for row_b, _ in batches(rows, seed, training, "cpu"):
            adam.zero_grad()
            logit = torch.from_numpy(x)[row_b] @ w + b
            torch.nn.functional.cross_entropy(logit, torch.from_numpy(code)[row_b]).backward()
            adam.step()
            falls.step()
        [(found_w, found_b)] = networks[number]
        np.testing.assert_allclose(found_w, w.detach().numpy(), atol=1e-10)
        np.testing.assert_allclose(found_b, b.detach().numpy(), atol=1e-10)
