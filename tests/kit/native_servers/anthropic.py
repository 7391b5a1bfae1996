"""Anthropic: https://platform.claude.com/docs/en/api/messages and /messages-batches"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from kit.native_servers.base import (
    KEY,
    TOKENS_OF_IMAGE,
    Json,
    NativeServer,
    Refused,
    SubmittedBatch,
    check_image,
    jsonl,
    only,
    read_json,
    stamp,
)

_BUDGET_THINKERS = re.compile(r"claude-(3|(opus|sonnet|haiku)-4(-[0-5])?(-\d{8})?$)")
_NO_SAMPLING = re.compile(r"claude-(opus-4-[78]|(opus|sonnet|fable|mythos)-5)")
_TOP = (
    "model", "max_tokens", "messages", "system", "temperature", "top_p", "top_k", "stop_sequences",
    "thinking", "output_config", "metadata", "service_tier", "stream", "cache_control",
)  # fmt: skip
_NOT_IN_SCHEMAS = (
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength",
    "maxLength", "maxItems", "uniqueItems",
)  # fmt: skip


class AnthropicServer(NativeServer):
    thoughts = ""
    """words of thinking, where it is on"""
    stop_reason = ""
    usage: Mapping[str, Any] | None = None

    def check_key(self, request: web.BaseRequest) -> None:
        if request.headers.get("x-api-key") != KEY:
            raise Refused(401, "invalid x-api-key", "authentication_error")
        if "anthropic-version" not in request.headers:
            raise Refused(400, "anthropic-version: header is required", "invalid_request_error")

    def error(self, refused: Refused) -> web.Response:
        body = {
            "type": "error", "error": {"type": refused.kind, "message": refused.text},
            "request_id": "req_1",
        }  # fmt: skip
        return web.json_response(body, status=refused.status, headers=refused.headers)

    async def route(self, request: web.BaseRequest, path: str) -> tuple[str, web.StreamResponse]:
        if (request.method, path) == ("POST", "messages"):
            self.count("ask")
            body = await read_json(request)
            reply = self.answer(body)
            self.bodies.append(body)
            return "ask", web.json_response(reply)
        if (request.method, path) == ("POST", "messages/batches"):
            self.count("create")
            return "create", web.json_response(self.create(await read_json(request)))
        if (request.method, path) == ("GET", "messages/batches"):
            self.count("list")
            return "list", web.json_response(self.listed(request))
        name, _, rest = path.removeprefix("messages/batches/").partition("/")
        if request.method == "GET" and rest == "results":
            self.count("results")
            return "results", self.results(self.find_batch(name))
        if request.method == "GET" and not rest:
            self.count("look")
            return "look", web.json_response(self.facts(self.find_batch(name), request))
        raise Refused(404, f"no such path: {path}", "not_found_error")

    def create(self, body: Json) -> Json:
        only("body", body, "requests", required=["requests"])
        rows = []
        for number, row in enumerate(body["requests"]):
            only(f"requests.{number}", row, "custom_id", "params", required=["custom_id", "params"])
            if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", row["custom_id"]):
                raise Refused(
                    400, f"requests.{number}.custom_id: bad pattern", "invalid_request_error"
                )
            rows.append((row["custom_id"], row["params"]))
        if not 1 <= len(rows) <= 100_000:
            raise Refused(400, "requests: 1 to 100,000 are taken", "invalid_request_error")
        return self.facts(self.new_batch("msgbatch_", "", rows), None)

    def facts(self, batch: SubmittedBatch, request: web.BaseRequest | None) -> Json:
        is_ended = batch.state != "running"
        counts = Counter(self.fates(batch) if is_ended else ["processing"] * len(batch.keys))
        counts["succeeded"] += counts.pop("refused", 0)
        host = f"http://{request.host}" if request is not None else ""
        url = f"{host}{self.path}/messages/batches/{batch.id}/results"
        return {
            "id": batch.id, "type": "message_batch", "created_at": stamp(batch.made_at),
            "processing_status": "ended" if is_ended else "in_progress",
            "request_counts": {
                name: counts[name]
                for name in ("processing", "succeeded", "errored", "canceled", "expired")
            },
            "ended_at": stamp(time.time()) if is_ended else None,
            "expires_at": stamp(batch.made_at + 86_400), "archived_at": None,
            "cancel_initiated_at": None, "results_url": url if is_ended else None,
        }  # fmt: skip

    def listed(self, request: web.BaseRequest) -> Json:
        newest = list(reversed(self.batches.values()))
        limit = int(request.query.get("limit", "20"))
        if after := request.query.get("after_id"):
            newest = newest[[batch.id for batch in newest].index(after) + 1 :]
        page = newest[:limit]
        return {
            "data": [self.facts(batch, request) for batch in page],
            "has_more": len(newest) > limit,
            "first_id": page[0].id if page else None, "last_id": page[-1].id if page else None,
        }  # fmt: skip

    def results(self, batch: SubmittedBatch) -> web.Response:
        if batch.state == "running":
            raise Refused(404, "results are not ready", "not_found_error")
        lines = []
        rows = zip(batch.keys, batch.bodies, self.fates(batch), strict=True)
        for key, body, fate in reversed(list(rows)):  # in no order
            result: Json = {"type": fate}
            try:
                if fate in ("succeeded", "refused"):
                    result = {"type": "succeeded", "message": self.answer(body, fate == "refused")}
                elif fate == "errored":
                    raise Refused(500, "Internal server error", "api_error")
            except Refused as refused:
                error = {"type": refused.kind, "message": refused.text}
                result = {"type": "errored", "error": {"type": "error", "error": error}}
            lines.append({"custom_id": key, "result": result})
        return jsonl(lines)

    def answer(self, body: Json, is_refused: bool = False) -> Json:
        words = check_anthropic(body)
        thinks = body.get("thinking", {}).get("type") in ("enabled", "adaptive")
        text = "" if is_refused else self.say(words)
        content: list[Json] = [{"type": "text", "text": text}] if text else []
        if thinks and self.thoughts:
            content.insert(0, {"type": "thinking", "thinking": self.thoughts, "signature": "x"})
        return {
            "id": "msg_1", "type": "message", "role": "assistant", "model": body["model"],
            "content": content, "stop_sequence": None,
            "stop_reason": "refusal" if is_refused else self.stop_reason or "end_turn",
            "usage": self.usage or self.tokens(body, text),
        }  # fmt: skip

    def tokens(self, body: Json, text: str) -> Json:
        """Blocks up to the last breakpoint are written to the cache, or read from it."""
        blocks = _system_blocks(body) + [
            block for message in body["messages"] for block in _blocks(message["content"])
        ]
        costs = [
            TOKENS_OF_IMAGE if block["type"] == "image" else 1 + len(block["text"]) // 4
            for block in blocks
        ]
        marks = [n for n, block in enumerate(blocks) if "cache_control" in block]
        shared = marks[-1] + 1 if marks else 0
        prefix = json.dumps([body["model"], blocks[:shared]])
        is_known, n_shared = prefix in self._prefixes, sum(costs[:shared])
        if shared:
            self._prefixes.add(prefix)
        return {
            "input_tokens": sum(costs[shared:]),
            "cache_creation_input_tokens": 0 if is_known else n_shared,
            "cache_read_input_tokens": n_shared if is_known else 0,
            "output_tokens": 1 + (len(text) + len(self.thoughts)) // 4,
        }


def _blocks(content: Any) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _system_blocks(body: Json) -> list[Json]:
    return _blocks(body["system"]) if "system" in body else []


def check_anthropic(body: Json) -> str:
    """The words of the last question; raises what the vendor would not take."""
    only("body", body, *_TOP, required=["model", "max_tokens", "messages"])
    model, room = body["model"], body["max_tokens"]
    if not isinstance(room, int) or room < 1:
        _bad("max_tokens: must be at least 1")
    if not str(model).startswith("claude-"):
        raise Refused(404, f"model: {model}", "not_found_error")
    if not body["messages"]:
        _bad("messages: at least one message is required")
    for number, message in enumerate(body["messages"]):
        only(f"messages.{number}", message, "role", "content", required=["role", "content"])
        if message["role"] not in ("user", "assistant"):
            _bad(
                f'messages: Unexpected role "{message["role"]}". The Messages API accepts a '
                "top-level `system` parameter"
            )
        for block in _blocks(message["content"]):
            _check_block(block)
    marks = sum(
        "cache_control" in block
        for block in _system_blocks(body)
        + [block for message in body["messages"] for block in _blocks(message["content"])]
    )
    if marks > 4:
        _bad(f"A maximum of 4 blocks with cache_control may be provided. Found {marks}.")
    _check_sampling(body, model)
    _check_thinking(body, model, room)
    _check_output(body, model)
    last = body["messages"][-1]
    return "\n".join(b["text"] for b in _blocks(last["content"]) if b["type"] == "text")


def _bad(text: str) -> None:
    raise Refused(400, text, "invalid_request_error")


def _check_block(block: Any) -> None:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "text":
        only("content.text", block, "type", "text", "cache_control", required=["text"])
        if not block["text"].strip():
            _bad("messages: text content blocks must contain non-whitespace text")
    elif kind == "image":
        only("content.image", block, "type", "source", "cache_control", required=["source"])
        source = only("source", block["source"], "type", "media_type", "data", required=["type"])
        if source["type"] != "base64":
            _bad("source.type: Input tag should be base64 here")
        check_image(source.get("data"), source.get("media_type"))
    else:
        _bad(f"content.type: Input tag {kind!r} does not match any of the expected tags")
    if block.get("cache_control", {"type": "ephemeral"}) not in (
        {"type": "ephemeral"},
        {"type": "ephemeral", "ttl": "5m"},
        {"type": "ephemeral", "ttl": "1h"},
    ):
        _bad("cache_control: malformed")


def _check_sampling(body: Json, model: str) -> None:
    for name in ("temperature", "top_p"):
        if name in body and _NO_SAMPLING.match(model):
            _bad(f"`{name}` is deprecated for this model.")
        if name in body and not 0 <= body[name] <= 1:
            _bad(f"{name}: range: 0..1")
    for text in body.get("stop_sequences", ()):
        if not text.strip():
            _bad("stop_sequences: each stop sequence must contain non-whitespace")


def _check_thinking(body: Json, model: str, room: int) -> None:
    thinking = body.get("thinking")
    if thinking is None:
        return
    only("thinking", thinking, "type", "budget_tokens", "display", required=["type"])
    kind = thinking["type"]
    is_old = bool(_BUDGET_THINKERS.match(model))
    if kind == "disabled":
        return
    if kind == "adaptive":
        only("thinking", thinking, "type", "display")
        if is_old:
            _bad("adaptive thinking is not supported on this model")
    elif kind == "enabled":
        if _NO_SAMPLING.match(model):
            _bad(
                '"thinking.type.enabled" is not supported for this model. Use '
                '"thinking.type.adaptive" and "output_config.effort" to control thinking behavior.'
            )
        budget = thinking.get("budget_tokens", 0)
        if budget < 1024:
            _bad("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
        if budget >= room:
            _bad("`max_tokens` must be greater than `thinking.budget_tokens`.")
    else:
        _bad(f"thinking: Input tag {kind!r} found does not match any of the expected tags")
    if body.get("temperature", 1) != 1:
        _bad("`temperature` may only be set to 1 when thinking is enabled.")


def _check_output(body: Json, model: str) -> None:
    output = body.get("output_config")
    if output is None:
        return
    only("output_config", output, "effort", "format")
    if "effort" in output:
        if _BUDGET_THINKERS.match(model) and "opus-4-5" not in model:
            _bad("This model does not support the effort parameter.")
        if output["effort"] not in ("low", "medium", "high", "xhigh", "max"):
            _bad("output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'")
    if "format" in output:
        only(
            "output_config.format", output["format"], "type", "schema", required=["type", "schema"]
        )
        if re.match(r"claude-(3|(opus|sonnet)-4(-[01])?(-\d{8})?$)", model):
            _bad(f"'{model}' does not support output format.")
        _check_schema(output["format"]["schema"])


def _check_schema(schema: Any) -> None:
    if not isinstance(schema, dict):
        return
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        _bad(
            "output_config.format.schema: For 'object' type, 'additionalProperties' must be "
            "explicitly set to false"
        )
    bad = [name for name in _NOT_IN_SCHEMAS if name in schema]
    if bad:
        _bad(
            f"output_config.format.schema: For '{schema.get('type')}' type, properties "
            f"{', '.join(bad)} are not supported"
        )
    for inner in [*schema.get("properties", {}).values(), schema.get("items")]:
        _check_schema(inner)
