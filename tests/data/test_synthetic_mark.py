"""The mark of synthetic data: every `make` leaves it, and equal makes leave equal ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from fieldmark.cli import main
from fieldmark.data import DATASETS, MARK, is_as_drawn, is_synthetic, load_dataset, write_mark
from fieldmark.world import World
from kit.pictures import write_image


@pytest.mark.parametrize("name", ["beluga", "folder", "world"])
def test_make_itself_leaves_the_mark(tmp_path: Path, name: str) -> None:
    """Defect: only the command `data make` did, `demo` did not."""
    folders = [tmp_path / "a" / name, tmp_path / "b" / name]
    for folder in folders:
        load_dataset(name).make(folder, World(seed=3), 24)
        assert is_synthetic(folder) and is_as_drawn(folder)
    texts = {(folder / MARK).read_bytes() for folder in folders}
    assert len(texts) == 1, "the same whenever and wherever it is made"
    load_dataset(name).make(tmp_path / "c" / name, World(seed=4), 24)
    assert (tmp_path / "c" / name / MARK).read_bytes() not in texts


def test_no_dataset_is_loaded_past_the_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One place writes it for all: no module has to think of it."""
    for name in DATASETS.names():
        dataset = load_dataset(name)
        monkeypatch.setattr(dataset._entry, "make", lambda root, *_: (root / "a.txt").touch())
        folder = tmp_path / name
        folder.mkdir()
        dataset.make(folder, World(n_species=1), 1)
        assert (folder / MARK).is_file(), name


def test_the_mark_covers_all_folders_below(tmp_path: Path) -> None:
    (tmp_path / "drawn" / "train" / "fox").mkdir(parents=True)
    write_mark(tmp_path / "drawn", World(n_species=1))
    assert is_synthetic(tmp_path / "drawn" / "train" / "fox")
    assert not is_synthetic(tmp_path) and not is_synthetic(tmp_path / "elsewhere")


@pytest.mark.parametrize("change", ["added", "replaced", "removed"])
def test_a_folder_that_changed_stays_synthetic_and_check_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: str
) -> None:
    """Real photos called synthetic are found out; drawings called real would not be."""
    root = tmp_path / "photos"
    load_dataset("folder").make(root, World(), 24)
    check = ["data", "check", "folder", "--data", f"folder={root}"]
    assert main(check) == 0 and MARK not in capsys.readouterr().out
    photo = next(path for path in sorted(root.rglob("*.jp*g")))
    if change == "added":
        write_image(photo.with_name("mine.jpg"), 1)
    elif change == "replaced":
        write_image(photo, 1)
    else:
        photo.unlink()
    assert is_synthetic(root) and not is_as_drawn(root)
    assert main(check) == 0
    told = "warning  files have changed since fieldmark drew them. If all are real, remove "
    assert told + MARK in capsys.readouterr().out
