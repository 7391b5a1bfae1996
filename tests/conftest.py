"""What every test gets: no network but loopback, and settings that touch nothing of the user's."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

_connect = socket.socket.connect


def _loopback_only(self: socket.socket, address):  # type: ignore[no-untyped-def]
    host = address[0] if isinstance(address, tuple) else ""
    if self.family != socket.AF_UNIX and host not in ("127.0.0.1", "::1", "localhost"):
        raise OSError(f"tests must not reach {host!r}: only loopback is allowed")
    return _connect(self, address)


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket.socket, "connect", _loopback_only)


@pytest.fixture(autouse=True)
def _own_places(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Cache and configuration in a fresh folder; nothing of the user's shell reaches a test."""
    for name in [name for name in os.environ if name.startswith("FIELDMARK_")]:
        monkeypatch.delenv(name)
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("FIELDMARK_CACHE", str(home / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="session")
def shared() -> Path:
    """Real annotation tables and photos beside the checkout; the product stands without them."""
    folder = Path(__file__).parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip("the folder with real tables is not here")
    return folder


@pytest.fixture(autouse=True)
def _registries_as_they_were() -> Iterator[None]:
    """A test that leaves an entry behind would change others, in some order, on some worker. A
    model handed over as an object stays known by its name and fingerprint: that is the product's
    way, and harms nobody.
    """
    from fieldmark.registry import REGISTRIES

    registries = list(REGISTRIES)  # one of the test's own is its own affair

    def entries() -> set[str]:
        names = ((registry.kind, name) for registry in registries for name in registry.added)
        return {f"{kind} {name}" for kind, name in names if "#" not in name}

    before = entries()
    yield
    assert entries() <= before, "a test must leave no registry as it did not find it"
