"""How does one request bring a file nearer to its end, whatever the server does?

Bytes go to `NAME.part`; `NAME.part.json` says what they are the beginning of. Only a file that is
whole and has the right checksum gets its name. What turned out wrong is kept as `NAME.bad`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO

from fieldmark.data._get._http import Answer, Beyond, Refused, ask
from fieldmark.data._get._job import Job, Pace, fault
from fieldmark.data._get._tally import Tally, size
from fieldmark.errors import DataError

BLOCK = 1 << 18


@dataclass(frozen=True, slots=True)
class _About:
    """What the bytes of a part are the beginning of."""

    url: str = ""
    validator: str = ""
    total: int | None = None
    is_pieced: bool = False
    """came in several answers"""
    is_open: bool = False
    """the server stated no length: it may have been cut off"""


def attempt(job: Job, url: str, pace: Pace, tally: Tally) -> int:
    """One request; the size of the finished file. Raises `Refused`, or what a broken line raises.

    Whatever arrived is kept for the next attempt.
    """
    about, start = _beginning(job, url)
    ends = job.exact_bytes if job.exact_bytes is not None else about.total
    if not (start and start == ends):
        about = _request(job, url, pace, tally)
    with _writing(job):
        return _finish(job, about)


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"{folder}  cannot be made ({error.strerror}): choose another folder."
        ) from error


def _beginning(job: Job, url: str) -> tuple[_About, int]:
    """What is here already, if the server can go on from it; else nothing."""
    about = _read_about(job)
    start = job.part.stat().st_size if job.part.is_file() else 0
    is_provable = about.url == url and bool(about.validator)
    # Bytes of a mirror are worth keeping only where a checksum will tell whether they fit.
    if start and (is_provable or (job.has_checksum and about.url)):
        return about, start
    return _About(), 0


def _request(job: Job, url: str, pace: Pace, tally: Tally) -> _About:
    """Streams to the part; tells what it is now."""
    about, start = _beginning(job, url)
    validator = about.validator if about.url == url else ""
    try:
        answer = ask(url, start, validator, pace.timeout_s)
    except Beyond as end:
        if start and end.total == start:
            return replace(about, is_open=False)
        _discard(job)
        raise
    with contextlib.closing(answer.body):
        if start and answer.start == 0:
            start = 0  # ranges are not served, or the file is another one now: all of it comes
        _refuse_odd(job, answer, start, about if about.url == url else _About())
        with _writing(job):
            part = job.part.open("ab" if start else "wb", buffering=0)
        with part:
            # The bytes of another file are gone before the new description stands.
            is_open = answer.total is None
            about = _About(url, answer.validator, answer.total, start > 0, is_open)
            _write_about(job, about)
            _copy(job, answer, part, start, _Watch(pace, tally))
    return about


def _refuse_odd(job: Job, answer: Answer, start: int, about: _About) -> None:
    """Refuses an answer that cannot be the file, before any of it is written."""
    if answer.start != start:
        _discard(job)
        raise Refused("sent another part of the file than asked for", helps=True)
    is_other = about.total is not None and answer.total not in (None, about.total)
    if start and (is_other or (about.validator and answer.validator not in ("", about.validator))):
        _discard(job)
        raise Refused("has another file now: starting over", helps=True)
    content = answer.body.headers.get("Content-Type", "").lower()
    if content.startswith("text/html") and job.target.suffix.lower() not in (".html", ".htm"):
        raise Refused("sent a web page instead of the file", helps=False)
    expected = job.exact_bytes
    if not job.has_checksum and None not in (expected, answer.total) and expected != answer.total:
        raise Refused(f"has a file of {answer.total:,} bytes, expected {expected:,}", helps=False)
    free = shutil.disk_usage(job.target.parent).free
    if answer.total is not None and answer.total - start > free:
        raise DataError(
            f"{job.target}  needs {size(answer.total - start)} more, but only {size(free)} are "
            "free on that disk: make room, or choose another folder."
        )


class _Watch:
    """Ends a transfer that was cancelled, or that only drips."""

    def __init__(self, pace: Pace, tally: Tally) -> None:
        self.pace, self.tally = pace, tally
        self.since, self.n_since = time.monotonic(), 0

    def saw(self, n: int) -> None:
        self.tally.add(n)
        self.tally.stop_if_asked()
        self.n_since += n
        passed = time.monotonic() - self.since
        if passed < self.pace.stall_s:
            return
        if self.n_since < self.pace.least_rate * passed:
            raise Refused(f"sends {self.n_since / passed:.0f} bytes a second", helps=True)
        self.since, self.n_since = time.monotonic(), 0


def _copy(job: Job, answer: Answer, part: IO[bytes], start: int, watch: _Watch) -> None:
    done, total = start, answer.total
    while total is None or done < total:
        block = answer.body.read1(BLOCK if total is None else min(BLOCK, total - done))
        if not block:
            break
        with _writing(job):
            _write_all(part, block)
        done += len(block)
        watch.saw(len(block))
        if total is None and job.exact_bytes is not None and done > job.exact_bytes:
            raise Refused(f"sends more than the expected {job.exact_bytes:,} bytes", helps=False)
    with _writing(job):
        os.fsync(part.fileno())
    if total is not None and done < total:
        raise Refused(f"sent {done - start:,} of {total - start:,} bytes", helps=True)
    if _has_more(job, answer):
        _discard(job)
        raise Refused(f"sends more than the {total:,} bytes it stated", helps=True)


def _write_all(part: IO[bytes], block: bytes) -> None:
    view = memoryview(block)
    while view:
        view = view[part.write(view) :]


def _has_more(job: Job, answer: Answer) -> bool:
    """Does the body go on after its stated length? Asked only where nothing else could tell."""
    is_told = job.has_checksum or job.exact_bytes is not None or answer.total is None
    if is_told or not answer.body.will_close or answer.body.fp is None:
        return False
    try:
        return bool(answer.body.fp.read1(1))
    except (OSError, ValueError):
        return False


def _finish(job: Job, about: _About) -> int:
    """Gives the file its name if it is right; sets it aside, or starts over, if not."""
    why = fault(job, job.part)
    n_bytes = job.part.stat().st_size
    if not why and n_bytes == 0 and not job.has_checksum and job.n_bytes != 0:
        why = "it is empty"
    if not why:
        job.part.replace(job.target)
        job.about.unlink(missing_ok=True)
        return n_bytes
    if about.is_open:
        raise Refused(f"sent a wrong file, or not all of it: {why}", helps=True)
    if about.is_pieced:
        _discard(job)  # the parts may not belong together: whole and fresh, it may be right
        raise Refused(f"sent a file whose parts do not fit: {why}", helps=True)
    job.part.replace(job.bad)
    job.about.unlink(missing_ok=True)
    raise Refused(f"sent a wrong file, kept as {job.bad.name}: {why}", helps=False)


def _discard(job: Job) -> None:
    job.part.unlink(missing_ok=True)
    job.about.unlink(missing_ok=True)


def _read_about(job: Job) -> _About:
    try:
        return _About(**json.loads(job.about.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return _About()


def _write_about(job: Job, about: _About) -> None:
    with _writing(job):
        job.about.write_text(json.dumps(asdict(about)), encoding="utf-8")


@contextlib.contextmanager
def _writing(job: Job) -> Iterator[None]:
    """A disk that is full or read-only ends everything; it must not pass for a broken line."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{job.target}  cannot be written ({error.strerror or error}): what was fetched is "
            "kept; mend this and run the same command again."
        ) from error
