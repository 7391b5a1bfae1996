"""Devices, precision, memory, weights and fingerprints of torch models."""

from __future__ import annotations

import json
import os
import re
import ssl
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from fieldmark import devices
from fieldmark.errors import ModelError, OutOfMemory, UsageError
from fieldmark.models import Features, Recipe, TorchBackbone, load_model
from fieldmark.models._torch.weights import hash_weights

NAME = "timm/test_resnet?pretrained=false&size=32"


class Probe(torch.nn.Module):
    """Notes the arithmetic it is called in."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 4)
        self.seen: list[tuple[bool, bool, bool]] = []

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        cpu, cuda = torch.is_autocast_enabled("cpu"), torch.is_autocast_enabled("cuda")
        self.seen.append((cpu, cuda, torch.is_inference_mode_enabled()))
        return self.layer(images.mean(dim=(2, 3)))


def embed(model: TorchBackbone, images: list[Image.Image]) -> np.ndarray:
    features: Features = model.embed_images(np.stack([model.transform(each) for each in images]))
    return features.pooled


def test_defect_biobench_autocast_hard_coded_to_cuda(photos: list[Image.Image]) -> None:
    for precision, expected in (("bf16", True), ("float32", False), ("auto", False)):
        model = TorchBackbone(Probe(), Recipe((8, 8)), device="cpu", precision=precision)
        features = embed(model, photos)
        assert set(model.module.seen) == {(expected, False, True)}
        assert features.dtype == np.float32


def test_precision_enters_the_fingerprint_and_barely_the_features(
    photos: list[Image.Image],
) -> None:
    full, half = (load_model(NAME, device="cpu", precision=each) for each in ("float32", "bf16"))
    assert full.fingerprint != half.fingerprint
    a, b = embed(full, photos), embed(half, photos)
    assert not np.array_equal(a, b)
    assert np.linalg.norm(a - b) < 0.05 * np.linalg.norm(a)


def test_devices_and_precisions_that_are_not_there() -> None:
    with pytest.raises(
        UsageError, match="device 'gpu' is not known: expected auto, cpu, cuda, cuda:0"
    ):
        load_model(NAME, device="gpu")
    with pytest.raises(
        UsageError, match="precision 'half' is not known: expected auto, float32, bf16"
    ):
        load_model(NAME, precision="half")
    with pytest.raises(ModelError, match="device 'cuda:99' is not available: torch sees cpu"):
        load_model(NAME, device="cuda:99")
    if not torch.cuda.is_available():
        assert load_model(NAME, device="auto").device.type in ("cpu", "mps")


def test_one_weight_or_one_pixel_more_is_another_model() -> None:
    model = load_model(NAME, device="cpu")
    again = load_model(NAME, device="cpu")
    with torch.no_grad():
        next(again.module.parameters()).view(-1)[0] += 1e-3
    assert again.fingerprint != model.fingerprint
    buffers = load_model(NAME, device="cpu")
    next(iter(buffers.module.buffers())).view(-1)[0] += 1
    assert buffers.fingerprint != model.fingerprint
    assert load_model(NAME.replace("32", "33"), device="cpu").fingerprint != model.fingerprint


def test_hash_sees_name_type_and_shape() -> None:
    def module(**tensors: torch.Tensor) -> torch.nn.Module:
        holder = torch.nn.Module()
        for name, value in tensors.items():
            holder.register_buffer(name, value)
        return holder

    hashes = [
        hash_weights(module(a=torch.zeros(4))),
        hash_weights(module(b=torch.zeros(4))),
        hash_weights(module(a=torch.zeros(2, 2))),
        hash_weights(module(a=torch.zeros(4, dtype=torch.int32))),
        hash_weights(module(a=torch.zeros(2), b=torch.zeros(2))),
        hash_weights(module(a=torch.tensor(0.0))),
    ]
    assert len(set(hashes)) == len(hashes)
    assert hash_weights(module(a=torch.arange(6.0).reshape(2, 3).T)) == hash_weights(
        module(a=torch.arange(6.0).reshape(2, 3).T.contiguous())
    )


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
        RuntimeError("MPS backend out of memory (MPS allocated: 1 GB)"),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate memory"
        ),
        MemoryError(),
    ],
)
def test_running_out_of_memory_is_told_apart(error: Exception) -> None:
    class Greedy(torch.nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            if len(images) > 2:
                raise error
            return images.mean(dim=(2, 3))

    model = TorchBackbone(Greedy(), Recipe((8, 8)), device="cpu")
    assert model.embed_images(np.zeros((2, 8, 8, 3), np.uint8)).pooled.shape == (2, 3)
    with pytest.raises(
        OutOfMemory, match="model 'TorchBackbone': cpu has too little memory for 3 at once"
    ):
        model.embed_images(np.zeros((3, 8, 8, 3), np.uint8))


def test_other_errors_keep_their_traceback() -> None:
    class Broken(torch.nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        TorchBackbone(Broken(), Recipe((8, 8)), device="cpu").embed_images(
            np.zeros((1, 8, 8, 3), np.uint8)
        )


def test_batch_size_from_two_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    """The arithmetic of the CUDA path: 100 bytes an image, 1 000 for the weights."""
    calls: list[int] = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: None)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 1000 + 100 * calls[-1])
    cuda = torch.device("cuda")
    for free, expected in (
        (10**9, 256),
        (100 * 100, 64),
        (130 * 100, 64),
        (161 * 100, 128),
        (10, 1),
    ):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device, free=free: (free, 10**9))
        assert devices.fitting_batch(cuda, calls.append) == expected
    assert set(calls) == {2, 8}
    assert devices.fitting_batch(torch.device("cpu"), calls.append) == 16


def save(model: torch.nn.Module, path: Path, **wrapped: bool) -> Path:
    state = {
        f"module.{key}" if wrapped else key: value for key, value in model.state_dict().items()
    }
    torch.save({"state_dict": state, "epoch": 3} if wrapped else state, path)
    return path


def test_local_weights_are_loaded_and_checked(tmp_path: Path, photos: list[Image.Image]) -> None:
    import timm
    from safetensors.torch import save_file

    torch.manual_seed(3)
    trained = timm.create_model("test_resnet")  # with its classifier, as training leaves it
    files = [save(trained, tmp_path / "a.pt"), save(trained, tmp_path / "b.pth", wrapped=True)]
    save_file(trained.state_dict(), tmp_path / "c.safetensors")
    prints = set()
    for path in [*files, tmp_path / "c.safetensors"]:
        model = load_model(f"timm/test_resnet?weights={path}&size=64", device="cpu")
        prints.add(model.fingerprint)
        images = model._images(np.stack([model.transform(each) for each in photos]))
        with torch.no_grad():
            wanted = trained.eval().forward_head(trained.forward_features(images), pre_logits=True)
        assert np.allclose(embed(model, photos), wanted.numpy(), atol=1e-5)
    assert len(prints) == 1


@pytest.mark.parametrize("family", ["torchvision/resnet18", "open-clip/local-dir:{}", "hf/{}"])
def test_local_weights_in_the_other_families(
    family: str, tmp_path: Path, clip_folder: Path, hf_folders: dict[str, Path]
) -> None:
    base = family.format(clip_folder if "clip" in family else hf_folders["clip"])
    model = load_model(f"{base}?pretrained=false", device="cpu")
    if family.startswith("torchvision"):
        import torchvision

        path = save(torchvision.models.resnet18(), tmp_path / "w.pt")
    elif family.startswith("open-clip"):
        path = clip_folder / "open_clip_pytorch_model.bin"
    else:
        path = hf_folders["clip"] / "model.safetensors"
    own = load_model(f"{base}?weights={path}", device="cpu")
    assert own.fingerprint != model.fingerprint
    if not family.startswith("torchvision"):
        assert own.fingerprint == load_model(base, device="cpu").fingerprint


def test_an_open_clip_name_may_end_in_a_file(tmp_path: Path, clip_folder: Path) -> None:
    import open_clip

    about = json.loads((clip_folder / "open_clip_config.json").read_text())["model_cfg"]
    (tmp_path / "test-tiny.json").write_text(json.dumps(about))
    open_clip.add_model_config(tmp_path / "test-tiny.json")
    torch.manual_seed(1)
    model = open_clip.create_model("test-tiny", pretrained=None)
    path = save(model, tmp_path / "epoch_1.pt", wrapped=True)
    loaded = load_model(f"open-clip/test-tiny/{path}", device="cpu")
    assert hash_weights(loaded.module) == hash_weights(model)
    larger = load_model(f"open-clip/test-tiny/{path}?size=48", device="cpu")
    assert larger.preprocess.size == (48, 48)


def test_weights_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    import timm

    path = save(timm.create_model("test_vit"), tmp_path / "vit.pt")
    with pytest.raises(ModelError) as caught:
        load_model(f"timm/test_resnet?weights={path}", device="cpu")
    assert str(caught.value).startswith(
        f"{path}  does not fit this network: it lacks conv1.0.weight"
    )
    assert re.search(
        r" and has \w+, [\w.]+ and \d+ more, which the network lacks", str(caught.value)
    )
    assert "\n" not in str(caught.value)
    broken = tmp_path / "broken.pt"
    broken.write_bytes(b"not a checkpoint")
    with pytest.raises(
        ModelError, match="cannot be read as weights, expected a safetensors or torch"
    ):
        load_model(f"timm/test_resnet?weights={broken}", device="cpu")


class Payload:
    """A pickle that would run a command."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch PWNED",)


def test_code_in_a_weights_file_is_never_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"state_dict": Payload()}, tmp_path / "evil.pt")
    with pytest.raises(ModelError, match="contains more than tensors and would have to run code"):
        load_model(f"timm/test_resnet?weights={tmp_path / 'evil.pt'}", device="cpu")
    assert not (tmp_path / "PWNED").exists()


def test_hf_weights_that_would_stay_random_are_refused(
    tmp_path: Path, hf_folders: dict[str, Path]
) -> None:
    from safetensors.torch import load_file, save_file

    state = load_file(hf_folders["vit"] / "model.safetensors")
    (tmp_path / "config.json").write_text((hf_folders["vit"] / "config.json").read_text())
    partly = {key: value for key, value in state.items() if not key.startswith("pooler")}
    save_file(partly, tmp_path / "model.safetensors", {"format": "pt"})
    assert load_model(f"hf/{tmp_path}", device="cpu").dim == 32  # the pooler is not used
    with pytest.raises(ModelError, match=r"its files have no weights for pooler\.\w+\.\w+"):
        load_model(f"hf/{tmp_path}?pool=pooler", device="cpu")
    lost = {key: value for key, value in partly.items() if not key.startswith("layernorm")}
    save_file(lost, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=r"no weights for layernorm.* which would then be random"):
        load_model(f"hf/{tmp_path}", device="cpu")


def test_hf_types_that_cannot_be_used_say_what_to_use(tmp_path: Path) -> None:
    import transformers

    transformers.ViTMAEConfig().save_pretrained(tmp_path)
    with pytest.raises(
        ModelError, match=r"hides patches at random .* use timm/vit_base_patch16_224.mae"
    ):
        load_model(f"hf/{tmp_path}?pretrained=false")


@pytest.mark.parametrize(
    ("name", "file"),
    [("timm/local-dir:", "config.json"), ("open-clip/local-dir:", "open_clip_config.json")],
)
def test_a_folder_without_its_configuration(name: str, file: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        load_model(f"{name}{tmp_path}")
    line = f"model '{name}{tmp_path}': {tmp_path / file} does not exist."
    assert str(caught.value) == line
    for inner in ("model", "model-two"):  # as training leaves them
        (tmp_path / inner).mkdir()
        (tmp_path / inner / file).touch()
    with pytest.raises(UsageError) as caught:
        load_model(f"{name}{tmp_path}")
    assert str(caught.value) == f"{line} Did you mean '{tmp_path / 'model'}'?"


def test_openai_weights_get_their_activation() -> None:
    """open_clip only warns when ViT-B-16 meets OpenAI's weights and their other activation."""
    import open_clip

    from fieldmark.models._name import ModelRequest, parse_name
    from fieldmark.models.open_clip import _tagged

    request = ModelRequest(parse_name("open-clip/ViT-B-16/openai?pretrained=false"))
    assert _tagged(open_clip, request, ("ViT-B-16", "openai"), False)["force_quick_gelu"] is True
    request = ModelRequest(parse_name("open-clip/ViT-B-16/laion2b_s34b_b88k?pretrained=false"))
    arguments = _tagged(open_clip, request, ("ViT-B-16", "laion2b_s34b_b88k"), False)
    assert arguments["force_quick_gelu"] is False


def test_missing_packages_name_the_extra() -> None:
    script = (
        "import sys\nsys.modules['torch'] = None\n"
        "from fieldmark.errors import MissingExtra\nimport fieldmark.models as m\n"
        "for ask in (lambda: m.load_model('timm/resnet18'), lambda: m.TorchBackbone):\n"
        "    try: ask()\n"
        "    except MissingExtra as error: print(error)\n"
        "print(m.load_model('classical/chance').dim)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    first, second, third = done.stdout.splitlines()
    assert first == (
        "timm/resnet18 needs the package 'torch', which is not installed: "
        "type `pip install '.[vision]'` in the folder you cloned (with uv: `uv sync --extra "
        "vision`; from an index: `pip install 'fieldmark[vision]'`)."
    )
    assert second.startswith("fieldmark.models.TorchBackbone needs the package 'torch'")
    assert third == "64"


def test_defect_biobench_ssl_switched_off_process_wide() -> None:
    context, environment = ssl._create_default_https_context, dict(os.environ)
    load_model(NAME, device="cpu")
    assert ssl._create_default_https_context is context
    assert dict(os.environ) == environment
    sources = Path(devices.__file__).parent.glob("*.py")
    texts = [path.read_text(encoding="utf-8").lower() for path in sources]
    forbidden = ("verify=false", "_create_unverified", "pythonhttpsverify", "curl_ca_bundle")
    assert not any(each in text for text in texts for each in forbidden)
