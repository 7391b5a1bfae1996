"""`lmms_eval.llm_judge.protocol`: what is asked of a judge, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["Request", "Response", "ServerConfig"]


@dataclass(slots=True)  # task code may set the fields
class ServerConfig:
    """Which model judges, and how it is asked."""

    model_name: str
    temperature: float = 0.0
    max_tokens: int = 1024
    top_p: float | None = None
    timeout: int = 60
    num_retries: int = 5
    retry_delay: float = 10
    max_concurrent: int = 10
    system_prompt: str | None = None
    response_format: str | None = None
    judge_type: str = "general"
    output_format: str | None = None
    score_range: tuple[float, float] | None = None
    evaluation_criteria: dict[str, Any] | None = None


@dataclass(slots=True)
class Request:
    """Messages for the judge, with pictures for the last of the user's."""

    messages: list[dict[str, Any]]
    images: list[Any] | None = None
    config: ServerConfig | None = None
    question: str | None = None
    answer: str | None = None
    prediction: str | None = None
    context: str | None = None
    options: list[str] | None = None


@dataclass(slots=True)
class Response:
    content: str
    model_used: str
    usage: dict[str, int] | None = None
    raw_response: Any = None
    parsed_result: Any = None
    success: bool = True
    error_message: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)
