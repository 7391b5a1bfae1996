"""Names, lists and identities of models: nothing here may load a network."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from fieldmark.errors import UnknownName, UsageError
from fieldmark.models import (
    Checkpoint,
    __all__,
    families,
    identify,
    known_models,
    load_model,
    register_model,
)
from fieldmark.models._load import REGISTRY
from fieldmark.models._name import parse_name


@pytest.fixture
def clean_registry() -> Iterator[None]:
    before = dict(REGISTRY.added)
    yield
    REGISTRY.added.clear()
    REGISTRY.added.update(before)


def test_names_are_taken_apart() -> None:
    name = parse_name("open-clip/ViT-B-16/openai?size=224&pretrained=false")
    assert (name.family, name.checkpoint) == ("open-clip", "ViT-B-16/openai")
    assert name.options == {"size": "224", "pretrained": "false"}
    assert name.portable == "open-clip/ViT-B-16/openai?pretrained=false&size=224"
    assert parse_name("a/my_model.py:Mine?x=1").is_file
    assert not parse_name("timm/resnet18").is_file


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "",
            "model '' cannot be read: expected family/checkpoint?option=value, "
            "for example timm/resnet18?pretrained=false.",
        ),
        (
            "timm/resnet18?pretrained",
            "model 'timm/resnet18?pretrained': option 'pretrained' cannot be read, "
            "expected key=value.",
        ),
        (
            "timm/resnet18?size=64&size=96",
            "model 'timm/resnet18?size=64&size=96': option 'size' is given twice: keep one.",
        ),
        (
            "timm/resnet18?sise=64",
            "model 'timm/resnet18?sise=64' takes pool, pretrained, size, weights: "
            "option 'sise' is not known. Did you mean 'size'?",
        ),
        (
            "tim/resnet18",
            "model 'tim/resnet18' is not known. Did you mean 'timm/resnet18'? "
            "`fieldmark models` lists all.",
        ),
        (
            "bioclip-2",
            "model 'bioclip-2' is not known. Did you mean 'open-clip/hf-hub:imageomics/bioclip-2'? "
            "`fieldmark models bioclip-2` lists all.",
        ),
        ("lab/net.py", "model 'lab/net.py' needs a class: expected lab/net.py:CLASS."),
        (
            "timm",
            "model 'timm' names a family only: expected timm/CHECKPOINT, for example "
            "timm/resnet18.a1_in1k. `fieldmark models timm` lists those known.",
        ),
        (
            "classical/color",
            "model 'classical/color' is not known. Did you mean 'classical/colour'? "
            "`fieldmark models classical` lists all.",
        ),
        (
            "classical/colour?size=big",
            "model 'classical/colour?size=big': size=big, expected a whole number of pixels "
            "from 8 to 8192.",
        ),
    ],
)
def test_a_wrong_name_gets_one_line(text: str, line: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_model(text)
    assert str(caught.value) == line


def test_import_and_listing_load_nothing_heavy() -> None:
    script = (
        "import sys, fieldmark.models as m\n"
        "rows = m.known_models(); m.known_models('clip'); m.families()\n"
        "m.check_model_name('timm/resnet18?pretrained=false')\n"
        "assert len(rows) > 100, len(rows)\n"
        "heavy = ['torch', 'numpy', 'PIL', 'timm', 'open_clip', 'transformers', 'torchvision',\n"
        "         'huggingface_hub', 'sklearn', 'polars']\n"
        "sys.exit(' '.join(each for each in heavy if each in sys.modules) or 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_every_row_is_complete() -> None:
    rows = known_models()
    assert len({row.name for row in rows}) == len(rows)
    shipped = [row for row in rows if row.source != "registered"]  # by a user, or another test
    for row in (each for each in shipped if not each.name.startswith(("chat/", "hf-chat/"))):
        assert row.title and row.licence and row.params is not None and row.input_px, row
        assert row.source.startswith("https://") or row.name.startswith("classical/"), row
        assert not row.released or len(row.released) == 7, row


def test_published_models_are_listed() -> None:
    wanted = [
        "PE-Core-bigG-14-448/meta", "bioclip-2.5-vith14", "PE-Core-L-14-336", "gopt-16-SigLIP2-384",
        "imageomics/bioclip-2", "vit_large_patch16_dinov3", "vit_giant_patch14_reg4_dinov2",
        "SO400M-14-SigLIP-384", "vit_large_patch14_reg4_dinov2", "vit_base_patch14_reg4_dinov2",
        "imageomics/biocap", "imageomics/bioclip", "ViT-L-14/openai", "ViT-B-16-SigLIP/webli",
        "BioTrove-CLIP", "ViT-B-16/openai", "ViT-B-32/openai", "vjepa2-vith",
        "MegaDescriptor-L-384", "resnet50.a1_in1k", "ViT-L-14/laion2b",
    ]  # fmt: skip
    names = [row.name for row in known_models()]
    assert [each for each in wanted if not any(each in name for name in names)] == []


def test_a_query_needs_every_word() -> None:
    assert {row.name.partition("/")[0] for row in known_models("CLIP openai")} == {
        "hf",
        "open-clip",
    }
    assert known_models("bioclip-2")[0].licence == "mit"
    assert known_models("no such thing") == []


def test_all_is_sorted_and_there() -> None:
    import fieldmark.models

    assert list(__all__) == sorted(__all__)
    assert all(hasattr(fieldmark.models, name) for name in __all__)
    with pytest.raises(AttributeError):
        _ = fieldmark.models.nothing


def test_families_are_the_files_here() -> None:
    assert {"classical", "hf", "open-clip", "timm", "torchvision"} <= set(families())


def test_a_registered_model_loads_with_its_options(clean_registry: None, tmp_path: Path) -> None:
    class Flat:
        def __init__(self, width: int = 4) -> None:
            self.dim = width

        def transform(self, image):  # type: ignore[no-untyped-def]
            return [0.0] * self.dim

        def embed_images(self, batch):  # type: ignore[no-untyped-def]
            return batch

    register_model("lab/flat", Flat)
    assert load_model("lab/flat?width=6").dim == 6
    assert load_model("lab/flat").name == "lab/flat"
    assert known_models("lab/flat") == [Checkpoint("lab/flat", source="registered")]
    assert "lab/flat" not in families()
    one, other = load_model("lab/flat"), load_model("lab/flat?width=5")
    assert one.fingerprint != other.fingerprint
    with pytest.raises(UsageError, match="model 'lab/flat' already exists: choose another name"):
        register_model("lab/flat", Flat)
    with pytest.raises(UsageError, match="cannot be registered"):
        register_model("lab/flat?x=1", Flat)


def test_entry_points_may_be_a_class_or_a_family(monkeypatch: pytest.MonkeyPatch) -> None:
    points = {
        "mine": EntryPoint("mine", "fieldmark.models.classical:load", "fieldmark.models"),
        "second": EntryPoint("second", "fieldmark.models.classical", "fieldmark.models"),
    }
    found = {"fieldmark.models": points}
    monkeypatch.setattr("fieldmark.registry.entry_points_of", lambda group: found.get(group, {}))
    assert load_model("second/pixels").dim == 768
    assert {"mine", "second"} <= set(families())
    assert "entry point" in {row.source for row in known_models("second")}


def test_identity_follows_the_users_files(tmp_path: Path) -> None:
    weights = tmp_path / "net.pt"
    weights.write_bytes(b"one")
    name = f"timm/resnet18?weights={weights}&size=64"
    before = identify(name).version
    assert before.startswith("timm/resnet18?size=64&weights=net.pt#")
    weights.write_bytes(b"two")
    assert identify(name).version != before
    assert identify(f"open-clip/ViT-B-16/{weights}").version.count("#") == 1
    assert identify(f"hf/{tmp_path}").version.count("#") == 1
    assert identify("timm/resnet18").version.startswith("timm/resnet18#")


def test_identity_refuses_what_cannot_load(tmp_path: Path) -> None:
    with pytest.raises(UnknownName):
        identify("tim/resnet18")
    with pytest.raises(UsageError, match=r"weights=/no/where.pt does not exist"):
        identify("timm/resnet18?weights=/no/where.pt")
    with pytest.raises(UsageError, match=r"no.py  does not exist"):
        identify(f"{tmp_path}/no.py:Mine")
