"""Does a comparison name the better model, and stay silent where the items cannot?"""

from __future__ import annotations

import json

import numpy as np
import pytest

from fieldmark.errors import DataError, UnknownName, UsageError
from fieldmark.report import compare_models, comparison_text, plain_comparison
from fieldmark.store import PartResult, Predictions, RunSpec, Score, Store
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
    (found,) = compare_models(empty, "good", "poor")
    assert found.verdict == "a"
    assert found.comparison.difference == pytest.approx(0.15)
    assert (found.where.only_a, found.where.only_b, found.where.both) == (60, 0, 260)
    text = comparison_text([found])
    assert "Use a/good: it is better than a/poor here" in text
    assert "+15.0" in text and "only A right 60, only B right 0" in text


def test_models_that_err_alike_cannot_be_told_apart(empty, filled):
    filled(empty, RunSpec("a/one", "foxes", "probe/x"), {"": right(400, 300)})
    filled(empty, RunSpec("a/two", "foxes", "probe/x"), {"": right(400, 300, 3)})
    (found,) = compare_models(empty, "one", "two")
    assert found.verdict == "tie"
    text = comparison_text([found])
    assert "These items cannot tell a/one from a/two." in text
    assert "smallest difference visible" in text


def test_p_values_are_corrected_over_all_questions(empty, filled):
    for task in range(20):
        filled(empty, RunSpec("a/one", f"t{task}", "probe/x"), {"": right(100, 60)})
        n_right = 53 if task == 0 else 60
        filled(empty, RunSpec("a/two", f"t{task}", "probe/x"), {"": right(100, n_right)})
    found = compare_models(empty, "one", "two")
    assert len(found) == 20
    assert found[0].comparison.p < 0.05 < found[0].p_corrected
    assert {each.verdict for each in found} == {"tie"}
    (alone,) = compare_models(empty, "one", "two", tasks=["t0"])
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
    (found,) = compare_models(empty, "good", "poor")
    assert found.comparison.difference < 0 < found.comparison.lead
    assert found.verdict == "a"


def test_only_items_that_both_answered_count(empty, filled):
    filled(empty, RunSpec("a/one", "t", "probe/x"), {"": right(100, 60)}, n_lost=10)
    filled(empty, RunSpec("a/two", "t", "probe/x"), {"": right(100, 60)})
    (found,) = compare_models(empty, "one", "two")
    assert (found.comparison.n, found.n_unanswered) == (90, 10)
    assert "10 items that one of the two did not answer are left out" in comparison_text([found])


def test_another_way_of_asking_is_not_compared(empty, filled):
    filled(empty, RunSpec("a/one", "t", "probe/x", n_train=10), {"": right(100, 60)})
    filled(empty, RunSpec("a/two", "t", "probe/x", n_train=20), {"": right(100, 60)})
    with pytest.raises(DataError, match="no finished run of the same task, asked the same way"):
        compare_models(empty, "one", "two")


@pytest.mark.parametrize(
    ("names", "error", "text"),
    [
        (("bioclip", "bioclip"), UsageError, "both name"),
        (("classical", "bioclip"), UsageError, "fits 2 models"),
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
    (question,) = compare_models(empty, "a/mine#v1", "a/mine#v2")
    assert question.verdict == "a" and question.a.run.spec.model_version == "v1"
    with pytest.raises(UsageError, match=r"both name 'a/mine#v2': name two of its versions"):
        compare_models(empty, "a/mine", "a/mine#v2")


def test_a_short_name_with_a_slip_is_told(empty, filled):
    filled(empty, RunSpec("family/texture?size=3", "foxes", "probe/x"), {"": right(40, 30)})
    with pytest.raises(UnknownName, match="Did you mean 'texture'"):
        compare_models(empty, "textur3", "texture")


def test_an_empty_store_is_told(empty):
    with pytest.raises(DataError, match="holds no finished runs"):
        compare_models(empty, "a", "b")


def test_several_tasks_end_in_one_sentence(store):
    text = comparison_text(compare_models(store, "bioclip", "chance"), 100)
    assert "open-clip/hf-hub:imageomics/bioclip-2 is better on" in " ".join(text.split())


def test_many_tasks_are_told_in_a_line_each(empty, filled):
    for task in range(9):
        for model, n_right in (("a/one", 60), ("a/two", 50)):
            filled(empty, RunSpec(model, f"t{task}", "probe/x"), {"": right(100, n_right)})
    text = comparison_text(compare_models(empty, "one", "two"))
    assert "only A right" not in text
    assert "fieldmark compare A B --task NAME shows where they disagree" in " ".join(text.split())


def test_programs_get_json(store):
    found = [plain_comparison(each) for each in compare_models(store, "bioclip", "vit")]
    plain = json.loads(json.dumps(found, allow_nan=False))
    assert plain[0]["difference"] == found[0]["difference"] == pytest.approx(0.09)
    assert {"difference", "low", "high", "p", "p_corrected", "verdict"} <= set(plain[0])
