"""`fieldmark data get NAME`: from sources to the layout that the dataset's reader expects."""

from __future__ import annotations

import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from fieldmark.cli import main
from fieldmark.data import Source
from fieldmark.data.get import Choice, Pace, get_sources
from fieldmark.data.get.state import locked_folder
from fieldmark.errors import DataError, ModelError, UsageError
from kit.kills import wait_for

PACE = Pace(n_tries=2, backoff_s=0.01, timeout_s=5)
PHOTO = b"\xff\xd8\xff photo"

MODULE = """
from pathlib import Path
from fieldmark.data import Finding, Info, Source

class _Ponds:
    INFO = Info(title="Ponds", licence="CC0", citation="none", sources=({sources}))

    def table(self, root):
        raise AssertionError("not asked for")

    def check(self, root):
        missing = [name for name in {needs!r} if not (Path(root) / name).is_file()]
        return [Finding("error", f"{{name}} is missing.") for name in missing]

    def make(self, root, world, size):
        pass

PONDS = _Ponds()
"""


def tarred(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return packed.getvalue()


def md5(data: bytes) -> str:
    return hashlib.md5(data).hexdigest()


def source(site: Any, path: str, body: bytes, **facts: Any) -> Source:
    url = site.add(path, body, etag=f'"{md5(body)}"')
    return Source(url=url, filename=path[1:], md5=md5(body), **facts)


@pytest.fixture
def ponds(site: Any, noise: Any) -> tuple[Source, ...]:
    """An archive of images and one of annotations."""
    images = tarred({f"images/{i}.jpg": noise(3000, i) for i in range(30)})
    labels = tarred({"labels.csv": b"id,label\n1,frog\n"})
    return (
        source(site, "/images.tar.gz", images),
        source(site, "/labels.csv.tar.gz", labels, n_bytes=len(labels)),
    )


def get(sources: Any, root: Path, **choice: Any) -> dict[str, str]:
    states = get_sources(sources, root, Choice(pace=PACE, **choice))
    return {state.file: state.state for state in states}


def module(folder: Path, sources: tuple[Source, ...], needs: tuple[str, ...] = ()) -> str:
    """A dataset of the user's own, as the command line takes it."""
    path = folder / "ponds.py"
    text = "".join(f"{source!r}, " for source in sources)
    path.write_text(MODULE.format(sources=text, needs=needs))
    return f"{path}:PONDS"


# --- the ordinary way ---


def test_fetched_and_unpacked_once(site: Any, ponds: Any, tmp_path: Path) -> None:
    assert get(ponds, tmp_path) == {"images.tar.gz": "fetched", "labels.csv.tar.gz": "fetched"}
    assert len(list((tmp_path / "images").iterdir())) == 30
    assert (tmp_path / "labels.csv").read_text() == "id,label\n1,frog\n"
    n_requests = len(site.requests)
    when = (tmp_path / "labels.csv").stat().st_mtime_ns
    assert get(ponds, tmp_path) == {"images.tar.gz": "here", "labels.csv.tar.gz": "here"}
    assert len(site.requests) == n_requests
    assert (tmp_path / "labels.csv").stat().st_mtime_ns == when


def test_archive_that_is_here_is_unpacked_and_not_fetched(
    site: Any, ponds: Any, tmp_path: Path
) -> None:
    for path in ("/images.tar.gz", "/labels.csv.tar.gz"):
        (tmp_path / path[1:]).write_bytes(site.files[path].body)
    assert set(get(ponds, tmp_path).values()) == {"here"}
    assert (tmp_path / "labels.csv").is_file()
    assert site.requests == []


def test_wrong_file_that_is_here_goes_aside(ponds: Any, tmp_path: Path) -> None:
    (tmp_path / "labels.csv.tar.gz").write_bytes(b"old")
    assert get(ponds, tmp_path)["labels.csv.tar.gz"] == "fetched"
    assert (tmp_path / "labels.csv.tar.gz.bad").read_bytes() == b"old"


def test_only_annotations(site: Any, ponds: Any, tmp_path: Path) -> None:
    assert get(ponds, tmp_path, only="annotations") == {"labels.csv.tar.gz": "fetched"}
    assert site.asked("/images.tar.gz") == []
    with pytest.raises(UsageError, match="no source contains those alone"):
        get(ponds[:1], tmp_path, only="annotations")


def test_archives_can_go_and_nothing_comes_again(site: Any, ponds: Any, tmp_path: Path) -> None:
    get(ponds, tmp_path, remove_archives=True)
    assert not (tmp_path / "images.tar.gz").exists()
    n_requests = len(site.requests)
    assert set(get(ponds, tmp_path).values()) == {"here"}
    assert set(get(ponds, tmp_path, verify=True).values()) == {"here"}
    assert len(site.requests) == n_requests


def test_new_release_is_fetched(site: Any, ponds: Any, tmp_path: Path) -> None:
    get(ponds, tmp_path, remove_archives=True)
    newer = source(site, "/labels.csv.tar.gz", tarred({"labels.csv": b"id,label\n2,newt\n"}))
    assert get((ponds[0], newer), tmp_path)["labels.csv.tar.gz"] == "fetched"
    assert (tmp_path / "labels.csv").read_text() == "id,label\n2,newt\n"


def test_parts_make_one_archive(site: Any, noise: Any, tmp_path: Path) -> None:
    data = tarred({"dataset/clip.jpg": noise(9000)})
    third = len(data) // 3
    cuts = (data[:third], data[third : 2 * third], data[2 * third :])
    parts = [
        source(site, f"/p_{i}", cut, part_of="all.tar.gz", unpack="in")
        for i, cut in enumerate(cuts)
    ]
    assert set(get(parts, tmp_path).values()) == {"fetched"}
    assert (tmp_path / "in/dataset/clip.jpg").read_bytes() == noise(9000)


def test_one_lost_file_does_not_lose_the_others(site: Any, ponds: Any, tmp_path: Path) -> None:
    site.files["/images.tar.gz"].always = {"status": 404}
    states = get_sources(ponds, tmp_path, Choice(pace=PACE))
    assert [state.state for state in states] == ["failed", "fetched"]
    assert states[0].reason.endswith("answered 404 Not Found")
    assert (tmp_path / "labels.csv").is_file()


# --- verify ---


def test_verify_finds_damage_and_get_mends_it(site: Any, ponds: Any, tmp_path: Path) -> None:
    get(ponds, tmp_path)
    photo = tmp_path / "images/7.jpg"
    good = photo.read_bytes()
    photo.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    archive = tmp_path / "labels.csv.tar.gz"
    times = archive.stat()
    archive.write_bytes(bytes(len(archive.read_bytes())))
    os.utime(archive, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert set(get(ponds, tmp_path).values()) == {"here"}  # a rotten bit is not looked for …
    states = get_sources(ponds, tmp_path, Choice(verify=True))
    assert [state.state for state in states] == ["damaged", "damaged"]  # … unless asked for
    assert states[0].reason == "missing or changed since unpacking: 1 file ('images/7.jpg')"
    assert states[1].reason.endswith("kept as labels.csv.tar.gz.bad")
    n_requests = len(site.asked("/images.tar.gz"))
    assert set(get(ponds, tmp_path).values()) == {"here"}  # the labels themselves are right
    assert photo.read_bytes() == good
    assert len(site.asked("/images.tar.gz")) == n_requests
    assert set(get(ponds, tmp_path, verify=True).values()) == {"here"}


def test_verify_fetches_nothing(site: Any, ponds: Any, tmp_path: Path) -> None:
    assert set(get(ponds, tmp_path, verify=True).values()) == {"missing"}
    assert site.requests == []


# --- room, locks, odd sources ---


def test_room_is_looked_for_first(site: Any, tmp_path: Path) -> None:
    url = site.add("/a.zip", b"x")
    big = Source(url=url, filename="a.zip", n_bytes=10**17 + 1)
    with pytest.raises(DataError, match=r"needs 100000000\.0 GB to fetch and about .* unpacked"):
        get([big], tmp_path)
    small = Source(url=url, filename="a.zip", n_bytes=1, unpacked_bytes=10**17)
    with pytest.raises(DataError, match=r"needs 1 B to fetch and about 100000000\.0 GB unpacked"):
        get([small], tmp_path)
    assert site.asked("/a.zip") == []


def test_room_is_asked_of_the_server_where_no_size_is_known(site: Any, tmp_path: Path) -> None:
    url = site.add("/a.zip", b"x", always={"claim": 10**14})
    with pytest.raises(DataError, match="to fetch"):
        get([Source(url=url, filename="a.zip")], tmp_path)
    assert site.asked("/a.zip") == []
    assert len(site.asked("/a.zip", "HEAD")) == 1


def test_two_downloads_into_one_folder(ponds: Any, tmp_path: Path) -> None:
    with locked_folder(tmp_path), pytest.raises(DataError, match="is being filled by another"):
        get(ponds, tmp_path)


def test_offline_fetches_nothing(site: Any, ponds: Any, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="--offline forbids"):
        get(ponds, tmp_path, offline=True)
    assert site.requests == []
    get(ponds, tmp_path)
    assert set(get(ponds, tmp_path, offline=True).values()) == {"here"}


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"url": "http://a.org/x", "filename": "../x"}, "outside"),
        ({"url": "http://a.org/x", "filename": "/x"}, "outside"),
        ({"url": "http://a.org/x", "unpack": "../y"}, "outside"),
        ({"url": "file:///etc/passwd"}, "not an http or https address"),
        ({"url": "http://a.org/x", "mirrors": ("ftp://a.org/x",)}, "not an http or https address"),
        ({"url": "http://a.org/x", "kind": "photos"}, "expected annotations or images"),
        ({"url": "http://a.org/"}, "a filename is needed"),
    ],
)
def test_odd_sources_are_refused(tmp_path: Path, facts: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        get([Source(**facts)], tmp_path)


# --- the command ---


def test_command_tells_what_it_did(
    ponds: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = module(tmp_path, ponds)
    out = tmp_path / "data"
    assert main(["data", "get", name, "--out", str(out), "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert [files["state"] for files in output["files"]] == ["fetched", "fetched"]
    assert main(["data", "get", name, "--out", str(out)]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines()[0].split() == ["file", "state", "size"]
    assert printed.out.splitlines()[1].split()[:2] == ["images.tar.gz", "here"]
    assert "next: fieldmark data check" in printed.err
    assert main(["data", "get", name, "--out", str(out), "--verify"]) == 0


def test_command_fails_in_one_line(
    site: Any, ponds: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site.files["/images.tar.gz"].always = {"status": 410}
    name = module(tmp_path, ponds)
    assert main(["data", "get", name, "--out", str(tmp_path / "data"), "--quiet"]) == 4
    lines = capsys.readouterr().err.splitlines()
    port = site.server.server_port
    assert lines[0] == f"images.tar.gz failed: 127.0.0.1:{port} answered 410 Gone."


def test_steps_are_printed_and_what_was_put_there_is_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = "Log in at https://example.org.\nPut train.csv into the folder."
    name = module(tmp_path, (Source(steps=steps),), needs=("train.csv",))
    words = ["data", "get", name, "--out", str(tmp_path / "data")]
    assert main(words) == 3
    output = capsys.readouterr().err
    assert "  1. Log in at https://example.org.\n     Put train.csv into the folder.\n" in output
    (tmp_path / "data").mkdir()
    assert main(words) == 3
    assert "error  train.csv is missing." in capsys.readouterr().err
    (tmp_path / "data/train.csv").write_text("x")
    assert main(words) == 0
    output = capsys.readouterr().err
    assert "Log in" not in output and "now contains the files you asked for" in output


def test_archive_put_there_by_hand_is_checked_and_unpacked(tmp_path: Path) -> None:
    data = tarred({"photos/1.jpg": PHOTO})
    by_hand = Source(filename="login.tar.gz", md5=md5(data), steps="Log in.")
    name = module(tmp_path, (by_hand,), needs=("photos/1.jpg",))
    root = tmp_path / "data"
    words = ["data", "get", name, "--out", str(root)]
    assert main(words) == 3
    (root / "login.tar.gz").write_bytes(data[:-1])
    assert main(words) == 4
    (root / "login.tar.gz").write_bytes(data)
    assert main(words) == 0
    assert (root / "photos/1.jpg").read_bytes() == PHOTO


def test_steps_follow_where_the_source_is_gone(
    site: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = Source(url=site.url("/gone.zip"), filename="gone.zip", steps="Ask the authors.")
    assert main(["data", "get", module(tmp_path, (gone,)), "--out", str(tmp_path / "d")]) == 4
    assert "to be done by hand:\n  1. Ask the authors.\n" in capsys.readouterr().err


def test_complete_copy_of_the_users_is_left_alone(site: Any, ponds: Any, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/labels.csv").write_text("x")
    name = module(tmp_path, ponds, needs=("labels.csv",))
    assert main(["data", "get", name, "--out", str(tmp_path / "data")]) == 0
    assert site.requests == []


def test_synthetic_copy_is_not_mixed_with_the_real_one(
    ponds: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/SYNTHETIC.txt").write_text("drawn")
    assert main(["data", "get", module(tmp_path, ponds), "--out", str(tmp_path / "data")]) == 3
    assert "contains a synthetic copy" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["newt", "--urls", "x.csv"],
        ["newt", "--parallel", "0"],
        ["newt", "--only", "labels"],
        ["--urls", "x.csv"],
        ["nwet"],
    ],
)
def test_slips_are_usage_errors(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "get", *words]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_interrupted_download_ends_at_once_and_keeps_its_bytes(
    site: Any, noise: Any, tmp_path: Path
) -> None:
    sources = (source(site, "/a.bin", noise(4_000_000)),)
    site.files["/a.bin"].script = [{"drip": (1 << 16, 0.05)}]
    command = [sys.executable, "-m", "fieldmark", "data", "get", module(tmp_path, sources),
               "--out", str(tmp_path / "data")]  # fmt: skip
    part = tmp_path / "data/a.bin.part"
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    wait_for(running, lambda: part.is_file() and part.stat().st_size > 100_000)
    running.send_signal(signal.SIGINT)
    _, output = running.communicate(timeout=60)
    assert running.returncode == 130
    assert output.splitlines()[-1].startswith("fieldmark: interrupted. Finished work is kept")
    assert part.stat().st_size > 100_000
