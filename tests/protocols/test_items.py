"""Which images train and which test: drawn from names, never from order."""

from __future__ import annotations

import itertools

import polars as pl
import pytest

from fieldmark.data import finish_table
from fieldmark.errors import DataError, UnknownName, UsageError
from fieldmark.protocols._question import refs_of, rows_digest
from fieldmark.tasks import Task, task_schema
from fieldmark.tasks.split import (
    Draw,
    PartItems,
    Selection,
    check_part,
    draw_test,
    draw_train,
    split_parts,
)


def task(**keys) -> Task:  # type: ignore[no-untyped-def]
    base = {"task": "t", "title": "T", "dataset": "folder", "metric": "accuracy"}
    return task_schema().model_validate(base | {"probe": {"classifier": "simpleshot"}} | keys)


def table(n: int = 40) -> pl.DataFrame:
    rows = [
        {
            "id": f"i{k:03d}",
            "image": f"{k}.jpg",
            "split": "train" if k % 4 else "test",
            "label": "ab"[k % 2] if k % 5 else "c",
            "question": ["owl", "fox", "fox_cub"][k % 3],
            "kind": ["bird", "mammal", "mammal"][k % 3],
        }
        for k in range(n)
    ]
    return finish_table(pl.DataFrame(rows), "here")


def counts(rows: pl.DataFrame) -> dict[str, int]:
    return dict(rows.group_by("target").len().iter_rows())


def test_parts_by_column_with_groups() -> None:
    parts = split_parts(task(parts="question", groups=["kind"]), table())
    assert [part.name for part in parts] == ["fox", "fox_cub", "owl"]
    assert parts[0].groups == (("kind", "mammal"),)
    for part in parts:
        assert set(part.train["split"]) == {"train"} and set(part.test["split"]) == {"test"}
        assert not set(part.train["id"]) & set(part.test["id"])


@pytest.mark.parametrize(
    ("selection", "kept"),
    [
        (Selection(any_of=("mammal",)), ["fox", "fox_cub"]),
        (Selection(any_of=("owl", "fox_*")), ["fox_cub", "owl"]),
        (Selection(parts=("fox*",), without_parts=("fox",)), ["fox_cub"]),
        (Selection(groups=(("kind", ("bird",)),)), ["owl"]),
        (Selection(without_groups=(("kind", ("bird",)),)), ["fox", "fox_cub"]),
    ],
)
def test_selection(selection: Selection, kept: list[str]) -> None:
    parts = split_parts(task(parts="question", groups=["kind"]), table(), selection)
    assert [part.name for part in parts] == kept


def test_selection_of_nothing_names_the_closest() -> None:
    with pytest.raises(UnknownName, match="'mamal' is not known. Did you mean 'mammal'"):
        split_parts(task(parts="question", groups=["kind"]), table(), Selection(any_of=("mamal",)))
    with pytest.raises(UsageError, match="the filters leave none of its 3 parts"):
        split_parts(
            task(parts="question"), table(), Selection(parts=("owl",), without_parts=("owl",))
        )


def test_unknown_column_names_the_closest() -> None:
    with pytest.raises(UsageError, match="has no column 'questoin'. Did you mean 'question'"):
        split_parts(task(where={"questoin": "owl"}), table())


def test_draws_do_not_depend_on_order_and_nest() -> None:
    rows = table()
    (part,) = split_parts(task(), rows)
    (other,) = split_parts(task(), rows.reverse())
    for n in range(1, 30):
        small = set(draw_train(task(), part, Draw(n_train=n), 0)["id"])
        assert small == set(draw_train(task(), other, Draw(n_train=n), 0)["id"])
        assert small <= set(draw_train(task(), part, Draw(n_train=n + 1), 0)["id"])
        assert len(small) == min(n, len(part.train))


def test_defect_small_data_one_image_and_small_classes() -> None:
    """Defect: classes smaller than n/2 raised, n_train=1 gave an assertion."""
    (part,) = split_parts(task(), table())
    assert sorted(counts(draw_train(task(), part, Draw(n_train=9), 0)).values()) == [3, 3, 3]
    assert len(draw_train(task(), part, Draw(n_train=1), 0)) == 1
    full = counts(part.train)
    assert counts(draw_train(task(), part, Draw(n_train=26), 0))["c"] == min(full.values())
    assert draw_train(task(), part, Draw(n_train=500), 0).equals(part.train)


def test_defect_small_data_sampling_is_ignored() -> None:
    """Defect: the sampling setting was ignored."""
    rows = table(400)
    (part,) = split_parts(task(), rows)
    drawn = counts(draw_train(task(), part, Draw(n_train=150, sampling="uniform"), 0))
    assert drawn["c"] < 50 < drawn["a"] + drawn["b"] - 50


def test_repeats_differ_and_seeds_differ() -> None:
    (part,) = split_parts(task(), table())
    drawn = [
        tuple(draw_train(task(), part, Draw(n_train=6, seed=seed), repeat)["id"])
        for seed in (0, 1)
        for repeat in (0, 1)
    ]
    assert len(set(drawn)) == 4


def test_defect_small_data_n_test_is_ignored() -> None:
    """Defect: n_test was ignored for vision models."""
    (part,) = split_parts(task(), table())
    drawn = draw_test(task(), part, Draw(n_test=4), 0)
    assert len(drawn) == 4
    assert drawn.equals(draw_test(task(), part, Draw(n_test=4), 0))


def test_null_units_are_the_item_itself() -> None:
    (part,) = split_parts(task(), table())
    assert part.test["unit"].to_list() == part.test["id"].to_list()


def test_named_settings_and_leave_one_out() -> None:
    parts = split_parts(
        task(parts={"x": {"train": {"kind": "bird"}, "test": {"kind": "mammal"}}}), table()
    )
    assert set(parts[0].train["kind"]) == {"bird"} and set(parts[0].test["kind"]) == {"mammal"}
    loo = task(probe={"classifier": "neighbours", "leave_one_out": True})
    (part,) = split_parts(loo, table())
    assert len(part.train) == len(part.test) == 40


def test_parts_that_cannot_be_asked() -> None:
    rows = table()
    empty = PartItems("p", rows.head(0), rows)
    with pytest.raises(DataError, match="task 't', part 'p': no training images"):
        check_part(task(), empty)
    (part,) = split_parts(task(where={"label": "a"}), rows)
    with pytest.raises(DataError, match="all .* training images have the label 'a': at least two"):
        check_part(task(), part)


def test_rows_without_a_label_are_left_out() -> None:
    rows = table().with_columns(
        label=pl.when(pl.col("id") == "i001").then(None).otherwise(pl.col("label"))
    )
    (part,) = split_parts(task(), rows)
    assert "i001" not in set(part.train["id"]) | set(part.test["id"])


def test_defect_ages_few_shot_images_drawn_with_replacement() -> None:
    (part,) = split_parts(task(), table())
    for n in (1, 7, 29):
        for sampling in ("balanced", "uniform"):
            drawn = draw_train(task(), part, Draw(n_train=n, sampling=sampling), 0)
            assert drawn["id"].n_unique() == n


def test_shots_are_images_per_class_and_the_rest_is_tested() -> None:
    few = task(shots=2, test="rest", train={}, repeats=3)
    (part,) = split_parts(few, table())
    tests = []
    for repeat in range(3):
        draw = Draw(shots=2, repeats=3)
        train = draw_train(few, part, draw, repeat)
        test = draw_test(few, part, draw, repeat)
        assert set(counts(train).values()) == {2}
        assert not set(train["id"]) & set(test["id"])
        assert len(train) + len(test) == 40
        tests.append(tuple(test["id"]))
    assert len(set(tests)) == 3


def test_traits_are_parts_and_unknown_values_are_left_out() -> None:
    rows = table().with_columns(
        fin=pl.Series([True, False, None, True] * 10), tail=pl.Series([True, False] * 20)
    )
    parts = split_parts(task(traits=["fin", "tail"]), rows)
    assert [part.name for part in parts] == ["fin", "tail"]
    assert set(parts[0].train["target"]) == {"true", "false"}
    assert len(parts[0].train) + len(parts[0].test) == 30
    with pytest.raises(UsageError, match="has no column 'fins'"):
        split_parts(task(traits=["fins"]), rows)


def test_clips_have_several_images_a_row() -> None:
    rows = finish_table(
        pl.DataFrame({"id": ["a", "b"], "image": [["1.jpg", "2.jpg"], ["3.jpg"]]}), "here"
    )
    assert [len(refs) for refs in refs_of(rows)] == [2, 1]


def test_every_row_counts_where_it_stands() -> None:
    """Parts are hashed together; which part and split a row is in must still count."""
    rows = pl.DataFrame(
        {"id": ["a", "b", "c", "d"], "target": ["x", "y", "x", "y"], "unit": ["a", "b", "c", "d"]}
    ).with_columns(crop=pl.lit(None, pl.List(pl.Float64)))

    def digest(*cuts: int) -> str:
        frames = [rows[start:stop] for start, stop in itertools.pairwise((0, *cuts, 4))]
        parts = [PartItems("one", *frames[:2]), PartItems("two", *frames[2:])]
        return rows_digest(parts, ())

    cuts = list(itertools.combinations_with_replacement(range(5), 3))
    assert len({digest(*cut) for cut in cuts}) == len(cuts)
    shuffled = [PartItems("", rows[[2, 0, 3, 1]], rows[::-1]), PartItems("", rows, rows)]
    one, other = (rows_digest([part], ()) for part in shuffled)
    assert one == other
