"""A file arrives whole and right, whatever the server does; or one line says why not."""

from __future__ import annotations

import hashlib
import re
import time
from pathlib import Path
from typing import Any

import pytest

from fieldmark import http_reader
from fieldmark.data.get.download import ByteCounter, fetch_all
from fieldmark.data.get.http import ask_sizes, clean_url
from fieldmark.data.get.verify import Download, DownloadResult, Pace
from fieldmark.errors import DataError
from fieldmark.progress import Silent
from kit.raw_server import OK, raw_server, redirect, repeating, sending

SIZE = 400_000
PACE = Pace(
    n_tries=4, backoff_s=0.01, longest_wait_s=1.0, timeout_s=5, stall_s=0.3, least_rate=2000
)


def md5(data: bytes) -> str:
    return hashlib.md5(data).hexdigest()


def get(*files: Download, pace: Pace = PACE) -> list[DownloadResult]:
    outcomes: list[DownloadResult] = []
    fetch_all(files, pace, ByteCounter(Silent()), outcomes.append)
    return sorted(outcomes, key=lambda one: one.file.target)


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# Every way of going wrong on the way to the file; after these the server behaves.
MISHAPS: dict[str, list[dict[str, Any]]] = {
    "nothing wrong": [],
    "connection dropped in the body": [{"drop_after": 150_000, "claim": SIZE}],
    "connection reset in the body": [{"drop_after": 150_000, "hard": True}],
    "dropped many times": [{"drop_after": 70_000}] * 5,
    "dropped before the first byte": [{"drop_after": 0}],
    "length stated too large": [{"claim": SIZE + 5000}],
    "no length, dropped": [{"no_length": True, "drop_after": 90_000}],
    "no length": [{"no_length": True}],
    "chunked, dropped": [{"chunked": True, "drop_after": 90_000}],
    "chunked": [{"chunked": True}],
    "server error": [{"status": 500}, {"status": 503}, {"status": 502}],
    "too many requests": [{"status": 429, "headers": {"Retry-After": "0"}}],
    "another part than asked": [{"drop_after": 150_000}, {"range_start": 7}],
    "redirect": [{"status": 302, "headers": {"Location": "/moved"}}],
    "redirect 308": [{"status": 308, "headers": {"Location": "/moved"}}],
    "slow drip": [{"drip": (100, 0.1)}],
}


# Without a checksum nothing tells that a body of unstated length is cut off; without ranges every
# attempt starts over, which the tests of giving up are about.
CASES = [
    pytest.param(mishap, ranges, has_md5, id=f"{mishap}-ranges={ranges}-md5={has_md5}")
    for mishap in MISHAPS
    for ranges in (True, False)
    for has_md5 in (True, False)
    if (mishap, has_md5) != ("no length, dropped", False)
    and (mishap, ranges) != ("dropped many times", False)
]


@pytest.mark.parametrize(("mishap", "has_ranges", "has_md5"), CASES)
def test_file_arrives_whole(
    site: Any, noise: Any, tmp_path: Path, mishap: str, has_ranges: bool, has_md5: bool
) -> None:
    body = noise(SIZE)
    script = list(MISHAPS[mishap])
    url = site.add("/a.bin", body, etag='"one"', has_ranges=has_ranges, script=script)
    site.add("/moved", body, etag='"one"', has_ranges=has_ranges)
    (outcome,) = get(Download(tmp_path / "a.bin", (url,), md5=md5(body) if has_md5 else ""))
    assert (outcome.state, outcome.reason, outcome.n_bytes) == ("fetched", "", SIZE)
    assert (tmp_path / "a.bin").read_bytes() == body
    assert {*leftovers(tmp_path)} <= {"a.bin", "a.bin.bad"}


def test_resume_transfers_only_the_rest(site: Any, noise: Any, tmp_path: Path) -> None:
    body = noise(SIZE)
    url = site.add("/a.bin", body, etag='"one"', script=[{"drop_after": 300_000}])
    get(Download(tmp_path / "a.bin", (url,)))
    second = site.asked("/a.bin")[1]
    assert (second["Range"], second["If-Range"]) == ("bytes=300000-", '"one"')
    assert site.n_sent["/a.bin"] == SIZE


def test_last_modified_proves_the_same_file_where_there_is_no_strong_tag(
    site: Any, noise: Any, tmp_path: Path
) -> None:
    date = "Wed, 21 Oct 2015 07:28:00 GMT"
    url = site.add("/a", noise(SIZE), etag='W/"x"', modified=date, script=[{"drop_after": 100_000}])
    get(Download(tmp_path / "a", (url,)))
    assert site.asked("/a")[1]["If-Range"] == date


@pytest.mark.parametrize("honours", [True, False], ids=["If-Range", "If-Range-ignored"])
def test_file_that_changed_in_between_is_fetched_anew(
    site: Any, noise: Any, tmp_path: Path, honours: bool
) -> None:
    old, new = noise(SIZE, 1), noise(SIZE, 2)
    file = Download(tmp_path / "a.bin", (site.add("/a.bin", old, etag='"old"'),))
    site.files["/a.bin"].always = {"drop_after": 100_000}
    assert get(file, pace=Pace(n_tries=1))[0].state == "failed"
    site.add("/a.bin", new, etag='"new"')
    if not honours:
        site.files["/a.bin"].modified = '"old"'  # accepts the old proof and serves the new file
    assert get(file)[0].state == "fetched"
    assert file.target.read_bytes() == new


def test_part_without_proof_is_not_glued_to_another_file(
    site: Any, noise: Any, tmp_path: Path
) -> None:
    body = noise(SIZE)
    file = Download(tmp_path / "a.bin", (site.add("/a.bin", body),))
    file.part.write_bytes(b"x" * 1000)
    get(file)
    assert file.target.read_bytes() == body
    assert "Range" not in site.asked("/a.bin")[0]


def test_damaged_part_is_fetched_again_from_the_start(
    site: Any, noise: Any, tmp_path: Path
) -> None:
    body = noise(SIZE)
    url = site.add("/a.bin", body, etag='"1"', always={"drop_after": 100_000})
    file = Download(tmp_path / "a.bin", (url,), md5=md5(body))
    get(file, pace=Pace(n_tries=1, backoff_s=0.01))
    data = bytearray(file.part.read_bytes())
    data[5] ^= 1
    file.part.write_bytes(data)
    site.files["/a.bin"].always = {}
    assert get(file)[0].state == "fetched"
    assert file.target.read_bytes() == body


def test_whole_part_needs_no_request(site: Any, noise: Any, tmp_path: Path) -> None:
    """Killed between the last byte and the name."""
    body = noise(SIZE)
    url = site.add("/a.bin", body, etag='"1"', always={"drop_after": SIZE - 1})
    file = Download(tmp_path / "a.bin", (url,), SIZE, md5(body))
    get(file, pace=Pace(n_tries=1, backoff_s=0.01))
    file.part.write_bytes(body)
    n_before = len(site.requests)
    assert get(file)[0].state == "fetched"
    assert len(site.requests) == n_before


# --- wrong files, mirrors ---


def test_wrong_checksum_goes_aside_and_the_mirror_is_asked(
    site: Any, other_site: Any, noise: Any, tmp_path: Path
) -> None:
    body, wrong = noise(SIZE, 1), noise(SIZE, 2)
    urls = (site.add("/a.bin", wrong), other_site.add("/a.bin", body))
    (outcome,) = get(Download(tmp_path / "a.bin", urls, md5=md5(body)))
    assert outcome.state == "fetched"
    assert (tmp_path / "a.bin").read_bytes() == body
    assert (tmp_path / "a.bin.bad").read_bytes() == wrong


def test_wrong_everywhere_is_one_clear_line(
    site: Any, other_site: Any, noise: Any, tmp_path: Path
) -> None:
    wrong = noise(1000)
    urls = (site.add("/a.bin", wrong), other_site.add("/b.bin", wrong, always={"status": 404}))
    (outcome,) = get(Download(tmp_path / "a.bin", urls, md5="0" * 32))
    host, other = (one.server.server_port for one in (site, other_site))
    assert outcome.state == "failed"
    assert outcome.reason == (
        f"127.0.0.1:{host} sent a wrong file, kept as a.bin.bad: its md5 is {md5(wrong)}, "
        f"expected {'0' * 32}; 127.0.0.1:{other} answered 404 Not Found"
    )
    assert leftovers(tmp_path) == ["a.bin.bad"]


def test_wrong_file_of_unstated_length_goes_aside_too(
    site: Any, noise: Any, tmp_path: Path
) -> None:
    url = site.add("/a.bin", noise(1000), etag='"1"', always={"no_length": True})
    (outcome,) = get(Download(tmp_path / "a.bin", (url,), md5="0" * 32))
    assert "sent a wrong file, kept as a.bin.bad: its md5 is" in outcome.reason
    assert leftovers(tmp_path) == ["a.bin.bad"]


def test_sha256_counts_too(site: Any, noise: Any, tmp_path: Path) -> None:
    body = noise(SIZE)
    url = site.add("/a.bin", body)
    right = hashlib.sha256(body).hexdigest().upper()
    assert get(Download(tmp_path / "a", (url,), sha256=right))[0].state == "fetched"
    assert "its sha256 is" in get(Download(tmp_path / "b", (url,), sha256="1" * 64))[0].reason


def test_mirror_goes_on_from_the_bytes_of_a_dead_one(
    site: Any, other_site: Any, noise: Any, tmp_path: Path
) -> None:
    body = noise(SIZE)
    first = site.add("/a.bin", body, etag='"1"', always={"drop_after": 0})
    site.files["/a.bin"].script = [{"drop_after": 250_000}]
    second = other_site.add("/a.bin", body, etag='"2"')
    (outcome,) = get(Download(tmp_path / "a.bin", (first, second), md5=md5(body)))
    assert outcome.state == "fetched"
    assert other_site.n_sent["/a.bin"] == SIZE - 250_000


def test_size_is_held_against_the_file(site: Any, noise: Any, tmp_path: Path) -> None:
    url = site.add("/a.bin", noise(1000))
    (outcome,) = get(Download(tmp_path / "a.bin", (url,), n_bytes=1001))
    assert outcome.reason.endswith("has a file of 1,000 bytes, expected 1,001")
    assert site.n_sent["/a.bin"] == 0 or len(site.asked("/a.bin")) == 1
    rough = Download(tmp_path / "b.bin", (url,), n_bytes=4_000_000)
    assert get(rough)[0].state == "fetched"


def test_body_longer_than_stated_is_refused(site: Any, noise: Any, tmp_path: Path) -> None:
    url = site.add("/a.bin", noise(5000), always={"claim": 3000})
    (outcome,) = get(Download(tmp_path / "a.bin", (url,)))
    assert outcome.state == "failed"
    # In how many packets it came decides whether the stated length was seen.
    assert re.search(r"sends more than (the 3,000 bytes )?it stated", outcome.reason)


def test_endless_body_ends_at_the_expected_size(site: Any, noise: Any, tmp_path: Path) -> None:
    url = site.add("/a.bin", noise(2_000_000), always={"no_length": True})
    (outcome,) = get(Download(tmp_path / "a.bin", (url,), n_bytes=1001))
    assert "sends more than the expected 1,001 bytes" in outcome.reason


def test_web_page_is_not_taken_for_the_file(site: Any, tmp_path: Path) -> None:
    url = site.add("/a.tar.gz", b"<html>log in</html>", content_type="text/html; charset=utf-8")
    (outcome,) = get(Download(tmp_path / "a.tar.gz", (url,)))
    assert outcome.reason.endswith("sent a web page instead of the file")


def test_empty_body_is_no_file(site: Any, tmp_path: Path) -> None:
    assert "it is empty" in get(Download(tmp_path / "a", (site.add("/a", b""),)))[0].reason


# --- redirects ---


def test_redirect_loop_ends(site: Any, tmp_path: Path) -> None:
    url = site.add("/a", b"", always={"status": 302, "headers": {"Location": "/b"}})
    site.add("/b", b"", always={"status": 302, "headers": {"Location": "/a"}})
    (outcome,) = get(Download(tmp_path / "a", (url,)))
    assert outcome.reason.endswith("redirects without end")
    assert len(site.requests) < 12


@pytest.mark.parametrize("to", ["ftp://127.0.0.1/x", "file:///etc/passwd", "data:text/plain,x"])
def test_redirect_to_other_schemes_is_not_followed(site: Any, tmp_path: Path, to: str) -> None:
    url = site.add("/a", b"", always={"status": 302, "headers": {"Location": to}})
    (outcome,) = get(Download(tmp_path / "a", (url,)))
    assert outcome.state == "failed"
    assert leftovers(tmp_path) == []


# --- servers without bounds (third look, S4): the source fails alone, in one line ---

HOSTILE = {
    "an endless body": (repeating(OK + b"\r\n", b"x" * 65536), "more than the allowed 1,000,000"),
    "an absurd length": (
        sending(OK, b"Content-Length: 1" + b"0" * 30 + b"\r\n\r\nx"),
        "does not answer as HTTP does",
    ),
    "endless 100 Continue": (
        repeating(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        "did not answer within 0.5 s",
    ),
    "a dripped header": (repeating(OK, b"X-A: b\r\n", 0.05), "did not answer within 0.5 s"),
    "a longer body": (
        sending(OK, b"Content-Length: 3\r\nConnection: close\r\n\r\nabcdef"),
        "sends more than it stated",
    ),
    "no address": (redirect("http://[::1"), "redirects to no address ('http://[::1')"),
    "a host without end": (redirect("http://" + "é" * 300 + ".org/"), "redirects to no address"),
    "an empty label": (redirect("http://a..org/"), "redirects to an address that cannot be read"),
    "file:///etc/passwd": (
        redirect("file:///etc/passwd"),
        "redirects to a file: address ('file:///etc/passwd')",
    ),
    "no target": (sending(b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n"), "no address"),
    "a coloured status": (sending(b"\x1b[31mred\x07\r\n\r\n"), "does not answer as HTTP does"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_server_fails_alone(site: Any, tmp_path: Path, name: str) -> None:
    script, text = HOSTILE[name]
    pace = Pace(n_tries=2, backoff_s=0.01, timeout_s=0.5, most_bytes=1_000_000)
    good = site.add("/b.bin", b"photo")
    with raw_server(script) as url:
        files = Download(tmp_path / "a.bin", (url,)), Download(tmp_path / "b.bin", (good,))
        bad, fine = get(*files, pace=pace)
    assert (bad.state, fine.state) == ("failed", "fetched")
    assert text in bad.reason
    assert bad.reason.isprintable()
    assert (tmp_path / "b.bin").read_bytes() == b"photo"


def test_a_page_of_the_internet_cannot_send_us_to_our_own_machine(
    site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def addresses(host: str) -> list[str]:
        return ["93.184.216.34" if host == "localhost" else host]

    monkeypatch.setattr(http_reader, "addresses_of", addresses)
    with raw_server(redirect(site.add("/secret", b"secret"))) as url:
        public = url.replace("127.0.0.1", "localhost")
        (outcome,) = get(Download(tmp_path / "a.bin", (public,)))
    assert outcome.reason.endswith("redirects to 127.0.0.1, a private address")
    assert site.requests == []


# --- patience ---


def test_retry_after_is_honoured_and_capped(site: Any, noise: Any, tmp_path: Path) -> None:
    asks = {"status": 429, "headers": {"Retry-After": "3600"}}
    url = site.add("/a.bin", noise(1000), script=[asks])
    pace = Pace(backoff_s=0.01, longest_wait_s=0.4)
    began = time.monotonic()
    assert get(Download(tmp_path / "a.bin", (url,)), pace=pace)[0].state == "fetched"
    assert 0.4 <= time.monotonic() - began < 600, "not an hour"


@pytest.mark.parametrize(
    ("always", "ends"),
    [
        ({"status": 503}, "answered 503 Service Unavailable"),
        ({"drop_after": 1000}, "sent 1,000 of 400,000 bytes"),
        ({"drip": (10, 0.05)}, "bytes a second"),
    ],
)
def test_gives_up_some_day(
    site: Any, noise: Any, tmp_path: Path, always: dict[str, Any], ends: str
) -> None:
    url = site.add("/a.bin", noise(SIZE), has_ranges=False, always=always)
    (outcome,) = get(Download(tmp_path / "a.bin", (url,)))
    assert outcome.state == "failed"
    assert outcome.reason.endswith(ends)
    assert len(site.requests) == PACE.n_tries


def test_nobody_listens(tmp_path: Path) -> None:
    (outcome,) = get(Download(tmp_path / "a", ("http://127.0.0.1:9/a",)))
    assert "127.0.0.1:9 lost the connection" in outcome.reason


def test_no_more_files_at_once_than_asked_for(site: Any, noise: Any, tmp_path: Path) -> None:
    urls = [site.add(f"/{i}", noise(1000, i), always={"drip": (500, 0.03)}) for i in range(8)]
    get(*(Download(tmp_path / str(i), (url,)) for i, url in enumerate(urls)), pace=Pace(parallel=2))
    assert site.open_most == 2


# --- disks ---


def test_full_disk_is_a_data_error_and_not_a_lost_connection(
    site: Any, noise: Any, tmp_path: Path
) -> None:
    file = Download(tmp_path / "a.bin", (site.add("/a.bin", noise(SIZE)),))
    file.part.symlink_to("/dev/full")
    with pytest.raises(DataError, match=r"a.bin  cannot be written \(No space left on device\)"):
        get(file)
    assert len(site.requests) == 1


def test_stated_length_that_does_not_fit_the_disk_fails_alone(site: Any, tmp_path: Path) -> None:
    url = site.add("/a.bin", b"x" * 1000, always={"claim": 10**17})
    good = site.add("/b.bin", b"photo")
    bad, fine = get(Download(tmp_path / "a.bin", (url,)), Download(tmp_path / "b.bin", (good,)))
    assert re.search(r"needs 100000000.0 GB more, but only .* are free", bad.reason)
    assert fine.state == "fetched"
    assert leftovers(tmp_path) == ["b.bin"]


def test_folder_that_cannot_be_made(site: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be made"):
        get(Download(tmp_path / "file" / "a", (site.add("/a", b"x"),)))


def test_defect_downloads_plankton_server_states_no_length(
    site: Any, noise: Any, tmp_path: Path
) -> None:
    body = noise(SIZE)
    url = site.add("/a.zip", body, always={"no_length": True})
    assert ask_sizes([url]) == [None]
    assert get(Download(tmp_path / "a.zip", (url,)))[0].state == "fetched"
    assert (tmp_path / "a.zip").read_bytes() == body


def test_addresses_with_spaces_and_other_letters(site: Any, tmp_path: Path) -> None:
    site.add("/Camera%20Trap/%C3%A9%231.jpg", b"photo")
    url = site.url("/Camera Trap/é#1.jpg")
    assert get(Download(tmp_path / "a.jpg", (url,)))[0].state == "fetched"
    assert clean_url(clean_url(url)) == clean_url(url)
