"""Verifiers (`lmms_eval.verifiers`): clean a response, then ask a judge whether it is right."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from fieldmark.lmms.compat.judge import JudgeRequest, ServerConfig, get_server
from fieldmark.lmms.score.filters import THINK, THINKING, strip_reasoning


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


class OpenAIVerifier:
    """Asks with the task's own prompt where it has one, else for right or wrong."""

    def __init__(  # the names and defaults task code relies on
        self,
        model: str = "gpt-4o-2024-11-20",
        api_type: str | None = None,
        judge_type: str = "binary",
        custom_prompt: str | Callable[..., str] | None = None,
        response_format: str = "binary",
        response_parser: Callable[[str], VerifyResult] | None = None,
        score_range: tuple[float, float] = (0.0, 10.0),
        max_retries: int = 5,
        retry_delay: float = 2.0,
        temperature: float = 0.0,
        max_tokens: int = 1024,
    ) -> None:
        if judge_type != "binary" and custom_prompt is None:
            raise ValueError(f"judge_type {judge_type!r} needs a custom_prompt")
        if response_format not in ("binary", "score"):
            raise ValueError(f"response_format is {response_format!r}, not binary or score")
        self.custom_prompt = custom_prompt
        self.response_format = response_format
        self.response_parser = response_parser
        self.score_range = score_range
        config = ServerConfig(
            model,
            temperature,
            max_tokens,
            num_retries=max_retries,
            retry_delay=retry_delay,
        )
        self.server = get_server(api_type, config)

    def verify(
        self, question: str, prediction: str, ground_truth: str, **more: Any
    ) -> VerifyResult:
        if self.custom_prompt is None:
            verdict = self.server.evaluate_binary(
                question, ground_truth, prediction, more.get("output_format", "0/1")
            )
            is_right = bool(verdict["result"])
            metadata = {"model": verdict["model"]}
            return VerifyResult(float(is_right), is_right, verdict["raw_response"], metadata)
        prompt = self._prompt(question, prediction, ground_truth, more)
        messages = [{"role": "user", "content": prompt}]
        answer = self.server.evaluate(JudgeRequest(messages, images=more.get("images")))
        return self._read(answer.content)

    __call__ = verify

    def _prompt(self, question: str, prediction: str, truth: str, more: dict[str, Any]) -> str:
        if callable(self.custom_prompt):
            return self.custom_prompt(question, prediction, truth, **more)
        texts = {"question": question, "prediction": prediction, "ground_truth": truth}
        return str(self.custom_prompt).format(**texts, **more)

    def _read(self, text: str) -> VerifyResult:
        if self.response_parser is not None:
            return self.response_parser(text)
        if self.response_format == "score":
            score = _score(text, *self.score_range)
            return VerifyResult(score, score >= 0.5, text)
        is_right = _says_right(text)
        return VerifyResult(float(is_right), is_right, text)


def _score(text: str, low: float, high: float) -> float:
    """The first number in the text, from 0 at `low` to 1 at `high`; 0 without a number."""
    match = re.search(r"-?\d+(\.\d+)?", text)
    if match is None:
        return 0.0
    number = float(match.group())
    if high == low:
        return float(number >= high)
    return min(max((number - low) / (high - low), 0.0), 1.0)


def _says_right(text: str) -> bool:
    """Correct, yes, true and 1 mean right; incorrect and not_attempted come first."""
    answer = text.strip().lower()
    if "incorrect" in answer or "not_attempted" in answer:
        return False
    return any(word in answer for word in ("correct", "yes", "true", "1"))
