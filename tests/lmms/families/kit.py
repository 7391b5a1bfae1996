"""What is a family of lmms-eval tasks here, and how are its own functions called by hand?

Nothing of fieldmark is imported: a family's code is loaded by importlib from the checkout that
FIELDMARK_LMMS_EVAL names, and its YAML is read by PyYAML alone, one file at a time.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from PIL import Image

CHECKOUT = os.environ.get("FIELDMARK_LMMS_EVAL", "")
"""read here: the environment of a test has no variables of the user"""
TASKS = Path(CHECKOUT) / "lmms_eval" / "tasks"

Document = dict[str, Any]
Utils = Any
"""a module of the checkout"""
BLANK_LINE = ["\n\n"]
"""the stop that is filled in where a file names none"""


class Unscored(Exception):
    """The family's own aggregation does not take these documents."""


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """Made documents, made answers, and what the family's own functions say about them."""

    row: int
    """of the table of fixtures; 0 stands outside of it"""
    file: str
    """the YAML, under tasks/"""
    task: str
    split: str
    documents: tuple[Document, ...]
    answers: tuple[Any, ...]
    """per document: a text, texts of the repeats, or (log-prob, is greedy) per choice"""
    text: Callable[[Utils, Document, Any], Any]
    values: Callable[[Utils, Document, Any], dict[str, Any]]
    """metric → value of one document, from its answer"""
    aggregates: Mapping[str, Callable[[Utils, list[Any]], Any]]
    utils: str = ""
    visuals: Callable[[Utils, Document], Any] | None = None
    target: Callable[[Utils, Document], Any] = lambda _, doc: doc["answer"]
    choices: Callable[[Utils, Document], list[str]] | None = None
    messages: Callable[[Utils, Document, Any], list[dict[str, Any]]] | None = None
    description: str = ""
    kwargs_file: str = ""
    """where `lmms_eval_specific_kwargs` stands; "": the task has none"""
    keys: tuple[str, ...] = ("",)
    """models whose prompts are compared"""
    generation: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """model ("" for all others) → settings; empty for likelihoods"""
    lower_is_better: tuple[str, ...] = ()
    output_type: str = "generate_until"
    tags: tuple[str, ...] = ()
    builder: str = "parquet"
    scores_pictures: bool = False
    """`process_results` gets the pictures too"""
    unheard: tuple[str, ...] = ()
    """metrics of the file that no document has a value for"""

    @property
    def media(self) -> tuple[str, ...]:
        """Columns of pictures, which prompts and scores do not see."""
        found = {key for doc in self.documents for key, value in doc.items() if _is_media(value)}
        return tuple(sorted(found))

    def bare(self, number: int) -> Document:
        hidden = self.media
        return {key: each for key, each in self.documents[number].items() if key not in hidden}

    def code(self) -> Utils:
        return load_utils(self.utils) if self.utils else None

    def kwargs(self, key: str) -> Any:
        """What `doc_to_text` is handed for a model, after the guide's rules."""
        if not self.kwargs_file:
            return None
        given = read_plainly(self.kwargs_file)["lmms_eval_specific_kwargs"]
        if key in given:
            return given[key]
        return {**given, **given.get("default", given.get("dataset", {}))}

    def expected_text(self, number: int, key: str = "") -> Any:
        return self.text(self.code(), self.bare(number), self.kwargs(key))

    def expected_sent(self, number: int, key: str = "") -> str:
        """What an endpoint is told: the text is made with the pictures in the document."""
        code, doc = self.code(), self.documents[number]
        if self.messages is None:
            return str(self.text(code, doc, self.kwargs(key)))
        told = self.messages(code, doc, self.kwargs(key))
        parts = [part for message in told for part in message["content"]]
        return "".join(part["text"] for part in parts if part["type"] == "text")

    def expected_visuals(self, number: int) -> list[Any]:
        if self.visuals is None:
            return []
        return list(self.visuals(self.code(), self.documents[number]) or [])

    def expected_values(self, number: int) -> dict[str, Any]:
        answer = self.answers[number]
        doc = self.documents[number] if self.scores_pictures else self.bare(number)
        return self.values(self.code(), doc, _heard(answer))

    def expected_aggregates(self) -> dict[str, Any]:
        """Metric → its aggregate over the documents that have it; none for a metric none has."""
        every = [self.expected_values(number) for number in range(len(self.documents))]
        heard = {name: [each[name] for each in every if name in each] for name in self.aggregates}
        with stub_packages():
            return {
                name: _or_unscored(self.aggregates[name], self.code(), items)
                for name, items in heard.items()
                if items
            }


def _heard(answer: Any) -> Any:
    """What is scored of a text: no thoughts, no blanks around it."""
    if not isinstance(answer, str):
        return answer
    return re.sub("<think>.*?</think>", "", answer, flags=re.DOTALL).strip()


def _or_unscored(aggregate: Callable[[Utils, list[Any]], Any], code: Utils, items: Any) -> Any:
    try:
        return aggregate(code, items)
    except Unscored:
        return Unscored


def _is_media(value: Any) -> bool:
    first = value[0] if isinstance(value, list) and value else value
    return isinstance(first, Image.Image)


def one_argument(function: str) -> Callable[[Utils, Document, Any], Any]:
    """`doc_to_text` of a task without a block of prompts: it gets the document alone."""
    return lambda code, doc, _: getattr(code, function)(doc)


def two_arguments(function: str) -> Callable[[Utils, Document, Any], Any]:
    return lambda code, doc, kwargs: getattr(code, function)(doc, kwargs)


def shows(function: str) -> Callable[[Utils, Document], Any]:
    return lambda code, doc: getattr(code, function)(doc)


def scores(function: str) -> Callable[[Utils, Document, Any], dict[str, Any]]:
    """`process_results` gets the document and a list that holds the answer."""

    def both(code: Utils, doc: Document, answer: Any) -> dict[str, Any]:
        with stub_packages():
            return dict(getattr(code, function)(doc, [answer]))

    return both


def sums(function: str) -> Callable[[Utils, list[Any]], Any]:
    return lambda code, items: getattr(code, function)(items)


def mean(_: Utils, items: Sequence[float]) -> float:
    return sum(items) / len(items)


def greedy(**settings: Any) -> dict[str, dict[str, Any]]:
    """The settings most files have, for every model."""
    return {"": {"temperature": 0.0, "do_sample": False, "until": BLANK_LINE, **settings}}


def beams(n_tokens: int) -> dict[str, dict[str, Any]]:
    return greedy(max_new_tokens=n_tokens, top_p=1.0, num_beams=1)


def picture(seed: int, mode: str = "RGB", size: tuple[int, int] = (9, 7)) -> Image.Image:
    """A small photo of noise."""
    noise = np.random.default_rng(seed).integers(0, 255, (size[1], size[0], 3), dtype="uint8")
    return Image.fromarray(noise).convert(mode)


@cache
def load_utils(file: str) -> types.ModuleType:
    path = TASKS / file
    name = "by_hand_" + file.removesuffix(".py").replace("/", "_")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with stub_packages():
        spec.loader.exec_module(module)
    return module


@contextmanager
def stub_packages() -> Iterator[None]:
    """`lmms_eval` without its `__init__`s, which want torch: its folders, nothing more."""
    before = {name: each for name, each in sys.modules.items() if _is_theirs(name)}
    for name in before:
        del sys.modules[name]
    for name in ("lmms_eval", "lmms_eval.tasks", "lmms_eval.filters"):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = [str(TASKS.parent.joinpath(*name.split(".")[1:]))]
    try:
        yield
    finally:
        for name in [each for each in sys.modules if _is_theirs(each)]:
            del sys.modules[name]
        sys.modules.update(before)


def _is_theirs(name: str) -> bool:
    return name.partition(".")[0] == "lmms_eval"


class _Plain(yaml.SafeLoader):
    """YAML with `!function` as the text behind it."""


_Plain.add_constructor("!function", lambda loader, node: f"!function {node.value}")


@cache
def _read(file: str) -> dict[str, Any]:
    return dict(yaml.load((TASKS / file).read_text(encoding="utf-8"), _Plain))


def read_plainly(file: str) -> dict[str, Any]:
    """One file of the checkout as it stands, includes not followed."""
    return dict(_read(file))
