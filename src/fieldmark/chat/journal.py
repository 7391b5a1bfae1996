"""Answer journal: which answers were paid for already, and under which key?

A folder of journals (`fieldmark.journal`), one line per answer: every process writes a file of its
own and reads all of them. Failures are never written. Only keys and places are in memory.

The key of a request holds everything that decides its answer and nothing else: provider, address,
model, every message with the SHA-256 of each image's bytes as sent, all sampling settings, the
schema, the repeat. Concurrency, timeouts and the version of this program are not in it.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fieldmark.chat.batch.records import waiting_keys
from fieldmark.chat.messages import (
    Answer,
    Picture,
    Request,
    Text,
    answer_from_json,
    answer_to_json,
)
from fieldmark.chat.send.options import FEW, AskTotals, OnAnswer, Options
from fieldmark.errors import ModelError
from fieldmark.files import canonical_json, hash_bytes
from fieldmark.journal import Journal, unseal, unusable

if TYPE_CHECKING:
    from fieldmark.chat.budget import Cost
    from fieldmark.chat.local.model import LocalModel
    from fieldmark.chat.send.endpoint import ChatModel
    from fieldmark.chat.send.pictures import SentPicture


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
        "settings": request.settings.given(),
        "repeat": request.repeat,
    }


def request_key(
    request: Request, pictures: Iterable[SentPicture], address: Mapping[str, str]
) -> str:
    """32 hexadecimal digits that stand for the request."""
    text = canonical_json(request_facts(request, pictures, address))
    return hash_bytes(text.encode("utf-8", "surrogatepass")).hex()


def _part(part: Text | Picture, sent: Any) -> dict[str, str]:
    if isinstance(part, Text):
        return {"text": part.text}
    picture: SentPicture = next(sent)
    fields = {"image": picture.sha256, "type": picture.media_type}
    return {**fields, "detail": part.detail} if part.detail else fields


_USD = re.compile(rb'[{,]"usd":([0-9][0-9.eE+-]*)')
"""a quotation mark within the words of an answer has a backslash before it"""


def spent_usd(folder: Path) -> float:
    """What all answers under a folder have cost, as far as their price was known; those that never
    arrived may have been charged, and count.
    """
    total = 0.0
    try:
        for path in sorted(folder.glob("*.jsonl")):
            with path.open("rb") as lines:
                total += sum(float(match[1]) for line in lines if (match := _USD.search(line)))
    except OSError as error:
        raise unusable(folder, error) from error
    return total


_ITEM = re.compile(rb'\{"key":"[0-9a-f]{32}","id":("(?:[^"\\]|\\.)*")')


def stored_ids(folder: Path) -> set[str]:
    """What the requests were called whose answers are stored, whichever model gave them."""
    ids: set[str] = set()
    for path in sorted(folder.glob("*.jsonl")):
        with path.open("rb") as lines:
            ids.update(json.loads(match[1]) for line in lines if (match := _ITEM.match(line)))
    return ids


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
        position = self._places.get(bytes.fromhex(key))
        if position is None:
            return None
        row = unseal(
            _read_line(self._files[position >> _OFFSET_BITS], position & ((1 << _OFFSET_BITS) - 1))
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
            offset = self._own().append({"key": key, **kept})
            self._places[bytes.fromhex(key)] = self._my_number << _OFFSET_BITS | offset

    def add_late(self, cost: Cost) -> None:
        """Notes what an answer may have cost that never arrived; it is asked again."""
        with self._lock:
            self._own().append({"late": {"usd": cost.usd, "tokens": cost.tokens}})

    def _own(self) -> Journal:
        """The file of this process."""
        if self._mine is None:
            self._mine = Journal.in_folder(self.folder)
            self._my_number = self._open(self._mine.path)
        return self._mine

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


# --- Ledger of asking: what is answered already, what became of each request, is asking on useless?
# Whoever asks, over HTTP, in batches of a provider or on this machine, tells its ledger. Answers
# of the journal come first; new ones are kept before anyone sees them. A failure is never kept.
# Failures of an endpoint that has not answered anything yet are held back: either an answer shows
# that it was the questions, or the run is given up and nobody records what the endpoint could not
# do.


class Asker(Protocol):
    """What asks, and what it knows over several calls."""

    options: Options
    journal: AnswerJournal | None
    renewed: set[str]
    """keys of the questions that were asked again: each is once"""
    has_answered: bool
    """something that was sent has been answered"""

    @property
    def model(self) -> ChatModel | LocalModel: ...


class Ledger:
    """The outcomes of one call."""

    def __init__(self, asker: Asker, on_answer: OnAnswer) -> None:
        self.asker, self.on_answer = asker, on_answer
        self.tally = AskTotals()
        self._held: list[tuple[Request, Answer]] = []

    @property
    def is_unanswered(self) -> bool:
        """Has nothing that was sent ever been answered? Then it is the endpoint, not a question."""
        return not self.asker.has_answered and not self.tally.n_replayed

    def find(self, key: str, request: Request) -> Answer | None:
        """The answer of the journal; None where it has none or the question is asked again."""
        asker = self.asker
        answer = asker.journal.get(key) if asker.journal is not None else None
        is_asked_again = asker.options.is_asked_again
        if answer is None or is_asked_again is None or key in asker.renewed:
            return answer
        if not is_asked_again(request, answer):
            return answer
        asker.renewed.add(key)
        return None

    def keep(self, key: str, request: Request, answer: Answer) -> None:
        """Journals a new answer."""
        if self.asker.journal is not None and answer.is_answer:
            self.asker.journal.add(key, request, answer)

    def deliver(self, request: Request, answer: Answer) -> str:
        """Counts an outcome and hands it on; why asking on is useless, "" = it is not."""
        self.tally.add(answer, answer.attempts > 0 or not self.asker.options.may_lack_pictures)
        if self.is_unanswered and answer.outcome == "failed" and answer.attempts:
            self._held.append((request, answer))
        else:
            if not self.is_unanswered:
                self.release()
            self.on_answer(request, answer)
        tally, options = self.tally, self.asker.options
        n_failed, in_a_row = tally.outcomes.get("failed", 0), tally.failures_in_a_row
        if self.is_unanswered and tally.n_unanswered >= FEW:
            return f"none of the first {n_failed} requests was answered: {tally.last_error}"
        is_row = in_a_row >= options.max_failures_in_a_row
        if not is_row and n_failed <= options.max_failures:
            return ""
        how = f"{in_a_row} requests in a row" if is_row else f"{n_failed} requests"
        return f"{how} failed, the last: {tally.last_error}"

    def release(self) -> None:
        """What was held back is handed on."""
        held, self._held = self._held, []
        for pair in held:
            self.on_answer(*pair)

    def why_unanswered(self) -> str:
        """At the end of few requests: what failed without one answer is no result."""
        if self.is_unanswered and self.tally.n_unanswered:
            return f"no request was answered, the last: {self.tally.last_error}"
        return ""

    def closing_line(self, reason: str) -> ModelError:
        """The error of a run that is given up."""
        n_kept = self.tally.n - self.tally.outcomes.get("failed", 0)
        start = f"model {self.asker.model.name!r}: {reason.rstrip('.')}. "
        if not n_kept:
            error = ModelError(f"{start}No answer was stored.")
            error.is_recorded = False
            return error
        if self.asker.journal is None:
            return ModelError(f"{start}{n_kept:,} answers came before, and are not kept.")
        return ModelError(
            f"{start}{n_kept:,} answers are kept. Run the same command again to continue."
        )
