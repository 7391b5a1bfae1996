"""Are answers that were read again put in place of the old ones, whole or not at all?"""

from __future__ import annotations

from pathlib import Path

import pytest

from fieldmark.store import PartResult, Predictions, RunSpec, Score, Store

SCORES = [Score("accuracy", 0.5, is_primary=True)]


def part(name: str, *answers: str | None) -> PartResult:
    ids = [f"{name}{number}" for number in range(len(answers))]
    outcomes = ["unparsed" if each is None else "ok" for each in answers]
    given = Predictions(ids, ["fox"] * len(ids), list(answers), outcomes=outcomes)
    return PartResult(given, part=name, info={"kept": name})


@pytest.fixture
def store(tmp_path: Path):  # type: ignore[no-untyped-def]
    with Store.open(tmp_path / "results.db") as opened:
        run = opened.begin_run(RunSpec("m/a", "t", "ask", {}))
        opened.write_part(run, part("p", None, "fox"))
        opened.write_part(run, part("q", None, None))
        opened.finish_run(run, SCORES)
        yield opened


def test_answers_scores_and_counts_are_replaced_together(store: Store) -> None:
    (before,) = store.runs()
    better = [Score("accuracy", 1.0, is_primary=True)]
    store.replace_answers(1, [part("q", "fox", None)], better)
    (after,) = store.runs()
    assert (before.n_ok, after.n_ok, after.n_items) == (1, 2, 4)
    assert (after.state, after.finished) == ("done", before.finished)
    assert store.predictions(1)["prediction"].to_list() == [None, "fox", "fox", None]
    assert store.scores()[1] == better
    assert [each.info for each in store.finished_parts(1)] == [{"kept": "p"}, {"kept": "q"}]


def test_one_bad_part_leaves_everything_as_it_was(store: Store) -> None:
    before = store.predictions(1), store.scores()
    bad = PartResult(Predictions(["q0"], ["fox"], ["hare"], outcomes=["refused"]), part="q")
    with pytest.raises(ValueError, match="only the outcome"):
        store.replace_answers(1, [part("p", "hare", "hare"), bad], [])
    assert store.predictions(1).equals(before[0]) and store.scores() == before[1]
