"""A server on loopback that sends exactly the bytes a test wants, in a thread of its own.

with raw_server(repeating(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65536)) as url: ...
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager

OK = b"HTTP/1.1 200 OK\r\n"
Script = Callable[[asyncio.StreamWriter], Awaitable[None]]


def sending(*parts: bytes) -> Script:
    async def script(writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)

    return script


def repeating(start: bytes, part: bytes, pause_s: float = 0.0) -> Script:
    """Sends `part` until the other side hangs up."""

    async def script(writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        for _ in itertools.count():
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(pause_s)

    return script


def redirect(to: str) -> Script:
    head = f"HTTP/1.1 302 Found\r\nLocation: {to}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    return sending(head.encode())


@contextmanager
def raw_server(scripts: Script | Mapping[str, Script]) -> Iterator[str]:
    """The address of a server that runs a script for every request, or one per path."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
            script = scripts[path] if isinstance(scripts, Mapping) else scripts
            await script(writer)
            await writer.drain()
        writer.close()

    async def serve(stopped: asyncio.Event) -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        ports.append(server.sockets[0].getsockname()[1])
        ready.set()
        await stopped.wait()
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    ports, ready = list[int](), threading.Event()
    loop = asyncio.new_event_loop()
    stopped = asyncio.Event()
    loop.set_exception_handler(lambda *_: None)
    thread = threading.Thread(target=lambda: loop.run_until_complete(serve(stopped)), daemon=True)
    thread.start()
    ready.wait(10)
    try:
        yield f"http://127.0.0.1:{ports[0]}/"
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join(10)
        loop.close()
