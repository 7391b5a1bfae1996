"""How photos are read is part of a network where it is not the exact way, and of nothing else."""

from __future__ import annotations

import importlib.util
import logging
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from PIL import Image

from fieldmark import devices
from fieldmark.embed.patches import PatchFeatures
from fieldmark.embed.work import decode_of
from fieldmark.errors import ModelError, UsageError
from fieldmark.models import ModelMemory, Recipe, TorchBackbone, identify, load_model
from fieldmark.models._name import resolve_decode

NET = "timm/test_resnet?pretrained=false&size=32"
PATHS = ("auto", "reference", "cpu")
RECIPE = Recipe((8, 8))
CUDA = torch.device("cuda")
MINE = """
import torch
from fieldmark.models import Recipe, TorchBackbone
def module():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 8, 8), torch.nn.Flatten())
class Mine(TorchBackbone):
    def __init__(self):
        super().__init__(module(), {preprocess})
"""


def network() -> Any:
    layer = torch.nn.Conv2d(3, 2, 4, 4, bias=False)
    torch.nn.init.constant_(layer.weight, 0.5)
    return torch.nn.Sequential(layer, torch.nn.Flatten())


def tiny(decode: str = "auto", preprocess: Any = RECIPE) -> TorchBackbone:
    return TorchBackbone(network(), preprocess, device="cpu", decode=decode, options={"a": 1})


def mine(folder: Path, preprocess: str = "Recipe((16, 16))") -> str:
    (folder / "m.py").write_text(MINE.format(preprocess=preprocess))
    return f"{folder}/m.py:Mine"


def test_reference_has_the_fingerprint_of_old_and_the_fast_way_another() -> None:
    """The number is what version 0.1.0 gave this network."""
    models = {decode: tiny(decode) for decode in PATHS}
    assert [models[decode].decode for decode in PATHS] == ["cpu", "reference", "cpu"]
    assert models["reference"].fingerprint == "835082cd1d8fcb48d9a93a6ea785d024"
    assert models["auto"].fingerprint == models["cpu"].fingerprint
    assert models["cpu"].fingerprint != models["reference"].fingerprint


def test_a_transform_of_ones_own_is_always_used() -> None:
    def prepare(image: Image.Image) -> torch.Tensor:
        return torch.zeros(3, 8, 8)

    class Grey(Recipe):
        def __call__(self, image: Image.Image) -> Any:
            return super().__call__(image.convert("L"))

    class Turned(TorchBackbone):
        def transform(self, image: Image.Image) -> Any:
            return super().transform(image.rotate(90))

    class Doubled(TorchBackbone):
        def embed_images(self, batch: Any, **patches: bool) -> Any:
            return super().embed_images(batch[:, ::-1], **patches)

    class Vae(TorchBackbone):
        def decode(self, code: Any) -> Any:  # type: ignore[override]
            return code

    assert tiny(preprocess=prepare).decode == tiny(preprocess=Grey((8, 8))).decode == "reference"
    for kind in (Turned, Doubled, Vae):
        model = kind(network(), Recipe((8, 8)), device="cpu")
        assert decode_of(model) == "reference", kind
    later = tiny()
    later.preprocess = prepare
    assert later.decode == "reference"


def test_a_way_that_is_not_here_or_not_known_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="'fast' is not known: expected auto, reference, cpu, gpu"):
        load_model(NET, device="cpu", decode="fast")
    with pytest.raises(ModelError, match="needs a CUDA device .*, but the model is on cpu: use au"):
        load_model(NET, device="cpu", decode="gpu")
    monkeypatch.setattr(devices, "nvjpeg_library", lambda: None)
    with pytest.raises(ModelError, match="but nvJPEG is not installed: use auto"):
        devices.choose_decode("gpu", CUDA)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match="decode 'cpu' needs the package 'torchvision'.*pip inst"):
        devices.choose_decode("cpu", CUDA)


@pytest.mark.parametrize(
    ("device", "library", "package", "expected"),
    [
        ("cuda", "libnvjpeg.so", True, "gpu"),
        ("cuda", None, True, "cpu"),
        ("cuda", None, False, "reference"),
        ("cpu", "libnvjpeg.so", True, "cpu"),
        ("cpu", "libnvjpeg.so", False, "reference"),
    ],
)
def test_auto_takes_the_fastest_way_there_is(
    device: str,
    library: str | None,
    package: bool,
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(devices, "nvjpeg_library", lambda: library)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object() if package else None)
    assert devices.choose_decode("auto", torch.device(device)) == expected
    for wanted in ("reference", *(["cpu"] if package else [])):
        assert devices.choose_decode(wanted, torch.device(device)) == wanted


def test_the_library_is_one_that_can_be_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sysconfig.get_paths", lambda: dict.fromkeys(("platlib", "purelib"), here))
    monkeypatch.setattr("ctypes.util.find_library", lambda name: None)
    here = str(tmp_path)
    folder = tmp_path / "nvidia" / "cu13" / "lib"
    folder.mkdir(parents=True)
    (folder / "libnvjpeg.so.13").write_bytes(b"\x7fELF cut off")
    assert devices.nvjpeg_library.__wrapped__() is None
    loaded: list[str] = []
    monkeypatch.setattr("ctypes.CDLL", loaded.append)
    assert devices.nvjpeg_library.__wrapped__() == str(folder / "libnvjpeg.so.13")
    (tmp_path / "torchvision.libs").mkdir()
    (tmp_path / "torchvision.libs" / "libnvjpeg.4a0b.so.13").touch()
    assert "torchvision.libs" in devices.nvjpeg_library.__wrapped__()


def test_an_identity_knows_the_way_before_anything_is_loaded(tmp_path: Path) -> None:
    auto, exact, fast = (identify(NET, device="cpu", decode=decode) for decode in PATHS)
    assert auto == fast != exact
    memory = ModelMemory(tmp_path)
    for decode in ("cpu", "reference"):
        model = load_model(NET, device="cpu", decode=decode, memory=memory)
        known = ModelMemory(tmp_path).identify(NET, device="cpu", decode=decode)
        assert known.fingerprint == model.fingerprint
        assert known.version == (fast if decode == "cpu" else exact).version
    for name in ("classical/colour", "chat/mock/wren"):
        assert len({identify(name, decode=decode).version for decode in (*PATHS, "gpu")}) == 1


def test_a_plan_asks_no_torch_which_way_a_cpu_takes() -> None:
    code = (
        "import sys; from fieldmark.models import identify; "
        f"print(identify({NET!r}, device='cpu').version); assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == identify(NET, device="cpu", decode="cpu").version
    if not torch.cuda.is_available():
        assert resolve_decode("cuda", "auto") == "gpu", "a plan for another machine"


def test_the_way_reaches_a_model_of_the_users_own(tmp_path: Path) -> None:
    name, memory = mine(tmp_path), ModelMemory(tmp_path / "memory")
    exact, fast = (
        load_model(name, device="cpu", decode=decode, memory=memory) for decode in PATHS[1:]
    )
    assert (decode_of(exact), decode_of(fast)) == ("reference", "cpu")
    assert exact.fingerprint != fast.fingerprint
    known = {decode: memory.identify(name, device="cpu", decode=decode) for decode in PATHS}
    assert known["reference"].fingerprint == exact.fingerprint
    assert known["auto"] == known["cpu"] and known["cpu"].fingerprint == fast.fingerprint
    assert known["cpu"].version != known["reference"].version
    assert memory.identify(name, device="cpu", decode="gpu").version == ""


def test_a_model_that_reads_by_itself_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    name = mine(tmp_path, "lambda image: torch.zeros(3, 16, 16)")
    memory = ModelMemory(tmp_path / "memory")
    with caplog.at_level(logging.WARNING):
        prints = {load_model(name, device="cpu", decode=decode).fingerprint for decode in PATHS[:2]}
        assert not caplog.records
        prints.add(load_model(name, device="cpu", decode="gpu", memory=memory).fingerprint)
    assert len(prints) == 1
    (record,) = caplog.records
    assert "takes no `decode`, so --decode gpu has no effect on it" in record.getMessage()
    assert memory.identify(name, device="cpu", decode="reference").version


def test_a_family_of_somebody_elses_heeds_it_though_it_knows_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    family = ModuleType("their_models")
    family.load = lambda request: TorchBackbone(  # type: ignore[attr-defined]
        network(), Recipe((8, 8)), device=request.device, precision=request.precision
    )
    points = {"theirs": SimpleNamespace(load=lambda: family)}
    found = {"fieldmark.models": points}
    monkeypatch.setattr("fieldmark.registry.entry_points_of", lambda group: found.get(group, {}))
    for decode in ("reference", "cpu"):
        assert decode_of(load_model("theirs/a", device="cpu", decode=decode)) == decode
    assert len({identify("theirs/a", device="cpu", decode=path).version for path in PATHS}) == 2


def test_patches_are_read_as_the_model_is() -> None:
    for decode in ("reference", "cpu"):
        assert PatchFeatures(tiny(decode)).decode == decode
    assert PatchFeatures(load_model("classical/colour")).decode == "reference"
