"""Does the journal keep what was paid for, whatever happens?"""

from __future__ import annotations

import os
import time
from pathlib import Path
from queue import Queue

import pytest

from fieldmark.chat import Answer, AnswerJournal, Request, Usage, user
from fieldmark.errors import StoreError

REQUEST = Request("item", (user("?"),))


def key(number: int) -> str:
    return f"{number:032x}"


def add(journal: AnswerJournal, number: int) -> None:
    journal.add(key(number), REQUEST, Answer("ok", f"answer {number}", usage=Usage(3, 1), usd=0.1))


def test_a_later_process_finds_every_answer(tmp_path: Path) -> None:
    with AnswerJournal(tmp_path) as journal:
        for number in range(50):
            add(journal, number)
    with AnswerJournal(tmp_path) as journal:
        assert len(journal) == 50
        found = journal.get(key(7))
        assert found is not None and found.text == "answer 7" and found.is_replayed
        assert found.usage == Usage(3, 1) and found.key == key(7)
        assert journal.get(key(99)) is None


def test_an_answer_is_in_the_file_before_anyone_asks_to_flush(tmp_path: Path) -> None:
    journal = AnswerJournal(tmp_path)
    add(journal, 1)
    assert b"answer 1" in next(tmp_path.glob("*.jsonl")).read_bytes()
    journal.close()


def test_answers_are_forced_to_disk_within_a_fifth_of_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a thread that sleeps so long at most; how late it wakes up is the machine's affair."""
    synced, slept = Queue[int](), list[float]()
    fsync, sleep = os.fsync, time.sleep
    monkeypatch.setattr(os, "fsync", lambda file: (synced.put(file), fsync(file))[1])
    monkeypatch.setattr(time, "sleep", lambda s: (slept.append(s), sleep(s))[1])
    with AnswerJournal(tmp_path) as journal:
        for number in range(20):
            add(journal, number)
        synced.get(timeout=60)
    assert synced.qsize() < 19, "in batches"
    assert 0 < max(slept) <= 0.2


@pytest.mark.parametrize("cut", [1, 5, 40, 60])
def test_a_torn_last_line_is_no_answer_and_harms_no_other(tmp_path: Path, cut: int) -> None:
    with AnswerJournal(tmp_path) as journal:
        add(journal, 1)
        add(journal, 2)
    path = next(tmp_path.glob("*.jsonl"))
    path.write_bytes(path.read_bytes()[:-cut])
    with AnswerJournal(tmp_path) as journal:
        assert journal.get(key(1)) is not None
        assert journal.get(key(2)) is None
        add(journal, 2)
    with AnswerJournal(tmp_path) as journal:
        assert journal.get(key(2)) is not None


def test_garbage_between_lines_is_skipped(tmp_path: Path) -> None:
    with AnswerJournal(tmp_path) as journal:
        add(journal, 1)
    path = next(tmp_path.glob("*.jsonl"))
    path.write_bytes(b'\0\0\0\n{"key":"zz"}\n[]\n' + path.read_bytes() + b'{"key":"' + b"0" * 32)
    with AnswerJournal(tmp_path) as journal:
        assert len(journal) == 1 and journal.get(key(1)) is not None


def test_two_writers_never_mix_their_lines(tmp_path: Path) -> None:
    with AnswerJournal(tmp_path) as one, AnswerJournal(tmp_path) as two:
        for number in range(0, 100, 2):
            add(one, number)
            add(two, number + 1)
    with AnswerJournal(tmp_path) as journal:
        assert len(journal) == 100
        assert all(journal.get(key(number)) is not None for number in range(100))


def test_failures_are_never_kept(tmp_path: Path) -> None:
    with AnswerJournal(tmp_path) as journal:
        with pytest.raises(ValueError, match="no answer"):
            journal.add(key(1), REQUEST, Answer("failed", error="500"))
        assert len(journal) == 0
    assert not list(tmp_path.iterdir()), "nothing was written, so there is no file"


def test_a_journal_that_cannot_be_written_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    journal = AnswerJournal(tmp_path / "file" / "answers")
    with pytest.raises(StoreError, match="cannot be used") as error:
        add(journal, 1)
    assert "\n" not in str(error.value)
    journal.close()
