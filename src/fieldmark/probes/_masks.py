"""Which hidden values are dropped at a training step?

A counter is mixed into 64 bits (the finaliser of splitmix64) on whatever device the features are,
and each 16 of them decide about one value: the same masks everywhere, whatever the size of the
batch, and nothing travels. The key comes from `fieldmark.draws`.
"""

from __future__ import annotations

from typing import Any

from fieldmark.probes._arrays import Array, namespace, numbers

_STEP, _FIRST, _SECOND = (
    value - (1 << 64) for value in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
"""splitmix64's constants, as signed numbers: torch has no products of unsigned ones"""
_LANES = 4


def kept(key: int, rows: range, width: int, share_dropped: float, x: Array) -> Array:
    """Booleans (rows × width), True with the probability 1 - `share_dropped` (to 1/65536).

    Row number r of a key is the same whichever range it is asked in.
    """
    n_lanes = -(-width // _LANES)
    counter_rl = numbers(rows, x)[:, None] * n_lanes + numbers(range(n_lanes), x)
    bits_rl = _mixed(counter_rl * _STEP + (key - (1 << 63)))
    small_rw = bits_rl.view(namespace(x).int16)[:, :width]
    return small_rw >= round(share_dropped * (1 << 16)) - (1 << 15)


def _mixed(value: Any) -> Any:
    for shift, factor in ((30, _FIRST), (27, _SECOND)):
        value = (value ^ _shifted(value, shift)) * factor
    return value ^ _shifted(value, 31)


def _shifted(value: Any, by: int) -> Any:
    """To the right, with zeros coming in: signed numbers would bring their sign."""
    return (value >> by) & ((1 << (64 - by)) - 1)
