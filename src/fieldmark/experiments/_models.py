"""Model cache of a command: which models does it use, and what is each of them?

What a family's model is, its name and files tell. A model of the user's is loaded to tell where
that is allowed, since it may rest on what no one can see beforehand; else what it turned out to be
the last time counts, as long as its files are unchanged. At most one is held in memory.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fieldmark.abilities import ANSWERS
from fieldmark.data import MEMORY, Contents
from fieldmark.embed import trusted_fingerprint, write_behaviour
from fieldmark.errors import FieldmarkError
from fieldmark.models import (
    Identity,
    ModelMemory,
    abilities,
    is_own_model,
    load_chat_model,
    load_model,
)
from fieldmark.settings import Settings


@dataclass(frozen=True, slots=True)
class KnownModel:
    """What a model is, for a process that does not load it."""

    name: str
    version: str
    """"" where only loading it would tell"""
    fingerprint: str = ""
    dim: int = 0
    n_parameters: int = 0
    decode: str = ""


class Models:
    """The models of one command."""

    def __init__(self, settings: Settings, may_load: bool) -> None:
        self.settings, self.may_load = settings, may_load
        has_cache = may_load or settings.cache.is_dir()
        self.contents = Contents(settings.cache / MEMORY if has_cache else None, settings.n_threads)
        self._memory = ModelMemory(settings.cache if has_cache else None, self.contents.digest)
        self._identities: dict[str, Identity] = {}
        self._loaded: tuple[str, Any] | None = None

    def identity(self, name: str) -> Identity:
        """What the model is now; its version is "" where only loading it would tell, or where it
        cannot be loaded: that is told by the job that needs it.
        """
        if name not in self._identities:
            if self.may_load and is_own_model(name):
                self._identities[name] = Identity("")
                with suppress(FieldmarkError):
                    self.load(name)
            else:
                self._identities[name] = self._memory.identify(name, **self._how)
        return self._identities[name]

    def load(self, name: str) -> Any:
        """The model itself, and from now on its identity as it turned out to be."""
        if self._loaded is None or self._loaded[0] != name:
            self._loaded = None  # two at once may not fit the device
            own, how = self.settings, self._how
            if ANSWERS in abilities(name):
                chat = load_chat_model(
                    name,
                    device=own.device,
                    precision=own.precision,
                    offline=own.offline,
                    send_key=own.send_key,
                )
                self._loaded = (name, chat)
            else:
                model: Any = load_model(name, memory=self._memory, offline=own.offline, **how)
                fingerprint = model.fingerprint
                self._loaded = (name, self._apart(model))
                if model.fingerprint != fingerprint:
                    self._memory.remember(name, model, **how)
                self._identities[name] = self._memory.identify(name, **how, loaded=model)
        return self._loaded[1]

    def note_behaviour(self, name: str) -> None:
        """Keeps, beside the results, what a model of the user's does: its runs belong to that,
        whatever becomes of the cache.
        """
        if self._loaded is not None and self._loaded[0] == name:
            model = self._loaded[1]
            write_behaviour(self._behaviours / model.fingerprint, _behaviour_of(model))

    @property
    def _how(self) -> dict[str, Any]:
        own = self.settings
        return {"device": own.device, "precision": own.precision, "decode": own.decode}

    @property
    def _behaviours(self) -> Path:
        return self.settings.results / "models"

    def _apart(self, model: Any) -> Any:
        """The model, told apart from one with its fingerprint that did otherwise."""
        behaviour = _behaviour_of(model)
        if behaviour is not None:
            places = (self.settings.cache / "features", self._behaviours)
            kept = trusted_fingerprint(places, model.fingerprint, behaviour)
            if kept != model.fingerprint:
                model.stand_apart(kept)
        return model


def _behaviour_of(model: Any) -> Any:
    """Features of fixed pictures, of a model of the user's; None for all others."""
    behaviour = getattr(model, "behaviour", None)
    return behaviour() if callable(behaviour) else None
