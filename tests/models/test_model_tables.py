"""The checkpoint tables against what the libraries themselves know."""

from __future__ import annotations

import pytest

from fieldmark.models import hf, open_clip, timm, torchvision
from fieldmark.models._backbone import Checkpoint, checkpoint_table


def test_timm_rows_match_timm() -> None:
    import timm as library

    published = set(library.list_pretrained())
    for row in timm.CHECKPOINTS:
        if row.name.startswith("hf-hub:"):
            continue
        about = library.get_pretrained_cfg(row.name)
        size = (
            about.input_size
            if about.fixed_input_size
            else about.test_input_size or about.input_size
        )
        assert row.name in published
        assert (row.licence, row.input_px) == (about.license, size[-1]), row.name


@pytest.mark.parametrize(
    "name",
    ["resnet50.a1_in1k", "mobilenetv3_large_100.ra_in1k", "vit_small_patch16_dinov3.lvd1689m"],
)
def test_timm_parameters_are_counted_without_the_classifier(name: str) -> None:
    import timm as library
    import torch

    with torch.device("meta"):
        model = library.create_model(name, num_classes=0)
    row = next(row for row in timm.CHECKPOINTS if row.name == name)
    assert row.params == sum(each.numel() for each in model.parameters())


def test_open_clip_rows_match_open_clip() -> None:
    import open_clip as library

    for row in open_clip.CHECKPOINTS:
        if row.name.startswith("hf-hub:"):
            assert row.source == f"https://huggingface.co/{row.name.removeprefix('hf-hub:')}"
            continue
        architecture, tag = row.name.split("/")
        assert library.get_pretrained_cfg(architecture, tag)["hf_hub"], row.name
        assert library.get_model_config(architecture)["vision_cfg"]["image_size"] == row.input_px


def test_open_clip_parameters_are_the_image_towers() -> None:
    import open_clip as library
    import torch

    with torch.device("meta"):
        model = library.create_model("PE-Core-T-16-384", device="meta", load_weights=False)
    row = next(row for row in open_clip.CHECKPOINTS if row.name.startswith("PE-Core-T-16-384"))
    assert row.params == sum(each.numel() for each in model.visual.parameters())


def test_torchvision_rows_match_torchvision() -> None:
    import torchvision as library

    models = library.models
    for row in torchvision.CHECKPOINTS:
        weights = models.get_model_weights(row.name).DEFAULT
        assert weights.transforms().crop_size == [row.input_px], row.name
        assert row.params is not None and row.params < weights.meta["num_params"]


def test_hf_rows_are_repositories() -> None:
    assert all(row.name.count("/") == 1 for row in hf.CHECKPOINTS)


def test_empty_cells_take_the_tables_value() -> None:
    rows = checkpoint_table(
        """
        a/b | 12 | 224 | mit | 2024-01 | A
        hf-hub:c/d | | | | | C
        """,
        "https://x.org/{repo}",
        licence="apache-2.0",
        released="2025-02",
    )
    assert rows == (
        Checkpoint("a/b", 12, 224, "mit", "A", "2024-01", "https://x.org/a/b"),
        Checkpoint("hf-hub:c/d", None, None, "apache-2.0", "C", "2025-02", "https://x.org/c/d"),
    )
