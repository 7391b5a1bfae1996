"""The `probe` block of a task file: which classifier, fitted how?"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt

from fieldmark.errors import FieldmarkError
from fieldmark.probes import is_multilabel, list_parameters
from fieldmark.registry import is_file_reference, resolve_reference, short_name

KEPT = ("normalise", "leave_one_out")
"""keys of a block that hold for another classifier too"""


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

    @property
    def method(self) -> str:
        """As a run's protocol names it, after a slash."""
        return short_name(self.classifier)

    @property
    def is_joint(self) -> bool:
        """Does one probe learn all traits of a task?"""
        return is_multilabel(self.classifier, self.params)

    def changed(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """The keys with changes; another classifier keeps none of the first one's parameters."""
        changed, before = dict(changes), self.model_dump()
        if is_file_reference(str(changes.get("classifier", ""))):
            file, name = resolve_reference(str(changes["classifier"]))
            changed["classifier"] = f"{file}:{name}"
        if changed.get("classifier", self.classifier) != self.classifier:
            before = {key: before[key] for key in KEPT}
        return before | changed

    @classmethod
    def list_keys(cls, changes: Mapping[str, Any]) -> Collection[str]:
        """Parameters of the classifier whose value is a list itself."""
        with suppress(FieldmarkError):  # one that does not exist is told when it is loaded
            return list_parameters(str(changes.get("classifier")))
        return ()
