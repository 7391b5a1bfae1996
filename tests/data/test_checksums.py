"""Is a damaged table of labels told from an edited or a foreign one?"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from fieldmark.cli import main
from fieldmark.data import Source, annotation_digests
from fieldmark.data._check import checksum_findings

TEXT = b"id,label\n1,fox\n"
MD5 = hashlib.md5(TEXT).hexdigest()


@pytest.mark.parametrize(
    ("content", "n_bytes", "levels"),
    [
        (TEXT, len(TEXT), []),
        (TEXT.replace(b"fox", b"fix"), len(TEXT), ["warning"]),
        (TEXT + b"2,hare\n", len(TEXT), []),
        (TEXT.replace(b"fox", b"fix"), None, ["note"]),
    ],
    ids=["as published", "same size, other bytes", "another table", "size not known"],
)
def test_only_a_file_of_the_published_size_is_called_damaged(
    tmp_path: Path, content: bytes, n_bytes: int | None, levels: list[str]
) -> None:
    (tmp_path / "labels.csv").write_bytes(content)
    source = Source("https://x.example/labels.csv", "labels.csv", n_bytes, MD5)
    assert [finding.level for finding in checksum_findings(tmp_path, [source])] == levels


def test_sha256_and_missing_files(tmp_path: Path) -> None:
    source = Source(filename="labels.csv", sha256="0" * 64)
    assert list(checksum_findings(tmp_path, [source])) == []
    (tmp_path / "labels.csv").write_bytes(TEXT)
    (finding,) = checksum_findings(tmp_path, [source])
    assert "labels.csv is not the published file (sha256 000" in finding.text


def test_digests_of_tables_not_of_images(tmp_path: Path) -> None:
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    for name in ("labels.csv", "a/b/notes.json", "a/photo.jpg", "a/b/c/deep.csv"):
        (tmp_path / name).write_bytes(TEXT)
    digest = hashlib.sha256(TEXT).hexdigest()
    assert annotation_digests(tmp_path) == {"a/b/notes.json": digest, "labels.csv": digest}


def test_the_command_prints_them(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["data", "make", "beluga", "--size", "20"]) == 0
    capsys.readouterr()
    assert main(["data", "check", "beluga", "--checksums"]) == 0
    output = capsys.readouterr().out
    assert "beluga.coco/annotations/instances_train2022.json" in output
    assert main(["data", "check", "beluga", "--checksums", "--json"]) == 0
    assert next(iter(json.loads(capsys.readouterr().out)["sha256"].values())) in output
