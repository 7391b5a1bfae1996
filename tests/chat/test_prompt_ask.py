"""The `ask:` block of every kind of task, bound to rows as datasets give them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fieldmark.chat.messages import Picture
from fieldmark.chat.prompt.build import build, parse_answer
from fieldmark.chat.prompt.question import AskRules, Item, make_question
from fieldmark.data.sets import newt
from fieldmark.errors import UsageError

RANKS = ("kingdom", "family", "genus", "species")
COLUMNS = ("label", "sci", "com", *RANKS)
SPECIES = [
    dict(zip(COLUMNS, values, strict=True))
    for values in (
        ("lion", "Panthera leo", "African lion", "Animalia", "Felidae", "Panthera", "leo"),
        ("tiger", "Panthera tigris", "tiger", "Animalia", "Felidae", "Panthera", "tigris"),
        ("wolf", "Canis lupus", None, "Animalia", "Canidae", "Canis", "lupus"),
    )
]
NAMED = AskRules(scientific="sci", common="com", lineage=RANKS)


def _item(label: str | None = None) -> Item:
    return Item("i", (Picture(b"x", "x.jpg"),), label)


def test_newt_as_its_dataset_gives_it(tmp_path: Path) -> None:
    lines = [
        f'{task.name}{n}{split},{task.cluster},,{task.name},{n},"{label}",{split},9,9'
        for task in newt.newt_tasks().values()
        for n, (label, _) in enumerate(task.classes)
        for split in ("train", "test")
    ]
    text = "\n".join([",".join(newt.FILE_COLUMNS), *lines])
    (tmp_path / newt.LABELS_FILE).write_text(text, encoding="utf-8")
    table = newt.table(tmp_path)
    rules = AskRules(names="class_name", letters=False)
    for key, rows in table.group_by("task"):
        question = make_question(f"newt/{key[0]}", rules, rows.iter_rows(named=True), "text_label")
        for label, words in rows.select("text_label", "class_name").unique().iter_rows():
            built = build(question, _item(label))
            assert question.names[label] == words
            assert parse_answer(built, f"Answer: {words}").label == label


def test_species_with_choices_and_open() -> None:
    rules = AskRules(
        choices=2, distractors="nearest", scientific="sci", common="com", lineage=RANKS
    )
    question = make_question("t", rules, SPECIES, "label")
    built = build(question, _item("lion"))
    assert {each.label for each in built.options} == {"lion", "tiger"}
    assert question.names["lion"] == "African lion (Panthera leo)"
    assert question.names["wolf"] == "Canis lupus"
    assert parse_answer(built, "It is a Panthera leo.").label == "lion"
    rules = replace(NAMED, kind="open")
    built = build(make_question("t", rules, SPECIES, "label"), _item("lion"))
    assert parse_answer(built, "Answer: Panthera lea").label == "lion"
    assert parse_answer(built, "Answer: Canidae").why == "family only"


def test_traits_yes_no_same_and_count() -> None:
    rules = AskRules(kind="traits", names={"FeedingPath": "feeds in open water"}, subject="fish")
    question = make_question("fish", rules, (), traits=["FeedingPath", "Polar", "adipose_fin"])
    assert question.names == {
        "FeedingPath": "feeds in open water",
        "Polar": "Polar",
        "adipose_fin": "adipose fin",
    }
    for kind in ("same", "count"):
        assert make_question("t", AskRules(kind=kind), ()).kind == kind  # type: ignore[arg-type]
    rules = AskRules(kind="yes_no", prompt="Is it a polar fish?")
    question = make_question("t", rules, [{"target": "true"}, {"target": "false"}])
    assert parse_answer(build(question, _item("true")), "Yes").label == "true"


def test_a_column_that_is_not_there_is_named() -> None:
    with pytest.raises(UsageError, match="no column 'scj'. Did you mean 'sci'"):
        make_question("t", AskRules(scientific="scj"), SPECIES, "label")
