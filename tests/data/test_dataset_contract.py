"""Does every registered dataset keep the contract? A new file is tested without a new test."""

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from fieldmark.data import (
    COLUMNS,
    DATASETS,
    MARK,
    Dataset,
    ImageRef,
    Info,
    is_as_drawn,
    load_dataset,
    load_image,
)
from fieldmark.world import World

Made = tuple[str, Dataset, Path]


@pytest.fixture(params=DATASETS.names())
def made(request: pytest.FixtureRequest, made_copy: Callable[[str], Path]) -> Made:
    """A dataset's name, module and a synthetic copy of it on disk."""
    return request.param, load_dataset(request.param), made_copy(request.param)


def test_columns_and_types(made: Made):
    _, dataset, root = made
    rows = dataset.table(root)
    assert rows.columns[: len(COLUMNS)] == list(COLUMNS)
    for name, dtype in COLUMNS.items():
        is_clip = name == "image" and rows.schema[name] == pl.List(pl.String)
        assert rows.schema[name] == dtype or is_clip, name


def test_ids_are_unique_and_images_named(made: Made):
    _, dataset, root = made
    rows = dataset.table(root)
    assert rows["id"].is_unique().all()
    assert rows["id"].null_count() == rows["image"].null_count() == 0
    assert rows["label"].n_unique() >= 2


def test_reading_twice_gives_the_same_table(made: Made):
    _, dataset, root = made
    assert dataset.table(root).equals(dataset.table(root))


def test_every_image_opens(made: Made):
    _, dataset, root = made
    rows = dataset.table(root)
    for image, crop in rows.select("image", "crop").rows():
        for one in [image] if isinstance(image, str) else image:
            shown = load_image(root, ImageRef(one, tuple(crop) if crop else None))
            assert shown.mode == "RGB" and min(shown.size) >= 16


def test_a_made_copy_passes_its_own_check(made: Made):
    _, dataset, root = made
    assert [finding for finding in dataset.check(root) if finding.level != "note"] == []


def test_an_empty_folder_is_told_in_one_line(made: Made, tmp_path: Path):
    _, dataset, _ = made
    findings = dataset.check(tmp_path)
    assert [finding.level for finding in findings] == ["error"]
    assert "\n" not in findings[0].text and str(tmp_path) in findings[0].text


@pytest.mark.slow
def test_making_is_deterministic(made: Made, tmp_path: Path):
    name, dataset, root = made
    if name == "newt":
        pytest.skip("its smallest copy has 1,312 images; test_newt_make compares a part")
    dataset.make(tmp_path, World(seed=5, n_species=48), 48)
    assert is_as_drawn(tmp_path), "it is marked"
    (tmp_path / MARK).unlink()
    files = sorted(path.relative_to(root) for path in root.rglob("*") if path.is_file())
    assert files == sorted(
        path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()
    )
    assert all((root / file).read_bytes() == (tmp_path / file).read_bytes() for file in files)


def test_info_is_complete(made: Made):
    _, dataset, _ = made
    info = dataset.INFO
    assert isinstance(info, Info)
    assert info.title and info.licence and info.citation and info.layout
    for source in info.sources:
        assert source.steps or source.url.startswith("https://")
        assert not source.url or source.filename
        assert not source.md5 or len(source.md5) == 32


def test_it_is_documented(made: Made):
    _, dataset, _ = made
    assert len((dataset.__doc__ or "").strip()) > 40
