"""LLM judge (`lmms_eval.llm_judge`): how does task code ask a language model about an answer?

Only the judge that the user named is asked, within the command's caps: see `code.judge`. The
service, retries and delays that a task's code chooses make no difference.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fieldmark.chat import AnswerSettings
from fieldmark.lmms.code import judge
from fieldmark.source_lines import is_file

LONGEST_PATH = 1000
"""characters; longer texts are base64"""


RIGHT_OR_WRONG = """Decide whether an answer to a question is right.

Question: {question}
The right answer: {answer}
The answer to judge: {prediction}

It is right when its final statement means the same as the right answer: another wording, an \
option's letter in place of its text, or another way to write the same number do not matter. It \
is wrong when a part is missing, or when anything wrong is added; a unit that was asked for is \
part of the answer.
Reply with {yes} if it is right and with {no} if it is not. Reply with nothing else."""


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
class JudgeRequest:
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
class JudgeResponse:
    content: str
    model_used: str
    usage: dict[str, int] | None = None
    raw_response: Any = None
    parsed_result: Any = None
    success: bool = True
    error_message: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)


def ask_judge(messages: Sequence[dict[str, Any]], config: ServerConfig) -> JudgeResponse:
    """The judge's answer; raises `NoJudgement` where there is none, or when it fails for good."""
    settings = AnswerSettings(
        temperature=config.temperature, top_p=config.top_p, max_output_tokens=config.max_tokens
    )
    answer = judge.ask_judge(messages, settings, config.model_name)
    usage = None
    if answer.usage is not None:
        usage = {
            "prompt_tokens": answer.usage.tokens_in,
            "completion_tokens": answer.usage.tokens_out,
            "total_tokens": answer.usage.total,
        }
    return JudgeResponse(answer.text, answer.model or config.model_name, usage)


def with_images(messages: Sequence[dict[str, Any]], images: Sequence[Any]) -> list[dict[str, Any]]:
    """The messages with the images put before the text of the last one of the user."""
    result = [dict(message) for message in messages]
    user_turns = [message for message in result if message.get("role") == "user"]
    if not images or not user_turns:
        return result
    content = user_turns[-1]["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    pictures = [{"type": "image_url", "image_url": {"url": _address(image)}} for image in images]
    user_turns[-1]["content"] = [*pictures, *parts]
    return result


def _address(image: Any) -> str:
    """A data address of a picture: an object with `save`, bytes, a file's name, or base64 text."""
    if isinstance(image, str) and image.startswith(("data:", "http://", "https://")):
        return image
    if isinstance(image, bytes):
        data = image
    elif hasattr(image, "save"):
        stream = io.BytesIO()
        image.convert("RGB").save(stream, "PNG")
        data = stream.getvalue()
    elif len(str(image)) < LONGEST_PATH and is_file(Path(str(image))):
        data = Path(str(image)).read_bytes()
    else:
        return f"data:image/png;base64,{image}"
    kind = "jpeg" if data[:2] == b"\xff\xd8" else "png"
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


class ServerInterface:
    """What `get_server` gives: asks one judge."""

    def __init__(self, config: ServerConfig | None = None) -> None:
        self.config = config or ServerConfig(model_name="gpt-4o")

    def is_available(self) -> bool:
        return True

    def evaluate(self, request: JudgeRequest) -> JudgeResponse:
        """The judge's answer to the messages; the request's own settings come first."""
        config = request.config or self.config
        messages = with_images(request.messages, request.images or [])
        roles = [message.get("role") for message in messages]
        if config.system_prompt and "system" not in roles:
            messages.insert(0, {"role": "system", "content": config.system_prompt})
        return ask_judge(messages, config)

    def evaluate_binary(
        self,
        question: str,
        answer: str,
        prediction: str,
        output_format: str = "0/1",
        custom_prompt: str | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """Right or wrong, as 1 and 0 or, for yes/no, as true and false."""
        is_number = output_format in ("0/1", "1/0")
        yes, no = ("1", "0") if is_number else ("Yes", "No")
        texts = {"question": question, "answer": answer, "prediction": prediction}
        if custom_prompt:
            prompt = custom_prompt.format(**{**texts, "pred": prediction, **more})
        else:
            prompt = RIGHT_OR_WRONG.format(**texts, yes=yes, no=no)
        response = self.evaluate(JudgeRequest([{"role": "user", "content": prompt}]))
        is_right = _is_one(response.content) if is_number else _is_yes(response.content)
        return {
            "result": int(is_right) if is_number else is_right,
            "raw_response": response.content,
            "model": response.model_used,
            "prompt": prompt,
            "success": response.success,
        }


def get_server(server_name: str | None = None, config: ServerConfig | None = None) -> Any:
    """A judge; which service it was made for (`server_name`) makes no difference here."""
    del server_name
    return ServerInterface(config)


def _is_one(text: str) -> bool:
    match = re.search(r"(?<![\d.])[01](?![\d.]\d|\d)", text)
    return match is not None and match.group() == "1"


def _is_yes(text: str) -> bool:
    return text.strip().lower().startswith("yes")
