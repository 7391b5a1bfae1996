"""Leases (lock files with a heartbeat): who is on a piece of work, so that no second one is?

Workers on one machine or on many share nothing but a folder. A lease is a file `NAME.N.lease`; the
highest N counts. It is created with O_EXCL, which is atomic on local disks and on NFS from version
3 on, so of all who take over from a dead holder of N exactly one gets N + 1. Nothing is renamed or
removed while work goes on: a file that disappears under a slow worker is what makes
two of them believe in their turn.

The holder counts up in its file, through the descriptor it opened: should another have taken over,
that harms nobody. Whether a holder is silent is judged by watching its counter with one's own
monotonic clock: clocks of machines are never compared. On the holder's own machine a process that
is gone is known at once; one that is there may hang, so that its silence counts there too.
https://man7.org/linux/man-pages/man2/open.2.html (O_EXCL)
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from fieldmark.errors import ClaimLost, StoreError
from fieldmark.processes import birth, host, still_runs, this_place

BEAT_S = 5.0
SILENCE_S = 60.0
"""a holder that was not heard for so long has lost its lease; it stops at half of it by itself"""
LOOK_S = 0.25
_TRIES = 3
"""claims of a lease that another takes or finishes at the same moment"""
_SIZE = 512
"""bytes of a lease: written in place, so that a full disk stops no heart"""


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that has a lease or a claim."""

    host: str
    place: str
    pid: int
    born: str

    @classmethod
    def here(cls) -> Self:
        return cls(host(), this_place(), os.getpid(), birth(os.getpid()))

    @property
    def is_running(self) -> bool | None:
        """None where that cannot be seen from here: on another machine, in another container."""
        return still_runs(self.host, self.place, self.pid, self.born)

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


def wait_until_heard(
    silent: Callable[[], Mapping[str, object]], tell: Callable[[str], None]
) -> None:
    """Waits for leases whose holders cannot be seen, until each was heard or has run out.

    `silent` gives, by name, what those that hold now have said last; `tell` is told the names.
    """
    # A holder on another machine cannot be looked at. It beats, or its time runs out: either way
    # it is heard of once what it said last has changed.
    at_start = silent()
    unheard = dict(at_start)
    while unheard:
        tell(next(iter(unheard)))
        time.sleep(LOOK_S)
        now = silent()
        unheard = {name: beat for name, beat in unheard.items() if now.get(name) == beat}


class Lease:
    """One piece of work is this process's, as long as `is_held`."""

    def __init__(self, path: Path, descriptor: int, now: Callable[[], float]) -> None:
        self.path, self._file, self._now = path, descriptor, now
        self._lock = threading.Lock()
        # The token tells it from a later lease of this number: finished work may begin anew.
        self._facts: dict[str, Any] = {
            **asdict(Holder.here()), "token": os.urandom(8).hex(), "count": 0, "is_free": False,
        }  # fmt: skip
        self._heard = now()
        self._write()

    def beat(self) -> None:
        """Says that the holder lives; a failure shows when the time is up."""
        with self._lock, contextlib.suppress(OSError):
            if self._file >= 0:
                self._facts["count"] += 1
                self._write()
                self._heard = self._now()

    @property
    def is_held(self) -> bool:
        # Half the silence after which others take over: whoever still writes has time to end.
        if self._file < 0 or self._now() - self._heard > SILENCE_S / 2:
            return False
        return self._is_mine() and not _next(self.path).exists()

    def check(self) -> None:
        if not self.is_held:
            raise ClaimLost(
                f"{self.path}  was taken over by another worker, so this one writes nothing."
            )

    def finish(self) -> None:
        """The work is done: nobody needs its leases any more."""
        self._close()
        if not self._is_mine():
            return
        name, number = _parts(self.path)
        for other in range(number + 1):  # upwards: see `LeaseFolder._create`
            with contextlib.suppress(OSError):
                _lease_path(self.path.parent, name, other).unlink(missing_ok=True)

    def drop(self) -> None:
        """It should not have been taken."""
        self._close()
        if self._is_mine():
            self.path.unlink(missing_ok=True)

    def release(self) -> None:
        """The work is not done, and free for the next."""
        with self._lock, contextlib.suppress(OSError):
            if self._file >= 0:
                self._facts["is_free"] = True
                self._write()
        self._close()

    def _is_mine(self) -> bool:
        content = _read(self.path)
        return content is not None and content.get("token") == self._facts["token"]

    def _close(self) -> None:
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
            self._file = -1

    def _write(self) -> None:
        data = json.dumps(self._facts).encode()
        os.pwrite(self._file, data + b" " * (_SIZE - len(data)), 0)
        os.fsync(self._file)


class LeaseFolder:
    """The leases of one folder; a thread beats for those that are held here."""

    def __init__(self, folder: Path, now: Callable[[], float] = time.monotonic) -> None:
        self.folder, self._now = folder, now
        self._held: set[Lease] = set()
        self._watched: dict[Path, tuple[int | None, float]] = {}
        """leases of others: the count that was seen, and since when"""
        self._stop = threading.Event()
        self._beating: threading.Thread | None = None

    def claim(self, name: str) -> Lease | None:
        """The lease of that name; None while another living worker has it."""
        for _ in range(_TRIES):
            newest = self._newest(name)
            if newest is not None and self._is_live(newest):
                return None
            lease = self._create(name, newest)
            if lease is not None:
                self._held.add(lease)
                self._watched.pop(lease.path, None)
                return lease
        return None

    @contextlib.contextmanager
    def turn(self, name: str, tell: Callable[[str], object] = str) -> Iterator[Lease]:
        """What one process does at a time: waits for the lease, and gives it up at the end. `tell`
        hears again and again who has it.
        """
        while (lease := self.claim(name)) is None:
            tell(self.holder(name)[0])
            time.sleep(LOOK_S)
        try:
            yield lease
        finally:
            self.give_up(lease, is_done=True)

    def _create(self, name: str, newest: Path | None) -> Lease | None:
        """The lease after the newest; None where another was faster.

        When the newest is gone by now, its work was finished meanwhile, and may have begun anew
        under a lower number or the same.
        """
        path = _lease_path(self.folder, name, 0) if newest is None else _next(newest)
        try:
            descriptor = self._open_new(path)
        except FileExistsError:
            return None
        except OSError as error:
            raise _unwritable(path, error) from error
        try:
            lease = Lease(path, descriptor, self._now)
        except OSError as error:
            os.close(descriptor)
            path.unlink(missing_ok=True)
            raise _unwritable(path, error) from error
        # Between the look and the new file its holder may have finished, or spoken again.
        if newest is not None and (not newest.exists() or self._is_live(newest)):
            lease.drop()
            return None
        return lease

    def _open_new(self, path: Path) -> int:
        # Of all that want this number the file system lets one make the file, also on NFS (v3 on).
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
        try:
            return os.open(path, flags, 0o644)
        except FileNotFoundError:
            self.folder.mkdir(parents=True, exist_ok=True)
            return os.open(path, flags, 0o644)

    def free(self, names: Collection[str]) -> list[str]:
        """Those of the names that no living worker has: the folder is looked at once."""
        newest = self._newest_of(names)
        return [name for name in names if name not in newest or not self._is_live(newest[name])]

    def is_free(self, name: str) -> bool:
        return bool(self.free((name,)))

    def holder(self, name: str) -> tuple[str, float]:
        """Who has it, in words, and for how many seconds nothing was heard of it."""
        newest = self._newest(name)
        content = None if newest is None else _read(newest)
        if newest is None or content is None:
            return "a worker that is just beginning", 0.0
        return str(_holder(content)), self._silence_s(newest, content)

    def give_up(self, lease: Lease, is_done: bool) -> None:
        self._held.discard(lease)
        (lease.finish if is_done else lease.release)()

    def __enter__(self) -> LeaseFolder:
        self._beating = threading.Thread(target=self._beat, daemon=True, name="leases")
        self._beating.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._beating is not None:
            self._beating.join()
        for lease in list(self._held):
            self.give_up(lease, is_done=False)

    def _beat(self) -> None:
        while not self._stop.wait(BEAT_S):
            for lease in list(self._held):
                lease.beat()

    def _newest(self, name: str) -> Path | None:
        return self._newest_of((name,)).get(name)

    def _newest_of(self, names: Collection[str]) -> dict[str, Path]:
        """The newest leases of the names, where there are some."""
        numbers: dict[str, int] = {}
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            for file in os.listdir(self.folder):  # noqa: PTH208 - often, and of hundreds of files
                name, _, number = file.removesuffix(".lease").rpartition(".")
                if name in names and file.endswith(".lease") and number.isdecimal():
                    numbers[name] = max(int(number), numbers.get(name, 0))
        return {name: _lease_path(self.folder, name, number) for name, number in numbers.items()}

    def _is_live(self, path: Path) -> bool:
        content = _read(path)
        if content is None and not path.exists():
            return False  # finished meanwhile
        if content is not None and (content.get("is_free") or _holder(content).is_running is False):
            return False
        return self._silence_s(path, content) < SILENCE_S

    def _silence_s(self, path: Path, content: dict[str, Any] | None) -> float:
        """For how long its count has stood still, as seen from here."""
        # By this machine's monotonic clock alone: clocks of machines differ, and jump.
        count = None if content is None else content.get("count")
        seen, since = self._watched.get(path, (-1, 0.0))
        if count != seen:
            self._watched[path] = (count, self._now())
            return 0.0
        return self._now() - since


def _read(path: Path) -> dict[str, Any] | None:
    """What a lease says; None where it is not there or half written."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def _holder(content: Mapping[str, Any]) -> Holder:
    pid = content.get("pid")
    machine, place, born = (str(content.get(name, "")) for name in ("host", "place", "born"))
    return Holder(machine, place, pid if isinstance(pid, int) else 0, born)


def _lease_path(folder: Path, name: str, number: int) -> Path:
    return folder / f"{name}.{number}.lease"


def _parts(path: Path) -> tuple[str, int]:
    name, _, number = path.name.removesuffix(".lease").rpartition(".")
    return name, int(number) if number.isdecimal() else 0


def _next(path: Path) -> Path:
    name, number = _parts(path)
    return _lease_path(path.parent, name, number + 1)


def _unwritable(path: Path, error: OSError) -> StoreError:
    return StoreError(f"{path}  cannot be written: {error.strerror or error}.")
