"""What every registered probe must keep; a new probe file is tested without a new test."""

from __future__ import annotations

import pickle
import sys
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from fieldmark.errors import DataError
from fieldmark.probes import PROBES, is_multilabel, load_probe

QUICK: dict[str, dict[str, Any]] = {
    "svm": {"search": 3, "folds": 2},
    "ridge": {"alphas": [0.1, 10], "folds": 2},
    "mlp": {"hidden": 64, "learning_rate": 5e-3},
    "linear": {"learning_rates": [1e-2, 1e-1], "weight_decays": 1e-2, "steps": 100},
}
NAMES = [name for name in PROBES.names() if name not in PROBES.added]


def make(name: str) -> Any:
    return load_probe(name, QUICK.get(name, {}))


def blobs(n_each: int = 12, dim: int = 6, classes: int = 3, seed: int = 0) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    code = np.repeat(np.arange(classes), n_each)
    centres = 4 * random.normal(size=(classes, dim))
    return (centres[code] + random.normal(size=(len(code), dim))).astype(np.float32), code


@parametrize_with_checks(
    [make(name) for name in NAMES],
    expected_failed_checks=lambda _: {
        "check_class_weight_classifiers": "class weights by label are refused, with a clear line",
    },
)
def test_scikit_learn_conventions(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("name", NAMES)
class TestEveryProbe:
    def test_says_what_it_is(self, name: str) -> None:
        module = PROBES.get(name)
        assert isinstance(module.SUMMARY, str) and module.SUMMARY
        assert module.Probe.__doc__
        assert is_multilabel(name) == getattr(module.Probe, "is_multilabel", False)

    @pytest.mark.parametrize(
        "labels",
        [
            np.array(["wren", "owl", "jay"]),
            np.array(["wren", "owl", "jay"], dtype=object),
            np.array([1355868, 7, -3]),
            np.array([True, False, True]),
        ],
        ids=["strings", "objects", "non-contiguous", "booleans"],
    )
    def test_predicts_labels_not_columns(self, name: str, labels: np.ndarray) -> None:
        x, code = blobs()
        probe = make(name).fit(x, labels[code])
        assert (probe.predict(x) == labels[code]).mean() > 0.9
        assert probe.classes_.tolist() == sorted(set(labels.tolist()))
        assert set(probe.predict(x)) <= set(probe.classes_)

    def test_one_class_is_that_class(self, name: str) -> None:
        probe = make(name).fit(np.eye(4), np.array(["owl"] * 4))
        assert probe.one_class_
        assert probe.predict(np.zeros((2, 4))).tolist() == ["owl", "owl"]
        assert np.isfinite(probe.predict_score(np.zeros((2, 4)))).all()

    def test_two_classes_are_not_one(self, name: str) -> None:
        x, code = blobs(classes=2)
        assert not make(name).fit(x, code).one_class_

    def test_empty_training_set_is_a_data_error(self, name: str) -> None:
        with pytest.raises(DataError, match="the training set is empty") as caught:
            make(name).fit(np.zeros((0, 4)), np.array([]))
        assert isinstance(caught.value, ValueError)
        assert "\n" not in str(caught.value)

    def test_one_image_per_class_works(self, name: str) -> None:
        x = np.array([[0.0, 0.0], [4.0, 4.0]])
        probe = make(name).fit(x, ["a", "b"])
        assert probe.predict(x).tolist() == ["a", "b"]

    def test_no_queries_give_no_answers(self, name: str) -> None:
        x, code = blobs()
        probe = make(name).fit(x, code)
        assert probe.predict(x[:0]).shape == probe.predict_score(x[:0]).shape == (0,)

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_bad_features_are_named_by_row(self, name: str, bad: float) -> None:
        x, code = blobs()
        x[7, 2] = bad
        with pytest.raises(DataError, match=r"1 of 36 rows hold NaN or inf \(first: row 7\)"):
            make(name).fit(x, code)

    def test_missing_labels_are_refused(self, name: str) -> None:
        x, _ = blobs()
        with pytest.raises(DataError, match="every image needs a label"):
            make(name).fit(x, np.array([None, "a", "b"] * 12, dtype=object))

    def test_wrong_number_of_labels_is_refused(self, name: str) -> None:
        x, code = blobs()
        with pytest.raises(DataError, match=r"shape \(35,\): expected one label for each of 36"):
            make(name).fit(x, code[:-1])

    def test_answers_do_not_depend_on_the_batch(self, name: str) -> None:
        x, code = blobs(seed=3)
        probe = make(name).fit(x, code)
        queries = np.random.default_rng(4).normal(size=(50, 6)).astype(np.float32) * 4
        one_by_one = np.concatenate([probe.predict(each[None]) for each in queries])
        assert (one_by_one == probe.predict(queries)).all()
        flipped = probe.predict_score(queries[::-1])[::-1]
        np.testing.assert_allclose(flipped, probe.predict_score(queries), rtol=1e-5, atol=1e-6)

    def test_same_twice_and_after_a_round_trip(self, name: str) -> None:
        x, code = blobs(seed=5)
        probe = make(name).fit(x, code)
        again = clone(probe).fit(x, code)
        loaded = pickle.loads(pickle.dumps(probe))
        assert (probe.predict_score(x) == again.predict_score(x)).all()
        assert (probe.predict_score(x) == loaded.predict_score(x)).all()

    def test_scores_fall_towards_the_border(self, name: str) -> None:
        random = np.random.default_rng(0)
        x = np.concatenate([random.normal(-3, 1, (30, 2)), random.normal(3, 1, (30, 2))])
        probe = make(name).fit(x, np.repeat([0, 1], 30))
        near, far = probe.predict_score(np.array([[0.1, -0.1], [3.0, 3.0]]))
        assert near < far

    def test_training_data_are_left_alone(self, name: str) -> None:
        x, code = blobs()
        before = x.copy()
        make(name).fit(x, code).predict(x)
        assert (x == before).all()

    def test_torch_tensors_are_taken(self, name: str) -> None:
        torch = pytest.importorskip("torch")
        x, code = blobs()
        probe = make(name).fit(torch.from_numpy(x), torch.from_numpy(code))
        assert (probe.predict(torch.from_numpy(x)) == make(name).fit(x, code).predict(x)).all()
        assert probe.predict(torch.from_numpy(x).bfloat16()).shape == (36,)


def test_listing_probes_imports_nothing_heavy() -> None:
    import subprocess

    code = (
        "import sys, fieldmark.probes as p; assert 'ridge' in p.PROBES.names(); "
        "sys.exit(bool({'numpy', 'sklearn', 'scipy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_probes_are_made_and_checked_without_scikit_learn() -> None:
    """A task file is checked, and a finished run found, by the names of parameters alone."""
    import subprocess

    code = (
        "import sys, fieldmark.probes as p; [p.load_probe(name) for name in p.PROBES.names()]; "
        "sys.exit(' '.join({'sklearn', 'scipy', 'torch', 'pandas'} & set(sys.modules)) or 0)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
