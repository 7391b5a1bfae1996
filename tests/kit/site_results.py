"""Results to make sites of: planted skills, odd names, photos of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fieldmark import draws
from fieldmark.data import content_key
from fieldmark.metrics import load_metric
from fieldmark.stats import Items, code_labels, estimate, interval
from fieldmark.store import PartResult, Predictions, RunSpec, Score, Store
from kit.pictures import write_image

EVIL = "</script><img src=x onerror=alert(1)>"
OWN_MODEL = '/home/ann/nets/"my" net.py:Mine?weights=/data/w.pt'
MODELS = {
    "classical/chance": 0.1,
    "classical/colour": 0.55,
    "timm/resnet50.a1_in1k": 0.8,
    "open-clip/ViT-B-16/openai": 0.8,
    OWN_MODEL: 0.6,
}
LABELS = ["red fox", "arctic fox", "hare", EVIL, 'tit "great"']
SPECIES = {
    "task": "foxes",
    "title": "Which fox is it?",
    "about": "Foxes & hares <b>by day</b>.",
    "dataset": "folder",
}


def make_results(folder: Path, n_items: int = 120) -> Path:
    """results/ and data/folder/ below `folder`: three tasks, five models, one with gaps, each asked
    the first task with few training images too.
    """
    photos(folder / "data" / "folder", n_items)
    with Store.open(folder / "results" / "fieldmark.db") as store:
        for model, skill in MODELS.items():
            for n_train in (None, 10):
                spec = RunSpec(model, "foxes", "probe/ridge", n_train=n_train, data="0a1b")
                run_whole(store, spec, skill * (0.7 if n_train == 10 else 1), n_items)
            macro = RunSpec(model, "stages", "probe/svm", {"score": "pooled"}, data="77aa")
            run_whole(store, macro, skill, n_items, "macro_accuracy")
            parts = RunSpec(model, "questions", "probe/svm", {"score": "mean"}, data="99")
            if model != "classical/colour":
                run_parts(store, parts, skill, n_items)
    return folder


def photos(root: Path, n_items: int) -> None:
    for number in range(n_items):
        write_image(root / "test" / "fox" / f"{number:05d}.png", number, (60, 48))


def item_names(n_items: int) -> list[str]:
    return [f"test/fox/{number:05d}.png" for number in range(n_items)]


def run_whole(
    store: Store, spec: RunSpec, skill: float, n_items: int, metric: str = "accuracy"
) -> int:
    """A run without parts; units are pairs of photos."""
    answers = seen(store, answered(spec, skill, n_items))
    run = store.begin_run(spec, {"config": {"task": SPECIES | {"task": spec.task}}})
    store.write_part(run, PartResult(answers, n_train=spec.n_train or 100))
    store.finish_run(run, [scored(answers, metric)])
    return run


def run_parts(store: Store, spec: RunSpec, skill: float, n_items: int) -> int:
    parts = ["age", "colour", EVIL]
    settings = {**spec.settings, "parts": parts}
    spec = RunSpec(spec.model, spec.task, spec.protocol, settings, data=spec.data)
    run = store.begin_run(spec, {"config": {"task": SPECIES | {"task": spec.task}}})
    scores = []
    for part in parts:
        answers = seen(store, answered(spec, skill, n_items, part))
        store.write_part(run, PartResult(answers, part=part))
        scores.append(scored(answers, "accuracy", part))
    value = float(np.mean([each.value for each in scores]))
    whole = Score("accuracy", value, "", value - 0.05, value + 0.05, n=3 * n_items, is_primary=True)
    store.finish_run(run, [whole, *scores])
    return run


def answered(spec: RunSpec, skill: float, n_items: int, part: str = "") -> Predictions:
    """The same truth for every model; answers right as often as the skill says; two are lost."""
    truth = draws.generator("truth", spec.task, part).integers(0, len(LABELS), n_items)
    random = draws.generator("answers", spec.model, spec.task, spec.n_train, part)
    is_right = random.random(n_items) < skill
    said = np.where(
        is_right, truth, (truth + random.integers(1, len(LABELS), n_items)) % len(LABELS)
    )
    targets, answers = ([LABELS[code] for code in codes] for codes in (truth, said))
    is_lost = [number < 2 and "resnet" in spec.model for number in range(n_items)]
    return Predictions(
        item_names(n_items),
        targets,
        [None if lost else each for lost, each in zip(is_lost, answers, strict=True)],
        scores=random.random(n_items).tolist(),
        units=[f"burst {number // 2}" for number in range(n_items)],
        outcomes=["failed" if lost else "ok" for lost in is_lost],
    )


def seen(store: Store, answers: Predictions) -> Predictions:
    """With the content of the photos, as a run notes it; they lie beside the results."""
    root = store.path.parent.parent / "data" / "folder"
    if not root.exists():
        return answers
    contents = [content_key((root / each).read_bytes()) for each in answers.ids]
    return replace(answers, contents=contents)


def scored(answers: Predictions, metric: str, part: str = "") -> Score:
    kept = [at for at, outcome in enumerate(answers.outcomes or ()) if outcome == "ok"]
    columns = [np.array(each, str)[kept] for each in (answers.targets, answers.predictions)]
    target, said = code_labels(np.full(len(kept), ""), *columns)
    units = np.array(answers.units)[kept]
    items, function = Items(target, units), load_metric(metric)
    found = interval(items, said, function)
    value = estimate(items, said, function)
    return Score(
        metric, value, part, found.low, found.high, n=len(kept), n_units=found.n_units,
        method=found.method, is_primary=True,
    )  # fmt: skip


def unpacked(packed: bytes) -> tuple[Mapping[str, Any], Mapping[str, np.ndarray]]:
    """Header and columns of packed predictions, read as the page reads them."""
    import gzip
    import json

    raw = gzip.decompress(packed)
    length = int.from_bytes(raw[:4], "little")
    header = json.loads(raw[4 : 4 + length])
    kinds = {1: "<u1", 2: "<u2", 4: "<u4"}
    columns = {
        name: np.frombuffer(raw, kinds[width], n, 4 + length + at)
        for name, (at, n, width) in header["layout"].items()
    }
    return header, columns
