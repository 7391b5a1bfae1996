"""Concurrent writers: do eight processes on one results file and one cache lose or spoil anything?

    python benchmarks/writers.py [--seconds 60] [--writers 8] [--kill-every 1.0] [--quick]

Every process does runs of its own, runs that all are after, merges shards, appends features and
notes contents as fast as it can; one is killed with SIGKILL now and then and another takes its
place. Afterwards every call that had returned must be in the files, every run done once, every
part whole.
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from _quick import Flags, finish
from kit.writers import hammer


def main() -> int:
    flags = Flags(__doc__)
    flags.add_argument("--seconds", type=float, default=60.0)
    flags.add_argument("--writers", type=int, default=8)
    flags.add_argument("--kill-every", type=float, default=1.0, help="seconds; 0: nobody is")
    flags.add_argument("--folder", type=Path, help="on the file system to be tried")
    args = flags.parse(seconds=2.0, writers=2, kill_every=0.8)
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        start = time.perf_counter()
        written = hammer(Path(folder), args.writers, args.seconds, args.kill_every)
        print(f"{args.writers} writers, {time.perf_counter() - start:.0f} s with the check:")
        for name, count in asdict(written).items():
            print(f"  {name:12} {count:,}")
    figure = (
        f"writers: {written.n_rows:,} rows by {args.writers} writers, {written.n_killed} killed"
    )
    return finish(f"{figure}; nothing lost, done twice or damaged", {}, args.quick)


if __name__ == "__main__":
    sys.exit(main())
