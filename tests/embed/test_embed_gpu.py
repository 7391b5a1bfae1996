"""The same features on a GPU: half precision close to float32, batches found and halved."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fieldmark.data import ImageRef
from fieldmark.embed import EmbedOptions, embed
from fieldmark.models import load_model
from fieldmark.progress import Silent
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
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 40e6) / total)
    try:
        result = embed(model, root, refs, EmbedOptions(tmp_path / "c", batch_size=96), Log())
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert result.is_ok.all()
    assert any("out of memory, going on with batches of" in line for line in said)
