"""Protocol (the contract): how is a model asked a task, and what must a new way of asking offer?

A module of this folder, or one file of the user's, offers `PROTOCOL`: an object of a subclass of
`Protocol`. Nothing else in the package names it: the command line, experiment files, the plan, the
store and the page find it in the registry. `prepare` makes a `Question` of a task, once; all others
read that. What a subclass does not say has a default that fits images of a dataset's table.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from fieldmark.errors import UsageError
from fieldmark.protocols._settings import NoSettings
from fieldmark.registry import ANSWERS, EMBEDS_IMAGES, PROTOCOLS

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from fieldmark.chat import Estimate, Usual
    from fieldmark.progress import Progress
    from fieldmark.protocols._predictions import PartPredictions, Reread
    from fieldmark.protocols._question import Question, Workspace
    from fieldmark.protocols._score import Scoring
    from fieldmark.store import PartRecord, Score
    from fieldmark.tasks.split import Draw


class _Later:
    """See `later`."""

    def __init__(self, reference: str) -> None:
        self.reference = reference

    def __get__(self, owner: object | None, cls: type) -> Any:
        if owner is None:
            return self
        module, _, name = self.reference.partition(":")
        return getattr(import_module(module), name)


def later(reference: str) -> Any:
    """A member whose value, the class or function `module:name`, is imported when an object is
    first asked for it: help texts and lists must not wait for numpy.
    """
    return _Later(reference)


class Protocol:
    """How a model is asked a task; of a subclass, the first line is its summary in lists."""

    name: ClassVar[str] = ""
    """as users write it: `--protocol NAME`, the block of a task file, a run's `protocol`"""
    version: ClassVar[int] = 1
    """raised whenever the same answers of a model give other predictions"""
    needs: ClassVar[tuple[frozenset[str], ...]] = (frozenset({EMBEDS_IMAGES}),)
    """sets of abilities, any of which will do"""
    training: ClassVar[Literal["needed", "possible", "none"]] = "possible"
    """training images: it learns from them; it can show some as examples; it looks at none"""
    Settings: ClassVar[type] = NoSettings
    """what a user may set, besides the block: a frozen dataclass"""
    Block: Any = None
    """the schema (pydantic) of its block in a task file, of the same name; None: it has none.
    A word alone (`probe = "svm"`) stands for its first key. `later` where it is slow to import."""

    def reads(self, task: Any) -> bool:
        """Is the task of a form that this protocol understands?"""
        from fieldmark.tasks import Task

        return isinstance(task, Task)

    def problems(self, task: Any) -> list[str]:
        """What in its block nobody knows, one line each with its place; nothing is loaded."""
        return []

    def why_not(
        self, task: Any, draw: Draw, settings: Any, abilities: Collection[str]
    ) -> str | None:
        """Why such a model cannot be asked the task like this, or None."""
        if not self.reads(task):
            return f"task {task.task!r} has a form that `{self.name}` cannot read"
        if has_block(self) and task.block(self.name) is None:
            return f"task {task.task!r} has no `{self.name}` block"
        if not can_ask(self, abilities):
            lacking = (sorted(need - set(abilities)) for need in self.needs)
            abilities_text = [
                " and ".join(name.replace("_", " ") for name in names) for names in lacking
            ]
            return (
                f"`{self.name}` needs a model that {' or '.join(sorted(abilities_text, key=len))}"
            )
        if self.training == "needed" and draw.n_train == 0:
            return f"n_train = 0: `{self.name}` cannot learn from 0 training images"
        if self.training == "none" and draw.n_train:
            return f"n_train: expected 0, `{self.name}` looks at no training images"
        if draw.n_test == 0:
            return "n_test = 0: a score needs at least one test image"
        return None

    def prepare(self, task: Any, draw: Draw, settings: Any, workspace: Workspace) -> Question:
        """The task with its data at hand; raises where it cannot be asked."""
        from fieldmark.protocols._question import table_question

        return table_question(self, task, draw, settings, workspace)

    def answer(
        self,
        question: Question,
        part_names: Collection[str],
        model: Any,
        workspace: Workspace,
        progress: Progress,
    ) -> Iterator[PartPredictions]:
        """The predictions of each wanted part, as they come; none depends on which are wanted."""
        raise TypeError(f"protocol {self.name!r} has no `answer`")

    def estimate(
        self, question: Question, model_name: str, journal: Path | None, usual: Usual
    ) -> Estimate | None:
        """Requests, tokens and money; None where nothing is sent. Sends nothing.

        What the journal holds is not sent; `usual` is what requests to the model took so far.
        """
        return None

    def score(
        self,
        scoring: Scoring,
        predictions: pl.DataFrame,
        parts: Sequence[PartRecord],
        question: Question | None = None,
    ) -> list[Score] | None:
        """All scores of a finished run, from what the store holds; without a question it is scored
        again, long after. None: code would be needed that is not here.
        """
        from fieldmark.protocols._score import recorded_kinds, score_answers

        return score_answers(scoring, predictions, recorded_kinds(parts))

    def reread(self, predictions: pl.DataFrame, parts: Sequence[PartRecord]) -> list[Reread]:
        """Parts whose stored answers are read as something else by the parser of today."""
        return []


def summary_of(protocol: Protocol) -> str:
    """One line for lists and legends."""
    return (inspect.getdoc(type(protocol)) or protocol.name).partition("\n")[0].rstrip(".")


def can_ask(protocol: Protocol, abilities: Collection[str]) -> bool:
    return any(need <= set(abilities) for need in protocol.needs)


def may_fail(protocol: Protocol) -> bool:
    """May single questions stay without an answer? Those to language models may."""
    return any(ANSWERS in need for need in protocol.needs)


def has_block(protocol: Protocol) -> bool:
    return type(protocol).Block is not None


def main_key(protocol: Protocol) -> str:
    """The key of its block that a word alone stands for: the first."""
    return next(iter(protocol.Block.model_fields)) if has_block(protocol) else ""


def label_of(protocol: Protocol, task: Any) -> str:
    """What a run's `protocol` says: the name, and after a slash the `method` of its block, where
    it has several.
    """
    method = getattr(task.block(protocol.name), "method", "")
    return f"{protocol.name}/{method}" if method else protocol.name


def protocols() -> dict[str, Protocol]:
    """Every protocol by name."""
    return {name: load_protocol(name) for name in PROTOCOLS.names()}


def load_protocol(name: str, where: str = "") -> Protocol:
    """The protocol of that name."""
    names = PROTOCOLS.names()
    if name not in names:
        prefix, listed = f"{where}  " if where else "", ", ".join(names)
        raise UsageError(f"{prefix}protocol {name!r} is not known: expected one of {listed}.")
    entry = PROTOCOLS.get(name)
    protocol = getattr(entry, "PROTOCOL", entry)
    if not isinstance(protocol, Protocol):
        raise UsageError(
            f"{PROTOCOLS.line_of(name)}protocol {name!r} has no PROTOCOL: expected an object of a "
            "subclass of fieldmark.protocols.Protocol."
        )
    if getattr(protocol, "name", "") != name:
        prefix = PROTOCOLS.line_of(name)
        raise UsageError(f"{prefix}protocol {name!r} must have `name = {name!r}`, as its file.")
    return protocol


def register_protocol(protocol: Protocol) -> None:
    """Makes a protocol known by its name, for this process."""
    PROTOCOLS.register(protocol.name, protocol)


def protocol_of(label: str) -> Protocol:
    """The protocol that made a run, by the run's `protocol`; one that is not here has defaults."""
    name = label.partition("/")[0]
    if name in PROTOCOLS.names():
        return load_protocol(name)
    absent: type[Protocol] = type(name, (Protocol,), {"name": name, "__doc__": name})
    return absent()


def fitting_protocols(task: Any, abilities: Collection[str], chosen: str = "") -> list[str]:
    """How a model with these abilities is asked the task: all ways both sides can, in the task's
    order. Where there is none, the way that tells best why.
    """
    if chosen:
        return [load_protocol(chosen).name]
    of_task = getattr(task, "protocols", ())
    if fit := [name for name in of_task if can_ask(load_protocol(name), abilities)]:
        return fit
    every = protocols()
    can = [name for name, protocol in every.items() if can_ask(protocol, abilities)]
    reading = [name for name, protocol in every.items() if protocol.reads(task)]
    return [name for name in can if name in reading][:1] or reading[:1] or can[:1]
