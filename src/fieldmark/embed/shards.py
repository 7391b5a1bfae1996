"""Sharding (hash partition): which process embeds which images?

An image belongs to one of 256 buckets for ever, by the name of its file; members of an archive go
with it, so that one process reads it from its start to its end. A shard is some of the buckets.
Processes that fill the same cache lease what they work on (`fieldmark.leases`), a bucket at a time.
Should two work on the same bucket all the same, because one was thought dead, that costs time only:
equal features are kept twice.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from fieldmark import draws
from fieldmark.data import ImageRef, split_reference
from fieldmark.leases import Lease, LeaseFolder
from fieldmark.processes import host
from fieldmark.progress import Progress

N_BUCKETS = 256
LEASES = "leases"
"""the folder of leases beside the features of a model"""
FIRST_PAUSE_S, PAUSE_S = 0.05, 2.0
"""how long a process that waits for others sleeps at first, and later"""
SYNC_EVERY_S = 1.0
"""how long buckets that are done may wait to be given up together: to sync takes milliseconds"""


def bucket(image: str) -> int:
    """The bucket of an image reference, the same in every process."""
    name = split_reference(image)[0]
    return hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=1).digest()[0]


def in_shard(image: str, index: int, n: int) -> bool:
    """Is the image in this one of `n` shards?"""
    return bucket(image) % n == index


class LeasedBuckets:
    """What several processes embed of one dataset, taken bucket by bucket; from any thread.

    Nobody waits while holding a lease: buckets that others hold are passed over, and `wait` is for
    when the work on all own ones has ended. So two processes never wait for each other.
    """

    def __init__(
        self, folder: LeaseFolder, root: Path, refs: Iterable[ImageRef], sync: Callable[[], None]
    ) -> None:
        """`sync` is called before a bucket is given up as done: its features can be seen then."""
        self._folder, self._sync = folder, sync
        self._prefix = draws.digest("root", root.absolute()).hex()[:12]
        buckets: dict[int, list[ImageRef]] = {}
        for ref in refs:
            buckets.setdefault(bucket(ref.image), []).append(ref)
        start = draws.number("first bucket", host(), os.getpid())  # others begin elsewhere
        order = sorted(buckets, key=lambda number: (number - start) % N_BUCKETS)
        self._left = {number: buckets[number] for number in order}
        self._held: dict[int, tuple[Lease, int]] = {}
        """lease, and how many items are not settled"""
        self._done: list[Lease] = []
        self._synced_s = time.monotonic()
        self._lock = threading.Lock()

    @property
    def has_left(self) -> bool:
        """Are there buckets that were not taken?"""
        return bool(self._left)

    def take(self) -> Iterator[tuple[int, list[ImageRef]]]:
        """The buckets that no other process holds, each leased when it is asked for."""
        for number in list(self._left):
            lease = self._folder.claim(self._name(number))
            if lease is not None:
                refs = self._left.pop(number)
                with self._lock:
                    self._held[number] = lease, len(refs)
                yield number, refs

    def count_done(self, counts: Mapping[int, int]) -> None:
        """So many items of these buckets need no more work; a bucket without others is done."""
        with self._lock:
            for number, n in counts.items():
                if n and number in self._held:
                    lease, n_open = self._held.pop(number)
                    if n_open > n:
                        self._held[number] = lease, n_open - n
                    else:
                        self._done.append(lease)
            is_time = self._done and time.monotonic() - self._synced_s > SYNC_EVERY_S
        if is_time:
            self._finish()

    def release(self) -> None:
        """Gives up all that is held: the pipeline has ended."""
        self._finish()
        with self._lock:
            held, self._held = self._held, {}
        for lease, _ in held.values():
            self._folder.give_up(lease, is_done=False)

    def _finish(self) -> None:
        with self._lock:
            done, self._done = self._done, []
            self._synced_s = time.monotonic()
        if done:
            self._sync()
        for lease in done:
            self._folder.give_up(lease, is_done=True)

    def wait(self, progress: Progress) -> None:
        """Until one of the buckets that others held is free, or its holder is gone."""
        names, pause_s = [self._name(number) for number in self._left], FIRST_PAUSE_S
        while not self._folder.free(names):
            progress.status(f"waiting for {self._folder.holder(names[0])[0]}")
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S)

    def _name(self, number: int) -> str:
        return f"{self._prefix}-{number:03d}"
