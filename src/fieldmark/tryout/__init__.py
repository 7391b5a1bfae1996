"""Your own photos: which model tells them apart, how sure is that, and what does it confuse?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fieldmark import exports

if TYPE_CHECKING:
    from fieldmark.tryout.evaluate import Verdict
    from fieldmark.tryout.trial import try_photos

__all__ = ["Verdict", "try_photos"]

__getattr__ = exports(__name__)
