"""Fault table: what does a run say, cost and leave behind when the endpoint fails?

    python benchmarks/faults.py [--only WORD] [--quick]

Every row is a server on loopback with one fault, asked by the real command line in a process of its
own (`world-stage`, 24 photos). Then the server is mended, where it can be, and the very same
command is given again. Requests and dollars are counted at the server. `--quick` has one fault.
"""

from __future__ import annotations

import socket
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from _quick import Flags, finish
from kit.chat import running
from kit.fault_server import PRICES, RIGHT_KEY, FaultServer, run_fieldmark

N_ITEMS = 24


@dataclass(frozen=True, slots=True)
class FaultCase:
    """One row of the table."""

    name: str
    server: FaultServer
    flags: tuple[str, ...] = ()
    second: str = "mended"
    """what changes before the same command is given again"""
    more: tuple[str, ...] = ()
    """flags of a third command; without any, none is given"""
    is_away: bool = False
    """nobody listens when the first command is given"""


CASES = (
    FaultCase("400 on every 4th", FaultServer("every fourth")),
    FaultCase("wrong key (401)", FaultServer("wrong key"), second="right key"),
    FaultCase("wrong key (500)", FaultServer("wrong key (500)"), second="right key"),
    FaultCase("wrong key (400)", FaultServer("wrong key (400)"), second="right key"),
    FaultCase("unknown model (404)", FaultServer("unknown model")),
    FaultCase("no server", FaultServer(), second="server started", is_away=True),
    FaultCase("refusing model", FaultServer("refusing"), more=("--again", "refused")),
    FaultCase("text-only server (500)", FaultServer("text only")),
    FaultCase("cut-off answers", FaultServer("cut off"), more=("--again", "length")),
    FaultCase("unreadable answers", FaultServer("unreadable"), more=("--again", "unparsed")),
    FaultCase(
        "one at a time, 0.4 s, timeout 2 s",
        FaultServer("one at a time", delay_s=(0.4, 0.4)),
        ("--timeout", "2"),
        second="nothing",
    ),
    FaultCase(
        "50,000 tokens a picture, cap $0.50",
        FaultServer("lying estimate", delay_s=(0.2, 0.4)),
        ("--max-usd", "0.5"),
        second="nothing",
    ),
    FaultCase(
        "the same, 4 at a time",
        FaultServer("lying estimate", delay_s=(0.2, 0.4)),
        ("--max-usd", "0.5", "--concurrency", "4"),
        second="nothing",
    ),
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def measure(case: FaultCase, world: Path) -> list[str]:
    """The lines of one row: a command, the same one again, and perhaps one with `--again`."""
    folder, server = Path(tempfile.mkdtemp()), case.server
    (folder / "fieldmark.toml").write_text(PRICES)
    server.port = free_port()
    model = f"chat/custom/mine?base_url=http://127.0.0.1:{server.port}/v1"
    command = ["run", "--model", model, "--task", "world-stage", "--data", f"world={world}"]
    command += ["--n-test", str(N_ITEMS), *case.flags]
    key = "a-wrong-key" if "key" in case.second else RIGHT_KEY

    def give(what: str, *more: str, key: str = RIGHT_KEY) -> str:
        server.reset()
        outcome = run_fieldmark(folder, *command, *more, key=key, timeout_s=300)
        counts = f"{server.n_requests} | ${server.usd:.3f} | {outcome.lasted_s:.0f} s"
        last = outcome.last_line.replace(model, "MODEL")
        return f"| {case.name} | {what} | {outcome.code} | {counts} | {last} |"

    lines = []
    if case.is_away:
        lines.append(give("first"))
    with running(server):
        if not case.is_away:
            lines.append(give("first", key=key))
        server.is_mended = case.second in ("mended", "right key")
        lines.append(give(f"again ({case.second})"))
        if case.more:
            lines.append(give(" ".join(case.more), *case.more))
    return lines


def main() -> int:
    flags = Flags(__doc__)
    flags.add_argument("--only", default="", help="rows whose name has this word")
    given = flags.parse(only="wrong key (401)")
    world = Path(tempfile.mkdtemp()) / "world"
    run_fieldmark(world.parent, "data", "make", "world", "--size", "700", "--out", str(world))
    print("| fault | command | exit | requests | bill | time | last line |")
    print("|---|---|---|---|---|---|---|")
    chosen = [case for case in CASES if given.only in case.name]
    for case in chosen:
        print("\n".join(measure(case, world)), flush=True)
    return finish(f"faults: {len(chosen)} of {len(CASES)}", {}, given.quick)


if __name__ == "__main__":
    sys.exit(main())
