"""A whole run of a family, with a server that answers its prompts as the family says."""

from __future__ import annotations

import base64
import hashlib
import io
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from PIL import Image

from fieldmark.chat import MockServer
from fieldmark.experiments import evaluate
from fieldmark.lmms.score.encoding import decode
from fieldmark.settings import Settings
from kit.chat import running
from lmms.families.kit import TASKS, Family
from lmms.families.made_data import redirected

Key = tuple[str, tuple[str, ...]]
"""all text of a request, and its pictures by their pixels"""


def pixels_of(shown: Any) -> str:
    opened = Image.open(shown) if isinstance(shown, (str, Path, io.BytesIO)) else shown
    plain = opened.convert("RGB")
    return hashlib.sha256(repr(plain.size).encode() + np.asarray(plain).tobytes()).hexdigest()


def key_of(body: Mapping[str, Any]) -> Key:
    """What a request says and shows, in order."""
    texts: list[str] = []
    pictures: list[str] = []
    for message in body["messages"]:
        content = message["content"]
        for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if part["type"] == "text":
                texts.append(part["text"])
            else:
                data = part["image_url"]["url"].partition(",")[2]
                pictures.append(pixels_of(io.BytesIO(base64.b64decode(data))))
    return "".join(texts), tuple(pictures)


class Script:
    """Knows the prompts by hand; what it does not know is answered with "?" and kept."""

    def __init__(self, *families: Family, key: str = "") -> None:
        self._answers: dict[Key, Any] = {}
        for family in families:
            for number, answer in enumerate(family.answers):
                shown = tuple(map(pixels_of, family.expected_visuals(number)))
                self._answers[family.expected_sent(number, key), shown] = answer
        self.bodies: list[Mapping[str, Any]] = []
        self.strange: list[Key] = []
        self._times: dict[Key, int] = {}
        self._lock = threading.Lock()

    def __call__(self, _: str, body: Mapping[str, Any]) -> str:
        asked = key_of(body)
        with self._lock:
            self.bodies.append(body)
            if asked not in self._answers:
                self.strange.append(asked)
                return "?"
            turn = self._times.setdefault(asked, 0)
            self._times[asked] += 1
        answer = self._answers[asked]
        return answer if isinstance(answer, str) else self._repeat(body, answer, turn)

    def _repeat(self, body: Mapping[str, Any], answers: Any, turn: int) -> str:
        """Repeats differ in their seed and may come in any order."""
        seed = body.get("seed")
        return str(answers[turn if seed is None else int(seed) % len(answers)])


def own_file(family: Family, folder: Path, **more: Any) -> Path:
    """A file beside the made documents that includes the family's and points it at them."""
    path = folder / f"{family.task}.yaml"
    told = {"include": str(TASKS / family.file), **redirected(family, folder), **more}
    path.write_text(yaml.safe_dump(told), encoding="utf-8")
    return path


def settings_in(folder: Path) -> Settings:
    return Settings(cache=folder / "cache", results=folder / "results", include_path=(TASKS,))


def run(family: Family, folder: Path, key: str = "", **more: Any) -> tuple[Any, Script]:
    """What `evaluate` finds, and the script that answered; `key` names the model of the prompts."""
    script = Script(family, key=key)
    how = (("prompts_for", key),) if key else ()
    file = str(own_file(family, folder, **more))
    with running(MockServer(answers=script)) as url:
        model = f"chat/mock/parrot?base_url={url}"
        return evaluate(model, file, settings=settings_in(folder), **dict(how)), script


def values_of(info: Mapping[str, Any]) -> dict[str, Any]:
    """What the store keeps of a document, under the names of results."""
    return {
        (metric if pipeline == "none" else f"{metric},{pipeline}"): decode(text)
        for pipeline, values in info["values"].items()
        for metric, text in values.items()
    }
