"""`lmms_eval.verifiers`: clean a response, then ask whether it is right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fieldmark.lmms.compat.verifiers._kinds import Extractor, Verifier, VerifyResult

__all__ = ["Extractor", "VerificationPipeline", "Verifier", "VerifyResult"]


class VerificationPipeline:
    """Extractors one after another, and one verifier at the end."""

    def __init__(
        self, extractors: Sequence[Extractor] | None = None, verifier: Verifier | None = None
    ) -> None:
        if verifier is None:
            raise ValueError("a VerificationPipeline needs a verifier")
        self.extractors = list(extractors or [])
        self.verifier = verifier

    def __call__(
        self, question: str, prediction: str, ground_truth: str, **more: Any
    ) -> VerifyResult:
        clean = prediction
        for extractor in self.extractors:
            clean = extractor(clean, **more)
        result = self.verifier.verify(question, clean, ground_truth, **more)
        result.metadata |= {"raw_prediction": prediction, "extracted_prediction": clean}
        return result

    verify = __call__
