"""Train and test sets (sampling): which images does a task train and test on?

A task and a dataset's table become parts (one, or one per NeWT question, or one per named setting),
and a part becomes the training draw of one repeat. Every draw is a hash of (seed, task, part,
repeat, id).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal

import polars as pl

from fieldmark import draws
from fieldmark.errors import DataError, UnknownName, UsageError, join_problems, meant
from fieldmark.words import first_few

if TYPE_CHECKING:
    from fieldmark.tasks._schema import Filter, Names, Task


@dataclass(frozen=True, slots=True)
class Selection:
    """Which parts of a task to run; empty means all. Names and patterns."""

    parts: tuple[str, ...] = ()
    groups: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """(column, allowed values); a part that `parts` or any of these columns allow is taken"""
    any_of: tuple[str, ...] = ()
    """part names or group values, as in `newt/behavior`"""
    without_parts: tuple[str, ...] = ()
    without_groups: tuple[tuple[str, tuple[str, ...]], ...] = ()
    where: str = ""
    """the place in a file that asked for it, for messages"""

    @property
    def words(self) -> str:
        """
        >>> Selection(any_of=("health",)).words, Selection(without_parts=("ml_age_*",)).words
        ('health', 'without ml_age_*')
        """
        kept = [*self.any_of, *self.parts, *(one for _, names in self.groups for one in names)]
        out = [*self.without_parts, *(one for _, names in self.without_groups for one in names)]
        left = f"without {','.join(out)}" if out else ""
        return " ".join(filter(None, [",".join(kept), left]))


@dataclass(frozen=True, slots=True)
class Draw:
    """How many images, which, and of which parts."""

    n_train: int = -1
    """training images in all; -1 = every one"""
    shots: int = 0
    """training images per class, in place of n_train; 0 = not used"""
    n_test: int = -1
    sampling: Literal["balanced", "uniform"] = "balanced"
    """balanced: as even over the classes as they allow"""
    seed: int = 0
    repeats: int = 1
    parts: Selection = Selection()


@dataclass(frozen=True, slots=True)
class PartItems:
    """One part: rows with id, image, crop, target, unit (and class_kind, where the task has it)."""

    name: str
    train: pl.DataFrame
    test: pl.DataFrame
    groups: tuple[tuple[str, str], ...] = ()
    is_joint: bool = False
    """one probe learns all parts: the training rows are theirs together, `target` all answers"""
    drawn: dict[tuple[object, ...], pl.DataFrame] = field(
        default_factory=dict, compare=False, repr=False
    )
    """training draws made so far: a hundred of them are hashed once, not by everyone who asks"""


def split_parts(
    task: Task, table: pl.DataFrame, selection: Selection | None = None
) -> list[PartItems]:
    """The parts that the selection keeps, in name order (named settings: in file order)."""
    lacking = [line for key, name in _columns(task) if (line := _lacks(task, table, name, *key))]
    if lacking:
        raise UsageError(join_problems(lacking))
    kept_rows = keep_rows(task, table, task.where, "where")
    if kept_rows.is_empty():
        raise _nothing_fits(task, table)
    if task.traits:
        return keep_selected(task, _trait_parts(task, kept_rows), selection or Selection())
    rows = _targets(task, kept_rows, task.label, "label")
    if isinstance(task.parts, dict):
        parts = [
            PartItems(
                name,
                keep_rows(task, rows, part.train, "parts", name, "train"),
                keep_rows(task, rows, part.test, "parts", name, "test"),
            )
            for name, part in task.parts.items()
        ]
    elif isinstance(task.parts, str):
        parts = _column_parts(task, rows, task.parts)
    else:
        parts = [_part(task, "", rows)]
    return keep_selected(task, parts, selection or Selection())


def is_match(value: object, patterns: Names) -> bool:
    """Does the value equal, or match, one of the patterns? Null matches nothing."""
    return value is not None and any(fnmatchcase(str(value), pattern) for pattern in patterns)


def keep_selected(task: Task, parts: list[PartItems], selection: Selection) -> list[PartItems]:
    if selection == Selection():
        return parts
    _check_left_out(task, parts, selection)
    kept = [part for part in parts if is_selected(part, selection)]
    if not kept:
        raise _nothing_selected(task, parts, selection)
    return kept


def check_part(
    task: Task,
    part: PartItems,
    table: pl.DataFrame | None = None,
    draw: Draw | None = None,
    has_training: bool = True,
) -> None:
    """Refuses a part that cannot be asked, in one line; `table` is what its rows came from."""
    name = f"task {task.task!r}" + (f", part {part.name!r}" if part.name else "")
    for key, which, rows in (("train", "training", part.train), ("test", "test", part.test)):
        if rows.is_empty() and (has_training or key == "test"):
            part_rules = task.parts.get(part.name) if isinstance(task.parts, dict) else None
            rules = getattr(part_rules or task, key)
            if part_rules is None and table is not None and not _has_splits(table):
                raise DataError(f"{name}: {_no_splits(task, table)}")
            every = pl.concat([part.train, part.test]) if table is None else table
            splits = ", ".join(sorted(every["split"].drop_nulls().unique())) or "none"
            raise DataError(
                f"{name}: no {which} images: no row of dataset {task.dataset!r} fits "
                f"{_rules(rules)} (its splits: {splits}). Say under `{key}` in the task file which "
                "rows do."
            )
    labels = part.train.get_column(part.name if part.is_joint else "target").drop_nulls()
    if has_training and labels.n_unique() < 2:
        has = f"have the label {str(labels[0]).lower()!r}" if len(labels) else "lack a label"
        raise DataError(
            f"{name}: all {len(labels) or len(part.train)} training images {has}: "
            "at least two classes are needed."
        )
    in_both: list[str] = []
    if has_training and not task.is_leave_one_out and task.test != "rest":
        in_both = part.test.join(part.train, on="id", how="semi")["id"].to_list()
    if in_both:
        raise DataError(
            f"{task.line_of('train')}  train: {name} trains on {len(in_both)} of its "
            f"{len(part.test)} test images (first: {in_both[0]}): let no image fit both `train` "
            "and `test`."
        )
    if task.test == "rest" and draw and len(draw_train(task, part, draw, 0)) == len(part.test):
        setting = f"shots = {draw.shots}" if draw.shots else f"n_train = {draw.n_train}"
        raise DataError(
            f"{name}: {setting} takes all {len(part.test)} images for training: the task tests on "
            "the rest, and nothing is left."
        )


def draw_train(task: Task, part: PartItems, draw: Draw, repeat: int) -> pl.DataFrame:
    """The training rows of one repeat, in table order; the draw of 3 is part of the draw of 10."""
    if not draw.shots and (draw.n_train < 0 or draw.n_train >= len(part.train)):
        return part.train
    seed = (draw.seed, task.task, _draws_as(part), repeat, "train")
    key = (*seed, draw.shots, draw.n_train, draw.sampling)
    if key not in part.drawn:
        part.drawn[key] = part.train.filter(pl.col("id").is_in(_chosen(part.train, draw, seed)))
    return part.drawn[key]


def _chosen(rows: pl.DataFrame, draw: Draw, seed: tuple[object, ...]) -> list[str]:
    if draw.shots:
        # `n` ids of every class, or all of a class that has fewer.
        grouped = rows.select("id", "target").group_by("target").agg("id").sort("target")
        return [
            item
            for target, ids in grouped.iter_rows()
            for item in draws.shuffled(ids, *seed, target)[: draw.shots]
        ]
    if draw.sampling == "uniform":
        return draws.shuffled(rows.get_column("id"), *seed)[: draw.n_train]
    return _balanced(rows, draw.n_train, seed)


def _draws_as(part: PartItems) -> str:
    """Parts that are learnt together are drawn together."""
    return "" if part.is_joint else part.name


def draw_test(task: Task, part: PartItems, draw: Draw, repeat: int) -> pl.DataFrame:
    """The test rows: the same for every model, so that models can be compared.

    They are the same for every repeat too, unless the test is the rest of what was drawn from.
    """
    rows = part.test
    if task.test == "rest":
        drawn = draw_train(task, part, draw, repeat)["id"].to_list()
        rows = rows.filter(~pl.col("id").is_in(drawn))
    if draw.n_test < 0:
        return rows
    ids = rows.get_column("id").to_list()
    return rows.filter(
        pl.col("id").is_in(
            draws.sample(ids, draw.n_test, draw.seed, task.task, _draws_as(part), "test")
        )
    )


def rows_of(
    task: Task, parts: Sequence[PartItems], draw: Draw, has_training: bool = True
) -> pl.DataFrame:
    """Every row that any part and repeat needs, once: id, image, crop."""
    frames = []
    for part in parts:
        for repeat in range(draw.repeats):
            frames.append(draw_test(task, part, draw, repeat))
            if has_training:
                frames.append(draw_train(task, part, draw, repeat))
    rows = pl.concat([frame.select("id", "image", "crop") for frame in frames])
    return rows.unique("id", maintain_order=True)


def _balanced(rows: pl.DataFrame, n: int, seed: tuple[object, ...]) -> list[str]:
    """Takes turns over the classes, in a drawn order, until n are chosen or none is left."""
    ids: dict[str, list[str]] = {}
    for item, target in rows.select("id", "target").iter_rows():
        ids.setdefault(target, []).append(item)
    queues = [draws.shuffled(ids[name], *seed, name) for name in draws.shuffled(ids, *seed)]
    turns = (
        queue[turn]
        for turn in range(max(map(len, queues)))
        for queue in queues
        if turn < len(queue)
    )
    return [item for item, _ in zip(turns, range(n), strict=False)]


def is_joint(task: Task) -> bool:
    """Are all traits of the task learnt by one probe?"""
    blocks = (task.block(name) for name in task.protocols) if task.traits else ()
    return any(getattr(block, "is_joint", False) for block in blocks)


def _trait_parts(task: Task, rows: pl.DataFrame) -> list[PartItems]:
    parts = [_part(task, name, _targets(task, rows, name, "traits")) for name in task.traits]
    if not is_joint(task):
        return parts
    answers = [pl.col(name).cast(pl.String).fill_null("?") for name in task.traits]
    with_traits = rows.filter(pl.any_horizontal(pl.col(*task.traits).is_not_null())).with_columns(
        pl.concat_str(answers, separator=" ").alias("target"), _unit(task)
    )
    train = _drawn_from(task, with_traits)
    return [PartItems(part.name, train, part.test, part.groups, is_joint=True) for part in parts]


def _column_parts(task: Task, rows: pl.DataFrame, column: str) -> list[PartItems]:
    """A part for each value of the column, by name. All are filtered together: one by one, NeWT's
    164 parts cost a finished run 0.05 s of CPU time more (measured 2026-11-18).
    """
    named = rows.drop_nulls(column)
    whole = _part(task, "", named)
    train, test = (frame.partition_by(column, as_dict=True) for frame in (whole.train, whole.test))
    parts = []
    for key, part_rows in named.partition_by(column, as_dict=True).items():
        part_train = train.get(key, rows.clear())
        others = part_train if whole.test is whole.train else test.get(key, rows.clear())
        parts.append(PartItems(str(key[0]), part_train, others, _groups(task, part_rows)))
    return sorted(parts, key=lambda part: part.name)


def _part(task: Task, name: str, rows: pl.DataFrame) -> PartItems:
    groups = _groups(task, rows)
    if task.is_leave_one_out:
        return PartItems(name, rows, rows, groups)
    train = _drawn_from(task, rows)
    test = train if task.test == "rest" else keep_rows(task, rows, task.test, "test")
    return PartItems(name, train, test, groups)


def _groups(task: Task, rows: pl.DataFrame) -> tuple[tuple[str, str], ...]:
    """The first value of each column of groups that has one."""
    named = [(column, rows.get_column(column).drop_nulls()) for column in task.groups]
    return tuple((column, str(values[0])) for column, values in named if len(values))


def _drawn_from(task: Task, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows that training images are drawn from; `test: rest` divides all rows of data without
    splits, where `train` says nothing else.
    """
    is_plain = task.test == "rest" and task.train == type(task).model_fields["train"].default
    if is_plain and not _has_splits(rows):
        return rows
    return keep_rows(task, rows, task.train, "train")


def _has_splits(rows: pl.DataFrame) -> bool:
    return rows.get_column("split").null_count() < len(rows)


def _targets(task: Task, rows: pl.DataFrame, column: str, key: str) -> pl.DataFrame:
    """Adds `target` (a name) and a full `unit`; rows without a target cannot be asked about."""
    labelled = rows.with_columns(
        pl.col(column).cast(pl.String).alias("target"), _unit(task)
    ).filter(pl.col("target").is_not_null())
    if labelled.is_empty():
        raise DataError(
            f"{task.line_of(key)}  column {column!r} of dataset {task.dataset!r} is empty "
            f"in all {len(rows)} rows: labels are needed."
        )
    return _with_kinds(task, labelled) if task.kinds else labelled


def _unit(task: Task) -> pl.Expr:
    return pl.col(task.unit).cast(pl.String).fill_null(pl.col("id")).alias("unit")


def _with_kinds(task: Task, rows: pl.DataFrame) -> pl.DataFrame:
    """Adds `class_kind`, which must be known, and the same in all rows of a class."""
    rows = rows.with_columns(pl.col(task.kinds).cast(pl.String).alias("class_kind"))
    by_class = rows.group_by("target").agg(pl.col("class_kind").unique()).sort("target")
    for target, kinds in by_class.iter_rows():
        if len(kinds) != 1 or kinds[0] is None:
            has = " and ".join(sorted(str(kind or "nothing") for kind in kinds))
            raise DataError(
                f"{task.line_of('kinds')}  column {task.kinds!r} of dataset {task.dataset!r} says "
                f"{has} for the class {target!r}: expected one word for each class "
                f"(`fieldmark datasets {task.dataset}` says which file contains it)."
            )
    return rows


def kinds_of(part: PartItems) -> dict[str, str]:
    """What each class of the part is; {} where the task does not say."""
    if "class_kind" not in part.test.columns:
        return {}
    both = pl.concat([rows.select("target", "class_kind") for rows in (part.train, part.test)])
    return dict(both.unique().sort("target").iter_rows())


def keep_rows(task: Task, rows: pl.DataFrame, rules: Filter, *key: str) -> pl.DataFrame:
    """The rows that a filter of the task (at `key` of its file) allows."""
    for column, patterns in rules.items():
        need_column(task, rows, column, *key, column)
        values = rows.get_column(column).cast(pl.String).unique().to_list()
        allowed = [value for value in values if is_match(value, patterns)]
        rows = rows.filter(pl.col(column).cast(pl.String).is_in(allowed))
    return rows


def asked_rows(task: Task, table: pl.DataFrame) -> pl.DataFrame:
    """The test rows of a task that is not about labels; refuses when there are none."""
    rows = keep_rows(task, table, task.where, "where")
    if rows.is_empty():
        raise _nothing_fits(task, table)
    if task.test == "rest":
        tested = _drawn_from(task, rows)
    else:
        tested = keep_rows(task, rows, task.test, "test")
    if tested.is_empty():
        check_part(task, PartItems("", tested, tested), table, has_training=False)
    return tested


def _columns(task: Task) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every column that a task about labels names, with its key in the file."""
    parts = task.parts if isinstance(task.parts, dict) else {}
    filters: dict[tuple[str, ...], Filter] = {("where",): task.where}
    if not parts and not task.is_leave_one_out:
        filters |= {("train",): task.train, ("test",): {} if task.test == "rest" else task.test}
    for name, part in parts.items():
        filters |= {("parts", name, "train"): part.train, ("parts", name, "test"): part.test}
    for key, rules in filters.items():
        yield from (((*key, column), column) for column in rules)
    yield from ((("traits",), name) for name in task.traits or ())
    single = {"label": "" if task.traits else task.label, "unit": task.unit, "kinds": task.kinds}
    single |= {"parts": task.parts if isinstance(task.parts, str) else ""}
    yield from (((key,), column) for key, column in single.items() if column)
    yield from ((("groups",), column) for column in task.groups)


def need_column(task: Task, rows: pl.DataFrame, column: str, *key: str) -> None:
    if line := _lacks(task, rows, column, *key):
        raise UsageError(line)


def _lacks(task: Task, rows: pl.DataFrame, column: str, *key: str) -> str:
    """That the data have no such column, and which they have; "" where they do."""
    if column in rows.columns:
        return ""
    columns = [name for name in rows.columns if name != "target"]
    return (
        f"{task.line_of(*key)}  {key[0]}: dataset {task.dataset!r} has no column {column!r}."
        f"{meant(column, columns)} It has {', '.join(columns)}."
    )


def is_selected(part: PartItems, selection: Selection) -> bool:
    groups = dict(part.groups)
    values = (part.name, *groups.values())

    def in_groups(rules: Sequence[tuple[str, tuple[str, ...]]]) -> list[bool]:
        return [is_match(groups.get(column), patterns) for column, patterns in rules]

    return (
        (
            not (selection.parts or selection.groups)
            or is_match(part.name, selection.parts)
            or any(in_groups(selection.groups))
        )
        and (not selection.any_of or any(is_match(value, selection.any_of) for value in values))
        and not is_match(part.name, selection.without_parts)
        and not any(in_groups(selection.without_groups))
    )


def _check_left_out(task: Task, parts: list[PartItems], selection: Selection) -> None:
    """Refuses to leave out what is not there: a slip of the pen would be asked, and paid for."""
    left_out = [("part", name) for name in selection.without_parts]
    left_out += [(column, name) for column, names in selection.without_groups for name in names]
    for column, pattern in left_out:
        values = {dict((*part.groups, ("part", part.name))).get(column) for part in parts}
        names = sorted(name for name in values if name)
        if not any(fnmatchcase(name, pattern) for name in names):
            kind = f"{column} of task {task.task!r}"
            raise UnknownName(kind, pattern, names, where=selection.where)


def _nothing_selected(task: Task, parts: list[PartItems], selection: Selection) -> UsageError:
    names = {part.name for part in parts} | {value for part in parts for _, value in part.groups}
    patterns = (
        *selection.parts,
        *selection.any_of,
        *(v for _, values in selection.groups for v in values),
    )
    prefix = f"{selection.where}  " if selection.where else ""
    if names == {""} and patterns:
        return UsageError(f"{prefix}task {task.task!r} has no parts: remove `/{patterns[0]}`.")
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            kind = f"part or group of task {task.task!r}"
            unknown = UnknownName(kind, pattern, names, where=selection.where)
            return unknown if unknown.closest else UsageError(f"{unknown} {_having(sorted(names))}")
    return UsageError(
        f"{prefix}task {task.task!r}: the filters leave none of its {len(parts)} parts."
    )


def _nothing_fits(task: Task, table: pl.DataFrame) -> DataError:
    """Names what the first column that matches nothing holds instead."""
    for column, patterns in task.where.items():
        values = table.get_column(column).cast(pl.String).drop_nulls().unique().sort().to_list()
        if not any(is_match(value, patterns) for value in values):
            mean = (meant(patterns[0], values) if patterns else "") or f" {_having(values)}"
            return DataError(
                f"{task.line_of('where', column)}  where: no row of dataset {task.dataset!r} has "
                f"{_rules({column: patterns})}.{mean}"
            )
    return DataError(
        f"{task.line_of('where')}  no row of dataset {task.dataset!r} fits {_rules(task.where)}."
    )


def _having(names: Sequence[str]) -> str:
    return f"It has {first_few(names) or 'none'}."


def _rules(rules_of_column: Filter) -> str:
    """`split: train`."""
    rules = [f"{column}: {', '.join(patterns)}" for column, patterns in rules_of_column.items()]
    return f"`{'; '.join(rules)}`"


def _no_splits(task: Task, table: pl.DataFrame) -> str:
    """What to do about data that are all in one pile."""
    labels = [] if task.traits or task.label not in table.columns else table[task.label].to_list()
    counts = Counter(label for label in labels if label is not None)
    if len(counts) == 1:
        level = " Name the folder whose folders are the classes." * (task.dataset == "folder")
        return f"all photos have the label {labels[0]!r}: at least two classes are needed.{level}"
    n = max(1, min(8, min(counts.values(), default=16) // 2))
    return (
        f"the data have no train and test split. To split them at random, add `shots: {n}` and "
        f"`test: rest` to the task file: {n} of each class train, the rest test."
    )
