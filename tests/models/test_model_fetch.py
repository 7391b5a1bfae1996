"""Weights that must be fetched: from the cache, from a (loopback) hub, and not at all."""

from __future__ import annotations

import http.server
import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from fieldmark.errors import ModelError
from fieldmark.models import load_model
from fieldmark.models._name import ModelRequest, parse_name
from fieldmark.models._torch.weights import url_file

INSTEAD = "give local weights with ?weights=PATH, or random ones with ?pretrained=false."

FETCHED = {
    "timm/resnet18": "huggingface.co/timm/resnet18.a1_in1k",
    "timm/hf-hub:BVRA/MegaDescriptor-L-384": "huggingface.co/BVRA/MegaDescriptor-L-384",
    "open-clip/ViT-B-16/openai": "huggingface.co/timm/vit_base_patch16_clip_224.openai",
    "open-clip/hf-hub:imageomics/bioclip-2": "huggingface.co/imageomics/bioclip-2",
    "torchvision/resnet18": "download.pytorch.org/models/resnet18-f37072fd.pth",
    "hf/facebook/dinov2-base": "huggingface.co/facebook/dinov2-base",
}


@pytest.mark.parametrize("name", FETCHED)
def test_without_a_network_one_line_within_seconds(
    name: str, no_network: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Imports take as long as the machine is busy; what counts is how long it waits by itself."""
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    with pytest.raises(ModelError) as caught:
        load_model(name)
    assert sum(slept) < 10
    line = str(caught.value)
    place = FETCHED[name]
    assert line.startswith(f"model {name!r}: its files could not be fetched from {place} (")
    assert line.endswith(f"): connect, {INSTEAD}")
    assert "\n" not in line


@pytest.mark.parametrize("name", FETCHED)
def test_offline_nothing_is_even_tried(name: str, no_network: Path) -> None:
    with pytest.raises(ModelError) as caught:
        load_model(name, offline=True)
    assert str(caught.value) == (
        f"model {name!r}: its files from {FETCHED[name]} are not in the local cache and "
        f"fetching is switched off: load it once with a connection, {INSTEAD}"
    )


def test_the_hubs_own_offline_switch_is_honoured(
    no_network: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match="fetching is switched off"):
        load_model("timm/resnet18")


def test_what_is_in_the_cache_loads_without_asking(
    put_in_hub_cache: Callable[[str, Path], None],
    clip_folder: Path,
    hf_folders: dict[str, Path],
    timm_folder: Path,
) -> None:
    put_in_hub_cache("lab/clip", clip_folder)
    put_in_hub_cache("lab/dinov2", hf_folders["dinov2"])
    put_in_hub_cache("lab/timm", timm_folder)
    pairs = {
        "open-clip/hf-hub:lab/clip": f"open-clip/local-dir:{clip_folder}",
        "hf/lab/dinov2": f"hf/{hf_folders['dinov2']}",
        "timm/hf-hub:lab/timm": f"timm/local-dir:{timm_folder}",
    }
    for cached, local in pairs.items():
        one, other = load_model(cached, offline=True), load_model(local)
        assert one.fingerprint == other.fingerprint


def test_timms_own_weights_come_from_the_cache(
    put_in_hub_cache: Callable[[str, Path], None], timm_folder: Path
) -> None:
    from fieldmark.models._torch.weights import hash_weights

    put_in_hub_cache("timm/test_resnet.r160_in1k", timm_folder)
    model = load_model("timm/test_resnet", offline=True)
    assert hash_weights(model.module) == hash_weights(
        load_model(f"timm/local-dir:{timm_folder}").module
    )
    random = load_model("timm/test_resnet?pretrained=false")
    assert hash_weights(model.module) != hash_weights(random.module)


def test_a_sharded_checkpoint_needs_all_its_parts(
    put_in_hub_cache: Callable[[str, Path], None], hf_folders: dict[str, Path], tmp_path: Path
) -> None:
    import transformers

    folder = tmp_path / "sharded"
    shutil.copytree(hf_folders["dinov2"], folder)
    (folder / "model.safetensors").unlink()
    model = transformers.AutoModel.from_pretrained(hf_folders["dinov2"])
    model.save_pretrained(folder, max_shard_size="20KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 1
    put_in_hub_cache("lab/sharded", folder)
    whole = load_model(f"hf/{hf_folders['dinov2']}")
    assert load_model("hf/lab/sharded", offline=True).fingerprint == whole.fingerprint
    sorted(folder.glob("model-*.safetensors"))[0].unlink()
    with pytest.raises(ModelError, match="not in the local cache"):
        load_model("hf/lab/sharded", offline=True)


@pytest.fixture(scope="module")
def timm_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A timm model as its library publishes them."""
    import timm
    import torch
    from safetensors.torch import save_file

    folder = tmp_path_factory.mktemp("timm")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(9)
        model = timm.create_model("test_resnet")
    save_file(model.state_dict(), folder / "model.safetensors")
    about = {
        "architecture": "test_resnet",
        "num_classes": 1000,
        "pretrained_cfg": {"classifier": "fc"},
    }
    (folder / "config.json").write_text(json.dumps(about))
    return folder


class Hub(http.server.BaseHTTPRequestHandler):
    """As much of the hub as a download needs: what a repository holds, and its files."""

    def __init__(self, folder: Path, asked: list[str], *rest: object) -> None:
        self.folder, self.asked = folder, asked
        super().__init__(*rest)  # type: ignore[arg-type]

    def do_HEAD(self) -> None:
        self.answer(has_body=False)

    def do_GET(self) -> None:
        self.answer(has_body=True)

    def answer(self, has_body: bool) -> None:
        self.asked.append(f"{self.command} {self.path}")
        path = self.folder / self.path.rpartition("/")[2].partition("?")[0]
        is_listing = self.path.startswith("/api/")
        if is_listing:
            files = [{"rfilename": each.name} for each in self.folder.iterdir()]
            body = json.dumps({"id": "lab/net", "sha": "1" * 40, "siblings": files}).encode()
        elif "/private/" in self.path or not path.is_file():
            body = b""
        else:
            body = path.read_bytes()
        self.send_response(200 if body else 404)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", f'"{path.name}"')
        self.send_header("X-Repo-Commit", "1" * 40)
        self.end_headers()
        if has_body:
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(folder: Path, asked: list[str]) -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Hub, folder, asked))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_missing_weights_are_fetched_once(
    timm_folder: Path, no_network: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    asked: list[str] = []
    with serving(timm_folder, asked) as address:
        files = f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "ENDPOINT", address)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", files)
        fetched = load_model("timm/hf-hub:lab/net", device="cpu").fingerprint
        with pytest.raises(ModelError) as caught:
            load_model("open-clip/hf-hub:lab/net")
    assert str(caught.value) == (
        "lab/net on the hub contains no open_clip_config.json: it cannot be loaded."
    )
    gets = [each for each in asked if each.startswith("GET") and "/resolve/" in each]
    assert len(gets) == 2
    assert load_model("timm/hf-hub:lab/net", device="cpu").fingerprint == fetched
    assert load_model(f"timm/local-dir:{timm_folder}", device="cpu").fingerprint == fetched


def test_a_file_from_an_address_is_fetched_once(no_network: Path, tmp_path: Path) -> None:
    request = ModelRequest(parse_name("torchvision/resnet18"))
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "net-315f5bdb.pth").write_bytes(b"abc")  # not what the name's hash says
    (folder / "net.pth").write_bytes(b"abc")
    asked: list[str] = []
    with serving(folder, asked) as address:
        path = url_file(request, f"{address}/net.pth")
        assert path.read_bytes() == b"abc"
        assert url_file(request, f"{address}/net.pth") == path
        assert [each.split()[0] for each in asked] == ["HEAD", "GET"]
        with pytest.raises(ModelError, match="arrived damaged"):
            url_file(request, f"{address}/net-315f5bdb.pth")
        with pytest.raises(ModelError, match="could not be fetched"):
            url_file(request, f"{address}/other.pth")
