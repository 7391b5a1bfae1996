"""The `ask` block of a task file: what is a multimodal language model asked, in which words?"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictInt

from fieldmark.tasks import Names, Strict


class AskBlock(Strict):
    """How a multimodal language model is asked; each key has a meaning for some kinds only."""

    kind: Literal["choice", "yes_no", "traits", "same", "count", "open"] = "choice"
    """`same`: two pictures, one individual? `open`: a species is named, nothing is offered"""
    prompt: str = ""
    """the question in words; without it one that fits the kind. With `{options}` in it, it is all
    that is said beside a picture, examples are answered in bold, and any answer counts as the name
    it is most like: small-data-metrics' way"""
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
    synonyms: dict[str, Names] = Field(default_factory=dict)
    """label → further names an answer may use"""
    show: Literal["both", "scientific", "common"] = "both"
    """which names of a species the options show"""
    lineage: Names = ()
    """columns from kingdom to species, for the nearest distractors and for "genus only" """
