"""Verification of a download: what is known of a file (size, MD5, SHA-256), and is it right?"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROUGH = 1_000_000
"""a stated size that is a multiple of this was rounded by a person"""
ROUGHLY = 1_000_000_000
"""bytes by which a rounded size may be too small"""
CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Pace:
    """How many requests at once, how patient, how often again."""

    parallel: int = 4
    """files at once"""
    n_tries: int = 5
    """attempts in a row that bring nothing new, for each address"""
    backoff_s: float = 1.0
    """wait after the first failure; it doubles"""
    longest_wait_s: float = 120.0
    """no wait is longer, whatever a server asks for"""
    timeout_s: float = 30.0
    """silence after which a connection is dead"""
    stall_s: float = 60.0
    """a connection that brings less than `least_rate` over this long is dead too"""
    least_rate: float = 1000.0
    """bytes a second"""
    most_bytes: int | None = None
    """of a file whose size nobody stated"""


@dataclass(frozen=True, slots=True)
class Download:
    """A file, where it goes, and what is known about it."""

    target: Path
    urls: tuple[str, ...]
    """in the order they are tried"""
    n_bytes: int | None = None
    md5: str = ""
    sha256: str = ""
    origin: str = ""
    """what the caller knows it by: a line of a list"""

    @property
    def part(self) -> Path:
        return self.target.with_name(self.target.name + ".part")

    @property
    def about(self) -> Path:
        """What the server said about the part."""
        return self.target.with_name(self.target.name + ".part.jsonl")

    @property
    def bad(self) -> Path:
        return self.target.with_name(self.target.name + ".bad")

    @property
    def has_checksum(self) -> bool:
        return bool(self.md5 or self.sha256)

    @property
    def exact_bytes(self) -> int | None:
        """The size, unless it was rounded."""
        is_rough = self.n_bytes is not None and self.n_bytes % ROUGH == 0
        return None if is_rough else self.n_bytes

    def most_bytes(self, pace: Pace) -> int | None:
        """What more than this is sent is not the file."""
        if self.n_bytes is None:
            return pace.most_bytes
        return self.n_bytes if self.exact_bytes is not None else self.n_bytes + ROUGHLY


@dataclass(frozen=True, slots=True)
class DownloadResult:
    """How a download ended."""

    file: Download
    state: str
    """"here": nothing had to be done; "fetched"; "failed" """
    reason: str = ""
    n_bytes: int = 0
    """size of the finished file"""


def fault(file: Download, path: Path, on_bytes: Callable[[int], None] | None = None) -> str:
    """What is wrong with the bytes of a finished file; "" = nothing. Reads all of it."""
    size = path.stat().st_size
    if not file.has_checksum:
        if file.exact_bytes is not None and size != file.exact_bytes:
            return f"it has {size:,} bytes, expected {file.exact_bytes:,}"
        return ""
    for name, expected in (("sha256", file.sha256), ("md5", file.md5)):
        if expected and (actual := checksum(path, name, on_bytes)) != expected.lower():
            return f"its {name} is {actual}, expected {expected.lower()}"
    return ""


def checksum(path: Path, name: str, on_bytes: Callable[[int], None] | None = None) -> str:
    """
    >>> import os
    >>> checksum(Path(os.devnull), "md5")
    'd41d8cd98f00b204e9800998ecf8427e'
    """
    hasher = hashlib.new(name, usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(CHUNK):
            hasher.update(block)
            if on_bytes:
                on_bytes(len(block))
    return hasher.hexdigest()
