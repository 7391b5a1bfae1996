"""Are the blocks of settings inside a task file spelt and set as they are meant?

`generation_kwargs` and `dataset_kwargs`: lmms-eval hands them on without a look, so that a slip
shows hours later or never.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from fieldmark.errors import FieldmarkError
from fieldmark.lmms.check.problems import Kind, Problem
from fieldmark.lmms.data.sources import UPSTREAM_ONLY
from fieldmark.lmms.read.schema import DocumentTask
from fieldmark.lmms.score.reasoning import reasoning_tags

GENERATION = (
    "max_new_tokens", "max_tokens", "max_gen_toks", "max_completion_tokens", "temperature",
    "top_p", "top_k", "min_p", "seed", "until", "stop_sequences", "do_sample", "num_beams",
    "num_return_sequences", "repetition_penalty", "length_penalty", "no_repeat_ngram_size",
    "early_stopping", "skip_special_tokens", "image_aspect_ratio", "max_agentic_steps",
    "visual_cot",
)  # fmt: skip
DATASET = (
    "data_files", "data_dir", "load_from_disk", "revision", "token", "split", "features",
    "verification_mode", "download_mode", "keep_in_memory", *UPSTREAM_ONLY,
)  # fmt: skip
"""what `load_dataset` and lmms-eval itself know; other keys go to the builder of the dataset"""
_RANGES: dict[str, tuple[float, float]] = {
    "temperature": (0.0, 100.0),
    "top_p": (0.0, 1.0),
    "max_new_tokens": (1, 10**9),
    "max_tokens": (1, 10**9),
    "max_gen_toks": (1, 10**9),
    "num_beams": (1, 10**9),
}
_SLIP = 0.85
"""how alike a slip is to the word that was meant; `min_pixels` is no slip for `min_p`"""
_DELIMITERS = ("target_delimiter", "fewshot_delimiter")


def option_problems(task: DocumentTask) -> Iterator[Problem]:
    blocks: dict[tuple[str, ...], Any] = {("generation_kwargs",): task.generation_kwargs or {}}
    for model, block in (task.model_specific_generation_kwargs or {}).items():
        if isinstance(block, dict):
            blocks["model_specific_generation_kwargs", model] = block
    for key, block in blocks.items():
        yield from _generation(task, key, block)
    yield from _misspelt(task, ("dataset_kwargs",), task.dataset_kwargs or {}, DATASET)
    for delimiter in _DELIMITERS:
        yield from _escapes(task, (delimiter,), getattr(task, delimiter))
    if task.reasoning_tags is not None:
        yield from _tags(task)


def _generation(
    task: DocumentTask, key: tuple[str, ...], block: Mapping[str, Any]
) -> Iterator[Problem]:
    yield from _misspelt(task, key, block, GENERATION)
    for name, (low, high) in _RANGES.items():
        value = block.get(name)
        if value is not None and not _is_between(value, low, high):
            top = f"from {low:g} to {high:g}" if high <= 1 else f"{low:g} or more"
            text = f"{name} = {value!r}: expected a number, {top}."
            yield Problem("error", "generation", task.place_of(*key, name), text)
    until = block.get("until")
    stops = [until] if isinstance(until, str) else until
    if stops is not None and not _is_texts(stops):
        text = f"until = {until!r}: expected text, or a list of texts."
        yield Problem("error", "generation", task.place_of(*key, "until"), text)
    for stop in stops if isinstance(stops, list) and _is_texts(stops) else ():
        yield from _escapes(task, (*key, "until"), stop)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_between(value: Any, low: float, high: float) -> bool:
    """lmms-eval itself takes numbers that are written as text."""
    if isinstance(value, bool):
        return False
    try:
        return low <= float(value) <= high
    except (TypeError, ValueError, OverflowError):
        return False


def _misspelt(
    task: DocumentTask,
    key: tuple[str, ...],
    block: Mapping[str, Any],
    known: tuple[str, ...],
) -> Iterator[Problem]:
    """Keys like a known one that are not it; quite other keys are somebody else's."""
    kind: Kind = "data" if key[0] == "dataset_kwargs" else "generation"
    for name in (each for each in block if each not in known):
        near = get_close_matches(str(name), known, n=1, cutoff=_SLIP)
        if near:
            text = f"key {name!r} of {key[0]} is not known. Did you mean {near[0]!r}?"
            yield Problem("warning", kind, task.place_of(*key, name), text)


def _escapes(task: DocumentTask, key: tuple[str, ...], text: str) -> Iterator[Problem]:
    r"""'\n' in single quotes is a backslash and an n."""
    if any(mark in text for mark in ("\\n", "\\t", "\\r")):
        told = (
            f"{key[-1]} holds a backslash and a letter, not a line break: in YAML only double "
            f'quotes make one, as in "{text}".'
        )
        yield Problem("warning", "generation", task.place_of(*key), told)


def _tags(task: DocumentTask) -> Iterator[Problem]:
    try:
        reasoning_tags(task.reasoning_tags)
    except FieldmarkError as error:
        yield Problem("error", "key", task.place_of("reasoning_tags"), str(error))
