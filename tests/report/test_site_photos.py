"""The page shows the photos that the runs saw, and no others: by real runs."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import numpy as np
import pillow_heif
import pytest
from PIL import Image

from fieldmark.cli import main
from fieldmark.progress import Silent
from fieldmark.report.facts import task_facts
from fieldmark.report.site import build_site
from fieldmark.report.site.images import Photos, thumbnail
from fieldmark.settings import Settings
from fieldmark.store import RunFilter, Store
from kit.identity import edit, make_world, run_it, runs_at, settings_at
from kit.pictures import write_image

COLOUR = "classical/colour"
RED, BLUE = (200, 30, 30), (30, 30, 200)
TASK = """
task: {0}
title: {0}
dataset: folder
metric: accuracy
probe: {{classifier: simpleshot}}
"""


def photos(root: Path, colour: tuple[int, int, int]) -> None:
    """The same names in every folder; all photos of one colour."""
    random = np.random.default_rng(sum(colour))
    for split in ("train", "test"):
        for label in ("fox", "hare"):
            for n in range(3):
                path = root / split / label / f"IMG_{n}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                pixels = np.clip(np.array(colour) + random.integers(-20, 20, (20, 24, 3)), 0, 255)
                Image.fromarray(pixels.astype(np.uint8)).save(path)


@pytest.fixture
def cameras(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two tasks of the folder dataset: cam-a on red photos, cam-b on blue ones."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FIELDMARK_CACHE", str(tmp_path / "cache"))
    for name, colour in (("a", RED), ("b", BLUE)):
        photos(tmp_path / name, colour)
        (tmp_path / f"cam-{name}.yaml").write_text(TASK.format(f"cam-{name}"))
        task = f"cam-{name}.yaml"
        assert main(["run", "--model", COLOUR, "--task", task, "--data", f"folder={name}"]) == 0
    return tmp_path


def tasks_of(site: Path) -> dict[str, dict]:
    text = (site / "data" / "summary.js").read_text()
    summary = json.loads(text.removeprefix('fieldmark.receive("summary",').removesuffix(");\n"))
    return {each["name"]: each for each in summary["tasks"]}


def colours_of(site: Path, task: dict) -> list[np.ndarray]:
    names = [name for name, *_ in task["samples"]]
    paths = [site / "thumbs" / name[:2] / f"{name}.webp" for name in names]
    return [np.asarray(Image.open(path).convert("RGB")).mean(axis=(0, 1)) for path in paths]


class Kept(Silent):
    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


def built(place: Path, **changes: object) -> tuple[dict[str, dict], list[str]]:
    """The tasks of a site of these results, and what was said while it was made."""
    progress = Kept()
    settings = settings_at(place, **changes)
    with Store.open(settings.store, read_only=True) as store:
        page = build_site(store, place / "site", settings, progress=progress)
    return tasks_of(page.parent), progress.said


@pytest.mark.slow
def test_each_task_shows_its_own_photos_without_naming_the_folder_again(
    cameras: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["site", "report"]) == 0
    assert "not shown" not in capsys.readouterr().err
    tasks = tasks_of(Path("report"))
    assert [tasks[name]["n_images"] for name in ("cam-a", "cam-b")] == [6, 6]
    assert all(mean[0] > 150 > mean[2] for mean in colours_of(Path("report"), tasks["cam-a"]))
    assert all(mean[2] > 150 > mean[0] for mean in colours_of(Path("report"), tasks["cam-b"]))


def test_naming_another_folder_does_not_show_its_photos(cameras: Path) -> None:
    shutil.rmtree("b")
    tasks, said = built(cameras, data={"folder": cameras / "a"})
    assert tasks["cam-a"]["n_images"] == 6 and tasks["cam-b"]["samples"] == []
    assert said == ["cam-b: 6 photos are not shown: they changed since the run."]
    assert tasks["cam-b"]["photos_note"] == said[0].partition(": ")[2]


@pytest.mark.slow
def test_photos_that_moved_are_found_where_settings_say(cameras: Path) -> None:
    Path("b").rename("moved")
    tasks, said = built(cameras, data={"folder": cameras / "moved"})
    assert tasks["cam-b"]["n_images"] == 6 and not said
    tasks, said = built(cameras)
    assert tasks["cam-b"]["n_images"] == 0
    assert said == ["cam-b: 6 photos are not shown: they are not there."]


@pytest.mark.slow
def test_a_changed_photo_is_left_out_and_the_page_says_so(
    cameras: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_image(Path("a/test/fox/IMG_1.png"), 7)
    Path("a/test/hare/IMG_2.png").unlink()
    assert main(["site", "report"]) == 0
    note = "2 photos are not shown: 1 changed since the run, 1 is not there."
    assert f"cam-a: {note}" in capsys.readouterr().err
    task = tasks_of(Path("report"))["cam-a"]
    assert task["n_images"] == 4 and task["photos_note"] == note


@pytest.mark.slow
def test_no_photo_and_no_word_of_it_where_none_are_wanted(
    cameras: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree("a")
    assert main(["site", "report", "--no-images"]) == 0
    assert "not shown" not in capsys.readouterr().err
    assert tasks_of(Path("report"))["cam-a"]["photos_note"] == ""
    assert not Path("report/thumbs").exists()


def test_names_of_thumbnails_are_those_of_content_and_crop(tmp_path: Path) -> None:
    place = make_world(tmp_path)
    run_it(place, COLOUR, "zoo.yaml")
    (run,) = runs_at(place)
    settings = settings_at(place)
    with Store.open(settings.store, read_only=True) as store:
        found = Photos(settings).of_run(store, run, task_facts(store, run))
    assert len(found) == 9 and all(photo.frames for photo in found.values())
    assert {len(photo.frames) for photo in found.values()} == {1, 2}
    assert len({photo.name for photo in found.values()}) == 9
    cropped = [photo for photo in found.values() if photo.frames[0].crop]
    sizes = {Image.open(io.BytesIO(thumbnail(photo))).size for photo in cropped}
    assert sizes == {(12, 12)}


@pytest.mark.slow
def test_photos_of_ones_own_dataset_are_shown_and_every_frame_counts(tmp_path: Path) -> None:
    place = make_world(tmp_path)
    run_it(place, COLOUR, "zoo.yaml")
    tasks, said = built(place)
    assert tasks["zoo"]["n_images"] == 9 and not said
    write_image(place / "photos" / "03-0.png", 999)  # the first frame; the middle one is shown
    tasks, said = built(place)
    assert tasks["zoo"]["n_images"] == 8
    assert said == ["zoo: 1 photo is not shown: it changed since the run."]


def test_code_that_results_from_elsewhere_name_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = make_world(tmp_path)
    run_it(place, COLOUR, "zoo.yaml")
    edit(place / "zoo.py", "import csv", f"import csv; open({str(place / 'ran')!r}, 'w')")
    monkeypatch.setattr("fieldmark.report.facts.host", lambda: "another")
    tasks, said = built(place)
    assert not (place / "ran").exists()
    assert tasks["zoo"]["n_images"] == 0
    assert said == ["zoo: 9 photos are not shown: they are not there."]


def test_a_table_file_of_ones_own_task_works(tmp_path: Path) -> None:
    """`data: FILE` in the task's own file, whose reader is csv."""
    rows = ["image,label,split"]
    for n in range(12):
        write_image(tmp_path / f"{n}.png", n)
        rows.append(f"{n}.png,{'fox' if n % 2 else 'hare'},{'train' if n < 6 else 'test'}")
    (tmp_path / "labels.csv").write_text("\n".join(rows))
    text = TASK.format("mine").replace("dataset: folder", "dataset: csv\ndata: labels.csv")
    (tmp_path / "mine.yaml").write_text(text)
    run_it(tmp_path, COLOUR, "mine.yaml")
    tasks, said = built(tmp_path)
    assert tasks["mine"]["n_images"] == 6 and not said


def test_photos_of_a_phone_are_embedded_upright_and_shown(tmp_path: Path) -> None:
    """HEIC, held upright: its pixels lie on their side, and it knows where it was taken."""
    photos(tmp_path / "phone", RED)
    tags = Image.Exif()
    tags[0x0112], tags[0x010E] = 6, "my garden"
    for number, path in enumerate(sorted((tmp_path / "phone").rglob("*.png"))):
        taken = path.with_suffix((".heic", ".HEIC")[number % 2])
        with Image.open(path) as image:
            pillow_heif.from_pillow(image).save(taken, exif=tags.tobytes())
        path.unlink()
    (tmp_path / "phone.yaml").write_text(f"{TASK.format('phone')}data: phone\n")
    run_it(tmp_path, COLOUR, "phone.yaml")
    tasks, said = built(tmp_path)
    assert tasks["phone"]["n_images"] == 6 and not said
    for small in (tmp_path / "site" / "thumbs").rglob("*.webp"):
        assert Image.open(small).size == (20, 24)
        assert b"garden" not in small.read_bytes()


def test_two_folders_of_one_task_each_show_their_own(tmp_path: Path) -> None:
    for name, colour in (("a", RED), ("b", BLUE)):
        photos(tmp_path / name, colour)
    (tmp_path / "cam.yaml").write_text(TASK.format("cam"))
    for name in ("a", "b"):
        run_it(tmp_path, COLOUR, "cam.yaml", changes={"data": {"cam": tmp_path / name}})
    settings = settings_at(tmp_path)
    with Store.open(settings.store, read_only=True) as store:
        finder = Photos(settings)
        by_root = {
            run.root: finder.of_run(store, run, task_facts(store, run)) for run in store.runs()
        }
    reds, blues = by_root[str(tmp_path / "a")], by_root[str(tmp_path / "b")]
    assert reds.keys() == blues.keys()
    assert not {each.name for each in reds.values()} & {each.name for each in blues.values()}
    tasks, said = built(tmp_path)
    assert tasks["cam"]["n_images"] == 12 and not said


def test_the_live_page_shows_no_photo_that_changed(cameras: Path) -> None:
    pytest.importorskip("starlette")
    from fieldmark.report.serve import LiveResults

    live = LiveResults(settings_at(cameras), RunFilter())
    task = live.summary()["tasks"][0]
    assert task["n_images"] == 6 and task["photos_note"] == ""
    names = [name for name, *_ in task["samples"]]
    assert live.thumbnail(names[0])
    photos(cameras / "a", BLUE)
    fresh = LiveResults(settings_at(cameras), RunFilter())
    fresh.summary()
    assert [fresh.thumbnail(name) for name in names] == [None] * len(names)


def test_settings_alone_find_photos_of_a_run_that_knew_no_folder(tmp_path: Path) -> None:
    from kit.site_results import make_results

    place = make_results(tmp_path, 20)
    settings = Settings(results=place / "results", data_root=place / "data", threads=2)
    with Store.open(settings.store, read_only=True) as store:
        page = build_site(store, tmp_path / "site", settings)
    assert all(each["n_images"] == 20 for each in tasks_of(page.parent).values())
