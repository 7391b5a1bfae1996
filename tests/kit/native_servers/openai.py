"""OpenAI: https://platform.openai.com/docs/api-reference/batch"""

from __future__ import annotations

import json
from collections.abc import Callable

from aiohttp import web

from kit.native_servers.base import (
    KEY,
    TOKENS_OF_IMAGE,
    Json,
    NativeServer,
    Refused,
    SubmittedBatch,
    jsonl,
    only,
    read_json,
)

_CHAT = (
    "model", "messages", "max_tokens", "max_completion_tokens", "temperature", "top_p", "seed",
    "stop", "response_format", "logprobs", "top_logprobs", "reasoning_effort", "user",
)  # fmt: skip


class OpenAIServer(NativeServer):
    def __init__(self, say: Callable[[str], str] | None = None) -> None:
        super().__init__(say)
        self.files: dict[str, bytes] = {}

    def check_key(self, request: web.BaseRequest) -> None:
        if request.headers.get("Authorization") != f"Bearer {KEY}":
            raise Refused(401, "Incorrect API key provided: a-k***789.", "invalid_request_error")

    def error(self, refused: Refused) -> web.Response:
        error = {"message": refused.text, "type": refused.kind, "param": None, "code": None}
        return web.json_response({"error": error}, status=refused.status)

    async def route(self, request: web.BaseRequest, path: str) -> tuple[str, web.StreamResponse]:
        if (request.method, path) == ("POST", "chat/completions"):
            self.count("ask")
            body = await read_json(request)
            reply = self.answer(body)
            self.bodies.append(body)
            return "ask", web.json_response(reply)
        if (request.method, path) == ("POST", "files"):
            self.count("upload")
            return "upload", web.json_response(await self.upload(request))
        if (request.method, path) == ("POST", "batches"):
            self.count("create")
            return "create", web.json_response(self.create(await read_json(request)))
        if (request.method, path) == ("GET", "batches"):
            self.count("list")
            return "list", web.json_response(self.listed(request))
        if request.method == "GET" and path.startswith("batches/"):
            self.count("look")
            return "look", web.json_response(self.facts(self.find_batch(path[8:])))
        if request.method == "GET" and path.startswith("files/") and path.endswith("/content"):
            self.count("content")
            return "content", self.content(path.split("/")[1])
        raise Refused(
            404, f"Invalid URL ({request.method} {request.path})", "invalid_request_error"
        )

    async def upload(self, request: web.BaseRequest) -> Json:
        if request.content_type != "multipart/form-data":
            raise Refused(400, "'file' is a required property", "invalid_request_error")
        fields: dict[str, bytes] = {}
        async for part in await request.multipart():
            fields[part.name] = bytes(await part.read())  # type: ignore[union-attr,index]
        if set(fields) != {"purpose", "file"} or fields["purpose"] != b"batch":
            raise Refused(400, "purpose and file are required", "invalid_request_error")
        name = f"file-{next(self._numbers)}"
        self.files[name] = fields["file"]
        return {"id": name, "object": "file", "bytes": len(fields["file"]), "purpose": "batch"}

    def create(self, body: Json) -> Json:
        known = ("input_file_id", "endpoint", "completion_window", "metadata")
        only("body", body, *known, required=known[:3])
        if body["endpoint"] != "/v1/chat/completions" or body["completion_window"] != "24h":
            raise Refused(400, "Invalid endpoint or completion_window", "invalid_request_error")
        for key, value in body.get("metadata", {}).items():
            if len(key) > 64 or not isinstance(value, str) or len(value) > 512:
                raise Refused(400, "Invalid metadata", "invalid_request_error")
        rows = []
        for line in self.files[body["input_file_id"]].splitlines():
            row = only("line", json.loads(line), "custom_id", "method", "url", "body")
            if (row["method"], row["url"]) != ("POST", "/v1/chat/completions"):
                raise Refused(400, "line: wrong method or url", "invalid_request_error")
            rows.append((row["custom_id"], row["body"]))
        if not 1 <= len(rows) <= 50_000:
            raise Refused(400, "1 to 50,000 requests", "invalid_request_error")
        name = body.get("metadata", {}).get("fieldmark", "")
        return self.facts(self.new_batch("batch_", name, rows))

    def facts(self, batch: SubmittedBatch) -> Json:
        states = {"running": "in_progress", "ended": "completed"}
        fates = self.fates(batch) if batch.state in ("ended", "expired") else []
        good = [fate for fate in fates if fate in ("succeeded", "refused")]
        facts: Json = {
            "id": batch.id, "object": "batch", "endpoint": "/v1/chat/completions",
            "completion_window": "24h", "status": states.get(batch.state, batch.state),
            "created_at": int(batch.made_at), "metadata": {"fieldmark": batch.name},
            "input_file_id": "file-x", "errors": None,
            "output_file_id": f"out-{batch.id}" if good else None,
            "error_file_id": f"err-{batch.id}" if len(fates) > len(good) else None,
            "request_counts": {
                "total": len(batch.keys), "completed": len(good), "failed": len(fates) - len(good),
            },
        }  # fmt: skip
        if batch.state == "failed":
            problem = {"code": "token_limit_exceeded", "message": "Enqueued token limit reached."}
            facts["errors"] = {"object": "list", "data": [problem]}
        return facts

    def listed(self, request: web.BaseRequest) -> Json:
        newest = list(reversed(self.batches.values()))
        limit = int(request.query.get("limit", "20"))
        if after := request.query.get("after"):
            newest = newest[[batch.id for batch in newest].index(after) + 1 :]
        page = [self.facts(batch) for batch in newest[:limit]]
        last = page[-1]["id"] if page else None
        return {"object": "list", "data": page, "last_id": last, "has_more": len(newest) > limit}

    def content(self, name: str) -> web.Response:
        kind, _, batch_id = name.partition("-")
        batch = self.find_batch(batch_id)
        lines = []
        for key, body, fate in zip(batch.keys, batch.bodies, self.fates(batch), strict=True):
            row: Json = {
                "id": f"batch_req_{key}",
                "custom_id": key,
                "response": None,
                "error": None,
            }
            if fate == "expired":
                row["error"] = {
                    "code": "batch_expired",
                    "message": "This request could not be executed in the completion window.",
                }
            elif fate == "errored":
                error = {"error": {"message": "The server had an error", "type": "server_error"}}
                row["response"] = {"status_code": 500, "request_id": "r", "body": error}
            else:
                reply = self.answer(body, fate == "refused")
                row["response"] = {"status_code": 200, "request_id": "r", "body": reply}
            if (kind == "out") == (fate in ("succeeded", "refused")):
                lines.append(row)
        return jsonl(lines)

    def answer(self, body: Json, is_refused: bool = False) -> Json:
        only("body", body, *_CHAT, required=["model", "messages"])
        parts = [
            part
            for message in body["messages"]
            for part in (
                [{"type": "text", "text": message["content"]}]
                if isinstance(message["content"], str)
                else message["content"]
            )
        ]
        words = "\n".join(part["text"] for part in parts if part["type"] == "text")
        n_in = sum(
            TOKENS_OF_IMAGE if part["type"] == "image_url" else 1 + len(part["text"]) // 4
            for part in parts
        )
        text = self.say(words)
        message = {"role": "assistant", "content": text, "refusal": None}
        if is_refused:
            message |= {"content": None, "refusal": "I can't help with that."}
        n_out = 1 + len(text) // 4
        return {
            "id": "c1", "object": "chat.completion", "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {
                "prompt_tokens": n_in, "completion_tokens": n_out, "total_tokens": n_in + n_out,
            },
        }  # fmt: skip
