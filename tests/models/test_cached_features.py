"""A run that needs features only, all of them in the cache: is the network left alone?"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fieldmark.cli import main
from fieldmark.store import Store
from kit.made import make_dataset

HEAVY = ("torch", "torchvision", "timm", "open_clip", "transformers", "pillow_heif")
DONE = ("sklearn", "scipy", "pandas", "PIL.JpegImagePlugin")
PROGRAM = f"""
import json, sys
from fieldmark import files
from fieldmark.cli import main

files.RACY_NS = 0  # files of a moment ago would count as unknown
code = main(sys.argv[1:])
print(json.dumps([name for name in {(*HEAVY, *DONE)!r} if name in sys.modules]))
sys.exit(code)
"""


def imported_by(words: list[str]) -> tuple[list[str], str]:
    """Heavy packages that a command imported, and what it told."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1]), ran.stderr  # after the scores of the run


def predictions(results: Path) -> dict[str, list[tuple[str, str | None, float | None]]]:
    """What each model said of every photo with the newest probe."""
    with Store.open(results / "fieldmark.db") as store:
        frames = {run.spec.model: store.predictions(run.id) for run in store.runs()}
    columns = ("id", "prediction", "score")
    return {name: frame.select(columns).rows() for name, frame in frames.items()}


@pytest.mark.slow
def test_a_probe_on_cached_features_imports_no_torch(
    tmp_path: Path,
    hf_folders: dict[str, Path],
    clip_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fieldmark.files.RACY_NS", 0)  # as in PROGRAM
    make_dataset("world", tmp_path / "world", 60)
    models = (
        "timm/test_resnet?pretrained=false&size=32",
        "torchvision/mobilenet_v3_small?pretrained=false&size=48",
        f"open-clip/local-dir:{clip_folder}",
        f"hf/{hf_folders['dinov2']}",
    )
    words = ["run", "--task", "world-species", "--protocol", "probe"]
    words += ["--data", f"world={tmp_path / 'world'}", "--cache", str(tmp_path / "cache")]
    words += [word for model in models for word in ("--model", model)]
    assert main([*words, "--results", str(tmp_path / "first")]) == 0

    again = [*words, "--probe", "neighbours", "--results"]
    heavy, told = imported_by([*again, str(tmp_path / "cached")])
    assert "4 runs finished, 0 done before" in told
    assert not set(heavy) & set(HEAVY)
    heavy, told = imported_by([*again, str(tmp_path / "cached")])
    assert "0 runs finished, 4 done before" in told
    assert set(heavy) <= {"scipy"}  # the verdict needs it

    (tmp_path / "cache").rename(tmp_path / "gone")
    assert main([*again, str(tmp_path / "loaded")]) == 0
    assert predictions(tmp_path / "cached") == predictions(tmp_path / "loaded")
