"""Networks in training: what they start from, what they compute, what learns."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import open_clip
import pytest
import torch

from fieldmark.build.train.export import export_model
from fieldmark.build.train.feed.texts import TextTokens
from fieldmark.build.train.network import (
    LARGEST_SCALE,
    ClipTrainingModel,
    WeightAverage,
    make_clip_model,
    network_request,
    random_modules,
    recompute_blocks,
    towers,
)
from fieldmark.build.train.recipe import ModelRecipe
from fieldmark.errors import MissingExtra, ModelError, UnknownName
from kit.tiny_clip import tiny_clip

THREE = ("taxonomic", "caption", "replay")
WIDTHS = "fieldmark.build.train.feed.texts._STEPS_OF_WIDTH"
TEXTS = ["Puma concolor", "a puma on a rock, by a lake", "stop!", "!"]


def made(folder: Path, kind: str = "softmax", seed: int = 0, **model: Any) -> ClipTrainingModel:
    torch.set_num_threads(1)
    model.setdefault("architecture", tiny_clip(folder))
    return make_clip_model(ModelRecipe(**model), kind, seed)


def trimmed(clip_model: ClipTrainingModel, texts: list[str]) -> torch.Tensor:
    """As the loader does it."""
    tokenise = clip_model.tokenise
    return torch.from_numpy(TextTokens(tokenise, tokenise.can_trim, tokenise.end)(texts))


def pictures(n: int, size: int = 16) -> torch.Tensor:
    draw = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (n, 3, size, size), generator=draw, dtype=torch.uint8)


def stock_file(folder: Path, **changes: Any) -> tuple[str, Any, Path]:
    """A network of open_clip's own, and its weights in a file."""
    path = tiny_clip(folder, **changes)
    open_clip.add_model_config(path)
    torch.manual_seed(9)
    model = open_clip.create_model(Path(path).stem).eval()
    file = folder / "weights.pt"
    torch.save(model.state_dict(), file)
    return path, model, file


# --- what they start from


def test_names_of_what_is_loaded() -> None:
    def name(**model: Any) -> str:
        return network_request(ModelRecipe(**model)).name.text

    assert name(architecture="RN50", init="openai") == "open-clip/RN50/openai"
    assert name(init="local-dir:a/b") == "open-clip/local-dir:a/b"
    assert name(init="hf-hub:imageomics/biocap") == "open-clip/hf-hub:imageomics/biocap"
    assert name(init="a.pt", image_size=64) == "open-clip/ViT-B-16/a.pt?size=64"
    assert name(architecture="x/tiny.json") == "open-clip/tiny?pretrained=false"


def test_random_weights_follow_the_seed(tmp_path: Path) -> None:
    one, same, other = (made(tmp_path, seed=seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not torch.equal(one["projections"], other["projections"])


def test_a_file_of_weights_gives_open_clips_own_features(tmp_path: Path) -> None:
    path, model, file = stock_file(tmp_path)
    clip_model = made(tmp_path, architecture=path, init=str(file), projectors=THREE)
    images, numbers = pictures(3), torch.tensor([0, 1, 2])
    about = model.visual.preprocess_cfg
    mean, std = (torch.tensor(about[key]).view(3, 1, 1) for key in ("mean", "std"))
    with torch.no_grad():
        seen, read = clip_model(images, clip_model.tokenise(TEXTS[:3]), numbers)
        theirs = model.encode_image((images / 255 - mean) / std, normalize=True)
        texts = model.encode_text(clip_model.tokenise(TEXTS[:3]), normalize=True)
    torch.testing.assert_close(seen, theirs, atol=1e-5, rtol=0)
    torch.testing.assert_close(read, texts, atol=1e-5, rtol=0)
    assert seen.dtype == torch.float32
    torch.testing.assert_close(clip_model.scales.detach(), model.logit_scale.detach().repeat(3))


def test_the_shipped_tiny_network(tmp_path: Path) -> None:
    clip_model = made(tmp_path, architecture="fieldmark-tiny", projectors=THREE[:2])
    assert clip_model.image_size == 64
    with torch.no_grad():
        features = clip_model(pictures(2, 64), clip_model.tokenise(TEXTS[:2]), torch.tensor([0, 1]))
    assert [tuple(part.norm(dim=1).round(decimals=4).tolist()) for part in features] == [(1, 1)] * 2


def test_unknown_names_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownName, match="ViT-B-16"):
        made(tmp_path, architecture="ViT-B-61")
    with pytest.raises(UnknownName, match="openai"):
        made(tmp_path, architecture="ViT-B-16", init="openay")
    with pytest.raises(ModelError, match=r"none\.json  cannot be read"):
        made(tmp_path, architecture=str(tmp_path / "none.json"))
    (tmp_path / "half.json").write_text('{"embed_dim": 8, "text_cfg": {}}', encoding="utf-8")
    with pytest.raises(ModelError, match=r"half\.json  lacks vision_cfg"):
        made(tmp_path, architecture=str(tmp_path / "half.json"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match=r"fetching is switched off.*\bmodel\.init"):
        made(tmp_path, architecture="ViT-B-16", init="openai")


def test_a_package_that_is_missing_is_said_as_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object) -> None:
        raise MissingExtra("open-clip", "models", "open_clip")

    monkeypatch.setattr("fieldmark.build.train.network.read_network", missing)
    with pytest.raises(MissingExtra, match=r"fieldmark\[models\]"):
        made(tmp_path)


@pytest.mark.slow
def test_a_checkpoint_needs_no_first_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _, file = stock_file(tmp_path, name="test-tiny-gone", init_logit_scale=4.8)
    model = ModelRecipe(architecture=path, init=str(file), projectors=THREE)
    first = make_clip_model(model, "softmax", 0)
    file.unlink()
    again = make_clip_model(model, "softmax", 0, is_loaded=True)
    again.load_state_dict(first.state_dict())
    again.scales.data += 1
    again.clamp_scales()
    assert again.scales.tolist() == pytest.approx([4.8] * 3)
    assert again.config == first.config
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    tagged = ModelRecipe(architecture="ViT-B-32", init="openai", image_size=32)
    assert make_clip_model(tagged, "softmax", 0, is_loaded=True).config["model_cfg"]["quick_gelu"]


def test_another_image_size(tmp_path: Path) -> None:
    path, _, file = stock_file(tmp_path)
    clip_model = made(tmp_path, architecture=path, init=str(file), image_size=32)
    assert clip_model.image_size == 32
    clip_model(pictures(1, 32), clip_model.tokenise(TEXTS[:1]), torch.tensor([0]))


# --- projectors and scales


def test_projectors_start_equal_and_part(tmp_path: Path) -> None:
    clip_model = made(tmp_path, projectors=THREE)
    assert clip_model.projector_names == THREE
    images, tokens = pictures(1).repeat(3, 1, 1, 1), clip_model.tokenise(["a"] * 3)
    numbers = torch.tensor([2, 0, 1])
    same = clip_model(images, tokens, numbers)[0].detach()
    torch.testing.assert_close(same[0], same[1])
    with torch.no_grad():
        clip_model.projections[2] += 1
    parted = clip_model(images, tokens, numbers)[0].detach()
    assert not torch.allclose(parted[0], same[0])
    torch.testing.assert_close(parted[1:], same[1:])


def test_all_parameters_learn_from_every_batch(tmp_path: Path) -> None:
    clip_model = made(tmp_path, "siglip", projectors=THREE)
    images, texts = clip_model(pictures(2), clip_model.tokenise(TEXTS[:2]), torch.tensor([0, 0]))
    (images.sum() + texts.sum() + clip_model.scales.sum() + clip_model.biases.sum()).backward()
    assert [name for name, weight in clip_model.named_parameters() if weight.grad is None] == []


def test_sigmoid_starts_where_its_paper_starts(tmp_path: Path) -> None:
    path, _, file = stock_file(tmp_path)
    for init in ("random", str(file)):  # the scale of a softmax means nothing without a bias
        clip_model = made(tmp_path, "siglip", architecture=path, init=init)
        assert clip_model.scales.tolist() == pytest.approx([math.log(10)])
        assert clip_model.biases.tolist() == [-10]


def test_a_trained_bias_is_kept(tmp_path: Path) -> None:
    path, _, file = stock_file(tmp_path, name="test-tiny-bias", init_logit_bias=-7.5)
    clip_model = made(tmp_path, "siglip", architecture=path, init=str(file), projectors=THREE[:2])
    assert clip_model.biases.tolist() == [-7.5, -7.5]
    plain = made(tmp_path, "softmax", architecture=path, init=str(file))
    assert not plain.biases.requires_grad


def test_scales_are_clamped(tmp_path: Path) -> None:
    clip_model = made(tmp_path, projectors=THREE)
    clip_model.scales.data = torch.tensor([-1.0, 3.0, 9.0])
    clip_model.clamp_scales()
    assert clip_model.scales.tolist() == pytest.approx([0, 3, LARGEST_SCALE])


def test_weights_that_start_above_the_bound_may_stay_there(tmp_path: Path) -> None:
    path, _, file = stock_file(tmp_path, name="test-tiny-hot", init_logit_scale=4.8)
    clip_model = made(tmp_path, architecture=path, init=str(file))
    clip_model.scales.data += 1
    clip_model.clamp_scales()
    assert clip_model.scales.tolist() == pytest.approx([4.8])


@pytest.mark.parametrize(
    ("vision", "size"),
    [
        ({"timm_model_name": "test_vit", "image_size": 32, "timm_pool": ""}, 32),
        ({"layers": [1, 1, 1, 1], "width": 8, "image_size": 32}, 32),
    ],
    ids=["timm", "resnet"],
)
def test_towers_without_a_projector_take_one_name(
    tmp_path: Path, vision: dict[str, Any], size: int
) -> None:
    path = tiny_clip(tmp_path, f"test-tiny-{len(vision)}-{vision['image_size']}", vision=vision)
    with pytest.raises(ModelError, match=r"cannot have 2: model\.projectors takes one name"):
        made(tmp_path, architecture=path, projectors=THREE[:2])
    clip_model = made(tmp_path, architecture=path, lock_image=True).eval()
    export_model(clip_model, clip_model.state_dict(), tmp_path / "model")
    model = open_clip.create_model(f"local-dir:{tmp_path / 'model'}").eval()
    images, tokens = pictures(2, size), clip_model.tokenise(TEXTS[:2])
    with torch.no_grad():
        seen, _ = clip_model(images, tokens, torch.zeros(2, dtype=torch.int64))
        pixels = images.float() * clip_model.pixel_gain + clip_model.pixel_shift
        torch.testing.assert_close(seen, model.encode_image(pixels, normalize=True))


def test_a_network_that_writes_texts_is_refused(tmp_path: Path) -> None:
    path = tiny_clip(
        tmp_path,
        "test-tiny-coca",
        vision={"attentional_pool": True, "attn_pooler_heads": 2, "output_tokens": True},
        text={"embed_cls": True, "output_tokens": True},
        multimodal_cfg={"context_length": 16, "width": 16, "heads": 2, "layers": 1},
        custom_text=True,
    )
    with pytest.raises(ModelError, match="CoCa"):
        made(tmp_path, architecture=path)


# --- texts


@pytest.mark.parametrize(
    ("text", "top"),
    [
        ({}, {}),
        ({}, {"custom_text": True}),
        ({"pool_type": "eos", "eos_id": 49407}, {"custom_text": True}),
    ],
    ids=["clip", "custom", "eos"],
)
def test_trimmed_texts_give_the_same_features(
    tmp_path: Path, text: dict[str, Any], top: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WIDTHS, 8)  # the network here reads 16 tokens
    clip_model = made(
        tmp_path, architecture=tiny_clip(tmp_path, "test-tiny-trim", text=text, **top)
    )
    tokens = clip_model.tokenise(TEXTS)
    short = trimmed(clip_model, TEXTS[2:])
    assert tokens.shape == (4, 16)
    assert short.shape == (2, 8)
    numbers = torch.zeros(4, dtype=torch.int64)
    with torch.no_grad():
        whole = clip_model(pictures(4), tokens, numbers)[1]
        cut = clip_model(pictures(4)[2:], short, numbers[2:])[1]
        theirs = clip_model.network.encode_text(tokens, normalize=True)
    torch.testing.assert_close(cut, whole[2:], atol=1e-6, rtol=0)
    torch.testing.assert_close(whole, theirs, atol=1e-6, rtol=0)


@pytest.mark.slow
def test_trimming_looks_for_the_end_not_for_padding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """0 is CLIP's padding and its exclamation mark."""
    monkeypatch.setattr(WIDTHS, 8)
    clip_model = made(tmp_path)
    tokens = trimmed(clip_model, ["!" * 3 + " ! ! ! ! !"])
    assert tokens[0, -1] == 49407
    assert trimmed(clip_model, ["word " * 40]).shape == (1, 16)


@pytest.mark.parametrize(
    "text",
    [{"pool_type": "last"}, {"no_causal_mask": True}, {"embed_cls": True}],
    ids=["last", "both-ways", "cls"],
)
def test_texts_of_other_towers_keep_their_length(tmp_path: Path, text: dict[str, Any]) -> None:
    path = tiny_clip(tmp_path, "test-tiny-full", text=text, custom_text=True)
    clip_model = made(tmp_path, architecture=path)
    tokens = clip_model.tokenise(TEXTS)
    assert not clip_model.tokenise.can_trim
    assert torch.equal(trimmed(clip_model, TEXTS), tokens)
    with torch.no_grad():
        read = clip_model(pictures(4), tokens, torch.zeros(4, dtype=torch.int64))[1]
        theirs = clip_model.network.encode_text(tokens, normalize=True)
    torch.testing.assert_close(read, theirs, atol=1e-6, rtol=0)


def test_texts_are_tokenised_as_open_clip_does_it(tmp_path: Path) -> None:
    tokens = made(tmp_path).tokenise(TEXTS)
    assert torch.equal(tokens, open_clip.SimpleTokenizer(context_length=16)(TEXTS))


# --- what learns, and how


def test_locked_towers(tmp_path: Path) -> None:
    def learning(**model: bool) -> set[str]:
        clip_model = made(tmp_path, projectors=THREE[:2], **model)
        named = clip_model.named_parameters()
        return {name for name, weight in named if weight.requires_grad}

    everything = learning()
    image = {name for name in everything if name.startswith("network.visual.")}
    assert learning(lock_image=True) == everything - image
    assert learning(lock_text=True) == {"projections", "scales"} | image


def test_two_locked_towers_without_a_projector_are_refused(tmp_path: Path) -> None:
    vision = {"layers": [1, 1, 1, 1], "width": 8, "image_size": 32}
    path = tiny_clip(tmp_path, "test-tiny-locked", vision=vision)
    with pytest.raises(ModelError, match="nothing would learn: lock one"):
        made(tmp_path, architecture=path, lock_image=True, lock_text=True)
    made(tmp_path, architecture=path, lock_image=True)
    made(tmp_path, lock_image=True, lock_text=True)


@pytest.mark.parametrize(
    ("vision", "names"),
    [
        ({}, []),
        ({"patch_dropout": 0.5}, ["network.visual.patch_dropout"]),
        ({"layers": [1, 1, 1, 1], "width": 8, "image_size": 32}, ["network.visual.bn1"]),
        (
            {"timm_model_name": "test_vit", "image_size": 32, "timm_drop": 0.1},
            ["network.visual.head.drop"],
        ),
        (
            {"timm_model_name": "test_vit", "image_size": 32, "timm_drop_path": 0.1},
            ["network.visual.trunk.blocks.1.drop_path1"],
        ),
    ],
    ids=["none", "patches", "batch", "dropout", "path"],
)
def test_modules_that_compute_something_else_each_time(
    tmp_path: Path, vision: dict[str, Any], names: list[str]
) -> None:
    path = tiny_clip(tmp_path, f"test-tiny-random-{len(str(vision))}", vision=vision)
    named = random_modules(made(tmp_path, architecture=path))
    assert set(names) <= set(named)
    assert bool(names) == bool(named)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.6, 1.0])
def test_recomputed_blocks_have_the_same_gradient(tmp_path: Path, share: float) -> None:
    plain, spare = made(tmp_path), made(tmp_path)
    names = list(spare.state_dict())
    assert [len(blocks) for blocks in towers(spare)] == [2, 2]
    recompute_blocks(spare, share)
    assert list(spare.state_dict()) == names
    for clip_model in (plain, spare):
        features = clip_model(pictures(2), clip_model.tokenise(TEXTS[:2]), torch.tensor([0, 0]))
        (features[0] @ features[1].T).sin().sum().backward()
    for one, two in zip(plain.network.parameters(), spare.network.parameters(), strict=True):
        torch.testing.assert_close(one.grad, two.grad)


def test_recomputed_blocks_keep_nothing(tmp_path: Path) -> None:
    def kept(share: float) -> int:
        clip_model, sizes = made(tmp_path), []
        recompute_blocks(clip_model, share)
        with torch.autograd.graph.saved_tensors_hooks(
            lambda value: sizes.append(value.numel()) or value, lambda value: value
        ):
            clip_model(pictures(2), clip_model.tokenise(TEXTS[:2]), torch.tensor([0, 0]))
        return sum(sizes)

    assert kept(1.0) < kept(0.5) < kept(0.0)


def test_average_of_weights(tmp_path: Path) -> None:
    clip_model = made(tmp_path, lock_text=True)
    average = WeightAverage(clip_model, 0.75)
    learning = [name for name, weight in clip_model.named_parameters() if weight.requires_grad]
    assert list(average.weights) == learning
    start = clip_model.scales.item()
    for value in (1.0, 2.0):
        clip_model.scales.data.fill_(value)
        average.update()
    expected = (start * 0.75 + 1 * 0.25) * 0.75 + 2 * 0.25
    assert average.weights["scales"].item() == pytest.approx(expected)
    assert average.weights["scales"].dtype == torch.float32


def test_an_average_forgets_the_first_weights_soon(tmp_path: Path) -> None:
    clip_model = made(tmp_path)
    average = WeightAverage(clip_model, 0.9999)
    clip_model.scales.data.fill_(50.0)
    for step in range(200):
        average.update(step)
    assert average.weights["scales"].item() == pytest.approx(50, rel=1e-3)
    late = WeightAverage(clip_model, 0.75)
    clip_model.scales.data.fill_(10.0)
    late.update(1000)
    assert late.weights["scales"].item() == pytest.approx(40)
