"""`fieldmark data get --urls`: a table of addresses becomes a folder of images."""

from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from fieldmark.cli import main
from fieldmark.data.get import Pace, UrlColumns, get_urls
from fieldmark.data.get.urls import read_files
from fieldmark.errors import DataError, UsageError
from kit.raw_server import OK, raw_server, repeating

PACE = Pace(n_tries=2, backoff_s=0.01, timeout_s=5)


def md5(data: bytes) -> str:
    return hashlib.md5(data).hexdigest()


def write(path: Path, rows: list[dict[str, str]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def report(out: Path) -> list[dict[str, str]]:
    with (out / "report.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def listed(site: Any, noise: Any, tmp_path: Path) -> Path:
    """Twelve photos with checksums."""
    rows = []
    for i in range(12):
        body = noise(2000, i)
        url = site.add(f"/photo/{i}.jpg", body)
        rows.append({"id": f"p{i:02d}", "url": url, "md5": md5(body)})
    return write(tmp_path / "list.csv", rows)


def test_all_arrive_and_nothing_twice(site: Any, noise: Any, listed: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = get_urls(listed, out, pace=PACE)
    assert (result.n_fetched, result.n_here, result.failed) == (12, 0, ())
    assert (out / "p07.jpg").read_bytes() == noise(2000, 7)
    assert report(out) == []
    (out / "p03.jpg").write_bytes(b"rotten")
    n_requests = len(site.requests)
    result = get_urls(listed, out, pace=PACE)
    assert (result.n_fetched, result.n_here) == (1, 11)
    assert len(site.requests) == n_requests + 1
    assert (out / "p03.jpg").read_bytes() == noise(2000, 3)


def test_failures_are_listed_with_reasons_and_the_rest_is_kept(
    site: Any, noise: Any, listed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site.files["/photo/1.jpg"].always = {"status": 404}
    site.files["/photo/4.jpg"].body = b"another photo"
    site.files["/photo/5.jpg"].script = [{"status": 429, "headers": {"Retry-After": "0"}}]
    text = listed.read_text() + "p90,,\np91,ftp://a.org/x.jpg,\n"
    listed.write_text(text)
    out = tmp_path / "out"
    flags = ["--quiet"]
    assert main(["data", "get", "--urls", str(listed), "--out", str(out), *flags]) == 5
    rows = report(out)
    host = f"127.0.0.1:{site.server.server_port}"
    assert [(row["row"], row["file"]) for row in rows] == [
        ("3", "p01.jpg"), ("6", "p04.jpg"), ("14", ""), ("15", ""),
    ]  # fmt: skip
    assert rows[0]["reason"] == f"{host} answered 404 Not Found"
    assert rows[1]["reason"].startswith(f"{host} sent a wrong file, kept as p04.jpg.bad: its md5")
    assert [one["reason"] for one in rows[2:]] == ["no address", "not an http or https address"]
    assert len(list(out.glob("*.jpg"))) == 10
    output = capsys.readouterr().err
    assert "10 files downloaded, 0 already here." in output
    assert f"4 files failed; {out / 'report.csv'} lists them with the reasons." in output
    site.files["/photo/1.jpg"].always = {}
    site.files["/photo/4.jpg"].body = noise(2000, 4)
    listed.write_text(text.partition("p90")[0])
    words = ["data", "get", "--urls", str(listed), "--out", str(out), "--json"]
    assert main(words) == 0
    output = json.loads(capsys.readouterr().out)
    assert (output["here"], output["fetched"], output["failed"]) == (10, 2, 0)
    assert report(out) == []


def test_other_columns_are_mirrors(site: Any, other_site: Any, noise: Any, tmp_path: Path) -> None:
    body = noise(2000)
    row = {
        "url_gcp": site.url("/dead.jpg"),
        "url_aws": other_site.add("/alive.jpg", body),
        "filepath": "set/a.png",
        "hashsum_original": md5(body),
    }
    table = write(tmp_path / "list.csv", [row])
    assert get_urls(table, tmp_path / "out", pace=PACE).n_fetched == 1
    assert (tmp_path / "out/set/a.png").read_bytes() == body
    columns = UrlColumns(urls=("url_gcp",))
    assert len(get_urls(table, tmp_path / "only", columns, PACE).failed) == 1


def test_names_and_patterns(site: Any, tmp_path: Path) -> None:
    row = {"a": site.add("/x.jpeg", b"photo"), "taxon": "Rana", "n": "7"}
    table = write(tmp_path / "list.csv", [row])
    get_urls(table, tmp_path / "1", UrlColumns(urls=("a",), save_as="{taxon}/{n}.jpg"), PACE)
    get_urls(table, tmp_path / "2", UrlColumns(urls=("a",), save_as="n"), PACE)
    get_urls(table, tmp_path / "3", UrlColumns(urls=("a",)), PACE)
    assert (tmp_path / "1/Rana/7.jpg").is_file()
    assert (tmp_path / "2/7").is_file()
    assert (tmp_path / "3/x.jpeg").is_file()


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"url": "http://a.org/x", "filename": "../x"}, r"list.csv:2  '../x' cannot be the name"),
        ({"url": "http://a.org/x", "filename": "/etc/x"}, "cannot be the name"),
        ({"url": "http://a.org/x", "filename": ".fieldmark/x"}, "cannot be the name"),
        ({"url": "http://a.org/x", "filename": "report.csv"}, "cannot be the name"),
        ({"url": "http://a.org/x", "md5": "abc"}, "list.csv:2  md5 is 'abc': expected an MD5"),
        ({"adress": "http://a.org/x"}, "has no column of addresses"),
    ],
)
def test_odd_tables_are_refused(tmp_path: Path, row: dict[str, str], says: str) -> None:
    table = write(tmp_path / "list.csv", [row])
    with pytest.raises(DataError, match=says):
        get_urls(table, tmp_path / "out", pace=PACE)
    assert not (tmp_path / "out").exists()


def test_two_files_of_one_name(tmp_path: Path) -> None:
    rows = [{"url": f"http://a.org/{i}/x.jpg"} for i in (1, 2)]
    with pytest.raises(DataError, match=r"list.csv:3  'x.jpg' is the name of two files, here and"):
        get_urls(write(tmp_path / "list.csv", rows), tmp_path / "out", pace=PACE)
    twins = [{"url": "http://a.org/x.jpg"}] * 2
    assert len(read_files(write(tmp_path / "twins.csv", twins), tmp_path, UrlColumns())[0]) == 1


def test_unknown_column_names_the_closest(tmp_path: Path) -> None:
    table = write(tmp_path / "list.csv", [{"url": "http://a.org/x"}])
    with pytest.raises(UsageError, match=r"column 'ulr' is not known\. Did you mean 'url'\?"):
        get_urls(table, tmp_path / "out", UrlColumns(urls=("ulr",)), PACE)


def test_missing_table_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["data", "get", "--urls", str(tmp_path / "no.csv"), "--out", str(tmp_path)]
    assert main(words) == 3
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "n", "first"),
    [
        ("ENA24-balanced.csv", 1120, "ENA24/15181b5c-af04-4b81-9ad7-3ba6c164fe7b.png"),
        ("desert-lion-balanced.csv", 352, "desert-lion/0da08736-1347-4062-809a-685c108f77b7.png"),
        (
            "ohio-small-animals-balanced.csv",
            468,
            "ohio-small-animals/OH_sm_animals_BIWA3N_2020-07-12_06-50-28.JPG",
        ),
    ],
)
def test_real_lists_are_read(shared: Path, tmp_path: Path, name: str, n: int, first: str) -> None:
    files, failed = read_files(shared / "data" / name, tmp_path, UrlColumns())
    assert (len(files), failed) == (n, [])
    assert files[0].target == tmp_path / first
    assert all(len(file.urls) == 3 and len(file.md5) == 32 for file in files)


def test_rows_that_cannot_be_fetched_keep_no_other_away(
    site: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Third look, S4: these ended the whole list, or filled the disk."""
    good = site.add("/good.jpg", b"photo")
    with raw_server(repeating(OK + b"\r\n", b"x" * 65536)) as endless:
        urls = ["http://[::1", f"http://{'é' * 80}.org/a", "http://a..org/b", endless, good]
        rows = [{"id": str(i), "url": url} for i, url in enumerate(urls)]
        listed, out = write(tmp_path / "list.csv", rows), tmp_path / "out"
        flags = ["--out", str(out), "--max-mb", "1", "--quiet"]
        assert main(["data", "get", "--urls", str(listed), *flags]) == 5
    assert (out / "4.jpg").read_bytes() == b"photo"
    reasons = {row["row"]: row["reason"] for row in report(out)}
    assert reasons["2"] == reasons["3"] == reasons["4"] == "an address that cannot be read"
    assert "sends more than the allowed 1,000,000 bytes" in reasons["5"]
    assert "Traceback" not in capsys.readouterr().err
