"""Second questions: is what could not be read asked about once, in words only, and paid for?"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fieldmark.chat import Option
from fieldmark.cli import main
from fieldmark.protocols.ask.clarify import lettered, read_second, second_text
from fieldmark.settings import Settings
from fieldmark.store import Store
from kit.ask import Parrot, ask, command, facts_of, journalled, n_pictures, texts_of, wholes
from kit.chat import running

SEX = (Option("m", "male"), Option("f", "female"))
UNREAD = "This is a {0}, easily told from a {1}."


class Rambler(Parrot):
    """Names two options; asked what it meant, says the first of them, or nothing clear."""

    def __init__(self, second: str = "A") -> None:
        super().__init__()
        self.second = second

    def reply(self, data: bytes, digest: str = "") -> dict[str, Any]:
        self.texts = ("",)
        found = super().reply(data, digest)
        body = texts_of(self.bodies[-1])
        names = [line[3:] for line in body.splitlines() if line[1:3] == ". "]
        is_second = "It wrote:" in body
        text = self.second if is_second else UNREAD.format(*names[:2])
        found["choices"][0]["message"]["content"] = text
        return found


def _seconds(server: Parrot) -> list[dict[str, Any]]:
    return [body for body in server.bodies if "It wrote:" in texts_of(body)]


@pytest.mark.slow
def test_unread_answers_are_asked_about_once_and_read_strictly(fresh_settings: Settings) -> None:
    with running(server := Rambler()) as url:
        model = f"chat/mock/wren?base_url={url}"
        plain = ask(fresh_settings, model, n_test=6)
        found = ask(fresh_settings, model, n_test=6, clarify="same")
    assert Counter(plain.predictions["outcome"]) == {"unparsed": 6}
    assert Counter(found.predictions["outcome"]) == {"ok": 6}
    asked = _seconds(server)
    assert len(asked) == 6 and all(n_pictures(body) == 0 for body in asked)
    assert len(server.bodies) == 12, "first answers come from the journal the second time"
    assert "easily told from" in texts_of(asked[0]) and "Options:\nA. " in texts_of(asked[0])
    facts = facts_of(found)
    assert all(each["how"] == "clarified" and each["clarified"]["text"] == "A" for each in facts)
    assert all(each["clarified"]["tokens"] > 0 for each in facts)
    firsts = [each["options"][0] for each in facts]
    assert found.predictions["prediction"].to_list() == firsts
    rates = wholes(found.scores)
    assert (rates["clarified_rate"], rates["loose_rate"]) == (1.0, 0.0)
    assert max(journalled(fresh_settings).values()) == 1
    assert found.run.id != plain.run.id, "other settings, another run"


@pytest.mark.slow
def test_a_second_answer_that_is_unclear_changes_nothing(fresh_settings: Settings) -> None:
    with running(Rambler("I meant either of them.")) as url:
        found = ask(fresh_settings, f"chat/mock/wren?base_url={url}", n_test=4, clarify="same")
    assert Counter(found.predictions["outcome"]) == {"unparsed": 4}
    assert "clarified_rate" not in wholes(found.scores)
    assert all(each["clarified"]["text"] for each in facts_of(found))


@pytest.mark.slow
def test_second_questions_are_priced_and_may_go_to_another_model(
    world: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f'[[chat_models]]\nprovider = "mock"\nid = "{name}"\nusd_in = {usd}\nusd_out = {usd}\n'
            for name, usd in (("wren", 1.0), ("judge", 100.0))]  # fmt: skip
    Path("fieldmark.toml").write_text("\n".join(rows), "utf-8")
    with running(first := Rambler()) as url, running(judge := Rambler("B")) as other:
        model, by = f"chat/mock/wren?base_url={url}", f"chat/mock/judge?base_url={other}"
        run = command(world, "--model", model, "--n-test", "4", "--clarify", by, "--quiet")
        assert main(run) == 0
        assert (len(first.bodies), len(judge.bodies)) == (4, 4)
        assert main(run) == 0, "done before"
        assert (len(first.bodies), len(judge.bodies)) == (4, 4)
    with Store.open(Path("results") / "fieldmark.db") as store:
        stored = store.runs()[0]
        rows_ = store.predictions(stored.id)
        scores = wholes(store.scores()[stored.id])
    facts = [json.loads(info) for info in rows_["info"]]
    assert set(rows_["outcome"]) == {"ok"}
    assert [each["options"][1] for each in facts] == rows_["prediction"].to_list()
    own = sum(each["clarified"]["usd"] for each in facts)
    assert own == pytest.approx(sum(each["clarified"]["tokens"] for each in facts) * 100e-6)
    assert sum(each["usd"] for each in facts) > own, "the first answer and the second"
    assert scores["usd_per_answer"] == pytest.approx(sum(each["usd"] for each in facts) / 4)
    assert main(["rescore", "--task", "world-species"]) == 0
    assert "clarified" not in capsys.readouterr().err
    with Store.open(Path("results") / "fieldmark.db") as store:
        assert store.predictions(stored.id)["prediction"].to_list() == rows_["prediction"].to_list()


def test_the_second_question_shows_letters_where_the_first_had_names() -> None:
    text = second_text("Which sex?", "choice", SEX, "Hm.")
    assert "A. male\nB. female" in text and "letter" in text and '"""\nHm.\n"""' in text
    assert read_second("B", SEX, "choice").label == "f"  # type: ignore[union-attr]
    assert lettered(SEX)[1].letter == "B" and SEX[1].letter == ""


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("none", "choice"), ("It seems to be female.", "choice"), ("unclear", "count"),
        ("I count 5 and 7", "count"), ("unclear", "labels"), ("", "choice"),
    ],
)  # fmt: skip
def test_what_is_not_strict_is_no_second_answer(text: str, form: Any) -> None:
    assert read_second(text, () if form == "count" else SEX, form) is None


def test_no_trait_at_all_is_a_second_answer() -> None:
    assert read_second("none", SEX, "labels").labels == ()  # type: ignore[union-attr]
    assert read_second("A, B", SEX, "labels").labels == ("m", "f")  # type: ignore[union-attr]
