"""What may stand in a task file?

The one schema of fieldmark's own task files. A task asks a question of a dataset, names its metric,
and says how each kind of model is asked. Unknown keys are errors.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    StrictInt,
    ValidationInfo,
    field_validator,
)


def _as_list(value: Any) -> Any:
    if isinstance(value, (str, int, float, bool)):
        value = [value]
    if not isinstance(value, list):
        return value
    return [str(each).lower() if isinstance(each, bool) else str(each) for each in value]


Names = Annotated[tuple[str, ...], BeforeValidator(_as_list)]
Filter = dict[str, Names]
"""column → allowed values; `*` and `?` match as in file names"""
Count = Annotated[StrictInt, Field(ge=-1, le=10**9)]
"""-1 = all"""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ProbeBlock(BaseModel):
    """How a backbone with a light probe is asked; further keys are the classifier's own."""

    model_config = ConfigDict(extra="allow", frozen=True)

    classifier: str
    """a probe's name, or `my_probe.py:MyProbe` beside the task file"""
    normalise: tuple[Literal["l2", "centre", "standardise"], ...] = ()
    """steps in order, fitted on the training images only"""
    leave_one_out: bool = False
    """every image is asked about with all the others as the training set"""
    pool: Literal["mean", "max"] = "mean"
    """how the features of a clip's frames become one"""
    features: Literal["image", "patches"] = "image"
    """the model's feature of the whole image, or mean and maximum over its patches side by side"""
    reject: str = ""
    """the label for images of no class that training has: given below a threshold of certainty"""
    reject_folds: Annotated[StrictInt, Field(ge=2, le=20)] = 5
    """the threshold is chosen on training images, as if one class in so many were new"""

    @property
    def params(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class AskBlock(_Strict):
    """How a multimodal language model is asked; each key has a meaning for some kinds only."""

    kind: Literal["choice", "yes_no", "traits", "same", "count", "open"] = "choice"
    """`same`: two pictures, one individual? `open`: a species is named, nothing is offered"""
    prompt: str = ""
    """the question in words; without it one that fits the kind"""
    subject: str = "animal"
    """what the ready-made questions call the thing in the picture"""
    names: str | dict[str, str] = ""
    """a column with the readable name of each label, or label → name; without it the labels"""
    choices: Annotated[StrictInt, Field(ge=0, le=10**4)] = 0
    """options offered, the truth among them; 0 = all labels"""
    distractors: Literal["random", "nearest"] = "random"
    """the other options: drawn from all, or the nearest in taxonomy"""
    letters: bool = True
    """options are answered by letter; without, by name"""
    scientific: str = ""
    """column of the scientific name; with it or `common`, labels are species"""
    common: str = ""
    """column of the common name"""
    synonyms: dict[str, Names] = {}
    """label → further names an answer may use"""
    show: Literal["both", "scientific", "common"] = "both"
    """which names of a species the options show"""
    lineage: Names = ()
    """columns from kingdom to species, for the nearest distractors and for "genus only" """


class Part(_Strict):
    """One setting of a task: which images train, which test."""

    train: Filter = {}
    test: Filter = {}


class Task(_Strict):
    """A question asked of a dataset."""

    task: str
    title: str
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
    probe: ProbeBlock | None = None
    ask: AskBlock | None = None
    variants: dict[str, dict[str, Any]] = {}
    """name → keys that differ: another suite's recipe for the same question"""

    _origin: Any = PrivateAttr(default=None)
    """the file it was read from, with the lines of its keys"""

    @field_validator("task")
    @classmethod
    def _name_can_be_typed(cls, name: str) -> str:
        if not re.fullmatch(r"[a-z0-9][a-z0-9_.-]*", name):
            raise ValueError("expected small letters, digits, `_`, `.` and `-` only")
        return name

    @field_validator("primary")
    @classmethod
    def _primary_is_a_part(cls, primary: str, info: ValidationInfo) -> str:
        parts = info.data.get("parts", {})
        if primary and not (isinstance(parts, dict) and primary in parts):
            known = ", ".join(parts) if isinstance(parts, dict) else "none"
            raise ValueError(f"expected the name of a part (parts: {known})")
        return primary

    @property
    def folder(self) -> Path | None:
        """Where its file says that the data are."""
        return Path(self.data) if self.data else None

    def place_of(self, *key: str | int) -> str:
        """`file:line` of a key, for messages; the task's name when it has no file."""
        return f"task {self.task!r}" if self._origin is None else str(self._origin.where(key))

    @property
    def protocols(self) -> tuple[str, ...]:
        """How models can be asked this task."""
        blocks = {"probe": self.probe, "ask": self.ask}
        return tuple(name for name, block in blocks.items() if block is not None)


def is_match(value: object, patterns: Names) -> bool:
    """Does the value equal, or match, one of the patterns? Null matches nothing."""
    return value is not None and any(fnmatchcase(str(value), pattern) for pattern in patterns)
