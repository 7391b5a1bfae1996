"""Image tokens against the families' own image processors, built from their published settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from fieldmark.chat.prices import ModelTables, load_tables
from fieldmark.chat.tokens import image_tokens
from kit.rings import mostly_slow

pytest.importorskip("torchvision", reason="the processors of transformers need it")
transformers = pytest.importorskip("transformers")

SIZES = (
    (1, 1), (28, 28), (160, 120), (300, 500), (336, 336), (500, 375), (640, 480), (800, 600),
    (1024, 768), (1120, 560), (1600, 400), (2048, 1536), (900, 3000), (4000, 3000),
)  # fmt: skip
"""width, height"""
VISION_MARKS = 2
"""tokens that open and close an image"""


def _qwen(patch_px: int, least_px: int, most_px: int) -> Callable[[Image.Image], int]:
    size = {"shortest_edge": least_px, "longest_edge": most_px}
    processor = transformers.Qwen2VLImageProcessor(patch_size=patch_px, merge_size=2, size=size)

    def count(image: Image.Image) -> int:
        grid = processor(image, return_tensors="pt")["image_grid_thw"]
        return int(grid.prod()) // 4 + VISION_MARKS

    return count


def _pixtral() -> Callable[[Image.Image], int]:
    processor = transformers.PixtralImageProcessor()

    def count(image: Image.Image) -> int:
        height, width = processor(image, return_tensors="pt")["image_sizes"][0]
        return (int(width) // 16 + 1) * (int(height) // 16)

    return count


def _llama() -> Callable[[Image.Image], int]:
    size = {"height": 560, "width": 560}
    processor = transformers.MllamaImageProcessor(size=size, max_image_tiles=4)
    vision = transformers.MllamaConfig().vision_config
    per_tile = (560 // vision.patch_size) ** 2 + 1

    def count(image: Image.Image) -> int:
        return int(processor(image, return_tensors="pt")["num_tiles"][0][0]) * per_tile

    return count


def _internvl() -> Callable[[Image.Image], int]:
    size = {"height": 448, "width": 448}
    processor = transformers.GotOcr2ImageProcessor(size=size, crop_to_patches=True, max_patches=12)

    def count(image: Image.Image) -> int:
        return 256 * int(processor(image, return_tensors="pt")["num_patches"][0]) + VISION_MARKS

    return count


FAMILIES = {
    "qwen/qwen-2-vl-7b-instruct": lambda: _qwen(14, 56 * 56, 28 * 28 * 16384),
    "qwen/qwen2.5-vl-72b-instruct": lambda: _qwen(14, 56 * 56, 28 * 28 * 16384),
    "qwen/qwen3-vl-235b-a22b-instruct": lambda: _qwen(16, 256 * 256, 4096 * 4096),
    "mistralai/pixtral-12b": _pixtral,
    "meta-llama/llama-3.2-11b-vision-instruct": _llama,
    "opengvlab/internvl3-78b": _internvl,
}


@pytest.fixture(scope="module")
def tables() -> ModelTables:
    return load_tables()


@pytest.mark.parametrize("name", mostly_slow(list(FAMILIES), next(iter(FAMILIES))))
def test_the_rule_of_a_family_is_what_its_processor_does(name: str, tables: ModelTables) -> None:
    count, card = FAMILIES[name](), tables.cards["openrouter", name]
    sizes = [size for size in SIZES if min(size) > 1 or "llama" in name]
    expected = {size: count(Image.new("RGB", size)) for size in sizes}
    assert {size: card.tokens_of_image(*size) for size in sizes} == expected


sides = st.integers(30, 5000)


@given(sides, sides)
def test_llama_canvas_for_any_size(width: int, height: int) -> None:
    from transformers.models.mllama.image_processing_mllama import get_optimal_tiled_canvas

    down, across = get_optimal_tiled_canvas(height, width, 4, 560)
    tiles = int(down) * int(across) // 560**2
    assert image_tokens({"rule": "llama-tiles"}, width, height) == 1601 * tiles


@given(sides, sides)
def test_qwen_grid_for_any_size(width: int, height: int) -> None:
    from transformers.models.qwen2_vl.image_processing_qwen2_vl import smart_resize

    options: Any = {"factor": 32, "min_pixels": 256 * 256, "max_pixels": 4096 * 4096}
    down, across = smart_resize(height, width, **options)
    rule = {"rule": "squares", "px": 32, "least": 64}
    assert image_tokens(rule, width, height) == down * across // 1024 + VISION_MARKS


@given(sides, sides)
def test_internvl_grid_for_any_size(width: int, height: int) -> None:
    from transformers.models.got_ocr2.image_processing_got_ocr2 import get_optimal_tiled_canvas

    across, down = get_optimal_tiled_canvas((height, width), (448, 448), 1, 12)
    tiles = across * down
    expected = 256 * (tiles + (tiles > 1)) + VISION_MARKS
    assert image_tokens({"rule": "best-grid"}, width, height) == expected
