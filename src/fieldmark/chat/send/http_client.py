"""HTTP client of a model's endpoint: one attempt to send a request, and its reply.

aiohttp without helpers. Redirects are not followed: a key must not travel to another host. Nothing
raised or logged here holds a key or a request's headers. A setting that the endpoint refuses
(temperature, schema, …) is left out from then on, and a note says so.
"""

from __future__ import annotations

import dataclasses
import io
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import aiohttp
from yarl import URL

from fieldmark.chat.messages import Answer, AnswerSettings, Request, stopped
from fieldmark.chat.send.api import BadReply, as_json, load_api, read_json
from fieldmark.chat.send.options import Options, is_loopback
from fieldmark.chat.send.pictures import SentPicture
from fieldmark.chat.send.retry import (
    Fault,
    connection_fault,
    judge_error,
    without_key,
    without_secrets,
)
from fieldmark.errors import ModelError
from fieldmark.http_reader import MB, HttpLimits, HttpReply, ReplyTooLarge, read_reply

if TYPE_CHECKING:
    from fieldmark.chat.mock.server import MockServer
    from fieldmark.chat.send.endpoint import ChatModel

LOG = logging.getLogger(__name__)
AGENT = "fieldmark (Python; multimodal evaluation)"
MOST_REPLY_BYTES, MOST_BATCH_BYTES, MOST_BATCH_S = 32 * MB, 2000 * MB, 3600.0
"""of an unpacked answer (a long one with log-probabilities takes 20 MB), and of a batch's results;
headers have aiohttp's limits (8 kB a line), and answers the time limit of an attempt"""
_AT_ONCE_BYTES = 1 << 20
"""larger bodies are read as files are: aiohttp warns of writing them in one go"""


class HttpClient:
    """The connection pool to a model's endpoint."""

    def __init__(
        self, model: ChatModel, options: Options, on_headers: Callable[[Mapping[str, str]], None]
    ) -> None:
        self._model, self._options, self._on_headers = model, options, on_headers
        self._api = load_api(model.api)
        self._session: aiohttp.ClientSession | None = None
        self._mock: MockServer | None = None
        self.refused: set[str] = set()
        """settings that the endpoint turned out not to take"""
        self._url, self._base_url, self._key = URL(), "", ""

    async def open(self) -> None:
        base_url = self._model.base_url
        if self._model.is_mock:
            from fieldmark.chat.mock.answers import read_script
            from fieldmark.chat.mock.server import MockServer

            script = read_script(self._model.name, self._model.mock)
            self._mock = MockServer(script, self._options.mock_labels)
            base_url = await self._mock.start()
        self._key = self._model.key()
        if not self._key.isprintable() or not self._key.isascii():
            raise ModelError(
                f"{self._model.key_env}  has characters no key can have: set it again."
            )
        options = self._options
        self._session = aiohttp.ClientSession(
            headers={
                "Content-Type": "application/json",
                "User-Agent": AGENT,
                **self._api.headers(self._key),
            },
            connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300),
            timeout=aiohttp.ClientTimeout(
                sock_connect=options.connect_timeout_s, sock_read=options.timeout_s
            ),
            # Proxies of the environment are for the world outside.
            trust_env=not is_loopback(base_url),
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("Accept-Encoding",) if is_loopback(base_url) else (),
        )
        self._base_url = base_url
        self._url = URL(base_url + self._api.path(self._model.id), encoded=True)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
        if self._mock is not None:
            await self._mock.stop()

    async def send(
        self, request: Request, pictures: Sequence[SentPicture], **details: Any
    ) -> Answer | Fault:
        """One attempt; it always ends within the timeout. `details` goes into its answer."""
        model, clock = self._model, self._options.clock
        left_out = tuple(sorted(self.refused))
        lacks = (*model.lacks, *left_out)
        body = as_json(self.body(request, pictures))
        began = clock.now()
        try:
            timeout_s = self._options.timeout_s
            limits = HttpLimits(MOST_REPLY_BYTES, timeout_s, timeout_s, timeout_s)
            reply = await self._ask("POST", self._url, body, limits)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return self._clean(connection_fault(error, self._options.timeout_s))
        self._on_headers(reply.headers)
        if reply.status != 200:
            fault = self._api.judge(reply.status, reply.headers, reply.data)
            if reply.status == 404:
                fault = dataclasses.replace(fault, text=f"{fault.text.rstrip('.')} ({self._asked})")
            return self._judged(fault, request.settings, lacks)
        try:
            answer = self._api.read(read_json(reply.data))
        except BadReply as error:
            fault = judge_error(error.code, error.body or str(error))
            return self._judged(fault, request.settings, lacks)
        except RecursionError:
            return judge_error(None, "a reply that is nested too deep")
        usd = answer.usd
        if usd is None and answer.usage is not None:
            usd = model.card.usd(answer.usage)
        answer = dataclasses.replace(
            answer, usd=usd, latency_s=clock.now() - began, left_out=left_out, **details
        )
        return stopped(without_key(answer, self._key), request.settings.stop)

    @property
    def _asked(self) -> str:
        """The address that was asked, for a server that has nothing there."""
        is_short = self._model.api == "openai" and not self._base_url.endswith("/v1")
        hint = f"; most servers want {self._base_url}/v1" if is_short else ""
        return f"asked {self._url}{hint}"

    def body(self, request: Request, pictures: Sequence[SentPicture]) -> dict[str, Any]:
        """Without what the endpoint does not take."""
        lacks = (*self._model.lacks, *self.refused)
        return self._api.body(request, pictures, self._model, lacks)

    async def call(self, method: str, path: str, body: bytes, kind: str) -> bytes | Fault:
        """Another call of the endpoint (its batches): what it replies, or why it does not.

        `path` follows the base URL, or is an address of the same host.
        """
        url = URL(path if "://" in path else self._base_url + path, encoded=True)
        if url.origin() != self._url.origin():
            return Fault("stop", f"the endpoint points to another address ({url.host})")
        limits = HttpLimits(MOST_BATCH_BYTES, MOST_BATCH_S, self._options.timeout_s, MOST_BATCH_S)
        try:
            reply = await self._ask(method, url, body, limits, kind if body else "")
        except ReplyTooLarge as error:
            return Fault("stop", str(error))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return self._clean(connection_fault(error, self._options.timeout_s))
        if reply.status == 200:
            return reply.data
        return self._clean(self._api.judge(reply.status, reply.headers, reply.data))

    async def _ask(
        self, method: str, url: URL, body: bytes, limits: HttpLimits, kind: str = ""
    ) -> HttpReply:
        assert self._session is not None, "the sender is opened with `async with`"
        data = io.BytesIO(body) if len(body) >= _AT_ONCE_BYTES else body or None
        headers = {"Content-Type": kind} if kind else None
        return await read_reply(self._session, method, url, limits, data=data, headers=headers)

    def _judged(self, fault: Fault, settings: AnswerSettings, lacks: Collection[str]) -> Fault:
        """A request that fails for a setting only is sent again without it."""
        fault = self._clean(fault)
        name = self._api.refused_setting(fault.code, fault.text, settings)
        if not name or name in lacks:
            return fault
        if name not in self.refused:
            LOG.warning("%s does not take %s: %s", self._model.name, name, fault.text)
        self.refused.add(name)
        return dataclasses.replace(fault, verdict="again", is_mended=True)

    def _clean(self, fault: Fault) -> Fault:
        return dataclasses.replace(fault, text=without_secrets(fault.text, self._key))
