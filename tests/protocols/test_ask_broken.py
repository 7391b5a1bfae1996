"""What becomes of images that cannot be read, when a chat model is asked?"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from fieldmark.data import load_dataset
from fieldmark.errors import FieldmarkError
from fieldmark.experiments import evaluate
from fieldmark.settings import Settings
from fieldmark.store import Store
from kit.ask import Parrot, ask, facts_of
from kit.chat import running
from kit.made import make_dataset

TASK = "world-stage"


@pytest.fixture
def photos(world: Path, tmp_path: Path) -> Path:
    """A world of the test's own, to be broken."""
    folder = tmp_path / "photos"
    shutil.copytree(world, folder)
    return folder


def settings_for(folder: Path, tmp_path: Path, bad_images: str = "skip") -> Settings:
    name = f"results-{bad_images}-{len(list(tmp_path.iterdir()))}"
    return Settings(
        tmp_path / name, tmp_path / "cache", data={"world": folder}, bad_images=bad_images
    )


def image_of(folder: Path, item: str) -> str:
    table = load_dataset("world").table(folder)
    return str(table.filter(table["id"] == item)["image"][0])


def spoil(folder: Path, image: str, data: bytes = b"no image") -> None:
    path = folder / image
    path.unlink()
    path.write_bytes(data)


def notes_of(settings: Settings) -> dict[str, Any]:
    with Store.open(settings.store) as store:
        (part,) = store.finished_parts(1)
        return dict(part.info or {})


@pytest.mark.slow
@pytest.mark.parametrize("how", [{}, {"shared_prefix": True}, {"sampling": "uniform"}])
def test_a_broken_example_is_passed_over_and_counted(
    photos: Path, tmp_path: Path, how: dict[str, Any]
) -> None:
    asked = {"task": TASK, "n_train": 4, "n_test": 6, **how}
    whole = facts_of(ask(settings_for(photos, tmp_path), **asked))
    victim = whole[0]["examples"][0]
    image = image_of(photos, victim)
    spoil(photos, image)
    settings = settings_for(photos, tmp_path)
    found = ask(settings, **asked)
    assert set(found.predictions["outcome"]) == {"ok"} and len(found.predictions) == 6
    for before, after in zip(whole, facts_of(found), strict=True):
        kept = [each for each in before["examples"] if each != victim]
        assert len(after["examples"]) == 4 and victim not in after["examples"]
        assert set(kept) <= set(after["examples"]), "the others stay"
    notes = notes_of(settings)
    assert list(notes["bad_images"]) == [image] and notes["n_bad_images"] == 1
    again = facts_of(ask(settings_for(photos, tmp_path), **asked))
    assert [each["examples"] for each in again] == [each["examples"] for each in facts_of(found)]


@pytest.mark.slow
@pytest.mark.parametrize(("n_train", "which"), [(0, "test"), (4, "test"), (4, "example")])
def test_broken_images_are_refused_before_anything_is_paid(
    photos: Path, tmp_path: Path, n_train: int, which: str
) -> None:
    asked = {"task": TASK, "n_train": n_train, "n_test": 6}
    before = ask(settings_for(photos, tmp_path), **asked)
    last = before.predictions["id"][-1]
    victim = last if which == "test" else facts_of(before)[-1]["examples"][-1]
    image = image_of(photos, victim)
    spoil(photos, image)
    parrot = Parrot("Answer: A")
    with running(parrot) as url, pytest.raises(FieldmarkError, match="cannot be read") as refused:
        ask(settings_for(photos, tmp_path, "fail"), f"chat/mock/wren?base_url={url}", **asked)
    assert refused.value.exit_code == 3 and image in str(refused.value)
    assert "--bad-images skip" in str(refused.value) and not parrot.bodies


@pytest.mark.slow
@pytest.mark.parametrize("data", [b"no image", b"", None])
@pytest.mark.parametrize("n_train", [0, 2])
def test_a_broken_test_image_is_left_out_and_counted(
    photos: Path, tmp_path: Path, data: bytes | None, n_train: int
) -> None:
    asked = {"task": TASK, "n_train": n_train, "n_test": 6}
    before = ask(settings_for(photos, tmp_path), **asked).predictions
    victim = before["id"][2]
    image = image_of(photos, victim)
    if data is None:
        (photos / image).unlink()
    else:
        spoil(photos, image, data)
    settings = settings_for(photos, tmp_path)
    found = ask(settings, **asked).predictions
    assert found["id"].to_list() == [each for each in before["id"] if each != victim]
    assert list(notes_of(settings)["bad_images"]) == [image]


def test_when_no_test_image_can_be_read_that_is_said(photos: Path, tmp_path: Path) -> None:
    rows = ask(settings_for(photos, tmp_path), task=TASK, n_test=3).predictions
    for each in rows["id"]:
        spoil(photos, image_of(photos, each))
    with pytest.raises(FieldmarkError, match="none of the test images can be read"):
        ask(settings_for(photos, tmp_path), task=TASK, n_test=3)


@pytest.mark.slow
@pytest.mark.parametrize(("dataset", "n_test"), [("kabr", 5), ("beluga", -1)])
def test_clips_lose_a_frame_and_pairs_are_left_out(
    dataset: str, n_test: int, tmp_path: Path
) -> None:
    make_dataset(dataset, tmp_path / dataset, 60)
    settings = Settings(tmp_path / "a", tmp_path / "cache", data_root=tmp_path, bad_images="skip")
    before = ask(settings, "chat/mock/wren?skill=1", dataset, n_test=n_test).predictions
    table = load_dataset(dataset).table(tmp_path / dataset)
    victim = before["id"][0].split("|")[0]
    image = table.filter(table["id"] == victim)["image"][0]
    image = image if isinstance(image, str) else image[len(image) // 2]
    spoil(tmp_path / dataset, image)
    settings = Settings(tmp_path / "b", tmp_path / "cache", data_root=tmp_path, bad_images="skip")
    after = ask(settings, "chat/mock/wren?skill=1", dataset, n_test=n_test).predictions
    if dataset == "kabr":
        assert after["id"].equals(before["id"]) and set(after["outcome"]) == {"ok"}
    else:
        left_out = [each for each in before["id"] if victim in each.split("|")]
        assert left_out and set(before["id"]) - set(after["id"]) == set(left_out)


@pytest.mark.parametrize("model", ["classical/colour", "chat/mock/wren"])
@pytest.mark.parametrize("n_train", [-1, 10**6])
def test_a_task_that_tests_on_the_rest_needs_a_rest(
    model: str, n_train: int, tmp_path: Path
) -> None:
    make_dataset("rarespecies", tmp_path / "rarespecies", 60)
    settings = Settings(tmp_path / "results", tmp_path / "cache", data_root=tmp_path)
    with pytest.raises(FieldmarkError, match=f"n_train = {n_train} takes all .* nothing is left"):
        evaluate(model, "rarespecies", settings=settings, n_train=n_train)
