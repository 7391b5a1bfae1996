from __future__ import annotations

from pathlib import Path

import pytest

from fieldmark import probes
from fieldmark.errors import FieldmarkError, UnknownName, UsageError
from fieldmark.probes import PROBES, list_parameters, load_probe, register_probe

MAJORITY = """
import numpy as np

class Majority:
    def __init__(self, *, smooth=0.0):
        self.smooth = smooth

    def fit(self, X, y):
        values, counts = np.unique(y, return_counts=True)
        self.value_ = values[counts.argmax()]
        return self

    def predict(self, X):
        return np.full(len(X), self.value_)

not_a_class = 3

class NoPredict:
    def fit(self, X, y):
        return self
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(MAJORITY)
    return tmp_path


def test_the_probes_are_there() -> None:
    known = {"exemplar", "linear", "logistic", "mlp", "neighbours", "ridge", "simpleshot", "svm"}
    assert known == set(PROBES.names()) - set(PROBES.added)


@pytest.mark.parametrize(
    ("name", "lists"),
    [
        ("ridge", {"alphas"}),
        ("linear", {"learning_rates", "weight_decays"}),
        ("mlp", {"learning_rate"}),
        ("logistic", {"C"}),
        ("svm", set()),
    ],
)
def test_a_probe_says_which_parameters_may_be_lists(name: str, lists: set[str]) -> None:
    assert list_parameters(name) == lists
    for parameter in lists:
        load_probe(name, {parameter: [0.1, 1.0]})


def test_a_users_probe_may_say_it_too(folder: Path) -> None:
    assert list_parameters("mine.py:Majority", base=folder) == frozenset()
    lists = 'class Lists:\n    list_parameters = ("grid",)\n    fit = predict = print\n'
    (folder / "lists.py").write_text(lists)
    assert list_parameters("lists.py:Lists", base=folder) == {"grid"}


def test_parameters_arrive() -> None:
    parameters = {"k": 5, "metric": "cosine", "ties": "first"}
    assert load_probe("neighbours", parameters).get_params() == parameters


def test_a_users_file_is_a_probe(folder: Path) -> None:
    probe = load_probe("mine.py:Majority", {"smooth": 1.0}, base=folder)
    assert probe.fit([[0], [1], [2]], ["b", "a", "b"]).predict([[5]]).tolist() == ["b"]
    assert probe.smooth == 1.0


@pytest.mark.parametrize(
    ("name", "params", "line"),
    [
        (
            "rigde",
            {},
            "probe 'rigde' is not known. Did you mean 'ridge'? "
            "`fieldmark tasks --probes` lists all.",
        ),
        (
            "ridge",
            {"alpha": 1},
            "probe 'ridge' has no parameter 'alpha'. Did you mean 'alphas'? "
            "It has alphas, folds, select_by, class_weight, n_jobs.",
        ),
        (
            "simpleshot",
            {"k": 3},
            "probe 'simpleshot' has no parameter 'k'. It has none.",
        ),
        (
            "neighbours",
            {"k": 0},
            "probe 'neighbours': k is 0, expected a whole number from 1 up.",
        ),
        (
            "neighbours",
            {"k": True},
            "probe 'neighbours': k is True, expected a whole number from 1 up.",
        ),
        (
            "neighbours",
            {"metric": "euclid"},
            "probe 'neighbours': metric is 'euclid', expected one of 'euclidean', 'cosine'. "
            "Did you mean 'euclidean'?",
        ),
        ("svm", {"C": -1}, "probe 'svm': C is -1, expected a number above 0."),
        ("svm", {"C": "one"}, "probe 'svm': C is 'one', expected a number above 0."),
        (
            "svm",
            {"search": -1},
            "probe 'svm': search is -1, expected a whole number from 0 up.",
        ),
        (
            "svm",
            {"solver": "liblinear", "kernel": "rbf"},
            "probe 'svm': solver 'liblinear' has no 'rbf' kernel: use solver 'libsvm'.",
        ),
        (
            "ridge",
            {"select_by": "f1_macro"},
            "probe 'ridge': select_by is 'f1_macro', expected one of 'accuracy', "
            "'macro_accuracy', 'macro_f1'. Did you mean 'macro_f1'?",
        ),
        (
            "ridge",
            {"alphas": ["2^-3 ... 3"]},
            "alphas contains '2^-3 ... 3': expected numbers, powers as 2^-3, "
            "or a range `2^-15 .. 2^10`.",
        ),
        (
            "mine.py:Majorty",
            {},
            "mine.py  has no 'Majorty'. Did you mean 'Majority'?",
        ),
        (
            "mine.py:not_a_class",
            {},
            "probe 'mine.py:not_a_class' is a int: expected a class with fit(X, y) and predict(X).",
        ),
        (
            "mine.py:NoPredict",
            {},
            "probe 'mine.py:NoPredict' is a type without predict: "
            "expected a class with fit(X, y) and predict(X).",
        ),
    ],
)
def test_mistakes_get_one_line(
    folder: Path, name: str, params: dict[str, object], line: str
) -> None:
    with pytest.raises(UsageError) as caught:
        load_probe(name, params, base=folder)
    assert str(caught.value).removeprefix(f"{folder}/") == line


def test_registering(folder: Path) -> None:
    cls = type(load_probe("mine.py:Majority", base=folder))
    try:
        register_probe("majority", cls)
        assert isinstance(load_probe("majority"), cls)
        with pytest.raises(UsageError, match="already exists"):
            register_probe("ridge", cls)
        with pytest.raises(UsageError, match="expected a class"):
            register_probe("number", 3)  # type: ignore[arg-type]
    finally:
        PROBES.added.pop("majority", None)
    with pytest.raises(UnknownName):
        load_probe("majority")


def test_public_names() -> None:
    assert probes.__all__ == sorted(probes.__all__, key=lambda name: (name != name.upper(), name))
    for name in probes.__all__:
        assert getattr(probes, name) is not None
    with pytest.raises(AttributeError):
        _ = probes.Normalizer
    assert issubclass(probes.ProbeDataError, FieldmarkError)
