"""`lmms_eval.verifiers.extractors`, as far as task code uses it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fieldmark.lmms.score.filters import THINK, THINKING, strip_reasoning

__all__ = ["StripReasoningExtractor"]


class StripReasoningExtractor:
    """The response without the blocks of thought."""

    def __init__(self, tag_pairs: Sequence[Sequence[str]] | None = None) -> None:
        self.tag_pairs = tag_pairs or [THINK, THINKING]

    def extract(self, text: Any, **more: Any) -> str:
        del more
        if not isinstance(text, str):
            return "" if text is None else str(text)
        return strip_reasoning(text, self.tag_pairs)

    __call__ = extract
