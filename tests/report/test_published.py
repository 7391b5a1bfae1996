"""Published numbers: typed in whole, matched to the right runs, judged with reasons."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from fieldmark.models import known_models
from fieldmark.report import match_published, plain_published, published_text
from fieldmark.report.compare.published import published
from fieldmark.report.rows import Row
from fieldmark.store import Run, RunSpec, Score
from fieldmark.tasks import load_own_task

MEANS = {
    "PE-Core G/14@448": 44.8, "BioCLIP-2.5 H/14": 43.9, "PE-Core L/14@336": 42.8,
    "SigLIP2 1B/16@384": 42.4, "BioCLIP-2 L/14": 42.1, "DINOv3 L/16@256": 41.5,
    "DINOv2-reg g/14": 41.4, "SigLIP SO400M@384": 41.0, "DINOv2-reg L/14": 39.4,
    "DINOv2-reg B/14": 36.8, "BioCAP B/16": 36.3, "BioCLIP B/16": 34.4, "CLIP L/14@224": 34.2,
    "SigLIP B/16@224": 33.5, "BioTrove B/16": 31.4, "CLIP B/16": 29.6, "CLIP B/32": 28.2,
    "V-JEPA H/16": 21.7, "MegaDescriptor L/384": 19.6, "ResNet-50 a1": 17.7,
}  # fmt: skip
"""the leaderboard's own means over the other columns: a check of what was typed in"""
PRIOR = ("IN1K", "NeWT", "iNat21")
CLIP = "open-clip/ViT-B-16/openai"


def row(task: str, metric: str, value: float, half: float | None = 0.01, **spec) -> Row:
    name, _, variant = task.partition("@")
    asked = {"model": CLIP, "protocol": "probe/svm", "task_variant": variant, **spec}
    made = RunSpec(task=name, **asked)
    run = Run(1, made, made.key, "done", None, "", "", None, None, 10, 10, "", "0.1.0")
    low, high = (None, None) if half is None else (value - half, value + half)
    score = Score(metric, value, "", low, high, n=16_400, is_primary=True)
    return Row(run, score, asked["model"], task)


def only(*rows: Row, source: str = "biobench leaderboard"):
    (found,) = (each for each in match_published(rows) if each.published.source == source)
    return found


def test_every_number_has_a_source_and_a_place():
    numbers = published()
    assert len(numbers) > 450
    assert len({each.source for each in numbers}) == 9
    for each in numbers:
        assert each.address and each.date and each.metric and each.protocol, each
        assert 0 <= each.value <= 100
        assert each.tolerance > 0 or each.faulty or not each.task, each


def test_models_tasks_protocols_and_metrics_are_ours():
    """What is spelt otherwise here would never be compared, and nobody would notice."""
    names = {each.name for each in known_models()}
    for each in published():
        assert names.issuperset(each.models), each
        if each.task:
            task = load_own_task(each.task)
            assert each.metric in (task.metric, *task.also), each
            assert task.block(each.protocol) is not None, each


def test_the_leaderboard_is_typed_in_as_published():
    board = [each for each in published() if each.source == "biobench leaderboard"]
    assert len(board) == 20 * 13
    values = {(each.model, each.column): each.value for each in board}
    assert values["BioCLIP-2 L/14", "NeWT"] == 89.1
    assert values["PE-Core G/14@448", "PlantNet"] == 50.5
    assert values["ResNet-50 a1", "Beluga"] == 0.6
    for model, mean in MEANS.items():
        mine = [v for (m, c), v in values.items() if m == model and c not in PRIOR]
        assert sum(mine) / len(mine) == pytest.approx(mean, abs=0.1), model


@pytest.mark.parametrize(
    ("ours", "verdict", "why"),
    [
        (row("newt@biobench2026", "accuracy", 0.805), "agrees", "within 1.2 points"),
        (row("newt@biobench2026", "accuracy", 0.812), "agrees", "within 1.2 points"),
        (row("newt@biobench2026", "accuracy", 0.77, half=0.04), "differs", "by more than 1.2"),
        (row("newt@biobench2026", "accuracy", 0.77), "differs", "by more than 1.2 points"),
        (row("newt@biobench2026", "accuracy", 0.77, half=None), "differs", "by more than"),
        (row("newt", "accuracy", 0.80), "not comparable", "theirs is newt@biobench2026"),
        (row("newt@biobench2026", "macro_f1", 0.8), "not comparable", "theirs is accuracy"),
        (row("newt@biobench2026", "accuracy", math.nan), "not comparable", "ours is not defined"),
        (
            row("newt@biobench2026", "accuracy", 0.8, n_train=10),
            "not comparable",
            "ours used a part of the images",
        ),
        (
            row("plantnet@biobench2026", "macro_f1", 0.341),
            "not comparable",
            "ours tested 16,400 photos, theirs 31,118",
        ),
    ],
)
def test_verdicts(ours, verdict, why):
    found = only(ours)
    assert found.verdict == verdict
    assert why in found.why


def test_our_interval_never_makes_agreement():
    """74.0 against a published 78.0, 1.5 points allowed, on the same 400 images."""
    (known,) = (one for one in published() if one.column == "NeWT" and CLIP in one.models
                and one.source == "biobench leaderboard")  # fmt: skip
    known = replace(known, value=78.0, tolerance=1.5, n_items=400)
    ours = row("newt@biobench2026", "accuracy", 0.74, half=0.043)
    ours = replace(ours, score=replace(ours.score, n=400))
    (found,) = match_published([ours], [known])
    assert found.verdict == "differs"
    assert found.why == "by more than 1.5 points"
    assert "0 agrees, 1 differs" in published_text([found])


@pytest.mark.parametrize(
    ("n_items", "verdict", "why"),
    [
        (16_400, "agrees", "within 1.2 points"),
        (16_000, "agrees", "within 1.2 points; ours tested 16,400 photos, theirs 16,000"),
        (None, "agrees", "within 1.2 points; assumed to be the same photos: their number is not "
                         "published"),
        (400, "not comparable", "ours tested 16,400 photos, theirs 400"),
    ],
)  # fmt: skip
def test_what_is_known_of_their_images_is_said(n_items, verdict, why):
    ours = row("newt@biobench2026", "accuracy", 0.8)
    number = replace(only(ours).published, n_items=n_items)
    (found,) = match_published([ours], [number])
    assert (found.verdict, found.why) == (verdict, why)


def test_columns_faulty_at_their_source_get_no_verdict():
    plankton = row("plankton@biobench2026", "macro_f1", 0.7)
    plankton = replace(plankton, score=replace(plankton.score, n=151_236))
    found = only(plankton)
    assert found.verdict == "not comparable"
    assert found.why.startswith("theirs is faulty: their class ids were counted per split")
    resnet = only(row("newt@biobench2026", "accuracy", 0.7, model="timm/resnet50.a1_in1k"))
    assert "not in evaluation mode" in resnet.why


def test_protocols_are_never_mixed():
    zero = row("rarespecies", "accuracy", 0.257, protocol="zero_shot")
    probe = row("rarespecies", "accuracy", 0.285)
    assert {each.published.protocol for each in match_published([zero])} == {"zero_shot"}
    assert {each.published.column for each in match_published([probe])} == {"1-shot", "5-shot"}


def test_parts_and_unknown_models_have_no_counterpart():
    whole = row("newt@biobench2026", "accuracy", 0.8)
    part = replace(whole, score=replace(whole.score, part="age: fox"))
    assert match_published([part]) == []
    assert match_published([row("newt", "accuracy", 0.8, model="mine.py:Net")]) == []
    assert published_text([]).startswith("None of these scores has a published counterpart")


def test_text_is_straight_columns():
    rows = [row("newt@biobench2026", "accuracy", 0.77), row("imagenet1k", "accuracy", 0.7)]
    text = published_text(match_published(rows))
    assert text.splitlines()[:4] == [
        "biobench leaderboard, 2026-03-12, arXiv:2511.16315",
        "model                      task               metric                 ours  theirs"
        "  difference  verdict",
        "open-clip/ViT-B-16/openai  newt@biobench2026  accuracy  77.0 [76.0, 78.0]    80.0"
        "        −3.0  differs: by more than 1.2 points",
        "open-clip/ViT-B-16/openai  imagenet1k         accuracy  70.0 [69.0, 71.0]    78.2"
        "           –  not comparable: theirs is imagenet1k@biobench2026",
    ]
    assert text.splitlines()[-2].startswith("0 agrees, 1 differs, 1 not comparable.")


def test_plain_matches_are_json():
    (found,) = map(plain_published, match_published([row("inat21", "accuracy", math.nan)]))
    again = json.loads(json.dumps(found, allow_nan=False))
    assert again["ours"] is None and again["published_value"] == 49.1
    assert again["published_source"] == "biobench leaderboard"
