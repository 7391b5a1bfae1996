"""Every plot: a valid specification, a picture in every format, the same one twice."""

from __future__ import annotations

import itertools
import json
import math
import random
import re
from dataclasses import replace
from pathlib import Path

import altair
import pytest

from fieldmark.cli import main
from fieldmark.errors import DataError, UnknownName
from fieldmark.report import compare_models, read_table
from fieldmark.report.plots import PLOTS, SUFFIXES, chart, draw, read_results, render
from fieldmark.report.plots._panel import short_names
from fieldmark.report.plots.pareto import front_of, place_labels
from fieldmark.report.table.ranking import rank_text
from fieldmark.stats import wilson
from fieldmark.store import PartResult, Predictions, RunFilter, RunSpec, Score, Store

ANIMALS = ("fox", "hare", "lynx", "otter")
MODELS = ("classical/colour", "timm/resnet50.a1_in1k", "open-clip/ViT-B-16/openai", "mine.py:Net")
MAGIC = {"png": b"\x89PNG", "svg": b"<svg", "pdf": b"%PDF"}


def ask(store: Store, spec: RunSpec, n_right: int, n: int = 200, **facts) -> int:
    """A finished run with its own predictions; the first items are right."""
    targets = [ANIMALS[i % 4] for i in range(n)]
    answers = [t if i < n_right else ANIMALS[(i + 1) % 4] for i, t in enumerate(targets)]
    run = store.begin_run(spec, {"command": []}, fingerprint="f")
    given = Predictions([f"{i:05d}.jpg" for i in range(n)], targets, answers)
    store.write_part(
        run,
        PartResult(
            given, n_train=min(500 if spec.n_train is None else spec.n_train, 500), info=facts
        ),
    )
    found = wilson(n_right, n)
    score = Score("accuracy", n_right / n, "", found.low, found.high, n=n, is_primary=True)
    store.finish_run(run, [score])
    return run


@pytest.fixture
def store(tmp_path: Path):
    """Two tasks, four models, several numbers of training images, a sweep, and a chat model."""
    with Store.open(tmp_path / "fieldmark.db") as opened:
        for place, model in enumerate(MODELS):
            base = RunSpec(model, "beluga", "probe/ridge", {"probe": {"alpha": 1.0}})
            ask(opened, base, 110 + 25 * place, images_per_s=400.0 / (place + 1))
            ask(opened, replace(base, n_train=10), 90 + 10 * place)
            ask(opened, replace(base, n_train=1000), 110 + 25 * place)
            if place < 2:
                kabr = replace(base, task="kabr")
                for alpha in (0.1, 10.0, 1000.0):
                    setting = {"probe": {"alpha": alpha}}
                    ask(opened, replace(kabr, settings=setting), 120 + int(10 * alpha**0.25))
        ask(opened, RunSpec("chat/some/one", "beluga", "ask", {"prompt": "?"}, n_train=10), 130)
        yield opened


def specs(value):
    """All mappings inside a specification."""
    if isinstance(value, dict):
        yield value
        for each in value.values():
            yield from specs(each)
    elif isinstance(value, list):
        for each in value:
            yield from specs(each)


def validate(spec) -> None:
    """Against altair's schema; a few data suffice, as values are all of one kind."""

    def thin(value):
        if isinstance(value, dict):
            return {k: v[:2] if k == "values" else thin(v) for k, v in value.items()}
        return [thin(each) for each in value] if isinstance(value, list) else value

    altair.Chart.from_dict(thin(spec), validate=True)


def words(spec) -> str:
    return " ".join([*spec["title"]["text"], *spec["title"]["subtitle"]])


@pytest.mark.parametrize("kind", list(PLOTS))
def test_every_plot_is_valid_and_says_what_it_shows(kind, store):
    results = read_results(store)
    spec = draw(kind, results)
    validate(spec)
    assert len(words(spec)) > 40
    assert spec == draw(kind, read_results(store)), "the same store gives the same plot"
    assert json.loads(json.dumps(spec, allow_nan=False)) == spec, "NaN is no JSON"
    if kind != "ranks":
        assert any(each.get("field") == "low" for each in specs(spec)), "no intervals"


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(PLOTS))
def test_every_plot_renders_the_same_twice(kind, store):
    task = "kabr" if kind == "sweep" else "beluga"
    spec = draw(kind, read_results(store, RunFilter(tasks=(task,))))
    for suffix in SUFFIXES:
        first = render(spec, suffix)
        assert first.startswith(MAGIC[suffix]) and len(first) > 2000
        if suffix != "pdf":  # vl-convert leaves the order of a PDF's objects open
            assert first == render(spec, suffix), suffix


@pytest.mark.parametrize("kind", list(PLOTS))
def test_one_model_on_one_task_is_drawn_or_told(kind, tmp_path):
    with Store.open(tmp_path / "one.db") as store:
        ask(store, RunSpec("classical/colour", "beluga", "probe/ridge"), 120)
        try:
            validate(draw(kind, read_results(store)))
        except DataError as error:
            assert kind in ("difference", "ranks", "curve", "sweep", "pareto")
            assert str(error).endswith(".") and "\n" not in str(error)


@pytest.mark.parametrize("kind", ["forest", "ranks", "pareto"])
def test_scores_without_intervals_and_long_names(kind, tmp_path):
    with Store.open(tmp_path / "bare.db") as store:
        for place in range(4):
            name = f"timm/{'a_very_long_name_' * 6}{place}"
            run = store.begin_run(RunSpec(name, "beluga", "probe/ridge"))
            answers = Predictions(["a"], ["x"], ["x"])
            store.write_part(run, PartResult(answers, info={"n_parameters": 10**place}))
            value = math.nan if place == 3 else 0.2 * place
            store.finish_run(run, [Score("accuracy", value, n=10, is_primary=True)])
        spec = draw(kind, read_results(store))
    validate(spec)
    assert render(spec, "svg")
    labels = {each["label"] for each in specs(spec) if "label" in each and "model" in each}
    assert len(labels) == 3 and all(len(each) <= 60 for each in labels)
    assert "Not drawn, because the score is not defined" in words(spec)
    if kind != "ranks":
        assert "no intervals are known" in words(spec)


def test_a_hundred_models(tmp_path):
    with Store.open(tmp_path / "many.db") as store:
        for place in range(100):
            ask(store, RunSpec(f"timm/net{place}", "beluga", "probe/ridge"), 50 + place, n=160)
        results = read_results(store)
        for kind, n_shown in (("forest", 100), ("ranks", 100), ("difference", 40)):
            spec = draw(kind, results)
            values = {each["model"] for each in specs(spec) if "label" in each and "model" in each}
            assert len(values) == n_shown
        assert "59 are left out" in words(draw("difference", results)), "never dropped in silence"


def test_bands_are_the_tables_tiers_and_inside_one_scores_fall(tmp_path):
    with Store.open(tmp_path / "ties.db") as store:
        for name, n_right in (("zebra", 150), ("ape", 149), ("mole", 151), ("worm", 60)):
            ask(store, RunSpec(name, "beluga", "probe/ridge"), n_right)
        spec = draw("forest", read_results(store))
    order = next(each["sort"] for each in specs(spec) if "sort" in each)
    assert order == ["mole", "zebra", "ape", "worm"]
    assert [each["tied"] for each in spec["data"]["values"]] == [True, True, True, False]


def test_letters_ranks_and_differences_are_those_of_table_and_compare(tmp_path):
    with Store.open(tmp_path / "same.db") as store:
        for task in ("beluga", "kabr", "newt"):
            for place, model in enumerate(MODELS):
                ask(store, RunSpec(model, task, "probe/ridge"), 110 + 12 * place, n=170)
        table, results = read_table(store), read_results(store)
        tiers = {(row.name, row.heading): row.tier for row in table.rows}
        cells = draw("ranks", results)["data"]["values"]
        shown = {(cell["model"], cell["task"]): cell["text"] for cell in cells}
        assert tiers == {key: text for key, text in shown.items() if "rank" not in key[1]}
        for one in table.study.overall.standings:
            assert shown[one.name, "rank on these tasks"] == rank_text(one.rank)
            assert shown[one.name, "rank on tasks like these"] == rank_text(one.rank_elsewhere)
        best = max(table.rows, key=lambda row: row.score.value)
        spec = draw("difference", read_results(store, RunFilter(tasks=(best.run.spec.task,))))
        for value in spec["data"]["values"]:
            only = RunFilter(tasks=("beluga",))
            (task,) = compare_models(store, value["model"], best.name, only).tasks
            one = task.comparison
            assert [value["score"], value["low"], value["high"]] == pytest.approx(
                [100 * one.difference, 100 * one.low, 100 * one.high], rel=1e-5
            )


def test_seeds_are_one_point_of_a_curve_and_sizes_are_not_averaged(tmp_path):
    with Store.open(tmp_path / "seeds.db") as store:
        for n_train in (10, 100):
            for seed in range(4):
                spec = RunSpec("m", "beluga", "probe/ridge", n_train=n_train, seed=seed)
                ask(store, spec, 90 + n_train // 2 + 3 * seed)
        spec = draw("curve", read_results(store))
        rows = {row.run.spec.n_train: row.score for row in read_table(store).rows}
    points = {cell["x"]: cell for cell in specs(spec) if "series" in cell and "x" in cell}
    assert set(points) == {10, 100}
    for n_train, point in points.items():
        assert point["low"] == pytest.approx(100 * rows[n_train].low, rel=1e-5)
        assert point["score"] == pytest.approx(100 * rows[n_train].value, rel=1e-5)
    assert "the bars include the differences between them" in words(spec)


def test_difference_is_paired_and_has_the_best_as_nought(tmp_path):
    with Store.open(tmp_path / "pair.db") as store:
        for name, n_right in (("good", 150), ("poor", 100)):
            ask(store, RunSpec(name, "beluga", "probe/ridge"), n_right)
        (value,) = draw("difference", read_results(store))["data"]["values"]
    assert value["model"] == "poor" and value["score"] == -25.0
    assert value["low"] < -25 < value["high"] < 0
    width = value["high"] - value["low"]
    assert width < 2 * 100 * (wilson(100, 200).high - 0.5), "narrower than two scores' intervals"


def test_unknown_facts_are_said(store):
    told = words(draw("pareto", read_results(store, RunFilter(tasks=("beluga",)))))
    assert "Number of parameters unknown: chat/some/one, classical/colour, mine.py:Net" in told
    assert "Speed not recorded: chat/some/one." in words(
        draw("pareto", read_results(store, RunFilter(tasks=("beluga",)), by="speed"))
    )


def test_curves_put_probes_and_chat_models_on_one_axis(store):
    spec = draw("curve", read_results(store))
    values = [each for each in specs(spec) if "series" in each and "x" in each]
    assert {each["kind"] for each in values} == {"probe", "ask"}
    places = {each["x"] for each in values if each["series"] == "classical/colour"}
    assert places == {10, 500}, "at the number used: 1,000 were asked for, and 500 are there"


def test_a_curve_from_zero_photos_on_labels_the_zero(tmp_path):
    """Defect: points of two lines stand a little apart, so that the axis began beside its 0."""
    with Store.open(tmp_path / "curve.db") as store:
        for n_train in (0, 12):
            for model in ("m/a", "m/b"):
                ask(store, RunSpec(model, "beluga", "ask", n_train=n_train), 60 + n_train)
        svg = render(draw("curve", read_results(store)), "svg").decode()
    labels = re.findall(r">([^<>]+)</text>", svg)
    assert labels[:3] == ["0", "12", "training photos"], labels


def test_a_sweep_takes_the_setting_with_most_values_or_the_one_asked_for(store):
    spec = draw("sweep", read_results(store))
    assert spec["title"]["text"] == ["Score over alpha on kabr"]
    other = draw("sweep", read_results(store, by="n_train"))
    assert other["title"]["text"] == ["Score over n_train on beluga"]
    with pytest.raises(UnknownName, match="setting that differs .* 'alhpa' .* 'alpha'"):
        draw("sweep", read_results(store, by="alhpa"))


def test_a_sweep_draws_every_value_that_a_search_tried(tmp_path):
    """Of two fits the mean, of two settings the best over the other one."""
    tried = [
        {"rate": [1.0, 1.0, 10.0, 10.0], "decay": [0.0, 1.0, 0.0, 1.0], "score": [0.2, 0.4, 0.6, s]}
        for s in (0.8, None)
    ]
    fit = {"probe": "linear", "n_fits": 2, "chosen": {}, "notes": {}, "tried": tried}
    with Store.open(tmp_path / "searched.db") as store:
        ask(store, RunSpec("m/a", "beluga", "probe/linear"), 120, fit=fit)
        ask(store, RunSpec("m/b", "beluga", "probe/linear"), 120, fit=fit | {"tried": tried[:1]})
        spec = draw("sweep", read_results(store, by="rate"))
        validate(spec)
        assert spec["title"]["text"] == ["Search over rate on beluga"]
        values = [each for each in specs(spec) if "series" in each and "low" in each]
        drawn = {(each["series"], each["x"]): each["score"] for each in values}
        assert drawn["m/a", 1.0] == 40 and drawn["m/b", 10.0] == 80
        assert drawn["m/a", 10.0] == pytest.approx(70)
        with pytest.raises(UnknownName):
            draw("sweep", read_results(store, by="alpha"))


def test_confusion_counts_pairs(tmp_path):
    with Store.open(tmp_path / "pairs.db") as store:
        ask(store, RunSpec("m", "beluga", "probe/ridge"), 120)
        values = draw("confusion", read_results(store))["data"]["values"]
    assert [each["pair"] for each in values] == [
        "fox → hare", "hare → lynx", "lynx → otter", "otter → fox"
    ]  # fmt: skip
    assert {each["text"] for each in values} == {"20 of 50"}
    assert all(each["low"] < each["wrong"] < each["high"] for each in values)


def test_a_notebook_gets_an_altair_chart(store):
    found = chart("ranks", read_results(store))
    assert isinstance(found, altair.TopLevelMixin)


def test_pareto_front_is_what_nobody_beats():
    draw_one = random.Random(3)
    for _ in range(200):
        points = [(draw_one.randint(0, 6), draw_one.randint(0, 6)) for _ in range(8)]
        front = [points[index] for index in front_of(points)]
        for cost, loss in points:
            beaten = any(c <= cost and x <= loss and (c, x) != (cost, loss) for c, x in points)
            assert ((cost, loss) in front) != beaten
        assert len(set(front)) == len(front)


def test_names_never_lie_on_one_another():
    draw_one = random.Random(5)
    points = [(draw_one.uniform(0, 300), draw_one.uniform(0, 200)) for _ in range(40)]
    texts = [f"model number {i}" for i in range(40)]
    places = place_labels(texts, points, (300, 200))
    boxes = []
    for text, (x, y), place in zip(texts, points, places, strict=True):
        if place is not None:
            width = 4.6 * len(text)
            left = x + place.dx - {"left": 0, "right": width, "center": width / 2}[place.align]
            boxes.append((left, y + place.dy, width))
    assert len(boxes) > 10
    for (a, y, w), (b, z, v) in itertools.combinations(boxes, 2):
        assert a + w <= b + 1e-6 or b + v <= a + 1e-6 or abs(y - z) >= 11 - 1e-6


def test_short_names_stay_apart():
    names = [f"timm/{'x' * 50}{i}{'y' * 30}" for i in range(12)]
    short = short_names(names)
    assert len(set(short.values())) == 12


def test_plot_command(store, tmp_path, capsys):
    place = ["--results", str(tmp_path)]
    assert main(["plot"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == list(PLOTS)
    out = tmp_path / "new" / "forest.svg"
    assert main(["plot", "forest", "--task", "beluga", "--out", str(out), *place]) == 0
    assert out.read_bytes().startswith(b"<svg")
    told = capsys.readouterr()
    assert told.out == "" and "Scores of 5 models in 13 setups on beluga" in told.err
    assert main(["plot", "pareto", "--by", "speed", "--json", *place]) == 0
    validate(json.loads(capsys.readouterr().out))
