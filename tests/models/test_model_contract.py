"""One suite over every family: what a backbone promises, whoever made it."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fieldmark.errors import FieldmarkError
from fieldmark.models import Backbone, DualEncoder, families, load_model

NAMES = {
    "classical/colour": 246,
    "classical/texture": 871,
    "classical/pixels": 768,
    "classical/shape": 187,
    "classical/all": 2072,
    "classical/words": 64,
    "classical/chance": 64,
    "timm/test_resnet?pretrained=false&size=64": 96,  # BatchNorm
    "timm/test_vit?pretrained=false&size=48": 64,
    "timm/test_vit?pretrained=false&size=48&pool=mean": 64,
    "timm/test_efficientnet?pretrained=false&size=48": 256,  # BatchNorm and drop-path
    "timm/test_convnext?pretrained=false&size=64": 64,
    "torchvision/resnet18?pretrained=false&size=48": 512,  # BatchNorm
    "torchvision/mobilenet_v3_small?pretrained=false&size=48": 1024,  # BatchNorm and dropout
    "open-clip/local-dir:CLIP": 24,
    "open-clip/local-dir:CLIP?pretrained=false": 24,
    "hf/dinov2": 32,
    "hf/dinov2?size=48": 32,
    "hf/dinov3": 32,
    "hf/siglip": 32,
    "hf/siglip?size=64": 32,
    "hf/clip": 24,
    "hf/vit": 32,
    "hf/vit?pretrained=false&pool=mean": 32,
    "hf/convnext": 16,
    "hf/vjepa2": 32,
}

BATCH_NORM = [
    "timm/test_resnet?pretrained=false&size=64",
    "timm/test_efficientnet?pretrained=false&size=48",
    "torchvision/resnet18?pretrained=false&size=48",
]

AGAIN = (
    "timm/test_vit?pretrained=false&size=48&pool=mean",
    "timm/test_convnext?pretrained=false&size=64",
    "torchvision/mobilenet_v3_small?pretrained=false&size=48",
    "open-clip/local-dir:CLIP?pretrained=false",
    "hf/dinov2?size=48",
    "hf/siglip?size=64",
    "hf/vit?pretrained=false&pool=mean",
)
"""other options or networks of a family that has a fast one above"""


@pytest.fixture(scope="session")
def load(hf_folders: dict[str, Path], clip_folder: Path) -> Callable[[str], Backbone]:
    """`load_model`, with the short names of the table above, each loaded once."""
    places = {f"hf/{name}": f"hf/{folder}" for name, folder in hf_folders.items()}

    @cache
    def by_name(name: str) -> Backbone:
        base, mark, options = name.partition("?")
        full = places.get(base, base).replace("CLIP", str(clip_folder))
        return load_model(f"{full}{mark}{options}", device="cpu")

    return by_name


@pytest.fixture(
    params=[
        pytest.param(name, marks=pytest.mark.slow) if name in AGAIN else name for name in NAMES
    ],
    scope="session",
)
def model(request: pytest.FixtureRequest, load: Callable[[str], Backbone]) -> Backbone:
    return load(request.param)


def embed(model: Backbone, images: list[Image.Image]) -> np.ndarray:
    return model.embed_images(np.stack([model.transform(each) for each in images])).pooled


def test_every_family_of_ours_is_in_the_suite() -> None:
    ours = {"classical", "hf", "open-clip", "timm", "torchvision"}
    assert {name.partition("/")[0] for name in NAMES} == ours <= set(families())


def test_shape_type_and_dim(model: Backbone, photos: list[Image.Image]) -> None:
    features = embed(model, photos)
    assert isinstance(model, Backbone)
    assert features.shape == (7, model.dim)
    assert features.dtype == np.float32
    assert features.flags.c_contiguous
    assert np.isfinite(features).all()
    assert len({row.tobytes() for row in features}) == 7


def test_dims_are_as_documented(load: Callable[[str], Backbone]) -> None:
    assert {name: load(name).dim for name in NAMES} == NAMES


def test_order_and_batch_size_change_nothing(model: Backbone, photos: list[Image.Image]) -> None:
    together = embed(model, photos)
    backwards = embed(model, photos[::-1])[::-1]
    alone = np.concatenate([embed(model, [each]) for each in photos])
    beside_noise = embed(model, [photos[0], Image.new("RGB", (9, 9), "white")])[:1]
    tolerance = 0 if model.name.startswith("classical/") else 1e-5
    for other in (backwards, alone):
        assert np.abs(together - other).max() <= tolerance * max(1.0, np.abs(together).max())
    assert np.abs(together[:1] - beside_noise).max() <= tolerance * max(1.0, np.abs(together).max())


def test_twice_the_same(model: Backbone, photos: list[Image.Image]) -> None:
    assert np.array_equal(embed(model, photos), embed(model, photos))


@pytest.mark.parametrize("name", BATCH_NORM)
def test_threads_change_nothing(
    load: Callable[[str], Backbone], photos: list[Image.Image], name: str
) -> None:
    import torch

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = embed(load(name), photos)
        torch.set_num_threads(4)
        shared = embed(load(name), photos)
    finally:
        torch.set_num_threads(before)
    assert np.abs(alone - shared).max() <= 1e-5 * max(1.0, np.abs(alone).max())


def test_an_empty_batch_has_no_rows(model: Backbone, photos: list[Image.Image]) -> None:
    batch = np.stack([model.transform(photos[0])])[:0]
    empty = model.embed_images(batch).pooled
    assert (empty.shape, empty.dtype) == ((0, model.dim), np.float32)


@pytest.mark.parametrize(
    ("width", "height", "mode"),
    [(1, 1, "RGB"), (2, 3, "L"), (3000, 2, "RGB"), (1, 700, "RGB"), (300, 200, "L")],
)
def test_odd_images(
    model: Backbone, make_photo: Callable[..., Image.Image], width: int, height: int, mode: str
) -> None:
    features = embed(model, [make_photo(3, width, height, mode), make_photo(4)])
    assert features.shape == (2, model.dim)
    assert np.isfinite(features).all()


def test_defect_biobench_backbone_never_put_in_eval_mode(
    load: Callable[[str], Backbone], photos: list[Image.Image]
) -> None:
    """BatchNorm used and updated batch statistics: features depended on company and drifted."""
    from fieldmark.models._torch.weights import hash_weights

    for name in BATCH_NORM:
        model = load(name)
        assert any("BatchNorm" in type(each).__name__ for each in model.module.modules())
        assert not any(each.training for each in model.module.modules())
        before = hash_weights(model.module)
        first = embed(model, photos[:3])
        model.module.train()  # somebody else's doing; the next batch must not notice
        again = embed(model, [photos[0], *photos[3:]])
        assert np.abs(first[0] - again[0]).max() < 1e-5 * max(1.0, np.abs(first).max())
        assert hash_weights(model.module) == before
        assert not any(each.requires_grad for each in model.module.parameters())


def test_fingerprints_tell_all_models_apart(load: Callable[[str], Backbone]) -> None:
    prints = {name: load(name).fingerprint for name in NAMES}
    assert len(set(prints.values())) == len(prints)
    assert all(isinstance(each, str) and len(each) == 32 for each in prints.values())


@pytest.mark.slow
def test_fingerprints_are_the_same_in_a_new_process(load: Callable[[str], Backbone]) -> None:
    names = [name for name in NAMES if name.startswith(("classical", "timm", "torchvision"))]
    script = (
        "import json, sys\nfrom fieldmark.models import load_model\n"
        "print(json.dumps({n: load_model(n, device='cpu').fingerprint for n in sys.argv[1:]}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *names], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == {name: load(name).fingerprint for name in names}


def test_any_of_them_can_be_loaded_again_by_another_process(model: Any) -> None:
    again = pickle.loads(pickle.dumps(model.load_again))
    assert again(device="cpu").fingerprint == model.fingerprint


def test_random_weights_follow_the_name_and_leave_the_global_generator_alone() -> None:
    import torch

    torch.manual_seed(5)
    before = torch.get_rng_state()
    one = load_model("timm/test_resnet?pretrained=false&size=32", device="cpu")
    torch.rand(3)
    torch.manual_seed(6)
    middle = torch.get_rng_state()
    two = load_model("timm/test_resnet?pretrained=false&size=32", device="cpu")
    assert torch.equal(torch.get_rng_state(), middle)
    assert not torch.equal(before, middle)
    assert one.fingerprint == two.fingerprint
    other = load_model("timm/test_efficientnet?pretrained=false&size=32", device="cpu")
    assert other.fingerprint != one.fingerprint


def test_patches_where_the_network_has_them(
    load: Callable[[str], Backbone], photos: list[Image.Image]
) -> None:
    expected = {
        "timm/test_vit?pretrained=false&size=48": (7, 9, 64),
        "timm/test_resnet?pretrained=false&size=64": (7, 4, 96),
        "open-clip/local-dir:CLIP": (7, 16, 32),
        "hf/dinov2": (7, 16, 32),
        "hf/dinov3": (7, 16, 32),
        "hf/siglip": (7, 16, 32),
        "hf/convnext": (7, 1, 16),
    }
    for name, shape in expected.items():
        model = load(name)
        batch = np.stack([model.transform(each) for each in photos])
        found = model.embed_images(batch, patches=True)
        assert found.patches is not None and found.patches.shape == shape, name
        assert found.patches.dtype == np.float32
        assert np.allclose(found.pooled, model.embed_images(batch).pooled, atol=1e-5)
        assert model.embed_images(batch).patches is None


def test_hf_pooling_is_what_the_page_says(
    load: Callable[[str], Backbone], photos: list[Image.Image], hf_folders: dict[str, Path]
) -> None:
    """Against transformers itself, called by hand."""
    import torch
    import transformers

    for kind in ("dinov2", "dinov3", "siglip", "clip", "vit", "convnext"):
        ours = load(f"hf/{kind}")
        batch = np.stack([ours.transform(each) for each in photos])
        theirs = transformers.AutoModel.from_pretrained(hf_folders[kind]).eval()
        pixels = ours._images(batch)
        with torch.no_grad():
            if kind in ("siglip", "clip"):
                wanted = theirs.get_image_features(pixel_values=pixels).pooler_output
            else:
                output = theirs(pixel_values=pixels)
                wanted = output.last_hidden_state[:, 0] if kind == "vit" else output.pooler_output
        assert np.allclose(ours.embed_images(batch).pooled, wanted.numpy(), atol=1e-5), kind


def test_a_dual_encoder_embeds_texts_too(
    load: Callable[[str], Backbone], clip_folder: Path, photos: list[Image.Image]
) -> None:
    import open_clip
    import torch

    model = load("open-clip/local-dir:CLIP")
    assert isinstance(model, DualEncoder)
    texts = ["a photo of a beluga", "a photo of a leopard"] * 150
    features = model.embed_texts(texts)
    assert (features.shape, features.dtype) == ((300, model.dim), np.float32)
    assert np.allclose(features[0], model.embed_texts(texts[:1])[0], atol=1e-5)
    assert model.embed_texts([]).shape == (0, model.dim)
    theirs = open_clip.create_model(f"local-dir:{clip_folder}").eval()
    tokens = open_clip.get_tokenizer(f"local-dir:{clip_folder}")(texts[:2])
    with torch.no_grad():
        assert np.allclose(theirs.encode_text(tokens).numpy(), features[:2], atol=1e-5)
        assert model.logit_scale == pytest.approx(float(theirs.logit_scale.exp()))
        pixels = model._images(np.stack([model.transform(each) for each in photos]))
        wanted = theirs.encode_image(pixels).numpy()
    assert np.allclose(embed(model, photos), wanted, atol=1e-5)


def test_defect_biobench_dataclass_unpacked() -> None:
    """A model was loaded by unpacking what cannot be unpacked: here one name is one argument."""
    with pytest.raises(TypeError):
        load_model("classical", "colour")  # type: ignore[misc]
    assert load_model("classical/colour").dim == 246


def test_defect_biobench_torchvision_wrong_namespace() -> None:
    model = load_model("torchvision/squeezenet1_1?pretrained=false&size=64", device="cpu")
    assert model.dim == 512
    with pytest.raises(FieldmarkError, match=r"'torchvision/transforms' is not known"):
        load_model("torchvision/transforms")


def test_defect_biobench_timm_insists_on_vit(load: Callable[[str], Backbone]) -> None:
    for name in [each for each in NAMES if each.startswith("timm/") and "vit" not in each]:
        assert load(name).dim == NAMES[name]
