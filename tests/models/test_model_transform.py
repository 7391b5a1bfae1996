"""Our resizing against the evaluation transforms that the checkpoints' own libraries make."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from fieldmark.models import Recipe, load_model

SIZES = [(48, 40), (40, 48), (333, 97), (64, 64), (500, 375), (21, 60)]


def as_levels(recipe: Recipe, scaled: object) -> np.ndarray:
    """A library's normalised 3 × h × w tensor as height × width × 3 in 0…255."""
    pixels = np.asarray(scaled).transpose(1, 2, 0) * np.array(recipe.std) + np.array(recipe.mean)
    return pixels * 255


def assert_same_pixels(recipe: Recipe, image: Image.Image, scaled: object) -> None:
    """Rarely a level apart: each of Pillow's two passes rounds, and ties may fall either way."""
    difference = np.abs(recipe(image).astype(float) - as_levels(recipe, scaled))
    assert difference.max() <= 2.01
    assert difference.mean() < 0.1


@pytest.mark.parametrize("mode", ["center", "squash", "border"])
@pytest.mark.parametrize("size", SIZES)
def test_as_timm_does(
    make_photo: Callable[..., Image.Image], mode: str, size: tuple[int, int]
) -> None:
    import timm

    ours = load_model("timm/test_resnet?pretrained=false&size=32", device="cpu").preprocess
    about = {"mean": ours.mean, "std": ours.std, "interpolation": "bicubic"}
    theirs = timm.data.create_transform((3, 32, 32), crop_pct=0.9, crop_mode=mode, **about)
    fit = {"center": "shortest", "squash": "squash", "border": "longest"}[mode]
    fill = tuple(round(255 * each) for each in ours.mean)
    recipe = Recipe((32, 32), (35, 35), fit, mean=ours.mean, std=ours.std, fill=fill)
    image = make_photo(1, *size)
    assert_same_pixels(recipe, image, theirs(image))


@pytest.mark.parametrize(
    "name", ["test_resnet", "test_vit", "efficientnet_b0", "swin_tiny_patch4_window7_224"]
)
def test_recipes_are_those_of_timm(make_photo: Callable[..., Image.Image], name: str) -> None:
    import timm
    import torch

    from fieldmark.models.timm import _recipe

    with torch.device("meta"):
        model = timm.create_model(name, num_classes=0)
    is_fixed = bool(model.pretrained_cfg.get("fixed_input_size"))
    about = timm.data.resolve_model_data_config(model, use_test_size=not is_fixed)
    image = make_photo(2, 300, 200)
    assert_same_pixels(
        _recipe(timm, model, None), image, timm.data.create_transform(**about)(image)
    )


@pytest.mark.parametrize("tag", ["ViT-B-16/openai", "ViT-B-16-SigLIP/webli", "PE-Core-B-16/meta"])
def test_as_open_clip_does(make_photo: Callable[..., Image.Image], tag: str) -> None:
    import open_clip
    from open_clip.transform import PreprocessCfg, image_transform_v2

    from fieldmark.models.open_clip import _recipe

    about = open_clip.get_pretrained_cfg(*tag.split("/"))
    keys = ("mean", "std", "interpolation", "resize_mode")
    cfg = PreprocessCfg(size=64, **{key: about[key] for key in keys})
    recipe = _recipe({**{key: about[key] for key in keys}, "size": 64, "fill_color": 0})
    for size in SIZES:
        image = make_photo(3, *size)
        assert_same_pixels(recipe, image, image_transform_v2(cfg, is_train=False)(image))


@pytest.mark.parametrize("name", ["resnet50", "efficientnet_v2_s", "vit_b_16"])
def test_as_torchvision_does(make_photo: Callable[..., Image.Image], name: str) -> None:
    import torchvision

    from fieldmark.models.torchvision import _recipe

    preset = torchvision.models.get_model_weights(name).DEFAULT.transforms()
    image = make_photo(4, 420, 280)
    assert_same_pixels(_recipe(preset, None), image, preset(image))


@pytest.mark.parametrize("kind", ["clip", "siglip", "dinov2"])
def test_as_transformers_does(
    make_photo: Callable[..., Image.Image], hf_folders: dict[str, Path], kind: str
) -> None:
    import transformers

    recipe = load_model(f"hf/{hf_folders[kind]}", device="cpu").preprocess
    theirs = transformers.AutoImageProcessor.from_pretrained(hf_folders[kind], backend="pil")
    image = make_photo(5, 120, 90)
    scaled = theirs(image, return_tensors="np")["pixel_values"][0]
    assert_same_pixels(recipe, image, scaled)


def test_a_convnext_processor_crops_small_and_squashes_large(tmp_path: Path) -> None:
    import transformers

    config = {"hidden_sizes": [8, 8, 8, 8], "depths": [1, 1, 1, 1]}
    transformers.ConvNextConfig(**config).save_pretrained(tmp_path)
    for edge, expected in ((224, (256, "shortest")), (384, (384, "squash"))):
        transformers.ConvNextImageProcessor(size={"shortest_edge": edge}).save_pretrained(tmp_path)
        recipe = load_model(f"hf/{tmp_path}?pretrained=false", device="cpu").preprocess
        assert (recipe.size, recipe.resize[0], recipe.fit) == ((edge, edge), *expected)


def test_an_unusual_rescale_factor_is_undone(make_photo: Callable[..., Image.Image]) -> None:
    from fieldmark.models.hf import _scaling

    mean, std = _scaling({"rescale_factor": 1 / 127.5, "image_mean": [1] * 3, "image_std": [1] * 3})
    assert np.allclose((200 / 255 - mean[0]) / std[0], 200 / 127.5 - 1)
    mean, std = _scaling({"do_normalize": False, "do_rescale": False})
    assert np.allclose((200 / 255 - mean[0]) / std[0], 200)


@given(
    width=st.integers(1, 400),
    height=st.integers(1, 400),
    fit=st.sampled_from(["shortest", "squash", "longest"]),
    target=st.tuples(st.integers(1, 40), st.integers(1, 40)),
)
def test_any_image_gives_the_promised_shape(
    width: int, height: int, fit: str, target: tuple[int, int]
) -> None:
    image = Image.new("RGB", (width, height), (10, 200, 30))
    pixels = Recipe(target, fit=fit, fill=(10, 200, 30))(image)
    assert (pixels.shape, pixels.dtype) == ((*target, 3), np.uint8)
    assert (pixels == (10, 200, 30)).all()


def test_a_panorama_costs_no_more_than_it_shows() -> None:
    """Resized whole, this one would need 1.5 GB."""
    import tracemalloc

    image = Image.new("RGB", (20000, 2), "red")
    tracemalloc.start()
    assert Recipe((224, 224))(image).shape == (224, 224, 3)
    assert tracemalloc.get_traced_memory()[1] < 50_000_000
    tracemalloc.stop()


def test_size_enters_the_description() -> None:
    recipes = [
        Recipe((32, 32)),
        Recipe((32, 33)),
        Recipe((32, 32), (36, 36)),
        Recipe((32, 32), std=(1,)),
    ]
    recipes += [Recipe((32, 32), fit="squash"), Recipe((32, 32), interpolation="bilinear")]
    assert len({each.describe() for each in recipes}) == len(recipes)
