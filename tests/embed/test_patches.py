"""Patches: pooled before they are kept, apart from the image's own features."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fieldmark.data import ImageRef
from fieldmark.embed import EmbedOptions, PatchFeatures, cached_models, embed
from fieldmark.errors import ModelError
from fieldmark.models import Features, load_model
from kit.pictures import write_image


class Tiles:
    name, dim, fingerprint, batch_size = "tiles", 3, "tiles 1", 4

    def transform(self, image: Image.Image) -> np.ndarray:
        return np.asarray(image.resize((32, 32)), np.float32)

    def embed_images(self, batch: np.ndarray, *, patches: bool = False) -> Features:
        tiles = batch.reshape(len(batch), 4, 8, 4, 8, 3).mean(axis=(2, 4)).reshape(-1, 16, 3)
        return Features(tiles.mean(axis=1), tiles if patches else None)


@pytest.fixture
def items(tmp_path: Path) -> tuple[Path, list[ImageRef]]:
    for number in range(6):
        write_image(tmp_path / f"{number}.png", number, size=(40, 30))
    return tmp_path, [ImageRef(f"{number}.png") for number in range(6)]


def test_mean_and_maximum_side_by_side(items: tuple[Path, list[ImageRef]], tmp_path: Path) -> None:
    root, refs = items
    cache = tmp_path / "cache"
    seen = PatchFeatures(Tiles())
    assert seen.dim == 6
    found = embed(seen, root, refs, EmbedOptions(cache))
    image = embed(Tiles(), root, refs, EmbedOptions(cache))
    assert found.features.shape == (6, 6)
    np.testing.assert_allclose(found.features[:, :3], image.features, rtol=1e-5)
    assert (found.features[:, 3:] >= found.features[:, :3]).all()
    assert found.n_computed == image.n_computed == 6, "neither takes the other's features"
    assert embed(seen, root, refs, EmbedOptions(cache)).n_computed == 0
    assert {each.model for each in cached_models(cache)} == {"tiles", "tiles patches"}
    assert all(each.n_bytes < 2000 for each in cached_models(cache)), "no patch is kept"


def test_another_model_has_another_fingerprint() -> None:
    other = Tiles()
    other.fingerprint = "tiles 2"
    marks = {PatchFeatures(each).fingerprint for each in (Tiles(), other)} | {"tiles 1", "tiles 2"}
    assert len(marks) == 4


def test_a_model_without_patches_is_told_in_one_line(
    items: tuple[Path, list[ImageRef]], tmp_path: Path
) -> None:
    root, refs = items
    with pytest.raises(ModelError) as caught:
        embed(
            PatchFeatures(load_model("classical/pixels")), root, refs, EmbedOptions(tmp_path / "c")
        )
    assert str(caught.value) == (
        "model 'classical/pixels' gives no patch features: take one that does (a network of timm, "
        "open-clip or hf), or `features: image` in the probe block."
    )


def test_a_transformers_patches(items: tuple[Path, list[ImageRef]], tmp_path: Path) -> None:
    pytest.importorskip("timm")
    root, refs = items
    model = load_model("timm/vit_tiny_patch16_224?pretrained=false", device="cpu")
    seen = PatchFeatures(model)
    found = embed(seen, root, refs[:2], EmbedOptions(tmp_path / "c", batch_size=2)).features
    assert found.shape == (2, 2 * model.dim)
    batch = np.stack([seen.transform(Image.open(root / each.image)) for each in refs[:2]])
    patches = model.embed_images(batch, patches=True).patches
    np.testing.assert_allclose(found[:, : model.dim], patches.mean(axis=1), atol=1e-4)
    np.testing.assert_allclose(found[:, model.dim :], patches.max(axis=1), atol=1e-4)
