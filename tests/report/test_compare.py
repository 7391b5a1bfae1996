"""Does a comparison name the better model, and stay silent where the items cannot?"""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest

from fieldmark.errors import DataError, UnknownName, UsageError
from fieldmark.report import (
    compare_models,
    comparison_text,
    plain_comparison,
    read_table,
    wide_table,
)
from fieldmark.store import PartResult, Predictions, RunFilter, RunSpec, Score, Store
from kit.registries import forget


@pytest.fixture
def empty(tmp_path):
    with Store.open(tmp_path / "results.db") as opened:
        yield opened


def right(n: int, n_right: int, shift: int = 0) -> np.ndarray:
    return np.roll(np.arange(n) < n_right, shift)


def test_a_planted_better_model_is_called_better(empty, filled):
    filled(empty, RunSpec("a/good", "foxes", "probe/x"), {"": right(400, 320)})
    filled(empty, RunSpec("a/poor", "foxes", "probe/x"), {"": right(400, 260)})
    compared = compare_models(empty, "good", "poor")
    (found,) = compared.tasks
    assert found.verdict == compared.overall.verdict == "a"
    assert found.comparison.difference == pytest.approx(0.15)
    assert (found.where.only_a, found.where.only_b, found.where.both) == (60, 0, 260)
    text = comparison_text(compared, 200)
    assert text.startswith(
        "Comparing A = a/good with B = a/poor.\n\n"
        "a/good scores 15.0 points higher than a/poor on foxes (95 % interval +"
    )
    assert "p < 0.001" in text and "only A is right on 60, only B on 0" in text


def test_models_that_err_alike_cannot_be_told_apart(empty, filled):
    filled(empty, RunSpec("a/one", "foxes", "probe/x"), {"": right(400, 300)})
    filled(empty, RunSpec("a/two", "foxes", "probe/x"), {"": right(400, 300, 3)})
    compared = compare_models(empty, "one", "two")
    assert compared.tasks[0].verdict == compared.overall.verdict == "tie"
    text = comparison_text(compared, 200)
    assert "Too close to call on foxes: a/one and a/two score the same (95 % interval " in text
    assert "differences below about" in text


def test_p_values_are_corrected_over_all_questions(empty, filled):
    for task in range(20):
        filled(empty, RunSpec("a/one", f"t{task}", "probe/x"), {"": right(100, 60)})
        n_right = 53 if task == 0 else 60
        filled(empty, RunSpec("a/two", f"t{task}", "probe/x"), {"": right(100, n_right)})
    found = compare_models(empty, "one", "two").tasks
    assert len(found) == 20
    assert found[0].comparison.p < 0.05 < found[0].p_corrected
    assert {each.verdict for each in found} == {"tie"}
    (alone,) = compare_models(empty, "one", "two", RunFilter(tasks=("t0",))).tasks
    assert alone.verdict == "a"


def test_less_is_better_where_the_metric_says_so(empty, request):
    def error_rate(target, prediction, weight=None):
        return float(np.average(target != prediction, weights=weight))

    from fieldmark.metrics import metric, register_metric

    described = metric("error", direction="down", kind="mean", bounds=(0.0, 1.0))(error_rate)
    register_metric("error_rate_for_compare", described)
    request.addfinalizer(lambda: forget("metric", "error_rate_for_compare"))
    for model, n_right in (("a/good", 90), ("a/poor", 60)):
        run = empty.begin_run(RunSpec(model, "t", "probe/x"))
        answers = ["x" if each else "y" for each in right(100, n_right)]
        ids = [f"{number:03d}" for number in range(100)]
        empty.write_part(run, PartResult(Predictions(ids, ["x"] * 100, answers)))
        value = 1 - n_right / 100
        score = Score("error_rate_for_compare", value, is_primary=True, higher_is_better=False)
        empty.finish_run(run, [score])
    compared = compare_models(empty, "good", "poor")
    (found,) = compared.tasks
    assert found.comparison.difference < 0 < found.comparison.lead
    assert found.verdict == "a"
    assert "a/good scores 30.0 points lower, which is better, than a/poor" in comparison_text(
        compared, 200
    )


def test_only_items_that_both_were_asked_count(empty, filled):
    filled(empty, RunSpec("a/one", "t", "probe/x"), {"": right(90, 60)})
    filled(empty, RunSpec("a/two", "t", "probe/x"), {"": right(100, 60)})
    compared = compare_models(empty, "one", "two")
    (found,) = compared.tasks
    assert (found.comparison.n, found.n_left_out) == (90, 10)
    text = comparison_text(compared, 500)
    assert "10 photos that only one of the two answered are left out" in text


def test_no_answer_is_a_wrong_one(empty, filled):
    filled(empty, RunSpec("a/one", "t", "probe/x"), {"": right(100, 60)}, n_lost=10)
    filled(empty, RunSpec("a/two", "t", "probe/x"), {"": right(100, 60)})
    (found,) = compare_models(empty, "one", "two").tasks
    assert (found.comparison.n, found.n_left_out) == (100, 0)
    assert found.comparison.difference == pytest.approx(-0.1)
    assert found.comparison.p == pytest.approx(binomtest(0, 10).pvalue)
    assert found.where.only_b == 10


def test_two_ways_of_asking_one_model_are_compared_like_models(empty, filled):
    spec = RunSpec("a/one", "t", "probe/ridge")
    filled(empty, spec, {"": right(100, 60)})
    filled(empty, replace(spec, protocol="probe/knn"), {"": right(100, 80)})
    names = sorted({row.name for row in read_table(empty, compare=False).rows})
    assert len(names) == 2 and all(name.startswith("a/one (") for name in names)
    compared = compare_models(empty, *names)
    assert (compared.a, compared.b) == tuple(names)
    assert compared.overall.verdict in "ab"
    filled(empty, replace(spec, model="a/two"), {"": right(100, 60, 1)})
    shared = compare_models(empty, "one", "two")
    assert [task.a.setup for task in shared.tasks] == [task.b.setup for task in shared.tasks]
    assert "a/one has 2 setups here" in shared.setups[0]


def test_a_probe_and_a_language_model_are_compared_at_one_training_size(empty, filled) -> None:
    """Their setups have no word in common; the size they share decides, the verdict's first."""
    for n_train, n_right in ((0, 50), (1, 55), (3, 60), (10, 70)):
        asked = RunSpec("c/big-vl", "t", "ask", n_train=n_train)
        filled(empty, asked, {"": right(100, n_right)})
        if n_train:
            filled(
                empty, replace(asked, model="m/colour", protocol="probe/x"), {"": right(100, 40)}
            )
    compared = compare_models(empty, "big-vl", "colour")
    assert (compared.a, compared.b) == (
        "c/big-vl (ask, n_train=10)",
        "m/colour (probe, n_train=10)",
    )
    assert compared.overall is not None and compared.overall.verdict == "a"
    (setups,) = compared.setups
    assert setups.startswith("c/big-vl has 4 and m/colour has 3 setups here: to compare another,")
    at_three = compare_models(empty, "c/big-vl (ask, n_train=3)", "m/colour (probe, n_train=3)")
    assert at_three.overall is not None, "a size that the table does not compare"


def test_tasks_together_show_what_none_shows_alone(empty, filled):
    """Three points on each of 20 tasks: no task sees it, all of them do."""
    for task in range(20):
        random = np.random.default_rng(task)
        base = random.random(300)
        for model, skill in (("a/one", 0.83), ("a/two", 0.80)):
            own = np.where(random.random(300) < 0.3, random.random(300), base)
            filled(empty, RunSpec(model, f"t{task}", "probe/x"), {"": own < skill})
    compared = compare_models(empty, "one", "two")
    assert compared.overall.verdict == "a"
    assert len(compared.overall.columns) == compared.overall.n_photo_sets == 20
    difference = np.mean([task.comparison.difference for task in compared.tasks])
    assert compared.overall.comparison.difference == pytest.approx(difference)
    text = comparison_text(compared).partition("\n\n")[2]
    assert text.startswith("a/one scores 3.9 points higher than a/two over 20 tasks ")


def test_repeats_are_no_photos(empty):
    """Ten trainings on the same 40 photos: counts are of photos."""
    for model, n_right in (("a/one", 30), ("a/two", 20)):
        run = empty.begin_run(RunSpec(model, "t", "probe/x", n_train=8, repeats=10))
        for repeat in range(10):
            answers = ["x" if ok else "y" for ok in right(40, n_right, repeat % 2)]
            ids = [f"{number:03d}" for number in range(40)]
            given = Predictions(ids, ["x"] * 40, answers)
            empty.write_part(run, PartResult(given, repeat=repeat))
        empty.finish_run(run, [Score("accuracy", n_right / 40, n=40, is_primary=True)])
    compared = compare_models(empty, "one", "two")
    (task,) = compared.tasks
    where = task.where
    assert (task.comparison.n, task.comparison.n_repeats) == (40, 10)
    assert where.only_a + where.only_b + where.both + where.neither == 40
    assert all(size <= 40 for _, _, size in (*where.a_gains, *where.b_gains))
    assert "A right more often" in comparison_text(compared, 200)
    assert "one training" not in comparison_text(compared, 200)


def test_one_training_says_what_it_does_not_hold(empty, filled):
    for model in ("a/one", "a/two"):
        filled(empty, RunSpec(model, "t", "probe/x", n_train=8), {"": right(100, 60)})
    text = comparison_text(compare_models(empty, "one", "two"), 500)
    assert "leave out differences between training samples" in " ".join(text.split())


def test_one_training_against_several_names_the_model_that_was_trained_once(empty, filled):
    for seed in range(3):
        spec = RunSpec("a/one", "t", "probe/x", n_train=8, seed=seed)
        filled(empty, spec, {"": right(100, 60, seed)})
    filled(empty, RunSpec("a/two", "t", "probe/x", n_train=8), {"": right(100, 50)})
    compared = compare_models(empty, "one", "two")
    assert compared.tasks[0].comparison.n_repeats == 3
    text = " ".join(comparison_text(compared, 500).split())
    assert "a/two was trained once: its score is assumed to vary" in text
    assert "leave out differences" not in text


def test_a_task_of_another_unit_is_not_in_the_mean(empty, filled):
    for model, n_right in (("a/one", 60), ("a/two", 40)):
        for task in ("s", "t"):
            filled(empty, RunSpec(model, task, "probe/x"), {"": right(100, n_right)})
        run = empty.begin_run(RunSpec(model, "u", "probe/x"))
        answers = ["x" if ok else "y" for ok in right(100, n_right)]
        given = Predictions([f"{number:03d}" for number in range(100)], ["x"] * 100, answers)
        empty.write_part(run, PartResult(given))
        score = Score("accuracy", 7.0, n=100, is_primary=True, is_fraction=False)
        empty.finish_run(run, [score])
    compared = compare_models(empty, "one", "two")
    assert len(compared.tasks) == 3 and len(compared.overall.columns) == 2
    assert "It leaves out u." in comparison_text(compared, 500)


@pytest.mark.parametrize(
    ("names", "error", "text"),
    [
        (("bioclip", "bioclip"), UsageError, "both mean"),
        (("classical", "bioclip"), UsageError, "matches 2 models; type more"),
        (("bioclop-2", "chance"), UnknownName, "bioclop-2"),
    ],
)
def test_names_that_do_not_fit_one_model_are_told(store, names, error, text):
    with pytest.raises(error, match=text):
        compare_models(store, *names)


def test_two_versions_of_a_model_are_two_models(empty, filled):
    for version, n_right in (("v1", 320), ("v2", 260)):
        spec = RunSpec("a/mine", "foxes", "probe/x", model_version=version)
        filled(empty, spec, {"": right(400, n_right)})
    (question,) = compare_models(empty, "a/mine#v1", "a/mine#v2").tasks
    assert question.verdict == "a" and question.a.run.spec.model_version == "v1"
    with pytest.raises(UsageError, match=r"both mean 'a/mine#v2': name two of its versions"):
        compare_models(empty, "a/mine", "a/mine#v2")


def test_a_short_name_with_a_slip_is_told(empty, filled):
    filled(empty, RunSpec("family/texture?size=3", "foxes", "probe/x"), {"": right(40, 30)})
    with pytest.raises(UnknownName, match="Did you mean 'texture'"):
        compare_models(empty, "textur3", "texture")


def test_an_empty_store_is_told(empty):
    with pytest.raises(DataError, match="contains no finished runs"):
        compare_models(empty, "a", "b")


def test_several_tasks_end_in_one_sentence(store):
    text = comparison_text(compare_models(store, "bioclip", "chance"), 90)
    words = " ".join(text.split())
    words = words.partition(". ")[2]
    assert words.startswith("open-clip/hf-hub:imageomics/bioclip-2 scores 47.2 points higher than")
    assert "classical/chance over 2 tasks (95 % interval" in words
    assert "Task by task: open-clip/hf-hub:imageomics/bioclip-2 is better on 2" in words


def test_many_tasks_are_told_in_a_line_each(empty, filled):
    for task in range(9):
        for model, n_right in (("a/one", 60), ("a/two", 50)):
            filled(empty, RunSpec(model, f"t{task}", "probe/x"), {"": right(100, n_right)})
    text = comparison_text(compare_models(empty, "one", "two"))
    assert "only A right" not in text
    assert "fieldmark compare A B --task NAME shows where they disagree" in " ".join(text.split())


def test_programs_get_json(store):
    found = plain_comparison(compare_models(store, "bioclip", "vit"))
    plain = json.loads(json.dumps(found, allow_nan=False))
    assert plain["tasks"][0]["difference"] == pytest.approx(0.09)
    assert {"difference", "low", "high", "p", "p_corrected", "verdict"} <= set(plain["tasks"][0])
    assert {"difference", "low", "high", "p", "verdict", "n_photo_sets"} <= set(plain["overall"])


def test_a_setup_keeps_its_name_where_only_one_is_shown(empty, filled):
    """Defect: `compare` proposed "a/one (zero_shot)", and did not know it with --task."""
    filled(empty, RunSpec("a/one", "foxes", "zero_shot"), {"": right(100, 60)})
    filled(empty, RunSpec("a/one", "owls", "probe/x"), {"": right(100, 60)})
    filled(empty, RunSpec("a/one", "owls", "zero_shot"), {"": right(100, 50)})
    for task in ("foxes", "owls"):
        filled(empty, RunSpec("a/two", task, "probe/x"), {"": right(100, 40)})
    foxes = RunFilter(tasks=("foxes",))
    compared = compare_models(empty, "one (zero_shot)", "a/two (probe)", foxes)
    assert [task.verdict for task in compared.tasks] == ["a"]
    with pytest.raises(UnknownName, match="one .ask."):
        compare_models(empty, "one (ask)", "a/two", foxes)


def test_files_of_one_name_in_two_folders_are_two_models(empty, filled):
    """Checkpoints are often called alike; a letter's case decides nothing."""
    names = [f"timm/Net?weights=/runs/{folder}/ckpt.pth" for folder in ("north", "south")]
    for number, name in enumerate(names):
        version = f"timm/Net?weights=ckpt.pth#{number}f85f0"
        spec = RunSpec(name, "t", "probe", model_version=version)
        filled(empty, spec, {"": right(60, 50 - 30 * number)})
    table = read_table(empty)
    shown = [f"timm/Net?weights={folder}/ckpt.pth" for folder in ("north", "south")]
    assert [row.model for row in table.rows] == shown
    assert "versions" not in wide_table(table)
    for name in shown:
        (row,) = read_table(empty, RunFilter(models=(name,))).rows
        assert row.run.spec.model.endswith(name.partition("=")[2])
    compared = compare_models(empty, "NORTH", "south/ckpt")
    assert [compared.a, compared.b] == shown
    with pytest.raises(UsageError, match="'net' matches 2 models; type more of the name: timm/"):
        compare_models(empty, "net", "south")


def test_the_end_of_a_name_is_not_the_beginning_of_another(empty, filled):
    """`runs/a/model` beside `runs/a/model-two`, as training writes them."""
    for number, name in enumerate(("model", "model-two", "model-three")):
        spec = RunSpec(f"open-clip/local-dir:runs/a/{name}", "t", "probe")
        filled(empty, spec, {"": right(60, 50 - 10 * number)})
    compared = compare_models(empty, "runs/a/model", "model-two")
    assert (compared.a, compared.b) == tuple(
        f"open-clip/local-dir:runs/a/{name}" for name in ("model", "model-two")
    )
