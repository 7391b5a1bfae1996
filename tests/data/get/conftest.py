"""A file server that misbehaves, and bytes for it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import pytest

from kit.site import Site, no_proxies


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    no_proxies(monkeypatch)
    made = Site()
    yield made
    made.close()


@pytest.fixture
def other_site(site: Site) -> Iterator[Site]:
    """A second host, for mirrors."""
    made = Site()
    yield made
    made.close()


@pytest.fixture
def noise() -> Any:
    """Bytes that no compression makes smaller: `noise(n, seed)`."""

    def make(n: int, seed: int = 0) -> bytes:
        return hashlib.shake_128(str(seed).encode()).digest(n)

    return make
