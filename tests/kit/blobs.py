"""Pictures in three classes, a task about them, and a model that logs what it embeds."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from fieldmark.store import Store
from kit.pictures import write_image

N_IMAGES = 72
MODEL = '''
import os, time
import numpy as np
from pathlib import Path
from fieldmark.models import Features

class Slow:
    """Mean colours; writes a line for each image it embeds, so that double work shows."""
    dim = 12
    batch_size = 4
    def transform(self, image):
        return np.asarray(image.resize((2, 2)), np.float32)
    n_checks = 2
    def embed_images(self, batch):
        if self.n_checks:  # the test pictures, together and one alone
            self.n_checks -= 1
            return Features(batch.reshape(len(batch), -1))
        with open(os.environ["EMBED_LOG"], "a") as log:
            for each in batch:
                log.write(str(float(each.sum())) + "\\n")
        time.sleep(float(os.environ.get("EMBED_PAUSE", "0")))
        return Features(batch.reshape(len(batch), -1))

class Other(Slow):
    pass

class Broken(Slow):
    def embed_images(self, batch):
        raise RuntimeError("the GPU is on fire")
'''
TASK = """
task: blobs
title: Blobs
dataset: folder
metric: accuracy
also: [macro_f1]
parts: {parts}
probe: {{classifier: simpleshot, normalise: [centre, l2]}}
"""


def make_blobs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of 72 pictures in 3 classes, a task with 2 parts, models that log their work."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("EMBED_LOG", str(folder / "log"))
    monkeypatch.setenv("FIELDMARK_CACHE", str(folder / "cache"))
    monkeypatch.setenv("FIELDMARK_DATA_FOLDER", str(folder / "photos"))
    for number in range(N_IMAGES):
        split, name = ("train", "test")[number % 2], "abc"[number % 3]
        write_image(folder / "photos" / split / name / f"{number}.png", number)
    there, back = (
        "{train: {split: train}, test: {split: test}}",
        "{train: {split: test}, test: {split: train}}",
    )
    (folder / "blobs.yaml").write_text(TASK.format(parts=f"{{p1: {there}, p2: {back}}}"))
    (folder / "m.py").write_text(MODEL)
    return folder


def answers(results: Path) -> list[tuple[object, ...]]:
    """Everything that was found, without when and how long."""
    with Store.open(results / "fieldmark.db", read_only=True) as store:
        predictions = [
            (run.spec.model, run.spec.n_train, run.spec.seed, *row)
            for run in store.runs()
            for row in store.predictions(run.id).iter_rows()
        ]
    with sqlite3.connect(results / "fieldmark.db") as db:
        scores = db.execute(
            "SELECT run.model, n_train, seed, score.part, metric, value, low, high, n FROM score"
            " JOIN run ON run.id = score.run WHERE run.state = 'done'"
        ).fetchall()
    return sorted(predictions, key=repr) + sorted(scores, key=repr)


def n_lines(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0
