"""`fieldmark embed` as a person uses it: sources of every kind, files, summaries, stops."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from fieldmark.cli import main
from kit.pictures import write_image

N = 12
COLOUR = ["embed", "classical/colour"]
SLOW = """
import time
import numpy as np

class Slow:
    dim, batch_size = 3, 1
    def transform(self, image):
        return np.asarray(image.resize((4, 4)), np.float32)
    def embed_images(self, batch):
        time.sleep(0.15)
        return batch.mean(axis=(1, 2))
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FIELDMARK_CACHE", str(tmp_path / "cache"))
    for number in range(N):
        write_image(tmp_path / "photos" / ("wren", "owl")[number % 2] / f"{number}.png", number)
    (tmp_path / "photos" / "notes.txt").write_text("rain")
    (tmp_path / "slow.py").write_text(SLOW)
    return tmp_path


def summary(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert main([*words, "--json", "--quiet"]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    result: dict[str, Any] = json.loads(shown.out)
    return result


def test_a_folder_to_a_file_and_what_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COLOUR, "photos", "--out", "f.npy"]) == 0
    shown = capsys.readouterr()
    lines = shown.err.splitlines()
    assert shown.out == ""
    assert lines[0] == "photos: Files that are not images, ignored: 1 (1 .txt)."
    assert lines[1] == "12 images: 12 embedded."
    assert "images/s, decode path reference; work: read " in lines[2]
    assert lines[3:] == ["f.npy: 12 × 246, float32", "f.npy.ids.csv"]
    assert np.load("f.npy").shape == (12, 246)
    assert main([*COLOUR, "photos"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[1] == "12 images: 0 embedded, 12 known already."
    assert lines[2].startswith("features: ") and Path(lines[2].removeprefix("features: ")).is_dir()


def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COLOUR, "photos", "--out", "f.npy", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


def test_json_has_all_that_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    Path("photos/owl/bad.png").write_bytes(b"no image")
    words = [*COLOUR, "photos", "--out", "f.parquet", "--bad-images", "skip"]
    made = summary(words, capsys)
    assert made["n_images"] == 13 and made["n_bad"] == 1 and made["n_computed"] == 12
    assert made["shape"] == [12, 246] and made["dtype"] == "float32"
    assert made["files"] == ["f.parquet", "f.parquet.bad.csv"]
    assert made["decode"] == "reference" and set(made["busy_s"]) >= {"read", "decode", "forward"}
    assert made["images_per_s"] > 0 and made["wall_s"] >= made["seconds"] > 0
    assert Path(made["cache"]).name == made["fingerprint"]


def test_the_decode_path_is_told_also_where_all_is_known(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("timm")
    model = "timm/test_vit.r160_in1k?pretrained=false"
    words = ["embed", model, "photos/owl", "--decode", "cpu", "--device", "cpu"]
    made = [summary(words, capsys) for _ in range(2)]
    assert [one["n_computed"] for one in made] == [6, 0]
    assert [one["decode"] for one in made] == ["cpu", "cpu"]


def test_every_kind_of_source_gives_the_same_features(capsys: pytest.CaptureFixture[str]) -> None:
    """The folder is the oracle: tar, tgz, shards and parquet hold the same bytes."""
    names = sorted(str(path) for path in Path("photos").rglob("*.png"))
    for mode, out in (("w", "all.tar"), ("w:gz", "all.tgz")):
        with tarfile.open(out, mode) as archive:  # type: ignore[call-overload]
            for name in names:
                archive.add(name)
    for number in range(2):
        with tarfile.open(f"s-{number:03}.tar", "w") as archive:
            for name in names[number * 6 : number * 6 + 6]:
                archive.add(name)
    data = [Path(name).read_bytes() for name in names]
    pl.DataFrame({"image": [{"bytes": one, "path": None} for one in data]}).write_parquet(
        "a.parquet"
    )
    sources = (["photos"], names, ["all.tar"], ["all.tgz"], ["s-{000..001}.tar"], ["a.parquet"])
    n_computed = []
    for number, words in enumerate(sources):
        made = summary([*COLOUR, *words, "--out", f"{number}.npy"], capsys)
        assert made["n_images"] == N
        n_computed.append(made["n_computed"])
        np.testing.assert_array_equal(np.load(f"{number}.npy"), np.load("0.npy"))
    assert n_computed == [N, 0, 0, 0, 0, 0], "same bytes, same features, never twice"


def test_a_dataset_with_its_labels(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "make", "beluga", "--size", "24", "--out", "whales"]) == 0
    words = ["--data", "beluga=whales", "--out", "f.parquet"]
    made = summary([*COLOUR, "beluga", *words], capsys)
    from fieldmark.data import load_dataset

    table = load_dataset("beluga").table(Path("whales"))
    rows = pl.read_parquet("f.parquet")
    assert rows.columns == ["id", "image", "label", "split", "feature"]
    assert rows.select("id", "label", "split").equals(table.select("id", "label", "split"))
    assert rows.schema["feature"] == pl.Array(pl.Float32, 246)
    assert made["n_images"] == len(table)
    both = summary([*COLOUR, "beluga", "photos", *words], capsys)
    assert both["n_images"] == len(table) + N
    rows = pl.read_parquet("f.parquet")
    assert rows["id"][0] == f"beluga/{table['id'][0]}" and rows["id"][-1] == "photos/wren/8.png"
    assert rows["label"][-1] is None


def test_features_are_those_that_runs_use(capsys: pytest.CaptureFixture[str]) -> None:
    """A seam: what `embed` computes, `run` does not compute again."""
    assert main(["data", "make", "beluga", "--size", "24", "--out", "whales"]) == 0
    summary([*COLOUR, "beluga", "--data", "beluga=whales"], capsys)
    before = kept_rows()
    run = ["run", "--model", "classical/colour", "--task", "beluga", "--data", "beluga=whales"]
    assert main([*run, "--quiet"]) == 0
    assert kept_rows() == before


def kept_rows() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path("cache").rglob("rows-*.keys")}


def test_a_model_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    made = summary(["embed", "slow.py:Slow", "photos/owl", "--out", "f.safetensors"], capsys)
    assert made["shape"] == [6, 3]
    from safetensors import safe_open

    with safe_open("f.safetensors", "np") as file:
        about = file.metadata()
        assert file.get_tensor("features").dtype == np.float32
    assert about["fingerprint"] == made["fingerprint"] and about["model"] == "slow.py:Slow"
    assert about["dim"] == "3" and about["decode"] == "reference"


def test_float16_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    summary([*COLOUR, "photos", "--out", "f.npy"], capsys)
    summary([*COLOUR, "photos", "--out", "h.npy", "--dtype", "float16"], capsys)
    np.testing.assert_array_equal(np.load("h.npy"), np.load("f.npy").astype(np.float16))


def start(out: str) -> subprocess.Popen[str]:
    """A command in a process of its own that has computed some features."""
    words = [sys.executable, "-m", "fieldmark", "embed", "slow.py:Slow", "photos", "--out", out]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 60
    while n_kept() < 3 and process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    return process


def n_kept() -> int:
    return sum(path.stat().st_size // 24 for path in Path("cache").rglob("rows-*.keys"))


@pytest.mark.slow
def test_ctrl_c_ends_in_one_line_and_leaves_nothing_half(
    capsys: pytest.CaptureFixture[str],
) -> None:
    process = start("f.npy")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.splitlines()[-1] == (
        "fieldmark: interrupted. Finished work is kept; run the same command to continue it."
    )
    assert not list(Path().glob("f.npy*")), "no part of a file is left"
    n_before = n_kept()
    made = summary(["embed", "slow.py:Slow", "photos", "--out", "f.npy"], capsys)
    assert made["n_computed"] == N - n_before < N and made["shape"] == [N, 3]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".npy", ".safetensors", ".parquet"])
def test_a_full_disk_ends_in_one_line_and_leaves_nothing_half(
    suffix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """No file may grow beyond 4 kB, which the kernel reports like a full disk."""
    summary([*COLOUR, "photos"], capsys)
    Path(f"f{suffix}").write_bytes(b"older")
    python = [sys.executable, "-B"]  # bytecode must not be cut off
    done = subprocess.run(
        [*python, "-m", "fieldmark", *COLOUR, "photos", "--out", f"f{suffix}", "--quiet"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 3
    assert done.stderr == (
        f"fieldmark: f{suffix} cannot be written: File too large. Features computed so far are in "
        "the cache: run the same command to continue.\n"
    )
    assert [path.name for path in Path().glob("f.*")] == [f"f{suffix}"]
    assert Path(f"f{suffix}").read_bytes() == b"older"
