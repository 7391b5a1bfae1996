"""Shared flags: which flags do several commands have in common?"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import OmitArgPrefixes, UseAppendAction, arg

from fieldmark.errors import UsageError
from fieldmark.settings import Settings, check_setting, load_settings

if TYPE_CHECKING:
    from fieldmark.chat import Budget, Options
    from fieldmark.settings import Settings
    from fieldmark.store import RunFilter, Store

_Folder = Annotated[Path | None, arg(metavar="FOLDER", help_behavior_hint="")]
_Word = Annotated[str | None, arg(metavar="WORD", help_behavior_hint="")]
_Number = Annotated[float | None, arg(metavar="X", help_behavior_hint="")]
_Count = Annotated[int | None, arg(metavar="N", help_behavior_hint="")]


@dataclass(frozen=True, slots=True)
class Common:
    """where files are and how to compute; `fieldmark doctor` shows each value and its origin"""

    results: _Folder = None
    """folder of the results [FIELDMARK_RESULTS, else results/]"""
    cache: _Folder = None
    """folder of the feature cache [FIELDMARK_CACHE, else the user's cache folder]"""
    data: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="NAME=FOLDER")] = ()
    """folder of a dataset, or of one task's data [FIELDMARK_DATA_NAME, else the folder of that name
    under --data-root]"""
    data_root: _Folder = None
    """folder with one folder per dataset [FIELDMARK_DATA_ROOT, else data/]"""
    device: _Word = None
    """auto, cpu, cuda, cuda:1 or mps [FIELDMARK_DEVICE, else auto]"""
    precision: _Word = None
    """auto, float32, bf16 or fp16 [FIELDMARK_PRECISION, else auto]"""
    decode: _Word = None
    """how photos are read: auto (the fastest way here), reference (Pillow, slow), cpu or gpu
    [FIELDMARK_DECODE, else auto]"""
    threads: _Count = None
    """threads that read images [FIELDMARK_THREADS, else one per core]"""
    batch_size: _Count = None
    """images per forward pass [FIELDMARK_BATCH_SIZE, else found automatically]"""
    bad_images: _Word = None
    """what to do with images that cannot be read: fail or skip [FIELDMARK_BAD_IMAGES, else fail]"""
    offline: bool = False
    """download nothing [FIELDMARK_OFFLINE]"""
    quiet: bool = False
    """print no progress and no messages"""
    debug: bool = False
    """show full tracebacks instead of one-line errors"""

    def settings(self) -> Settings:
        """All layers merged, these flags on top."""
        names = [
            field.name for field in fields(Common) if field.name not in ("quiet", "debug", "data")
        ]
        flags = {
            name: self._flag(name) for name in names if getattr(self, name) not in (None, False)
        }
        return load_settings(flags | {"data": _folders(self.data)})

    def folders(self) -> tuple[str, ...]:
        """The folders that --data names, as runs record them."""
        return tuple(os.path.abspath(folder) for folder in _folders(self.data).values())  # noqa: PTH100

    def _flag(self, name: str) -> Any:
        value = getattr(self, name)
        try:
            return check_setting(name, value)
        except ValueError as error:
            raise UsageError(f"--{name.replace('_', '-')} {value}: {error}.") from None


@dataclass(frozen=True, slots=True)
class Only:
    """Marks a group of flags: these, and --debug, act on a command; others are refused."""

    names: Collection[str]


CommonFlags = OmitArgPrefixes[Common]
"""how a command takes them in: as a group of flags of its own"""
ResultsFlags = Annotated[CommonFlags, Only(("results",))]
ReportFlags = Annotated[CommonFlags, Only(("results", "data"))]
PhotoFlags = Annotated[CommonFlags, Only(("results", "data", "data_root", "cache", "quiet"))]
DataFlags = Annotated[CommonFlags, Only(("data", "data_root"))]
QuietFlags = Annotated[CommonFlags, Only(("quiet",))]
Words = UseAppendAction[tuple[str, ...]]
"""a flag that may be given several times"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunChoice:
    """Flags of every command that reads results: which runs, and where the results are."""

    model: Annotated[Words, arg(metavar="MODEL")] = ()
    """only these models (* and ? are wildcards; NAME#4ae7 is one version of a model)"""
    task: Annotated[Words, arg(metavar="TASK")] = ()
    """only these tasks (* and ? are wildcards)"""
    common: ReportFlags = Common()

    @property
    def where(self) -> RunFilter:
        from fieldmark.store import RunFilter

        folders = self.common.folders()
        return RunFilter(models=full_names(self.model), tasks=self.task, folders=folders)

    def open_store(self) -> Store:
        """The results, to read."""
        from fieldmark.store import Store

        return Store.open(self.common.settings().store, read_only=True)


def full_names(models: Sequence[str]) -> tuple[str, ...]:
    """The models, or patterns of models, as results name them."""
    if not models:
        return ()
    from fieldmark.models import full_name

    return tuple(map(full_name, models))


def existing_store(common: Common) -> Path:
    """The results file; DataError where nothing was run yet."""
    from fieldmark.store import nothing_stored

    path = common.settings().store
    if not path.exists():
        raise nothing_stored(path)
    return path


def check_least(flag: str, value: int, least: int) -> None:
    """Refuses a number that is too small."""
    if value < least:
        raise UsageError(f"{flag} {value}: expected a whole number, {least} or more.")


def check_send_key(pairs: Sequence[str]) -> tuple[str, ...]:
    """`VARIABLE=HOST` pairs of a flag."""
    try:
        checked: tuple[str, ...] = check_setting("send_key", pairs)
    except ValueError as error:
        raise UsageError(f"--send-key: {error}.") from None
    return checked


def _folders(given: Sequence[str]) -> dict[str, Path]:
    """Dataset or task → folder."""
    folders: dict[str, Path] = {}
    for text in given:
        name, equals, folder = text.partition("=")
        if not (name and equals and folder):
            raise UsageError(
                f"--data {text}: expected NAME=FOLDER, such as --data newt=/data/newt."
            )
        path = Path(folder).expanduser()
        if folders.setdefault(name, path) != path:
            raise UsageError(
                f"--data {text}: --data {name}={folders[name]} was given as well. For two "
                "folders of one dataset, give them to the tasks: --data TASK=FOLDER, or "
                "`data: FOLDER` in each task's file."
            )
    return folders


# --- Flags of commands that ask a chat model: what may it cost, and how fast may it be asked?


@dataclass(frozen=True, slots=True)
class ChatFlags:
    """how the chat model is asked"""

    max_usd: _Number = None
    """most US dollars that this process may spend"""
    price: Annotated[str | None, arg(metavar="IN/OUT", help_behavior_hint="")] = None
    """US dollars per million tokens in and out, for models whose price is unknown: 0.5/1.5"""
    max_tokens: _Count = None
    """most tokens that this process may use"""
    concurrency: _Count = None
    """requests at the same time [found automatically]"""
    rpm: _Number = None
    """most requests per minute"""
    timeout: _Number = None
    """seconds to wait for an answer [180]"""
    send_key: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="VARIABLE=HOST")] = ()
    """let the key in this environment variable go to an address that only a file names"""

    def options(self) -> Options:
        from fieldmark.chat import Options

        timeout_s = self.timeout or Options().timeout_s
        return Options(self.concurrency, rpm=self.rpm, timeout_s=timeout_s)

    def budget(self) -> Budget:
        from fieldmark.chat import Budget

        return Budget(self.max_usd, self.max_tokens)

    def model(self, name: str, settings: Settings) -> Any:
        """The chat model of this name; UsageError for a model that only embeds."""
        from fieldmark.chat import ChatModel
        from fieldmark.models import abilities, check_model_name, load_chat_model
        from fieldmark.registry import ANSWERS

        check_model_name(name)
        if ANSWERS not in abilities(name):
            raise UsageError(f"model {name!r} cannot answer questions: choose a chat model.")
        if self.price is not None and not re.fullmatch(r"\d+(\.\d*)?/\d+(\.\d*)?", self.price):
            raise UsageError(f"--price {self.price}: give two prices, IN/OUT, such as 0.5/1.5.")
        model = load_chat_model(
            name,
            device=settings.device,
            precision=settings.precision,
            offline=settings.offline,
            send_key=(*check_send_key(self.send_key), *settings.send_key),
        )
        return model.priced(self.price) if isinstance(model, ChatModel) else model


ChatModelFlags = OmitArgPrefixes[ChatFlags]
"""how a command takes them in: as a group of flags of its own"""
