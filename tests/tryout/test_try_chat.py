"""`fieldmark try --chat`: a chat model beside the chosen model, on the same photos."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fieldmark.cli import main
from kit.ask import Doorman
from kit.chat import running
from kit.planted import Plan, make_photos

WORDS = ["try", "photos", "--models", "classical/colour"]
MOCK = ["--chat", "chat/mock/wren", "--price", "1/2"]


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    root = make_photos(Path("photos"), Plan(n_labels=3, n_photos=12))
    (root / "SYNTHETIC.txt").write_text("drawn")
    return root


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main([*WORDS, *words, "--json"]) == 0
    shown = capsys.readouterr()
    return {**json.loads(shown.out), "told": shown.err}


def test_both_are_told_on_the_same_photos(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = answer(capsys, *MOCK, "--max-usd", "1")
    chat = first["chat"]
    assert chat["model"] == "chat/mock/wren (mock)" and chat["n"] == 36 and chat["usd"] > 0
    assert 0 < chat["n_right"] < 36
    with Path("try/predictions.csv").open(encoding="utf-8-sig") as file:
        n_right = sum(line.split(",")[4] == "1" for line in file)
    assert chat["n_chosen_right"] == n_right
    difference = (chat["n_right"] - n_right) / 36
    assert chat["gain"]["difference"] == pytest.approx(difference)
    (line,) = [line for line in first["text"] if line.startswith("chat/mock/wren")]
    assert f"right on {chat['n_right']} of 36 photos" in line and "$0.0" in line
    assert line in Path("try/index.html").read_text(encoding="utf-8")
    assert "Asking chat/mock/wren about 36 photos (at most about $0." in first["told"]
    again = answer(capsys, *MOCK, "--max-usd", "0")
    assert again["chat"] == chat, "answers come from the journal, and cost nothing again"


def test_at_most_so_many_are_asked(
    photos: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fieldmark.tryout.chat.MOST_ASKED", 10)
    assert answer(capsys, *MOCK)["chat"]["n"] == 10


def test_a_budget_that_is_used_up_leaves_the_verdict(
    photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = answer(capsys, *MOCK, "--max-usd", "0.00001")
    assert found["chat"] is None
    assert "chat/mock/wren has no score: try: one question may cost up to" in found["text"][-1]


def test_a_missing_key_is_told_before_anything_is_computed(
    photos: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)
    chat = ["--chat", "chat/openrouter/openai/gpt-4o-mini", "--max-usd", "1"]
    assert main([*WORDS, *chat]) == 4
    shown = capsys.readouterr()
    assert "needs a key: the environment has no OPENROUTER_API_KEY" in shown.err
    assert shown.err.count("\n") == 1 and not Path("try").exists()


def test_a_wrong_key_ends_the_command_after_one_question(
    photos: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Defect: all models were worked through, the 401 stood near the end, and the code was 0."""
    monkeypatch.setenv("CHAT_API_KEY", "wrong-key")
    with running(Doorman()) as url:
        assert main([*WORDS, "--chat", f"chat/custom/leafy?base_url={url}"]) == 4
    told = capsys.readouterr().err
    assert "401" in told and "CHAT_API_KEY" in told and "wrong-key" not in told
    assert not Path("try/index.html").exists()


def test_a_limit_that_nobody_set_is_told(
    photos: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = answer(capsys, *MOCK)
    assert "limit $0.50: `--max-usd` changes it" in found["told"]
    page = Path("try/index.html").read_text(encoding="utf-8")
    assert "<td>chat/mock/wren (mock)</td>" in page and "asked about 36 of these photos" in page
    monkeypatch.setenv("CHAT_API_KEY", "key")
    chat = ["--chat", "chat/custom/leafy?base_url=https://llm.example.org/v1"]
    assert main([*WORDS, *chat]) == 2
    assert "is unknown. Give --price IN/OUT" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--chat", "chat/mock/wren"], "is a mock that knows the right answers"),
        (["--chat", "classical/colour"], "cannot answer questions"),
        (["--max-usd", "1"], "add --chat MODEL"),
        (["--chat", "chat/mock/wren", "--max-usd", "1"], "the price of chat/mock/wren is unknown"),
    ],
)
def test_what_cannot_be_asked_is_refused_at_once(
    photos: Path, capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    (photos / "SYNTHETIC.txt").unlink()
    assert main([*WORDS, *words]) == 2
    shown = capsys.readouterr()
    assert told in shown.err and shown.err.count("\n") == 1 and not Path("try").exists()
