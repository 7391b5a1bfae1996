"""Requests in flight: does a task of many small parts keep an endpoint busy?

    python benchmarks/ask_newt.py [--concurrency 64] [--quick]

NeWT has 164 parts; each is asked about 4 photos, of a server on loopback that takes 0.5 to 1.5 s
for an answer. Mean in flight is measured at the server, from the first request that came to the
last: a run that asked part after part had 3.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from _quick import Flags, finish
from kit.chat import running
from kit.fault_server import FaultServer, run_fieldmark

BAR = 40
N_PARTS = 164


def main() -> int:
    flags = Flags(__doc__)
    flags.add_argument("--concurrency", type=int, default=64)
    flags.add_argument("--items", type=int, default=4, help="photos of each part")
    given = flags.parse(items=1)
    folder = Path(tempfile.mkdtemp())
    run_fieldmark(folder, "data", "make", "newt", "--size", "1312", "--out", str(folder / "newt"))
    server = FaultServer(delay_s=(0.05, 0.15) if given.quick else (0.5, 1.5))
    with running(server) as url:
        outcome = run_fieldmark(
            folder, "run", "--model", f"chat/custom/mine?base_url={url}", "--task", "newt",
            "--data", f"newt={folder / 'newt'}", "--n-test", str(given.items),
            "--concurrency", str(given.concurrency), key="any", timeout_s=900,
        )  # fmt: skip
    sent_s = server.last_at - server.first_at
    print(outcome.output)
    assert outcome.code == 0 and server.n_requests == N_PARTS * given.items
    figure = (
        f"ask_newt: {server.n_requests} requests for {N_PARTS} parts in {sent_s:.1f} s of "
        f"{outcome.lasted_s:.1f} s, mean in flight {server.mean_in_flight:.1f}, "
        f"most {server.max_in_flight}"
    )
    is_busy = server.mean_in_flight >= BAR
    return finish(figure, {f"{BAR} in flight": is_busy}, given.quick)


if __name__ == "__main__":
    sys.exit(main())
