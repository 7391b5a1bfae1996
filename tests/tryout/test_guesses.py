"""Where models can only guess, `try` says so and accuses nobody's labels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from fieldmark.progress import Silent
from fieldmark.settings import Settings
from fieldmark.tryout.trial import TrialOptions, run_trial
from fieldmark.tryout.words import tell

Noise = Callable[[int, int], Path]


@pytest.fixture
def noise(tmp_path: Path) -> Noise:
    """Writes photos of pure noise: no label can be learnt."""

    def write(n_labels: int, seed: int) -> Path:
        rng = np.random.default_rng(seed)
        for number in range(48):
            path = tmp_path / "photos" / f"label {number % n_labels}" / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            pixels = rng.integers(0, 256, (24, 24, 3), dtype=np.uint8)
            PIL.Image.fromarray(pixels).save(path)
        return tmp_path / "photos"

    return write


@pytest.mark.parametrize("models", [("classical/colour",), ("classical",)])
@pytest.mark.parametrize("n_labels", [2, 6])
def test_models_that_guess_doubt_no_label(
    noise: Noise, tmp_path: Path, n_labels: int, models: tuple[str, ...]
) -> None:
    options, settings = TrialOptions(models=models), Settings(cache=tmp_path / "cache")
    verdict = run_trial(noise(n_labels, seed=n_labels), options, settings, Silent())
    text = "\n".join(tell(verdict))
    assert "No model is clearly better than always giving the most common label" in text
    assert not verdict.suspects.rows and "Check" not in text
    assert "Labels not checked: that takes two models that do clearly better" in text
    assert "Hardest label" in text


def test_unreadable_photos_are_told_once(
    noise: Noise, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from fieldmark.cli import main

    photos = noise(2, seed=0)
    (photos / "label 0" / "empty.jpg").touch()
    out = ["--out", str(tmp_path / "out"), "--cache", str(tmp_path / "cache")]
    assert main(["try", str(photos), "--models", "classical/colour", *out]) == 0
    told = capsys.readouterr()
    assert (told.out + told.err).count("images left out") <= 1
