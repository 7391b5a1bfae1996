"""How is something costly kept for many threads, without growing without bound?

A `Shelf` holds the values used last. Each is made once even when several threads want it at the
same moment, and the making of one value never waits for another's.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar, cast

Value = TypeVar("Value")
_EMPTY = object()


class _Place:
    __slots__ = ("lock", "value")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.value: object = _EMPTY


class Shelf(Generic[Value]):
    """At most `most` values; the one unused for longest makes room."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._places: OrderedDict[Hashable, _Place] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value under `key`, made now if need be. When `make` raises, nothing is kept."""
        with self._lock:
            place = self._places.setdefault(key, _Place())
            self._places.move_to_end(key)
            while len(self._places) > self._most:
                self._places.popitem(last=False)
        with place.lock:
            if place.value is _EMPTY:
                place.value = make()
            return cast(Value, place.value)

    def __len__(self) -> int:
        return len(self._places)
