"""CPU time of `fieldmark run` with a chat model until its first request arrives. Linux only.

    python benchmarks/ask_startup.py [--quick]

Prints user + system seconds of five runs against a server on loopback, with warm bytecode, and
their median last, beside that of `python -c "import aiohttp, polars, numpy"`, which no run does
without. The bar is 2.5 s. (6 s on two busy cores before scikit-learn, scipy.stats and pandas were
left to those who use them; in the same minutes of 2026-11-16, 2.75 s before and 1.14 s after.)
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from _quick import Flags, finish

ROUNDS = 5
BAR_S = 2.5
SILENCE = b'{"error": {"message": "thank you"}}'


class FirstRequest(BaseHTTPRequestHandler):
    """Notes that a request has come, and refuses it."""

    arrived = threading.Event()

    def do_POST(self) -> None:
        FirstRequest.arrived.set()
        self.send_response(400)
        self.send_header("Content-Length", str(len(SILENCE)))
        self.end_headers()
        self.wfile.write(SILENCE)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def cpu_s(pid: int) -> float:
    """User and system seconds of a process so far (proc(5): fields 14 and 15)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(data: Path, folder: Path, url: str) -> float:
    command = [
        sys.executable, "-m", "fieldmark", "run", "--quiet", "--task", "world-species",
        "--data", f"world={data}", "--n-test", "24", "--results", str(folder),
        "--model", f"chat/custom/m?base_url={url}",
    ]  # fmt: skip
    FirstRequest.arrived.clear()
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL)
    try:
        if not FirstRequest.arrived.wait(120):
            raise SystemExit("no request came within two minutes")
        return cpu_s(process.pid)
    finally:
        process.kill()
        process.wait()


def import_s() -> float:
    """CPU time of a process that only imports what every run needs."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", "import aiohttp, polars, numpy"], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    given = Flags(__doc__).parse()
    n_rounds = 1 if given.quick else ROUNDS
    with tempfile.TemporaryDirectory() as name:
        data = Path(name) / "world"
        make = [sys.executable, "-m", "fieldmark", "data", "make", "world", "--size", "300"]
        subprocess.run([*make, "--out", str(data)], check=True, capture_output=True)
        server = ThreadingHTTPServer(("127.0.0.1", 0), FirstRequest)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        if not given.quick:
            measure(data, Path(name) / "warm", url)
        taken = [measure(data, Path(name) / str(n), url) for n in range(n_rounds)]
        server.shutdown()
    bare = statistics.median(import_s() for _ in range(n_rounds))
    median = statistics.median(taken)
    print(" ".join(f"{seconds:.2f}" for seconds in taken), "s CPU until the first request")
    print(f"{bare:.2f} s: its imports alone (aiohttp, polars, numpy)")
    figure = f"ask_startup: {median:.2f} s CPU until the first request"
    return finish(figure, {f"≤ {BAR_S} s": median <= BAR_S}, given.quick)


if __name__ == "__main__":
    sys.exit(main())
