"""Classes that users write: what they may leave out, and what they are told when one is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fieldmark.errors import FieldmarkError, ModelError
from fieldmark.models import Backbone, load_model

NUMPY_MODEL = """
import numpy as np

class Mean:
    dim = 3

    def __init__(self, size=8, weights=""):
        self.size = size

    def transform(self, image):
        return np.asarray(image.resize((self.size, self.size)), np.float32)

    def embed_images(self, batch):
        return batch.mean(axis=(1, 2))
"""

TORCH_MODEL = """
import torch
from fieldmark.models import TorchBackbone

class Net(TorchBackbone):
    def __init__(self, width=5, device="auto", precision="auto"):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            net = torch.nn.Sequential(
                torch.nn.Conv2d(3, width, 4, 4), torch.nn.BatchNorm2d(width),
                torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
            )
        super().__init__(net, self.prepare, device=device, precision=precision)

    def prepare(self, image):
        pixels = torch.tensor(list(image.resize((16, 16)).tobytes()), dtype=torch.float32)
        return pixels.reshape(16, 16, 3).permute(2, 0, 1) / 255
"""


def write(folder: Path, text: str, name: str = "mine.py") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_plain_class_is_enough(tmp_path: Path, photos: list[Image.Image]) -> None:
    path = write(tmp_path, NUMPY_MODEL)
    model = load_model(f"{path}:Mean?size=4")
    assert isinstance(model, Backbone)
    assert (model.name, model.dim) == (f"{path}:Mean?size=4", 3)
    batch = np.stack([model.transform(each) for each in photos])
    assert batch.shape == (7, 4, 4, 3)
    features = model.embed_images(batch).pooled
    assert features.dtype == np.float32
    assert np.allclose(features, batch.mean(axis=(1, 2)))
    assert model.embed_images(batch[:0]).pooled.shape == (0, 3)


def test_its_fingerprint_follows_code_options_and_files(tmp_path: Path) -> None:
    path = write(tmp_path, NUMPY_MODEL)
    first = load_model(f"{path}:Mean").fingerprint
    assert load_model(f"{path}:Mean").fingerprint == first
    assert load_model(f"{path}:Mean?size=4").fingerprint != first
    weights = tmp_path / "w.bin"
    prints = set()
    for content in (b"a", b"b"):
        weights.write_bytes(content)
        prints.add(load_model(f"{path}:Mean?weights={weights}").fingerprint)
    write(tmp_path, NUMPY_MODEL + "# edited\n")
    prints.add(load_model(f"{path}:Mean").fingerprint)
    assert len(prints | {first}) == 4


@pytest.mark.parametrize("kind", ["colour", "words"])
def test_its_fingerprint_knows_nothing_of_how_a_model_in_it_was_asked_for(
    tmp_path: Path, kind: str
) -> None:
    text = f"""
import os
from fieldmark.models import load_model

class Inner:
    def __init__(self):
        self.inner = load_model("classical/{kind}", offline="OFFLINE" in os.environ)
        self.dim = self.inner.dim
    def transform(self, image): return self.inner.transform(image)
    def embed_images(self, batch): return self.inner.embed_images(batch)
"""
    path = write(tmp_path, text)
    first = load_model(f"{path}:Inner").fingerprint
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OFFLINE", "1")
        assert load_model(f"{path}:Inner").fingerprint == first


def test_an_own_fingerprint_stands_for_files_and_state_but_not_for_code(tmp_path: Path) -> None:
    text = NUMPY_MODEL.replace("dim = 3", "dim = 3\n    fingerprint = 'mine 1'")
    text = text.replace("self.size = size", "self.size, self.drawn = size, np.random.rand()")
    path = write(tmp_path, text)
    first = load_model(f"{path}:Mean").fingerprint
    assert load_model(f"{path}:Mean").fingerprint == first
    write(tmp_path, text.replace("mine 1", "mine 2"))
    second = load_model(f"{path}:Mean").fingerprint
    write(tmp_path, text + "# edited\n")
    assert len({first, second, load_model(f"{path}:Mean").fingerprint}) == 3


def test_a_torch_module_needs_one_call(tmp_path: Path, photos: list[Image.Image]) -> None:
    path = write(tmp_path, TORCH_MODEL)
    model = load_model(f"{path}:Net?width=6", device="cpu")
    batch = np.stack([model.transform(each) for each in photos])
    together = model.embed_images(batch).pooled
    alone = np.concatenate([model.embed_images(batch[i : i + 1]).pooled for i in range(7)])
    assert together.shape == (7, model.dim) == (7, 6)
    assert np.allclose(together, alone, atol=1e-5)
    assert model.batch_size == 16


def test_torch_fingerprint_of_a_user_class_sees_transform_and_options(tmp_path: Path) -> None:
    path = write(tmp_path, TORCH_MODEL)
    first = load_model(f"{path}:Net").fingerprint
    assert load_model(f"{path}:Net").fingerprint == first
    assert load_model(f"{path}:Net?width=6").fingerprint != first
    other = write(tmp_path, TORCH_MODEL.replace("/ 255", "/ 256"), "other.py")
    assert load_model(f"{other}:Net").fingerprint != first


BASE = """class M:
    dim = 2
    def transform(self, i): return i
    def embed_images(self, b): return b
"""


@pytest.mark.parametrize(
    ("text", "options", "line"),
    [
        (
            BASE.replace("embed_images", "embed"),
            "",
            "model 'NAME': M has no `embed_images`, expected a method: stacked transform results "
            "in, features (n × dim) out.",
        ),
        (
            BASE.replace("def transform(self, i): return i", "transform = 3"),
            "",
            "model 'NAME': M has an unusable 3 as `transform`, expected a method: an RGB PIL image "
            "in, an array out.",
        ),
        (
            BASE.replace("dim = 2", "dim = 0"),
            "",
            "model 'NAME': M has an unusable 0 as `dim`, expected the length of a feature, "
            "a whole number above 0.",
        ),
        (
            BASE.replace("dim = 2", "dim = 2\n    fingerprint = 7"),
            "",
            "model 'NAME': `fingerprint` is 7, expected text that changes with the weights "
            "(or none at all: then one is made from code, files and state).",
        ),
        (
            BASE + "    def __init__(self, width=3): pass\n",
            "?widht=4",
            "model 'NAME' takes width: option 'widht' is not known. Did you mean 'width'?",
        ),
        (
            BASE,
            "?a=4",
            "model 'NAME' takes no options: option 'a' is not known.",
        ),
        (
            BASE + "    def __init__(self): raise OSError('no weights.\\nmore')\n",
            "",
            "model 'NAME' cannot be built: OSError: no weights.",
        ),
    ],
)
def test_a_broken_class_gets_one_line(tmp_path: Path, text: str, options: str, line: str) -> None:
    name = f"{write(tmp_path, text)}:M{options}"
    with pytest.raises(FieldmarkError) as caught:
        load_model(name)
    assert str(caught.value) == line.replace("NAME", name)


def test_a_missing_class_is_named_with_the_closest(tmp_path: Path) -> None:
    path = write(tmp_path, NUMPY_MODEL)
    with pytest.raises(FieldmarkError, match=re.escape("has no 'Maen'. Did you mean 'Mean'?")):
        load_model(f"{path}:Maen")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            "return b",
            "return b[:, :3, 0, 0]",
            r"shape \(4, 3\) for 4 images, expected \(4, 2\)",
        ),
        (
            "return b",
            "return 1 / 0",
            r"failed in embed_images: ZeroDivisionError: division",
        ),
        ("return i", "return i[0]", r"failed in transform of a test picture of 256 × 256 px: Typ"),
        ("resize((8, 8))", "copy()", r"shapes \(224, 640, 3\) and \(256, 256, 3\), expected one"),
    ],
)
def test_a_model_that_cannot_embed_is_refused_when_it_is_loaded(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    text = BASE.replace("return i\n", "return np.asarray(i.resize((8, 8)), np.float32)\n")
    text = text if old in text else BASE
    path = write(tmp_path, f"import numpy as np\n{text.replace(old, new)}")
    with pytest.raises(ModelError, match=says) as caught:
        load_model(f"{path}:M")
    assert "\n" not in str(caught.value)


def test_a_torch_network_that_cannot_see_fails_when_it_is_loaded(tmp_path: Path) -> None:
    path = write(tmp_path, TORCH_MODEL.replace("Conv2d(3,", "Conv2d(4,"))
    with pytest.raises(
        ModelError, match=r"model 'Net' cannot embed an image of its input size: Runtime"
    ):
        load_model(f"{path}:Net")
    path = write(tmp_path, TORCH_MODEL.replace(", torch.nn.Flatten()", ""), "b.py")
    with pytest.raises(ModelError, match=r"gives shape \(1, 5, 1, 1\) for one image"):
        load_model(f"{path}:Net")
