"""A CLIP that a test trains on captions of the world is clearly above chance, and below it with its
texts turned round: sign, scale, tokeniser and order of texts are right all the way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml

from fieldmark.experiments import evaluate
from fieldmark.models import load_model
from fieldmark.settings import Settings

STEPS, BATCH = 200, 48
VISION = {"image_size": 64, "layers": 2, "width": 64, "head_width": 16, "patch_size": 8}
TEXT = {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1}


@pytest.fixture(scope="module")
def trained(root: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of a small CLIP that has learnt from the training photos and their captions."""
    import json

    torch, open_clip = pytest.importorskip("torch"), pytest.importorskip("open_clip")
    folder = tmp_path_factory.mktemp("clip")
    rows = pl.read_csv(root("world") / "photos.csv").filter(pl.col("split") == "train")
    rows = rows.filter(pl.col("question").is_in(["species", "behaviour", "habitat", "stage"]))
    about = {"embed_dim": 48, "vision_cfg": VISION, "text_cfg": TEXT}
    scaling = {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}
    config = {"model_cfg": about, "preprocess_cfg": scaling}
    (folder / "open_clip_config.json").write_text(json.dumps(config))
    torch.manual_seed(0)
    model = open_clip.create_model(f"local-dir:{folder}")
    _train(model, root("world"), rows)
    torch.save(model.state_dict(), folder / "open_clip_pytorch_model.bin")
    return f"open-clip/local-dir:{folder}"


def _train(model: Any, root: Path, rows: pl.DataFrame) -> None:
    import open_clip
    import torch
    from PIL import Image

    tokenise = open_clip.tokenizer.SimpleTokenizer(context_length=77)
    pictures = [Image.open(root / image).resize((64, 64)) for image in rows["image"]]
    pixels = torch.tensor(np.stack([np.asarray(picture) for picture in pictures]))
    pixels = pixels.permute(0, 3, 1, 2).float() / 127.5 - 1
    forms = [
        rows["caption"].to_list(),
        [f"a photo of {name}." for name in rows["common_name"]],
    ]
    tokens = [tokenise(texts) for texts in forms]
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    draw = np.random.default_rng(0)
    model.train()
    for step in range(STEPS):
        batch = draw.choice(len(rows), BATCH, replace=False)
        image = model.encode_image(pixels[batch], normalize=True)
        text = model.encode_text(tokens[step % 2][batch], normalize=True)
        logits = model.logit_scale.exp() * image @ text.T
        same = torch.tensor(
            [[forms[step % 2][a] == forms[step % 2][b] for b in batch] for a in batch]
        )
        target = same.float() / same.sum(1, keepdim=True)
        loss = torch.nn.functional.cross_entropy(logits, target)
        loss = loss + torch.nn.functional.cross_entropy(logits.T, target.T)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    model.eval()


class TurnedRound:
    """The same model with its texts on the other side."""

    def __init__(self, model: Any) -> None:
        self.inner, self.name = model, "turned-round"
        self.dim, self.logit_scale = model.dim, model.logit_scale
        self.fingerprint = f"turned {model.fingerprint}"
        self.transform, self.embed_images = model.transform, model.embed_images

    def embed_texts(self, texts: Sequence[str]) -> np.ndarray:
        return -self.inner.embed_texts(texts)


@pytest.mark.slow
def test_a_trained_clip_is_above_chance_and_below_it_turned_round(
    trained: str, settings: Settings, root: Callable[[str], Path], tmp_path: Path
) -> None:
    turned = TurnedRound(load_model(trained, device="cpu", precision="float32"))
    queries = _queries(root("world"), tmp_path)
    asked = {"protocol": "zero_shot", "zero_shot": {"text": "com", "templates": "a photo of {}."}}
    right, wrong = (
        {
            "species": evaluate(model, "world-species", settings=settings, **asked).score,
            "captions": evaluate(model, "world-captions", settings=settings).score,
            "queries": evaluate(model, queries, settings=settings).score,
        }
        for model in (trained, turned)
    )
    chance = {
        "species": 1 / 24,
        "captions": 5 / len(_photos(root("world"))),
        "queries": 1 / 24,
    }
    for name, level in chance.items():
        assert right[name].value > 3 * level and right[name].low > level, name
        assert wrong[name].value < right[name].low, name
    assert wrong["species"].value <= chance["species"]


def _photos(world: Path) -> pl.DataFrame:
    photos = pl.read_csv(world / "photos.csv")
    return photos.filter(pl.col("question") == "species", pl.col("split") == "test")


def _queries(world: Path, folder: Path) -> str:
    """A task: each of ten names against all test photos."""
    photos = _photos(world)
    rows = [
        {"id": f"{name}/{item}", "image": image, "split": "test", "query_id": name,
         "query": f"a photo of {name}.", "relevant": "yes" if own == name else "no"}
        for name in photos["common_name"].unique().sort().to_list()[:10]
        for item, image, own in photos.select("id", "image", "common_name").iter_rows()
    ]  # fmt: skip
    pl.DataFrame(rows).write_csv(world / "queries.csv")
    task = {
        "task": "queries",
        "title": "Queries",
        "dataset": "csv",
        "data": str(world / "queries.csv"),
        "options": {"label": "relevant"},
        "metric": "ap_at_k",
        "rerank": {},
    }
    path = folder / "queries.yaml"
    path.write_text(yaml.safe_dump(task))
    return str(path)
