"""A camera for the tests of chat."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kit.chat import make_jpeg


@pytest.fixture
def jpeg() -> Callable[..., bytes]:
    return make_jpeg
