"""Schema of a task file (YAML): what may stand in it?

The one schema of fieldmark's own task files. A task asks a question of a dataset, names its metric,
and says how each kind of model is asked: one block per protocol, which reads it. Unknown keys are
errors.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    StrictInt,
    ValidationInfo,
    create_model,
    field_validator,
    model_validator,
)

from fieldmark.registry import PROTOCOLS

if TYPE_CHECKING:
    from fieldmark.tasks.split import Draw, Selection


def _as_list(value: Any) -> Any:
    if isinstance(value, (str, int, float, bool)):
        value = [value]
    if not isinstance(value, list):
        return value
    return [str(item).lower() if isinstance(item, bool) else str(item) for item in value]


def _check_template(template: str) -> str:
    if template.count("{}") != 1 or "{" in template.replace("{}", ""):
        raise ValueError(f"{template!r}: expected a sentence with one {{}} where the text goes")
    return template


Names = Annotated[tuple[str, ...], BeforeValidator(_as_list)]
Template = Annotated[str, AfterValidator(_check_template)]
"""a sentence with one {} where a name or a text stands"""
Filter = dict[str, Names]
"""column → allowed values; `*` and `?` match as in file names"""
Count = Annotated[StrictInt, Field(ge=-1, le=10**9)]
"""-1 = all"""


class Strict(BaseModel):
    """A schema in which an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Part(Strict):
    """One setting of a task: which images train, which test."""

    train: Filter = {}
    test: Filter = {}


class Task(Strict):
    """A question asked of a dataset."""

    task: str
    title: str
    """for tables and pages; without it, the task's name"""
    about: str = ""
    version: StrictInt = 1
    """raised whenever a change of the file changes scores"""
    dataset: str
    data: str = ""
    """the folder (or table file) its data are in, relative to this file; without it, where the
    dataset is said to be"""
    options: dict[str, Any] = {}
    """keyword arguments of the dataset's reader"""
    label: str = "label"
    """the column that is to be predicted"""
    where: Filter = {}
    """which rows belong to the task at all"""
    train: Filter = {"split": ("train",)}
    test: Filter | Literal["rest"] = {"split": ("test",)}
    """or `rest`: all rows that `train` fits and that were not drawn for training"""
    traits: Names = ()
    """columns of yes or no, each a part of its own, in place of `label`"""
    parts: str | dict[str, Part] | None = None
    """a column (one part per value, each with a probe of its own) or named settings"""
    groups: Names = ()
    """columns whose values name groups of parts (NeWT's clusters)"""
    primary: str = ""
    """the part whose score is the task's; without it `score` decides"""
    score: Literal["mean", "pooled"] = "mean"
    """with parts: mean over parts, or all images pooled; the other one is reported beside it"""
    metric: str
    also: Names = ()
    """further metrics, reported beside the first"""
    kinds: str = ""
    """the column that says what each class is (edible, poisonous), for metrics that ask"""
    unit: str = "unit"
    """the column that says what is independent for statistics"""
    shots: Annotated[StrictInt, Field(ge=0)] = 0
    """training images per class; 0 = as `n_train` says"""
    n_train: Count = -1
    n_test: Count = -1
    sampling: Literal["balanced", "uniform"] = "balanced"
    repeats: Annotated[StrictInt, Field(ge=1, le=10**4)] = 1
    variants: dict[str, dict[str, Any]] = {}
    """name → keys that differ: another suite's recipe for the same question"""

    _origin: Any = PrivateAttr(default=None)
    """the file it was read from, with the lines of its keys"""

    @model_validator(mode="before")
    @classmethod
    def _title_is_the_name(cls, data: Any) -> Any:
        return {"title": str(data.get("task", "")), **data} if isinstance(data, dict) else data

    @field_validator("task")
    @classmethod
    def _name_can_be_typed(cls, name: str) -> str:
        if not re.fullmatch(r"[a-z0-9][a-z0-9_.-]*", name):
            raise ValueError("expected only lower-case letters, digits, `_`, `.` and `-`")
        return name

    @field_validator("primary")
    @classmethod
    def _primary_is_a_part(cls, primary: str, info: ValidationInfo) -> str:
        parts = info.data.get("parts", {})
        if primary and not (isinstance(parts, dict) and primary in parts):
            part_names = ", ".join(parts) if isinstance(parts, dict) else "none"
            raise ValueError(f"expected the name of a part (parts: {part_names})")
        return primary

    def __reduce__(self) -> tuple[Any, ...]:
        """For another process: the class is made there, of the protocols that are known there."""
        return _revived, (self.__getstate__(),)

    @property
    def folder(self) -> Path | None:
        """Where its file says that the data are."""
        return Path(self.data) if self.data else None

    def line_of(self, *key: str | int) -> str:
        """`file:line` of a key, for messages; the task's name when it has no file."""
        return f"task {self.task!r}" if self._origin is None else str(self._origin.where(key))

    def block(self, protocol: str) -> Any:
        """How it is asked by that protocol: the block of that name; None where it has none."""
        return getattr(self, protocol, None)

    @property
    def protocols(self) -> tuple[str, ...]:
        """How models can be asked this task, in the order of its file."""
        names = list(self._origin.data) if self._origin is not None else []
        every = [name for name in PROTOCOLS.names() if self.block(name) is not None]
        return tuple(sorted(every, key=lambda name: names.index(name) if name in names else 0))

    def references(self) -> dict[tuple[str | int, ...], str]:
        """Key → name, wherever code beside the file may be named."""
        named: dict[tuple[str | int, ...], str] = {
            ("dataset",): self.dataset,
            ("metric",): self.metric,
            **{("also", index): name for index, name in enumerate(self.also)},
        }
        for protocol in self.protocols:
            block = self.block(protocol)
            named |= {(protocol, key): getattr(block, key) for key in getattr(block, "files", ())}
        return named

    def plain(self) -> dict[str, Any]:
        """As it is kept with a run."""
        return self.model_dump(mode="json")

    def cell(
        self,
        learns: bool,
        n_train: int | None = None,
        n_test: int | None = None,
        sampling: Any = None,
        seed: int = 0,
        repeats: int | None = None,
        parts: Selection | None = None,
    ) -> tuple[Task, Draw]:
        """The task and the draw of one cell of a grid, asked by a protocol that learns from
        training images or does not; None = as the file has it.
        """
        from fieldmark.tasks.split import Draw, Selection

        draw = Draw(
            n_train=(self.n_train if learns else 0) if n_train is None else n_train,
            shots=self.shots if n_train is None and learns else 0,
            n_test=self.n_test if n_test is None else n_test,
            sampling=sampling or self.sampling,
            seed=seed,
            repeats=repeats or (self.repeats if learns else 1),
            parts=parts or Selection(),
        )
        return self, draw

    @property
    def is_leave_one_out(self) -> bool:
        """Is every image asked about with all the others as the training set?"""
        blocks = (self.block(name) for name in self.protocols)
        return any(getattr(block, "leave_one_out", False) for block in blocks)


def task_schema(keys: Collection[str] | None = None) -> type[Task]:
    """`Task` with a key for the block of every protocol that is known by now. Of a file with these
    `keys`, the other blocks are not looked at: it can only be without them.
    """
    names = tuple(PROTOCOLS.names())
    return _with_blocks(names, tuple(name for name in names if keys is None or name in keys))


@cache
def _with_blocks(names: tuple[str, ...], used: tuple[str, ...]) -> type[Task]:
    fields: dict[str, Any] = {}
    for name in names:
        entry = PROTOCOLS.get(name)  # this package knows protocols by their names only
        protocol = getattr(entry, "PROTOCOL", entry)
        if getattr(type(protocol), "Block", None) is not None:
            fields[name] = (protocol.Block | None if name in used else None, None)
    return create_model("Task", __base__=Task, **fields)


def _revived(state: dict[Any, Any]) -> Task:
    schema = task_schema([key for key, value in state["__dict__"].items() if value is not None])
    task = schema.__new__(schema)
    task.__setstate__(state)
    return task
