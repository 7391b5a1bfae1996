"""The `probe` block of a task file: which classifier, fitted how?"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt


class ProbeBlock(BaseModel):
    """How a backbone with a light probe is asked; further keys are the classifier's own."""

    model_config = ConfigDict(extra="allow", frozen=True)
    files: ClassVar[tuple[str, ...]] = ("classifier",)
    """keys that may name code beside the task file"""

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
