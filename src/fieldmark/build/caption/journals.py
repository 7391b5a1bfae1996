"""Answer journals by shard: an answer that was paid for is found by whoever takes the shard over.

One stream of requests serves several shards at a time; each has a journal of its own, opened when
its lease is taken, so that the answers of a worker that died are known, and deletable by itself.
"""

from __future__ import annotations

from pathlib import Path

from fieldmark.chat import Answer, Journal, Request


class ShardJournals(Journal):
    """The journals of the shards that are open; `Request.info.shard` says whose an answer is."""

    def __init__(self) -> None:
        self.waiting = {}
        self._shards: dict[str, Journal] = {}

    def open_shard(self, name: str, folder: Path) -> None:
        self._shards[name] = Journal(folder)

    def close_shard(self, name: str) -> None:
        if (journal := self._shards.pop(name, None)) is not None:
            journal.close()

    def get(self, key: str) -> Answer | None:
        for journal in list(self._shards.values()):
            if key in journal:
                return journal.get(key)
        return None

    def add(self, key: str, request: Request, answer: Answer) -> None:
        journal = self._shards.get(request.info.shard)
        if journal is not None:  # else its lease was lost, and the answer is nobody's
            journal.add(key, request, answer)

    def sync(self) -> None:
        for journal in list(self._shards.values()):
            journal.sync()

    def close(self) -> None:
        for name in list(self._shards):
            self.close_shard(name)

    def __len__(self) -> int:
        return sum(map(len, self._shards.values()))

    def __contains__(self, key: str) -> bool:
        return any(key in journal for journal in self._shards.values())
