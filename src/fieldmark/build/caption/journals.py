"""Answers that were paid for, by shard: which does whoever goes on with a shard find?"""

from __future__ import annotations

import threading
from pathlib import Path

from fieldmark.chat import Answer, AnswerJournal, Request


class ShardJournals(AnswerJournal):
    """The journals of the shards that are open; `Request.info.job` says whose an answer is.

    One stream of requests serves several shards at a time. Each has a journal of its own, opened
    when its lease is taken, so that the answers of a worker that died are known.
    """

    def __init__(self) -> None:
        self.waiting = {}
        self._shards: dict[str, AnswerJournal] = {}
        self._lock = threading.Lock()

    def open_shard(self, name: str, folder: Path) -> None:
        with self._lock:
            self._shards[name] = AnswerJournal(folder)

    def close_shard(self, name: str) -> None:
        with self._lock:
            if (journal := self._shards.pop(name, None)) is not None:
                journal.close()

    def get(self, key: str) -> Answer | None:
        with self._lock:
            journals = (journal for journal in self._shards.values() if key in journal)
            return next((journal.get(key) for journal in journals), None)

    def add(self, key: str, request: Request, answer: Answer) -> None:
        with self._lock:
            journal = self._shards.get(request.info.job.name)
            if journal is not None:  # else its lease was lost, and the answer is nobody's
                journal.add(key, request, answer)

    def sync(self) -> None:
        for journal in list(self._shards.values()):
            journal.sync()

    def close(self) -> None:
        for name in list(self._shards):
            self.close_shard(name)
