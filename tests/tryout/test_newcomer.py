"""What a first-time user met: copies at two sites, no ranking to sort, numbers that disagreed."""

from __future__ import annotations

import csv
import dataclasses
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from fieldmark import try_photos
from fieldmark.cli import main
from fieldmark.cli.answer.predict import tell_trust
from fieldmark.data.read.own_photos import Columns
from fieldmark.progress import Silent
from fieldmark.settings import Settings
from fieldmark.tryout import Verdict
from fieldmark.tryout.evaluate import Rival
from fieldmark.tryout.fitted import load_fitted
from fieldmark.tryout.judge.findings import HeldOut, SearchPlan
from fieldmark.tryout.predict import Prediction
from fieldmark.tryout.products import confusion_chart, label_columns
from fieldmark.tryout.trial import TrialOptions, run_trial
from fieldmark.tryout.words import tell, tell_data
from kit.planted import Plan, make_photos


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_photos(tmp_path_factory.mktemp("newcomer") / "photos", Plan(n_photos=12))


@pytest.fixture(scope="module")
def verdict(photos: Path) -> Verdict:
    return attempt(photos, photos.parent)


def attempt(photos: Path, place: Path, said: list[str] | None = None, **how: Columns) -> Verdict:
    show = (lambda _: None) if said is None else said.append
    options, settings = TrialOptions(models=("classical",), **how), Settings(cache=place / "cache")
    return run_trial(photos, options, settings, Silent(), show)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def judged(verdict: Verdict, code_n: Sequence[int], answer_n: Sequence[int], n: int) -> Verdict:
    """The verdict as if these labels had got these answers."""
    labels = tuple(f"label {code:02}" for code in range(n))
    codes = np.array(code_n)
    held_out = HeldOut(codes, np.eye(n)[np.array(answer_n)], np.arange(len(codes)), labels)
    sample = dataclasses.replace(verdict.sample, labels=labels, code_n=codes)
    return dataclasses.replace(verdict, sample=sample, held_out=held_out)


def test_a_copy_at_another_site_leaves_both_sites_as_they_are(
    photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "p"
    for path in sorted(photos.rglob("*.jpg")):
        site = ("Site North", "Site South")[int(path.stem) % 2]
        (root / site / path.parent.name).mkdir(parents=True, exist_ok=True)
        shutil.copy(path, root / site / path.parent.name)
    one = min((root / "Site North" / "species aaa").iterdir())
    copy = root / "Site South" / "species aaa" / "copy.jpg"
    shutil.copy(one, copy)
    verdict = attempt(root, tmp_path)
    text = "\n".join(tell_data(verdict.sample.survey))
    assert "2 sites are read from folder 1." in text
    names = [path.relative_to(root).as_posix() for path in (copy, one)]
    assert f"{names[0]} is a copy of {names[1]}: it was left out." in text
    assert len(verdict.sample.rows) == 48 and verdict.sample.n_units == 2
    images = verdict.sample.table.get_column("image").to_list()
    assert names[1] in images and names[0] not in images


def test_a_copy_at_another_camera_of_a_table(photos: Path, tmp_path: Path) -> None:
    images = [path.relative_to(photos).as_posix() for path in sorted(photos.rglob("*.jpg"))]
    root = shutil.copytree(photos, tmp_path / "p")
    shutil.copy(root / images[0], root / "copy.jpg")
    shutil.copy(root / images[1], root / "nowhere.jpg")
    lines = [f"{name},{name.split('/')[0]},cam{at % 24}" for at, name in enumerate(images)]
    lines += ["copy.jpg,species aaa,cam5", "nowhere.jpg,species aaa,"]
    (root / "t.csv").write_text("\n".join(["image,label,camera", *lines]))
    verdict = attempt(root / "t.csv", tmp_path)
    text = "\n".join(tell_data(verdict.sample.survey))
    assert verdict.sample.n_units == 24, "a copy without a camera is at the camera of its twin"
    assert f"copy.jpg (cam5) is a copy of {images[0]} (cam0): it was left out." in text
    assert "1 photo is a copy of another: copies stay together" in text


def test_copies_with_two_labels_are_no_leak_that_flatters(
    photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = sorted((photos / "species aaa").iterdir())[:2]
    for split, label, path in (
        ("train", "species aaa", first), ("test", "species bbb", first),
        ("train", "species bbb", second),
    ):  # fmt: skip
        (tmp_path / "p" / split / label).mkdir(parents=True, exist_ok=True)
        shutil.copy(path, tmp_path / "p" / split / label)
    assert main(["check", str(tmp_path / "p")]) == 0
    found = capsys.readouterr().out
    copy = "1 test photo is also among the training photos of your own split, under another label"
    assert f"{copy}: no model can be right on both." in found and "too good" not in found


@pytest.mark.parametrize("wrong", ["Corn rust leef", "Corn rsut leaf", "Corn rust laef"])
def test_a_slip_of_a_short_word_is_asked_about(
    wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = make_photos(tmp_path / "p", Plan(n_labels=2, n_photos=12))
    (root / "species aaa").rename(root / "Corn rust leaf")
    (root / wrong).mkdir()
    for path in sorted((root / "Corn rust leaf").iterdir())[:3]:
        path.rename(root / wrong / path.name)
    assert main(["check", str(root)]) == 0
    asked = f"Is {wrong!r} (3) a typing error for 'Corn rust leaf' (9)? If so, rename it."
    assert asked in capsys.readouterr().out


def test_a_label_can_be_found_by_sorting(photos: Path, tmp_path: Path) -> None:
    cache = ["--cache", str(photos.parent / "cache"), "--quiet"]
    out = tmp_path / "try"
    assert main(["try", str(photos), "--models", "classical", "--out", str(out), *cache]) == 0
    predict = ["predict", str(out / "model"), str(photos), "--out", str(tmp_path / "p.csv")]
    assert main([*predict, *cache]) == 0
    for table in (rows(out / "predictions.csv"), rows(tmp_path / "p.csv")):
        for row in table:
            shares = {name: float(row[name]) for name in row if name.startswith("p(species ")}
            assert sum(shares.values()) == pytest.approx(1, abs=0.001) and len(shares) == 4
            assert shares[f"p({row['best_guess']})"] == max(shares.values())
    assert label_columns(["x"] * 201) == []


def test_the_label_that_is_searched_for_has_a_reason(verdict: Verdict) -> None:
    plans = [
        SearchPlan(f"label {at}", share, 1.0, 0.5, 9, 9) for at, share in enumerate((0.9, 0.4))
    ]
    said = [line for line in told(verdict, searches=tuple(plans)) if "To find" in line]
    assert said[0].startswith("To find nearly all label 1, check the 40 % of photos most likely")
    rare = dataclasses.replace(plans[0], n_units=8, n_photos=8)
    said = [line for line in told(verdict, searches=(*plans, rare)) if "To find" in line]
    assert said == [
        "To find nearly all label 0 (your rarest label), you would have to check 90 % of all "
        "photos."
    ]


def told(verdict: Verdict, **changed: object) -> list[str]:
    return list(tell(dataclasses.replace(verdict, **changed)))  # type: ignore[arg-type]


def test_forty_labels_lose_no_mistake_in_the_table(verdict: Verdict) -> None:
    """Rows add up to 100, and the labels that the text names are among them."""
    code_n = np.repeat(np.arange(40), 10)
    answer_n = code_n.copy()
    answer_n[:390:10] = 39  # one of ten each, for all but the last
    answer_n[380:384] = 37  # and four of ten
    many = judged(verdict, code_n.tolist(), answer_n.tolist(), 40)
    text = "\n".join(tell(dataclasses.replace(many, mix_ups=())))
    assert "Most common mistake: 4 of 10 photos of label 38 were called label 37." in text
    values = confusion_chart(many)["data"]["values"]
    sums = {cell["label"]: 0.0 for cell in values}
    for cell in values:
        sums[cell["label"]] += cell["share"]
    assert len(sums) == 24 and {"label 37", "label 38"} <= sums.keys()
    assert list(sums.values()) == pytest.approx([100] * 24)


def test_labels_that_tie_are_named_together(verdict: Verdict) -> None:
    code_n = np.repeat(np.arange(4), 10)
    answer_n = np.where(np.arange(40) % 10 < 4, (code_n + 1) % 4, code_n)
    answer_n[20:] = code_n[20:]
    text = "\n".join(tell(judged(verdict, code_n.tolist(), answer_n.tolist(), 4)))
    assert "Hardest labels: label 00, label 01, each with 60 % of its photos right." in text


def test_the_best_so_far_never_falls(photos: Path) -> None:
    said: list[str] = []
    verdict = attempt(photos, photos.parent, said)
    shown = [int(line.split("right on ")[1].split()[0]) for line in said if "best so far" in line]
    assert shown == sorted(shown) and shown
    right = 100 * float(verdict.held_out.is_right_n.mean())
    assert shown[-1] == round(right), "what was measured, without the correction for the choice"


def test_what_was_right_is_what_was_measured(verdict: Verdict) -> None:
    few = dataclasses.replace(verdict.choice, low=np.nan, high=np.nan, accuracy=0.01, n_units=3)
    right = 100 * float(verdict.held_out.is_right_n.mean())
    assert f" was right on {right:.0f} of 100 photos, but 3 " in told(verdict, choice=few)[0]


def test_names_of_which_half_are_wrong_are_no_help(verdict: Verdict) -> None:
    poor = dataclasses.replace(
        verdict.threshold, at_least=0.5, is_promise=True, share_named=0.09, share_wrong=0.045
    )
    assert "So about 50 % of the names that it gives are wrong: check them all." in told(
        verdict, threshold=poor
    )
    good = dataclasses.replace(poor, share_wrong=0.01)
    assert "check them all" not in "\n".join(told(verdict, threshold=good))


@pytest.mark.parametrize(
    ("more", "gap", "expected"),
    [
        (
            0,
            0.005,
            "The difference is too small to matter: use classical/colour, the fastest (`--m",
        ),
        (9000, 0.015, "The difference is too small to matter: use classical/colour, the fastest"),
        (60, 0.05, "Telling these models apart would take about 60 more photos like yours. Until "),
        (
            9000,
            0.05,
            "48 independent photos are too few to tell these models apart. Until then, classical",
        ),
    ],
)
def test_the_faster_model_has_a_name(
    verdict: Verdict, more: int, gap: float, expected: str
) -> None:
    entries = [e for e in verdict.entries if e.model in ("classical/all", "classical/colour")]
    speeds = {"classical/all": 10.0, "classical/colour": 300.0}
    entries = [dataclasses.replace(e, images_per_s=speeds[e.model]) for e in entries]
    best = next(at for at, e in enumerate(entries) if e.model == "classical/all")
    changed = {
        "entries": tuple(entries),
        "choice": dataclasses.replace(verdict.choice, best=best),
        "rivals": (
            Rival(
                "classical/colour",
                float(verdict.held_out.is_right_n.mean()) - gap,
                is_as_good=True,
                units_to_decide=more,
            ),
        ),
    }
    text = "\n".join(told(verdict, **changed))
    assert expected in text and "faster one" not in text
    assert "`--models classical/colour`" in text


def test_a_later_answer_replaces_the_copy_of_an_earlier_one(
    photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A copy that somebody has moved stays where it was put."""
    cache = ["--cache", str(photos.parent / "cache")]
    for labels, out in ((("aaa", "bbb"), "one"), (("ccc", "ddd"), "two")):
        for label in labels:
            some = tmp_path / out / "p" / f"species {label}"
            shutil.copytree(photos / f"species {label}", some)
        words = ["--models", "classical", "--out", str(tmp_path / out / "try"), "--quiet", *cache]
        assert main(["try", str(tmp_path / out / "p"), *words]) == 0
    new = tmp_path / "new"
    shutil.copytree(photos / "species aaa", new)
    (new / "empty.jpg").touch()
    into = ["--copy-into", str(tmp_path / "sorted"), "--out", str(tmp_path / "p.csv"), *cache]
    capsys.readouterr()
    assert main(["predict", str(tmp_path / "one" / "try" / "model"), str(new), *into]) == 0
    assert "13 files copied into" in (said := capsys.readouterr().err)
    assert "; 1 of them cannot be read" in said
    moved = next((tmp_path / "sorted").rglob("*[0-9].jpg"))
    (tmp_path / "sorted" / "mine").mkdir()
    moved.rename(tmp_path / "sorted" / "mine" / moved.name)
    assert main(["predict", str(tmp_path / "two" / "try" / "model"), str(new), *into]) == 0
    said = capsys.readouterr().err
    answers = {row["image"]: row["answer"] for row in rows(tmp_path / "p.csv")}
    copies = sorted(path.name for path in (tmp_path / "sorted").rglob("*.jpg"))
    assert copies == sorted(answers), "what a person has sorted is not sorted again"
    assert "another answer of an earlier command removed" in said
    assert main(["predict", str(tmp_path / "two" / "try" / "model"), str(new), *into]) == 0
    assert "0 files copied into" in (said := capsys.readouterr().err)
    assert ", 13 were there already" in said and not moved.exists()


def test_unsure_photos_come_with_a_reason(photos: Path, tmp_path: Path) -> None:
    settings = Settings(cache=photos.parent / "cache")
    out = tmp_path / "try"
    try_photos(photos, models=["classical/colour"], out=out, settings=settings)
    about = dataclasses.replace(load_fitted(out / "model").about, threshold=0.834)
    unsure = [Prediction(f"{at}.jpg", "unsure", "fox", 0.3) for at in range(20)]
    assert next(tell_trust(unsure, about)).startswith(
        "20 photos are unsure: the model gives a name only where it is at least 83 % sure. "
    )
    never = dataclasses.replace(about, threshold=None)
    assert [line[:29] for line in tell_trust(unsure, never)] == ["This model is never sure: in "]
    named = [Prediction("1.jpg", "fox", "fox", 0.9)]
    assert not list(tell_trust(named, about))
    few = dataclasses.replace(about, is_promise=False, n_units=7, unit_word="cameras")
    assert next(tell_trust(named, few)).startswith("This model was tested on 7 cameras, too few to")
    poor = dataclasses.replace(about, wrong_of_named=0.47)
    assert list(tell_trust(named, poor)) == [
        "In its test, 47 % of the names that it gave were wrong: check them all."
    ]


def test_a_wrong_name_is_met_with_the_right_one(
    photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    shutil.copytree(photos, "My leaf photos")
    assert main(["try", "My leaf photo", "--models", "classical", "--out", "try"]) == 3
    assert "does not exist. Did you mean 'My leaf photos'?" in capsys.readouterr().err
    words = ["--models", "classical/colour", "--out", "try", "--quiet"]
    assert main(["try", "My leaf photos", *words, "--cache", "cache"]) == 0
    capsys.readouterr()
    assert main(["predict", "try/model", "My leaf photo", "--cache", "cache"]) == 3
    assert "does not exist. Did you mean 'My leaf photos'?" in capsys.readouterr().err


def test_check_takes_the_columns_that_try_takes(
    photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = photos.parent / "odd.csv"
    images = [path.relative_to(photos.parent) for path in sorted(photos.rglob("*.jpg"))]
    lines = [f"{path},{path.parent.name},{at % 6}" for at, path in enumerate(images)]
    table.write_text("\n".join(["bild,art,ort", *lines]))
    assert main(["check", str(table)]) == 3
    words = ["--image", "bild", "--label", "art", "--unit", "ort"]
    assert main(["check", str(table), *words]) == 0
    assert "6 orts are read from column ort." in capsys.readouterr().err
    assert main(["--help"]) == 0
    assert "check" in capsys.readouterr().out
