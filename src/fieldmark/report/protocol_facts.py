"""Facts of a protocol: what does it say of itself that a report shows?

Attributes of `Protocol`: `hub_task` (the task type on the Hugging Face Hub), `uses_training`
(False: it stands at 0 training images), `order` (its place in legends). Reports name no protocol.
"""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def protocol_fact(protocol: str, name: str, default: Any) -> Any:
    """The constant of that name; `default` where the protocol has none or is not known here."""
    from fieldmark.protocols import protocol_of  # with it comes all that can ask

    return getattr(protocol_of(protocol), name.lower(), default)
