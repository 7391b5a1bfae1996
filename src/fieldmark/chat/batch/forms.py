"""Batch forms: how do OpenAI, Anthropic and Google take many questions, and give their results?

One class each. A question is a key and the body of its request, as it would be sent alone.

    https://platform.openai.com/docs/api-reference/batch
    https://platform.claude.com/docs/en/build-with-claude/batch-processing
    https://ai.google.dev/api/batch-api                                      (all read 2026-11)
"""

# ruff: noqa: ARG002 - one interface; not every provider needs to know all of it

from __future__ import annotations

import abc
import datetime
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from fieldmark.chat.batch.records import BatchRecord
from fieldmark.chat.prices import WireForm
from fieldmark.chat.send.api import as_json
from fieldmark.files import parse_json

if TYPE_CHECKING:
    from fieldmark.chat.batch.sender import EndpointCalls

BatchRow = tuple[str, Mapping[str, Any]]
"""key and body"""
BatchResults = dict[str, tuple[Mapping[str, Any] | None, Any]]
"""key → the reply, or None and the body of an error"""
_SKEW_S = 120.0
"""a provider's clock may differ by so much"""
_PAGE, _MOST_PAGES = 100, 50


@dataclass(frozen=True, slots=True)
class BatchState:
    is_ended: bool
    n_done: int
    why: str = ""
    """what became of questions without a result"""
    reply: Mapping[str, Any] = field(default_factory=dict)
    """as the provider tells it"""


class BatchForm(abc.ABC):
    most_questions: int
    most_bytes: int
    has_names = True
    """a batch can be told a name, by which it is found again"""

    @abc.abstractmethod
    async def create(
        self, calls: EndpointCalls, model_id: str, name: str, rows: Sequence[BatchRow]
    ) -> str:
        """Hands a batch in; gives its id."""

    @abc.abstractmethod
    async def find(self, calls: EndpointCalls, record: BatchRecord) -> list[str]:
        """The ids of batches that may be this one, likeliest first."""

    @abc.abstractmethod
    async def look(self, calls: EndpointCalls, batch_id: str) -> BatchState: ...

    @abc.abstractmethod
    async def results(
        self, calls: EndpointCalls, state: BatchState, record: BatchRecord
    ) -> BatchResults:
        """Of a batch that has ended; keys without a result are left out."""


class OpenAIBatch(BatchForm):
    """A file of lines is uploaded, a batch is made of it, two files of results come back."""

    most_questions, most_bytes = 50_000, 190_000_000

    async def create(
        self, calls: EndpointCalls, model_id: str, name: str, rows: Sequence[BatchRow]
    ) -> str:
        edge = f"----{name}"
        head = (
            f'--{edge}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
            f'--{edge}\r\nContent-Disposition: form-data; name="file"; '
            f'filename="{name}.jsonl"\r\nContent-Type: application/jsonl\r\n\r\n'
        )
        target = {"method": "POST", "url": "/v1/chat/completions"}
        lines = [as_json({"custom_id": key, **target, "body": body}) for key, body in rows]
        form = b"\n".join([head.encode() + lines[0], *lines[1:], f"\r\n--{edge}--\r\n".encode()])
        kind = f"multipart/form-data; boundary={edge}"
        file = await calls.post("/files", form, kind, is_safe=True)
        order = {
            "input_file_id": file["id"],
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
            "metadata": {"fieldmark": name},
        }
        return str((await calls.post("/batches", as_json(order)))["id"])

    async def find(self, calls: EndpointCalls, record: BatchRecord) -> list[str]:
        async for batch in _listed(calls, "/batches", "after"):
            if (batch.get("metadata") or {}).get("fieldmark") == record.name:
                return [str(batch["id"])]
            if float(batch.get("created_at") or 0) < record.at - _SKEW_S:
                break
        return []

    async def look(self, calls: EndpointCalls, batch_id: str) -> BatchState:
        reply = parse_json(await calls.get(f"/batches/{quote(batch_id)}"))
        status, counts = str(reply["status"]), reply.get("request_counts") or {}
        problems = (reply.get("errors") or {}).get("data") or [{}]
        why = problems[0].get("message") or f"the batch is {status}"
        n_done = int(counts.get("completed") or 0) + int(counts.get("failed") or 0)
        is_ended = status in ("completed", "failed", "expired", "cancelled")
        return BatchState(is_ended, n_done, why, reply)

    async def results(
        self, calls: EndpointCalls, state: BatchState, record: BatchRecord
    ) -> BatchResults:
        by_key: BatchResults = {}
        for name in ("output_file_id", "error_file_id"):
            if file := state.reply.get(name):
                for line in _lines(await calls.get(f"/files/{quote(file)}/content")):
                    by_key[str(line["custom_id"])] = _openai_result(line)
        return by_key


def _openai_result(line: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, Any]:
    response = line.get("response") or {}
    if response.get("status_code") == 200:
        return response["body"], None
    return None, response.get("body") or {"error": line.get("error")}


class AnthropicBatch(BatchForm):
    """One call with all questions. A batch has no name: its results tell whose it is."""

    most_questions, most_bytes = 100_000, 250_000_000
    has_names = False

    async def create(
        self, calls: EndpointCalls, model_id: str, name: str, rows: Sequence[BatchRow]
    ) -> str:
        order = {"requests": [{"custom_id": key, "params": body} for key, body in rows]}
        return str((await calls.post("/messages/batches", as_json(order)))["id"])

    async def find(self, calls: EndpointCalls, record: BatchRecord) -> list[str]:
        ids = []
        async for batch in _listed(calls, "/messages/batches", "after_id"):
            made = datetime.datetime.fromisoformat(str(batch["created_at"])).timestamp()
            if made < record.at - _SKEW_S:
                break
            if sum(map(int, batch["request_counts"].values())) == len(record.questions):
                ids.append(str(batch["id"]))
        return ids[::-1]

    async def look(self, calls: EndpointCalls, batch_id: str) -> BatchState:
        reply = parse_json(await calls.get(f"/messages/batches/{quote(batch_id)}"))
        counts = {name: int(n) for name, n in reply["request_counts"].items()}
        n_done = sum(counts.values()) - counts["processing"]
        return BatchState(reply["processing_status"] == "ended", n_done, "no result", reply)

    async def results(
        self, calls: EndpointCalls, state: BatchState, record: BatchRecord
    ) -> BatchResults:
        by_key: BatchResults = {}
        for line in _lines(await calls.get(str(state.reply["results_url"]))):
            result = line["result"]
            error = result.get("error") or f"the question is {result['type']}"
            by_key[str(line["custom_id"])] = (result.get("message"), error)
        return by_key


class GeminiBatch(BatchForm):
    """One call with all questions inline, polled as an operation."""

    most_questions, most_bytes = 10_000, 19_000_000

    async def create(
        self, calls: EndpointCalls, model_id: str, name: str, rows: Sequence[BatchRow]
    ) -> str:
        requests = [{"request": body, "metadata": {"key": key}} for key, body in rows]
        order = {
            "batch": {"displayName": name, "inputConfig": {"requests": {"requests": requests}}}
        }
        path = f"/models/{quote(model_id)}:batchGenerateContent"
        return str((await calls.post(path, as_json(order)))["name"])

    async def find(self, calls: EndpointCalls, record: BatchRecord) -> list[str]:
        token = ""
        for _ in range(_MOST_PAGES):
            more = f"&pageToken={quote(token)}" if token else ""
            page = parse_json(await calls.get(f"/batches?pageSize={_PAGE}{more}"))
            for operation in page.get("operations") or ():
                if (operation.get("metadata") or {}).get("displayName") == record.name:
                    return [str(operation["name"])]
            token = page.get("nextPageToken") or ""
            if not token:
                break
        return []

    async def look(self, calls: EndpointCalls, batch_id: str) -> BatchState:
        reply = parse_json(await calls.get(f"/{quote(batch_id)}"))
        metadata = reply.get("metadata") or {}
        state = str(metadata.get("state") or "").rpartition("STATE_")[2].lower()
        stats = metadata.get("batchStats") or {}
        n_done = sum(
            int(stats.get(name) or 0) for name in ("successfulRequestCount", "failedRequestCount")
        )
        error = reply.get("error") or {}
        ended = ("succeeded", "failed", "cancelled", "expired")
        is_ended = bool(reply.get("done")) or state in ended
        return BatchState(is_ended, n_done, error.get("message") or f"the batch {state}", reply)

    async def results(
        self, calls: EndpointCalls, state: BatchState, record: BatchRecord
    ) -> BatchResults:
        reply = state.reply
        output = reply.get("response") or (reply.get("metadata") or {}).get("output") or {}
        rows = (output.get("inlinedResponses") or {}).get("inlinedResponses") or []
        by_key: BatchResults = {}
        # They come in the order in which they were handed in.
        for row, question in zip(rows, record.questions, strict=False):
            key = str((row.get("metadata") or {}).get("key") or question.key)
            by_key[key] = (row.get("response"), {"error": row.get("error")})
        return by_key


FORMS: Mapping[WireForm, BatchForm] = {
    "openai": OpenAIBatch(),
    "anthropic": AnthropicBatch(),
    "gemini": GeminiBatch(),
}


async def _listed(
    calls: EndpointCalls, path: str, cursor: Literal["after", "after_id"]
) -> AsyncIterator[Mapping[str, Any]]:
    """Batches of a list, newest first, page by page."""
    after = ""
    for _ in range(_MOST_PAGES):
        more = f"&{cursor}={quote(after)}" if after else ""
        page = parse_json(await calls.get(f"{path}?limit={_PAGE}{more}"))
        for batch in page["data"]:
            yield batch
        after = page.get("last_id") or ""
        if not page.get("has_more") or not after:
            return


def _lines(data: bytes) -> Iterator[dict[str, Any]]:
    for line in data.splitlines():
        if line.strip():
            yield parse_json(line)
