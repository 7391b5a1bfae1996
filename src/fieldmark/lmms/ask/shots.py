"""Few-shot examples: which examples are shown with a document?

Drawn by a hash of (seed, task, document), so that the examples of a document depend neither on how
many others are asked nor on their order. `fewshot_config` may name the first n, or list them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fieldmark import draws
from fieldmark.errors import DataError, UsageError
from fieldmark.lmms.ask.fields import Fields
from fieldmark.lmms.code.call import call, load_function
from fieldmark.lmms.code.trust import Function
from fieldmark.lmms.data.documents import DocumentPart
from fieldmark.lmms.read.schema import DocumentTask

SAMPLERS = ("default", "first_n", "random")
SHOT_FIELDS = ("doc_to_text", "doc_to_target", "doc_to_choice", "doc_to_visual")
"""what `fewshot_config` may say otherwise than the task"""


@dataclass(frozen=True, slots=True, eq=False)
class Shot:
    """An example as it is shown."""

    text: str
    answer: str
    visuals: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """What may be shown; made once for a run."""

    part: DocumentPart
    fields: Fields
    samples: tuple[dict[str, Any], ...] | None
    """listed in the file; they take the place of a split"""
    sampler: str
    seed: int

    def shots(self, row: int) -> list[Shot]:
        k = self.part.k
        if not k:
            return []
        if self.samples is not None:
            return [self._shot(sample, sample, None) for sample in self.samples[:k]]
        shown = self.part.documents.fewshot
        assert shown is not None
        chosen, media = self._rows(row, len(shown), k), self.fields.has_visuals
        return [self._shot(shown.document(n), shown.document(n, media=media), n) for n in chosen]

    def _rows(self, row: int, n: int, k: int) -> list[int]:
        """A document is not its own example: the places after it move up by one."""
        task = self.part.task
        is_same = self.part.documents.fewshot is self.part.documents.test
        n -= is_same
        if n < k:
            raise DataError(
                f"{task.line_of('fewshot_split')}  n_train = {k}: the split has {n} "
                "documents to show."
            )
        is_first = self.sampler == "first_n"
        chosen = range(k) if is_first else draws.places(k, n, self.seed, task.task, row, "shots")
        return [row_number + (is_same and row_number >= row) for row_number in chosen]

    def _shot(self, doc: dict[str, Any], full: dict[str, Any], index: int | None) -> Shot:
        text = question_of(self.fields, doc, index)
        visuals = self.fields.visuals(full, index) if self.samples is None else []
        return Shot(text, answer_of(self.fields, doc, index), tuple(visuals))


def question_of(fields: Fields, doc: Mapping[str, Any], index: int | None) -> str:
    """The text in words: the choice a number stands for."""
    text = fields.text(doc, index)
    is_number = isinstance(text, int) and fields.has_choices
    return str(fields.choices(doc, index)[text]) if is_number else str(text)


def answer_of(fields: Fields, doc: Mapping[str, Any], index: int | None = None) -> str:
    """The target in words: the choice a number stands for, the first of several."""
    target = fields.target(doc, index)
    if isinstance(target, (list, tuple)):
        target = target[0] if target else ""
    is_number = isinstance(target, int) and not isinstance(target, bool)
    if is_number and fields.has_choices:
        choices = fields.choices(doc, index)
        return str(choices[target]) if 0 <= target < len(choices) else str(target)
    return str(target)


def make_examples(part: DocumentPart, fields: Fields, seed: int) -> Examples:
    """Checks that there is something to show before anything is sent."""
    config = dict(part.task.fewshot_config or {})
    sampler = str(config.get("sampler", "default"))
    if sampler not in SAMPLERS:
        where = part.task.line_of("fewshot_config", "sampler")
        raise UsageError(f"{where}  sampler {sampler!r}: expected {', '.join(SAMPLERS)}.")
    samples = _samples(part.task, config.get("samples"))
    if part.k and samples is None and part.documents.fewshot is None:
        raise UsageError(
            f"{part.task.line_of('task')}  n_train = {part.k}: task {part.task.task!r} names no "
            "`fewshot_split` to take examples from."
        )
    if samples is not None and len(samples) < part.k:
        where = part.task.line_of("fewshot_config", "samples")
        raise UsageError(f"{where}  lists {len(samples)} examples, {part.k} were asked for.")
    changes = {key: config[key] for key in SHOT_FIELDS if config.get(key) is not None}
    shown = replace(fields, task=part.task.model_copy(update=changes)) if changes else fields
    return Examples(part, shown, samples, sampler, seed)


def _samples(task: DocumentTask, given: Any) -> tuple[dict[str, Any], ...] | None:
    if given is None:
        return None
    where = task.line_of("fewshot_config", "samples")
    if isinstance(given, Function):
        given = call(load_function(given, task.trust), where=given.where)
    if not isinstance(given, Sequence) or not all(isinstance(sample, dict) for sample in given):
        raise UsageError(f"{where}  expected a list of documents, or a function that gives one.")
    return tuple(given)
