"""Google: https://ai.google.dev/api/generate-content and /api/batch-api"""

from __future__ import annotations

import re
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
    read_json,
    stamp,
)

_TYPE = "type.googleapis.com/google.ai.generativelanguage.v1main"

_GENERATION = (
    "temperature", "topP", "topK", "seed", "maxOutputTokens", "stopSequences", "responseMimeType",
    "responseSchema", "responseJsonSchema", "responseLogprobs", "logprobs", "thinkingConfig",
    "candidateCount", "presencePenalty", "frequencyPenalty", "mediaResolution",
)  # fmt: skip


class GeminiServer(NativeServer):
    path = "/v1beta"
    n_thoughts = 0
    finish = "STOP"
    block_reason = ""
    has_logprobs = True

    def check_key(self, request: web.BaseRequest) -> None:
        if request.headers.get("x-goog-api-key") != KEY:
            raise Refused(
                400, "API key not valid. Please pass a valid API key.", "INVALID_ARGUMENT"
            )

    def error(self, refused: Refused) -> web.Response:
        return web.json_response({"error": _status(refused)}, status=refused.status)

    async def route(self, request: web.BaseRequest, path: str) -> tuple[str, web.StreamResponse]:
        if path == "batches" and request.method == "GET":
            self.count("list")
            return "list", web.json_response(self.listed(request))
        if path.startswith("batches/") and request.method == "GET":
            self.count("look")
            return "look", web.json_response(self.operation(self.find_batch(path)))
        model, _, method = path.removeprefix("models/").partition(":")
        if (
            request.method == "POST"
            and path.startswith("models/")
            and not model.startswith("gemini")
        ):
            raise Refused(404, f"models/{model} is not found for API version v1beta", "NOT_FOUND")
        if request.method == "POST" and method == "generateContent":
            self.count("ask")
            body = await read_json(request)
            reply = self.answer(body, model)
            self.bodies.append(body)
            return "ask", web.json_response(reply)
        if request.method == "POST" and method == "batchGenerateContent":
            self.count("create")
            return "create", web.json_response(self.create(await read_json(request), model))
        raise Refused(404, f"no such path: {path}", "NOT_FOUND")

    def create(self, body: Json, model: str) -> Json:
        _google("", body, "batch")
        batch = _google("batch", body["batch"], "displayName", "inputConfig", "priority", "model")
        if not batch.get("displayName"):
            raise Refused(400, "batch.displayName is required", "INVALID_ARGUMENT")
        source = _google("batch.input_config", batch["inputConfig"], "requests", "fileName")
        rows = []
        for row in _google("requests", source["requests"], "requests")["requests"]:
            _google("batch.input_config.requests", row, "request", "metadata")
            _google("metadata", row["metadata"], "key")
            rows.append((row["metadata"]["key"], {**row["request"], "model": f"models/{model}"}))
        return self.operation(self.new_batch("batches/", batch["displayName"], rows))

    def listed(self, request: web.BaseRequest) -> Json:
        size, start = (
            int(request.query.get("pageSize", "50")),
            int(request.query.get("pageToken", "0")),
        )
        newest = list(reversed(self.batches.values()))
        page: Json = {
            "operations": [self.operation(batch) for batch in newest[start : start + size]]
        }
        return page | ({"nextPageToken": str(start + size)} if len(newest) > start + size else {})

    def operation(self, batch: SubmittedBatch) -> Json:
        states = {"running": "RUNNING", "ended": "SUCCEEDED"}
        state = states.get(batch.state, batch.state.upper())
        is_done, n = batch.state != "running", len(batch.keys)
        stats: Json = {"requestCount": str(n)}
        stats |= {"successfulRequestCount": str(n)} if is_done else {"pendingRequestCount": str(n)}
        model = batch.bodies[0]["model"]
        operation: Json = {
            "name": batch.id,
            "metadata": {
                "@type": f"{_TYPE}.GenerateContentBatch",
                "model": model, "displayName": batch.name, "name": batch.id,
                "createTime": stamp(batch.made_at), "batchStats": stats,
                "state": f"BATCH_STATE_{state}",
            },
        }  # fmt: skip
        if batch.state == "ended":
            rows = zip(batch.keys, batch.bodies, self.fates(batch), strict=True)
            inlined = [self.result(key, body, fate) for key, body, fate in rows]
            operation |= {
                "done": True,
                "response": {
                    "@type": f"{_TYPE}.GenerateContentBatchOutput",
                    "inlinedResponses": {"inlinedResponses": inlined},
                },
            }
        elif is_done:
            operation |= {"done": True, "error": {"code": 13, "message": f"batch {batch.state}"}}
        return operation

    def result(self, key: str, body: Json, fate: str) -> Json:
        metadata = {"metadata": {"key": key}}
        model = body["model"].removeprefix("models/")
        request = {name: value for name, value in body.items() if name != "model"}
        try:
            if fate == "refused":
                return {
                    "response": {
                        "promptFeedback": {"blockReason": "SAFETY"},
                        "usageMetadata": {"promptTokenCount": 7, "totalTokenCount": 7},
                        "modelVersion": model,
                    },
                    **metadata,
                }
            if fate != "succeeded":
                raise Refused(500, "Internal error encountered.", "INTERNAL")
            return {"response": self.answer(request, model), **metadata}
        except Refused as refused:
            return {"error": {"code": 13, "message": refused.text}, **metadata}

    def answer(self, body: Json, model: str) -> Json:
        words = check_gemini(body, model)
        if self.block_reason:
            return {
                "promptFeedback": {"blockReason": self.block_reason},
                "usageMetadata": {"promptTokenCount": 7, "totalTokenCount": 7},
                "modelVersion": model,
            }
        config = body.get("generationConfig", {})
        if config.get("responseLogprobs") and not self.has_logprobs:
            raise Refused(400, f"Logprobs is not enabled for models/{model}", "INVALID_ARGUMENT")
        text = self.say(words)
        n_in = sum(
            TOKENS_OF_IMAGE if "inlineData" in part else 1 + len(part["text"]) // 4
            for content in body["contents"]
            for part in content["parts"]
        )
        n_out = 1 + len(text) // 4
        parts: list[Json] = [{"text": text}] if text else []
        if self.n_thoughts and config.get("thinkingConfig", {}).get("includeThoughts"):
            parts.insert(0, {"text": "It has a ring.", "thought": True})
        candidate: Json = {"index": 0, "finishReason": self.finish}
        candidate |= {"content": {"role": "model", "parts": parts}} if parts else {}
        if config.get("responseLogprobs"):
            rows = [{"token": text, "tokenId": 1, "logProbability": -0.25}]
            rivals = [*rows, {"token": "B", "tokenId": 2, "logProbability": -1.5}]
            candidate["logprobsResult"] = {
                "chosenCandidates": rows,
                "topCandidates": [{"candidates": rivals[: config.get("logprobs", 1)]}],
            }
        usage = {"promptTokenCount": n_in, "candidatesTokenCount": n_out}
        usage |= {"thoughtsTokenCount": self.n_thoughts} if self.n_thoughts else {}
        return {
            "candidates": [candidate],
            "usageMetadata": {**usage, "totalTokenCount": sum(usage.values())},
            "modelVersion": model,
            "responseId": "r1",
        }


def _status(refused: Refused) -> Json:
    error: Json = {"code": refused.status, "message": refused.text, "status": refused.kind}
    if wait := refused.headers.get("retry_delay"):
        error["details"] = [
            {"@type": "type.googleapis.com/google.rpc.QuotaFailure",
             "violations": [{"quotaId": refused.headers.get("quota", "PerMinute")}]},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": wait},
        ]  # fmt: skip
    return error


def _google(where: str, block: Any, *known: str) -> Json:
    if not isinstance(block, dict):
        raise Refused(400, f"Invalid value at '{where}'", "INVALID_ARGUMENT")
    for key in block:
        if key not in known:
            text = f"Unknown name \"{key}\" at '{where}': Cannot find field."
            raise Refused(400, text, "INVALID_ARGUMENT")
    return block


def check_gemini(body: Json, model: str) -> str:
    _google(
        "",
        body,
        "contents",
        "systemInstruction",
        "generationConfig",
        "safetySettings",
        "cachedContent",
    )
    if not body.get("contents"):
        raise Refused(400, "contents is not specified", "INVALID_ARGUMENT")
    if "systemInstruction" in body:
        _google("system_instruction", body["systemInstruction"], "role", "parts")
    for content in body["contents"]:
        _google("contents", content, "role", "parts")
        if content.get("role", "user") not in ("user", "model"):
            raise Refused(400, "Please use a valid role: user, model.", "INVALID_ARGUMENT")
        for part in content["parts"]:
            _google("contents.parts", part, "text", "inlineData", "thought", "mediaResolution")
            if len({"text", "inlineData"} & set(part)) != 1:
                raise Refused(400, "part: one of text, inlineData", "INVALID_ARGUMENT")
            if "inlineData" in part:
                blob = _google("inline_data", part["inlineData"], "mimeType", "data")
                check_image(blob.get("data"), blob.get("mimeType"))
    _check_generation(body.get("generationConfig", {}), model)
    return "\n".join(part["text"] for part in body["contents"][-1]["parts"] if "text" in part)


def _check_generation(config: Json, model: str) -> None:
    _google("generation_config", config, *_GENERATION)
    if "responseJsonSchema" in config and config.get("responseMimeType") != "application/json":
        raise Refused(
            400, "responseJsonSchema needs responseMimeType application/json", "INVALID_ARGUMENT"
        )
    if len(config.get("stopSequences", ())) > 5:
        raise Refused(400, "at most 5 stop sequences", "INVALID_ARGUMENT")
    if "logprobs" in config and not config.get("responseLogprobs"):
        raise Refused(400, "logprobs needs responseLogprobs", "INVALID_ARGUMENT")
    thinking = _google(
        "thinking_config",
        config.get("thinkingConfig", {}),
        "thinkingBudget",
        "thinkingLevel",
        "includeThoughts",
    )
    if {"thinkingBudget", "thinkingLevel"} <= set(thinking):
        raise Refused(
            400, "thinking_budget and thinking_level are mutually exclusive", "INVALID_ARGUMENT"
        )
    if thinking and re.match(r"gemini-(1|2\.0)", model):
        raise Refused(400, "Thinking is not enabled for this model", "INVALID_ARGUMENT")
    if "thinkingLevel" in thinking:
        if model.startswith("gemini-2.5"):
            raise Refused(
                400, "Thinking level is not supported for this model.", "INVALID_ARGUMENT"
            )
        if thinking["thinkingLevel"] not in (
            "MINIMAL",
            "LOW",
            "MEDIUM",
            "HIGH",
            "minimal",
            "low",
            "medium",
            "high",
        ):
            raise Refused(400, "Invalid value at 'thinking_level'", "INVALID_ARGUMENT")
    if "thinkingBudget" in thinking:
        least, most = (128, 32_768) if "pro" in model else (0, 24_576)
        if not (least <= thinking["thinkingBudget"] <= most or thinking["thinkingBudget"] == -1):
            raise Refused(
                400,
                f"The thinking budget is invalid: choose a value between {least} and {most}.",
                "INVALID_ARGUMENT",
            )
