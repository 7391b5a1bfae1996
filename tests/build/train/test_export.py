"""What is exported gives the features of what was trained: in open_clip itself and in fieldmark."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import open_clip
import pytest
import torch
from PIL import Image
from safetensors import SafetensorError

from fieldmark.build.train.export import (
    ModelCard,
    can_export_two,
    export_model,
    export_two,
)
from fieldmark.build.train.network import ClipTrainingModel, WeightAverage, make_clip_model
from fieldmark.build.train.recipe import ModelRecipe
from fieldmark.build.train.suite import SuiteScore
from fieldmark.errors import DataError, UnknownName, UsageError
from fieldmark.models import load_model
from kit.tiny_clip import tiny_clip

BOTH = ("taxonomic", "caption")
TEXTS = ["Puma concolor", "a cat on a rock!"]


def trained(
    folder: Path, kind: str = "softmax", projectors: tuple[str, ...] = BOTH
) -> ClipTrainingModel:
    """A network whose projectors and scales have parted, as training does it."""
    torch.set_num_threads(1)
    path = tiny_clip(folder)
    clip_model = make_clip_model(ModelRecipe(architecture=path, projectors=projectors), kind, 3)
    draw = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for weight in (clip_model.projections, clip_model.scales, clip_model.biases):
            if weight is not None:
                weight += 0.3 * torch.randn(weight.shape, generator=draw)
    return clip_model.eval()


def photos() -> list[Image.Image]:
    draw = np.random.default_rng(0)
    return [Image.fromarray(draw.integers(0, 256, (16, 16, 3), np.uint8)) for _ in range(2)]


def features(clip_model: ClipTrainingModel, projector: int) -> tuple[torch.Tensor, torch.Tensor]:
    images = torch.stack([torch.tensor(np.array(photo)).permute(2, 0, 1) for photo in photos()])
    with torch.no_grad():
        return clip_model(images, clip_model.tokenise(TEXTS), torch.full((2,), projector))


def card(**changes: object) -> ModelCard:
    facts: dict[str, object] = {
        "title": "tiny",
        "recipe": "[model]\ninit = 'random'",
        "n_shards": 3,
        "n_samples": 12345,
        "caption_coverage": 0.5,
        "held_out": "",
        "caption_models": (),
        "datasets": "world",
        "data_digest": "abc123",
        "data_licence": "CC BY 4.0",
        "n_steps": 10,
        "n_pairs": 2560,
    }
    return ModelCard(**{**facts, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["softmax", "siglip"])
@pytest.mark.parametrize("projector", BOTH)
def test_stock_open_clip_loads_it_with_equal_features(
    tmp_path: Path, kind: str, projector: str
) -> None:
    clip_model = trained(tmp_path, kind)
    folder = tmp_path / "model"
    export_model(clip_model, clip_model.state_dict(), folder, projector)
    model, _, preprocess = open_clip.create_model_and_transforms(f"local-dir:{folder}")
    tokenise = open_clip.get_tokenizer(f"local-dir:{folder}")
    place = BOTH.index(projector)
    images, texts = features(clip_model, place)
    with torch.no_grad():
        theirs = model.eval().encode_image(
            torch.stack([preprocess(photo) for photo in photos()]), normalize=True
        )
        read = model.encode_text(tokenise(TEXTS), normalize=True)
    torch.testing.assert_close(theirs, images, atol=1e-5, rtol=0)
    torch.testing.assert_close(read, texts, atol=1e-5, rtol=0)
    assert model.logit_scale.item() == pytest.approx(clip_model.scales[place].item())
    if kind == "siglip":
        assert model.logit_bias.item() == pytest.approx(clip_model.biases[place].item())
    else:
        assert model.logit_bias is None


@pytest.mark.parametrize("kind", ["softmax", "siglip"])
def test_fieldmark_reads_both_projectors(tmp_path: Path, kind: str) -> None:
    clip_model = trained(tmp_path, kind, ("taxonomic", "caption", "replay"))
    folder = tmp_path / "model-two"
    assert can_export_two(clip_model)
    export_two(clip_model, clip_model.state_dict(), folder)
    for place, projector in enumerate(BOTH):
        name = f"open-clip/local-dir:{folder}?projector={projector}"
        model = load_model(name, device="cpu", precision="float32")
        images, texts = features(clip_model, place)
        batch = np.stack([model.transform(photo) for photo in photos()])
        pooled = torch.tensor(model.embed_images(batch).pooled)
        seen = torch.nn.functional.normalize(pooled, dim=-1)
        read = torch.nn.functional.normalize(torch.tensor(model.embed_texts(TEXTS)), dim=-1)
        torch.testing.assert_close(seen, images, atol=1e-5, rtol=0)
        torch.testing.assert_close(read, texts, atol=1e-5, rtol=0)
        assert model.logit_scale == pytest.approx(clip_model.scales[place].exp().item(), rel=1e-5)
        if kind == "siglip":
            assert model.logit_bias == pytest.approx(clip_model.biases[place].item(), rel=1e-5)


def test_training_goes_on_from_either_folder(tmp_path: Path) -> None:
    clip_model = trained(tmp_path)
    export_model(clip_model, clip_model.state_dict(), tmp_path / "model")
    export_two(clip_model, clip_model.state_dict(), tmp_path / "two")
    whole = make_clip_model(
        ModelRecipe(init=f"local-dir:{tmp_path / 'two'}", projectors=BOTH), "softmax", 0
    )
    assert list(whole.state_dict()) == list(clip_model.state_dict())
    for name, value in clip_model.state_dict().items():
        torch.testing.assert_close(whole.state_dict()[name], value, atol=1e-6, rtol=0)
    single = make_clip_model(
        ModelRecipe(init=f"local-dir:{tmp_path / 'model'}", projectors=BOTH), "softmax", 0
    )
    torch.testing.assert_close(single.projections[1], clip_model.projections[0])


def test_an_average_stands_in_for_the_weights(tmp_path: Path) -> None:
    clip_model = trained(tmp_path)
    average = WeightAverage(clip_model, 0.9)
    with torch.no_grad():
        clip_model.scales.add_(0.5)
    state = {**clip_model.state_dict(), **average.weights}
    export_model(clip_model, state, tmp_path / "model")
    model = open_clip.create_model(f"local-dir:{tmp_path / 'model'}")
    assert model.logit_scale.item() == pytest.approx(float(average.weights["scales"][0]))


def word_tokeniser(folder: Path) -> None:
    """A tokeniser of the Hugging Face kind, with a word of its own for everything in TEXTS."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    words = ["<pad>", "<end>", "<other>", "Puma", "concolor", "a", "cat", "on", "rock", "!"]
    numbers = {word: number for number, word in enumerate(words)}
    tokeniser = Tokenizer(models.WordLevel(numbers, "<other>"))
    tokeniser.pre_tokenizer = pre_tokenizers.Whitespace()
    tokeniser.post_processor = processors.TemplateProcessing(
        single="$A <end>", special_tokens=[("<end>", 1)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokeniser, pad_token="<pad>", eos_token="<end>", unk_token="<other>"
    ).save_pretrained(folder)


def test_a_hugging_face_tokeniser_is_exported_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    start = tmp_path / "start"
    text = {
        "vocab_size": 16,
        "hf_tokenizer_name": "nobody/words",
        "pool_type": "eos",
        "eos_id": 1,
    }
    config = json.loads(Path(tiny_clip(tmp_path, text=text, custom_text=True)).read_bytes())
    config["text_cfg"].pop("hf_tokenizer_name")
    about = {"model_cfg": config, "preprocess_cfg": {}}
    word_tokeniser(start)
    (start / "open_clip_config.json").write_text(json.dumps(about), encoding="utf-8")
    torch.manual_seed(0)
    model = open_clip.create_model(f"local-dir:{start}", load_weights=False)
    torch.save(model.state_dict(), start / "open_clip_pytorch_model.bin")
    config["text_cfg"]["hf_tokenizer_name"] = "nobody/words"
    (start / "open_clip_config.json").write_text(json.dumps(about), encoding="utf-8")

    clip_model = make_clip_model(
        ModelRecipe(init=f"local-dir:{start}", projectors=BOTH), "softmax", 0
    )
    for export, name in ((export_model, "model"), (export_two, "two")):
        export(clip_model, clip_model.state_dict(), tmp_path / name)
        tokenise = open_clip.get_tokenizer(f"local-dir:{tmp_path / name}")
        assert torch.equal(tokenise(TEXTS), clip_model.tokenise(TEXTS))
        assert tokenise(TEXTS)[0, :4].tolist() == [3, 4, 1, 0]


def test_weights_that_cannot_be_written_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise SafetensorError("No space left on device")

    clip_model = trained(tmp_path)
    monkeypatch.setattr("safetensors.torch.save_file", full)
    with pytest.raises(DataError, match="No space left"):
        export_model(clip_model, clip_model.state_dict(), tmp_path / "model")
    assert list((tmp_path / "model").iterdir()) == []


def test_a_locked_and_resized_network_keeps_its_names(tmp_path: Path) -> None:
    model = ModelRecipe(architecture=tiny_clip(tmp_path), lock_image=True, image_size=32)
    clip_model = make_clip_model(model, "softmax", 0)
    export_model(clip_model, clip_model.state_dict(), tmp_path / "model")
    network = open_clip.create_model(f"local-dir:{tmp_path / 'model'}")
    assert network.visual.image_size == (32, 32)


def test_card(tmp_path: Path) -> None:
    clip_model = trained(tmp_path)
    values = ("accuracy", 0.4625, 0.4, 0.6, 1200, True, True, True)
    scores = [SuiteScore("world-species", protocol, *values) for protocol in ("zero_shot", "probe")]
    export_model(clip_model, clip_model.state_dict(), tmp_path / "model", card=card(scores=scores))
    text = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    assert "12,345 in 3 shards" in text
    assert "- captions: 50 % of the samples have one\n" in text
    assert "`abc123`" in text
    assert "CC BY 4.0" in text
    for protocol in ("zero_shot", "probe"):
        cells = ("world-species (synthetic)", protocol, "accuracy", "46.2", "[40.0, 60.0]", "1,200")
        assert f"| {' | '.join(cells)} |" in text
    assert text.count("synthetic: fieldmark drew these photos") == 1
    assert "init = 'random'" in text
    assert f'create_model_and_transforms("local-dir:{tmp_path / "model"}")' in text
    assert "`taxonomic`, of taxonomic, caption" in text
    export_two(clip_model, clip_model.state_dict(), tmp_path / "two", card=card(data_licence=""))
    text = (tmp_path / "two" / "README.md").read_text(encoding="utf-8")
    assert f"open-clip/local-dir:{tmp_path / 'two'}?projector=caption" in text
    assert "Not evaluated." in text
    assert "not stated" in text and "warning" not in text
    spoilt = card(
        held_out="4 of 12 photos are not training photos (split test: 4)",
        n_shards=1,
        caption_models=["chat/a/b"],
    )
    export_two(clip_model, clip_model.state_dict(), tmp_path / "two", card=spoilt)
    text = (tmp_path / "two" / "README.md").read_text(encoding="utf-8")
    assert "- samples: 12,345 in 1 shard\n" in text
    assert "50 % of the samples have one, written by chat/a/b\n" in text
    assert "- datasets: world\n" in text
    assert "- warning: 4 of 12 photos are not training photos (split test: 4): scores on" in text


def test_what_cannot_be_exported_is_said(tmp_path: Path) -> None:
    clip_model = trained(tmp_path, projectors=("taxonomic",))
    assert not can_export_two(clip_model)
    with pytest.raises(UnknownName, match="'caption' is not known"):
        export_model(clip_model, clip_model.state_dict(), tmp_path / "model", "caption")
    state = dict(clip_model.state_dict())
    del state["network.ln_final.weight"]
    with pytest.raises(UsageError, match="lack network.ln_final.weight"):
        export_model(clip_model, state, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_the_configuration_is_open_clips_own(tmp_path: Path) -> None:
    clip_model = trained(tmp_path)
    export_model(clip_model, clip_model.state_dict(), tmp_path / "model")
    about = json.loads((tmp_path / "model" / "open_clip_config.json").read_text(encoding="utf-8"))
    assert sorted(about) == ["model_cfg", "preprocess_cfg"]
    assert "dual_projector" not in about["model_cfg"]["vision_cfg"]
    assert len({path.stat().st_mode for path in (tmp_path / "model").iterdir()}) == 1
    assert sorted(about["preprocess_cfg"]) == ["interpolation", "mean", "resize_mode", "std"]
