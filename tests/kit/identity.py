"""A small world whose every piece can be changed: photos, clips, labels, a model of several files,
a probe, a task for chat models, documents in lmms-eval's form."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np

from fieldmark.experiments import ExecuteOptions, Plan, execute, make_jobs, make_plan, single_axes
from fieldmark.progress import Silent
from fieldmark.settings import Settings, load_settings
from fieldmark.store import Run, RunFilter, Store
from kit.pictures import write_image

FILES = {
    "zoo.py": """
        import csv
        import polars as pl
        from fieldmark.data import Info, finish_table

        class Zoo:
            INFO = Info(title="Zoo", licence="CC0", citation="none")

            @staticmethod
            def table(root):
                with (root / "items.csv").open(newline="") as file:
                    rows = list(csv.DictReader(file))
                for row in rows:
                    row["image"] = row["image"].split(";")
                    row["crop"] = [float(n) for n in row["crop"].split()] or None
                return finish_table(pl.DataFrame(rows), root)

            check = make = None
        """,
    "m.py": """
        from pathlib import Path

        import numpy as np
        from helper import scaled
        from fieldmark.models import Features

        HERE = Path(__file__).parent

        class Mine:
            dim = 12

            def __init__(self, weights: str = ""):
                self.gain = np.load(HERE / "gain.npy")
                self.files = [np.load(each) for each in sorted(Path(weights).rglob("*.npy"))]

            def transform(self, image):
                return np.asarray(image.resize((2, 2)), np.float32)

            def embed_images(self, batch):
                return Features(scaled(batch.reshape(len(batch), -1)) * self.gain)
        """,
    "helper.py": """
        def scaled(x):
            return x / 255.0
        """,
    "pr.py": """
        import numpy as np
        from pr_help import nearest

        class P:
            def __init__(self, k: int = 1):
                self.k = k

            def get_params(self, deep=True):
                return {"k": self.k}

            def fit(self, x, y):
                self.x, self.y = x, np.asarray(y)
                return self

            def predict(self, x):
                return self.y[nearest(self.x, x)]
        """,
    "pr_help.py": """
        import numpy as np

        def nearest(x, asked):
            return [int(np.abs(x - each).sum(axis=1).argmin()) for each in asked]
        """,
    "zoo.yaml": """
        task: zoo
        title: Zoo
        dataset: zoo.py:Zoo
        data: photos
        metric: accuracy
        probe: {classifier: "pr.py:P"}
        ask: {prompt: "Which animal is this?", names: common}
        """,
    "docs.yaml": """
        task: docs
        dataset_path: json
        dataset_kwargs: {data_files: {test: documents.jsonl, train: documents.jsonl}}
        test_split: test
        fewshot_split: train
        output_type: generate_until
        doc_to_visual: !function utils.doc_to_visual
        doc_to_text: "{{question}} Answer with one word."
        doc_to_target: "{{answer}}"
        generation_kwargs: {max_new_tokens: 16, temperature: 0.7}
        metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
        """,
    "utils.py": """
        from pathlib import Path
        from PIL import Image
        from util_help import path_of

        def doc_to_visual(doc):
            return [Image.open(Path(__file__).parent / path_of(doc)).convert("RGB")]
        """,
    "util_help.py": """
        def path_of(doc):
            return doc["image"]
        """,
}
COLUMNS = ("id", "image", "split", "label", "unit", "common", "crop")
N = 18


def make_world(place: Path) -> Path:
    for name, text in FILES.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
    np.save(place / "gain.npy", np.ones(12, np.float32))
    (place / "weights" / "deep").mkdir(parents=True)
    np.save(place / "weights" / "deep" / "w.npy", np.ones(3))
    rows = [_row(place / "photos", number) for number in range(N)]
    write_items(place, rows)
    (place / "documents.jsonl").write_text(
        "".join(
            json.dumps({"question": f"Which ({n})?", "answer": row["label"], "image": f"d/{n}.png"})
            + "\n"
            for n, row in enumerate(rows[:6])
        )
    )
    for n in range(6):
        write_image(place / "d" / f"{n}.png", 100 + n)
    return place


def _row(photos: Path, n: int) -> dict[str, str]:
    """Every third item is a clip of two frames, every fourth is cropped."""
    frames = [f"{n:02d}-{frame}.png" for frame in range(2 if n % 3 == 0 else 1)]
    for place, frame in enumerate(frames):
        write_image(photos / frame, n % 3 + 3 * (10 * n + place), (24, 20))
    return {
        "id": f"item-{n:02d}",
        "image": ";".join(frames),
        "split": ("train", "test")[n // 3 % 2],
        "label": ("ant", "bee", "cat")[n % 3],
        "unit": f"burst-{n // 2}",
        "common": ("an ant", "a bee", "a cat")[n % 3],
        "crop": "2 2 12 12" if n % 4 == 0 else "",
    }


def read_items(place: Path) -> list[dict[str, str]]:
    with (place / "photos" / "items.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def write_items(place: Path, rows: Sequence[dict[str, str]]) -> None:
    with (place / "photos" / "items.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text, f"{path} does not hold {old!r}"
    path.write_text(text.replace(old, new))


def settings_at(place: Path, **changes: Any) -> Settings:
    own = replace(load_settings(), results=place / "results", cache=place / "cache", threads=2)
    return replace(own, **changes)


def plan_of(
    place: Path,
    model: str,
    task: str,
    changes: dict[str, Any] | None = None,
    may_load: bool = True,
    **axes: Any,
) -> Plan:
    jobs = make_jobs([(model, "")], [(str(place / task), "")], single_axes(axes))
    return make_plan(jobs, settings_at(place, **(changes or {})), may_load=may_load)


def status_of(place: Path, model: str, task: str, **more: Any) -> str:
    (planned,) = plan_of(place, model, task, **more).jobs
    return planned.status


def run_it(place: Path, model: str, task: str, **more: Any) -> float:
    """The value of the run, done now or before."""
    plan = plan_of(place, model, task, **more)
    settings = settings_at(place, **(more.get("changes") or {}))
    outcome = execute(plan, settings, Silent(), ExecuteOptions())
    outcome.raise_if_failed()
    (planned,) = plan.jobs
    with Store.open(settings.store, read_only=True) as store:
        run = store.run(planned.run.name if planned.run else outcome.names[0])
        assert run is not None and run.state == "done"
        (value,) = (s.value for s in store.scores()[run.id] if s.is_primary)
    return float(value)


def runs_at(place: Path) -> list[Run]:
    with Store.open(place / "results" / "fieldmark.db", read_only=True) as store:
        return store.runs(RunFilter())
