"""Is the variant of a task what its source ran? Each against the recipe in scikit-learn's words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import loguniform
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, normalize
from sklearn.svm import SVC, LinearSVC

from fieldmark import evaluate
from fieldmark.data import load_dataset
from fieldmark.protocols.probe.fit import fit_probe, new_probe
from fieldmark.settings import Settings
from fieldmark.tasks import load_own_task
from kit.duals import HashDual

Recipe = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def photos(n_classes: int, n_each: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """ReLU-sparse features of unlike length, labels, and other photos."""
    random = np.random.default_rng(seed)
    code = np.repeat(np.arange(n_classes), n_each)
    mean_cd = random.normal(size=(n_classes, 24)) * 0.6
    made = [
        np.maximum(mean_cd[code] + random.normal(size=(len(code), 24)), 0)
        * random.lognormal(0, 0.5, (len(code), 1))
        for _ in range(2)
    ]
    names = np.array([f"class {number}" for number in range(n_classes)])
    return made[0].astype(np.float32), names[code], made[1].astype(np.float32)


def unit(x: np.ndarray) -> np.ndarray:
    return np.asarray(normalize(x))


def searched_svm(centred: bool) -> Recipe:
    def recipe(x: np.ndarray, y: np.ndarray, query: np.ndarray) -> np.ndarray:
        x, query = unit(x), unit(query)
        if centred:
            mean = x.mean(axis=0)
            x, query = unit(x - mean), unit(query - mean)
        if len(x) < 10:
            return SVC(kernel="linear").fit(x, y).predict(query)
        grid = {
            "svc__C": loguniform(1e-3, 1e1),
            "svc__kernel": ["rbf", "linear", "sigmoid", "poly"],
            "svc__gamma": loguniform(1e-4, 1e-3),
        }
        machine = make_pipeline(StandardScaler(), SVC())
        search = RandomizedSearchCV(machine, grid, n_iter=100, cv=5, random_state=42)
        return search.fit(x, y).predict(query)

    return recipe


def ridge(largest: int, scoring: str = "accuracy", weight: str | None = None) -> Recipe:
    def recipe(x: np.ndarray, y: np.ndarray, query: np.ndarray) -> np.ndarray:
        grid = {"ridgeclassifier__alpha": [2.0**power for power in range(-15, largest + 1)]}
        machine = make_pipeline(StandardScaler(), RidgeClassifier(class_weight=weight))
        folds = min(5, np.unique(y, return_counts=True)[1].max())
        search = GridSearchCV(machine, grid, scoring=scoring, cv=folds)
        return search.fit(x.astype(float), y).predict(query.astype(float))

    return recipe


def nearest_class(x: np.ndarray, y: np.ndarray, query: np.ndarray) -> np.ndarray:
    mean = x.mean(axis=0)
    return NearestCentroid().fit(unit(x - mean), y).predict(unit(query - mean))


RECIPES: dict[str, Recipe] = {
    "newt@biobench2026": lambda x, y, query: SVC(kernel="linear").fit(x, y).predict(query),
    "newt@visipedia": lambda x, y, query: (
        LinearSVC(dual=False, tol=1e-5).fit(unit(x), y).predict(unit(query))
    ),
    "newt@small_data_metrics": searched_svm(centred=True),
    "ages@original": searched_svm(centred=False),
    "newt@simpleshot": nearest_class,
    "plankton@original": ridge(10, weight="balanced"),
    "plantnet@biobench2024": ridge(10, "f1_macro", "balanced"),
    "imagenet1k@original": ridge(4),
    "inat21@original": ridge(4),
    "iwildcam@original": ridge(4, "f1_macro"),
    "rarespecies": nearest_class,
} | {
    name: lambda x, y, query: KNeighborsClassifier(1, metric="cosine").fit(x, y).predict(query)
    for name in ("beluga@closed", "leopard@closed")
}


SLOW = {("ages@original", 20)}  # newt's search stands for it in the fast tests


@pytest.mark.parametrize(
    ("name", "n_each"),
    [
        pytest.param(name, n, marks=pytest.mark.slow) if (name, n) in SLOW else (name, n)
        for name in RECIPES
        for n in (3, 20)
    ],
)
def test_a_variant_is_the_published_recipe(name: str, n_each: int) -> None:
    task = load_own_task(name)
    x, y, query = photos(2 if name.startswith(("newt", "ages")) else 6, n_each, 5)
    ours = fit_probe(task, task.block("probe"), x, y).ask_labels(query)[0]
    assert ours.tolist() == RECIPES[name](x, y, query).tolist()


@pytest.mark.parametrize(("name", "k"), [("beluga@biobench2026", 5), ("beluga@original", 1)])
@pytest.mark.parametrize("n_each", [3, 20])
def test_each_whale_is_asked_of_all_others(name: str, k: int, n_each: int) -> None:
    """With scikit-learn's ties: half of the answers at three photos an animal have one."""
    task = load_own_task(name)
    x, y, _ = photos(8, n_each, 6)
    ours = new_probe(task, task.block("probe")).fit(x, y).predict_leave_one_out()[0]
    for row, answer in enumerate(ours):
        others = np.arange(len(x)) != row
        theirs = KNeighborsClassifier(k, algorithm="brute").fit(x[others], y[others])
        assert answer == theirs.predict(x[row : row + 1])[0]


def test_each_leopard_is_a_machine_of_its_own() -> None:
    task = load_own_task("leopard@original")
    x, y, _ = photos(6, 4, 8)
    ours = new_probe(task, task.block("probe")).fit(x, y).predict_leave_one_out()[0]
    for row, answer in enumerate(ours):
        machine = LinearSVC(class_weight="balanced", C=0.1, tol=1e-6, max_iter=100_000)
        score = machine.fit(x, np.arange(len(x)) == row).decision_function(x)
        score[row] = -np.inf
        assert answer == y[score.argmax()]


def test_kabr_takes_the_strength_from_five() -> None:
    """The minimum of each strength is scikit-learn's; ours holds one tenth out to choose by."""
    task = load_own_task("kabr@biobench2026")
    x, y, query = photos(4, 30, 7)
    fitted = fit_probe(task, task.block("probe"), x, y)
    strength = fitted.probe.C_
    assert strength in (0.001, 0.01, 0.1, 1.0, 10.0)
    machine = LogisticRegression(C=strength, class_weight="balanced", tol=1e-8, max_iter=5000)
    theirs = make_pipeline(StandardScaler(), machine).fit(x.astype(float), y)
    assert fitted.ask_labels(query)[0].tolist() == theirs.predict(query.astype(float)).tolist()


@pytest.mark.parametrize(
    ("variant", "learning_rate", "epochs", "batch_size"),
    [("original", 5e-4, 100, 256), ("biobench2026", 3e-4, 405, 1024), ("bioclip2", 1e-4, 50, 256)],
)
def test_fish_are_learnt_as_published(
    variant: str, learning_rate: float, epochs: int, batch_size: int
) -> None:
    """The network itself is held against torch's in tests/probes/test_mlp.py."""
    task = load_own_task(f"fishnet@{variant}")
    block = task.block("probe")
    own = new_probe(task, block).get_params()
    published = {"learning_rate": learning_rate, "epochs": epochs, "batch_size": batch_size}
    published |= {"hidden": 512, "activation": "none", "dropout": 0.5, "halve_every": 20}
    assert published.items() <= own.items() and tuple(block.normalise) == ()


@dataclass
class TwoEyes(HashDual):
    """One projector turns everything the other way."""

    projectors: tuple[str, ...] = ("taxonomic", "caption")
    eye: str = "taxonomic"

    @property
    def fingerprint(self) -> str:
        return super().fingerprint + self.eye

    def projected(self, projector: str) -> TwoEyes:
        return TwoEyes(tag=self.tag, eye=projector)

    def embed_images(self, batch: np.ndarray, *, patches: bool = False) -> Any:
        features = super().embed_images(batch)
        features.pooled[:] *= 1 if self.eye == "taxonomic" else -1
        return features


@pytest.mark.parametrize("name", ["cornell_bird", "plantid"])
def test_captions_are_found_as_biocap_s_code_finds_them(
    name: str, settings: Settings, root: Callable[[str], Path]
) -> None:
    table = load_dataset(name).table(root(name))
    model = TwoEyes()
    result = evaluate(model, f"{name}@biocap", settings=settings)
    image_nd = model.image_rows([root(name) / path for path in table["image"]])
    text_nd = model.text_rows([f"a photo of{caption}" for caption in table["caption"]])
    score_nn = np.round(image_nd @ text_nd.T, 6)
    recalls = []
    for way_nn in (score_nn, score_nn.T):
        own_n1 = way_nn.diagonal()[:, None]
        better_n, alike_n = (way_nn > own_n1).sum(axis=1), (way_nn == own_n1).sum(axis=1)
        recalls.append(np.clip((10 - better_n) / alike_n, 0, 1).mean())  # ties in any order
    assert result.score.metric == "recall_at_10"
    assert result.score.value == pytest.approx(np.mean(recalls), abs=1e-9)
    assert result.score.value != pytest.approx(
        evaluate(model, name, settings=settings).score.value, abs=1e-9
    )
