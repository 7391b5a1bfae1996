"""Protocol (the contract): how is a model asked a task, and what must a new way of asking offer?

A module of this folder, or one file of the user's, offers `PROTOCOL`: an object of a subclass of
`Protocol`. Nothing else in the package names it: the command line, experiment files, the plan, the
store and the page find it in the registry and ask it. What a subclass does not say has a default
that fits images of a dataset's table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from fieldmark.abilities import EMBEDS_IMAGES
from fieldmark.errors import UsageError
from fieldmark.protocols._settings import NoSettings
from fieldmark.registry import PROTOCOLS, portable_name

if TYPE_CHECKING:
    import polars as pl
    from pydantic import BaseModel

    from fieldmark.chat import Estimate
    from fieldmark.progress import Progress
    from fieldmark.protocols._items import Selection
    from fieldmark.protocols._predictions import PartPredictions, Reread
    from fieldmark.protocols._score import Scoring
    from fieldmark.protocols._workspace import Workspace
    from fieldmark.store import PartRecord, RunSpec, Score


@dataclass(frozen=True, slots=True)
class Draw:
    """How many images, and which."""

    n_train: int = -1
    """training images in all; -1 = every one"""
    shots: int = 0
    """training images per class, in place of n_train; 0 = not used"""
    n_test: int = -1
    sampling: Literal["balanced", "uniform"] = "balanced"
    """balanced: as even over the classes as they allow"""
    seed: int = 0
    repeats: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """A task with its data at hand, and how it is to be asked."""

    task: Any
    parts: Sequence[Any]
    """of the task's own form: `PartItems` of a dataset's table; each has a `name`"""
    root: Path
    draw: Draw
    settings: Any
    """an object of the protocol's settings class"""
    groups: tuple[dict[str, Any], ...] = ()
    """the groups of tasks it was asked for with"""

    @property
    def part_names(self) -> list[str]:
        return [part.name for part in self.parts]


@dataclass(frozen=True, slots=True)
class DrawChoice:
    """What a grid asks of a draw; None = as the task has it."""

    n_train: int | None = None
    n_test: int | None = None
    sampling: Any = None
    seed: int = 0
    repeats: int | None = None


class Protocol:
    """How a model is asked a task."""

    name: ClassVar[str]
    """as users write it: `--protocol NAME`, the block of a task file, a run's `protocol`"""
    summary: ClassVar[str]
    """one line for lists and legends"""
    version: ClassVar[int] = 1
    """raised whenever the same answers of a model give other predictions"""
    needs: ClassVar[frozenset[str]] = frozenset({EMBEDS_IMAGES})
    """abilities a model must have"""
    or_needs: ClassVar[frozenset[str]] = frozenset()
    """abilities that do as well, of a protocol that can ask two kinds of models"""
    settings: ClassVar[type] = NoSettings
    """what a user may set, besides the block"""
    head: ClassVar[str] = ""
    """the key of its block that a word alone stands for (`probe = "svm"`), and that makes the
    block of a variant a new one"""
    learns: ClassVar[bool] = False
    """does it fit something on training images, and so needs at least one?"""
    takes_training: ClassVar[bool] = True
    """can it look at training images at all, to learn from or as examples?"""
    needs_features_only: ClassVar[bool] = False
    """does it ask nothing of a model but features of images, so that those in the cache do?"""
    hub_task: ClassVar[str] = "image-classification"
    """the task type that model cards name"""
    beside: ClassVar[tuple[str, ...]] = ()
    """names of the scores it adds itself: rates and costs, not metrics of labels"""
    has_gaps: bool = False
    """may single questions stay without an answer?"""
    takes_metrics: ClassVar[bool] = True
    """can finished runs be scored by further metrics?"""

    @property
    def ways(self) -> tuple[frozenset[str], ...]:
        """Abilities with any of which it can ask a model."""
        return (self.needs, self.or_needs) if self.or_needs else (self.needs,)

    def can_ask(self, abilities: Collection[str]) -> bool:
        return any(way <= set(abilities) for way in self.ways)

    # What a task file and a grid may say.

    def block(self) -> type[BaseModel] | None:
        """The schema of its block in a task file, of the same name; None: it has none."""
        return None

    @property
    def has_block(self) -> bool:
        return type(self).block is not Protocol.block

    def reads(self, task: Any) -> bool:
        """Is the task of a form that this protocol understands?"""
        from fieldmark.tasks import Task

        return isinstance(task, Task)

    def block_of(self, task: Any) -> Any:
        """Its block of the task; None where the file has none."""
        return task.block(self.name) if self.reads(task) else None

    def changed_block(self, old: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
        """A block with changes that a grid or a flag asks for."""
        return {**old, **changes}

    def list_keys(self, changes: Mapping[str, Any]) -> Collection[str]:
        """Keys of its block whose value is a list itself: only a list of lists is an axis."""
        block = self.block()
        fields = block.model_fields.items() if block else ()
        return [name for name, field in fields if _is_list(field.annotation)]

    def problems(self, task: Any) -> list[str]:
        """What in its block nobody knows, one line each with its place; nothing is loaded."""
        return []

    def warnings(self, task: Any, at: Workspace) -> list[str]:
        """What the data, which are there, make doubtful about the task; no model is loaded."""
        return []

    def cell(self, task: Any, choice: DrawChoice) -> tuple[Any, Draw]:
        """The task and the draw of one cell of a grid."""
        own = task.n_train if self.learns else 0
        draw = Draw(
            n_train=own if choice.n_train is None else choice.n_train,
            shots=task.shots if choice.n_train is None and self.learns else 0,
            n_test=task.n_test if choice.n_test is None else choice.n_test,
            sampling=choice.sampling or task.sampling,
            seed=choice.seed,
            repeats=choice.repeats or (task.repeats if self.learns else 1),
        )
        return task, draw

    def why_not(
        self, task: Any, draw: Draw, settings: Any, abilities: Collection[str]
    ) -> str | None:
        """Why such a model cannot be asked the task like this, or None."""
        if not self.reads(task):
            return f"task {task.task!r} has a form that `{self.name}` cannot read"
        if self.has_block and self.block_of(task) is None:
            return f"task {task.task!r} has no `{self.name}` block"
        if not self.can_ask(abilities):
            ways = sorted((_and(sorted(way - set(abilities))) for way in self.ways), key=len)
            return f"`{self.name}` needs a model that {' or '.join(ways)}"
        if self.learns and draw.n_train == 0:
            return f"n_train = 0: `{self.name}` cannot learn from 0 training images"
        if draw.n_train and not self.takes_training:
            return f"n_train: expected 0, `{self.name}` looks at no training images"
        if draw.n_test == 0:
            return "n_test = 0: without test images there is no score"
        return None

    # What makes a run the same run.

    def label(self, task: Any) -> str:
        """What a run's `protocol` says: the name, and after a slash the method, of several."""
        return self.name

    def identity(self, assignment: Assignment) -> dict[str, Any]:
        """What can change a prediction, besides data, draw, metric and model."""
        from fieldmark.protocols._settings import given

        block = self.block_of(assignment.task)
        own = {} if block is None else {self.name: block.model_dump(mode="json")}
        return own | given(assignment.settings)

    def outline(self, assignment: Assignment) -> dict[str, Any]:
        """All settings of a run's key: parts, metrics, draw, and what the protocol adds."""
        task, draw = assignment.task, assignment.draw
        facts: dict[str, Any] = {
            "parts": assignment.part_names,
            "metric": [portable_name(name) for name in (task.metric, *task.also)],
            "score": task.primary or task.score,
        }
        if draw.shots:
            facts["shots"] = draw.shots
        if task.test == "rest":
            facts["test"] = "rest"
        if draw.n_train >= 0:
            facts["sampling"] = draw.sampling
        return facts | {"protocol_version": self.version} | self.identity(assignment)

    def parts(self, task: Any, draw: Draw, selection: Selection, at: Workspace) -> list[Any]:
        """What there is to be asked, part by part; raises where a part cannot be asked."""
        from fieldmark.protocols._items import table_parts

        return table_parts(task, draw, selection, at, self.learns or draw.n_train != 0)

    def root(self, task: Any, at: Workspace) -> Path:
        """The folder of the task's images; Path() where items name their own."""
        return at.root(task)

    def is_synthetic(self, assignment: Assignment) -> bool:
        """Did fieldmark draw the images?"""
        from fieldmark.data import is_synthetic

        return is_synthetic(assignment.root)

    def columns(self, task: Any) -> tuple[str, ...]:
        """Columns of the data that change predictions, besides labels, units and crops."""
        return tuple(task.traits)

    def data_digest(self, task: Any, parts: Sequence[Any]) -> str:
        """Changes when an item, a label, a unit or a crop of the parts does."""
        from fieldmark.protocols._items import rows_digest

        return rows_digest(parts, self.columns(task))

    def needed(self, assignment: Assignment, broken: Collection[str]) -> pl.DataFrame | None:
        """id, image and crop of every row whose images it looks at; None: it has its own way of
        knowing what they hold.
        """
        from fieldmark.protocols._items import rows_of

        return rows_of(assignment.task, assignment.parts, assignment.draw, self.learns)

    def tested(self, assignment: Assignment) -> pl.DataFrame | None:
        """part, id, target and unit of every item it asks about, of the first repeat; null: a unit
        of its own. None: not known before.
        """
        from fieldmark.protocols._items import tested_rows

        return tested_rows(assignment.task, assignment.parts, assignment.draw)

    # What it takes, and what it gives.

    def cache_fingerprint(self, task: Any, fingerprint: str) -> str:
        """Where features of a model with that fingerprint are kept."""
        return fingerprint

    def estimate(self, assignment: Assignment, model_name: str) -> Estimate | None:
        """Requests, tokens and money; None where nothing is sent. Sends nothing."""
        return None

    def note(self, assignment: Assignment) -> str:
        """What a plan should say of the job."""
        from fieldmark.protocols._items import short_parts

        return short_parts(assignment.parts, assignment.draw)

    def backbone(self, task: Any, model: Any) -> Any:
        """What embeds its images: the model, or one made of it; None where nothing is embedded.

        Features are computed before the run begins, in one pass over the files: what these hold is
        noted on the way, so that none is read only to be hashed.
        """
        return None

    def answer(
        self,
        assignment: Assignment,
        wanted: Collection[str],
        model: Any,
        at: Workspace,
        progress: Progress,
    ) -> Iterator[PartPredictions]:
        """The predictions of each wanted part, as they come; none depends on which are wanted."""
        raise TypeError(f"protocol {self.name!r} has no `answer`")

    def score(
        self, assignment: Assignment, predictions: pl.DataFrame, parts: Sequence[PartRecord],
        folder: Path,
    ) -> list[Score]:  # fmt: skip
        """All scores of a finished run: by the task's metrics, and by those that answers have
        values of. Files that scoring writes go to `folder`.
        """
        from fieldmark.protocols._score import recorded_kinds, score_run, value_names

        task, kinds, own = assignment.task, recorded_kinds(parts), value_names(predictions)
        scores = score_run(task, assignment.parts, predictions, kinds, own)
        return scores + self.scores_beside(predictions, parts)

    def asked_again(self, settings: Any) -> Collection[str]:
        """Outcomes of a finished run that these settings ask again, besides failures."""
        return ()

    def scores_beside(self, predictions: pl.DataFrame, parts: Sequence[PartRecord]) -> list[Score]:
        """The scores named in `beside`."""
        return []

    def reread(self, predictions: pl.DataFrame, parts: Sequence[PartRecord]) -> list[Reread]:
        """Parts whose stored answers are read as something else by the parser of today."""
        return []

    def score_stored(
        self,
        scoring: Scoring,
        spec: RunSpec,
        predictions: pl.DataFrame,
        parts: Sequence[PartRecord],
    ) -> list[Score] | None:
        """Scores from what the store holds; None: code would be needed that is not here."""
        from fieldmark.protocols._score import recorded_kinds, score_answers

        scores = (
            score_answers(scoring, predictions, recorded_kinds(parts)) if scoring.metrics else []
        )
        return scores + self.scores_beside(predictions, parts)

    def joined(self, info: Mapping[str, Any], groups: Sequence[dict[str, Any]]) -> Any:
        """What a part of a finished run keeps when it is asked for with further groups; None: the
        same as before.
        """
        return None

    def record(self, task: Any) -> dict[str, Any]:
        """The task as it is kept with a run."""
        return dict(task.model_dump(mode="json"))

    def last_words(self, at: Workspace) -> str:
        """What a command should say at its end: money spent."""
        return ""


def protocols() -> dict[str, Protocol]:
    """Every protocol by name."""
    return {name: load_protocol(name) for name in PROTOCOLS.names()}


def load_protocol(name: str, where: str = "") -> Protocol:
    """The protocol of that name."""
    names = PROTOCOLS.names()
    if name not in names:
        place, known = f"{where}  " if where else "", ", ".join(names)
        raise UsageError(f"{place}protocol {name!r} is not known: expected one of {known}.")
    entry = PROTOCOLS.get(name)
    protocol = getattr(entry, "PROTOCOL", entry)
    if not isinstance(protocol, Protocol):
        raise UsageError(
            f"{PROTOCOLS.place_of(name)}protocol {name!r} has no PROTOCOL: expected an object of a "
            "subclass of fieldmark.protocols.Protocol."
        )
    if getattr(protocol, "name", "") != name:
        place = PROTOCOLS.place_of(name)
        raise UsageError(f"{place}protocol {name!r} must have `name = {name!r}`, as its file.")
    return protocol


def register_protocol(protocol: Protocol) -> None:
    """Makes a protocol known by its name, for this process."""
    PROTOCOLS.register(protocol.name, protocol)


def protocol_of(label: str) -> Protocol:
    """The protocol that made a run, by the run's `protocol`; one that is not here has defaults."""
    name = label.partition("/")[0]
    if name in PROTOCOLS.names():
        return load_protocol(name)
    absent: type[Protocol] = type(name, (Protocol,), {"name": name, "summary": name})
    return absent()


def fitting_protocols(task: Any, abilities: Collection[str], wanted: str = "") -> list[str]:
    """How a model with these abilities is asked the task: all ways both sides can, in the task's
    order. Where there is none, the way that tells best why.
    """
    if wanted:
        return [load_protocol(wanted).name]
    every = protocols()
    can = [name for name, protocol in every.items() if protocol.can_ask(abilities)]
    reading = [name for name, protocol in every.items() if protocol.reads(task)]
    ordered = [name for name in getattr(task, "protocols", reading) if name in reading]
    fit = [name for name in ordered if name in can]
    return fit or [name for name in can if name in reading][:1] or reading[:1] or can[:1]


def _and(abilities: Sequence[str]) -> str:
    return " and ".join(name.replace("_", " ") for name in abilities)


def _is_list(annotation: Any) -> bool:
    import typing

    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _is_list(typing.get_args(annotation)[0])
    return annotation in (list, tuple) or origin in (list, tuple)
