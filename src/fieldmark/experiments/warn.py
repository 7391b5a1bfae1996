"""Warnings of `run`: what in its data makes the scores of a run wrong?

Uses what the run has learnt anyway: the tables and the hashes of its photos. No photo is read for
it, so that frames which are only alike are left to `fieldmark check`. A run keeps its warnings, and
every table that shows its scores shows them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from fieldmark.data.read.own_photos import merge_spellings
from fieldmark.experiments.identity import known_content
from fieldmark.protocols import PartItems, draw_test, draw_train, load_protocol
from fieldmark.words import counted, first_few

if TYPE_CHECKING:
    from fieldmark.experiments import Plan
    from fieldmark.protocols import Question


@dataclass(slots=True)
class _Faults:
    """Of one dataset, over all parts of all tasks that a run asked."""

    copies: set[str] = field(default_factory=set)
    """test items whose bytes are also in training"""
    untrained: set[str] = field(default_factory=set)
    labels: set[str] = field(default_factory=set)
    twins: set[str] = field(default_factory=set)
    """test items whose bytes are also another test item's, with another label"""

    def lines(self) -> Iterator[str]:
        if n := len(self.copies):
            yield (
                f"{counted(n, 'test photo is', 'test photos are')} also among the training photos "
                f"({first_few(sorted(self.copies), 2)}): scores are too good."
            )
        if n := len(self.twins):
            yield (
                f"{counted(n, 'test photo is', 'test photos are')} there twice, with different "
                f"labels ({first_few(sorted(self.twins), 2)})."
            )
        merged = merge_spellings(sorted(self.labels))
        twins = [f"{name!r} and {best!r}" for name, best in merged.items() if name != best]
        if twins:
            yield f"{first_few(twins, 2)} are spellings of one label, and count as two."
        if n := len(self.untrained):
            verb = "has" if n == 1 else "have"
            yield (
                f"{counted(n, 'label')} {verb} test photos but no training photos: "
                f"{first_few(sorted(self.untrained), 3)}."
            )


def data_warnings(plan: Plan) -> list[str]:
    """At most three lines for each dataset; only where contents are known already."""
    faults: dict[Path, _Faults] = {}
    for planned in plan.jobs:
        question = planned.question
        seen = known_content(question, plan.workspace) if question else None
        if question is None or seen is None:
            continue
        root_faults = faults.setdefault(question.root, _Faults())
        for part in question.parts:
            if isinstance(part, PartItems):
                _look(root_faults, question, part, seen.by_id)
    return [
        f"warning: {root}: {line}"
        for root, root_faults in faults.items()
        for line in root_faults.lines()
    ]


def question_warnings(question: Question, by_id: Mapping[str, bytes]) -> list[str]:
    """The same lines for one question, whose items hold `by_id`."""
    faults = _Faults()
    for part in question.parts:
        if isinstance(part, PartItems):
            _look(faults, question, part, by_id)
    return list(faults.lines())


def _look(faults: _Faults, question: Question, part: PartItems, by_id: Mapping[str, bytes]) -> None:
    if load_protocol(question.protocol).training != "needed":  # some ask for no label either
        return
    # One probe that learns all parts has the answers of each in a column of its name.
    trained = _values(part.train, part.name if part.is_joint else "target")
    tested = _values(part.test, "target")
    faults.labels |= trained | tested
    task, draw = question.task, question.draw
    # Tasks with unknown classes test some that have no training photos, and mean it.
    if "class_kind" not in part.test.columns and not task.is_leave_one_out:
        faults.untrained |= tested - trained
    train = _keys(draw_train(task, part, draw, 0), by_id)
    n_trained = Counter(train.values())
    tested_keys = _keys(draw_test(task, part, draw, 0), by_id)
    targets = dict(part.test.select("id", "target").iter_rows())
    labels_of: dict[tuple[bytes, str], set[str]] = defaultdict(set)
    for item, key in tested_keys.items():
        labels_of[key].add(str(targets[item]))
    faults.twins |= {item for item, key in tested_keys.items() if len(labels_of[key]) > 1}
    for item, key in tested_keys.items():
        if n_trained[key] > (item in train):  # a task may leave one out, and train on the others
            faults.copies.add(item)


def _values(rows: pl.DataFrame, column: str) -> set[str]:
    return set(rows.get_column(column).cast(pl.String).drop_nulls().unique())


def _keys(rows: pl.DataFrame, by_id: Mapping[str, bytes]) -> dict[str, tuple[bytes, str]]:
    """Item → its content and crop, where the content is known."""
    pairs = rows.select("id", "crop").iter_rows()
    return {item: (by_id[item], str(crop)) for item, crop in pairs if any(by_id.get(item, b""))}
