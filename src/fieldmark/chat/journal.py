"""Answer journal: which answers were paid for already, and under which key?

A folder of journals (`fieldmark.journal`), one line per answer: every process writes a file of its
own and reads all of them. Failures are never written. Only keys and places are in memory.

The key of a request holds everything that decides its answer and nothing else: provider, address,
model, every message with the SHA-256 of each image's bytes as sent, all sampling settings, the
schema, the repeat. Concurrency, timeouts and the version of this program are not in it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fieldmark.chat.batch.records import waiting_keys
from fieldmark.chat.messages import (
    Answer,
    AnswerSettings,
    Picture,
    Request,
    Text,
    answer_from_json,
    answer_to_json,
)
from fieldmark.journal import Journal, unseal, unusable

if TYPE_CHECKING:
    from fieldmark.chat.send.pictures import SentPicture

_SORTED = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def canonical(value: Any) -> str:
    """JSON that is the same for equal values, whatever the order of their keys."""
    return _SORTED.encode(value)


def request_facts(
    request: Request, pictures: Iterable[SentPicture], address: Mapping[str, str]
) -> dict[str, Any]:
    """What the key is made of; `address` names provider, base URL and model."""
    sent = iter(pictures)
    messages = [
        {"role": message.role, "parts": [_part(part, sent) for part in message.parts]}
        for message in request.messages
    ]
    if request.continuations:  # nothing is drawn or written: settings decide nothing
        return {**address, "messages": messages, "continuations": list(request.continuations)}
    return {
        **address,
        "messages": messages,
        "settings": settings_facts(request.settings),
        "repeat": request.repeat,
    }


def request_key(
    request: Request, pictures: Iterable[SentPicture], address: Mapping[str, str]
) -> str:
    """32 hexadecimal digits that stand for the request."""
    facts = canonical(request_facts(request, pictures, address))
    return hashlib.blake2b(facts.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def settings_facts(settings: AnswerSettings) -> dict[str, Any]:
    """What is set: a setting added to fieldmark later leaves the keys of old answers alone."""
    facts = {
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "seed": settings.seed,
        "max_output_tokens": settings.max_output_tokens,
        "stop": list(settings.stop) or None,
        "schema": settings.schema,
        "top_logprobs": settings.top_logprobs,
        "reasoning_effort": settings.reasoning_effort or None,
        "extra": dict(settings.extra) or None,
    }
    return {name: value for name, value in facts.items() if value is not None}


def _part(part: Text | Picture, sent: Any) -> dict[str, str]:
    if isinstance(part, Text):
        return {"text": part.text}
    picture: SentPicture = next(sent)
    facts = {"image": picture.sha256, "type": picture.media_type}
    return {**facts, "detail": part.detail} if part.detail else facts


_LINE_START = re.compile(rb'\{"key":"([0-9a-f]{32})')
_OFFSET_BITS = 44
"""a place is file number and offset in one whole number: small in memory"""


class AnswerJournal:
    """The answers under one folder, by request key."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._places: dict[bytes, int] = {}
        self._files: list[int] = []
        self._mine: Journal | None = None
        self._my_number = 0
        self._lock = threading.Lock()
        self.waiting = waiting_keys(folder)
        """questions that wait in a batch of the provider: key → the batch"""
        for path in sorted(folder.glob("*.jsonl")) if folder.is_dir() else []:
            self._replay(path)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: str) -> bool:
        return bytes.fromhex(key) in self._places

    def get(self, key: str) -> Answer | None:
        """The answer kept under this key; None where there is none that can be read."""
        place = self._places.get(bytes.fromhex(key))
        if place is None:
            return None
        row = unseal(
            _read_line(self._files[place >> _OFFSET_BITS], place & ((1 << _OFFSET_BITS) - 1))
        )
        try:
            return None if row is None else answer_from_json(row["answer"], key)
        except (TypeError, KeyError):
            return None

    def add(self, key: str, request: Request, answer: Answer) -> None:
        """Keeps an answer. Failures are refused: they would be replayed as answers."""
        if not answer.is_answer:
            raise ValueError("a failed request has no answer to keep")
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        repeat = {"repeat": request.repeat} if request.repeat else {}
        kept = {"id": request.id, **repeat, "at": now, "answer": answer_to_json(answer)}
        with self._lock:
            if self._mine is None:
                self._mine = Journal.in_folder(self.folder)
                self._my_number = self._open(self._mine.path)
            offset = self._mine.append({"key": key, **kept})
            self._places[bytes.fromhex(key)] = self._my_number << _OFFSET_BITS | offset

    def sync(self) -> None:
        """Everything so far is on disk when this returns."""
        if self._mine is not None:
            self._mine.sync()

    def close(self) -> None:
        if self._mine is not None:
            self._mine.close()
        for file in self._files:
            os.close(file)
        self._files.clear()
        self._mine = None

    def __enter__(self) -> AnswerJournal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self, path: Path) -> int:
        """The number of a file whose lines are read when they are asked for."""
        try:
            self._files.append(os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0)))
        except OSError as error:
            raise unusable(path, error) from error
        return len(self._files) - 1

    def _replay(self, path: Path) -> None:
        """Notes where each whole line of a file begins; the answers stay on disk."""
        number, offset = self._open(path), 0
        try:
            with path.open("rb") as lines:
                for line in lines:
                    if line.endswith(b"}\n") and (start := _LINE_START.match(line)):
                        key = bytes.fromhex(start[1].decode())
                        self._places[key] = number << _OFFSET_BITS | offset
                    offset += len(line)
        except OSError as error:
            raise unusable(path, error) from error


def _read_line(file: int, offset: int) -> bytes:
    chunks: list[bytes] = []
    while chunk := os.pread(file, 8192, offset):
        end = chunk.find(b"\n") + 1
        if end:
            return b"".join([*chunks, chunk[:end]])
        chunks.append(chunk)
        offset += len(chunk)
    return b"".join(chunks)
