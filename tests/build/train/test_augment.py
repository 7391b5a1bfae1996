"""Random resized crop: torchvision's boxes, Pillow's pixels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmark.build.train.feed.sample_reader import RATIO, draw_crop, square
from fieldmark.data import open_image
from kit.mixed_photos import encoded, mixed_set, scene, turned

N_DRAWS = 4000
SCALE = (0.9, 1.0)


@pytest.mark.parametrize(
    ("height", "width", "scale"),
    [(300, 300, SCALE), (375, 500, SCALE), (375, 500, (0.08, 1.0)), (90, 1000, (0.3, 0.6))],
)
def test_boxes_are_distributed_as_those_of_torchvision(
    height: int, width: int, scale: tuple[float, float]
) -> None:
    torch = pytest.importorskip("torch")
    transforms = pytest.importorskip("torchvision.transforms")
    torch.manual_seed(0)
    blank = torch.empty((1, height, width))
    theirs = np.array(
        [
            transforms.RandomResizedCrop.get_params(blank, list(scale), list(RATIO))
            for _ in range(N_DRAWS)
        ],
        float,
    )
    ours = np.array([draw_crop(height, width, scale, 3, n, 5) for n in range(N_DRAWS)])
    ours = ours[:, [1, 0, 3, 2]]  # top, left, height, width
    for column in range(4):
        assert distance(ours[:, column], theirs[:, column]) < 0.045
    assert distance(ours[:, 2] * ours[:, 3], theirs[:, 2] * theirs[:, 3]) < 0.045


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """Kolmogorov-Smirnov: 0.045 is exceeded by chance in 1 of 1,600 comparisons of 4,000 draws."""
    at = np.union1d(a, b)
    below = [np.searchsorted(np.sort(x), at, side="right") / len(x) for x in (a, b)]
    return float(np.abs(below[0] - below[1]).max())


@given(
    height=st.integers(1, 3000),
    width=st.integers(1, 3000),
    low=st.floats(0.01, 1.0),
    seed=st.integers(0, 99),
)
def test_boxes_lie_in_the_photo(height: int, width: int, low: float, seed: int) -> None:
    x, y, box_w, box_h = draw_crop(height, width, (low, 1.0), seed)
    assert all(side == int(side) for side in (x, y, box_w, box_h))
    assert x >= 0
    assert y >= 0
    assert 0 < box_w <= width - x
    assert 0 < box_h <= height - y


def test_a_box_depends_on_seed_step_and_sample_alone() -> None:
    crops = {
        parts: draw_crop(400, 500, (0.2, 1.0), *parts)
        for parts in [(0, 1, 2), (1, 1, 2), (0, 2, 2), (0, 1, 3), (0, 12, 0)]
    }
    assert len(set(crops.values())) == len(crops)
    assert draw_crop(400, 500, (0.2, 1.0), 0, 1, 2) == crops[0, 1, 2]


def test_a_panorama_is_seen_in_the_middle() -> None:
    assert draw_crop(90, 1000, (0.9, 1.0), 0) == (440.0, 0.0, 120.0, 90.0)
    assert draw_crop(1000, 90, (0.9, 1.0), 0) == (0.0, 440.0, 90.0, 120.0)


@pytest.mark.slow
def test_pixels_are_those_of_open_clip() -> None:
    """Which gives torchvision's transform a photo of Pillow's."""
    functional = pytest.importorskip("torchvision.transforms.functional")
    for name, (data, _) in mixed_set().items():
        upright = open_image(data)
        crop = draw_crop(upright.height, upright.width, SCALE, 1, 2, name)
        x, y, width, height = map(int, crop)
        theirs = functional.resized_crop(
            upright, y, x, height, width, [64, 64], functional.InterpolationMode.BICUBIC
        )
        assert np.array_equal(square(64)(open_image(data, crop)), np.asarray(theirs)), name


def test_boxes_are_of_the_upright_photo() -> None:
    photo = scene(400, 200, 1)
    data = encoded(photo, "PNG", exif=turned(6))
    upright = open_image(data)
    assert upright.size == (200, 400)
    x, y, width, height = draw_crop(400, 200, SCALE, 1)
    part = upright.crop((int(x), int(y), int(x + width), int(y + height)))
    seen = square(32)(open_image(data, (x, y, width, height)))
    assert np.array_equal(seen, np.asarray(part.resize((32, 32), 3)))


@pytest.mark.parametrize("decoder", ["processor", "card"])
def test_fast_decoding_is_as_near_as_for_embedding(decoder: str) -> None:
    """One grey level; the matrix products of `resample` stand for the kernel, which agrees with
    them.
    """
    torch = pytest.importorskip("torch")
    from fieldmark.embed.cpu.decode import decode
    from fieldmark.embed.gpu.resize import Cut, resample

    for name, (data, _) in mixed_set().items():
        upright = open_image(data)
        crop = draw_crop(upright.height, upright.width, SCALE, 1, 2, name)
        exact = square(64)(open_image(data, crop)).astype(int)
        if decoder == "processor":
            seen = decode(data, square(64), [crop])
            assert seen is not None
            far = np.abs(seen[0].astype(int) - exact)
        else:
            canvas = torch.from_numpy(np.array(upright)).permute(0, 2, 1)[None].contiguous()
            x, y, width, height = crop
            box = (x, y, x + width, y + height)
            cut = Cut(0, (upright.height, upright.width), box, box, (64, 64))
            made = resample(canvas, [cut], (64, 64), "bicubic", (0, 0, 0))
            far = np.abs(made[0].permute(1, 2, 0).numpy().astype(int) - exact)
        assert far.max() <= 2, name
        assert (far > 1).mean() < 1e-3, name
