"""Flags of commands that ask a chat model: what may it cost, and how fast may it be asked?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import OmitArgPrefixes, UseAppendAction, arg

from fieldmark.cli._flags import check_send_key
from fieldmark.errors import UsageError

if TYPE_CHECKING:
    from fieldmark.chat import Budget, Options
    from fieldmark.settings import Settings

_Number = Annotated[float | None, arg(metavar="X", help_behavior_hint="")]
_Count = Annotated[int | None, arg(metavar="N", help_behavior_hint="")]


@dataclass(frozen=True, slots=True)
class ChatFlags:
    """how the chat model is asked"""

    max_usd: _Number = None
    """stop before more than this is spent, by this process"""
    price: Annotated[str | None, arg(metavar="IN/OUT", help_behavior_hint="")] = None
    """US dollars per million tokens in and out, for models whose price is unknown: 0.5/1.5"""
    max_tokens: _Count = None
    """stop before more tokens than this are used"""
    concurrency: _Count = None
    """most questions in flight [found automatically]"""
    rpm: _Number = None
    """most requests per minute"""
    timeout: _Number = None
    """seconds that one answer may take [180]"""
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
            raise UsageError(f"model {name!r} answers no questions; expected a chat model.")
        if self.price is not None and not re.fullmatch(r"\d+(\.\d*)?/\d+(\.\d*)?", self.price):
            raise UsageError(f"--price {self.price}: expected dollars in/dollars out, as 0.5/1.5.")
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
