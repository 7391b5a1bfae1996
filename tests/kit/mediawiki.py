"""A real MediaWiki on loopback: Debian's package, SQLite, PHP's own server.

    def test_something(mediawiki: MediaWiki) -> None:
        mediawiki.load(mock_pages({"Common raven": "'''Ravens''' are black."}))
        with WikiApi(mediawiki.endpoint, CONTACT) as api: ...

`.ci/mediawiki` installs what it needs; without that, tests skip and say so. Every xdist worker has
an instance of its own, which takes about 2 s; pages load at about 200 a second and stay.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

from fieldmark.build.wiki import WikiPage
from fieldmark.build.wiki.taxobox import (
    DISAMBIGUATION_TEMPLATES,
    says_disambiguation,
    template_names,
)

CONTACT = "tests@fieldmark-test-suite.org"
"""nobody's address: no request of a test leaves this machine"""
SCRIPTS = Path("/usr/share/mediawiki")
SETTINGS = Path(__file__).parent / "wiki_settings" / "settings.php"
WORKERS = 4
GUARD = '"$@" & cat; kill -9 0'
"""ends the server and its workers when whoever started it closes its end of a pipe, or dies"""
PATIENCE_S = 60.0


def why_not() -> str:
    """Why MediaWiki cannot be started here; "" = it can."""
    if shutil.which("php") is None:
        return "PHP is not installed: `.ci/mediawiki` installs it (as root)"
    if not (SCRIPTS / "maintenance" / "install.php").is_file():
        return "MediaWiki is not installed: `.ci/mediawiki` installs it (as root)"
    modules = subprocess.run(["php", "-m"], capture_output=True, text=True, check=True).stdout
    lacking = {"pdo_sqlite", "intl", "mbstring", "xml"} - set(modules.lower().split())
    return f"PHP lacks {', '.join(sorted(lacking))}" if lacking else ""


class MediaWiki:
    """One wiki with a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.endpoint = f"{self.url}/api.php"
        self._texts: dict[str, str] = {}
        self._properties: dict[str, dict[str, str]] = {}
        self._server: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._php(
            "install.php", "--dbtype=sqlite", "--dbname=wiki", f"--dbpath={self.folder / 'data'}",
            f"--confpath={self.folder}", f"--server={self.url}", "--scriptpath=", "--lang=en",
            "--pass=only-for-tests-17", "Test wiki", "Admin",
        )  # fmt: skip
        with (self.folder / "LocalSettings.php").open("a", encoding="utf-8") as settings:
            settings.write(f"\nrequire_once '{SETTINGS}';\n")
        self._server = subprocess.Popen(
            ["sh", "-c", GUARD, "sh", "php", "-S", f"127.0.0.1:{self.port}", "-t", str(SCRIPTS)],
            env=self._environment() | {"PHP_CLI_SERVER_WORKERS": str(WORKERS)},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=(self.folder / "server.log").open("wb"),
            start_new_session=True,
        )
        self._wait_until_up()

    def stop(self) -> None:
        if self._server is not None:
            assert self._server.stdin is not None
            self._server.stdin.close()
            self._server.wait()

    def load(self, pages: Iterable[WikiPage]) -> None:
        """Adds pages with their time stamps and properties. Those that are there already with the
        same text are not loaded again.
        """
        pages = list(pages)
        texts = {page.title: page.wikitext for page in pages}
        for name in sorted(set().union(*map(template_names, texts.values()))):
            if name in DISAMBIGUATION_TEMPLATES:
                template = f"Template:{name[0].upper()}{name[1:]}"
                texts = {template: "__DISAMBIG__"} | texts
        stamps = {page.title: page.timestamp for page in pages}
        new = {title: text for title, text in texts.items() if self._texts.get(title) != text}
        self._properties |= {page.title: _properties(page) for page in pages}
        path = self.folder / "properties.json"
        path.write_text(json.dumps(self._properties), encoding="utf-8")
        parsed = {title for title, text in new.items() if says_disambiguation(text)}
        parsed |= {title for title, properties in self._properties.items() if properties}
        self._import({t: text for t, text in new.items() if t in parsed}, stamps)
        # The rest needs no parsing: without it, pages load three times as fast.
        rest = {t: text for t, text in new.items() if t not in parsed}
        self._import(rest, stamps, "--no-updates")
        self._texts |= new

    def _import(self, texts: dict[str, str], stamps: dict[str, str], *flags: str) -> None:
        if texts:
            dump = self.folder / "load.xml"
            dump.write_text(dump_xml(texts, stamps), encoding="utf-8")
            self._php("importDump.php", *flags, str(dump))

    def _php(self, script: str, *arguments: str) -> None:
        path = str(SCRIPTS / "maintenance" / script)
        done = subprocess.run(
            ["php", path, *arguments], env=self._environment(), text=True, timeout=600,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-2000:]

    def _environment(self) -> dict[str, str]:
        return dict(os.environ) | {"MW_CONFIG_FILE": str(self.folder / "LocalSettings.php")}

    def _wait_until_up(self) -> None:
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                urllib.request.urlopen(f"{self.endpoint}?action=query&format=json", timeout=20)
                return
            except (OSError, urllib.error.URLError):
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)


def _properties(page: WikiPage) -> dict[str, str]:
    """Those that its text does not give it."""
    properties = {"wikibase_item": page.wikidata} if page.wikidata else {}
    is_silent = page.is_disambiguation and not says_disambiguation(page.wikitext)
    return properties | ({"disambiguation": ""} if is_silent else {})


def dump_xml(texts: dict[str, str], stamps: dict[str, str] | None = None) -> str:
    """The XML that MediaWiki exports and imports, one revision a page."""
    stamps = stamps or {}
    pages = [
        f"<page><title>{escape(title)}</title><revision>"
        f"<timestamp>{stamps.get(title, '2026-01-02T03:04:05Z')}</timestamp>"
        "<contributor><username>Admin</username></contributor>"
        "<model>wikitext</model><format>text/x-wiki</format>"
        f'<text xml:space="preserve">{escape(text)}</text></revision></page>'
        for title, text in texts.items()
    ]
    start = '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11">'
    return f"{start}{''.join(pages)}</mediawiki>"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="session")
def mediawiki(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MediaWiki]:
    """A wiki for all tests of a worker. Pages that one test loads are there for the next."""
    if reason := why_not():
        pytest.skip(reason)
    wiki = MediaWiki(tmp_path_factory.mktemp("mediawiki"))
    try:
        wiki.start()
        yield wiki
    finally:
        wiki.stop()
