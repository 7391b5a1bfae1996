"""Which models does a command use, and what is each of them?

What a model is, is known by its name and files where that is enough; a user's own model is loaded
to tell, since it may read what no one can see beforehand. At most one is held in memory.
"""

from __future__ import annotations

from typing import Any

from fieldmark.data import MEMORY, Contents
from fieldmark.models import Identity, ModelMemory, load_chat_model, load_model
from fieldmark.settings import Settings


class Models:
    """The models of one command."""

    def __init__(self, settings: Settings, may_load: bool) -> None:
        self.settings, self.may_load = settings, may_load
        has_cache = may_load or settings.cache.is_dir()
        self.contents = Contents(settings.cache / MEMORY if has_cache else None, settings.threads)
        self._memory = ModelMemory(settings.cache if has_cache else None, self.contents.digest)
        self._identities: dict[str, Identity] = {}
        self._loaded: tuple[str, Any] | None = None
