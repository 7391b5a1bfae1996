"""MediaWiki action API client: pages by title, in batches of 50, as the wiki's operators ask.

A User-Agent that names us and whom to write to, one request at a time unless told otherwise, a
limit per minute, maxlag, gzip, Retry-After, exponential backoff: mediawiki.org/wiki/API:Etiquette.
What comes goes into the store at once, so that a kill loses one request and the next run asks
for what is lacking, whatever the order was.
"""

from __future__ import annotations

import asyncio
import html
import json
import logging
import math
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlencode, urlsplit

import aiohttp

from fieldmark.build.wiki import WikiPage, WikiSite
from fieldmark.build.wiki.store import PageStore
from fieldmark.chat.send.options import FEW, Clock, is_loopback
from fieldmark.chat.send.rate_limiter import TokenBucket
from fieldmark.chat.send.retry import (
    TRANSIENT,
    Fault,
    backoff_s,
    connection_fault,
)
from fieldmark.errors import ModelError, UsageError
from fieldmark.http_reader import HttpLimits, ReplyTooLarge, read_reply, retry_after_s
from fieldmark.progress import Progress, Silent
from fieldmark.registry import app_version

BATCH = 50
"""titles a request may have without special rights"""
NO_MEDIAWIKI = "this is not an answer of MediaWiki"
_MOST_CONCURRENCY = 4
_PASSING = {"maxlag", "ratelimited", "readonly"}
"""API errors that pass by themselves; `internal_api_error_…` does too"""
_JSON = {"action": "query", "format": "json", "formatversion": "2"}
_ASK_PAGES = _JSON | {
    "redirects": "1",
    "prop": "info|pageprops|revisions",
    "ppprop": "disambiguation|wikibase_item",
    "rvprop": "ids|timestamp|content",
    "rvslots": "main",
}
_ASK_SITE = _JSON | {"meta": "siteinfo", "siprop": "general|rightsinfo"}
_BOGUS = re.compile(
    r"(^|[@./])(example\.(com|org|net|edu)|[\w.-]+\.(example|invalid|test)|localhost)\b"
    r"|^(foo|name|user|you|your[._-]?(name|e?mail))@",
    re.IGNORECASE,
)
_CONTACT = re.compile(r"[^@\s()]+@[^@\s()]+\.[a-z]{2,}|https?://[^\s/()]+\.[^\s()]+", re.IGNORECASE)
LOG = logging.getLogger(__name__)


class WikiSource(Protocol):
    """Where titles come from that a store lacks."""

    def fetch(self, titles: Sequence[str], store: PageStore) -> None:
        """Fills the store: `store.unknown(titles)` is empty afterwards."""
        ...


@dataclass(frozen=True, slots=True)
class Etiquette:
    """How requests are sent."""

    concurrency: int = 1
    """most requests in flight, 1 to 4"""
    per_minute: float = 60.0
    """most requests in any minute"""
    maxlag_s: int = 5
    """the wiki answers nothing while its databases lag by more"""
    timeout_s: float = 120.0
    """of one attempt, to the last byte of its answer"""
    max_attempts: int = 10
    """of one request; being told to wait does not count, it is bounded by `patience_s`"""
    patience_s: float = 1_800.0
    """how long a request may be put off by the wiki"""
    backoff_s: float = 1.0
    backoff_cap_s: float = 120.0
    clock: Clock = Clock()

    def __post_init__(self) -> None:
        if not 1 <= self.concurrency <= _MOST_CONCURRENCY:
            text = f"expected 1 to {_MOST_CONCURRENCY}: wikis ask for few requests at a time."
            raise UsageError(f"concurrency = {self.concurrency}, {text}")
        if not 0 < self.per_minute < math.inf:
            raise UsageError(f"per_minute = {self.per_minute:g}, expected a number above 0.")


@dataclass(slots=True)
class _PageAnswers:
    """What the answers to one batch of titles say, round by round."""

    normalised: dict[str, str] = field(default_factory=dict)
    redirects: dict[str, tuple[str, str]] = field(default_factory=dict)
    missing: dict[str, None] = field(default_factory=dict)
    pages: dict[str, dict[str, Any]] = field(default_factory=dict)
    """title → what is known of a page whose text has not been stored"""

    def read(self, answer: Mapping[str, Any]) -> Mapping[str, str] | None:
        """What to add to the query for the rest; None = this was all."""
        query = answer["query"]
        for step in query.get("normalized", ()):
            self.normalised[step["from"]] = step["to"]
        for step in query.get("redirects", ()):
            self.redirects[step["from"]] = step["to"], step.get("tofragment", "")
        for link in query.get("interwiki", ()):
            self.missing[link["title"]] = None
        for page in query.get("pages", ()):
            if any(page.get(mark) for mark in ("missing", "invalid", "special")):
                self.missing[page["title"]] = None
            else:  # an answer that was cut comes in parts
                part = {name: value for name, value in page.items() if value != []}
                self.pages[page["title"]] = self.pages.get(page["title"], {}) | part
        more = answer.get("continue")
        return None if more is None else {str(name): str(value) for name, value in more.items()}

    def store(self, store: PageStore) -> None:
        """Adds what is known; pages whose text has come are known."""
        titles = [title for title, page in self.pages.items() if "revisions" in page]
        pages = [_page(self.pages.pop(title)) for title in titles]
        redirects = ((here, *there) for here, there in self.redirects.items())
        store.add(pages, redirects, self.missing, self.normalised.items())


class WikiApi:
    """Fetches pages from one wiki; used in a `with`, from synchronous code."""

    def __init__(
        self,
        endpoint: str,
        contact: str,
        etiquette: Etiquette | None = None,
        progress: Progress | None = None,
    ) -> None:
        if urlsplit(endpoint).scheme not in ("http", "https") or not urlsplit(endpoint).hostname:
            text = "is not the address of an API, such as https://en.wikipedia.org/w/api.php."
            raise UsageError(f"{endpoint!r} {text}")
        self.endpoint, self.agent = endpoint, user_agent(contact)
        self.etiquette, self._progress = etiquette or Etiquette(), progress or Silent()
        self.n_requests = 0
        """sent so far, those that were tried again included"""
        self._has_answered, self._paused_until = False, -math.inf
        self._runner = asyncio.Runner()
        self._session: aiohttp.ClientSession | None = None

    def __enter__(self) -> WikiApi:
        self._runner.run(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        if self._session is not None:
            self._runner.run(self._session.close())
        self._runner.close()

    def site(self) -> WikiSite:
        """What the wiki calls itself, where its pages are, and their licence."""
        answer = self._runner.run(self._ask(_ASK_SITE))
        try:
            return _site(answer["query"], self.endpoint)
        except (KeyError, TypeError, AttributeError) as error:
            raise self._stopped("what it says about itself cannot be read") from error

    def fetch(self, titles: Sequence[str], store: PageStore) -> None:
        """Fills the store with what the wiki has under these titles."""
        lacking = store.unknown(titles)
        if not lacking:
            return
        try:
            host = urlsplit(self.endpoint).hostname
            if store.site is None or urlsplit(store.site.url).hostname != host:
                store.set_site(self.site())
            self._runner.run(self._fetch_batches(lacking, BATCH, store))
            # A wiki that takes fewer titles than most leaves some unanswered.
            self._runner.run(self._fetch_batches(store.unknown(titles), 1, store))
            store.add([], missing=store.unknown(titles))
        except ModelError as error:
            if not len(store):
                raise
            kept = f"{store.path} has {len(store):,} pages. Run the same command to continue."
            raise ModelError(f"{error} {kept}") from error

    async def _start(self) -> None:
        etiquette = self.etiquette
        self._bucket = TokenBucket(etiquette.per_minute, etiquette.clock, "requests")
        self._session = aiohttp.ClientSession(
            headers={"User-Agent": self.agent, "Accept-Encoding": "gzip"},
            timeout=aiohttp.ClientTimeout(total=None),  # `read_reply` has the limits
            trust_env=not is_loopback(self.endpoint),
        )

    async def _fetch_batches(self, titles: Sequence[str], size: int, store: PageStore) -> None:
        batches = deque(titles[start : start + size] for start in range(0, len(titles), size))
        workers = [
            asyncio.ensure_future(self._work(batches, store))
            for _ in range(min(self.etiquette.concurrency, len(batches)))
        ]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _work(self, batches: deque[Sequence[str]], store: PageStore) -> None:
        while batches:
            await self._fetch_batch(batches.popleft(), store)

    async def _fetch_batch(self, titles: Sequence[str], store: PageStore) -> None:
        """Asks for one batch, and again for what the wiki cut off."""
        answers, query = _PageAnswers(), _ASK_PAGES | {"titles": "|".join(titles)}
        more: Mapping[str, str] | None = {}
        while more is not None:
            before, answer = more, await self._ask({**query, **more})
            if warnings := answer.get("warnings"):
                LOG.info("%s: %s", self.endpoint, warnings)
            try:
                more = answers.read(answer)
                if more is None or _has_properties(more):
                    answers.store(store)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise self._stopped(NO_MEDIAWIKI) from error
            if more == before:
                raise self._stopped("the answer never ends")
        if len(titles) > 1 and len(store.unknown(titles)) == len(titles):
            raise self._stopped("the answer says nothing about the titles")

    async def _ask(self, query: Mapping[str, str]) -> dict[str, Any]:
        """The answer to one query, however many attempts it takes."""
        clock, faults = self.etiquette.clock, list[Fault]()
        began = clock.now()
        while True:
            await self._take_turn()
            outcome = await self._attempt({**query, "maxlag": str(self.etiquette.maxlag_s)})
            if not isinstance(outcome, Fault):
                self._has_answered = True
                self._progress.status(f"{self.n_requests:,} requests to the wiki")
                return outcome
            faults.append(outcome)
            wait_s = self._wait_s(faults, began, urlencode(query))
            self._paused_until = max(self._paused_until, clock.now() + wait_s)
            self._progress.status(f"{outcome.text}: the next request is in {wait_s:.0f} s")

    async def _take_turn(self) -> None:
        """Returns when the rate allows a request and no pause is on. One that was allowed before
        a pause is forgone, so that a pause does not end in a burst.
        """
        clock = self.etiquette.clock
        while True:
            await self._bucket.take()
            if (wait_s := self._paused_until - clock.now()) <= 0:
                return
            await clock.sleep(wait_s)

    async def _attempt(self, query: dict[str, str]) -> dict[str, Any] | Fault:
        """By POST: 50 titles make a long address, and a GET that is reset aiohttp sends again at
        once, uncounted. The header lets operators treat it as the reading it is.
        """
        assert self._session is not None, "WikiApi is used in a `with`"
        self.n_requests += 1
        headers = {"Promise-Non-Write-API-Action": "true"}
        timeout_s = self.etiquette.timeout_s
        limits = HttpLimits(headers_s=timeout_s, idle_s=timeout_s, total_s=timeout_s)
        try:
            reply = await read_reply(
                self._session, "POST", self.endpoint, limits, data=query, headers=headers
            )
        except ReplyTooLarge as error:
            return Fault("stop", f"{error}: {NO_MEDIAWIKI}")
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return connection_fault(error, self.etiquette.timeout_s)
        return _judge(reply.status, reply.headers, reply.data)

    def _wait_s(self, faults: Sequence[Fault], began: float, key: str) -> float:
        """How long nobody sends after the last of these faults; raises where asking is useless."""
        etiquette, fault = self.etiquette, faults[-1]
        if fault.verdict == "stop":
            raise self._stopped(fault.text)
        drawn_s = backoff_s(key, len(faults) - 1, etiquette.backoff_s, etiquette.backoff_cap_s)
        wait_s = max(drawn_s, fault.wait_s or 0.0)
        LOG.info("%s: %s; the next request is in %.1f s", self.endpoint, fault.text, wait_s)
        late_s = etiquette.clock.now() + wait_s - began
        if _is_put_off(fault) and late_s > etiquette.patience_s:
            raise self._stopped(f"{fault.text} (put off by {late_s / 60:.0f} minutes)")
        n_failed = sum(not _is_put_off(fault) for fault in faults)
        most = etiquette.max_attempts if self._has_answered else min(FEW, etiquette.max_attempts)
        if n_failed >= most:
            raise self._stopped(f"{fault.text} ({n_failed} attempts)")
        return wait_s

    def _stopped(self, reason: str) -> ModelError:
        return ModelError(f"wiki {self.endpoint}: {reason.rstrip('.')}.")


def user_agent(contact: str) -> str:
    """Who asks, and whom the wiki's operators can write to; refuses a contact that is none.

    >>> user_agent("ada@museum.org")  # doctest: +ELLIPSIS
    'fieldmark/... (ada@museum.org) aiohttp/...'
    """
    contact = contact.strip()
    if not _CONTACT.fullmatch(contact) or _BOGUS.search(contact):
        problem = f"contact = {contact!r} reaches nobody" if contact else "contact is not set"
        raise UsageError(
            f"{problem}. Wikis require your e-mail address or web page with each request: give "
            "--contact, or set `contact` in fieldmark.toml."
        )
    return f"fieldmark/{app_version()} ({contact}) aiohttp/{aiohttp.__version__}"


def _judge(status: int, headers: Mapping[str, str], data: bytes) -> dict[str, Any] | Fault:
    """A reply's content, or what is wrong with it."""
    wait_s = retry_after_s(headers)
    if 300 <= status < 400:
        there = headers.get("Location", "another address")
        return Fault("stop", f"it has moved to {there}: use that address", status)
    if status != 200:
        is_passing = status in TRANSIENT or status >= 500
        text = f"{status} {_plain_text(data)}".strip()
        return Fault("again" if is_passing else "stop", text, status, wait_s)
    try:
        answer = json.loads(data)
    except RecursionError:
        return Fault("stop", "the answer is nested too deep")
    except ValueError:
        if data.lstrip()[:1] == b"<":
            text = f"a web page, not JSON ({_plain_text(data)}). Does the address end in api.php?"
            return Fault("stop", text)
        return Fault("again", "the answer was cut off", is_cut=True)
    if not isinstance(answer, dict):
        return Fault("stop", NO_MEDIAWIKI)
    if "error" in answer:
        return _judge_error(answer["error"], wait_s)
    if "query" not in answer:
        return Fault("stop", NO_MEDIAWIKI)
    return answer


def _judge_error(error: Any, wait_s: float | None) -> Fault:
    """What an error of the API means, which comes with status 200."""
    code = str(error.get("code")) if isinstance(error, dict) else ""
    text = f"{code}: {_plain_text(str(error.get('info', '')).encode())}" if code else str(error)
    if code in _PASSING or code.startswith("internal_api_error"):
        is_rate = code in ("maxlag", "ratelimited")
        return Fault("again", text, 429 if is_rate else None, wait_s)
    return Fault("stop", text)


def _is_put_off(fault: Fault) -> bool:
    """Does the wiki want us to come back later, rather than fail?"""
    return fault.is_rate or fault.wait_s is not None


def _plain_text(data: bytes) -> str:
    """The words of an error page, in one line."""
    text = re.sub(r"(?s)<(script|style|head).*?</\1>|<[^>]*>", " ", data.decode("utf-8", "replace"))
    return " ".join(html.unescape(text).split())[:200]


def _has_properties(more: Mapping[str, str]) -> bool:
    """Are page properties among what a cut answer is done with? Then texts are all that lacks."""
    return "pageprops" in more.get("continue", "").rpartition("||")[2].split("|")


def _page(fields: Mapping[str, Any]) -> WikiPage:
    """A page whose text is hidden, or lost, has none."""
    revision, properties = fields["revisions"][0], fields.get("pageprops", {})
    return WikiPage(
        title=fields["title"],
        page_id=int(fields["pageid"]),
        revision_id=int(revision["revid"]),
        timestamp=str(revision.get("timestamp", "")),
        wikitext=str(revision.get("slots", {}).get("main", {}).get("content", "")),
        is_disambiguation="disambiguation" in properties,
        wikidata=str(properties.get("wikibase_item", "")),
    )


def _site(query: Mapping[str, Any], endpoint: str) -> WikiSite:
    general, rights = query["general"], query["rightsinfo"]
    server = general["server"]
    if server.startswith("//"):
        server = f"{urlsplit(endpoint).scheme}:{server}"
    return WikiSite(
        name=f"{general['sitename']} ({general['lang']})",
        url=server + general["articlepath"].replace("$1", ""),
        licence=rights.get("text") or rights.get("url") or "",
    )
