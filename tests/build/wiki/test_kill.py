"""kill -9 while pages are fetched: nothing lost, nothing twice, one request more per kill."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fieldmark.build.wiki.api import BATCH
from fieldmark.build.wiki.store import PageStore
from kit import forked
from kit.chat import running
from kit.mediawiki import CONTACT
from kit.mock_wiki import MockWiki, mock_pages

N, N_KILLS = 2_000, 20
TEXTS = {
    **{f"Species {i}": f"'''Species {i}''' is grey. " * 20 for i in range(0, N, 2)},
    **{f"Species {i}": f"#REDIRECT [[Species {i - 1}]]" for i in range(1, N, 4)},
}
"""half are pages, a quarter redirects, a quarter is missing"""
LATENCY_S = 0.06
FETCHER = f"""
import os, sys
from pathlib import Path
from fieldmark.build.wiki.api import Etiquette, WikiApi
from fieldmark.build.wiki.store import PageStore

def fetch(path, url):
    titles = [f"species_{{i}}" for i in range({N})]
    etiquette = Etiquette(per_minute=1e6)
    with PageStore.open(path) as store, WikiApi(url, "{CONTACT}", etiquette) as api:
        api.fetch(titles, store)
        os._exit(0 if store.unknown(titles) == [] else 1)

while True:
    child = os.fork()
    if child == 0:
        fetch(Path(sys.argv[1]), sys.argv[2])
    print(child, flush=True)
    status = os.waitpid(child, 0)[1]
    if os.WIFEXITED(status):
        sys.exit(os.WEXITSTATUS(status))
"""
"""forks who fetches, so that modules are imported once; starts another when one was killed"""


@pytest.mark.slow
def test_kills_lose_nothing(tmp_path: Path) -> None:
    """Each kill comes before the first request, or within one of the first three."""
    wiki, path = MockWiki(mock_pages(TEXTS), latency_s=LATENCY_S), tmp_path / "pages.db"
    rng = random.Random(17)
    with running(wiki) as url:
        command = [sys.executable, "-c", FETCHER, str(path), url]
        with forked.Popen(command, stdout=subprocess.PIPE, text=True) as fetcher:
            assert fetcher.stdout is not None
            for _ in range(N_KILLS):
                child = int(fetcher.stdout.readline())
                enough = wiki.counts.n_requests + rng.choice([0, 1, 2, 3])
                while wiki.counts.n_requests < enough:
                    time.sleep(0.002)
                time.sleep(rng.uniform(0, 1.2 * LATENCY_S))
                os.kill(child, signal.SIGKILL)
            assert fetcher.wait(120) == 0
    needed = 1 + N // BATCH
    assert needed <= wiki.counts.n_requests <= needed + N_KILLS
    with PageStore.open(path) as store:
        titles = [page.title for page in store.pages()]
        assert sorted(titles) == sorted(f"Species {i}" for i in range(0, N, 2))
        for i in range(N):
            lookup = store.lookup(f"species_{i}")
            assert lookup is not None
            target = {0: i, 1: i - 1, 2: i, 3: None}[i % 4]
            title = None if lookup.page is None else lookup.page.title
            assert title == (None if target is None else f"Species {target}")
