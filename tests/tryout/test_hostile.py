"""Strange and hostile photos, labels and saved models: a clear answer, never a traceback."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fieldmark.cli import main
from fieldmark.tryout.judge.findings import HeldOut, find_mix_ups, plan_search
from kit import forked
from kit.planted import Plan, make_photos

NOBODY = 65534


def picture(path: Path, seed: int, size: tuple[int, int] = (40, 30)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    coarse = np.random.default_rng(seed).integers(0, 255, (5, 5, 3), dtype=np.uint8)
    Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC).save(path)


def attempt(photos: Path, tmp_path: Path, *more: str) -> int:
    words = ["--models", "classical", "--cache", str(tmp_path / "cache")]
    return main(["try", str(photos), "--out", str(tmp_path / "try"), *words, *more])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved model; its photos are in `photos` beside it."""
    here = tmp_path_factory.mktemp("hostile")
    make_photos(here / "photos", Plan(n_labels=2, n_photos=8))
    assert attempt(here / "photos", here, "--quiet") == 0
    return here / "try" / "model"


def test_names_cannot_steer_the_terminal_or_break_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = ("red\x1b[31m", "two\nlines", "<script>alert(1)<", "=cmd()", "'\"")
    for at, label in enumerate(labels):
        for number in range(6):
            picture(tmp_path / "p" / label / f"{number}\x1b]0;x\x07\n.png", 10 * at + number)
    (tmp_path / "p" / "=cmd()" / "\x1b[2Jbad.png").write_bytes(b"")
    assert attempt(tmp_path / "p", tmp_path) == 0
    shown = capsys.readouterr()
    assert "30 photos with 5 labels" in shown.err and "bad.png (is empty" in shown.err
    assert not any(mark in shown.out + shown.err for mark in "\x1b\x07")
    page = (tmp_path / "try" / "index.html").read_text(encoding="utf-8")
    assert "<script" not in page and "&lt;script" in page
    predict = ["predict", str(tmp_path / "try" / "model"), str(tmp_path / "p"), "--cache"]
    predict += [str(tmp_path / "cache"), "--out", str(tmp_path / "p.csv")]
    assert main([*predict, "--copy-into", str(tmp_path / "sorted")]) == 0
    assert "\x1b" not in capsys.readouterr().out
    for file in ("try/data.csv", "try/predictions.csv", "p.csv"):
        table = (tmp_path / file).read_text(encoding="utf-8-sig")
        assert ",'=cmd()," in table and ",=cmd()" not in table and "\x1b" not in table


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs POSIX files")
def test_pipes_and_links_that_lead_nowhere_are_no_photos(model: Path, tmp_path: Path) -> None:
    """`check` and `try` waited for ever for somebody to write into the pipe."""
    photos = tmp_path / "photos"
    shutil.copytree(model.parents[1] / "photos", photos)
    first = next(path for path in photos.iterdir() if path.is_dir())
    os.mkfifo(first / "pipe.png")
    (first / "nowhere.png").symlink_to("nowhere")
    (first / "zero.png").symlink_to("/dev/zero")
    cache = ["--cache", str(tmp_path / "cache")]
    for words in (
        ["check", str(photos)],
        ["try", str(photos), "--out", "try", "--models", "classical/pixels", *cache],
        ["predict", str(model), str(photos), "--copy-into", "sorted", "--out", "p.csv", *cache],
    ):
        done = forked.run([sys.executable, "-m", "fieldmark", *words], cwd=tmp_path, timeout=120)
        assert done.returncode in (0, 3) and "Traceback" not in done.stderr
    assert "      3  unreadable" in done.stdout
    assert not list((tmp_path / "sorted").rglob("pipe.png"))


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX permissions")
@pytest.mark.parametrize("closed", ["photo", "folder"])
def test_without_permission(
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    closed: str,
) -> None:
    """As an ordinary user: root reads everything."""
    here = tmp_path_factory.mktemp("closed")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(here))
    monkeypatch.chdir(here)
    for label in ("fox", "owl"):
        for number in range(6):
            picture(here / "p" / label / f"{number}.png", 10 * len(label) + number * ord(label[0]))
    path = here / "p" / "fox" / "0.png" if closed == "photo" else here / "p" / "private"
    path.mkdir(exist_ok=True) if closed == "folder" else None
    assert attempt(here / "p", here, "--quiet") == 0  # everything is imported as root
    shutil.rmtree(here / "cache")
    for above in (here, *here.parents):
        if above.stat().st_uid == os.geteuid() and len(above.parts) > 2:
            above.chmod(above.stat().st_mode | 0o755)
    for folder in (here, here / "try", here / "try" / "model"):
        folder.chmod(0o777)
    path.chmod(0)
    capsys.readouterr()
    was = os.geteuid()
    try:
        if was == 0:
            os.seteuid(NOBODY)
        code = attempt(here / "p", here)
    finally:
        os.seteuid(was)
        path.chmod(0o755)
    told = capsys.readouterr().err
    if closed == "folder":
        assert code == 3 and told.endswith("private cannot be listed: Permission denied.\n")
    else:
        assert code == 0 and "1 file cannot be read and was left out: fox/0.png" in told


@pytest.mark.slow
def test_a_hundred_megapixels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for label in ("fox", "owl"):
        for number in range(5):
            picture(
                tmp_path / "p" / label / f"{number}.png", 10 * len(label) + ord(label[0]) + number
            )
    Image.new("L", (14_000, 14_000), 77).save(tmp_path / "p" / "fox" / "huge.png")
    assert attempt(tmp_path / "p", tmp_path) == 0
    assert "11 photos with 2 labels" in capsys.readouterr().err


def test_labels_with_too_few_photos_are_refused_before_photos_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f"no-such-photo-{row}.jpg,label {row // 2:04}" for row in range(10_000)]
    (tmp_path / "t.csv").write_text("\n".join(["image,label", *lines]))
    assert attempt(tmp_path / "t.csv", tmp_path) == 3
    assert "has 5,000 labels, and 0 of them can be tested" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", '{"images": [{"id": 1}], "annotations": [{"image_id": 1}]}', "no 'file_name'."),
        ("a.json", '{"images": 5, "annotations": 7}', "a.json is not laid out as COCO: "),
        ("boxes.json", '{"images": 7}', "is not laid out as results of MegaDetector: "),
        ("boxes.json", '[{"detections": [{"category": "1", "conf": "a", "bbox": [1]}]}]', "float"),
        ("datapackage.json", '{"resources": 3}', "is not laid out as a Camtrap DP: "),
        (
            "datapackage.json",
            '{"resources": [{"name": "media", "path": "../a.csv"}]}',
            "not in the",
        ),
        (
            "datapackage.json",
            '{"resources": [{"name": "media", "path": "m.csv"}]}',
            "lacks the col",
        ),
        ("a.csv", "a\rb,c\r\n", "a.csv cannot be read as a table: "),
    ],
)
def test_files_of_another_layout_are_told_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, message: str
) -> None:
    root = tmp_path / "p"
    for number in range(10):
        picture(root / ("fox", "owl")[number % 2] / f"{number}.png", number)
    (root / name).write_text(text, newline="")
    for table in (tmp_path / "a.csv", root / "m.csv"):
        table.write_text("a,b\n1,2\n")
    is_boxes = name == "boxes.json"
    words = ["--boxes", str(root / name)] if is_boxes else []
    photos = root if is_boxes else root / name
    assert attempt(photos, tmp_path, "--quiet", *words) == 3
    told = capsys.readouterr().err
    assert message in told and told.count("\n") == 1


def test_files_of_others_are_not_written_over(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "try").mkdir()
    mine = tmp_path / "try" / "data.csv"
    mine.write_text("mine")
    assert attempt(model.parents[1] / "photos", tmp_path) == 2
    assert "has a file data.csv that `fieldmark try` has not written" in capsys.readouterr().err
    predict = ["predict", str(model), str(model.parents[1] / "photos"), "--out"]
    for out in (mine, tmp_path):
        assert main([*predict, str(out)]) == 2
    assert mine.read_text() == "mine" and len(list(tmp_path.iterdir())) == 1


def test_what_was_written_among_the_photos_is_no_photo(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_photos(tmp_path / "photos", Plan(n_labels=2, n_photos=8))
    monkeypatch.chdir(tmp_path / "photos")
    words = ["--cache", "../cache"]
    predict = ["predict", "try/model", ".", "--copy-into", "sorted", *words]
    for _ in range(2):
        assert main(["try", ".", "--models", "classical", *words]) == 0
        told = capsys.readouterr().err
        assert "16 photos with 2 labels, 8 of each.\n" in told and "no photos" not in told
        for _ in range(2):
            assert main(predict) == 0
            assert "16 photos: predictions.csv" in capsys.readouterr().err
        shutil.rmtree("sorted")


@pytest.mark.slow
def test_thousands_of_labels_are_judged_in_seconds() -> None:
    n_labels, random = 2000, np.random.default_rng(0)
    code_n = np.repeat(np.arange(n_labels), 4)
    prob_nc = random.dirichlet(np.full(n_labels, 0.01), len(code_n))
    held_out = HeldOut(code_n, prob_nc, np.arange(len(code_n)), tuple(map(str, range(n_labels))))
    assert find_mix_ups(held_out) == []
    assert plan_search(held_out, 7).n_units == 4


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("temperature", "warm", "(temperature: "),
        ("temperature", 0, "(temperature: "),
        ("threshold", "high", "(threshold: "),
        ("labels", [], "(labels: "),
        ("labels", ["a"], "does not fit together"),
        ("neighbour", 0, "(neighbour: "),
        ("neighbour", 10**6, "does not fit together"),
        ("surprise", 1, "(surprise: "),
        ("version", 1, "(version: "),
        ("model", "classical/nothing", "classical/nothing"),
    ],
)
def test_an_edited_model_is_refused_in_a_line(
    model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    key: str,
    value: object,
    message: str,
) -> None:
    folder = shutil.copytree(model, tmp_path / "model")
    about = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps(about | {key: value}))
    photos = str(model.parents[1] / "photos")
    out = ["--out", str(tmp_path / "p.csv"), "--cache", str(tmp_path / "cache")]
    assert main(["predict", str(folder), photos, "--quiet", *out]) in (2, 3, 4)
    told = capsys.readouterr().err
    assert message in told and told.count("\n") == 1
    assert not (tmp_path / "p.csv").exists()


def test_code_that_comes_with_a_model_is_not_run(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(model, tmp_path / "model")
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    about = json.loads((folder / "model.json").read_text())
    about["model"] = f"{folder / 'evil.py'}:Evil"
    (folder / "model.json").write_text(json.dumps(about))
    photos = str(model.parents[1] / "photos")
    assert main(["predict", str(folder), photos, "--out", str(tmp_path / "p.csv")]) == 3
    assert "code that comes with a model is not run" in capsys.readouterr().err
    assert not (tmp_path / "ran").exists()
