"""Is each picture prepared once, whoever measures, shows or sends it?"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fieldmark.chat import Picture, glance, prepare
from fieldmark.chat.send import pictures
from fieldmark.chat.send.pictures import PictureCache, PictureLimits, PictureSize, SentPicture
from fieldmark.cli import main
from fieldmark.settings import Settings
from kit.ask import Parrot, ask, command, facts_of
from kit.chat import make_jpeg, running


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Picture → how many times it was made ready."""
    counts: Counter[str] = Counter()

    def count(picture: Picture, *limits: Any) -> SentPicture:
        counts[picture.name] += 1
        return prepare(picture, *limits)

    monkeypatch.setattr(pictures, "prepare", count)
    return counts


@pytest.mark.parametrize("n_train", [0, 10])
@pytest.mark.parametrize("model", ["chat/mock/wren?skill=0.7", "endpoint"])
def test_each_picture_is_prepared_once(
    fresh_settings: Settings, prepared: Counter[str], n_train: int, model: str
) -> None:
    with running(Parrot('{"answer": "A"}')) as url:
        name = f"chat/custom/m?base_url={url}" if model == "endpoint" else model
        evaluation = ask(fresh_settings, name, n_train=n_train)
    shown = {id_ for facts in facts_of(evaluation) for id_ in facts.get("examples", ())}
    n_pictures = len(evaluation.predictions) + len(shown)
    assert set(prepared.values()) == {1} and len(prepared) == n_pictures


def test_planning_prepares_none(
    fresh_settings: Settings, world: Path, prepared: Counter[str], capfd: pytest.CaptureFixture[str]
) -> None:
    words = ("--model", "chat/openai/gpt-4o", "--n-train", "10")
    assert main(["plan", *command(world, *words)[1:]]) == 0
    assert "requests" in capfd.readouterr().err and not prepared


def test_of_what_does_not_fit_in_memory_the_size_is_kept(prepared: Counter[str]) -> None:
    photos = [Picture(make_jpeg(n, (60, 40)), f"{n}.jpg") for n in range(6)]
    sizes = [prepare(photo).size for photo in photos]
    cache = PictureCache(most_bytes=4 * max(size.n_bytes for size in sizes))
    assert [cache.size(photo) for photo in photos] == sizes
    assert [cache.size(photo) for photo in photos] == sizes
    assert set(prepared.values()) == {1}
    cache.prepare(photos[0])
    assert prepared["0.jpg"] == 2
    small = PictureCache(most_bytes=9)
    assert [small.size(photo) for photo in (*photos, *photos)] == sizes * 2
    assert set(prepared.values()) == {2, 3}


@pytest.mark.parametrize(
    ("limits", "crop"),
    [
        (PictureLimits(), None),
        (PictureLimits(long_px=30), None),
        (PictureLimits(n_bytes=1200), None),
        (PictureLimits(), (5, 5, 20, 10)),
    ],
)
@pytest.mark.parametrize("orientation", [1, 6])
def test_a_glance_is_as_large_as_what_is_sent(
    limits: PictureLimits, crop: Any, orientation: int
) -> None:
    from PIL import Image

    exif = Image.Exif()
    exif[0x0112] = orientation
    photo = Picture(make_jpeg(1, (60, 40), exif=exif), "a.jpg", crop)
    near, exact = glance(photo, limits), prepare(photo, limits).size
    if limits.n_bytes is None:
        assert (near.width, near.height) == (exact.width, exact.height)
    assert isinstance(near, PictureSize) and near.n_bytes <= 4 / 3 * (limits.n_bytes or 1e9)
