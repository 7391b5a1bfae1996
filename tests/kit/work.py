"""Functions that do one kind of work in a process of their own, so that it can be killed.

They are given text, and leave what they made in the folder that comes last (`kit.kills.function`).
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path

from fieldmark.chat import Answer, AnswerJournal, Options, Request, ask_now, chat_model
from kit.chat import ask_about, make_jpegs


def ask_questions(url: str, n: str, folder: str) -> None:
    found: dict[str, list[str]] = {}

    def keep(request: Request, answer: Answer) -> None:
        found[request.id] = [answer.outcome, answer.text]

    model = chat_model(f"chat/mock/wren?base_url={url}")
    requests = (ask_about(i, photo) for i, photo in enumerate(make_jpegs(int(n))))
    with AnswerJournal(Path(folder, "journal")) as journal:
        ask_now(requests, model, Options(concurrency=16), journal, on_answer=keep)
    Path(folder, "answers.json").write_text(json.dumps(found, sort_keys=True))


def filter_texts(url: str, n: str, folder: str) -> None:
    from fieldmark.build.describe.chat_filter import ChatFilter

    lines = "The wings of kind {0} are blue. It sings {0} times. The tail is long and red. "
    lines += "Its leaf {0} is green. It lives there."
    model = chat_model(f"chat/mock/wren?base_url={url}")
    by_chat = ChatFilter(model, Path(folder, "journal"), Options(concurrency=8))
    found = {
        result.key: [[span.start, span.end] for span in result.spans] + [result.n_dropped]
        for result in by_chat.filter([(f"key-{i}", lines.format(i)) for i in range(int(n))])
    }
    Path(folder, "answers.json").write_text(json.dumps(found, sort_keys=True))


def fetch_pages(url: str, n: str, folder: str) -> None:
    from fieldmark.build.wiki.api import Etiquette, WikiApi
    from fieldmark.build.wiki.store import PageStore
    from kit.mediawiki import CONTACT

    titles = [f"species_{i}" for i in range(int(n))]
    with (
        PageStore.open(Path(folder, "pages.db")) as store,
        WikiApi(url, CONTACT, Etiquette(per_minute=1e6)) as api,
    ):
        api.fetch(titles, store)
        assert store.unknown(titles) == []


def hash_photos(photos: str, folder: str) -> None:
    """With a line of the log for each; every photo is committed, also a young one."""
    from fieldmark import files
    from fieldmark.data import Contents, _content

    files.RACY_NS, _content.COMMIT_EVERY_S = 0, 0.0

    def tell() -> None:
        with Path(folder, "log").open("a") as log:
            log.write("x\n")
        time.sleep(0.1)

    names = sorted(path.name for path in Path(photos).iterdir())
    Contents(Path(folder, "contents.db"), threads=1).learn(Path(photos), names, lambda _: tell)


def join(shard: str, captions: str, folder: str) -> None:
    from fieldmark.build.shards import join_captions

    join_captions(Path(shard), Path(captions), Path(folder, "copy.tar"))


def rescore(results: str, folder: str) -> None:
    """Of results that are copied first."""
    from fieldmark.cli import main

    if not Path(folder, "results").exists():
        shutil.copytree(results, Path(folder, "draft"), dirs_exist_ok=True)
        Path(folder, "draft").rename(Path(folder, "results"))
    words = ["rescore", "--metric", "macro_f1", "--metric", "macro_accuracy", "--results"]
    sys.exit(main([*words, str(Path(folder, "results"))]))
