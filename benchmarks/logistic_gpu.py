"""How long do logistic regression and the MLP take on a GPU, beside scikit-learn on all cores?

    python benchmarks/logistic_gpu.py                     18,000 x 768, 100 classes
    python benchmarks/logistic_gpu.py --quick             toy sizes
    python benchmarks/logistic_gpu.py --device cpu        the same code on the CPU

Wall seconds, of `fit` alone and of whole `fieldmark run` commands (start, features from the cache,
fit, answers, scores; the model looks its features up, so that no network counts). Features are
sparse (ReLU), correlated and heavy-tailed. scikit-learn is asked once with its defaults (lbfgs, tol
1e-4, 100 steps) and once at the tolerance that gives the same answers (newton-cg, tol 1e-6;
`--skip-exact` leaves it out: it takes minutes).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from _quick import Flags, finish
from fieldmark.probes import load_probe

STRENGTHS = [10.0**power for power in range(-6, 6)]
"""DINOv2's range, at whole powers"""

MODEL = """from pathlib import Path
import numpy as np
from fieldmark.models import Features

STORED = np.load(Path(__file__).with_name("features.npy"), mmap_mode="r")

class Stored:
    dim = STORED.shape[1]

    def __init__(self, device="auto"):
        self.device = device

    def transform(self, image):
        return np.asarray(image.convert("RGB"))[0, 0]

    def embed_images(self, batch):
        return Features(STORED[(batch.astype(int) @ (65536, 256, 1)) % len(STORED)])
"""
"""knows an image by the number that its colour spells"""
TASK = """task: numbers
title: numbers
dataset: csv
data: numbers.csv
metric: accuracy
train: {split: train}
test: {split: test}
probe: {classifier: logistic}
"""


def make_features(n: int, width: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    y = np.arange(n) % n_classes
    mix = random.normal(size=(width, width)) / width**0.5
    x = 0.12 * random.normal(size=(n_classes, width))[y] + random.normal(size=(n, width))
    x = np.maximum(x @ mix * np.arange(1, width + 1) ** -0.2, 0)
    return (x * np.exp(0.3 * random.normal(size=(n, 1)))).astype(np.float32), y


def timed(
    name: str, work: Callable[[], Any], x_test: Any, y_test: np.ndarray
) -> tuple[np.ndarray, float]:
    """Its answers, and the seconds of its fit."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    began = time.monotonic()
    probe = work()
    seconds = time.monotonic() - began
    answer = np.asarray(probe.predict(x_test))
    right = (answer == y_test).mean()
    notes = "; ".join(getattr(probe, "fit_notes_", []))
    print(f"{name:58s} {seconds:8.2f} s   {right:6.1%} right   {notes}", flush=True)
    return answer, seconds


def write_task(folder: Path, x_nd: np.ndarray, y: np.ndarray, n_train: int) -> None:
    """Images whose colour is their number, a table of them, and the model that knows them."""
    (folder / "images").mkdir()
    for number in range(len(y)):
        colour = (number >> 16, number >> 8 & 255, number & 255)
        Image.new("RGB", (8, 8), colour).save(folder / "images" / f"{number}.png")
    rows = (
        f"{at},images/{at}.png,{'train' if at < n_train else 'test'},class {label}"
        for at, label in enumerate(y)
    )
    (folder / "numbers.csv").write_text("\n".join(["id,image,split,label", *rows]))
    (folder / "numbers.yaml").write_text(TASK)
    (folder / "stored.py").write_text(MODEL)
    np.save(folder / "features.npy", x_nd)


def time_runs(folder: Path, device: str, probes: list[str]) -> None:
    """Whole commands; the first one of all also embeds the images."""

    def command(*words: str) -> str:
        whole = [sys.executable, "-m", "fieldmark", *words]
        done = subprocess.run(whole, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        return done.stdout

    run = ["run", "--task", "numbers.yaml", "--model", "stored.py:Stored", "--device", device]
    command(*run, "--probe", "simpleshot")  # so that all features are in the cache
    for probe in probes:
        results = f"results-{len(list(folder.iterdir()))}"
        began = time.monotonic()
        command(*run, "--results", results, "--probe", *probe.split())
        spent_s = time.monotonic() - began
        [row] = json.loads(command("table", "--json", "--results", results))
        print(
            f"{'fieldmark run --probe ' + probe.partition('=')[0]:58s} {spent_s:8.2f} s   "
            f"{row['value']:6.1%} right   fit and answers {row['seconds']:.2f} s",
            flush=True,
        )


def main() -> int:
    flags = Flags(__doc__)
    flags.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    flags.add_argument("--size", default="18000,768,100", help="rows, columns, classes")
    flags.add_argument("--skip-exact", action="store_true")
    flags.add_argument("--skip-mlp", action="store_true")
    given = flags.parse()
    n, width, n_classes = (600, 32, 5) if given.quick else map(int, given.size.split(","))
    x, y = make_features(n + n // 5, width, n_classes)
    train, test, y_train, y_test = x[:n], x[n:], y[:n], y[n:]
    is_gpu = given.device != "cpu"
    here = torch.as_tensor(train, device=given.device) if is_gpu else train
    there = torch.as_tensor(test, device=given.device) if is_gpu else test
    print(
        f"{n} x {width}, {n_classes} classes; {given.device}; torch threads "
        f"{torch.get_num_threads()}\n"
    )
    warnings.simplefilter("ignore")

    def ours(name: str, **params: Any) -> Callable[[], Any]:
        return lambda: load_probe(name, params).fit(here, y_train)

    if is_gpu:  # the first product loads CUDA's libraries
        load_probe("logistic").fit(here[:500], y_train[:500])
    answers, ours_s = timed("fieldmark logistic, C = 1", ours("logistic"), there, y_test)
    path = f"fieldmark logistic, best of {len(STRENGTHS)} strengths"
    timed(path, ours("logistic", C=STRENGTHS), there, y_test)
    if not given.skip_mlp:
        timed("fieldmark mlp, defaults", ours("mlp"), there, y_test)
    with tempfile.TemporaryDirectory() as folder:
        write_task(Path(folder), x, y, n)
        every = f"logistic C={json.dumps(STRENGTHS, separators=(',', ':'))}"
        time_runs(Path(folder), given.device, ["logistic", every, *["mlp"][given.skip_mlp :]])

    def theirs(**params: Any) -> Callable[[], Any]:
        model = LogisticRegression(class_weight="balanced", **params)
        return lambda: model.fit(train, y_train)

    rival, theirs_s = timed("scikit-learn LogisticRegression, defaults", theirs(), test, y_test)
    print(f"{'':58s} {(rival == answers).mean():.2%} of answers equal")
    if not given.skip_mlp:
        mlp = load_probe("mlp")
        network = MLPClassifier(mlp.hidden, batch_size=mlp.batch_size, max_iter=mlp.epochs)
        name = "scikit-learn MLPClassifier, same size, batches and epochs"
        timed(name, lambda: network.fit(train, y_train), test, y_test)
    if not given.skip_exact:
        exact = theirs(solver="newton-cg", tol=1e-6, max_iter=1000)
        rival, _ = timed("scikit-learn newton-cg, tol 1e-6", exact, test, y_test)
        print(f"{'':58s} {(rival == answers).mean():.2%} of answers equal")
    figure = f"logistic_gpu: {ours_s:.2f} s, {theirs_s / ours_s:.1f} x scikit-learn's defaults"
    return finish(figure, {}, given.quick)


if __name__ == "__main__":
    sys.exit(main())
