"""Model cache of a command: which models does it use, and what is each of them?

What a family's model is, its name and files tell. A model of the user's is loaded to tell where
that is allowed, since it may rest on what no one can see beforehand; else what it turned out to be
the last time counts, as long as its files are unchanged. At most one is held in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from fieldmark.data import MEMORY, Contents
from fieldmark.embed import (
    behaviour_of,
    kept_facts,
    n_parameters_of,
    noted_decode,
    read_behaviour,
    trusted_fingerprint,
    write_behaviour,
)
from fieldmark.errors import FieldmarkError, ModelError
from fieldmark.models import (
    Identity,
    ModelMemory,
    abilities,
    is_own_model,
    load_chat_model,
    load_model,
    resolve_device,
)
from fieldmark.registry import ANSWERS
from fieldmark.settings import Settings


@dataclass(frozen=True, slots=True)
class KnownModel:
    """What a model is, for a process that does not load it."""

    name: str
    version: str
    """"" where only loading it would tell"""
    fingerprint: str = ""
    dim: int = 0
    n_parameters: int | None = None
    """None: not known before it is loaded"""
    decode: str = ""

    @property
    def is_complete(self) -> bool:
        """Can a `FeatureModel` stand in for it?"""
        return bool(self.version and self.fingerprint and self.dim and self.decode) and (
            self.n_parameters is not None
        )


class FeatureModel:
    """Stands in for a model whose features are all in the cache: no weights are loaded."""

    def __init__(self, about: KnownModel, cache: Path, device: str = "") -> None:
        self.name, self.fingerprint, self.dim = about.name, about.fingerprint, about.dim
        self.n_parameters, self.kept_decode = about.n_parameters or 0, about.decode
        self._features = cache / "features"
        self.device = device
        """where probes may compute"""

    def kept_dim(self, fingerprint: str) -> int:
        """Length of other features that were made with the model: of its patches."""
        dim = kept_facts(self._features / fingerprint).get("dim")
        return dim if isinstance(dim, int) else self._refuse()

    def behaviour(self) -> Any:
        return read_behaviour(self._features / self.fingerprint)

    def transform(self, image: Any) -> Any:  # noqa: ARG002 - the contract of a model
        self._refuse()

    def embed_images(self, batch: Any) -> Any:  # noqa: ARG002 - the contract of a model
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ModelError(
            f"model {self.name!r}: features of some images are gone from {self._features.parent}: "
            "run the same command again."
        )


class Models:
    """The models of one command.

    `known` are those that were looked at elsewhere. With `has_features` they are not loaded here:
    their features, which are in the cache, stand in for them. Else one that turns out to be another
    is refused. Nor is one loaded whose features are all `cached`. `behaviours` are further folders
    with what models of the user's do.
    """

    def __init__(
        self,
        settings: Settings,
        may_load: bool,
        known: Mapping[str, KnownModel] | None = None,
        contents: Contents | None = None,
        has_features: bool = False,
        behaviours: Sequence[Path] = (),
    ) -> None:
        self.settings, self.may_load = settings, may_load
        self._known, self._has_features = dict(known or {}), has_features
        self._other_behaviours = tuple(behaviours)
        has_cache = may_load or settings.cache.is_dir()
        memory = settings.cache / MEMORY if has_cache else None
        self.contents = contents or Contents(memory, settings.n_threads)
        self._memory = ModelMemory(settings.cache if has_cache else None, self.contents.digest)
        self._identities: dict[str, Identity] = {}
        self._loaded: tuple[str, Any] | None = None
        self.cached: frozenset[str] = frozenset()
        """of which all features that are asked for are in the cache"""
        self._how: dict[str, Any] = {
            "device": settings.device,
            "precision": settings.precision,
            "decode": settings.decode,
        }
        self._behaviours = settings.results / "models"

    def identity(self, name: str) -> Identity:
        """What the model is now; its version is "" where only loading it would tell, or where it
        cannot be loaded: that is told by the job that needs it.
        """
        if name not in self._identities:
            if self._has_features and name in self._known:
                known = self._known[name]
                self._identities[name] = Identity(known.version, known.fingerprint, known.dim)
            elif self.may_load and is_own_model(name):
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
            settings, how = self.settings, self._how
            if self._has_features and name in self._known:
                self._loaded = (name, FeatureModel(self._known[name], settings.cache))
            elif name in self.cached and (about := self.known(name)).is_complete:
                device = str(resolve_device(settings.device) or "")
                self._loaded = (name, FeatureModel(about, settings.cache, device))
            elif ANSWERS in abilities(name):
                chat = load_chat_model(
                    name,
                    device=settings.device,
                    precision=settings.precision,
                    offline=settings.offline,
                    send_key=settings.send_key,
                )
                self._loaded = (name, chat)
            else:
                model: Any = load_model(name, memory=self._memory, offline=settings.offline, **how)
                fingerprint = model.fingerprint
                self._loaded = (name, self._apart(model))
                if model.fingerprint != fingerprint:
                    self._memory.remember(name, model, **how)
                self._identities[name] = self._memory.identify(name, **how, loaded=model)
        self._check(name)
        return self._loaded[1]

    def _check(self, name: str) -> None:
        """Refuses a model that is another here than where the work was planned."""
        planned = self._known[name].version if name in self._known else ""
        version = self.identity(name).version
        if planned and version != planned:
            raise ModelError(
                f"model {name!r} has changed since the command started ({version} here, {planned} "
                "there): its files or libraries have changed, or the machines differ (--device and "
                "--precision decide that). Run the same command again."
            )

    def known(self, name: str) -> KnownModel:
        """What is known of it for a process that does not load it; nothing is loaded for that."""
        identity = self.identity(name)
        about = KnownModel(name, identity.version, identity.fingerprint, identity.dim)
        if self._loaded is not None and self._loaded[0] == name:
            model = self._loaded[1]
            if not hasattr(model, "embed_images"):
                return about
            return replace(about, n_parameters=n_parameters_of(model), decode=noted_decode(model))
        if not about.fingerprint or not self.settings.cache.is_dir():
            return about
        facts = kept_facts(self.settings.cache / "features" / about.fingerprint)
        size, decode = facts.get("n_parameters"), facts.get("reads")
        if not isinstance(size, int) or not isinstance(decode, str):
            return about
        return replace(about, n_parameters=size, decode=decode)

    def note_behaviour(self, name: str) -> None:
        """Keeps, beside the results, what a model of the user's does: its runs belong to that,
        whatever becomes of the cache.
        """
        if self._loaded is not None and self._loaded[0] == name:
            model = self._loaded[1]
            write_behaviour(self._behaviours / model.fingerprint, behaviour_of(model))

    def _apart(self, model: Any) -> Any:
        """The model, told apart from one with its fingerprint that did otherwise."""
        behaviour = behaviour_of(model)
        if behaviour is not None:
            folders = (
                self.settings.cache / "features", self._behaviours, *self._other_behaviours
            )  # fmt: skip
            kept = trusted_fingerprint(folders, model.fingerprint, behaviour)
            if kept != model.fingerprint:
                model.stand_apart(kept)
        return model
