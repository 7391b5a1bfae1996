"""A server of chat models that knows how many requests it had in flight at most."""

from __future__ import annotations

from typing import Any

from fieldmark.chat import MockServer


class Server(MockServer):
    peak = 0

    async def _answer(self, *request: Any) -> Any:
        self.peak = max(self.peak, self.in_flight)
        return await super()._answer(*request)

    @property
    def seen(self) -> dict[str, int]:
        return {"n_requests": self.n_requests, "max_in_flight": self.peak}
