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

torch = pytest.importorskip("torch")
open_clip = pytest.importorskip("open_clip")
pytestmark = pytest.mark.slow

STEPS, BATCH = 250, 48
VISION = {"image_size": 64, "layers": 2, "width": 64, "head_width": 16, "patch_size": 8}
TEXT = {"context_length": 77, "vocab_size": 49408, "width": 64, "heads": 4, "layers": 1}


@pytest.fixture(scope="module")
def trained(root: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of a small CLIP that has learnt from the training photos and their captions."""
    import json

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


@pytest.fixture(scope="module")
def both(trained: str) -> tuple[str, TurnedRound]:
    return trained, TurnedRound(load_model(trained, device="cpu", precision="float32"))


def test_species_by_their_names(both: Any, settings: Settings) -> None:
    asked = {"protocol": "zero_shot", "zero_shot": {"text": "com", "templates": "a photo of {}."}}
    right, wrong = (
        evaluate(model, "world-species", settings=settings, **asked).score for model in both
    )
    assert right.low > 3 / 24, "chance is 1 in 24"
    assert wrong.value < 1 / 24 < right.low


def test_captions_both_ways(both: Any, settings: Settings) -> None:
    right, wrong = (evaluate(model, "world-captions", settings=settings) for model in both)
    n = right.predictions["id"].n_unique()
    for result, is_above in ((right, True), (wrong, False)):
        parts = {s.part: s.value for s in result.scores if s.metric == "multi_mrr"}
        for way in ("image_to_text", "text_to_image"):
            chance = _chance_mrr(n, 4)
            assert (parts[way] > 3 * chance) if is_above else (parts[way] < chance)


def _chance_mrr(n: int, n_positives: int) -> float:
    """Of a random order of n with so many positives."""
    draw = np.random.default_rng(0)
    first = [draw.choice(n, n_positives, replace=False).min() + 1 for _ in range(2000)]
    return float(np.mean(1 / np.array(first)))


def test_photos_for_a_query(
    both: Any, settings: Settings, root: Callable[[str], Path], tmp_path: Path
) -> None:
    photos = pl.read_csv(root("world") / "photos.csv")
    photos = photos.filter(pl.col("question") == "species", pl.col("split") == "test")
    names = photos["common_name"].unique().sort().to_list()[:10]
    rows = [
        {"id": f"{name}/{item}", "image": image, "split": "test", "query_id": name,
         "query": f"a photo of {name}.", "relevant": "yes" if own == name else "no"}
        for name in names
        for item, image, own in photos.select("id", "image", "common_name").iter_rows()
    ]  # fmt: skip
    pl.DataFrame(rows).write_csv(tmp_path / "rows.csv")
    (tmp_path / "images").symlink_to(root("world") / "images")
    task = {"task": "queries", "title": "Queries", "dataset": "csv", "data": "rows.csv",
            "metric": "ap_at_k", "rerank": {}}  # fmt: skip
    (tmp_path / "queries.yaml").write_text(yaml.safe_dump(task))
    right, wrong = (
        evaluate(model, str(tmp_path / "queries.yaml"), settings=settings).score for model in both
    )
    chance = 1 / photos["common_name"].n_unique()
    assert right.low > 3 * chance and wrong.value < 2 * chance
