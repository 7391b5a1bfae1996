"""One suite over dual encoders: what they promise about texts, whoever made them."""

from __future__ import annotations

import json
import pickle
import re
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fieldmark.errors import ModelError, UsageError
from fieldmark.models import DualEncoder, abilities, abilities_of, load_model

OWN = """
import hashlib
import numpy as np

class Letters:
    dim = 26

    def transform(self, image):
        return np.asarray(image.resize((8, 8)), np.float32)

    def embed_images(self, batch):
        return np.resize(batch.reshape(len(batch), -1), (len(batch), 26))

    def embed_texts(self, texts):
        rows = [[text.lower().count(chr(97 + i)) for i in range(26)] for text in texts]
        return np.array(rows, np.float64)
"""

NAMES = (
    "open-clip/local-dir:CLIP",
    "open-clip/local-dir:CLIP?pretrained=false",
    "hf/clip",
    "hf/clip?pretrained=false",
    "hf/siglip",
    "hf/chinese",
    "hf/metaclip2",
    "classical/words",
    "own",
)

TEXTS = [
    "a photo of a lynx",
    "",
    "A PHOTO OF A LYNX",
    "Ångström × Ο αετός, 雪豹 🐆",
    "  a   photo\tof a\nlynx ",
    "many words " * 60,
    "Animalia Chordata Aves with common name wren",
]


@pytest.fixture(scope="session")
def load(
    clip_folder: Path, hf_duals: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], DualEncoder]:
    own = tmp_path_factory.mktemp("own") / "letters.py"
    own.write_text(OWN)
    places = {f"hf/{name}": f"hf/{folder}" for name, folder in hf_duals.items()}
    places["own"] = f"{own}:Letters"

    @cache
    def by_name(name: str) -> DualEncoder:
        base, mark, options = name.partition("?")
        full = places.get(base, base).replace("CLIP", str(clip_folder))
        model = load_model(f"{full}{mark}{options}", device="cpu")
        assert isinstance(model, DualEncoder)
        return model

    return by_name


@pytest.fixture(params=NAMES, scope="session")
def model(request: pytest.FixtureRequest, load: Callable[[str], DualEncoder]) -> DualEncoder:
    return load(request.param)


def test_texts_come_in_order_as_finite_float32_of_the_images_length(model: DualEncoder) -> None:
    features = model.embed_texts(TEXTS)
    assert (features.shape, features.dtype) == ((len(TEXTS), model.dim), np.float32)
    assert features.flags.c_contiguous
    assert np.isfinite(features).all()
    assert np.array_equal(model.embed_texts(TEXTS), features)
    assert model.embed_texts([]).shape == (0, model.dim)
    assert not np.allclose(features[0], features[-1])


def test_a_text_is_the_same_in_any_company(model: DualEncoder) -> None:
    features = model.embed_texts(TEXTS)
    alone = np.concatenate([model.embed_texts([text]) for text in TEXTS])
    backwards = model.embed_texts(TEXTS[::-1])[::-1]
    crowded = model.embed_texts(["a crowd", *TEXTS, *["something long " * 20] * 30])[
        1 : len(TEXTS) + 1
    ]
    for other in (alone, backwards, crowded):
        assert np.abs(other - features).max() <= 1e-6 * np.abs(features).max()


def test_scale_bias_limit_and_fingerprint_are_told(model: DualEncoder) -> None:
    assert model.logit_scale > 0
    assert model.logit_bias is None or np.isfinite(model.logit_bias)
    assert model.text_limit is None or model.text_limit > 2
    assert re.fullmatch(r"[0-9a-f]{32}", model.text_fingerprint)
    assert model.projectors == ()
    assert {"embeds_images", "embeds_texts"} <= abilities_of(model)
    assert "embeds_texts" in abilities(model.name)


def test_tokens_are_counted_as_if_nothing_were_cut(model: DualEncoder) -> None:
    counts = model.count_tokens(TEXTS)
    if counts is None:
        assert model.text_limit is None
        return
    assert len(counts) == len(TEXTS)
    if model.text_limit is None:
        assert counts[1] == 0 < counts[0] < counts[5]
        return
    assert counts[1] <= 3 < counts[0] <= model.text_limit < counts[5]
    assert model.count_tokens([]) == []
    words = [f"lynx {'eagle ' * n}" for n in range(2 * model.text_limit)]
    sizes = model.count_tokens(words)
    assert sizes is not None
    fits = [text for text, size in zip(words, sizes, strict=True) if size <= model.text_limit]
    cut = [text for text, size in zip(words, sizes, strict=True) if size > model.text_limit]
    features = model.embed_texts([*fits[-2:], *cut[:2]])
    assert not np.allclose(features[0], features[1])
    assert np.abs(features[2] - features[3]).max() <= 1e-6 * np.abs(features).max()


def test_text_fingerprints_tell_models_apart(load: Callable[[str], DualEncoder]) -> None:
    models = [load(name) for name in NAMES]
    assert len({model.text_fingerprint for model in models}) == len(NAMES)


# --- transformers


def test_hf_texts_are_what_transformers_gives(
    load: Callable[[str], DualEncoder], hf_duals: dict[str, Path]
) -> None:
    """Against transformers itself, called by hand; SigLIP is padded and has no mask."""
    import torch
    import transformers

    texts = ["a photo of a lynx", "wren", "many words " * 40]
    for name, folder in hf_duals.items():
        ours = load(f"hf/{name}")
        theirs = transformers.AutoModel.from_pretrained(folder).eval()
        tokeniser = transformers.AutoTokenizer.from_pretrained(folder)
        padding = "max_length" if name == "siglip" else True
        tokens = tokeniser(
            texts, padding=padding, truncation=True, max_length=ours.text_limit, return_tensors="pt"
        )
        names = ("input_ids",) if name == "siglip" else ("input_ids", "attention_mask")
        with torch.no_grad():
            wanted = theirs.get_text_features(**{key: tokens[key] for key in names}).pooler_output
            scale = float(theirs.logit_scale.exp())
            bias = float(theirs.logit_bias) if name == "siglip" else None
        assert np.allclose(ours.embed_texts(texts), wanted.numpy(), atol=1e-5), name
        assert (ours.logit_scale, ours.logit_bias) == (pytest.approx(scale), pytest.approx(bias))
    assert {load(f"hf/{name}").text_limit for name in ("clip", "siglip")} == {20}
    assert load("hf/chinese").text_limit == 52


def test_a_text_tower_does_not_make_the_images_another_model(
    hf_duals: dict[str, Path], tmp_path: Path, photos: list[Image.Image]
) -> None:
    """The same folder without a tokeniser sees the same, and cannot read."""
    for name in ("clip", "siglip"):
        folder = shutil.copytree(hf_duals[name], tmp_path / name)
        dual = load_model(f"hf/{folder}", device="cpu")
        for file in folder.glob("*token*"):
            file.unlink()
        plain = load_model(f"hf/{folder}", device="cpu")
        assert "embeds_texts" not in abilities(f"hf/{folder}") | abilities_of(plain)
        assert plain.fingerprint == dual.fingerprint
        batch = np.stack([plain.transform(photo) for photo in photos])
        pairs = (model.embed_images(batch).pooled for model in (plain, dual))
        assert np.array_equal(*pairs)


def test_images_outside_the_common_space_come_without_texts(hf_duals: dict[str, Path]) -> None:
    name = f"hf/{hf_duals['clip']}?pool=mean"
    assert "embeds_texts" not in abilities(name) | abilities_of(load_model(name, device="cpu"))


def test_a_text_tower_is_loaded_whole_or_not_at_all(
    hf_duals: dict[str, Path], tmp_path: Path
) -> None:
    from safetensors.torch import load_file, save_file

    folder = shutil.copytree(hf_duals["clip"], tmp_path / "clip")
    weights = load_file(folder / "model.safetensors")
    torn = {key: value for key, value in weights.items() if "text_projection" not in key}
    save_file(torn, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(
        ModelError, match=r"no weights for text_projection.weight, which would then"
    ):
        load_model(f"hf/{folder}", device="cpu")
    own = tmp_path / "torn.safetensors"
    save_file(torn, own)
    with pytest.raises(ModelError, match=r"it lacks text_projection.weight"):
        load_model(f"hf/{hf_duals['clip']}?weights={own}", device="cpu")
    seen = {key: value for key, value in weights.items() if not key.startswith("text_")}
    save_file(seen, own)
    save_file(seen, folder / "model.safetensors", {"format": "pt"})
    for name in (f"hf/{folder}", f"hf/{hf_duals['clip']}?weights={own}"):
        assert abilities_of(load_model(name, device="cpu")) == {"embeds_images"}


def test_siglip_reads_lower_case_and_the_first_one_no_marks(
    hf_duals: dict[str, Path], tmp_path: Path
) -> None:
    folder = shutil.copytree(hf_duals["siglip"], tmp_path / "siglip")
    path = folder / "tokenizer.json"
    about = json.loads(path.read_text())
    path.write_text(json.dumps({**about, "normalizer": None}))
    texts = ["A Photo of a LYNX.", "a photo of a lynx"]
    second = load_model(f"hf/{folder}", device="cpu")
    assert isinstance(second, DualEncoder)
    assert second.count_tokens(texts) == [7, 6]
    path = folder / "tokenizer_config.json"
    about = json.loads(path.read_text())
    path.write_text(json.dumps({**about, "tokenizer_class": "SiglipTokenizer"}))
    first = load_model(f"hf/{folder}", device="cpu")
    assert isinstance(first, DualEncoder)
    assert first.count_tokens(texts) == [6, 6]
    assert np.array_equal(*first.embed_texts(texts))
    assert first.text_fingerprint != second.text_fingerprint
    assert first.fingerprint == second.fingerprint


def test_abilities_by_configuration_and_else_by_name(
    hf_duals: dict[str, Path], hf_folders: dict[str, Path], put_in_hub_cache: Callable[..., None]
) -> None:
    both, images = {"embeds_images", "embeds_texts"}, {"embeds_images"}
    assert abilities("hf/openai/clip-vit-base-patch16") == both
    assert abilities("hf/google/siglip2-base-patch16-224") == both
    assert abilities("hf/google/siglip2-base-patch16-224?pool=mean") == images
    assert abilities("hf/facebook/dinov2-base") == images
    assert abilities(f"hf/{hf_folders['dinov2']}") == images
    put_in_hub_cache("org/anything", hf_duals["clip"])
    put_in_hub_cache("org/clipped-dino", hf_folders["dinov2"])
    assert abilities("hf/org/anything") == both
    assert abilities("hf/org/anything@" + "0" * 40) == both
    assert abilities("hf/org/clipped-dino") == images
    model = load_model("hf/org/anything", device="cpu", offline=True)
    assert isinstance(model, DualEncoder)
    assert model.embed_texts(["lynx"]).shape == (1, 24)


# --- what makes another text tower


def test_weights_tokeniser_and_limit_of_a_text_tower_are_its_fingerprint(
    clip_folder: Path, tmp_path: Path
) -> None:
    import torch

    def variant(name: str, change: Callable[[dict, dict], None]) -> DualEncoder:
        folder = shutil.copytree(clip_folder, tmp_path / name)
        config = json.loads((folder / "open_clip_config.json").read_text())
        weights = torch.load(folder / "open_clip_pytorch_model.bin")
        change(config["model_cfg"]["text_cfg"], weights)
        (folder / "open_clip_config.json").write_text(json.dumps(config))
        torch.save(weights, folder / "open_clip_pytorch_model.bin")
        model = load_model(f"open-clip/local-dir:{folder}", device="cpu")
        assert isinstance(model, DualEncoder)
        return model

    def shorter(text: dict, weights: dict) -> None:
        text["context_length"] = 12
        weights["positional_embedding"] = weights["positional_embedding"][:12]

    same = variant("same", lambda text, weights: None)
    case = variant("case", lambda text, _: text.update(tokenizer_kwargs={"clean": "whitespace"}))
    short = variant("short", shorter)
    tower = variant("tower", lambda _, weights: weights["ln_final.bias"].add_(0.1))
    picture = variant("picture", lambda _, weights: weights["visual.ln_post.bias"].add_(0.1))
    texts = [each.text_fingerprint for each in (same, case, short, tower)]
    assert len(set(texts)) == 4
    assert picture.text_fingerprint == same.text_fingerprint
    assert picture.fingerprint != same.fingerprint == case.fingerprint
    assert np.array_equal(picture.embed_texts(TEXTS), same.embed_texts(TEXTS))


def test_precision_is_part_of_the_text_fingerprint(clip_folder: Path) -> None:
    name = f"open-clip/local-dir:{clip_folder}"
    prints = {
        load_model(name, device="cpu", precision=precision).text_fingerprint
        for precision in ("float32", "bf16")
    }
    assert len(prints) == 2


# --- two visual projectors


@pytest.fixture(scope="session")
def biocap(clip_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny CLIP with a second projector, under the names that BioCAP's training writes."""
    import torch

    folder = shutil.copytree(clip_folder, tmp_path_factory.mktemp("biocap") / "model")
    state = torch.load(folder / "open_clip_pytorch_model.bin")
    generator = torch.Generator().manual_seed(5)
    state["visual.caption_proj"] = torch.randn(32, 24, generator=generator)
    state["logit_scale_caption"] = torch.tensor(3.0)
    torch.save(state, folder / "open_clip_pytorch_model.bin")
    return folder


def ask_for_two(folder: Path) -> None:
    path = folder / "open_clip_config.json"
    config = json.loads(path.read_text())
    config["model_cfg"]["vision_cfg"]["dual_projector"] = True
    path.write_text(json.dumps(config))


def check_two_projectors(name: str, clip_folder: Path, photos: list[Image.Image]) -> None:
    """The first projector is plain CLIP; the second is the pooled feature times its matrix."""
    import torch

    model = load_model(name, device="cpu")
    plain = load_model(f"open-clip/local-dir:{clip_folder}", device="cpu")
    assert isinstance(model, DualEncoder) and isinstance(plain, DualEncoder)
    assert model.projectors == ("taxonomic", "caption")
    assert model.projected("taxonomic") is model
    twin = model.projected("caption")
    assert twin is model.projected("caption")
    assert (twin.projectors, twin.dim, twin.text_limit) == ((), model.dim, model.text_limit)
    batch = np.stack([model.transform(photo) for photo in photos])
    seen = plain.embed_images(batch, patches=True)
    assert np.array_equal(model.embed_images(batch).pooled, plain.embed_images(batch).pooled)
    visual = plain.module.visual
    own, visual.proj = visual.proj, None
    with torch.no_grad():
        pooled = visual(plain._images(batch)).numpy()
    visual.proj = own
    matrix = torch.randn(32, 24, generator=torch.Generator().manual_seed(5)).numpy()
    for patches in (False, True):
        both = twin.embed_images(batch, patches=patches)
        assert np.allclose(both.pooled, pooled @ matrix, atol=1e-4)
    assert both.patches is not None and seen.patches is not None
    assert np.allclose(both.patches, seen.patches, atol=1e-5)
    assert np.array_equal(model.embed_images(batch).pooled, seen.pooled)
    assert twin.logit_scale == pytest.approx(np.exp(3.0))
    assert model.logit_scale == plain.logit_scale != twin.logit_scale
    assert np.array_equal(twin.embed_texts(TEXTS), model.embed_texts(TEXTS))
    assert twin.text_fingerprint == model.text_fingerprint
    assert twin.fingerprint != model.fingerprint == plain.fingerprint


def test_two_projectors_in_a_folder(
    biocap: Path, clip_folder: Path, photos: list[Image.Image], tmp_path: Path
) -> None:
    from safetensors.torch import save_file

    check_two_projectors(f"open-clip/local-dir:{biocap}", clip_folder, photos)
    asked = shutil.copytree(biocap, tmp_path / "asked")
    ask_for_two(asked)
    check_two_projectors(f"open-clip/local-dir:{asked}", clip_folder, photos)
    import torch

    state = torch.load(asked / "open_clip_pytorch_model.bin")
    (asked / "open_clip_pytorch_model.bin").unlink()
    save_file(state, asked / "open_clip_model.safetensors")
    check_two_projectors(f"open-clip/local-dir:{asked}", clip_folder, photos)


def test_two_projectors_in_a_file_of_a_training_run(
    biocap: Path, clip_folder: Path, photos: list[Image.Image], tmp_path: Path
) -> None:
    import torch

    state = torch.load(biocap / "open_clip_pytorch_model.bin")
    path = tmp_path / "epoch_50.pt"
    state = {f"module.{key}": value for key, value in state.items()}
    torch.save({"epoch": 50, "state_dict": state}, path)
    name = f"open-clip/local-dir:{clip_folder}?weights={path}"
    check_two_projectors(name, clip_folder, photos)


def test_a_projector_can_be_part_of_the_name(biocap: Path, clip_folder: Path) -> None:
    name = f"open-clip/local-dir:{biocap}"
    base = load_model(name, device="cpu")
    named = load_model(f"{name}?projector=caption", device="cpu")
    assert isinstance(base, DualEncoder)
    assert named.name == base.projected("caption").name == f"{name}?projector=caption"
    twin: Any = base.projected("caption")
    again = pickle.loads(pickle.dumps(twin.load_again))(device="cpu")
    assert named.fingerprint == twin.fingerprint == again.fingerprint
    exact = load_model(name, device="cpu", decode="reference").projected("caption")
    assert (twin.decode, exact.decode) == ("cpu", "reference")
    assert exact.fingerprint != named.fingerprint
    assert exact.text_fingerprint == base.text_fingerprint
    assert load_model(f"{name}?projector=taxonomic", device="cpu").fingerprint == base.fingerprint
    with pytest.raises(UsageError, match=r"no projector 'captoin': taxonomic, caption. Did you m"):
        load_model(f"{name}?projector=captoin", device="cpu")
    with pytest.raises(UsageError, match=r"no projector 'caption': one projector only"):
        load_model(f"open-clip/local-dir:{clip_folder}?projector=caption", device="cpu")


def test_one_projector_or_random_ones_where_two_are_asked_for(
    biocap: Path, clip_folder: Path, tmp_path: Path
) -> None:
    """Its training writes a second scale for networks with one projector too."""
    import torch

    folder = shutil.copytree(biocap, tmp_path / "one")
    ask_for_two(folder)
    state = torch.load(folder / "open_clip_pytorch_model.bin")
    del state["visual.caption_proj"]
    torch.save(state, folder / "open_clip_pytorch_model.bin")
    model = load_model(f"open-clip/local-dir:{folder}", device="cpu")
    assert isinstance(model, DualEncoder)
    assert model.projectors == ()
    plain = load_model(f"open-clip/local-dir:{clip_folder}", device="cpu")
    assert model.fingerprint == plain.fingerprint
    random = load_model(f"open-clip/local-dir:{folder}?pretrained=false&size=48", device="cpu")
    assert isinstance(random, DualEncoder)
    assert random.projectors == ("taxonomic", "caption")
    assert random.transform(Image.new("RGB", (9, 9))).shape == (48, 48, 3)
    assert random.projected("caption").fingerprint != random.fingerprint
    state["visual.caption_proj"] = torch.zeros(3, 4)
    torch.save(state, folder / "open_clip_pytorch_model.bin")
    with pytest.raises(ModelError, match=r"second projector is \(3, 4\), expected \(32, 24\)"):
        load_model(f"open-clip/local-dir:{folder}", device="cpu")


# --- classes of the user's


def own_model(folder: Path, body: str = "", *, old: str = "", new: str = "") -> str:
    path = folder / "letters.py"
    path.write_text(OWN.replace(old, new) + body)
    return f"{path}:Letters"


def test_a_class_with_embed_texts_needs_nothing_else(
    load: Callable[[str], DualEncoder], photos: list[Image.Image]
) -> None:
    model = load("own")
    assert (model.logit_scale, model.logit_bias, model.text_limit) == (100.0, None, None)
    assert model.count_tokens(["a"]) is None
    assert model.text_fingerprint == model.fingerprint
    assert model.embed_texts(["abba"])[0, :3].tolist() == [2, 2, 0]
    batch = np.stack([model.transform(photo) for photo in photos])
    assert model.embed_images(batch).pooled.shape == (7, 26)


def test_what_a_class_says_of_itself_is_passed_on(tmp_path: Path) -> None:
    body = """
    logit_scale, logit_bias, text_limit = 7, -2.5, 12
    text_fingerprint = "letters 1"
    projectors = ("plain", "double")
    def count_tokens(self, texts): return [len(text) for text in texts]
    def projected(self, name): return Double()

class Double(Letters):
    logit_scale = 9.0
    def embed_images(self, batch): return 2 * super().embed_images(batch)
"""
    model = load_model(own_model(tmp_path, body))
    assert isinstance(model, DualEncoder)
    assert (model.logit_scale, model.logit_bias, model.text_limit) == (7.0, -2.5, 12)
    assert model.count_tokens(["abc", ""]) == [3, 0]
    assert model.text_fingerprint != model.fingerprint
    assert model.projectors == ("plain", "double")
    twin = model.projected("double")
    assert twin.logit_scale == 9.0
    assert twin.fingerprint not in (model.fingerprint, model.text_fingerprint)
    batch = np.zeros((1, 8, 8, 3), np.float32) + 3
    wanted = 2 * model.embed_images(batch).pooled
    assert np.array_equal(twin.embed_images(batch).pooled, wanted)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (
            "return np.array(rows, np.float64)",
            "return np.array(rows)[:, :5]",
            "embed_texts gave shape (9, 5) for 9 texts, expected (9, 26) (`dim` is 26).",
        ),
        (
            "return np.array(rows, np.float64)",
            "return np.array(rows) * np.nan",
            "embed_texts gave a number that is not finite for the text ''.",
        ),
        ("return np.array(rows", "return 1 / 0, (rows", "failed in embed_texts: ZeroDivision"),
        (
            "dim = 26",
            "dim = 26\n    text_limit = 'long'",
            "Letters has an unusable 'long' as `text_limit`, expected how many tokens it reads, "
            "or None where there is no limit.",
        ),
        (
            "dim = 26",
            "dim = 26\n    logit_scale = -1",
            "Letters has an unusable -1 as `logit_scale`, expected a number above 0 that cosines "
            "are multiplied by.",
        ),
        (
            "dim = 26",
            "dim = 26\n    text_fingerprint = 3",
            "Letters has an unusable 3 as `text_fingerprint`, expected text that changes with "
            "what embeds texts.",
        ),
        (
            "def embed_texts(self, texts):",
            "embed_texts = 'yes'\n    def other(self, texts):",
            "Letters has an unusable 'yes' as `embed_texts`, expected a method: a list of texts "
            "in, features (n × dim) out.",
        ),
        (
            "dim = 26",
            "dim = 26\n    def count_tokens(self, texts): return [1]",
            "count_tokens gave 1 numbers for 9 texts, expected one for each.",
        ),
    ],
)
def test_a_broken_class_gets_one_line(tmp_path: Path, old: str, new: str, line: str) -> None:
    with pytest.raises(ModelError, match=re.escape(line)) as caught:
        load_model(own_model(tmp_path, old=old, new=new))
    assert "\n" not in str(caught.value)


def test_a_file_that_only_texts_need_is_part_of_the_model(tmp_path: Path) -> None:
    new = "rows = [[len(open('WORDS').read()) + i for i in range(26)] for text in texts]"
    old = "rows = [[text.lower().count(chr(97 + i)) for i in range(26)] for text in texts]"
    words = tmp_path / "words.txt"
    prints = set()
    for content in ("one", "three"):
        words.write_text(content)
        name = own_model(tmp_path, old=old, new=new.replace("WORDS", str(words)))
        prints.add(load_model(name).fingerprint)
    assert len(prints) == 2
