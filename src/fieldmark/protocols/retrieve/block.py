"""The `retrieve` block of a task file: which texts belong to the images?"""

from __future__ import annotations

from fieldmark.tasks import Strict, Template


class RetrieveBlock(Strict):
    """How a dual encoder is asked: it finds the caption of an image, and the image of a caption."""

    caption: str = "caption"
    """the column of the captions"""
    template: Template = "{}"
    """the words around a caption, with {} where it stands"""
    projector: str = ""
    """which of its projections a model with several uses: `taxonomic` or `caption`"""
