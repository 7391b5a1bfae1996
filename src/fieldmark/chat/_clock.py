"""What time is it, and how does one wait? Injected, so that tests of hours take milliseconds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clock:
    now: Callable[[], float] = time.monotonic
    """seconds that never go back"""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
