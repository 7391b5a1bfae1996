"""A process that filters many texts and may be killed at any moment.

python filter_process.py BASE_URL JOURNAL N OUT
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from fieldmark.build.describe.chat_filter import ChatFilter
from fieldmark.chat import Options, chat_model


def texts(n: int) -> list[tuple[str, str]]:
    lines = "The wings of kind {0} are blue. It sings {0} times. The tail is long and red. "
    return [
        (f"key-{i}", lines.format(i) + f"Its leaf {i} is green. It lives there.") for i in range(n)
    ]


def main(url: str, folder: str, n: str, out: str) -> None:
    model = chat_model(f"chat/mock/wren?base_url={url}")
    by_chat = ChatFilter(model, Path(folder), Options(concurrency=8))
    results = {
        result.key: [[span.start, span.end] for span in result.spans] + [result.n_dropped]
        for result in by_chat.filter(texts(int(n)))
    }
    Path(out).write_text(json.dumps(results, sort_keys=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
