"""CLIP_benchmark in `benchmarks/clip_benchmark.py`, run by it where the package is installed.

python -P _clip_rival.py JOB.json

The job names the model's folder, the images, their class numbers and captions, the class names and
the templates. Prints the figures as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import open_clip
import torch
from clip_benchmark.metrics import zeroshot_classification, zeroshot_retrieval
from PIL import Image

BATCH = 64


class Images(torch.utils.data.Dataset):  # type: ignore[misc]
    """Prepared images, each with its class or its captions."""

    def __init__(self, job: dict[str, Any], prepare: Any, answers: list[Any]) -> None:
        self.paths, self.prepare, self.answers = job["images"], prepare, answers
        self.classes = job["classes"]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, at: int) -> tuple[Any, Any]:
        with Image.open(self.paths[at]) as image:
            return self.prepare(image.convert("RGB")), self.answers[at]


def collate(rows: list[tuple[Any, Any]]) -> tuple[Any, list[Any]]:
    images, captions = zip(*rows, strict=True)
    return torch.stack(images), list(captions)


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    model, _, prepare = open_clip.create_model_and_transforms(job["model"])
    model.eval()
    tokenizer = open_clip.get_tokenizer(job["model"])
    labelled = torch.utils.data.DataLoader(Images(job, prepare, job["labels"]), BATCH)
    figures = zeroshot_classification.evaluate(
        model, labelled, tokenizer, job["classes"], job["templates"], "cpu", amp=False
    )
    captions = [[caption] for caption in job["captions"]]
    captioned = torch.utils.data.DataLoader(
        Images(job, prepare, captions), BATCH, collate_fn=collate
    )
    figures |= zeroshot_retrieval.evaluate(
        model, captioned, tokenizer, "cpu", amp=False, recall_k_list=job["depths"]
    )
    print(json.dumps({**figures, "version": version("clip_benchmark")}))


if __name__ == "__main__":
    os.environ["HF_HUB_OFFLINE"] = "1"
    main()
