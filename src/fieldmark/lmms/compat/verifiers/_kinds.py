"""What extractors and verifiers are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(slots=True)  # task code may set the fields
class VerifyResult:
    """What a verifier found: a score from 0 to 1, and what it was read from."""

    score: float
    is_correct: bool
    raw_output: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)


class Extractor(Protocol):
    def __call__(self, text: str, **more: Any) -> str: ...


class Verifier(Protocol):
    def verify(
        self, question: str, prediction: str, ground_truth: str, **more: Any
    ) -> VerifyResult: ...
