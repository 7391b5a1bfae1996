"""The `zero_shot` block of a task file: by which texts do classes stand?"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from fieldmark.tasks import Names, Strict, Template
from fieldmark.taxa import TextType

LIST = BeforeValidator(lambda value: [value] if isinstance(value, str) else value)


def _split(taxa: Any) -> Any:
    return [taxon.strip() for taxon in taxa.split(",")] if isinstance(taxa, str) else taxa


class ZeroShotBlock(Strict):
    """How a dual encoder is asked: it chooses the class whose text is nearest to the image."""

    text: TextType = "asis"
    """what stands for a class: its name as it is; its scientific (sci) or common (com) name; its
    ranks from kingdom to species (taxon); or the former with the common name"""
    templates: Literal["openai", "none"] | Annotated[tuple[Template, ...], LIST] = "openai"
    """sentences around it, whose features are averaged: `openai` (the 80 of CLIP's paper), `none`,
    or your own with {} where the class stands"""
    names: str = ""
    """the column with the name of each class, for `asis`; without it the labels"""
    scientific: str = ""
    """column of the scientific name; without it genus and species of the lineage"""
    common: str = ""
    """column of the common name"""
    lineage: Names = ()
    """columns from kingdom to species (seven, or those there are, named as the ranks)"""
    taxa: Annotated[Names, BeforeValidator(_split)] = ()
    """only classes that are, or belong to, one of these taxa are asked about and offered: a list,
    names with commas between, or one file that ends in .txt with a taxon a line"""
    projector: str = ""
    """which of its projections a model with several uses: `taxonomic` or `caption`"""
    seen_by: dict[str, str] = Field(default_factory=dict)
    """model names (with * and ?) → what their training data have to do with this task"""
