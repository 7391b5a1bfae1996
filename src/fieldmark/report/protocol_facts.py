"""Facts of a protocol: what does it say of itself that a report shows?

Constants of its module: `HUB_TASK` (the task type on the Hugging Face Hub), `USES_TRAINING` (False:
it stands at 0 training images), `ORDER` (its place in legends). Reports name no protocol.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from fieldmark.errors import FieldmarkError


@cache
def protocol_fact(protocol: str, name: str, default: Any) -> Any:
    """The constant of that name; `default` where the protocol has none or is not known here."""
    from fieldmark.protocols import PROTOCOLS  # with it comes all that can ask

    try:
        return getattr(PROTOCOLS.get(protocol.partition("/")[0]), name, default)
    except FieldmarkError:
        return default
