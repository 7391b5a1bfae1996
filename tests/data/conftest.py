"""Real tables and photos beside the checkout on some machines; tests skip where there are none."""

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[3] / "shared"


def _shared(name: str) -> Path:
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"{path} is not on this machine")
    return path


@pytest.fixture
def shared_tables() -> Path:
    return _shared("data")


@pytest.fixture
def shared_photos() -> Path:
    return _shared("photos")
