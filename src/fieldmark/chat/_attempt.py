"""What happens on the wire: one attempt, one answer or one fault.

aiohttp without helpers. Redirects are not followed: a key must not travel to another host. Nothing
raised or logged here holds a key or a request's headers.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

import aiohttp
from yarl import URL

from fieldmark.chat._faults import Fault, broken, judge, judge_error, without_secrets
from fieldmark.chat._messages import Answer, Request, Settings
from fieldmark.chat._model import ChatModel, is_loopback
from fieldmark.chat._options import Options
from fieldmark.chat._pictures import SentPicture
from fieldmark.chat._stops import stopped
from fieldmark.chat._wire import BadReply, body_pieces, read_reply, to_answer
from fieldmark.errors import ModelError

if TYPE_CHECKING:
    from fieldmark.chat._mock_server import MockServer

LOG = logging.getLogger(__name__)
AGENT = "fieldmark (Python; multimodal evaluation)"
_JOIN_BYTES = 1 << 19
"""larger bodies go out piece by piece: pieces that requests share are not copied for each"""


class Wire:
    """The connection pool to a model's endpoint."""

    def __init__(self, model: ChatModel, options: Options) -> None:
        self._model, self._options = model, options
        self._session: aiohttp.ClientSession | None = None
        self._mock: MockServer | None = None
        self._refused: set[str] = set()
        """settings that the endpoint turned out not to take"""
        self._url, self._key = URL(), ""

    async def open(self) -> None:
        base_url = self._model.base_url
        if self._model.is_mock:
            from fieldmark.chat._mock_server import MockServer, read_script

            script = read_script(self._model.name, self._model.mock)
            self._mock = MockServer(script, self._options.mock_labels)
            base_url = await self._mock.start()
        self._key = self._model.key()
        if not self._key.isprintable() or not self._key.isascii():
            raise ModelError(f"{self._model.key_env}  holds characters no key has: set it again.")
        options = self._options
        self._session = aiohttp.ClientSession(
            headers=self._headers(),
            connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300),
            timeout=aiohttp.ClientTimeout(
                total=options.timeout_s, sock_connect=options.connect_timeout_s
            ),
            # Proxies of the environment are for the world outside.
            trust_env=not is_loopback(base_url),
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("Accept-Encoding",) if is_loopback(base_url) else (),
        )
        self._url = URL(f"{base_url}/chat/completions")

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
        if self._mock is not None:
            await self._mock.stop()

    async def send(
        self, request: Request, pictures: Sequence[SentPicture], **known: Any
    ) -> Answer | Fault:
        """One attempt; it always ends within the timeout. `known` goes into its answer."""
        assert self._session is not None, "the sender is opened with `async with`"
        model, clock = self._model, self._options.clock
        lacks = (*model.lacks, *self._refused)
        pieces = body_pieces(
            request, pictures, model.id, lacks, model.output_key, model.provider.body
        )
        began, length = clock.now(), sum(map(len, pieces))
        try:
            async with self._session.post(
                self._url,
                data=b"".join(pieces) if length <= _JOIN_BYTES else _piece_by_piece(pieces),
                headers=None if length <= _JOIN_BYTES else {"Content-Length": str(length)},
                allow_redirects=False,
            ) as response:
                data = await response.read()
                status, said = response.status, response.headers
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return self._clean(broken(error))
        if status != 200:
            return self._spared(self._clean(judge(status, said, data)), request.settings)
        try:
            return self._read(request.settings, data, latency_s=clock.now() - began, **known)
        except RecursionError:
            return judge_error(None, "a reply that is nested too deep")

    def _read(self, settings: Settings, data: bytes, **known: Any) -> Answer | Fault:
        try:
            answer = to_answer(read_reply(data), self._model.card.usd, **known)
            return stopped(answer, settings.stop)
        except BadReply as error:
            fault = judge_error(error.code, error.body or str(error))
            return self._spared(self._clean(fault), settings)

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "User-Agent": AGENT}
        return {**headers, "Authorization": f"Bearer {self._key}"} if self._key else headers

    def _spared(self, fault: Fault, settings: Settings) -> Fault:
        """Log-probabilities are a help, not the answer: who refuses them is asked without."""
        is_about = fault.code in (400, 403, 422) and "logprob" in fault.text.lower()
        if settings.top_logprobs is None or not is_about:
            return fault
        if "logprobs" not in self._refused:
            LOG.warning("%s gives no log-probabilities: %s", self._model.name, fault.text)
        self._refused.add("logprobs")
        return dataclasses.replace(fault, verdict="again")

    def _clean(self, fault: Fault) -> Fault:
        return dataclasses.replace(fault, text=without_secrets(fault.text, self._key))


async def _piece_by_piece(pieces: Sequence[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
