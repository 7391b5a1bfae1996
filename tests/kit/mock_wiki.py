"""Mock wiki: MediaWiki's action API over HTTP on loopback, from a list of pages.

It answers the two questions that `api` asks (pages by title, and what the site is), in the shapes
MediaWiki 1.39 gives, cuts large answers as it does, and counts what a client promises: requests,
titles in each, requests at a time. It renders nothing.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from aiohttp import web

from fieldmark.build.wiki import WikiPage, WikiSite
from fieldmark.build.wiki.store import is_title, normal_title
from fieldmark.build.wiki.taxobox import says_disambiguation
from kit.chat import ServerCounts

MOST_TITLES = 50
_REDIRECT = re.compile(r"\s*#redirect\s*:?\s*\[\[:?([^\[\]|#]*)(?:#([^\[\]|]*))?[^\[\]]*\]\]", re.I)
_INFO = {
    "contentmodel": "wikitext",
    "pagelanguage": "en",
    "pagelanguagehtmlcode": "en",
    "pagelanguagedir": "ltr",
}
_NAMESPACES = {"Template": 10, "Category": 14, "Help": 12, "User": 2, "Talk": 1}


def mock_pages(texts: Mapping[str, str], items: Mapping[str, str] | None = None) -> list[WikiPage]:
    """Pages of these texts by title, numbered in order; `items` are their Wikidata items."""
    return [
        WikiPage(
            title, number, number, "2026-01-02T03:04:05Z", text,
            says_disambiguation(text), (items or {}).get(title, ""),
        )
        for number, (title, text) in enumerate(texts.items(), start=1)
    ]  # fmt: skip


def redirect_target(wikitext: str) -> tuple[str, str] | None:
    """Title and section that a page redirects to; None where it does not.

    >>> redirect_target("#REDIRECT [[Common raven#Diet]]")
    ('Common raven', 'Diet')
    """
    match = _REDIRECT.match(wikitext)
    if match is None:
        return None
    return normal_title(match[1]), (match[2] or "").replace("_", " ").strip()


class MockWiki:
    """An in-process server; `start` gives the address of its API."""

    def __init__(
        self,
        pages: Iterable[WikiPage],
        site: WikiSite | None = None,
        interwiki: Collection[str] = ("commons", "wikipedia", "wikispecies"),
        most_bytes: int = 8_388_608,
        latency_s: float = 0.0,
    ) -> None:
        self.pages = {page.title: page for page in pages}
        self.site = site or WikiSite("Mock wiki", "http://127.0.0.1/index.php/", "CC BY-SA 4.0")
        self.interwiki, self.most_bytes, self.latency_s = interwiki, most_bytes, latency_s
        self.counts = ServerCounts()
        self.titles: list[list[str]] = []
        """of each request that asked for pages, in order"""
        self.headers: list[dict[str, str]] = []
        """of each request"""
        self._runner: web.ServerRunner | None = None

    async def start(self, port: int = 0) -> str:
        server = web.Server(self._handle)
        self._runner = web.ServerRunner(server, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", port).start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}/api.php"

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        with self.counts.flight():
            self.headers.append(dict(request.headers))
            query = {**request.query, **{k: str(v) for k, v in (await request.post()).items()}}
            if self.latency_s:
                await asyncio.sleep(self.latency_s)
            response = web.json_response(self.answer(query))
            response.enable_compression()
            return response

    def answer(self, query: Mapping[str, str]) -> dict[str, Any]:
        """What the API answers to a query."""
        if query.get("action") != "query":
            text = f'Unrecognized value for parameter "action": {query.get("action")}.'
            return {"error": {"code": "badvalue", "info": text}}
        if query.get("meta") == "siteinfo":
            return {"batchcomplete": True, "query": self._site()}
        titles = list(dict.fromkeys(query.get("titles", "").split("|")))
        self.titles.append(titles)
        if len(titles) > MOST_TITLES:
            text = f'Too many values supplied for parameter "titles". The limit is {MOST_TITLES}.'
            return {"error": {"code": "toomanyvalues", "info": text, "limit": MOST_TITLES}}
        return self._cut(self._resolve(titles), query.get("rvcontinue", ""))

    def _site(self) -> dict[str, Any]:
        path = "/" + self.site.url.split("/", 3)[3] + "$1"
        server = self.site.url.removesuffix(path.removesuffix("$1"))
        general = {"sitename": self.site.name, "lang": "en", "server": server, "articlepath": path}
        return {"general": general, "rightsinfo": {"url": "", "text": self.site.licence}}

    def _resolve(self, titles: Sequence[str]) -> dict[str, Any]:
        """Normalisation, links to other wikis, redirects; then the pages that are left."""
        steps: dict[str, list[dict[str, Any]]] = defaultdict(list)
        ahead, absent = list[str](), list[dict[str, Any]]()
        for title in titles:
            normal = self._abroad(title) or normal_title(title)
            if not is_title(title):
                absent.append({"title": title, "invalidreason": "bad title", "invalid": True})
                continue
            ahead.append(normal)
            if normal != title:
                steps["normalized"].append({"fromencoded": False, "from": title, "to": normal})
        ends = self._follow(ahead, steps)
        known = sorted((self.pages[end] for end in ends if end in self.pages), key=_number)
        absent += [
            {"ns": _namespace(end), "title": end, "missing": True, **_INFO}
            for end in ends
            if end not in self.pages
        ]
        pages = [*absent, *map(_facts, known)]
        return {**steps, "pages": pages} if pages else dict(steps)

    def _follow(self, ahead: list[str], steps: dict[str, list[dict[str, Any]]]) -> list[str]:
        """Titles at the ends of redirects, once each; adds to `steps`. A loop has no end."""
        ends, seen = dict[str, None](), set[str]()
        while ahead:
            title = ahead.pop(0)
            page = self.pages.get(title)
            target = redirect_target(page.wikitext) if page is not None else None
            if title in seen:
                continue
            seen.add(title)
            if abroad := self._abroad(title):
                steps["interwiki"].append({"title": abroad, "iw": abroad.partition(":")[0]})
            elif target is None:
                ends[title] = None
            else:
                there = self._abroad(target[0])
                step = {"from": title, "to": there or target[0]}
                step |= {"tofragment": target[1]} if target[1] else {}
                step |= {"tointerwiki": there.partition(":")[0]} if there else {}
                steps["redirects"].append(step)
                ahead.append(step["to"])
        return list(ends)

    def _abroad(self, title: str) -> str:
        """A title of another wiki as links spell it; "" for our own."""
        prefix, _, rest = title.partition(":")
        return f"{prefix.lower()}:{rest}" if prefix.lower() in self.interwiki else ""

    def _cut(self, query: dict[str, Any], after: str) -> dict[str, Any]:
        """The answer as far as it fits: the texts of some pages come when they are asked on."""
        first, left = int(after.partition("|")[0] or 0), self.most_bytes
        cut_at = None
        for page in query.get("pages", ()):
            number = page.get("pageid", 0)
            if after:
                for name in [*_INFO, "touched", "lastrevid", "length", "new", "pageprops"]:
                    page.pop(name, None)
            if "revisions" not in page:
                continue
            size = len(page["revisions"][0]["slots"]["main"]["content"].encode())
            if number < first or cut_at is not None:
                del page["revisions"]
            elif size > left and left < self.most_bytes:
                cut_at, page["revisions"] = f"{number}|{number}", []
            else:
                left -= size
        if cut_at is None:
            return {"batchcomplete": True, "query": query}
        more = {"rvcontinue": cut_at, "continue": "||info|pageprops"}
        text = "This result was truncated because it would otherwise be larger than the limit."
        return {"continue": more, "warnings": {"result": {"warnings": text}}, "query": query}


def _number(page: WikiPage) -> int:
    return page.page_id


def _namespace(title: str) -> int:
    return _NAMESPACES.get(title.partition(":")[0], 0) if ":" in title else 0


def _facts(page: WikiPage) -> dict[str, Any]:
    """A page with its one revision, as the API gives it."""
    properties = {"disambiguation": ""} if page.is_disambiguation else {}
    properties |= {"wikibase_item": page.wikidata} if page.wikidata else {}
    text = {"contentmodel": "wikitext", "contentformat": "text/x-wiki", "content": page.wikitext}
    revision = {"revid": page.revision_id, "parentid": 0, "timestamp": page.timestamp}
    return {
        "pageid": page.page_id,
        "ns": _namespace(page.title),
        "title": page.title,
        **_INFO,
        "touched": page.timestamp,
        "lastrevid": page.revision_id,
        "length": len(page.wikitext.encode()),
        "new": True,
        **({"pageprops": properties} if properties else {}),
        "revisions": [revision | {"slots": {"main": text}}],
    }
