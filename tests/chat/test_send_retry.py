"""Is every way of failing judged rightly?"""

from __future__ import annotations

import email.utils
import ssl
import time
from statistics import mean

import pytest

from fieldmark.chat import Answer
from fieldmark.chat.send.api import BadReply, read_json
from fieldmark.chat.send.api.openai import API
from fieldmark.chat.send.retry import (
    backoff_s,
    connection_fault,
    judge_error,
    judge_reply,
    retry_after_s,
    without_secrets,
)


def read(data: bytes) -> Answer:
    return API.read(read_json(data))


@pytest.mark.parametrize("code", [408, 409, 425, 429, 500, 502, 503, 504, 524, 529, 599])
def test_asking_again_helps(code: int) -> None:
    assert judge_reply(code, {}, b"busy").verdict == "again"


@pytest.mark.parametrize("code", [401, 402, 403, 404])
def test_every_further_request_would_fare_the_same(code: int) -> None:
    assert judge_reply(code, {}, b'{"error":{"message":"no"}}').verdict == "stop"


@pytest.mark.parametrize("code", [400, 405, 413, 422])
def test_this_item_is_marked(code: int) -> None:
    assert judge_reply(code, {}, b'{"error":{"message":"bad image"}}').verdict == "mark"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (400, "The response was filtered: content_filter"),
        (400, "Your request was rejected as a result of our safety system."),
        (403, "Your input was flagged by moderation"),
    ],
)
def test_a_filter_is_a_refusal(code: int, text: str) -> None:
    assert judge_error(code, {"error": {"message": text}}).verdict == "refused"


def test_an_empty_purse_is_not_a_busy_server() -> None:
    body = {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}
    assert judge_error(429, body).verdict == "stop"


def test_retry_after_in_all_its_forms() -> None:
    assert retry_after_s({"Retry-After": "7"}) == 7
    assert retry_after_s({"Retry-After": "0.25"}) == 0.25
    assert retry_after_s({"retry-after-ms": "1500"}) == 1.5
    later = email.utils.formatdate(time.time() + 30, usegmt=True)
    assert 27 < (retry_after_s({"Retry-After": later}) or 0) <= 31
    assert retry_after_s({}) is None
    assert retry_after_s({"Retry-After": "soon"}) is None
    assert retry_after_s({"Retry-After": "inf"}) is None


def test_waits_are_drawn_uniformly_below_a_doubling_bound() -> None:
    for attempt, bound in ((1, 1.0), (3, 4.0), (20, 60.0)):
        waits = [backoff_s(f"{n:032x}", attempt) for n in range(2000)]
        assert min(waits) >= 0 and max(waits) <= bound
        assert abs(mean(waits) - bound / 2) < 0.05 * bound
    assert backoff_s("a", 2) == backoff_s("a", 2) != backoff_s("a", 3)


def test_broken_connections_are_tried_again_in_words() -> None:
    assert connection_fault(TimeoutError(), 180).text == "no answer within 180 s"
    assert "reset" in connection_fault(ConnectionResetError("reset by peer"), 180).text
    assert connection_fault(ConnectionResetError(), 180).verdict == "again"
    assert connection_fault(ssl.SSLCertVerificationError("self-signed"), 180).verdict == "stop"


def test_keys_in_errors_are_struck_out() -> None:
    text = without_secrets("bad key sk-abcdef123456 or tok3n5", "tok3n5")
    assert text == "bad key *** or ***"
    assert without_secrets("max_tokens", "k") == "max_tokens", "too short for a key"
    assert without_secrets("keyboards and keywords_are", "") == "keyboards and keywords_are"


@pytest.mark.parametrize(
    "data",
    [b"", b"<html>", b"[]", b'"x"', b"{}", b'{"choices":[]}', b'{"choices":[3]}',
     b'{"choices":[{"index":0}]}', b'{"choices":[{"message":"hi"}]}', b"\xff\xfe"],
)  # fmt: skip
def test_junk_is_no_reply(data: bytes) -> None:
    with pytest.raises(BadReply):
        read(data)


def test_an_error_under_status_200_keeps_its_code() -> None:
    for body in (
        b'{"error":{"code":429,"message":"slow down"}}',
        b'{"choices":[{"error":{"code":"429","message":"slow down"}}]}',
    ):
        with pytest.raises(BadReply) as error:
            read(body)
        assert error.value.code == 429
        assert judge_error(error.value.code, error.value.body).is_rate


def reply(message: dict[str, object], finish: str | None = "stop", **more: object) -> bytes:
    import json

    choice = {"message": message, "finish_reason": finish}
    return json.dumps({"choices": [choice], "model": "m-2026", **more}).encode()


def test_no_text_is_the_empty_text_never_the_word_none() -> None:
    answer = read(reply({"content": None}, "length"))
    assert answer.text == "" and answer.outcome == "length"


def test_an_empty_reply_without_a_reason_is_junk() -> None:
    with pytest.raises(BadReply):
        read(reply({"content": ""}, None))
    with pytest.raises(BadReply):
        read(reply({"content": "x"}, "error"))


def test_outcomes_and_usage() -> None:
    usage = {
        "prompt_tokens": 9, "completion_tokens": 5, "cost": 0.002,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }  # fmt: skip
    more = {"usage": usage, "system_fingerprint": "fp"}
    answer = read(reply({"content": "wren", "reasoning": "bill"}, **more))
    assert (answer.outcome, answer.text, answer.reasoning) == ("ok", "wren", "bill")
    assert (answer.model, answer.fingerprint, answer.usd) == ("m-2026", "fp", 0.002)
    assert answer.usage is not None
    assert (answer.usage.cached, answer.usage.reasoning) == (4, 3)
    refused = read(reply({"content": None, "refusal": "I can't."}))
    assert (refused.outcome, refused.text) == ("refused", "I can't.")
    assert read(reply({"content": "x"}, "content_filter")).outcome == "refused"
    parts = [{"type": "text", "text": "wr"}, {"type": "text", "text": "en"}]
    assert read(reply({"content": parts})).text == "wren"


@pytest.mark.parametrize(
    ("said", "row"),
    [
        ("At most 2 image(s) may be provided in one prompt.", "max_images = 2"),
        ("This model's maximum context length is 900 tokens.", "context = 900"),
    ],
)
def test_a_limit_that_the_server_names_can_be_written_down(said: str, row: str) -> None:
    text = judge_error(400, {"error": {"message": said}}).text
    assert text.endswith(f"(write {row} under [[chat_models]])")


def test_a_web_page_is_no_json() -> None:
    with pytest.raises(BadReply, match=r"sent a web page, not JSON.*usually ends in /v1"):
        read_json(b"<!DOCTYPE html><html></html>")


def test_what_is_under_detail_is_read() -> None:
    assert judge_reply(404, {}, b'{"detail": "Not Found"}').text == "404 Not Found"
