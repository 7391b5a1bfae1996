"""The `rerank` block of a task file: which results does a query have, and which are right?"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictInt

from fieldmark.tasks import Names, Strict, Template


class RerankBlock(Strict):
    """How a model is asked to sort the results of queries; a row of the data is one result."""

    query: str = "query"
    """the column of the query's words"""
    query_id: str = "query_id"
    """the column that says which results belong together"""
    relevant: str = "relevant"
    """the column that says whether the image answers the query: yes or no"""
    groups: Names = ()
    """columns of the queries whose values get scores of their own"""
    k: Annotated[StrictInt, Field(ge=0)] = 0
    """results that count, the best first; 0 = all of them"""
    gallery: str = ""
    """whose embeddings to rank, of a dataset whose photos were embedded before: rows of the data
    are then queries, and all photos of the gallery their results"""
    template: Template = "{}"
    """for dual encoders: the words around a query, with {} where it stands"""
    projector: str = ""
    """for dual encoders: which of its projections a model with several uses"""
    prompt: Template = (
        "Does this image show: {}? Answer with one word, Yes or No, and nothing else."
    )
    """for language models: the question about one image, with {} where the query stands"""
    by: Literal["auto", "likelihood", "grade"] = "auto"
    """for language models: the score of an image is how likely Yes is against No, or a grade that
    the model gives; auto: likelihoods where the model tells them"""
    grade_prompt: Template = (
        "How well does this image match: {}? Answer with one whole number from 0 (not at all) to "
        "10 (perfectly), and nothing else."
    )
    """for language models, by grade: the question, with {} where the query stands"""
