"""The same features on a GPU: half precision close to float32, batches found and halved, photos
decoded on the card as Pillow decodes them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fieldmark.data import ImageRef
from fieldmark.embed import EmbedOptions, embed
from fieldmark.models import load_model
from fieldmark.progress import Silent
from kit.mixed_photos import NOT_FOR_THE_CARD, encoded, scene, write_mixed
from kit.pictures import write_image

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")

MODELS = ["timm/resnet18?pretrained=false", "timm/vit_small_patch16_224?pretrained=false"]


@pytest.fixture
def items(tmp_path: Path) -> tuple[Path, list[ImageRef]]:
    for number in range(96):
        write_image(tmp_path / f"{number:03d}.png", number, size=(240, 200))
    return tmp_path, [ImageRef(f"{number:03d}.png") for number in range(96)]


def cosine(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(one, axis=1) * np.linalg.norm(two, axis=1)
    return (one * two).sum(axis=1) / norms


@pytest.mark.parametrize("name", MODELS)
def test_gpu_agrees_with_cpu(name: str, items: tuple[Path, list[ImageRef]], tmp_path: Path) -> None:
    root, refs = items
    found = {}
    for device, precision in (("cpu", "float32"), ("cuda", "float32"), ("cuda", "auto")):
        model = load_model(name, device=device, precision=precision)
        cache = tmp_path / f"{device}-{precision}"
        found[device, precision] = embed(model, root, refs[:32], EmbedOptions(cache)).features
        if precision == "auto":
            assert model.precision == "bf16"
    cpu = found["cpu", "float32"]
    assert np.allclose(cpu, found["cuda", "float32"], rtol=1e-3, atol=1e-4)
    assert cosine(cpu, found["cuda", "auto"]).min() > 0.999


@pytest.mark.parametrize("name", MODELS)
def test_batch_size_and_order_do_not_matter(
    name: str, items: tuple[Path, list[ImageRef]], tmp_path: Path
) -> None:
    root, refs = items
    model = load_model(name, device="cuda", precision="float32")
    one = embed(model, root, refs, EmbedOptions(tmp_path / "a", batch_size=96)).features
    other = embed(model, root, refs[::-1], EmbedOptions(tmp_path / "b", batch_size=7, threads=8))
    assert np.allclose(one, other.features[::-1], rtol=1e-4, atol=1e-5)


def test_precision_is_part_of_the_fingerprint() -> None:
    prints = {
        load_model(MODELS[0], device="cuda", precision=precision).fingerprint
        for precision in ("float32", "bf16", "fp16")
    }
    assert len(prints) == 3


def test_batch_is_found_and_halved_when_memory_runs_out(
    items: tuple[Path, list[ImageRef]], tmp_path: Path
) -> None:
    root, refs = items
    model = load_model("timm/vit_small_patch16_224?pretrained=false", device="cuda")
    found = model.batch_size
    assert 32 <= found <= 1024 and found & (found - 1) == 0
    said: list[str] = []

    class Log(Silent):
        def say(self, text: str) -> None:
            said.append(text)

    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 250e6) / total)
    try:
        result = embed(model, root, refs, EmbedOptions(tmp_path / "c", batch_size=512), Log())
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert result.is_ok.all()
    assert any("out of memory, now batches of" in line for line in said)


@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize("name", MODELS)
def test_photos_decoded_on_the_card_give_the_features_of_the_reference(
    name: str, precision: str, tmp_path: Path
) -> None:
    refs, names = write_mixed(tmp_path / "photos")
    features = []
    for decode in ("gpu", "reference"):
        model = load_model(name, device="cuda", precision=precision, decode=decode)
        embedded = embed(model, tmp_path / "photos", refs, EmbedOptions(tmp_path / "cache"))
        features.append(embedded.features)
        if decode == "gpu":
            assert embedded.throughput.n_fallback == len(NOT_FOR_THE_CARD)
    far = zip(names, cosine(*features), strict=True)
    assert {image: value for image, value in far if value < 0.9995} == {}


def test_damaged_jpegs_do_not_spoil_their_neighbours(tmp_path: Path) -> None:
    good = [encoded(scene(400, 300, seed)) for seed in range(60)]
    for number, data in enumerate(good):
        (tmp_path / f"{number}.jpg").write_bytes(data)
    for number in range(0, 60, 7):
        data = bytearray(good[number])
        for place in range(len(data) // 2, len(data) - 20, 97):
            data[place] ^= 0x55
        (tmp_path / f"{number}.jpg").write_bytes(bytes(data))
    refs = [ImageRef(f"{number}.jpg") for number in range(60)]
    model, exact = (
        load_model(MODELS[0], device="cuda", decode=decode) for decode in ("gpu", "reference")
    )
    options = EmbedOptions(tmp_path / "cache", bad_images="skip")
    ours, theirs = (embed(own, tmp_path, refs, options) for own in (model, exact))
    whole = [number for number in range(60) if number % 7]
    assert cosine(ours.features[whole], theirs.features[whole]).min() >= 0.9995


def test_the_kernel_agrees_with_the_matrix_products() -> None:
    from fieldmark.embed.gpu.kernel import resample_at_once
    from fieldmark.embed.gpu.resize import FILTERS, SWAPPED, Cut, resample

    pictures = np.stack([np.asarray(scene(300, 220, seed)) for seed in range(4)])
    canvas = torch.from_numpy(pictures).cuda().permute(0, 1, 3, 2).contiguous()
    for kind in FILTERS:
        for turn in range(1, 9):
            width, height = (220, 300) if turn in SWAPPED else (300, 220)
            cuts = [
                Cut(place, (220, 300), (5.5, 9.0, 180.0, 200.25), (0, 0, width, height), out, turn)
                for place, out in enumerate([(64, 64), (64, 50), (30, 64), (64, 64)])
            ]
            one, two = (
                how(canvas, cuts, (64, 64), kind, (10, 20, 30)).int()
                for how in (resample, resample_at_once)
            )
            assert int((one - two).abs().max()) <= 2, (kind, turn)


def test_a_recorded_network_gives_what_it_gives_unrecorded() -> None:
    from fieldmark.embed.gpu.cuda_stream import RecordedNetwork, recorded

    model = load_model(MODELS[1], device="cuda")
    pixels = torch.randint(0, 256, (32, 3, 224, 224), dtype=torch.uint8, device="cuda")
    with torch.cuda.stream(torch.cuda.Stream()):
        network = recorded(model.embed_pixels, pixels)
        assert isinstance(network, RecordedNetwork)
        other = torch.randint_like(pixels, 256)
        assert torch.equal(network(other), model.embed_pixels(other))
