"""`fieldmark try` and `fieldmark predict`, as a biologist types them."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fieldmark import try_photos
from fieldmark.cli import main
from fieldmark.data.read.own_formats import read_photos
from fieldmark.data.read.own_photos import Columns
from fieldmark.progress import Silent
from fieldmark.settings import Settings
from fieldmark.tryout.survey import look_at
from fieldmark.tryout.words import tell_counts
from kit.planted import Plan, make_outsiders, make_photos

PLAN = Plan(n_labels=3, n_photos=24, difficulty=0.3)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_photos(tmp_path_factory.mktemp("try") / "my photos", PLAN)


@pytest.fixture(scope="module")
def place(photos: Path) -> Path:
    """Where a verdict on the photos was written."""
    here = photos.parent
    words = ["--models", "classical", "--quiet", "--cache", str(here / "cache")]
    assert main(["try", str(photos), "--out", str(here / "try"), *words]) == 0
    return here


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def test_what_it_leaves(place: Path) -> None:
    out = place / "try"
    names = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    assert names == {
        "index.html", "data.csv", "predictions.csv", "methods.txt", "confusion.svg",
        "confusion.png", "model/model.json", "model/model.safetensors",
    }  # fmt: skip
    assert len(rows(out / "data.csv")) == len(rows(out / "predictions.csv")) == 72
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "Use classical/" in page and "http" not in page.replace("http://www.w3.org", "")


def test_text_json_and_python_agree(
    photos: Path,
    place: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = ["try", str(photos), "--out", str(place / "again"), "--models", "classical", "--quiet"]
    words += ["--cache", str(place / "cache")]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert main([*words, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["text"] == text.splitlines()
    monkeypatch.setattr("fieldmark.tryout.evaluate.MOST_KEPT", 0)  # scores are computed again
    verdict = try_photos(photos, models=["classical"], settings=Settings(cache=place / "cache"))
    assert str(verdict) == text.rstrip("\n")
    assert verdict.choice.accuracy == data["accuracy"]
    right = [row["is_right"] == "1" for row in rows(place / "again" / "predictions.csv")]
    assert np.mean(right) == pytest.approx(float(verdict.held_out.is_right_n.mean()))


def test_predict_names_photos_and_notices_what_it_never_saw(
    photos: Path, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = make_photos(tmp_path / "new", Plan(n_labels=3, n_photos=8, difficulty=0.3))
    make_outsiders(new / "outside", PLAN, 6)
    (new / "broken.jpg").write_bytes(b"")
    words = ["predict", str(place / "try" / "model"), str(new), "--quiet"]
    words += ["--cache", str(place / "cache"), "--out", str(tmp_path / "p.csv")]
    assert main([*words, "--copy-into", str(tmp_path / "sorted")]) == 0
    answers = {row["image"]: row for row in rows(tmp_path / "p.csv")}
    assert len(answers) == 31 and answers["broken.jpg"]["answer"] == "unreadable"
    known = [row for image, row in answers.items() if image.startswith("species")]
    named = [row for row in known if row["answer"].startswith("species")]
    assert len(named) >= 18
    assert sum(row["answer"] == row["image"].split("/")[0] for row in named) >= 0.9 * len(named)
    outside = [row["answer"] for image, row in answers.items() if image.startswith("outside")]
    assert outside.count("unlike anything seen") >= 4
    copied = [path for path in (tmp_path / "sorted").rglob("*") if path.is_file()]
    assert len(copied) == 31 + 1, "the copies, and what says that they are copies"
    before = {path: path.stat().st_mtime_ns for path in copied if path.suffix == ".jpg"}
    assert main([*words, "--copy-into", str(tmp_path / "sorted")]) == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before, "nothing is copied twice"


def test_photos_that_made_the_model_are_no_test_of_it(
    photos: Path, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are known by their bytes, whatever their names are now."""
    new = make_photos(tmp_path / "new", Plan(n_labels=1, n_photos=3, difficulty=0.3, seed=5))
    for number, path in enumerate(sorted(photos.rglob("*.jpg"))[:2]):
        (new / f"renamed {number}.jpg").write_bytes(path.read_bytes())
    words = ["predict", str(place / "try" / "model"), "--cache", str(tmp_path / "cache")]
    words += ["--out", str(tmp_path / "p.csv")]
    assert main([*words, str(new)]) == 0
    told = capsys.readouterr().err
    assert "2 of these photos were used to make this model, which is no test." in told
    known = {row["image"] for row in rows(tmp_path / "p.csv") if row["is_training_photo"] == "1"}
    assert known == {"renamed 0.jpg", "renamed 1.jpg"}
    assert "replaces" not in told
    for number in range(2):
        (new / f"renamed {number}.jpg").unlink()
    assert main([*words, str(new)]) == 0
    told = capsys.readouterr().err
    assert "used to make" not in told and "p.csv (replaces the last one)" in told
    header = rows(tmp_path / "p.csv")[0].keys() & rows(place / "try" / "predictions.csv")[0].keys()
    each = {f"p(species {name})" for name in ("aaa", "bbb", "ccc")}
    assert header == {"image", "best_guess", "probability"} | each, "of one name, of one meaning"


def test_copies_never_go_among_labelled_photos(
    photos: Path, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["predict", str(place / "try" / "model"), "--cache", str(place / "cache"), "--quiet"]
    words += ["--out", str(tmp_path / "p.csv")]
    mine, before = shutil.copytree(photos, tmp_path / "mine"), len(list(photos.rglob("*")))
    for target in (mine, tmp_path / "mine" / "species aaa", tmp_path):
        assert main([*words, str(mine), "--copy-into", str(target)]) == 2
        assert "choose a new folder" in capsys.readouterr().err
    assert len(list(mine.rglob("*"))) == before and not (tmp_path / "p.csv").exists()
    # Below the photos they are allowed, and are neither labels nor photos later.
    for _ in range(2):
        assert main([*words, str(mine), "--copy-into", str(mine / "sorted")]) == 0
        assert len(rows(tmp_path / "p.csv")) == 72
    out = ["--quiet", "--cache", str(place / "cache"), "--models", "classical/colour"]
    assert main(["try", str(mine), *out, "--out", str(tmp_path / "try")]) == 0
    assert {row["label"] for row in rows(tmp_path / "try" / "data.csv")} == {
        "species aaa", "species bbb", "species ccc"
    }  # fmt: skip
    capsys.readouterr()
    assert main(["try", str(mine / "sorted"), *out, "--out", str(tmp_path / "again")]) == 3
    assert "copies that `fieldmark predict` sorted by a model's answers" in capsys.readouterr().err


def test_a_folder_too_high_is_noticed(
    photos: Path, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Programs' pictures are no photos; the answer for other photos stays."""
    above = tmp_path / "above"
    shutil.copytree(photos, above / "my photos")
    picture(above / "drawings" / "a.png", 1)
    picture(above / "venv" / "lib" / "icons" / "a.png", 2)
    (above / "venv" / "empty").mkdir()
    (above / "venv" / "pyvenv.cfg").touch()
    picture(above / "site" / "node_modules" / "x" / "a.png", 3)
    shutil.copytree(place / "try", above / "try")
    page = (above / "try" / "index.html").read_bytes()
    words = ["--models", "classical/colour", "--cache", str(place / "cache")]
    words += ["--out", str(above / "try"), "--label-part", "2"]
    assert main(["try", str(above), *words]) == 2
    told = capsys.readouterr().err
    assert "contains the answer for other photos (species aaa/" in told and "--out" in told
    assert (above / "try" / "index.html").read_bytes() == page
    words[-3] = str(tmp_path / "new")
    assert main(["try", str(above), *words]) == 0
    told = capsys.readouterr().err
    assert "72 photos with 3 labels, 24 of each." in told and "icons" not in told
    assert "folder 2: species aaa, species bbb, species ccc." in told and "no photos" not in told


def test_a_changed_backbone_is_refused(
    place: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for path in (place / "try" / "model").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    about = json.loads((folder / "model.json").read_text())
    about["fingerprint"] = "0" * 32
    (folder / "model.json").write_text(json.dumps(about))
    assert main(["predict", str(folder), str(photos), "--quiet"]) == 4
    assert "is not the model that" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("model.json", b"{", "is not a model that this fieldmark has written (it: Invalid JSON"),
        ("model.json", b"[" * 10**5, "is not a model that this fieldmark has written"),
        ("model.json", b"{}", "is not a model that this fieldmark has written (model: Field req"),
        ("model.json", None, "contains no model"),
        ("model.safetensors", b"\xff" * 64, "cannot be read"),
        ("model.safetensors", None, "cannot be read"),
    ],
)
def test_a_damaged_model_is_told_in_a_line(
    place: Path,
    photos: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    content: bytes | None,
    message: str,
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for path in (place / "try" / "model").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / name).write_bytes(content) if content is not None else (folder / name).unlink()
    assert main(["predict", str(folder), str(photos), "--quiet"]) == 3
    told = capsys.readouterr().err
    assert message in told and told.count("\n") == 1


def test_positions_are_nowhere(tmp_path: Path) -> None:
    root = make_photos(tmp_path / "photos", Plan(n_labels=2, n_photos=8, n_copies=2))
    for path in root.rglob("*.jpg"):
        image = Image.open(path)
        exif = image.getexif()
        exif.get_ifd(0x8825).update({1: "N", 2: (47.0, 31.0, 12.3), 3: "E", 4: (8.0, 2.0, 9.9)})
        image.save(path, exif=exif)
    out = tmp_path / "try"
    words = ["--models", "classical", "--quiet", "--cache", str(tmp_path / "cache")]
    assert main(["try", str(root), "--out", str(out), *words]) == 0
    predict = ["predict", str(out / "model"), str(root), "--out", str(out / "p.csv"), *words[2:]]
    assert main([*predict, "--copy-into", str(tmp_path / "sorted")]) == 0
    copies = list((tmp_path / "sorted").rglob("*.jpg"))
    assert copies and all(Image.open(path).getexif().get_ifd(0x8825) for path in copies)
    for path in out.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert b"47.0" not in data and b"GPS" not in data and b"Exif" not in data


def test_flags_and_files_that_do_not_fit_are_told_in_a_line(
    photos: Path, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in sorted(photos.rglob("*.jpg")):
        path = tmp_path / "parts" / "train" / path.parent.name / path.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    lines = (f"{path.relative_to(photos)},{path.parent.name}" for path in photos.rglob("*.jpg"))
    (photos / "t.csv").write_text("\n".join(["photo,taxon", *lines]))
    (tmp_path / "leaves.xlsx").touch()
    (tmp_path / "leaves.csv").touch()
    model, page = str(place / "try" / "model"), str(place / "try" / "index.html")
    attempts = [
        (["try", str(tmp_path / "parts"), "--label-part", "3"], "--label-part 3: expected 2 (spec"),
        (["try", str(photos / "t.csv"), "--unit", "taxon"], "--unit taxon names the labels: name"),
        (["try", str(tmp_path / "leaves.xlsx")], "leaves.xlsx is a spreadsheet: save it as CSV"),
        (["try", str(photos), "--boxes", "no.json"], "--boxes no.json does not exist: give the"),
        (["predict", model, str(tmp_path / "leaves.csv")], "leaves.csv contains no photos."),
        (["predict", page, str(photos)], "index.html contains no model: `fieldmark try PHOTOS`"),
    ]
    for words, told in attempts:
        assert main([*words, "--out", str(tmp_path / "out"), "--cache", str(tmp_path / "c")]) != 0
        shown = capsys.readouterr().err
        assert told in shown and shown.count("\n") == 1 and "Errno" not in shown
    (photos / "t.csv").unlink()


def test_a_column_that_could_be_the_unit_is_named(photos: Path, tmp_path: Path) -> None:
    lines = ["photo,species,family,plant,note"]
    for number in range(24):
        lines.append(f"{number}.jpg,{'ab'[number % 2]},{'AB'[number % 2]},{number // 3},n{number}")
    (tmp_path / "t.csv").write_text("\n".join(lines))
    assert "repeat in column plant: if" in read_photos(tmp_path / "t.csv", Columns()).hint
    assert not read_photos(tmp_path / "t.csv", Columns(unit="plant")).hint


@pytest.mark.slow
def test_no_word_is_broken_at_the_edge_of_a_terminal(
    photos: Path, place: Path, tmp_path: Path
) -> None:
    """Both halves, what was found and the answer; words are whole, and names keep two blanks."""
    import pty

    root = tmp_path / "my  photos"
    shutil.copytree(photos, root)
    (root / "species aaa" / "a  b.jpg").touch()
    words = ["try", str(root), "--models", "classical", "--out", str(tmp_path / "try")]
    for columns in (80, 100):
        main_end, other_end = pty.openpty()
        environment = {**os.environ, "COLUMNS": str(columns), "TERM": "dumb"}
        command = [sys.executable, "-m", "fieldmark", *words, "--cache", str(place / "cache")]
        with subprocess.Popen(
            command, stdout=other_end, stderr=other_end, env=environment
        ) as process:
            os.close(other_end)
            told = b""
            with contextlib.suppress(OSError):  # the end of a terminal
                while chunk := os.read(main_end, 4096):
                    told += chunk
        assert process.returncode == 0
        lines = told.decode().replace("\r", "").splitlines()
        assert all(len(line) <= columns for line in lines if str(tmp_path) not in line)
        assert "species aaa/a  b.jpg" in " ".join(lines)
        assert "No label looks clearly wrong to these models." in told.decode()


def test_a_table_with_cameras(
    photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    images = sorted(path.relative_to(photos) for path in photos.rglob("*.jpg"))
    lines = [f"{path},{path.parts[0]},cam{number % 12}" for number, path in enumerate(images)]
    table = photos / "obs.csv"
    table.write_text("\n".join(["path,species,camera", *lines]))
    words = ["--image", "path", "--label", "species", "--unit", "camera", "--out", str(tmp_path)]
    words += ["--cache", str(tmp_path / "cache"), "--models", "classical"]
    assert main(["try", str(table), *words]) == 0
    table.unlink()
    shown = capsys.readouterr()
    assert "12 cameras are read from column camera. Models are tested on cameras that" in shown.err
    assert "On new cameras it is right on about" in shown.out
    assert "too few cameras (12; it takes 19)" in shown.out
    assert "Photos of one camera were never on both sides of a test (12 cameras)." in (
        tmp_path / "methods.txt"
    ).read_text(encoding="utf-8")


# --- what people have on their disks


def picture(path: Path, seed: int, size: tuple[int, int] = (40, 30)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


@pytest.mark.parametrize(
    ("kind", "code", "message"),
    [
        ("raw", 3, "contains no photos. 6 RAW files (.cr2) were left out: export them as JPEG."),
        ("empty", 3, "contains no photos: sort them into one folder per label"),
        ("flat", 3, "contains 6 photos outside any folder: sort them into one folder per label"),
        ("one class", 3, "has photos of one label only (a)"),
        ("one photo each", 3, "has 6 labels, and 0 of them can be tested"),
        ("missing", 3, "does not exist. Give a folder of photos or a table"),
        ("text", 3, "notes.txt has no label column: found 'hello'"),
        ("all broken", 3, "no photo can be read"),
        ("machine labels", 3, "contains no labels that a person gave"),
    ],
)
def test_what_cannot_be_tried_is_told_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, code: int, message: str
) -> None:
    root = tmp_path / "p"
    root.mkdir()
    for number in range(6):
        if kind == "flat":
            picture(root / f"{number}.png", number)
        elif kind == "raw":
            (root / "fox").mkdir(exist_ok=True)
            (root / "fox" / f"{number}.cr2").write_bytes(b"x")
        elif kind == "one class":
            picture(root / "a" / f"{number}.png", number)
        elif kind == "one photo each":
            picture(root / f"label {number}x" / "a.png", number)
        elif kind == "all broken":
            (root / f"abc{number % 2}").mkdir(exist_ok=True)
            for copy in "ab":
                (root / f"abc{number % 2}" / f"{number}{copy}.jpg").write_bytes(b"")
    if kind == "missing":
        root = tmp_path / "nowhere"
    elif kind == "text":
        root = tmp_path / "notes.txt"
        root.write_text("hello")
    elif kind == "machine labels":
        root = tmp_path / "md.json"
        root.write_text('{"images": [], "detection_categories": {"1": "animal"}}')
    words = ["--quiet", "--cache", str(tmp_path / "cache"), "--out", str(tmp_path / "out")]
    assert main(["try", str(root), "--models", "classical", *words]) == code
    told = capsys.readouterr().err
    assert message in told and told.count("\n") == 1


def test_raw_files_and_videos_are_named_by_kind(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = make_photos(tmp_path / "p", Plan(n_labels=2, n_photos=8))
    label = root / "species aaa"
    for name in ("a.CR2", "b.cr2", "c.nef", "d.MOV", "notes.txt"):
        (label / name).write_bytes(b"x")
    saved_twice = next(label.glob("*.jpg")).with_suffix(".NEF")
    saved_twice.write_bytes(b"x")
    words = ["--cache", str(tmp_path / "cache")]
    assert (
        main(["try", str(root), "--models", "classical/colour", "--out", f"{root}2", *words]) == 0
    )
    told = capsys.readouterr().err
    assert "\n3 RAW files (.cr2, .nef) were left out: export them as JPEG.\n" in told
    assert "\n1 video was left out: take frames out of it first.\n" in told
    ignored = f"{label.name}/{saved_twice.name}, {label.name}/notes.txt"
    assert f"2 files are not labelled photos and were ignored: {ignored}." in told
    assert main(["check", str(root)]) == 0
    assert "warning  3 RAW files (.cr2, .nef) were left out" in capsys.readouterr().out
    predict = ["predict", str(place / "try" / "model"), "--out", str(tmp_path / "p.csv"), *words]
    assert main([*predict, str(root)]) == 0
    assert "3 RAW files (.cr2, .nef) were left out" in capsys.readouterr().err
    assert main([*predict, str(label / "b.cr2")]) == 3
    message = "b.cr2 contains no photos. 1 RAW file (.cr2) was left out: export it as JPEG."
    assert message in capsys.readouterr().err


def test_a_table_may_name_raw_files(tmp_path: Path) -> None:
    """Some of them hold a small preview, which must not be taken for the photo."""
    (tmp_path / "t.csv").write_text("image,label\na.jpg,fox\nb.DNG,fox\nc.jpg,hare\n")
    photos = read_photos(tmp_path / "t.csv", Columns())
    assert photos.table.get_column("image").to_list() == ["a.jpg", "c.jpg"]
    assert photos.unread == ("b.DNG",) and photos.n_ignored == 0


def test_a_strange_folder_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Links in a circle, empty files, animations, junk of three systems, numbers for labels."""
    root = tmp_path / "p"
    for label in ("1", "2"):
        for number in range(12):
            seed = 100 * int(label) + number
            picture(root / "train" / label / f"ünder {number}.png", seed)
    (root / "train" / "1" / "empty.jpg").write_bytes(b"")
    frames = [Image.new("P", (20, 20), color) for color in (1, 2)]
    frames[0].save(root / "train" / "1" / "moves.gif", save_all=True, append_images=frames[1:])
    (root / "train" / "1" / "loop").symlink_to(root)
    picture(root / "__MACOSX" / "1" / "._x.png", 1)
    (root / "train" / "1" / "Thumbs.db").write_bytes(b"x")
    words = ["--cache", str(tmp_path / "cache"), "--out", str(tmp_path / "out")]
    assert main(["try", str(root), "--models", "classical", *words]) == 0
    shown = capsys.readouterr()
    assert "25 photos with 2 labels" in shown.err
    assert "1 file cannot be read and was left out: train/1/empty.jpg (is empty" in shown.err
    assert "No model is clearly better than always giving the most common label" in shown.out


@pytest.mark.parametrize(
    ("folders", "label", "unit"),
    [
        (["cat/a", "dog/b"], "folder 1", ""),
        (["train/cat", "test/dog"], "the folder names", ""),
        (["camera 1/cat", "camera 2/dog", "camera 1/dog", "camera 2/cat"], "folder 2", "folder 1"),
        (["cat/2021", "dog/2022", "cat/2022"], "folder 1", ""),
        (["cat/site_A", "dog/site_B"], "folder 1", "folder 2"),
        (["100RECNX/cat", "101RECNX/dog"], "folder 2", ""),
        (["all/cat", "all/dog"], "the folder names", ""),
        (["cat/tree 1", "cat/tree 2", "dog/tree 1", "dog/tree 2"], "folder 1", ""),
        (["all/train/cat", "all/test/dog"], "the folder names", ""),
    ],
)
def test_which_folder_is_the_label(
    tmp_path: Path, folders: list[str], label: str, unit: str
) -> None:
    for number, folder in enumerate(folders):
        picture(tmp_path / folder / "x.png", number)
    photos = read_photos(tmp_path, Columns())
    assert (photos.label_from, photos.unit_from) == (label, unit)
    assert set(photos.table.get_column("label")) == {"cat", "dog"}


def test_stations_that_hold_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By names of species the label is found; without them it is asked about."""
    for labels in (("Vulpes vulpes", "Meles meles"), ("fox", "badger")):
        for number in range(4):
            station, label = ("North ridge", "Creek")[number % 2], labels[number // 2]
            picture(tmp_path / labels[0] / station / label / f"{number}.png", number)
    photos = read_photos(tmp_path / "Vulpes vulpes", Columns())
    assert (photos.label_from, photos.unit_from) == ("folder 2", "folder 1")
    photos = read_photos(tmp_path / "fox", Columns())
    assert (photos.label_from, photos.unit_from) == ("folder 2", "folder 1")
    how = "`--label-part 1` reads it from there"
    assert photos.hint == f"The label could also be folder 1 (Creek, North ridge): {how}."
    assert main(["check", str(tmp_path / "fox")]) == 0
    assert f"warning  {photos.hint}" in capsys.readouterr().out, "it is asked, and nothing is fine"
    photos = read_photos(tmp_path / "fox", Columns(label_part=1))
    assert (photos.label_from, photos.unit_from) == ("folder 1", "")


def test_boxes_become_crops(tmp_path: Path) -> None:
    for number, label in enumerate(("cat", "dog", "dog")):
        picture(tmp_path / "p" / label / f"{number}.png", number, (200, 100))
    detections = [{"category": "1", "conf": 0.9, "bbox": [0.5, 0.2, 0.1, 0.4]}]
    found = {"images": [{"file": "cat\\0.png", "detections": detections}]}
    (tmp_path / "md.json").write_text(json.dumps(found))
    photos = read_photos(tmp_path / "p", Columns(boxes=tmp_path / "md.json"))
    crops = dict(photos.table.select("image", "crop").iter_rows())
    x, y, width, height = crops["cat/0.png"]
    assert width == height == pytest.approx(46) and (x, y) == pytest.approx((87, 17))
    assert crops["dog/1.png"] is None
    survey = look_at(photos, Settings(cache=tmp_path / "cache"), Silent())
    assert "1 photo is cut to its box. The others stay whole." in list(tell_counts(survey))
    names = {"camera_id": "cameras", "locality": "localities", "day": "days", "box": "boxes"}
    for column, several in {**names, "series": "series"}.items():
        named = dataclasses.replace(photos, unit_from=f"column {column}")
        assert dataclasses.replace(survey, photos=named).unit_word == several


def test_a_darwin_core_archive_calls_its_table_txt(tmp_path: Path) -> None:
    table = tmp_path / "occurrence.txt"
    table.write_text("scientificName\tassociatedMedia\nVulpes vulpes\ta.jpg | b.jpg\n")
    assert read_photos(table, Columns()).table.get_column("image").to_list() == ["a.jpg", "b.jpg"]


def test_camtrap_dp_takes_what_people_saw(tmp_path: Path) -> None:
    tables = {
        "deployments": "deploymentID,locationID\nd1,north\nd2,south\n",
        "media": "mediaID,deploymentID,filePath\nm1,d1,a.png\nm2,d2,b.png\nm3,d2,c.png\n",
        "observations": (
            "observationID,deploymentID,mediaID,observationType,scientificName,"
            "classificationMethod\n"
            "o1,d1,m1,animal,Vulpes vulpes,human\no2,d2,m2,animal,Meles meles,machine\n"
            "o3,d2,m3,animal,Meles meles,human\no4,d2,m2,blank,,human\n"
        ),
    }
    for name, text in tables.items():
        (tmp_path / f"{name}.csv").write_text(text)
    resources = [{"name": name, "path": f"{name}.csv"} for name in tables]
    (tmp_path / "datapackage.json").write_text(json.dumps({"resources": resources}))
    photos = read_photos(tmp_path, Columns())
    rows = photos.table.select("image", "label", "unit").rows()
    assert rows == [("a.png", "Vulpes vulpes", "north"), ("c.png", "Meles meles", "south")]


def test_predictions_are_camtrap_dp_observations(
    place: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Columns, required values, vocabularies and keys of the standard (1.0)."""
    root = tmp_path / "package"
    images = sorted(photos.rglob("*.jpg"))[::12]
    for number, path in enumerate(images):
        (root / "media").mkdir(parents=True, exist_ok=True)
        (root / "media" / f"{number}.jpg").write_bytes(path.read_bytes())
    (root / "media" / "broken.jpg").write_bytes(b"")
    (root / "media" / "stranger.jpg").write_bytes(images[0].read_bytes())
    names = [*map(str, range(len(images))), "broken"]
    lines = [f"m{name},d1,media\\{name}.jpg,2024-03-19T06:00:00+0100" for name in names]
    (root / "media.csv").write_text("\n".join(["mediaID,deploymentID,filePath,timestamp", *lines]))
    resources = {"resources": [{"name": "media", "path": "media.csv"}]}
    (root / "datapackage.json").write_text(json.dumps(resources))
    words = ["predict", str(place / "try" / "model"), str(root), "--quiet", "--cache"]
    words += [str(place / "cache"), "--out", str(tmp_path / "p.csv")]
    assert main([*words, "--camtrap-dp", str(tmp_path / "observations.csv")]) == 0
    assert (tmp_path / "observations.csv").read_bytes().startswith(b"observationID,deploymentID,")
    seen = rows(tmp_path / "observations.csv")
    assert len(seen[0]) == 28 and len(seen) == len(names) == len(rows(tmp_path / "p.csv")) - 1
    assert {row["mediaID"] for row in seen} == {f"m{name}" for name in names}
    assert len({row["observationID"] for row in seen}) == len(seen)
    types = {"animal", "human", "vehicle", "blank", "unknown", "unclassified"}
    for row in seen:
        assert row["deploymentID"] == "d1" and row["observationLevel"] == "media"
        assert row["eventStart"] == row["eventEnd"] == "2024-03-19T06:00:00+0100"
        assert row["observationType"] in types and row["classificationMethod"] in ("machine", "")
        assert 0 <= float(row["classificationProbability"] or 0) <= 1
    by_media = {row["mediaID"]: row for row in seen}
    assert by_media["mbroken"]["observationType"] == "unclassified"
    animals = [row for row in seen if row["observationType"] == "animal"]
    assert animals and all(row["observationTags"].startswith("label:species") for row in animals)
    assert not any(row["scientificName"] for row in seen), "species aaa is no scientific name"
    capsys.readouterr()
    words[2] = str(photos)
    assert main([*words, "--camtrap-dp", str(tmp_path / "o.csv")]) == 3
    assert "has no datapackage.json: Camtrap DP observations need" in capsys.readouterr().err


def test_coco_boxes_are_items_of_one_unit(tmp_path: Path) -> None:
    data = {
        "categories": [{"id": 1, "name": "fox"}, {"id": 2, "name": "badger"}],
        "images": [
            {"id": "i", "file_name": "a.png", "location": 7},
            {"id": "j", "file_name": "b.png", "location": 8},
        ],
        "annotations": [
            {"image_id": "i", "category_id": 1, "bbox": [0, 0, 10, 20]},
            {"image_id": "i", "category_id": 2, "bbox": [5, 5, 10, 10]},
            {"image_id": "j", "category_id": 1},
        ],
    }
    (tmp_path / "coco.json").write_text(json.dumps(data))
    photos = read_photos(tmp_path / "coco.json", Columns())
    table = photos.table
    assert table.get_column("label").to_list() == ["fox", "badger", "fox"]
    assert table.get_column("unit").to_list() == ["7", "7", "8"]
    assert table.get_column("id").n_unique() == 3
