"""Images that a dataset's own table lists: do all that can be had arrive, and right?"""

from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fieldmark.cli import main
from fieldmark.data import Info, Source
from fieldmark.data.get import Choice, FileState, Pace, get_dataset
from fieldmark.data.sets import cornell_bird
from fieldmark.errors import DataError, ModelError, UsageError
from kit.dataset import jpeg

PACE = Pace(n_tries=2, backoff_s=0.01, timeout_s=5)
FILE = "cornell_bird.csv"
COLOURS = ("red", "green", "blue", "white", "black", "brown")
PHOTOS = {f"{100 + n}": jpeg(colour=colour) for n, colour in enumerate(COLOURS)}


def md5(data: bytes) -> str:
    return hashlib.md5(data).hexdigest()


def table_text(site: Any, photos: dict[str, bytes] | None = None) -> str:
    """The table as published, with the addresses of this site."""
    lines = [",id,source_url,captions,md5"]
    for number, (name, data) in enumerate((photos or PHOTOS).items()):
        url = site.url(f"/asset/{name}/1200")
        lines.append(f'{number},{name},{url},"Bog_Wren, Photo {number}.",{md5(data)}')
    return "\n".join(lines) + "\n"


@pytest.fixture
def birds(site: Any) -> Any:
    """A dataset whose table is to be fetched, and whose images the table lists."""
    for name, data in PHOTOS.items():
        site.add(f"/asset/{name}/1200", data, content_type="image/jpeg", etag=f'"{name}"')
    url = site.add("/list.csv", table_text(site).encode())
    info = Info("Birds", "CC0", "none", sources=(Source(url=url, filename=FILE),))
    return SimpleNamespace(INFO=info, listed_sources=cornell_bird.listed_sources)


def get(dataset: Any, root: Path, **choice: Any) -> list[FileState]:
    return get_dataset(dataset, root, Choice(pace=PACE, **choice))


def states(dataset: Any, root: Path, **choice: Any) -> dict[str, str]:
    return {state.file: state.state for state in get(dataset, root, **choice)}


def report(root: Path) -> list[dict[str, str]]:
    with (root / ".fieldmark/report.csv").open(newline="") as file:
        return list(csv.DictReader(file))


IMAGES = "images/ (6 files)"


def test_table_and_then_its_images_and_nothing_twice(site: Any, birds: Any, tmp_path: Path) -> None:
    assert states(birds, tmp_path) == {FILE: "fetched", IMAGES: "fetched"}
    assert {path.stem: path.read_bytes() for path in (tmp_path / "images").iterdir()} == PHOTOS
    assert report(tmp_path) == []
    n_requests = len(site.requests)
    assert states(birds, tmp_path) == {FILE: "here", IMAGES: "here"}
    assert len(site.requests) == n_requests
    assert get(birds, tmp_path)[1].n_bytes == sum(map(len, PHOTOS.values()))


def test_no_size_is_asked_of_the_server_for_each_image(
    site: Any, birds: Any, tmp_path: Path
) -> None:
    get(birds, tmp_path)
    assert [path for how, path, _, _ in site.requests if how == "HEAD"] == ["/list.csv"]


def test_only_one_kind(site: Any, birds: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cornell_bird\.csv  is missing: the table of captions"):
        get(birds, tmp_path, only="images")
    assert states(birds, tmp_path, only="annotations") == {FILE: "fetched"}
    assert not (tmp_path / "images").exists()
    assert states(birds, tmp_path, only="images") == {IMAGES: "fetched"}
    assert len(site.asked("/list.csv")) == 1


def test_images_wait_for_their_table(site: Any, birds: Any, tmp_path: Path) -> None:
    site.files["/list.csv"].always = {"status": 404}
    assert states(birds, tmp_path) == {FILE: "failed"}


def test_dead_links_and_wrong_images_fail_no_others(site: Any, birds: Any, tmp_path: Path) -> None:
    site.files["/asset/101/1200"].always = {"status": 404}
    site.files["/asset/103/1200"].body = jpeg(colour="pink")
    _, images = get(birds, tmp_path)
    host = f"127.0.0.1:{site.server.server_port}"
    assert images.state == "failed"
    assert images.reason.startswith(
        f"2 of 6 files, listed in {tmp_path / '.fieldmark/report.csv'} "
        f"(images/101.jpg {host} answered 404 Not Found; images/103.jpg {host} sent a wrong file, "
        f"kept as 103.jpg.bad: its md5 is {md5(jpeg(colour='pink'))}, expected "
    )
    assert [row["file"] for row in report(tmp_path)] == ["images/101.jpg", "images/103.jpg"]
    assert report(tmp_path)[0]["url"] == site.url("/asset/101/1200")
    assert len(list((tmp_path / "images").glob("*.jpg"))) == 4
    site.files["/asset/101/1200"].always = {}
    n_requests = len(site.requests)
    assert get(birds, tmp_path)[1].reason.startswith("1 of 6 files, ")
    assert len(site.requests) == n_requests + 2  # nothing that is right is asked for again


def test_rows_that_share_an_address(site: Any, birds: Any, tmp_path: Path) -> None:
    text = table_text(site)
    line = text.splitlines()[1].replace("0,100,", "6,777,").replace("Photo 0", "Photo 6")
    (tmp_path / FILE).write_text(f"{text}{line}\n")
    assert states(birds, tmp_path, only="images") == {"images/ (7 files)": "fetched"}
    assert (tmp_path / "images/777.jpg").read_bytes() == PHOTOS["100"]


def test_redirects_are_followed(site: Any, birds: Any, tmp_path: Path) -> None:
    moved = {"status": 302, "headers": {"Location": site.url("/asset/105/1200")}}
    site.files["/asset/100/1200"].always = moved
    (tmp_path / FILE).write_text(table_text(site).replace(md5(PHOTOS["100"]), md5(PHOTOS["105"])))
    assert states(birds, tmp_path, only="images") == {IMAGES: "fetched"}
    assert (tmp_path / "images/100.jpg").read_bytes() == PHOTOS["105"]


def test_rows_without_an_address(site: Any, birds: Any, tmp_path: Path) -> None:
    text = table_text(site).replace(site.url("/asset/100/1200"), "")
    (tmp_path / FILE).write_text(text.replace(site.url("/asset/101/1200"), "ftp://a.org/x"))
    (images,) = get(birds, tmp_path, only="images")
    assert (
        "(images/100.jpg no address; images/101.jpg not an http or https address)" in images.reason
    )
    (tmp_path / "images/100.jpg").write_bytes(PHOTOS["100"])  # put there by hand
    (images,) = get(birds, tmp_path, only="images")
    assert images.reason.startswith("1 of 6 files, ")


def test_images_stay_in_the_folder_where_they_are(site: Any, birds: Any, tmp_path: Path) -> None:
    (tmp_path / "100.jpg").write_bytes(PHOTOS["100"])
    (tmp_path / FILE).write_text(table_text(site))
    assert states(birds, tmp_path, only="images") == {"./ (6 files)": "fetched"}
    assert site.asked("/asset/100/1200") == []
    assert (tmp_path / "105.jpg").read_bytes() == PHOTOS["105"]


def test_verify_reads_again_and_fetches_nothing(site: Any, birds: Any, tmp_path: Path) -> None:
    get(birds, tmp_path)
    n_requests = len(site.requests)
    assert states(birds, tmp_path, verify=True) == {FILE: "here", IMAGES: "here"}
    (tmp_path / "images/102.jpg").write_bytes(b"rotten")
    (tmp_path / "images/104.jpg").unlink()
    _, images = get(birds, tmp_path, verify=True)
    assert images.state == "damaged" and images.reason.endswith(
        "(images/102.jpg is not the listed one, kept as 102.jpg.bad; images/104.jpg is not here)"
    )
    assert get(birds, tmp_path, verify=True)[1].state == "missing"
    assert len(site.requests) == n_requests
    assert states(birds, tmp_path) == {FILE: "here", IMAGES: "fetched"}
    assert (tmp_path / "images/102.jpg").read_bytes() == PHOTOS["102"]


def test_offline_fetches_nothing(site: Any, birds: Any, tmp_path: Path) -> None:
    get(birds, tmp_path, only="annotations")
    n_requests = len(site.requests)
    with pytest.raises(ModelError, match=r"images/100\.jpg  is not here and --offline forbids"):
        get(birds, tmp_path, offline=True)
    assert len(site.requests) == n_requests


def test_names_that_lead_out_are_refused(site: Any, birds: Any, tmp_path: Path) -> None:
    get(birds, tmp_path, only="annotations")
    birds.listed_sources = lambda root: [Source(url=site.url("/x"), filename="../x.jpg")]
    with pytest.raises(UsageError, match="is outside of the dataset's folder"):
        get(birds, tmp_path)


# --- the command ---


def command(root: Path, *flags: str) -> list[str]:
    words = ["data", "get", "cornell_bird", "--only", "images", *flags]
    return [*words, "--out", str(root)]


def test_command_counts_and_lists_what_is_gone(
    site: Any, birds: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site.files["/asset/102/1200"].always = {"status": 410}
    (tmp_path / FILE).write_text(table_text(site))
    assert main(command(tmp_path, "--quiet")) == 4
    shown = capsys.readouterr()
    assert shown.out.splitlines()[1].split()[:4] == ["images/", "(6", "files)", "failed"]
    host = f"127.0.0.1:{site.server.server_port}"
    assert shown.err.splitlines()[0] == (
        f"images/ (6 files) failed: 1 of 6 files, listed in {tmp_path}/.fieldmark/report.csv "
        f"(images/102.jpg {host} answered 410 Gone)."
    )
    site.files["/asset/102/1200"].always = {}
    assert main(command(tmp_path, "--json")) == 0
    (file,) = json.loads(capsys.readouterr().out)["files"]
    assert (file["state"], file["reason"]) == ("fetched", "")
