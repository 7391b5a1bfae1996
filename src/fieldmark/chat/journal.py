"""Answer journal: which answers were paid for already, and under which key?

Append-only files of one JSON line per answer. Every process writes a file of its own and reads all
of them, so that two processes, or two machines on one network folder, never mix their lines. A
line is given to the operating system the moment an answer arrives (`kill -9` loses only what was
in flight) and forced to disk at most 0.2 s later. A torn last line is ignored; failures are never
written.

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
from fieldmark.errors import StoreError

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


SYNC_EVERY_S = 0.2
_LINE_START = re.compile(rb'\{"key":"([0-9a-f]{32})')
_OFFSET_BITS = 44
"""a place is file number and offset in one whole number: small in memory"""


class Journal:
    """The answers under one folder, by request key."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._places: dict[bytes, int] = {}
        self._files: list[int] = []
        self._mine: int | None = None
        self._size = 0
        self._is_dirty = threading.Event()
        self._is_closed = False
        self._syncer: threading.Thread | None = None
        self._lock = threading.Lock()
        self._fault: OSError | None = None
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
        file = self._files[place >> _OFFSET_BITS]
        line = _read_line(file, place & ((1 << _OFFSET_BITS) - 1))
        try:
            entry = json.loads(line)
            return answer_from_json(entry["answer"], key)
        except (ValueError, TypeError, KeyError):
            return None

    def add(self, key: str, request: Request, answer: Answer) -> None:
        """Keeps an answer. Failures are refused: they would be replayed as answers."""
        if not answer.is_answer:
            raise ValueError("a failed request has no answer to keep")
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        repeat = {"repeat": request.repeat} if request.repeat else {}
        kept = {"id": request.id, **repeat, "at": now, "answer": answer_to_json(answer)}
        line = json.dumps({"key": key, **kept}, separators=(",", ":"))
        with self._lock:
            self._append(bytes.fromhex(key), f"{line}\n".encode())
        self._is_dirty.set()

    def sync(self) -> None:
        """Everything so far is on disk when this returns."""
        if self._mine is not None:
            os.fsync(self._mine)

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._is_dirty.set()
        if self._syncer is not None:
            self._syncer.join()
        self.sync()
        for file in self._files:
            os.close(file)
        self._files.clear()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _append(self, key: bytes, line: bytes) -> None:
        if self._fault is not None:
            raise self._unusable(self._fault)
        try:
            file = self._open() if self._mine is None else self._mine
            written = os.write(file, line)
            if written < len(line):  # a full disk takes the beginning and then says so
                os.write(file, line[written:])
        except OSError as error:
            self._fault = error
            raise self._unusable(error) from error
        self._places[key] = (len(self._files) - 1) << _OFFSET_BITS | self._size
        self._size += len(line)

    def _open(self) -> int:
        self.folder.mkdir(parents=True, exist_ok=True)
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        path = self.folder / f"{stamp}-{os.getpid()}-{os.urandom(3).hex()}.jsonl"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_BINARY", 0)
        self._mine = os.open(path, flags, 0o644)
        self._files.append(self._mine)
        self._syncer = threading.Thread(target=self._sync_now_and_then, daemon=True)
        self._syncer.start()
        return self._mine

    def _sync_now_and_then(self) -> None:
        while not self._is_closed:
            self._is_dirty.wait()
            time.sleep(0 if self._is_closed else SYNC_EVERY_S / 2)
            self._is_dirty.clear()
            try:
                self.sync()
            except OSError as error:
                self._fault = error
                return

    def _replay(self, path: Path) -> None:
        """Notes where each whole line of a file begins; the answers stay on disk."""
        try:
            file = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
            number = len(self._files)
            self._files.append(file)
            with path.open("rb") as lines:
                offset = 0
                for line in lines:
                    if line.endswith(b"}\n") and (start := _LINE_START.match(line)):
                        key = bytes.fromhex(start[1].decode())
                        self._places[key] = number << _OFFSET_BITS | offset
                    offset += len(line)
        except OSError as error:
            raise self._unusable(error) from error

    def _unusable(self, error: OSError) -> StoreError:
        reason = error.strerror or str(error)
        return StoreError(
            f"{self.folder}  the journal of answers cannot be used: {reason}. "
            "Nothing more was asked; mend it and run the same command again."
        )


def _read_line(file: int, offset: int) -> bytes:
    chunks: list[bytes] = []
    while chunk := os.pread(file, 8192, offset):
        end = chunk.find(b"\n")
        if end >= 0:
            return b"".join([*chunks, chunk[:end]])
        chunks.append(chunk)
        offset += len(chunk)
    return b"".join(chunks)
