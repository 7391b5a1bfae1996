"""`fieldmark check PHOTOS` says about photos what `fieldmark try` says, and trains nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from fieldmark.cli import main
from kit.planted import Plan, make_photos


def check(
    capsys: pytest.CaptureFixture[str], path: Path, *words: str, code: int = 0
) -> tuple[list[str], str]:
    """The findings, and the last line."""
    assert main(["check", str(path), *words]) == code
    shown = capsys.readouterr()
    return shown.out.splitlines(), shown.err


def test_check_says_what_try_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    root = make_photos(Path("photos"), Plan(n_labels=3, n_photos=24, n_copies=3, has_slip=True))
    (root / "notes.txt").write_text("x")
    found, last = check(capsys, root)
    assert list(tmp_path.iterdir()) == [tmp_path / "photos"], "nothing is written beside them"
    assert main(["try", str(root), "--models", "classical", "--out", "out"]) == 0
    told = capsys.readouterr().err
    assert {line.partition("  ")[0] for line in found} == {"note", "warning"}
    for line in found:
        assert line.partition("  ")[2] in told.splitlines()
    assert "note  3 photos are copies of others" in "\n".join(found)
    assert last.startswith("photos: 3 findings. 75 photos with 4 labels: 2 (species cc) to")
    assert "1 file is not a labelled photo and was ignored" in last


def test_one_label_is_an_error_and_the_rest_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = make_photos(tmp_path / "photos", Plan(n_labels=1, n_photos=8, n_copies=1))
    found, _ = check(capsys, root, code=3)
    assert found[0].startswith("note  1 photo is a copy of another")
    assert f"error  {root} has photos of one label only (species aaa)" in found[1]


def test_a_table_with_a_leak_and_an_untrained_label(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = make_photos(tmp_path / "p", Plan(n_labels=2, n_photos=5))
    names = sorted(path.relative_to(root).as_posix() for path in root.rglob("*.jpg"))
    shutil.copy(root / names[0], root / "again.jpg")
    rows = [f"{name},{name.split('/')[0]},train" for name in names if "aaa" in name]
    rows += [f"{name},{name.split('/')[0]},test" for name in names if "bbb" in name]
    rows += ["again.jpg,species aaa,test", f"{names[1]},,train"]
    (root / "t.csv").write_text("\n".join(["image,label,split", *rows]))
    found, last = check(capsys, root / "t.csv")
    assert "warning  1 test photo is also among the training photos" in "\n".join(found)
    assert "warning  1 label has test photos but no training photos: species bbb." in found
    assert "1 file is not a labelled photo and was ignored" in last
    assert main(["check", str(root / "t.csv"), "--json"]) == 0
    levels = json.loads(capsys.readouterr().out)["levels"]
    assert levels == {"error": 0, "warning": 2, "note": 1}
