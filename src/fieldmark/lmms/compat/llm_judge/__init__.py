"""`lmms_eval.llm_judge`: a judge at the endpoint that the user named, else a clear line."""

from __future__ import annotations

import re
from typing import Any

from fieldmark.lmms.code.judge import Asking, ask_judge, with_images
from fieldmark.lmms.compat.llm_judge.protocol import Request, Response, ServerConfig

__all__ = ["Request", "Response", "ServerConfig", "ServerInterface", "get_server"]

RIGHT_OR_WRONG = """Decide whether an answer to a question is right.

Question: {question}
The right answer: {answer}
The answer to judge: {prediction}

It is right when its final statement means the same as the right answer: another wording, an \
option's letter in place of its text, or another way to write the same number do not matter. It \
is wrong when a part is missing, or when anything wrong is added; a unit that was asked for is \
part of the answer.
Reply with {yes} if it is right and with {no} if it is not. Reply with nothing else."""


class ServerInterface:
    """What `get_server` gives: asks one judge."""

    def __init__(self, config: ServerConfig | None = None) -> None:
        self.config = config or ServerConfig(model_name="gpt-4o")

    def is_available(self) -> bool:
        return True

    def evaluate(self, request: Request) -> Response:
        """The judge's answer to the messages; the request's own settings come first."""
        config = request.config or self.config
        messages = with_images(request.messages, request.images or [])
        if config.system_prompt and not any(each.get("role") == "system" for each in messages):
            messages.insert(0, {"role": "system", "content": config.system_prompt})
        asking = Asking(
            config.model_name,
            config.temperature,
            config.max_tokens,
            config.top_p,
            config.timeout,
            config.num_retries,
            config.retry_delay,
        )
        answer = ask_judge(messages, asking)
        return Response(answer.text, answer.model, answer.usage)

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
        response = self.evaluate(Request([{"role": "user", "content": prompt}]))
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
    found = re.search(r"(?<![\d.])[01](?![\d.]\d|\d)", text)
    return found is not None and found.group() == "1"


def _is_yes(text: str) -> bool:
    return text.strip().lower().startswith("yes")
