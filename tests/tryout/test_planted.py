"""What is wrong with photos is named in words, and a clean set gives no alarm."""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fieldmark.progress import Silent
from fieldmark.settings import Settings
from fieldmark.tryout import Verdict
from fieldmark.tryout.judge.findings import HeldOut, SearchPlan, find_weak_places
from fieldmark.tryout.look.audit import find_slips
from fieldmark.tryout.trial import TrialOptions, run_trial
from fieldmark.tryout.words import tell, tell_data
from kit.planted import Plan, make_photos

ALL = TrialOptions(models=("classical",))


def try_out(folder: Path, plan: Plan, options: TrialOptions = ALL) -> tuple[str, Verdict]:
    """Everything that is said, and the verdict."""
    settings = Settings(cache=folder / "cache")
    verdict = run_trial(make_photos(folder / "photos", plan), options, settings, Silent())
    return "\n".join([*tell_data(verdict.sample.survey), *tell(verdict)]), verdict


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Verdict]:
    return try_out(tmp_path_factory.mktemp("clean"), Plan())


def test_a_clean_set_is_told_in_a_few_lines(clean: tuple[str, Verdict]) -> None:
    text, verdict = clean
    assert text.startswith(
        "120 photos with 4 labels, 30 of each.\nLabels are read from the folder names: "
        "species aaa, species bbb, species ccc, species ddd.\nUse "
    )
    assert "On new photos it is right on about" in text
    assert verdict.choice.low <= verdict.choice.accuracy <= verdict.choice.high
    for word in ("mixes up", "Check", "less often", "copies", "bursts", "typing error", "too few"):
        assert word not in text
    assert "No label looks clearly wrong to these models." in text


def test_a_poor_model_is_recommended_to_nobody(clean: tuple[str, Verdict]) -> None:
    _, verdict = clean
    choice = dataclasses.replace(verdict.choice, accuracy=0.4, low=0.35, high=0.45)
    lines = list(tell(dataclasses.replace(verdict, choice=choice)))
    best = f"{verdict.best.model} with "
    assert lines[0].startswith(f"No model is good enough yet: even the best, {best}")
    assert lines[0].endswith(", is wrong on most photos.")
    assert "Always giving the most common label is right on 25." in lines


@pytest.mark.parametrize(
    ("share", "at_least", "expected"),
    [
        (
            *(0.93, 0.88),
            [
                "To find nearly all fox (your rarest label), you would have to check 93 % of all "
                "photos."
            ],
        ),
        (
            *(0.3, 0.95),
            [
                "To find 95 % of fox (your rarest label), check the 30 % of photos most likely to "
                "be fox: sort predictions.csv by the column p(fox)."
            ],
        ),
        (
            *(0.3, 0.88),
            [
                "To find nearly all fox (your rarest label), check the 30 % of photos most likely "
                "to be fox: sort predictions.csv by the column p(fox).",
                "This found all 23 photos here. With so few, count on only 88 % of new ones.",
            ],
        ),
    ],
)
def test_one_number_is_promised_for_a_search(
    clean: tuple[str, Verdict], share: float, at_least: float, expected: list[str]
) -> None:
    search = SearchPlan("fox", share, 1.0, at_least, 23, 23)
    lines = list(tell(dataclasses.replace(clean[1], searches=(search,))))
    assert [line for line in lines if "fox" in line or "This found" in line] == expected


@pytest.mark.slow
def test_copies_and_bursts(tmp_path: Path) -> None:
    text, verdict = try_out(tmp_path, Plan(n_copies=6))
    assert "6 photos are copies of others" in text
    assert verdict.sample.n_units == 120


@pytest.mark.slow
def test_a_burst_across_a_random_split(tmp_path: Path) -> None:
    """Two labels of one species: only a frame of the same burst tells them apart."""
    plan = Plan(n_labels=3, n_photos=60, n_shots=6, has_twins=True)
    text, verdict = try_out(tmp_path, plan)
    assert "near-identical" in text and verdict.sample.n_units < 80
    assert "A random split would have shown" in text
    assert verdict.leak and verdict.leak.low > 0


@pytest.mark.slow
def test_two_labels_that_look_alike(tmp_path: Path) -> None:
    text, verdict = try_out(tmp_path, Plan(has_twins=True))
    assert "It mixes up species aaa and species bbb" in text
    assert len(verdict.mix_ups) == 1 and not verdict.suspects.rows


@pytest.mark.slow
def test_labels_that_are_wrong(tmp_path: Path) -> None:
    text, verdict = try_out(tmp_path, Plan(n_mislabelled=4, n_photos=40, difficulty=0.0))
    assert "Check 4 labels" in text
    image = verdict.sample.table.get_column("image")
    assert {image[row].split("/")[0] for row in verdict.suspects.rows} == {"species bbb"}
    assert {verdict.sample.labels[code] for code in verdict.suspects.suggested} == {"species aaa"}


@pytest.mark.slow
def test_a_label_that_fails_at_night(tmp_path: Path) -> None:
    text, _ = try_out(tmp_path, Plan(night_fails=True, n_photos=60, difficulty=0.0))
    assert "species aaa is recognised less often at night" in text
    assert "species ccc is recognised less often" not in text


def test_a_label_that_is_too_small_and_a_slip(tmp_path: Path) -> None:
    text, verdict = try_out(tmp_path, Plan(has_small=True, has_slip=True))
    assert "Is 'species cc' (2) a typing error for 'species ccc' (28)?" in text
    assert "the same label?" not in text, "nothing is asked twice"
    assert "2 labels have too few photos to be tested: rare thing (2), species cc (2)." in text
    assert "rare thing" not in verdict.sample.labels


@pytest.mark.parametrize(
    ("labels", "is_asked"),
    [
        (("Peach leaf", "Peech leaf"), True),
        (("fox", "foxx"), True),
        (("Vulpes vulpes", "Vulpes vulpe"), True),
        (("Parus major", "Parus minor"), False),
        (("bear", "boar"), False),
        (("class A", "class B"), False),
        (("leaf 1", "leaf 2"), False),
    ],
)
def test_labels_that_differ_in_a_letter_are_asked_about(
    labels: tuple[str, str], is_asked: bool
) -> None:
    """However many photos they have."""
    found = list(find_slips(np.repeat(labels, (17, 17))))
    assert [finding.kind for finding in found] == ["slip"] * is_asked
    if is_asked:
        assert f"Are {min(labels)!r} (17) and {max(labels)!r} (17) the same" in found[0].text


def test_spellings_of_one_label_are_merged(tmp_path: Path) -> None:
    make_photos(tmp_path / "photos", Plan(n_photos=12))
    (tmp_path / "photos" / "species aaa").rename(tmp_path / "photos" / "Species_AAA")
    moved = sorted((tmp_path / "photos" / "Species_AAA").iterdir())[:3]
    (tmp_path / "photos" / "species aaa").mkdir()
    for path in moved:
        path.rename(tmp_path / "photos" / "species aaa" / path.name)
    verdict = run_trial(tmp_path / "photos", ALL, Settings(cache=tmp_path / "c"), Silent())
    text = "\n".join(tell_data(verdict.sample.survey))
    assert "'species aaa' (3) and 'Species_AAA' are the same label: they were merged." in text
    assert len(verdict.sample.labels) == 4


@pytest.mark.slow
def test_a_camera_that_fails(tmp_path: Path) -> None:
    """One of eight cameras takes photos of nothing but noise."""
    root = make_photos(tmp_path / "photos", Plan(n_labels=3, n_photos=48, difficulty=0.0))
    lines, random = ["image,label,camera"], np.random.default_rng(0)
    for number, path in enumerate(sorted(root.rglob("*.jpg"))):
        lines.append(f"{path.relative_to(root)},{path.parent.name},{number % 8}")
        if number % 8 == 5:
            Image.fromarray(random.integers(0, 255, (96, 96, 3), dtype=np.uint8)).save(path)
    (root / "t.csv").write_text("\n".join(lines))
    verdict = run_trial(root / "t.csv", ALL, Settings(cache=tmp_path / "c"), Silent())
    said = [line for line in tell(verdict) if "less often at" in line]
    assert len(said) == 1 and "Photos are recognised less often at camera 5: " in said[0]
    assert " of 18 right, against " in said[0] and " of 126 otherwise." in said[0]


def test_places_that_are_alike_give_few_false_alarms() -> None:
    """400 sets of 12 cameras, bursts of 3: at most 5 of 100 sets name one."""
    n_alarms, unit_n = 0, np.repeat(np.arange(12), 30)
    for seed in range(400):
        random = np.random.default_rng(seed)
        burst_n = np.arange(360) // 3
        is_right = (random.random(120) < 0.75)[burst_n]
        prob_nc = np.where(is_right[:, None], [0.9, 0.1], [0.1, 0.9])
        held_out = HeldOut(np.zeros(360, int), prob_nc, unit_n, ("a", "b"))
        n_alarms += bool(find_weak_places(held_out, [*map(str, range(12))], burst_n))
    assert n_alarms <= 20


@pytest.mark.slow
def test_clean_sets_give_few_false_alarms(tmp_path: Path) -> None:
    """Worlds of 120 photos: of each kind of claim, at most 5 of 100 are wrong. `WORLDS=100` tries
    more of them.
    """
    alarms, n_worlds = Counter[str](), int(os.environ.get("WORLDS", "40"))
    two = TrialOptions(models=("classical/colour", "classical/texture"))
    for seed in range(n_worlds):
        text, verdict = try_out(tmp_path / str(seed), Plan(seed=seed), two)
        kinds = {finding.kind for finding in verdict.sample.survey.audit.findings}
        said = {"mixes up": "mix-up", "less often": "weakness", "Check": "suspects"}
        kinds |= {kind for words, kind in said.items() if words in text}
        kinds |= {"leak"} if "random split" in text else set()
        alarms.update(kinds)
    assert all(n <= n_worlds / 20 for n in alarms.values()), dict(alarms)


@pytest.mark.slow
def test_the_same_photos_in_another_place_give_the_same_verdict(
    clean: tuple[str, Verdict], tmp_path: Path
) -> None:
    text, verdict = try_out(tmp_path, Plan())
    assert dataclasses.astuple(verdict.choice)[:4] == dataclasses.astuple(clean[1].choice)[:4]
    assert [line for line in text.splitlines() if "per second" not in line] == [
        line for line in clean[0].splitlines() if "per second" not in line
    ]
