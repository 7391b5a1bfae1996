"""A model is what it does: each thing that can change a feature makes another model, and nothing
else does. Told both by loading it and, where it was loaded before, without.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from fieldmark.models import ModelMemory, check_model_name, identify, load_model
from kit.cpu_time import least_cpu_s

TOP = (
    "import json, os\nfrom pathlib import Path\nimport numpy as np\nHERE = Path(__file__).parent\n"
)
BODY = """
    dim = 3
    def transform(self, image):
        return np.asarray(image.resize((8, 8)), np.float32)
    def embed_images(self, batch):
        return batch.mean(axis=(1, 2)) * self.scale()
"""
NET = """
import torch
from fieldmark.models import Recipe, TorchBackbone
def module():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 8, 8), torch.nn.Flatten())
"""
ENCODE = """
def encode(module, images, patches):
    return module(images) * 1, None
def prepare(image):
    image = image.convert("L").convert("RGB") if image.width > 2000 else image
    return np.asarray(image.resize((16, 16)), np.float32).transpose(2, 0, 1) / 255
"""


def mine(scale: str, first: str = "pass", top: str = "") -> str:
    """A model file: what it does when it is built, and how it comes to its scale."""
    start = (
        f"    def __init__(self):\n        {first}\n    def scale(self):\n        return {scale}\n"
    )
    return f"{TOP}{top}\nclass Mine:\n{start}{BODY}"


def save(path: Path, value: int) -> None:
    """The same number of bytes whatever the value, by the kind of the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".npy":
        np.save(path, np.full(3, value))
    elif path.suffix == ".pt":
        torch.save({"w": torch.full((3,), float(value))}, path)
    elif path.suffix == ".safetensors":
        from safetensors.numpy import save_file

        save_file({"w": np.full(3, value, np.float32)}, path)
    else:
        path.write_text(f"VALUE = {value}\n" if path.suffix == ".py" else str(value))


MODELS = {
    "helper module": (mine("helper.VALUE", top="import helper"), "helper.py"),
    "helper inside a function": (mine("__import__('helper').VALUE"), "helper.py"),
    "helper package": (mine("VALUE", top="from pack.deep.er import VALUE"), "pack/deep/er.py"),
    "open": (mine("self.w", "self.w = int(open(HERE / 'w.txt').read())"), "w.txt"),
    "open, late": (mine("int(open(HERE / 'w.txt').read())"), "w.txt"),
    "open, at the top": (mine("W", top="W = int((HERE / 'w.txt').read_text())"), "w.txt"),
    "os.open": (mine("int(os.read(os.open(HERE / 'w.txt', os.O_RDONLY), 9))"), "w.txt"),
    "numpy": (mine("self.w", "self.w = np.load(HERE / 'nets' / 'w.npy')"), "nets/w.npy"),
    "torch": (
        mine("self.w['w'].numpy()", "self.w = torch.load(HERE / 'w.pt')", "import torch"),
        "w.pt",
    ),
    "safetensors": (
        mine("self.w['w']", "self.w = load_file(HERE / 'w.safetensors')", "from safetensors.numpy "
             "import load_file"),
        "w.safetensors",
    ),
    "safetensors at the top": (
        mine("W['w']", top="from safetensors.numpy import load_file\n"
             "W = load_file(HERE / 'w.safetensors')"),
        "w.safetensors",
    ),
}  # fmt: skip


def write_all(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def settle(folder: Path) -> None:
    """As if everything had lain there for an hour, up to the date of the inode's change."""
    for path in folder.rglob("*"):
        date = path.stat().st_mtime - 3600
        os.utime(path, (date, date))


def change_in_place(path: Path, value: int) -> None:
    """Other content, the same size, date and inode."""
    before = path.stat()
    save(path, value)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)


@pytest.mark.parametrize("kind", MODELS)
def test_whatever_its_features_rest_on_makes_another_model(tmp_path: Path, kind: str) -> None:
    code, file = MODELS[kind]
    write_all(tmp_path / "m", {"m.py": code, "n/config.json": '"w"', "pack/__init__.py": ""})
    save(tmp_path / "m" / file, 1)
    settle(tmp_path / "m")
    name, memory = f"{tmp_path}/m/m.py:Mine", ModelMemory(tmp_path / "memory")
    assert memory.identify(name).version == ""
    first = load_model(name, memory=memory)
    known = memory.identify(name)
    assert known.version.startswith("m.py:Mine#")
    assert (known.fingerprint, known.dim) == (first.fingerprint, 3)

    change_in_place(tmp_path / "m" / file, 2)
    assert memory.identify(name).version == ""
    assert ModelMemory(tmp_path / "memory").identify(name).version == ""
    second = load_model(name, memory=memory)
    assert second.fingerprint != first.fingerprint
    assert memory.identify(name).version not in ("", known.version)
    assert np.allclose(second.behaviour(), 2 * first.behaviour(), rtol=1e-3)

    change_in_place(tmp_path / "m" / file, 1)
    assert ModelMemory(tmp_path / "memory").identify(name) == known
    assert load_model(name).fingerprint == first.fingerprint


@pytest.mark.parametrize(
    "read",
    [
        "float(open(HERE / f'{1:03}.txt').read())",
        "np.loadtxt(sorted(HERE.rglob('0*'))[0])",
        "np.fromfile(os.environ['WEIGHTS'], sep=' ')[0]",
    ],
    ids=["a computed name", "a search", "the environment"],
)
def test_what_reads_a_file_it_does_not_name_must_be_loaded_to_be_known(
    tmp_path: Path, read: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEIGHTS", str(tmp_path / "001.txt"))
    write_all(tmp_path, {"m.py": mine(read), "001.txt": "2"})
    name, memory = f"{tmp_path}/m.py:Mine", ModelMemory(tmp_path / "memory")
    model = load_model(name, memory=memory)
    assert memory.identify(name).version == ""
    assert memory.identify(name, loaded=model).version.startswith("m.py:Mine#")


def test_an_option_may_be_a_folder_of_weights(tmp_path: Path) -> None:
    code = TOP + "class Mine:\n    def __init__(self, weights):\n        self.w = weights\n"
    code += "    def scale(self):\n        return np.load(Path(self.w) / 'deep' / 'w.npy')\n" + BODY
    write_all(tmp_path, {"m.py": code})
    for folder in ("a", "b"):
        save(tmp_path / folder / "deep" / "w.npy", 1)
    memory = ModelMemory()
    names = [f"{tmp_path}/m.py:Mine?weights={tmp_path}/{folder}" for folder in "ab"]
    one, other = (load_model(name, memory=memory) for name in names)
    assert one.fingerprint == other.fingerprint
    save(tmp_path / "b/deep/w.npy", 2)
    assert memory.identify(names[0]).version and not memory.identify(names[1]).version
    assert load_model(names[1]).fingerprint != one.fingerprint


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("module(images) * 1", "module(images) * 2"),
        ("image.width > 2000", "image.width > 2100"),
        ("(16, 16)", "(17, 17)"),
        ("", "# a comment\n"),
    ],
)
def test_functions_given_to_a_torch_backbone_count(tmp_path: Path, old: str, new: str) -> None:
    make = "def make():\n    return TorchBackbone(module(), prepare, encode=encode)\n"
    code = TOP + NET + ENCODE + make
    path = write_all(tmp_path, {"m.py": code}) / "m.py"
    first = load_model(f"{path}:make", device="cpu")
    path.write_text(code.replace(old, new, 1))
    assert load_model(f"{path}:make", device="cpu").fingerprint != first.fingerprint


@pytest.mark.parametrize("changed", ["m.py", "net.py", "other/part.py"])
def test_a_factory_and_the_file_of_its_class_both_count(tmp_path: Path, changed: str) -> None:
    files = {
        "m.py": "import net\ndef make():\n    return net.Net(scale=1)\n",
        "net.py": TOP + "from other.part import Base\nclass Net(Base):\n    pass\n",
        "other/part.py": mine("self.by").replace("Mine", "Base").replace(
            "__init__(self):\n        pass", "__init__(self, scale):\n        self.by = scale"
        ),
    }  # fmt: skip
    write_all(tmp_path, files)
    first = load_model(f"{tmp_path}/m.py:make").fingerprint
    old, new = {
        "m.py": ("scale=1", "scale=2"),
        "net.py": ("pass", "dim = 3"),
        "other/part.py": ("(8, 8)", "(9, 9)"),
    }[changed]
    write_all(tmp_path, {changed: files[changed].replace(old, new)})
    assert load_model(f"{tmp_path}/m.py:make").fingerprint != first


FULL = {
    "m.py": mine("W * helper.VALUE", "self.w = np.load(HERE / 'w.npy'); self.at = str(HERE)",
                 "import helper\nW = float(open(HERE / 'w.txt').read())"),
    "helper.py": "VALUE = 1\n",
    "w.txt": "1",
}  # fmt: skip


def full(folder: Path) -> str:
    save(write_all(folder, FULL) / "w.npy", 1)
    return f"{folder}/m.py:Mine"


def test_place_order_and_neighbours_do_not_make_another_model(tmp_path: Path) -> None:
    here, there = full(tmp_path / "a"), full(tmp_path / "b/c")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    first = load_model(here).fingerprint
    write_all(tmp_path / "b", {"m.py": mine("helper.X", top="import helper"), "helper.py": "X=2"})
    load_model(f"{tmp_path}/b/m.py:Mine")
    write_all(tmp_path / "a", {"notes.txt": "x", "other.py": "x = 1", "x.npy": "x", "x.bin": "x"})
    names = (here, there, f"{tmp_path}/link/m.py:Mine")
    assert {load_model(name).fingerprint for name in names} == {first}
    memory = ModelMemory(tmp_path / "memory")
    versions = {memory.identify(name, loaded=load_model(name)).version for name in names}
    assert len({version.partition("#")[2] for version in versions}) == 1


def test_the_folder_it_is_started_in_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full(tmp_path / "a")
    found = set()
    memory = ModelMemory(tmp_path / "memory")
    for folder, name in (("a", "m.py:Mine"), (".", "a/m.py:Mine")):
        monkeypatch.chdir(tmp_path / folder)
        found.add(load_model(name, memory=memory).fingerprint)
        found.add(memory.identify(name).fingerprint)
    assert len(found) == 1


@pytest.mark.slow
def test_threads_processes_and_devices_do_not_make_another_model(tmp_path: Path) -> None:
    name = full(tmp_path)
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(load_model(name).fingerprint)) for _ in "x" * 4
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    code = f"from fieldmark.models import load_model; print(load_model({name!r}).fingerprint)"
    for first in ("", "import torch; "):
        done = subprocess.run(
            [sys.executable, "-c", first + code], capture_output=True, text=True, check=True
        )
        found.append(done.stdout.strip())
    found.append(load_model(name, device="cpu", precision="float32").fingerprint)
    assert len(found) == 7 and len(set(found)) == 1


def test_what_a_model_writes_is_not_what_it_is_made_of(tmp_path: Path) -> None:
    first = "self.log = str(HERE / 'log.npy'); open(self.log, 'ab').write(b'x'); "
    first += "open(HERE / 'log.txt', 'a').write('x'); open(HERE / 'log.txt').read()"
    name = f"{write_all(tmp_path, {'m.py': mine('1', first)})}/m.py:Mine"
    load_model(name)
    memory = ModelMemory(tmp_path / "memory")
    (tmp_path / "log.npy").unlink()
    one = load_model(name, memory=memory).fingerprint
    (tmp_path / "log.npy").unlink()
    assert memory.identify(name).fingerprint == one
    assert load_model(name).fingerprint == one


def test_random_weights_of_a_network_are_another_model_each_time_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    drawn = NET.replace("torch.manual_seed(0)", "torch.seed()")
    make = "def make():\n    return TorchBackbone(module(), Recipe((16, 16)))\n"
    name = f"{write_all(tmp_path, {'m.py': TOP + drawn + make})}/m.py:make"
    memory = ModelMemory(tmp_path / "memory")
    first = load_model(name, device="cpu", memory=memory)
    assert not caplog.records
    second = load_model(name, device="cpu", memory=memory)
    assert first.fingerprint != second.fingerprint
    assert memory.identify(name, device="cpu").version == "", "only loading tells what it is"
    assert "has changed since it was last loaded" in caplog.text


@pytest.mark.parametrize("name", ["classical/colour", "timm/test_resnet?pretrained=false&size=32"])
def test_families_are_known_at_once_and_their_features_once_loaded(
    tmp_path: Path, name: str
) -> None:
    memory = ModelMemory(tmp_path)
    before = memory.identify(name, device="cpu")
    assert before.version.startswith(f"{name.partition('?')[0]}") and not before.fingerprint
    model = load_model(name, device="cpu", memory=memory)
    after = ModelMemory(tmp_path).identify(name, device="cpu")
    assert after == memory.identify(name, device="cpu", loaded=model)
    assert (after.version, after.fingerprint, after.dim) == (
        before.version,
        model.fingerprint,
        model.dim,
    )


def test_precision_is_part_of_a_network_and_of_nothing_else(tmp_path: Path) -> None:
    net, classical = "timm/test_resnet?pretrained=false", "classical/colour"
    full32, half = (identify(net, device="cpu", precision=each) for each in ("float32", "bf16"))
    assert identify(net, device="cpu") == full32 != half
    assert half.version.startswith(f"{net}#bf16-")
    assert len({identify(classical, precision=each) for each in ("auto", "bf16", "float32")}) == 1
    memory = ModelMemory(tmp_path / "memory")
    write_all(tmp_path, {"m.py": TOP + NET + "class Mine(TorchBackbone):\n    def __init__(self):\n"
                         "        super().__init__(module(), Recipe((16, 16)))\n"})  # fmt: skip
    name = f"{tmp_path}/m.py:Mine"
    load_model(name, device="cpu", memory=memory)
    assert memory.identify(name, device="cpu", precision="bf16").version == ""
    load_model(name, device="cpu", precision="bf16", memory=memory)
    versions = [
        memory.identify(name, device="cpu", precision=each).version for each in ("auto", "bf16")
    ]
    assert "#bf16-" in versions[1] and "#bf16-" not in versions[0]


@pytest.mark.parametrize("place", ["?weights=", "local"])
def test_local_weights_of_a_family_count_by_content(tmp_path: Path, place: str) -> None:
    save(tmp_path / "deep/net.pt", 1)
    settle(tmp_path)
    weights = tmp_path / "deep/net.pt"
    name = f"timm/resnet18?weights={weights}" if place == "?weights=" else f"hf/{tmp_path}"
    memory = ModelMemory()
    first = memory.identify(name, device="cpu").version
    (tmp_path / "README.md").write_text("a model card")
    assert first == memory.identify(name, device="cpu").version
    change_in_place(weights, 2)
    assert memory.identify(name, device="cpu").version != first


def test_the_library_of_a_family_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    from fieldmark.models import _identity

    first = identify("timm/resnet18", device="cpu").version
    monkeypatch.setattr(_identity, "library_version", lambda package: f"{package} 99")
    assert identify("timm/resnet18", device="cpu").version != first


def test_asking_again_and_checking_a_name_are_quick(tmp_path: Path) -> None:
    memory = ModelMemory(tmp_path)
    names = ["classical/colour", "timm/resnet50.a1_in1k", "open-clip/ViT-B-16/openai"]
    for name in names:
        memory.identify(name, device="cpu")
    again = [name for name in names for _ in range(300)]
    cpu_s = least_cpu_s(lambda: [memory.identify(name, device="cpu") for name in again])
    assert cpu_s < 900 * 0.0005
    weights = tmp_path / "large.bin"
    with weights.open("wb") as file:
        file.truncate(4_000_000_000)
    assert least_cpu_s(lambda: check_model_name(f"timm/resnet18?weights={weights}")) < 1


def test_device_and_precision_reach_a_model_that_does_not_name_them(tmp_path: Path) -> None:
    """Defect 20: a TorchBackbone written as docs/add-a-model.md shows ignored both."""
    init = "    def __init__(self):\n        super().__init__(module(), Recipe((16, 16)))\n"
    make = "def make():\n    return TorchBackbone(module(), Recipe((16, 16)))\n"
    wrap = "from fieldmark.models import load_model\ndef wrap():\n"
    wrap += "    return load_model('timm/test_resnet?pretrained=false&size=32')\n"
    code = f"{TOP}{NET}class Mine(TorchBackbone):\n{init}{make}{wrap}"
    path = write_all(tmp_path, {"m.py": code}) / "m.py"
    for entry in ("Mine", "make", "wrap"):
        model = load_model(f"{path}:{entry}", device="cpu", precision="bf16")
        assert model.precision == "bf16"
        plain = load_model(f"{path}:{entry}", device="cpu")
        assert plain.precision == "float32" and plain.fingerprint != model.fingerprint
        with pytest.raises(Exception, match="device 'cuda:99' is not available"):
            load_model(f"{path}:{entry}", device="cuda:99")
    assert load_model("timm/test_resnet?pretrained=false", device="cpu").precision == "float32"


def test_a_model_that_takes_no_device_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    name = f"{write_all(tmp_path, {'m.py': mine('1')})}/m.py:Mine"
    with caplog.at_level(logging.WARNING):
        load_model(name, device="cpu")
        assert not caplog.records
        load_model(name, device="cuda")
    (record,) = caplog.records
    assert record.getMessage() == (
        f"model {name!r} takes no `device`, so --device cuda has no effect on it: "
        "see docs/add-a-model.md."
    )
