"""The models without a network: what they measure, how fast, and the control among them."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image, ImageDraw

from fieldmark.errors import UsageError
from fieldmark.models import Backbone, DualEncoder, load_model
from fieldmark.models.classical import features as classical
from fieldmark.world import Scene, World
from kit.cpu_time import least_cpu_s

KINDS = ["colour", "texture", "pixels", "shape", "all", "chance"]


def embed(model: Backbone, images: list[Image.Image]) -> np.ndarray:
    return model.embed_images(np.stack([model.transform(each) for each in images])).pooled


def one_nearest(model: Backbone, groups: list[list[Image.Image]]) -> float:
    """Leave-one-out accuracy of the nearest neighbour: can groups be told apart?"""
    images = [image for group in groups for image in group]
    labels = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    features = embed(model, images).astype(float)
    distance = np.linalg.norm(features[:, None] - features[None], axis=2)
    np.fill_diagonal(distance, np.inf)
    return float((labels[distance.argmin(axis=1)] == labels).mean())


def blob(seed: int, colour: tuple[int, int, int], is_round: bool = True) -> Image.Image:
    random = np.random.default_rng(seed)
    noise = random.integers(0, 40, (96, 96, 3)).astype(np.uint8)
    image = Image.fromarray(noise + 90)
    x, y = random.integers(30, 50, 2)
    draw = ImageDraw.Draw(image)
    shape = draw.ellipse if is_round else draw.rectangle
    shape((x - 18, y - 18, x + 18, y + 18) if is_round else (x - 26, y - 9, x + 26, y + 9), colour)
    return image


def stripes(seed: int, is_upright: bool) -> Image.Image:
    random = np.random.default_rng(seed)
    wave = np.sin(np.arange(96) / random.uniform(1.5, 2.5) + random.uniform(0, 6)) * 100 + 128
    plane = np.tile(wave, (96, 1)) if is_upright else np.tile(wave, (96, 1)).T
    noisy = plane[:, :, None] + random.normal(0, 8, (96, 96, 3))
    return Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8))


def test_each_sees_what_it_is_for_and_the_control_sees_nothing() -> None:
    red_or_blue = [
        [blob(s, colour) for s in range(12)] for colour in ((200, 40, 40), (40, 40, 200))
    ]
    round_or_long = [
        [blob(s, (220, 220, 40), is_round) for s in range(12)] for is_round in (True, False)
    ]
    striped = [[stripes(s, is_upright) for s in range(12)] for is_upright in (True, False)]
    tasks = {"colour": red_or_blue, "shape": round_or_long, "texture": striped}
    chance = load_model("classical/chance")
    everything = load_model("classical/all")
    for kind, groups in tasks.items():
        assert one_nearest(load_model(f"classical/{kind}"), groups) >= 0.95, kind
        assert one_nearest(everything, groups) >= 0.9, kind
        assert one_nearest(chance, groups) < 0.8, kind
    assert one_nearest(load_model("classical/colour"), striped) < 0.8


def test_chance_is_noise_that_follows_the_pixels(make_photo: Callable[..., Image.Image]) -> None:
    model = load_model("classical/chance")
    images = [make_photo(seed) for seed in range(200)]
    features = embed(model, images)
    assert np.array_equal(features, embed(model, [image.copy() for image in images]))
    assert abs(features.mean()) < 0.05
    assert abs(features.std() - 1) < 0.05
    changed = images[0].resize((64, 64))
    changed.putpixel((5, 5), (255, 0, 255))
    neighbour = embed(model, [images[0].resize((64, 64)), changed])
    assert abs(np.corrcoef(neighbour)[0, 1]) < 0.5


@pytest.mark.parametrize("kind", KINDS)
def test_features_are_bit_identical_in_any_batch(kind: str, photos: list[Image.Image]) -> None:
    model = load_model(f"classical/{kind}")
    batch = np.stack([model.transform(each) for each in photos])
    whole = model.embed_images(batch).pooled
    backwards = model.embed_images(batch[::-1]).pooled[::-1]
    padded = model.embed_images(np.concatenate([batch[2:3]] * 5)).pooled
    assert np.array_equal(whole, backwards)
    assert all(np.array_equal(row, whole[2]) for row in padded)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fill", [(0, 0, 0), (255, 255, 255), (255, 0, 0)])
def test_plain_images_give_finite_numbers(kind: str, fill: tuple[int, int, int]) -> None:
    features = embed(load_model(f"classical/{kind}"), [Image.new("RGB", (50, 30), fill)])
    assert np.isfinite(features).all()
    assert np.abs(features).max() < 10


def test_size_is_an_option_and_another_model() -> None:
    small, large = load_model("classical/pixels?size=8"), load_model("classical/pixels")
    assert (small.dim, large.dim) == (192, 768)
    assert small.fingerprint != large.fingerprint
    assert load_model("classical/texture?size=64").dim == load_model("classical/texture").dim
    for size in (8, 9, 17):
        assert all(load_model(f"classical/{kind}?size={size}").dim > 0 for kind in KINDS)


def test_histograms_are_shares() -> None:
    pixels = np.zeros((32, 32, 3), np.uint8)
    pixels[:16, :, 0] = 255
    features = classical.colour(pixels)
    half = len(features) // 2
    for start, length in ((0, 64), (64, 24), (88, 8), (96, 16)):
        for offset in (0, half):
            block = features[offset + start : offset + start + length]
            assert np.isclose((block**2).sum(), 1)
    assert np.allclose(features[half - 11 : half - 8], [0.5, 0, 0])


def test_patterns_count_58_uniform_kinds() -> None:
    kinds = classical._uniform_kinds()
    assert len(np.unique(kinds)) == 59
    assert (kinds == 58).sum() == 256 - 58
    assert kinds[0b00000000] != 58 and kinds[0b11100001] != 58 and kinds[0b01010101] == 58


@pytest.mark.parametrize(("kind", "least"), [("colour", 300), ("pixels", 300), ("texture", 100)])
def test_fast_enough_for_a_demo(kind: str, least: int) -> None:
    """Per second of processor time, from 256 px photos; half the promise, for a busy machine."""
    random = np.random.default_rng(0)
    images = [Image.fromarray(random.integers(0, 256, (256, 256, 3), np.uint8)) for _ in range(20)]
    model = load_model(f"classical/{kind}")
    embed(model, images)
    assert len(images) / least_cpu_s(lambda: embed(model, images)) > least / 2


# --- classical/words: pictures and texts


@pytest.fixture(scope="module", params=[0, 1])
def new_world(request: pytest.FixtureRequest) -> tuple[World, np.ndarray, list[int], list[str]]:
    """Photos of 24 species that the model has never met: features, species and captions."""
    world, model = World(seed=request.param), load_model("classical/words")
    shots = [
        Scene(index, burst=9, individual=burst, shot=burst)
        for index in range(24)
        for burst in range(2)
    ]
    photos = [world.photo(scene) for scene in shots]
    captions = [str(photo.truth["caption"]) for photo in photos]
    features = embed(model, [photo.image for photo in photos])
    return world, features, [scene.species for scene in shots], captions


def unit(features: np.ndarray) -> np.ndarray:
    return features / np.linalg.norm(features, axis=1, keepdims=True)


@pytest.mark.parametrize(
    "form", ["{common}", "a photo of a {common}.", "{taxon}", "{taxon} with common name {common}"]
)
def test_words_name_species_of_a_world_they_were_not_fitted_on(
    new_world: tuple[World, np.ndarray, list[int], list[str]], form: str
) -> None:
    """Chance is 1/24; three times that is the least a demonstration must show."""
    world, images, species, _ = new_world
    model = load_model("classical/words")
    assert isinstance(model, DualEncoder)
    texts = [
        form.format(common=one.common_name, taxon=" ".join(one.ranks.values()))
        for one in world.species[:24]
    ]
    likeness = unit(images) @ unit(model.embed_texts(texts)).T
    assert (likeness.argmax(axis=1) == species).mean() > 3 / 24


def test_words_find_the_photo_of_a_caption(
    new_world: tuple[World, np.ndarray, list[int], list[str]],
) -> None:
    _, images, _, captions = new_world
    model = load_model("classical/words")
    assert isinstance(model, DualEncoder)
    likeness = unit(model.embed_texts(captions)) @ unit(images).T
    rank = (likeness > np.diag(likeness)[:, None]).sum(axis=1)
    assert (rank < 10).mean() > 0.6  # chance: 0.2


def test_words_come_in_any_order_and_unknown_ones_do_no_harm() -> None:
    model = load_model("classical/words")
    assert isinstance(model, DualEncoder)
    texts = ["spotted marsh finch", "Finch, SPOTTED marsh!", "", "🐆", "xyzzyq spotted marsh finch"]
    features = model.embed_texts(texts)
    assert np.array_equal(features[0], features[1])
    assert np.array_equal(features[2], features[3])
    assert np.isfinite(features).all()
    likeness = unit(features) @ unit(features[:1]).T
    assert likeness[4] > likeness[2]
    assert 1 < model.logit_scale < 100


def test_words_are_small_quick_and_take_one_size() -> None:
    assert classical.WEIGHTS.stat().st_size < 500_000
    load_model("classical/words")
    assert least_cpu_s(lambda: load_model("classical/words")) < 0.1
    with pytest.raises(UsageError, match="size=64, expected 128, which it was fitted with"):
        load_model("classical/words?size=64")


@pytest.mark.slow
def test_the_fit_is_deterministic_and_finds_what_goes_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A small one: the shipped matrices come from the same functions, with forty worlds."""
    script = Path(__file__).parents[2] / "benchmarks" / "fit_words.py"
    monkeypatch.syspath_prepend(script.parent)
    fit_words = SimpleNamespace(**runpy.run_path(str(script)))
    x_nm, texts = fit_words.gather([1000])
    first, again = (fit_words.fit(x_nm, texts) for _ in range(2))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    shapes = {name: first[name].shape for name in ("image_map", "text_map")}
    assert shapes == {"image_map": (2072, 64), "text_map": (2048, 64)}
    scale = fit_words.logit_scale(first, [1000])
    assert scale > fit_words.logit_scale(first, [1001])  # surer of what it was fitted on
