"""The process in which `_sandbox` lets files of task code run: `python -m … FOLDER…`.

Writes `ready`, then for each JSON line `{"token": …, "functions": [[text, yaml, line], …]}`, which
is about one file, one line back: the token and a list of what is wrong with each function. Nothing
that the code prints is seen, and it reaches no network.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from fieldmark.errors import UsageError
from fieldmark.lmms.code.call import load_function
from fieldmark.lmms.read.marks import Function, Trust

CLOSED = (
    "socket.connect",
    "socket.getaddrinfo",
    "socket.gethostbyname",
    "socket.gethostbyaddr",
    "socket.sendto",
    "socket.sendmsg",
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.fork",
    "os.forkpty",
    "os.posix_spawn",
    "os.spawn",
    "pty.spawn",
)
"""events of Python's audit hooks: a program that is started could reach the network too"""


def main(folders: list[str]) -> None:
    questions = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    trust = Trust.of(*map(Path, folders))
    sys.argv = ["fieldmark"]
    sys.addaudithook(_refuse)
    answers.write("ready\n")
    answers.flush()
    for line in questions:
        asked = json.loads(line)
        told = [
            _try(Function(text, Path(file), at), trust) for text, file, at in asked["functions"]
        ]
        # On a line of its own, whatever the code wrote to this stream before.
        answers.write(f"\n{asked['token']}{json.dumps(told)}\n")
        answers.flush()


def _try(function: Function, trust: Trust) -> str:
    try:
        load_function(function, trust)
    except UsageError as error:
        return str(error)
    return ""


def _refuse(event: str, _arguments: tuple[Any, ...]) -> None:
    if event in CLOSED:
        raise PermissionError(f"{event} is closed while the code of tasks is imported")


if __name__ == "__main__":
    main(sys.argv[1:])
