"""Mock server: a chat model that needs no key, no network and no GPU, over HTTP on loopback.

It speaks /v1/chat/completions, and fails in all the ways real endpoints do when its script says so.
`fieldmark demo` and the tests use it; so can anyone who wants a run rehearsed. What it answers is
decided in `answers`.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from aiohttp import web

from fieldmark import draws
from fieldmark.chat.messages import MOST_SENT
from fieldmark.chat.mock.answers import (
    Answers,
    MockScript,
    MockVision,
    PromptView,
    ScriptedAnswers,
    are_yes_no,
    max_tokens_of,
    phrase_answer,
    read_answers,
    read_prompt,
    token_logprobs,
    truncate,
)
from fieldmark.chat.send.options import Labels
from fieldmark.files import hash_bytes

# --- Mock builder: what does the mock model say when it is asked for descriptions and captions?
# So that `describe` and `caption` can be rehearsed from names to shards without a network. It
# knows two prompts. By a schema with `spans`: numbered sentences, of which it quotes those that
# name a part or a colour; `skill` is the share it decides so, the others it decides wrongly. By a
# line `Species: NAME` and no schema: a photo, about which it says one sentence made of the name
# and of words that stand below it. `p_invent` of its answers are not what was asked for: a quote
# that stands in no sentence, a caption without the name, or one that is too long. All is drawn
# from the prompt, so that it is the same in any order.

SPECIES = "Species: "
_SPECIES = re.compile(rf"^{SPECIES}(.+)$", re.MULTILINE)
_NUMBERED = re.compile(r"^(\d+)\. (.+)$", re.MULTILINE)
_SENTENCES = "Sentences:\n"
_COLOURS = (
    "black|white|grey|gray|brown|red|pink|orange|yellow|green|blue|violet|purple|olive|dark|pale"
)
_PARTS = (
    "head|crest|eyes?|ears?|bill|beak|neck|throat|breast|back|belly|wings?|tail|legs?|fins?|shell|"
    "abdomen|antennae|coat|fur|plumage|skin|horns?|leaf|leaves|stems?|bark|flowers?|petals|fruits?|"
    "cap|gills|body|spots|stripes|bands|scales|spines"
)
_LOOK = re.compile(rf"\b(?:{_COLOURS}|{_PARTS})\b", re.IGNORECASE)
_MARK = re.compile(rf"\b(?:{_COLOURS}|long|short|broad|round|pointed) (?:{_PARTS})\b", re.I)
_INVENTED = "The wings shimmer in seven colours."
_PLAIN = ("with a slender outline", "with a rounded outline", "with an upright outline")


def may_be_builder(settings: Mapping[str, Any], data: bytes) -> bool:
    """Could this body be a prompt of the builder? `settings` is what stands beside its messages."""
    form = (settings.get("response_format") or {}).get("json_schema") or {}
    schema = form.get("schema") or {}
    return "spans" in (schema.get("properties") or {}) or (not schema and SPECIES.encode() in data)


def build_answer(view: PromptView, script: MockScript, who: str) -> str | None:
    """The answer to a prompt of the builder, None to others; `who` stands for its pictures."""
    if "spans" in ((view.schema or {}).get("properties") or {}):
        return _quotes(view, script)
    names = _SPECIES.findall(view.words)
    if view.schema is not None or not names:
        return None
    below = view.words[view.words.rindex(f"{SPECIES}{names[-1]}") :]
    return _caption(names[-1].strip(), below, script, who)


def _luck(script: MockScript, *parts: object) -> float:
    return draws.number(script.seed, *parts) / 2**64


def _quotes(view: PromptView, script: MockScript) -> str:
    """The sentences that name a part or a colour."""
    block = view.words.rpartition(_SENTENCES)[2].partition("\n\n")[0]
    sentences = _NUMBERED.findall(block)
    spans = [
        {"sentence": int(number), "quote": sentence}
        for number, sentence in sentences
        if bool(_LOOK.search(sentence)) == (_luck(script, sentence, "keep") < script.skill)
    ]
    if _luck(script, view.words, "invent") < script.p_invent:
        spans.append({"sentence": 1, "quote": _INVENTED})
    return json.dumps({"spans": spans}, ensure_ascii=False)


def _caption(name: str, below: str, script: MockScript, who: str) -> str:
    """One sentence with the name and marks of the text below it."""
    marks = sorted({mark.lower() for mark in _MARK.findall(below)})
    chosen = draws.shuffled(marks, script.seed, who, "marks")[:3]
    parts = f"with {_listed(chosen)}" if chosen else _drawn(_PLAIN, script, who)
    if _luck(script, who, below, "invent") < script.p_invent:
        return _drawn((f"An animal {parts}.", f"{name} {parts}, {', '.join([parts] * 8)}."),
                      script, who)  # fmt: skip
    return f"{name} {parts}."


def _listed(features: Sequence[str]) -> str:
    return " and ".join([", ".join(features[:-1]), features[-1]] if len(features) > 1 else features)


def _drawn(options: Sequence[str], script: MockScript, who: str) -> str:
    return options[draws.number(script.seed, who, "builder") % len(options)]


# --- the server


FAULTS = ("429", "500", "cut", "junk", "error_body")
"""each with the probability p_… of the script"""
_MOST_BYTES = 1 << 30
_CUT_OFF = 12
"""characters left of an answer that ran out of tokens"""


class MockServer:
    """An in-process server; `start` gives its base URL.

    `answers` says what it answers: a mapping as in `MockScript.answers`, or a function of the last
    question's text and the body, whose None is answered as ever.
    """

    def __init__(
        self,
        script: MockScript | None = None,
        labels: Labels | None = None,
        answers: Answers | None = None,
    ) -> None:
        self.script = script or MockScript()
        self.n_requests = self.in_flight = 0
        scripted = answers if answers is not None else read_answers(self.script.answers)
        self._scripted = ScriptedAnswers(scripted)
        self.asked: Counter[str] = Counter()
        """body → how many times it came; kept only where the script has faults or records"""
        self.is_recording = self.script.p_faults > 0
        self._vision = MockVision(labels or {})
        self._runner: web.ServerRunner | None = None

    async def start(self, port: int = 0) -> str:
        server = web.Server(self._handle)
        self._runner = web.ServerRunner(server, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port)
        await site.start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path.endswith("/models"):
            return web.json_response({"object": "list", "data": [{"id": "mock"}]})
        if not request.path.endswith("/chat/completions"):
            return _error(404, "no such path")
        request._client_max_size = _MOST_BYTES
        self.n_requests += 1
        self.in_flight += 1
        try:
            return await self._answer(request, await request.read())
        finally:
            self.in_flight -= 1

    async def _answer(self, request: web.BaseRequest, data: bytes) -> web.StreamResponse:
        digest = hash_bytes(data).hex() if self.is_recording else ""
        time_asked = self.asked[digest]
        if digest:
            self.asked[digest] += 1
        limit = self.script.max_in_flight
        if limit is not None and self.in_flight > limit:
            return self._fail(request, "429")
        if self.script.latency_s:
            await asyncio.sleep(self.script.latency_s)
        if fault := self._fault(digest, time_asked):
            return self._fail(request, fault)
        if refusal := self._refusal(settings_of(data)):
            return _error(400, refusal)
        reply = self.reply(data, digest)
        if self._luck(digest, time_asked, "drip") < self.script.p_drip:
            return await self._drip(request, json.dumps(reply).encode())
        return web.Response(body=json.dumps(reply).encode(), content_type="application/json")

    def _refusal(self, body: dict[str, Any]) -> str:
        """Why an endpoint would not take these settings."""
        stops = body.get("stop")
        if isinstance(stops, list) and len(stops) > MOST_SENT:
            return f"'stop' has {len(stops)} strings, at most {MOST_SENT} are allowed"
        if body.get("logprobs") and not self.script.logprobs:
            return "logprobs are not supported by this model"
        return ""

    def reply(self, data: bytes, digest: str = "") -> dict[str, Any]:
        """A chat completion for a body."""
        body, view = settings_of(data), PromptView((), "")
        if self._vision.labels or self._scripted.answers or body.get("logprobs"):
            body = json.loads(data)
            view = read_prompt(body)
        text = self._scripted.find(view, body)
        if text is None and not self._vision.labels and may_be_builder(body, data):
            seen = read_prompt(json.loads(data), with_pictures=False)
            digest = digest or hash_bytes(data).hex()
            text = build_answer(seen, self.script, digest)
            view = view if text is None else seen
        if text is None:
            text = phrase_answer(self._vision.choose(view, self.script), view, self.script)
        who = "+".join(view.pictures) or digest
        if self._luck(who, 0, "unclear") < self.script.p_unclear:
            text = "I cannot tell."
        text, finish = truncate(text, body)
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if self._luck(who, 0, "refuse") < self.script.p_refuse:
            message |= {"content": None, "refusal": "I'm sorry, I can't help with that."}
        elif self._luck(who, 0, "length") < self.script.p_length:
            message["content"], finish = text[:_CUT_OFF], "length"
        choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": finish}
        if body.get("logprobs"):
            offered = self._vision.offered(view)
            marks = [letter for letter, _ in offered if letter]
            marks = [name for _, name in offered] if are_yes_no(offered) else marks
            written = str(message["content"] or "")
            choice["logprobs"] = token_logprobs(written, marks, body, self.script)
        tokens = self._tokens(data, view, text, max_tokens_of(body))
        return {
            "id": f"mock-{self.n_requests}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": body.get("model", "mock"),
            "system_fingerprint": f"mock-{self.script.seed}",
            "choices": [choice],
            **({"usage": tokens} if self.script.usage else {}),
        }

    def _tokens(self, data: bytes, view: PromptView, text: str, most: int) -> dict[str, int]:
        n_images = len(view.pictures) or data.count(b'"image_url":{"url"')
        tokens_in = 8 + len(view.text) // 4 + n_images * self.script.tokens_per_image
        tokens_out = min(most, max(1, len(text) // 4))
        return {
            "prompt_tokens": tokens_in,
            "completion_tokens": tokens_out,
            "total_tokens": tokens_in + tokens_out,
        }

    def _fault(self, digest: str, time_asked: int) -> str:
        """Which fault this request meets; "" = none."""
        if not self.script.p_faults:
            return ""
        luck = self._luck(digest, time_asked, "fault")
        for fault in FAULTS:
            luck -= getattr(self.script, f"p_{fault}")
            if luck < 0:
                return fault
        return ""

    def _luck(self, *parts: object) -> float:
        return draws.number(self.script.seed, *parts) / 2**64

    def _fail(self, request: web.BaseRequest, fault: str) -> web.Response:
        if fault == "429":
            wait_s = self.script.retry_after_s
            headers = {} if wait_s is None else {"Retry-After": f"{wait_s}"}
            return _error(429, "too many requests", headers)
        if fault == "500":
            return _error(500, "something broke")
        if fault == "junk":
            return web.Response(body=b"<html>502 upstream</html>", content_type="text/html")
        if fault == "error_body":
            return web.json_response({"error": {"code": 429, "message": "upstream is busy"}})
        if request.transport is not None:  # cut
            request.transport.abort()
        return web.Response()

    async def _drip(self, request: web.BaseRequest, data: bytes) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for start in range(0, len(data), 16):
            await response.write(data[start : start + 16])
            await asyncio.sleep(self.script.drip_s * 16 / len(data))
        return response


def _error(status: int, text: str, headers: dict[str, str] | None = None) -> web.Response:
    body = {"error": {"message": text, "code": status}}
    return web.json_response(body, status=status, headers=headers)


def settings_of(data: bytes) -> dict[str, Any]:
    """What stands beside the messages; our own bodies have it first, before any picture."""
    end = data.find(b',"messages":[')
    try:
        body = json.loads(data[:end] + b"}") if end > 0 else json.loads(data)
    except ValueError:
        body = json.loads(data)
    return {name: value for name, value in body.items() if name != "messages"}
