"""Remote procedure calls: how do the sandbox and the process that started it talk?

Either may ask the other, one call inside the other. What comes out of the sandbox is data: only
fieldmark's own records are built from it.
"""

from __future__ import annotations

import base64
import io
import pickle
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, is_dataclass
from typing import Any

from fieldmark import errors
from fieldmark.errors import FieldmarkError
from fieldmark.words import printable


class NoJudgement(BaseException):
    """No judge could be asked.

    Not an `Exception`: task code commonly answers those with a score of 0, and a judge that was
    not there must never look like a wrong answer.
    """


class JudgeSilent(NoJudgement):
    """A judge was asked and gave no answer."""


class NetworkRefused(BaseException):
    """Task code reached for the network. No `Exception`, for the same reason."""


Handlers = Mapping[str, Callable[..., Any]]
_KINDS = (
    "BatchPending", "BudgetSpent", "CodeNotRun", "UsageError", "DataError", "ModelError",
    "RunsFailed",
)  # fmt: skip
_CROSSING = (*_KINDS, "JudgeSilent", "NoJudgement")
"""exceptions that are the same on both sides"""
_BUILT = frozenset(
    {
        ("builtins", "bytearray"), ("builtins", "complex"), ("builtins", "frozenset"),
        ("builtins", "set"), ("builtins", "range"), ("pathlib", "PosixPath"),
        ("pathlib", "WindowsPath"),
    }
)  # fmt: skip


class _OwnRecords(pickle.Unpickler):
    """Builds plain data, and records of fieldmark."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _BUILT:
            return super().find_class(module, name)
        if module.startswith("fieldmark."):
            kind = super().find_class(module, name)
            if isinstance(kind, type) and is_dataclass(kind):
                return kind
        raise pickle.UnpicklingError(f"{module}.{name} is not a record of fieldmark")


def _packed(value: object) -> str:
    return base64.b64encode(pickle.dumps(value, pickle.HIGHEST_PROTOCOL)).decode()


@dataclass(eq=False)
class Dialogue:
    """Remote procedure calls, either way, one inside the other; `handlers` answer the other side.

    What does not carry the token was written by code of a task, and is passed over.
    """

    send: Callable[[object], None]
    receive: Callable[[], Any]
    is_inside: bool
    token: str
    handlers: Handlers = field(default_factory=dict)
    raised: FieldmarkError | None = None
    """what a handler of this side raised last: it comes back with more to it"""
    lock: Any = field(default_factory=threading.RLock)

    def ask(self, name: str, *args: Any) -> Any:
        with self.lock:
            self._send(ask=name, data=_packed(args))
            while True:
                message = self._read()
                if "ask" in message:
                    self.answer(message)
                elif "error" in message:
                    raise self._error(*message["error"])
                elif "data" in message:
                    return self._unpacked(message["data"])

    def answer(self, message: Mapping[str, Any]) -> None:
        try:
            made = self.handlers[message["ask"]](*self._unpacked(message["data"]))
            data = _packed(made)
        except (FieldmarkError, NoJudgement) as error:
            if isinstance(error, FieldmarkError):
                self.raised = error
            kinds = [kind.__name__ for kind in type(error).__mro__]
            kind_known = next(kind for kind in (*kinds, "UsageError") if kind in _CROSSING)
            self._send(error=[kind_known, str(error)])
        except Exception as error:
            if not self.is_inside:
                raise
            is_full = isinstance(error, MemoryError)
            text = "more memory is needed than task files may use." if is_full else ""
            self._send(error=["DataError" if is_full else "", text or traceback.format_exc()])
        else:
            self._send(data=data)

    def say(self, text: str) -> None:
        """For the person; no answer comes."""
        with self.lock:
            self._send(say=text)

    def serve(self) -> None:
        while True:
            self.answer(self._read())

    def _send(self, **message: Any) -> None:
        self.send({"token": self.token, **message})

    def _read(self) -> dict[str, Any]:
        while True:
            message = self.receive()
            if not isinstance(message, dict) or message.get("token") != self.token:
                continue
            if "say" not in message:
                return message
            sys.stderr.write(printable(str(message["say"]), "\n\t"))

    def _unpacked(self, data: str) -> Any:
        stream = io.BytesIO(base64.b64decode(data))
        return (pickle.Unpickler if self.is_inside else _OwnRecords)(stream).load()

    def _error(self, kind: str, text: str) -> BaseException:
        if kind in ("JudgeSilent", "NoJudgement"):
            return (JudgeSilent if kind == "JudgeSilent" else NoJudgement)(text)
        if self.raised is not None and str(self.raised) == text:
            return self.raised
        if kind not in _KINDS:
            return RuntimeError(text)
        made: BaseException = Exception.__new__(getattr(errors, kind))
        made.args = (text,)
        return made


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What of the surroundings a run is to find."""

    folder: str
    environment: dict[str, str]
    may_run: bool
    template_s: float
