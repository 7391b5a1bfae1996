"""Which models does a command use, and what is each of them?

What a model is, is known by its name and files where that is enough; a user's own model is loaded
to tell, since it may read what no one can see beforehand. At most one is held in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fieldmark.data import MEMORY, Contents
from fieldmark.models import load_chat_model, load_model, model_identity
from fieldmark.settings import Settings


@dataclass(frozen=True, slots=True)
class Identity:
    version: str
    fingerprint: str = ""
    dim: int = 0


class Models:
    """The models of one command."""

    def __init__(self, settings: Settings, may_load: bool) -> None:
        self.settings, self.may_load = settings, may_load
        has_cache = may_load or settings.cache.is_dir()
        self.contents = Contents(settings.cache / MEMORY if has_cache else None, settings.threads)
        self._identities: dict[str, Identity] = {}
        self._loaded: tuple[str, Any] | None = None

    def identity(self, name: str, protocol: str) -> Identity:
        if name not in self._identities:
            self._identities[name] = Identity(model_identity(name))
        return self._identities[name]

    def load(self, name: str, protocol: str) -> Any:
        if self._loaded is None or self._loaded[0] != name:
            self._loaded = None
            load = load_chat_model if protocol == "ask" else load_model
            s = self.settings
            model = load(name, device=s.device, precision=s.precision, offline=s.offline)
            self._loaded = (name, model)
        return self._loaded[1]
