"""What a person sees of long work: how far, how fast, what is going on."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from fieldmark.progress import Lines, Live, for_people


class Clock:
    """Time that passes when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_a_line_every_half_minute_says_what_is_going_on(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = Lines()
    lines.start("embedding", 500_000)
    lines.status("GPU 81 % busy")
    lines.advance(1000)
    assert capsys.readouterr().err == ""
    clock.now += 30
    lines.advance(230_900)
    assert capsys.readouterr().err == (
        "embedding: 231900/500000, 7,730/s, 35 s left, GPU 81 % busy\n"
    )
    clock.now += 30
    lines.status("waiting for files")
    assert capsys.readouterr().err.endswith(", waiting for files\n")
    lines.start("fitting", 10)
    clock.now += 40
    lines.advance()
    assert capsys.readouterr().err == "fitting: 1/10, 0.025/s, 6 min 0 s left\n"


def test_work_that_has_not_moved_yet_has_no_time_left(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = Lines()
    lines.start("embedding", 10)
    clock.now += 31
    lines.status("waiting for files")
    assert capsys.readouterr().err == "embedding: 0/10, 0/s, waiting for files\n"


def test_quiet_says_nothing(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    quiet = for_people(quiet=True)
    quiet.start("embedding", 10)
    clock.now += 31
    quiet.status("waiting")
    quiet.advance()
    assert capsys.readouterr().err == ""


def test_the_bar_ends_with_what_is_going_on() -> None:
    live = Live()
    text = io.StringIO()
    live._region.live.console = Console(file=text, width=120, force_terminal=True)
    live.status("nothing was started: nothing to show")
    with live:
        live.start("embedding", 10)
        live.status("GPU 81 % busy [2 queues]")
        live.advance(5)
        live._region.refresh()
        shown = text.getvalue()
        assert "embedding" in shown and "5/10" in shown
        assert shown.rstrip().splitlines()[-1].rstrip("\x1b[0m ").endswith("[2 queues]")
        live.start("fitting", 3)
        text.truncate(0)
        live._region.refresh()
        assert "queues" not in text.getvalue()


def test_names_in_the_bar_are_neither_markup_nor_commands_of_a_terminal() -> None:
    """A model file may be called `m[/red].py`: it ended the command with a traceback."""
    live = Live()
    text = io.StringIO()
    live._region.live.console = Console(file=text, width=160, force_terminal=True)
    with live:
        live.start("embedding with m[/red][bold]\x1b]0;x\x07.py", 10)
        live.status("reading \x1b[2Jfox")
        live._region.refresh()
    assert "m[/red][bold]\\x1b]0;x\\x07.py" in text.getvalue()
    assert "\x1b]0;" not in text.getvalue() and "\\x1b[2Jfox" in text.getvalue()
