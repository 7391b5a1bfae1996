"""A process that asks many questions and may be killed at any moment.

python asker.py BASE_URL JOURNAL N OUT
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from fieldmark.chat import Answer, Journal, Options, Request, ask_now, chat_model
from kit.chat import ask_about, make_jpegs


def main(url: str, folder: str, n: str, out: str) -> None:
    found: dict[str, list[str]] = {}

    def keep(request: Request, answer: Answer) -> None:
        found[request.id] = [answer.outcome, answer.text]

    model = chat_model(f"chat/mock/wren?base_url={url}")
    with Journal(Path(folder)) as journal:
        requests = (ask_about(i, photo) for i, photo in enumerate(make_jpegs(int(n))))
        ask_now(requests, model, Options(concurrency=16), journal, on_answer=keep)
    Path(out).write_text(json.dumps(found, sort_keys=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
