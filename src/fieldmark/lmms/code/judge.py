"""How does task code ask a language model to judge an answer?

Only where the user has named an endpoint that speaks OpenAI's protocol: `JUDGE_BASE_URL` (for
example http://localhost:8000/v1), `JUDGE_API_KEY` where it wants one, `JUDGE_MODEL_NAME` to put
another model in the place of the one the task names. A key for OpenAI alone sends nothing.
"""

from __future__ import annotations

import base64
import io
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fieldmark.locate import is_file

URL, KEY, MODEL = "JUDGE_BASE_URL", "JUDGE_API_KEY", "JUDGE_MODEL_NAME"
MOST_TRIES = 5
MOST_DELAY_S = 10.0
LONGEST_PATH = 1000
"""characters; longer texts are base64"""


class NoJudgement(BaseException):
    """No judge could be asked.

    Not an `Exception`: task code commonly answers those with a score of 0, and a judge that was
    not there must never look like a wrong answer.
    """


@dataclass(frozen=True, slots=True)
class Asking:
    """Who is asked, and how often."""

    model: str
    temperature: float = 0.0
    max_tokens: int = 1024
    top_p: float | None = None
    timeout_s: float = 60.0
    tries: int = 3
    delay_s: float = 2.0


@dataclass(frozen=True, slots=True)
class Judgement:
    text: str
    model: str
    usage: dict[str, int] = field(default_factory=dict)


def ask_judge(messages: Sequence[dict[str, Any]], asking: Asking) -> Judgement:
    """The judge's answer; raises `NoJudgement` without an endpoint, or when it fails for good."""
    url = os.environ.get(URL, "").rstrip("/")
    model = os.environ.get(MODEL) or asking.model
    if not url:
        raise NoJudgement(
            f"this task asks a judge ({model}): set {URL} to an endpoint that speaks OpenAI's "
            f"protocol, {KEY} to its key, and {MODEL} for another model"
        )
    body = {
        "model": model,
        "messages": list(messages),
        "temperature": asking.temperature,
        "max_tokens": asking.max_tokens,
    }
    if asking.top_p is not None:
        body["top_p"] = asking.top_p
    return _judgement(_post(f"{url}/chat/completions", body, asking), model)


def _post(url: str, body: dict[str, Any], asking: Asking) -> Any:
    headers = {"Content-Type": "application/json"}
    if os.environ.get(KEY):
        headers["Authorization"] = f"Bearer {os.environ[KEY]}"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    n_tries = max(1, min(asking.tries, MOST_TRIES))
    for i in range(n_tries):
        try:
            with urllib.request.urlopen(request, timeout=asking.timeout_s) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code not in (408, 409, 429) and error.code < 500:
                raise NoJudgement(
                    f"the judge at {url} answered {error.code}: {error.reason}"
                ) from None
            last = f"{error.code} {error.reason}"
        except (OSError, ValueError) as error:
            last = str(error)
        if i + 1 < n_tries:
            time.sleep(min(asking.delay_s, MOST_DELAY_S))
    raise NoJudgement(f"the judge at {url} failed {n_tries} times: {last}")


def _judgement(answer: Any, model: str) -> Judgement:
    try:
        text = answer["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError):
        raise NoJudgement("the judge's answer has no choices[0].message.content") from None
    usage = {
        key: value for key, value in (answer.get("usage") or {}).items() if isinstance(value, int)
    }
    return Judgement(str(text or ""), str(answer.get("model") or model), usage)


def with_images(messages: Sequence[dict[str, Any]], images: Sequence[Any]) -> list[dict[str, Any]]:
    """The messages with the images put before the text of the last one of the user."""
    result = [dict(each) for each in messages]
    asked = [each for each in result if each.get("role") == "user"]
    if not images or not asked:
        return result
    content = asked[-1]["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    pictures = [{"type": "image_url", "image_url": {"url": _address(each)}} for each in images]
    asked[-1]["content"] = [*pictures, *parts]
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
