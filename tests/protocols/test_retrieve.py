"""Retrieval: whole runs against brute force over the full matrix, units, intervals, lines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from itertools import permutations
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import average_precision_score

from fieldmark import evaluate
from fieldmark.embed import rank_positives
from fieldmark.errors import FieldmarkError
from fieldmark.metrics import load_metric
from fieldmark.protocols import Scoring, load_protocol
from fieldmark.stats import Items, interval
from kit.duals import Album, HashDual

WAYS = ("image_to_text", "text_to_image")


@pytest.fixture
def album(tmp_path: Path) -> Album:
    return Album(tmp_path)


def captioned(n: int = 40, n_images: int = 25, n_captions: int = 28) -> list[dict[str, str]]:
    """Rows of which some share a picture (the same file, and a copy of it), some a caption."""
    random = np.random.default_rng(n)
    return [
        {
            "id": f"row-{i:03}",
            "image": f"{int(random.integers(n_images)):03}.png",
            "label": "x",
            "split": "test",
            "caption": f"a bird of kind {int(random.integers(n_captions))}",
        }
        for i in range(n)
    ]


def chance_within(k: int, better: int, equal: int, tied: int) -> float:
    """That one of `tied` rows is among the first k, after `better` and mixed with `equal`."""
    free = k - better
    if free <= 0:
        return 0.0
    return 1 - comb(equal, min(free, equal + tied)) / comb(equal + tied, min(free, equal + tied))


def mean_inverse_rank(better: int, equal: int, tied: int) -> float:
    """By trying every set of places that the tied positives may have."""
    n = equal + tied
    total = sum(
        Fraction(comb(n - place, tied - 1), better + place) for place in range(1, equal + 2)
    )
    return float(total / comb(n, tied))


def brute_force(score_nn: np.ndarray, positive_nn: np.ndarray) -> dict[str, np.ndarray]:
    """Of every row: what its own partner (the diagonal) and all positives are worth."""
    values: dict[str, list[float]] = {}

    def add(name: str, value: float) -> None:
        values.setdefault(name, []).append(value)

    for row, (score_n, positive_n) in enumerate(zip(score_nn, positive_nn, strict=True)):
        strict = (int((score_n > score_n[row]).sum()), int((score_n == score_n[row]).sum()) - 1, 1)
        top = score_n[positive_n].max()
        at_top = score_n == top
        tied = int((at_top & positive_n).sum())
        any_right = (int((score_n > top).sum()), int(at_top.sum()) - tied, tied)
        for prefix, place in (("", strict), ("multi_", any_right)):
            for k in (1, 5, 10):
                add(f"{prefix}recall_at_{k}", chance_within(k, *place))
            add(f"{prefix}mrr", mean_inverse_rank(*place))
        add("multi_map", float(average_precision_score(positive_n, score_n)))
    return {name: np.array(value) for name, value in values.items()}


def test_the_brute_force_is_right_about_ties() -> None:
    """Against every order of the tied rows."""
    for better, equal, tied in [(0, 3, 2), (2, 1, 3), (1, 4, 1), (3, 0, 2)]:
        ranks = [
            better + 1 + min(order.index(row) for row in range(tied))
            for order in permutations(range(equal + tied))
        ]
        assert mean_inverse_rank(better, equal, tied) == pytest.approx(np.mean(1 / np.array(ranks)))
        for k in (1, 2, 5):
            hits = np.mean(np.array(ranks) <= k)
            assert chance_within(k, better, equal, tied) == pytest.approx(hits)


def scores_of(album: Album, model: HashDual, rows: Sequence[dict[str, str]]) -> np.ndarray:
    """Products of all rows' pictures and captions; equal pictures and captions give equal ones."""
    image_nd, text_nd = (
        model.image_rows(album.paths(rows)),
        model.text_rows([row["caption"] for row in rows]),
    )
    return np.round(image_nd @ text_nd.T, 6)


def positives_of(album: Album, rows: Sequence[dict[str, str]]) -> np.ndarray:
    """Of each picture (line) the captions that are right: those that a row has with it."""
    pictures = [path.read_bytes() for path in album.paths(rows)]
    pairs = {(picture, row["caption"]) for picture, row in zip(pictures, rows, strict=True)}
    return np.array([[(picture, row["caption"]) in pairs for row in rows] for picture in pictures])


def by_item(predictions: Any, part: str) -> dict[str, dict[str, float]]:
    own = predictions.filter(predictions["part"] == part)
    return {item: json.loads(info)["values"] for item, info in own.select("id", "info").iter_rows()}


@pytest.mark.parametrize(
    ("n", "n_images", "n_captions"),
    [(40, 25, 28), (30, 3, 4), (12, 500, 500), (25, 1, 9), (2, 2, 1)],
)
def test_a_run_is_what_brute_force_over_all_pairs_says(
    album: Album, n: int, n_images: int, n_captions: int
) -> None:
    rows = captioned(n, n_images, n_captions)
    album.write(rows)
    copied = album.photos / "copy of a picture.png"
    copied.write_bytes((album.photos / rows[0]["image"]).read_bytes())
    rows[1]["image"] = copied.name
    album.write(rows)
    model = HashDual()
    task = album.task(metric="recall_at_5", retrieve={})
    result = evaluate(model, task, settings=album.settings)
    score_nn, positive_nn = scores_of(album, model, rows), positives_of(album, rows)
    expected = [brute_force(score_nn, positive_nn), brute_force(score_nn.T, positive_nn.T)]
    by_name = {(score.metric, score.part): score for score in result.scores}
    for way, wanted in zip(WAYS, expected, strict=True):
        own = by_item(result.predictions, way)
        assert list(own) == [row["id"] for row in rows]
        for name, value_n in wanted.items():
            assert [own[row["id"]][name] for row in rows] == pytest.approx(value_n, abs=1e-9), name
            assert by_name[name, way].value == pytest.approx(value_n.mean(), abs=1e-9)
    for name in expected[0]:
        both = (expected[0][name].mean() + expected[1][name].mean()) / 2
        assert by_name[name, ""].value == pytest.approx(both, abs=1e-9)
    assert {score.metric for score in result.scores} == set(expected[0])
    assert result.score.metric == "recall_at_5"


def test_what_came_first_is_told(album: Album) -> None:
    rows = captioned(20)
    album.write(rows)
    model = HashDual()
    result = evaluate(model, album.task(metric="mrr", retrieve={}), settings=album.settings)
    best = scores_of(album, model, rows)
    for way, score_nn in zip(WAYS, (best, best.T), strict=True):
        own = result.predictions.filter(result.predictions["part"] == way)
        for row, (_, target, prediction) in enumerate(
            own.select("id", "target", "prediction").iter_rows()
        ):
            key = "caption" if way == WAYS[0] else "id"
            assert target == rows[row][key]
            ties = np.flatnonzero(score_nn[row] == score_nn[row].max())
            assert prediction in {rows[tie][key] for tie in ties}


def test_template_surrounds_the_caption_as_it_is_written(album: Album) -> None:
    rows = captioned(6)
    rows[0]["caption"] = "  {} braces, «quotes» and\ta tab  "
    album.write(rows)
    model = HashDual()
    evaluate(
        model, album.task(metric="mrr", retrieve={"template": "see {}!"}), settings=album.settings
    )
    wanted = {f"see {row['caption'].strip()}!" for row in rows}
    said = [text for text in model.said if text.startswith("see ")]
    assert sorted(said) == sorted(wanted), "each once"


def test_rows_without_a_caption_are_not_asked(album: Album) -> None:
    rows = captioned(20)
    rows[3]["caption"] = ""
    rows[7]["caption"] = "   "
    album.write(rows)
    result = evaluate(HashDual(), album.task(metric="mrr", retrieve={}), settings=album.settings)
    assert result.score.n == 2 * 18
    assert not {"row-003", "row-007"} & set(result.predictions["id"])


# --- units and intervals ---


def test_rows_that_share_a_caption_or_a_picture_are_one_unit(album: Album) -> None:
    names = [("a", "1"), ("a", "2"), ("b", "2"), ("c", "3"), ("d", "3"), ("e", "5"), ("f", "6")]
    rows = [
        {"id": f"{i}", "image": f"{image}.png", "label": "x", "split": "test",
         "caption": f"words {words}", "unit": f"own {i}"}
        for i, (image, words) in enumerate(names)
    ]  # fmt: skip
    album.write(rows)
    task = album.task(metric="mrr", retrieve={}, options={"unit": "unit"})
    result = evaluate(HashDual(), task, settings=album.settings)
    for way in WAYS:
        own = result.predictions.filter(result.predictions["part"] == way)
        units = dict(own.select("id", "unit").iter_rows())
        assert units["0"] == units["1"] == units["2"] != units["3"] == units["4"] != units["5"]
        assert len(set(units.values())) == 4
    by_part = {score.part: score.n_units for score in result.scores if score.metric == "mrr"}
    assert by_part == {"": 4, **dict.fromkeys(WAYS, 4)}


def test_a_unit_of_the_data_joins_rows_too(album: Album) -> None:
    rows = captioned(12, 500, 500)
    for number, row in enumerate(rows):
        row["burst"] = f"burst {number // 4}" if number < 8 else ""
    album.write(rows)
    task = album.task(metric="mrr", retrieve={}, unit="burst")
    result = evaluate(HashDual(), task, settings=album.settings)
    assert result.score.n_units == 2 + 4


@pytest.mark.slow
def test_interval_of_both_ways_holds_the_truth_as_often_as_it_says() -> None:
    """Rows that share a caption fail and succeed together, both ways: about 95 of 100 intervals
    hold the long-run mean; ways taken as independent would hold it far less often.
    """
    random, metric = np.random.default_rng(1), load_metric("recall_at_1")
    is_held, is_held_apart = [], []
    for _ in range(250):
        unit = np.repeat(np.arange(60), random.integers(1, 5, 60))
        chance = random.beta(1.2, 1.2, 60)[unit]
        value = np.concatenate([random.random(len(unit)) < chance for _ in WAYS]).astype(float)
        frame = pl.DataFrame(
            {
                "part": np.repeat(np.array(WAYS), len(unit)).tolist(),
                "repeat": 0,
                "id": 2 * [f"{row}" for row in range(len(unit))],
                "unit": 2 * [f"{own}" for own in unit],
                "outcome": "ok",
                "info": [json.dumps({"values": {"recall_at_1": one}}) for one in value],
            }
        )
        scoring = Scoring(("recall_at_1",), "pooled", {way: {} for way in WAYS})
        scores = load_protocol("retrieve").score(scoring, frame, ())
        (whole,) = (score for score in scores or () if not score.part)
        is_held.append(whole.low <= 0.5 <= whole.high)
        unlike = np.concatenate([unit, unit + 60])
        apart = Items(np.zeros(len(value), int), unlike, frame["part"].to_numpy(), "mean")
        ends = interval(apart, value, metric)
        is_held_apart.append(ends.low <= 0.5 <= ends.high)
    assert 0.915 <= np.mean(is_held) <= 0.985
    assert np.mean(is_held_apart) < np.mean(is_held) - 0.03


# --- lines ---


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (
            {"retrieve": {"caption": "captoin"}},
            "album.yaml:6  retrieve: dataset 'csv' has no column 'captoin'. Did you mean "
            "'caption'?",
        ),
        (
            {"retrieve": {}, "unit": "brust"},
            "album.yaml:7  unit: dataset 'csv' has no column 'brust'.",
        ),
        (
            {"retrieve": {"caption": "empty"}},
            "task 'album': 0 of 40 rows of dataset 'csv' have a text in the column 'empty': at "
            "least two are needed.",
        ),
        (
            {"retrieve": {}, "test": {"split": "tset"}},
            "task 'album': no test images: no row of dataset 'csv' fits `split: tset` (its "
            "splits: test). Say under `test` in the task file which rows do.",
        ),
        ({"retrieve": {"template": "a photo"}}, "{}"),
        (
            {"retrieve": {}, "metric": "accuracy"},
            "album.yaml:5  metric 'accuracy' scores labels, but `retrieve` gives ranked lists: "
            "expected one of",
        ),
    ],
)
def test_slips_are_told_before_anything_is_embedded(
    album: Album, keys: dict[str, Any], line: str
) -> None:
    album.write([{**row, "empty": ""} for row in captioned()])
    model = HashDual()
    with pytest.raises(FieldmarkError) as caught:
        evaluate(model, album.task(**{"metric": "mrr", **keys}), settings=album.settings)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value).strip()
    assert model.looked == [] and model.said == []


def test_training_images_are_refused(album: Album) -> None:
    album.write(captioned())
    with pytest.raises(FieldmarkError, match="n_train: expected 0, `retrieve` looks at no train"):
        evaluate(
            HashDual(), album.task(metric="mrr", retrieve={}), settings=album.settings, n_train=3
        )


def test_ranks_of_many_copies_are_those_of_their_rows() -> None:
    """Weights of distinct rows stand for all their copies, as in a run."""
    random = np.random.default_rng(0)
    image_nd = random.standard_normal((9, 4)).astype(np.float32)
    weight_n = random.integers(1, 4, 9)
    every = np.repeat(np.arange(9), weight_n)
    ranks = rank_positives(
        image_nd, image_nd, (np.arange(9), np.arange(9)), weight_q=weight_n, weight_g=weight_n
    )
    score_nn = image_nd[every].astype(np.float64) @ image_nd[every].T.astype(np.float64)
    for place, row in enumerate(every):
        better = int((score_nn[place] > score_nn[place, place] + 1e-9).sum())
        assert ranks.to_gallery.better_any_p[row] == better
