"""Faults of endpoints: does a run tell them, stop in time, keep nothing wrong, and go on after?

The server of each test has one fault (`kit.fault_server`); the command is the real one. Every test
gives the same command twice, for a person does: the second asks what is missing and nothing else.
"""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from fieldmark.chat import Answer, Options, ask_now, chat_model
from fieldmark.cli import main
from fieldmark.settings import Settings
from kit.chat import ask_about, collect, running
from kit.fault_server import PRICES, RIGHT_KEY, FaultServer
from kit.made import make_dataset

N = 12
"""photos that are asked about"""


class Terminal:
    """Gives one command again and again, and keeps what the last one printed."""

    def __init__(self, world: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.world, self.capsys = world, capsys
        self.last_line = self.output = ""

    def run(self, url: str, *flags: str) -> int:
        model = f"chat/custom/mine?base_url={url}"
        command = ["run", "--model", model, "--task", "world-stage", "--n-test", str(N)]
        return self.give(*command, "--data", f"world={self.world}", *flags)

    def give(self, *words: str) -> int:
        self.capsys.readouterr()
        code = main(list(words))
        printed = self.capsys.readouterr()
        self.output = printed.out + printed.err
        self.last_line = [line for line in self.output.splitlines() if line.strip()][-1]
        return code


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Large enough for N photos of known age among the test ones."""
    folder = tmp_path_factory.mktemp("world")
    make_dataset("world", folder, 320)
    return folder


@pytest.fixture
def settings(fresh_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("CHAT_API_KEY", RIGHT_KEY)
    Path("fieldmark.toml").write_text(PRICES)
    return fresh_settings


def assert_nothing_recorded(terminal: Terminal) -> None:
    assert terminal.give("table") != 0 and "no finished runs" in terminal.output


@pytest.fixture
def terminal(settings: Settings, world: Path, capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(world, capsys)


# -- some requests fail ---------------------------------------------------------------------------


@pytest.mark.slow
def test_some_that_fail_are_told_and_asked_again_alone(terminal: Terminal) -> None:
    server = FaultServer("every fourth")
    n_failed = N // 4
    with running(server) as url:
        assert terminal.run(url) == 5
        assert f"{n_failed} of {N}" in terminal.last_line and "failed" in terminal.last_line
        assert server.n_answers == N - n_failed

        server.reset()
        assert terminal.run(url) == 5, "still broken: still no finished run"
        assert len(server.questions) == N and server.n_answers == 0, "only the failed are asked"
        assert f"{n_failed} of {N}" in terminal.last_line

        server.reset()
        server.is_mended = True
        assert terminal.run(url) == 0
        assert server.n_requests == server.n_answers == n_failed

        server.reset()
        assert terminal.run(url) == 0
        assert server.n_requests == 0, "nothing is missing any more"


def test_a_run_with_gaps_is_marked_in_the_table(terminal: Terminal) -> None:
    with running(FaultServer("every fourth")) as url:
        terminal.run(url)
    assert terminal.give("table") == 0
    words = " ".join(terminal.output.split())
    assert "†" in words and f"{N // 4} of {N} failed" in words


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "outcome", "word"),
    [
        ("refusing", "refused", "refused"),
        ("cut off", "length", "cut off"),
        ("unreadable", "unparsed", "not read"),
    ],
)
def test_answers_that_say_nothing_are_told_and_asked_again_on_demand(
    terminal: Terminal, fault: str, outcome: str, word: str
) -> None:
    server = FaultServer(fault)
    with running(server) as url:
        assert terminal.run(url) == 5
        remedy = "--max-output" if fault == "cut off" else f"--again {outcome}"
        assert f"{N} {word}" in terminal.last_line and remedy in terminal.last_line
        assert server.n_requests == N, "an answer that was paid for is not asked for twice"

        server.reset()
        server.is_mended = True
        assert terminal.run(url) == 5 and server.n_requests == 0, "answered once: paid once"
        assert f"{N} {word}" in terminal.last_line

        assert terminal.run(url, "--again", outcome) == 0
        assert server.n_requests == server.n_answers == N

        server.reset()
        assert terminal.run(url) == 0 and server.n_requests == 0


def test_cut_off_answers_point_to_more_room(terminal: Terminal) -> None:
    with running(FaultServer("cut off")) as url:
        terminal.run(url)
    assert "--max-output" in terminal.last_line


# -- nothing is answered at all -------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault", ["wrong key", "wrong key (500)", "wrong key (400)", "unknown model", "text only"]
)
def test_an_endpoint_that_takes_nothing_ends_the_run_and_leaves_none(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    server = FaultServer(fault)
    monkeypatch.setenv("CHAT_API_KEY", "another-key")
    with running(server) as url:
        assert terminal.run(url) == 4
        assert server.n_requests <= N, "told after a few"
        assert "another-key" not in terminal.output
        assert_nothing_recorded(terminal)

        server.reset()
        server.is_mended = fault in ("unknown model", "text only")
        monkeypatch.setenv("CHAT_API_KEY", RIGHT_KEY)
        assert terminal.run(url) == 0
        assert server.n_answers == N


def test_no_server_ends_the_run_at_once_and_leaves_none(terminal: Terminal) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    url = f"http://127.0.0.1:{port}/v1"
    assert terminal.run(url) == 4
    assert "Nothing listens on 127.0.0.1:" in terminal.last_line
    assert_nothing_recorded(terminal)
    server = FaultServer(port=port)
    with running(server):
        assert terminal.run(url) == 0 and server.n_answers == N


# -- slow servers and lying ones ------------------------------------------------------------------


@pytest.mark.slow
def test_a_server_that_answers_one_at_a_time_is_not_flooded(terminal: Terminal) -> None:
    """Ten times faster than life; 64 in flight would each wait 9 s for their turn."""
    server = FaultServer("one at a time", delay_s=(0.15, 0.15))
    with running(server) as url:
        assert terminal.run(url, "--timeout", "1") == 0
    assert server.n_unheard <= 0.2 * N, "hardly an answer is worked out for nobody"


@pytest.mark.slow
def test_a_flooded_server_is_left_room_even_when_many_are_asked_for(terminal: Terminal) -> None:
    server = FaultServer("one at a time", delay_s=(0.15, 0.15))
    with running(server) as url:
        assert terminal.run(url, "--timeout", "1", "--concurrency", "12") == 0
    assert server.n_answers <= 3 * N, "no livelock"


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("--concurrency", "1"), ("--concurrency", "4")])
def test_a_cap_holds_when_pictures_cost_more_than_guessed(
    terminal: Terminal, flags: tuple[str, ...]
) -> None:
    """10 cents a picture instead of a tenth of a cent."""
    server = FaultServer("lying estimate", delay_s=(0.1, 0.3))
    with running(server) as url:
        assert terminal.run(url, "--max-usd", "0.5", *flags) == 4
        most = 0.5 + 0.1 * server.max_in_flight
        assert server.usd <= (0.51 if flags == ("--concurrency", "1") else most)
        assert f"${server.usd:.2f}" in terminal.output, "what was spent is what was billed"

        kept, paid = server.n_answers, server.usd
        assert terminal.run(url, "--max-usd", "99", *flags) == 0
        assert server.n_answers == N, f"the {kept} answers of ${paid:.2f} were kept"


def test_costs_are_told_as_the_server_bills_them(terminal: Terminal) -> None:
    server = FaultServer()
    with running(server) as url:
        assert terminal.run(url) == 0
        assert f"spent: ${server.usd:.4f}" in terminal.output


@pytest.mark.slow
def test_hundreds_of_questions_to_one_slot_are_not_computed_for_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The livelock of 0.1.0: 732 sent, 102 answered, then given up."""
    monkeypatch.setenv("CHAT_API_KEY", RIGHT_KEY)
    server, answers = FaultServer("one at a time", delay_s=(0.03, 0.03)), dict[str, Answer]()
    with running(server) as url:
        model = chat_model(f"chat/custom/mine?base_url={url}")
        questions = (ask_about(number) for number in range(300))
        tally = ask_now(questions, model, Options(timeout_s=1.4), on_answer=collect(answers))
    assert tally.outcomes == {"ok": 300} and len(answers) == 300
    assert server.n_answers <= 330, "at most a tenth for callers who had hung up"


# -- other ways to ask ----------------------------------------------------------------------------


@pytest.mark.slow
def test_refused_answers_of_a_reranking_are_asked_again_too(
    terminal: Terminal, tmp_path: Path
) -> None:
    make_dataset("inquire", tmp_path / "inquire", 60)
    server = FaultServer("refusing")
    with running(server) as url:
        model, data = f"chat/custom/mine?base_url={url}", f"inquire={tmp_path / 'inquire'}"
        command = ["run", "--model", model, "--task", "inquire-rerank", "--data", data]
        command += ["--rerank", "by=grade"]
        assert terminal.give(*command) == 5
        n_asked = server.n_requests
        server.reset()
        server.is_mended = True
        assert terminal.give(*command, "--again", "refused") == 0
        assert server.n_requests == n_asked


def test_connections_that_break_at_once_do_not_stop_everybody_for_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing came late: no answer is under way that the server has to be left time for."""
    monkeypatch.setenv("CHAT_API_KEY", RIGHT_KEY)
    server, answers = FaultServer("hangs up on every fourth"), dict[str, Answer]()
    began = time.monotonic()
    with running(server) as url:
        model = chat_model(f"chat/custom/mine?base_url={url}")
        questions = (ask_about(number) for number in range(8))
        options = Options(max_attempts=2)
        tally = ask_now(questions, model, options, on_answer=collect(answers))
    assert tally.outcomes == {"ok": 6, "failed": 2}
    assert time.monotonic() - began < 60


def test_an_endpoint_that_calls_the_room_for_an_answer_otherwise_is_understood(
    terminal: Terminal,
) -> None:
    """Models that think take `max_completion_tokens`, also behind other addresses."""
    server = FaultServer("max_completion_tokens")
    with running(server) as url:
        assert terminal.run(url) == 0
    assert server.n_answers == N and server.n_requests <= 2 * N
