"""One study gives all verdicts: may be the best, overall and by task; chance; photo sets; ranks."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace

import numpy as np
import pytest

from fieldmark.errors import DataError
from fieldmark.report import (
    compare_models,
    comparison_text,
    plain_rows,
    plain_standings,
    read_table,
    verdict,
    wide_table,
)
from fieldmark.report.plots import draw, read_results
from fieldmark.report.site import build_summary, task_predictions
from fieldmark.report.site.predictions import asked_alike, others_note
from fieldmark.report.site.summary import plain_answer
from fieldmark.report.table.ranking import above_chance, agreement, grid_of
from fieldmark.report.table.verdict import named
from fieldmark.report.tiers import averaged
from fieldmark.store import PartResult, Predictions, RunFilter, RunSpec, Score, Store

LABELS = np.array(["fox", "hare"])


@pytest.fixture
def empty(tmp_path):
    with Store.open(tmp_path / "study.db") as opened:
        yield opened


def write(
    store: Store,
    spec: RunSpec,
    right: np.ndarray,
    *,
    photos: str = "",
    seed: int = 1,
    root: str = "",
) -> None:
    """A run on two labels; `photos`: whose items they are, the task's own by default."""
    n = len(right)
    truth = np.random.default_rng(seed).integers(0, 2, n)
    answer = np.where(right, truth, 1 - truth)
    ids = [f"{photos or spec.task}/{number:05d}" for number in range(n)]
    run = store.begin_run(replace(spec, settings={"parts": [""], **spec.settings}), root=root)
    store.write_part(run, PartResult(Predictions(ids, LABELS[truth], LABELS[answer])))
    store.finish_run(run, [Score("accuracy", float(right.mean()), n=n, is_primary=True)])


def right(n: int, share: float, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random(n) < share


def asked(model: str, task: str) -> RunSpec:
    return RunSpec(model, task, "probe/x")


def fill(store: Store, skills: dict[str, float], n_tasks: int, n: int = 300, **more) -> None:
    for number, (model, skill) in enumerate(skills.items()):
        for task in range(n_tasks):
            write(store, asked(model, f"t{task}"), right(n, skill, 100 * number + task), **more)


def test_together_the_tasks_see_what_none_of_them_does(empty) -> None:
    fill(empty, {"m/good": 0.74, "m/poor": 0.68}, n_tasks=12)
    table = read_table(empty)
    tied = {row.column_key for row in table.rows if row.model == "m/poor" and row.is_tied}
    assert len(tied) > 6, "single tasks cannot tell them apart"
    assert table.study.overall.best == ("m/good",)
    assert verdict(table) == "Best overall (12 tasks): m/good. Clearly worse: m/poor."


def test_equal_rows_are_listed_by_their_mean(empty) -> None:
    fill(empty, {"m/z": 0.7, "m/a": 0.7, "m/low": 0.5}, n_tasks=3)
    table = read_table(empty)
    first, second, last = table.study.overall.standings
    assert first.mean >= second.mean > last.mean and last.name == "m/low"
    close = f"{first.name} scored highest, but {second.name} could be as good."
    assert verdict(table) == f"Too close to call overall (3 tasks): {close}"
    assert first.low < first.mean < first.high
    assert first.rank == second.rank == (1, 2) and last.rank == (3, 3)


def test_the_same_photos_are_one_set_and_no_news(empty) -> None:
    """Twelve questions about the same photos, all answered alike, are one."""
    answers = {"m/good": right(300, 0.74, 1), "m/poor": right(300, 0.70, 2)}
    for model, mine in answers.items():
        for task in range(12):
            write(empty, asked(model, f"t{task}"), mine, photos="all", root="/data/all")
    overall = read_table(empty).study.overall
    assert overall.n_photo_sets == 1 and set(overall.best) == {"m/good", "m/poor"}
    assert "(12 tasks, 1 photo set)" in verdict(read_table(empty))
    alone = read_table(empty).study.columns["t0", "accuracy"]
    assert alone.letters == {"m/good": "A", "m/poor": "A"}
    assert all(one.rank_elsewhere is None for one in overall.standings)


def test_photos_of_unknown_folders_are_sets_of_their_own(empty) -> None:
    for task in ("s", "t"):
        for number, model in enumerate(("m/a", "m/b")):
            write(empty, asked(model, task), right(100, 0.6, number), photos="all")
    assert read_table(empty).study.overall.n_photo_sets == 2


def test_a_task_that_cannot_tell_guessing_from_the_best_says_so(empty) -> None:
    for task, skill in (("hard", 0.5), ("easy", 0.9)):
        for number, model in enumerate(("m/a", "m/b")):
            write(empty, asked(model, task), right(200, skill, number))
    table = read_table(empty)
    columns = table.study.columns
    assert columns["hard", "accuracy"].is_told_from_blind is False
    assert columns["easy", "accuracy"].is_told_from_blind is True
    assert 0.5 <= columns["easy", "accuracy"].blind < 0.6
    (note,) = (note for note in table.notes if note.startswith("On hard, "))
    assert "not clearly better than always giving the most common label. We tested this" in note
    told = {row["task"]: row["is_best_told_from_majority"] for row in plain_rows(table)}
    assert told == {"hard": False, "easy": True}


def test_what_guessing_scores_is_told_of_many_tasks_in_one_line(empty) -> None:
    for task in ("t0", "t1", "t2", "t3"):
        for number, model in enumerate(("m/a", "m/b")):
            write(empty, asked(model, task), right(200, 0.9, number))
    table = read_table(empty)
    blind = {row["task"]: 100 * row["majority"] for row in plain_rows(table)}
    shown = ", ".join(f"{task} {value:.1f}" for task, value in sorted(blind.items()))
    text = " ".join(wide_table(table).split())
    assert f"always giving the most common label scores: {shown}." in text


def test_the_very_same_answers_are_called_so(empty) -> None:
    for model in ("m/a", "m/copy"):
        write(empty, asked(model, "t"), right(200, 0.7, 1))
    said = " ".join(comparison_text(compare_models(empty, "m/a", "m/copy")).split())
    assert "m/a and m/copy score the same" in said and "the very same photos" in said
    assert "cannot be detected" not in said


def test_nobody_is_the_one_other() -> None:
    assert named([*"abcd"]) == "a, b, c and d" and named([*"abcde"]) == "a, b, c and 2 others"


def test_a_task_at_chance_has_no_vote(empty) -> None:
    """Rows with gaps: the verdict goes task by task."""
    write(empty, asked("m/a", "hard"), right(200, 0.5, 1))
    write(empty, asked("m/b", "hard"), right(200, 0.5, 2))
    write(empty, asked("m/a", "easy"), right(200, 0.9, 1))
    write(empty, asked("m/c", "easy"), right(200, 0.6, 2))
    assert verdict(read_table(empty)) == "Could be the best: m/a on 1 of 1 tasks."


def test_the_mean_above_chance(empty) -> None:
    fill(empty, {"m/all": 1.1, "m/half": 0.5}, n_tasks=2)
    table = read_table(empty)
    above, places = above_chance(table)
    assert places == averaged(table.rows) == [("t0", "accuracy"), ("t1", "accuracy")]
    assert above["m/all"] == 1.0 and -0.2 < above["m/half"] < 0.05
    assert "chance ↑" in wide_table(table)
    assert "above chance: 0 = always the most common label" in " ".join(wide_table(table).split())
    plain = plain_standings(table)["m/all"]
    assert plain["mean_above_chance"] == 1.0 and plain["may_be_best_overall"] is True


def test_a_row_that_was_asked_too_little_takes_no_items_from_the_others(empty) -> None:
    for model in ("m/a", "m/b"):
        write(empty, asked(model, "t"), right(200, 0.8, ord(model[-1])))
    few = empty.begin_run(replace(asked("m/few", "t"), settings={"parts": [""]}))
    ids = [f"t/{number:05d}" for number in range(200)]
    truth = LABELS[np.random.default_rng(1).integers(0, 2, 200)]
    empty.write_part(few, PartResult(Predictions(ids[50:], truth[50:], truth[50:])))
    empty.finish_run(few, [Score("accuracy", 1.0, n=150, is_primary=True)])
    table = read_table(empty)
    column = table.study.columns["t", "accuracy"]
    assert column.n == 200 and set(column.letters) == {"m/a", "m/b"}
    assert column.asked == {"m/few": 0.75}
    assert "t: not compared, as they answered too few photos: m/few (75 %)." in table.notes


def test_a_task_that_few_rows_have_does_not_undo_the_mean(empty) -> None:
    fill(empty, {"m/a": 0.9, "m/b": 0.6}, n_tasks=2)
    write(empty, asked("m/c", "rare"), right(100, 0.5, 1))
    table = read_table(empty)
    assert len(table.study.overall.columns) == 2
    assert "Not in the mean, as most models lack it: rare (accuracy)." in wide_table(table)
    assert verdict(table).endswith(
        "Clearly worse: m/b. m/c is left out: it lacks some of these tasks."
    )


def test_ranks_on_other_tasks_need_three_photo_sets(empty) -> None:
    fill(empty, {"m/a": 0.9, "m/b": 0.6}, n_tasks=2)
    assert all(one.rank_elsewhere is None for one in read_table(empty).study.overall.standings)
    assert "similar tasks" not in wide_table(read_table(empty))
    fill(empty, {"m/a": 0.9, "m/b": 0.6}, n_tasks=4)
    overall = read_table(empty).study.overall
    assert [one.rank_elsewhere for one in overall.standings] == [(1, 1), (2, 2)]
    words = " ".join(wide_table(read_table(empty)).split())
    assert "rank expected on similar tasks" in words


def test_agreement_of_tasks_needs_eight_models(empty) -> None:
    skills = {f"m/{number}": 0.5 + 0.05 * number for number in range(8)}
    fill(empty, dict(list(skills.items())[:7]), n_tasks=3)
    assert agreement(grid_of(read_table(empty, compare=False))) == ""
    fill(empty, skills, n_tasks=3)
    assert "+0." in agreement(grid_of(read_table(empty, compare=False)))


# --- one question, one verdict ---


def choose(store: Store, model: str, n: int, share: float) -> None:
    """A language model that was offered `n` of six labels."""
    animals = ["fox", "hare", "lynx", "mole", "newt", "owl"]
    rng = np.random.default_rng(n)
    truth = [animals[number] for number in rng.integers(0, 6, 200)]
    shown = [[t, *rng.permutation([a for a in animals if a != t])[: n - 1]] for t in truth]
    said = [
        t if hit else o[1] for t, o, hit in zip(truth, shown, right(200, share, 7), strict=True)
    ]
    settings = {"parts": [""], "ask": {"choices": n % 6}}
    run = store.begin_run(RunSpec(model, "t", "ask", settings, n_train=0))
    infos = [json.dumps({"options": options}) for options in shown]
    ids = [f"t/{number:05d}" for number in range(200)]
    given = Predictions(ids, truth, said, infos=infos)
    store.write_part(run, PartResult(given, info={"n_requests": 200}))
    store.finish_run(run, [Score("accuracy", share, n=200, is_primary=True)])


def test_models_that_chose_among_other_options_share_no_tier_and_no_verdict(empty) -> None:
    for model, n, share in (("c/a", 3, 0.95), ("c/b", 3, 0.5), ("c/c", 6, 0.8), ("c/d", 6, 0.3)):
        choose(empty, model, n, share)
    choose(empty, "c/e", 6, 0.2)
    table = read_table(empty)
    assert {row.model: (row.column, row.tier) for row in table.rows} == {
        "c/a": ("t\noptions=3", "A"),
        "c/b": ("t\noptions=3", "B"),
        "c/c": ("t", "A"),
        "c/d": ("t", "B"),
        "c/e": ("t", "C"),
    }
    sentences = ("c/c. Clearly worse: c/d and c/e.", "c/a. Clearly worse: c/b.")
    both = f"Best on t: {sentences[0]}\nBest on t options=3: {sentences[1]}"
    assert verdict(table) == both == build_summary(empty)["verdict"]
    assert [column["verdict"] for column in build_summary(empty)["columns"]] == [
        f"Best: {sentence}" for sentence in sentences
    ]
    assert [row["column"] for row in plain_rows(table)] == [row.column for row in table.rows]
    with pytest.raises(
        DataError, match="on t: the first chose among 3 options, the second among 6 options. `--ask"
    ):
        compare_models(empty, "c/a", "c/c")
    best = [part["title"]["text"] for part in panels_of(draw("difference", read_results(empty)))]
    assert sorted(best) == ["t", "t (options=3)"]


def test_a_model_that_chose_among_other_options_lacks_no_task(empty) -> None:
    """The verdict over several tasks names it, and says what makes it comparable."""
    for model, n, share in (("c/a", 3, 0.95), ("c/c", 6, 0.8), ("c/d", 6, 0.3), ("c/e", 6, 0.2)):
        choose(empty, model, n, share)
        spec = replace(asked(model, "u"), protocol="ask", n_train=0)
        write(empty, spec, right(200, share, ord(model[-1])))
    said = verdict(read_table(empty))
    assert said == (
        "Best overall (2 tasks): c/c. Clearly worse: c/d and c/e. c/a is not compared with "
        "these: it chose among 3 options on t, the others among 6 options. "
        "`--ask choices=0` offers all classes."
    )
    assert build_summary(empty)["verdict"] == said


def test_a_table_that_changed_is_older_whatever_the_size_of_a_run(empty) -> None:
    """Two sizes on one table stay in one column; the run on the table of before leaves it."""
    spec, old = replace(asked("m/a", "t"), n_test=40), replace(asked("m/a", "t"), n_test=12)
    write(empty, replace(old, data="aaaa-1"), right(12, 0.5, 1), photos="old", root="/d")
    for model in ("m/b", "m/c"):
        write(empty, replace(spec, model=model, data="bbbb-2"), right(40, 0.5, 2), root="/d")
    write(empty, replace(old, model="m/few", data="bbbb-4"), right(12, 0.5, 2), root="/d")
    columns = {row.model: row.column for row in read_table(empty).rows}
    assert columns.pop("m/a") == "t\ndata=d (older)"
    assert set(columns.values()) == {"t\ndata=d"}


def test_a_part_of_a_task_is_called_so_everywhere(empty) -> None:
    """`--task newt/health`: its record says which parts were asked, and that they are not all."""
    for model, parts, words in (("m/a", ["x", "y"], "health"), ("m/b", ["x", "y", "z"], "")):
        spec = replace(asked(model, "newt"), settings={"parts": parts})
        run = empty.begin_run(spec, {"config": {"parts": words}})
        for part in parts:
            empty.write_part(run, PartResult(Predictions(["1"], ["fox"], ["fox"]), part=part))
        empty.finish_run(run, [Score("accuracy", 1.0, n=len(parts), is_primary=True)])
    rows = read_table(empty).rows
    assert {row.model: row.column for row in rows} == {"m/a": "newt/health", "m/b": "newt"}
    assert {row["model"]: row["task"] for row in plain_rows(read_table(empty))} == {
        "m/a": "newt/health", "m/b": "newt",
    }  # fmt: skip
    only = build_summary(empty, RunFilter(models=("m/a",)))
    assert only["columns"][0]["heading"] == "newt/health"
    assert only["tasks"][0]["title"].endswith(": only health")


def test_the_page_shows_what_most_models_were_asked(empty) -> None:
    for model in ("m/a", "m/b"):
        write(empty, asked(model, "t"), right(40, 0.5, ord(model[-1])))
    write(empty, asked("m/few", "t"), right(12, 0.5, 3), photos="other")
    rows = read_table(empty).rows
    kept = asked_alike(empty, rows)
    assert [row.name for row in kept] == ["m/a", "m/b"]
    assert others_note(rows, kept) == (
        "m/few was asked about other or fewer photos: its predictions are not shown."
    )
    assert others_note(rows, rows) == ""
    packed = task_predictions(empty, build_summary(empty)["columns"][0]["name"])
    assert b'"n": 40' in gzip.decompress(packed).replace(b'"n":', b'"n": ')


def panels_of(spec: dict) -> list[dict]:
    return [part for key in ("concat", "hconcat", "vconcat") for part in spec.get(key, ())]


def test_all_labels_of_a_probe_and_of_a_language_model_are_one_question(empty) -> None:
    choose(empty, "c/all", 6, 0.9)
    write(empty, asked("m/a", "t"), right(200, 0.6, 1))
    assert {row.column for row in read_table(empty).rows} == {"t"}


def sized(model: str, n_train: int | None, **more) -> RunSpec:
    return replace(asked(model, "t"), n_train=n_train, **more)


def test_training_sizes_of_a_model_do_not_compete(empty) -> None:
    for seed, (model, share) in enumerate((("m/a", 0.6), ("m/b", 0.8))):
        for n_train in (16, 100):
            write(empty, sized(model, n_train), right(200, share + n_train / 1000, seed))
    write(empty, sized("m/c", 16), right(200, 0.3, 9))
    table = read_table(empty)
    assert {(row.model, row.size[1]): row.tier for row in table.rows} == {
        ("m/a", "16"): "B",
        ("m/a", "100"): None,
        ("m/b", "16"): "A",
        ("m/b", "100"): None,
        ("m/c", "16"): "C",
    }, "the size that all of them have"
    assert verdict(table) == (
        "Best with 16 training photos (or examples): m/b (probe). "
        "Clearly worse: m/a (probe) and m/c (probe)."
    )
    assert any("models with 16 training photos (or examples)." in note for note in table.notes)
    two = read_table(empty, RunFilter(models=("m/a", "m/b")))
    assert {(row.model, row.size[1]): row.tier for row in two.rows} == {
        ("m/a", "16"): None,
        ("m/a", "100"): "B",
        ("m/b", "16"): None,
        ("m/b", "100"): "A",
    }, "the largest that both have"
    drawn = json.dumps(draw("difference", read_results(empty)))
    names = {row.size[0]: row.name for row in table.rows if row.model == "m/a"}
    assert names[16] in drawn and names[100] not in drawn


def test_who_saw_no_training_photos_takes_part_beside_other_sizes(empty) -> None:
    """Defect: the zero-shot row of a model that was shown examples too was in no verdict, and yet
    among "all others"."""
    for model, n_train, share in (("c/a", 0, 0.79), ("c/a", 12, 0.3), ("m/b", 12, 0.8)):
        write(empty, sized(model, n_train), right(200, share, n_train))
    table = read_table(empty)
    names = {(row.model, row.size[0]): row.name for row in table.rows}
    assert {(row.model, row.size[0]): row.tier for row in table.rows} == {
        ("c/a", 0): "A", ("c/a", 12): "B", ("m/b", 12): "A",
    }  # fmt: skip
    two = compare_models(empty, names["m/b", 12], names["c/a", 0])
    assert comparison_text(two).splitlines()[2].startswith("Too close to call")
    assert verdict(table).startswith(f"Too close to call: {names['m/b', 12]} scored highest, but ")


def test_who_is_no_better_than_the_most_common_label_is_not_recommended(empty) -> None:
    """Defect: "Use A: right on 54 of 100 photos" above "not clearly better than always ..."."""
    for model, share in (("m/a", 0.54), ("m/b", 0.2)):
        for task in ("t", "u"):
            write(empty, asked(model, task), right(200, share, 1))
    said = "No model is clearly better than always giving the most common label"
    assert verdict(read_table(empty)) == f"{said} (2 tasks). m/a scored highest."
    one = read_table(empty, RunFilter(tasks=("t",)))
    assert {row.model: row.tier for row in one.rows} == {"m/a": "A", "m/b": "B"}
    assert verdict(one) == f"{said}. m/a scored highest."
    assert plain_answer(one).startswith("m/a is right on 5")


def test_one_model_of_two_sizes_has_no_verdict(empty) -> None:
    for n_train in (16, 100):
        write(empty, sized("m/a", n_train), right(200, 0.5 + n_train / 300, 1))
    table = read_table(empty)
    assert verdict(table) == "" and {row.tier for row in table.rows} == {None}


def test_models_that_see_no_training_photos_compete_with_those_that_do(empty) -> None:
    zero = replace(sized("m/z", 0), protocol="zero_shot")
    write(empty, zero, right(200, 0.9, 1))
    for model, n_train in (("m/a", None), ("m/b", None), ("m/b", 16)):
        write(empty, sized(model, n_train), right(200, 0.5, 2))
    tiers = {(row.model, row.size[1]): row.tier for row in read_table(empty).rows}
    assert tiers == {
        ("m/z", "0"): "A",
        ("m/a", "all"): "B",
        ("m/b", "all"): "B",
        ("m/b", "16"): None,
    }


def test_examples_in_a_prompt_are_a_size_too(empty) -> None:
    """Of language models with 0 and 5 examples, and one with none, 0 is what they share."""
    for model, n_train, share in (("c/a", 0, 0.6), ("c/a", 5, 0.9), ("c/b", 0, 0.5)):
        write(empty, replace(sized(model, n_train), protocol="talk"), right(200, share, n_train))
    tiers = {(row.model, row.size[1]): row.tier for row in read_table(empty).rows}
    assert tiers["c/a", "5"] is None and tiers["c/a", "0"] and tiers["c/b", "0"]


def test_five_photos_part_nobody_however_many_tasks_ask_about_them(empty) -> None:
    low = right(100, 0.7, 1)
    high = low | (np.cumsum(~low) <= 5)
    for task in ("r", "s", "t"):
        for model, mine in (("m/high", high), ("m/low", low)):
            write(empty, asked(model, task), mine, photos="all", root="/data/all")
    assert set(read_table(empty).study.overall.best) == {"m/high", "m/low"}
    overall = compare_models(empty, "m/high", "m/low").overall
    assert overall.comparison.n_discordant == 5 and overall.comparison.p > 0.05


def test_a_task_that_nobody_answered_is_in_no_mean(empty) -> None:
    fill(empty, {"m/a": 0.9, "m/b": 0.6}, n_tasks=2)
    for model in ("m/a", "m/b"):
        run = empty.begin_run(replace(asked(model, "lost"), settings={"parts": [""]}))
        nothing = Predictions(["p"], ["fox"], [None], outcomes=["failed"])
        empty.write_part(run, PartResult(nothing))
        empty.finish_run(run, [Score("accuracy", float("nan"), n=0, is_primary=True)])
    table = read_table(empty)
    assert averaged(table.rows) == [("t0", "accuracy"), ("t1", "accuracy")]
    assert table.study.overall.best == ("m/a",) and "undefined" in wide_table(table)


def test_the_mean_stands_for_what_its_interval_does(empty) -> None:
    """One row was trained twice, the others five times: all are compared on two draws."""
    for task in ("s", "t"):
        for number, (model, n) in enumerate({"m/a": 5, "m/b": 5, "m/two": 2}.items()):
            for seed in range(n):
                spec = replace(asked(model, task), seed=seed, n_train=24)
                share = 0.6 + 0.05 * seed * (number == 0)
                write(empty, spec, right(100, share, 10 * number + seed))
    table = read_table(empty)
    shown = wide_table(table).splitlines()
    for one in table.study.overall.standings:
        assert any(
            line.startswith(f"{one.name}") and f"{100 * one.mean:.1f}" in line for line in shown
        )
    assert "Means use only photos and training samples" in wide_table(table)
    assert "s, t: models are compared on 2 training samples, as m/two has no more." in table.notes
    compared = compare_models(empty, "m/a", "m/two")
    assert "uses the trainings that both have" in " ".join(comparison_text(compared).split())
    alike = compare_models(empty, "m/a", "m/b")
    assert "uses the trainings that both have" not in " ".join(comparison_text(alike).split())


def test_rows_with_gaps_count_in_the_overall_study(empty) -> None:
    """What one row was not asked, the others are not compared on, unless that row is left out."""
    fill(empty, {"m/a": 0.7, "m/b": 0.6}, n_tasks=2, n=100)
    run = empty.begin_run(replace(asked("m/c", "t0"), settings={"parts": [""]}))
    ids = [f"t0/{number:05d}" for number in range(100)]
    truth = LABELS[np.random.default_rng(1).integers(0, 2, 100)].tolist()
    empty.write_part(run, PartResult(Predictions(ids[4:], truth[4:], truth[4:])))
    empty.finish_run(run, [Score("accuracy", 1.0, n=96, is_primary=True)])
    two = RunFilter(models=("m/a", "m/b"))
    whole = read_table(empty).study.overall
    assert read_table(empty, two).study.overall != whole


def test_answers_that_were_read_again_have_new_tiers(empty) -> None:
    fill(empty, {"m/a": 0.6, "m/b": 0.6}, n_tasks=1)
    assert {row.tier for row in read_table(empty).rows} == {"A"}
    run = next(run for run in empty.runs() if run.spec.model == "m/b")
    ids = [f"t0/{number:05d}" for number in range(300)]
    truth = LABELS[np.random.default_rng(1).integers(0, 2, 300)]
    empty.replace_answers(
        run.id,
        [PartResult(Predictions(ids, truth, truth))],
        [Score("accuracy", 1.0, n=300, is_primary=True)],
    )
    assert [row.tier for row in read_table(empty).rows] == ["B", "A"]
