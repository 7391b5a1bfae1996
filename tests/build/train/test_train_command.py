"""`fieldmark train` as a user runs it: to the end, killed and continued, stopped, refused."""

from __future__ import annotations

import io
import json
import os
import random
import signal
import sys
import tarfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from subprocess import PIPE, STDOUT, Popen
from typing import Any

import pytest
from PIL import Image

pytest.importorskip("torch")
open_clip = pytest.importorskip("open_clip")

import torch  # noqa: E402

from fieldmark.build.train.record.log import RunState, cut_rows, page  # noqa: E402
from fieldmark.cli import main  # noqa: E402

SMALL = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 16, "layers": 2, "width": 32, "head_width": 16, "patch_size": 8},
    "text_cfg": {
        "context_length": 32,
        "vocab_size": 49408,
        "width": 32,
        "heads": 2,
        "layers": 1,
    },
}
RECIPE = """
[model]
architecture = "small.json"
projectors = ["taxonomic", "caption"]

[texts]
types = {taxon = 1, sci = 1, caption = 1}

[optimiser]
lr = 1e-3
warmup_steps = 5

[train]
batch = 8
epochs = 8
log_steps = 3
ema = 0.9

[state]
every_steps = 5
"""
N_STEPS = 40


def write_shards(folder: Path, n_shards: int = 2, n: int = 20) -> Path:
    folder.mkdir(parents=True)
    draw = random.Random(0)
    for number in range(n_shards):
        with tarfile.open(folder / f"s-{number}.tar", "w") as tar:
            for place in range(n):
                colour = tuple(draw.randrange(256) for _ in range(3))
                photo = io.BytesIO()
                Image.new("RGB", (24, 20), colour).save(photo, "JPEG")
                kind = draw.randrange(4)
                members = {
                    "jpg": photo.getvalue(),
                    "taxon.txt": f"a photo of Animalia Aves species{kind}.".encode(),
                    "sci.txt": f"a photo of species{kind}.".encode(),
                    "caption.txt": f"A bird of colour {colour} on a branch.".encode(),
                }
                for ending, data in members.items():
                    facts = tarfile.TarInfo(f"{number}-{place:03d}.{ending}")
                    facts.size = len(data)
                    tar.addfile(facts, io.BytesIO(data))
    return folder


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("train")
    write_shards(folder / "shards")
    (folder / "small.json").write_text(json.dumps(SMALL))
    (folder / "small.toml").write_text(RECIPE)
    return folder


def words(inputs: Path, out: Path, *more: str) -> list[str]:
    flags = ["--shards", str(inputs / "shards"), "--out", str(out), "--device", "cpu"]
    return ["train", str(inputs / "small.toml"), *flags, *more]


def start(inputs: Path, out: Path, *more: str, before: Sequence[str] = ()) -> Popen[str]:
    return Popen(
        [sys.executable, "-m", *before, "fieldmark", *words(inputs, out, *more)],
        env=os.environ | {"OMP_NUM_THREADS": "1", "CI": "1"},
        stdout=PIPE,
        stderr=STDOUT,
        text=True,
    )


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """As the processes have: sums depend on how they are cut."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def rows_of(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


def curve(run: Path) -> list[Any]:
    kept = ("step", "loss", "loss_by_type", "scales", "lr", "grad_norm")
    return [[row[key] for key in kept] for row in rows_of(run)]


def weights(run: Path) -> dict[str, Any]:
    state = torch.load(run / "checkpoints" / f"step-{N_STEPS:08d}.pt", weights_only=True)
    return {**state["model"], **{f"average.{name}": w for name, w in state["average"].items()}}


@pytest.fixture(scope="module")
def undisturbed(inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "whole"
    assert main(words(inputs, out, "--quiet")) == 0
    return out


@pytest.mark.slow
def test_a_run_leaves_what_it_promises(undisturbed: Path) -> None:
    rows = rows_of(undisturbed)
    assert [row["step"] for row in rows] == list(range(1, N_STEPS + 1))
    assert set(rows[0]) == {
        "step", "loss", "loss_by_type", "scales", "lr", "grad_norm", "n_pairs", "n_bad_images",
        "pairs_per_s", "data_wait", "mfu", "time",
    }  # fmt: skip
    assert rows[-1]["loss"] < rows[0]["loss"] and rows[0]["mfu"] is None
    kept = sorted(path.name for path in (undisturbed / "checkpoints").glob("*.pt"))
    assert kept == [f"step-{step:08d}.pt" for step in (30, 35, 40)]
    text = (undisturbed / "page.html").read_text()
    assert "finished" in text and "http-equiv" not in text and "http" not in text.split("svg")[0]


@pytest.mark.slow
def test_the_model_loads_in_stock_open_clip(undisturbed: Path) -> None:
    model = open_clip.create_model(f"local-dir:{undisturbed / 'model'}")
    assert model.visual.image_size == (16, 16)


@pytest.mark.slow
def test_killed_again_and_again_the_curve_is_the_same(
    inputs: Path, undisturbed: Path, tmp_path: Path
) -> None:
    """`kill -9` at moments that come as they come; losses and weights equal to the last bit."""
    out, n_kills, draw = tmp_path / "killed", 0, random.Random(1)
    while True:
        process, seen = start(inputs, out), _size(out)
        while n_kills < 3 and process.poll() is None and _size(out) <= seen:
            time.sleep(0.01)
        if n_kills < 3 and process.poll() is None:
            time.sleep(draw.random() * 0.3)
            process.kill()
            n_kills += 1
        text, _ = process.communicate(timeout=300)
        if process.returncode != -signal.SIGKILL:
            break
    assert process.returncode == 0, text
    assert n_kills >= 2 and "going on after step" in text
    assert curve(out) == curve(undisturbed)
    before, after = weights(undisturbed), weights(out)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


def _size(out: Path) -> int:
    log = out / "log.jsonl"
    return log.stat().st_size if log.exists() else 0


def run_with_signals(command: list[str], out: Path, *numbers: int) -> int:
    """Sends a signal at the first row of the log, the next when the run has saved and gone on."""
    is_over = threading.Event()

    def send() -> None:
        for number in numbers:
            while not is_over.is_set() and not _is_due(out, number == numbers[0]):
                time.sleep(0.002)
            if not is_over.is_set():
                os.kill(os.getpid(), number)

    before = {number: signal.signal(number, lambda *_: None) for number in numbers}
    sender = threading.Thread(target=send)
    sender.start()
    try:
        return main(command)
    finally:
        is_over.set()
        sender.join()
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_due(out: Path, is_first: bool) -> bool:
    if is_first or not _size(out):
        return bool(_size(out))
    saved = [int(path.stem[5:]) for path in (out / "checkpoints").glob("*.json")]
    n_rows = (out / "log.jsonl").read_bytes().count(b"\n")
    return bool(saved) and n_rows > saved[0]


@pytest.mark.slow
def test_signals_save_and_end_and_the_curve_is_the_same(
    inputs: Path, undisturbed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """SIGUSR1 writes a checkpoint and the run goes on; SIGTERM writes one and ends it."""
    out = tmp_path / "stopped"
    command = words(inputs, out, "--set", "state.every_steps=1000", "train.log_steps=1")
    assert run_with_signals(command, out, signal.SIGUSR1, signal.SIGTERM) == 143
    steps = sorted(int(path.stem[5:]) for path in (out / "checkpoints").glob("*.pt"))
    assert len(steps) == 2 and steps[-1] == rows_of(out)[-1]["step"] < N_STEPS
    assert "stopped on request: the same command goes on from here" in capsys.readouterr().err
    assert "stopped at step" in (out / "page.html").read_text()
    assert main(command) == 0
    assert f"going on after step {steps[-1]}" in capsys.readouterr().err
    assert curve(out) == curve(undisturbed)


@pytest.mark.slow
def test_ctrl_c_saves_and_ends_with_130(inputs: Path, tmp_path: Path) -> None:
    out = tmp_path / "stopped"
    command = words(inputs, out, "--quiet", "--set", "state.every_steps=1000", "train.log_steps=1")
    assert run_with_signals(command, out, signal.SIGINT) == 130
    assert len(list((out / "checkpoints").glob("*.pt"))) == 1


@pytest.mark.slow
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_two_processes_in_pieces_have_the_curve_of_one(
    parallel: str, inputs: Path, undisturbed: Path, tmp_path: Path
) -> None:
    """torchrun and gloo, each process's share of the batch cut in two."""
    out = tmp_path / "two"
    port = str(29_600 + os.getpid() % 300)
    torchrun = ["torch.distributed.run", "--nproc-per-node", "2", "--master-port", port, "-m"]
    more = ("--set", "train.accumulate=2", f"train.parallel={parallel}")
    process = start(inputs, out, *more, before=torchrun)
    text, _ = process.communicate(timeout=300)
    assert process.returncode == 0, text
    for row, expected in zip(rows_of(out), rows_of(undisturbed), strict=True):
        assert row["loss"] == pytest.approx(expected["loss"], rel=1e-3)
        assert row["loss_by_type"] == pytest.approx(expected["loss_by_type"], rel=1e-3, abs=1e-5)


def test_a_loss_that_is_no_number_stops_the_run(
    inputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At an absurd learning rate; what was written before is sound."""
    out = tmp_path / "wild"
    wild = ("--set", "optimiser.lr=1e30", "optimiser.warmup_steps=0", "state.every_steps=1")
    assert main(words(inputs, out, "--quiet", *wild)) == 5
    line = capsys.readouterr().err
    good = out / "checkpoints" / "step-00000001.pt"
    assert line == (
        f"fieldmark: step 2: the loss is nan. Training has stopped; last good checkpoint: {good}. "
        "Try a lower optimiser.lr (now 1e+30), more optimiser.warmup_steps (now 0) or "
        "optimiser.clip_norm=1 (now 0), in another --out.\n"
    )
    assert "stopped: step 2: the loss is nan" in (out / "page.html").read_text()
    assert rows_of(out)[-1]["loss"] is None
    for path in (out / "checkpoints").glob("*.pt"):
        state = torch.load(path, weights_only=True)
        assert all(torch.isfinite(value).all() for value in state["model"].values())


def test_check_says_what_there_is_to_do(
    inputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words(inputs, tmp_path / "run", "--check", "--json", "--quiet")) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["samples"], facts["steps"], facts["pairs"]) == (40, N_STEPS, 320)
    assert facts["coverage"] == {"taxon": 40, "sci": 40, "caption": 40}
    assert not (tmp_path / "run" / "checkpoints").exists()


@pytest.mark.parametrize(
    ("more", "code", "line"),
    [
        (("--set", "train.batch=7", "train.accumulate=2"), 2,
         "train.batch is 7, expected a multiple of 2 (1 processes × train.accumulate 2)."),
        (("--set", "train.batch=64"), 3,
         "an epoch of 40 main samples fills no batch of 64: make the batch smaller, or draw with "
         'replacement (data.mode = "resampled").'),
        (("--set", "texts.types={taxn=1,caption=1}"), 3,
         "no sample has a text of type 'taxn' (member taxn.txt). Did you mean 'taxon.txt'?"),
        (("--captions", "nowhere"), 3,
         "nowhere  holds no captions: expected the folder that `fieldmark caption --out` wrote, "
         "with captions/SHARD.parquet in it."),
        (("--set", "train.bach=7"), 2, "--set  key 'bach' is not known. Did you mean 'batch'?"),
    ],
)  # fmt: skip
def test_what_cannot_be_trained_is_one_line(
    more: tuple[str, ...],
    code: int,
    line: str,
    inputs: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(words(inputs, tmp_path / "run", "--quiet", *more)) == code
    assert capsys.readouterr().err == f"fieldmark: {line}\n"


def test_flags_that_are_missing_are_named(inputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = str(inputs / "small.toml")
    assert main(["train", recipe, "--shards", "x"]) == 2
    assert main(["train", recipe, "--out", "x"]) == 2
    assert main(["train", "tny", "--out", "x"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "fieldmark: --out is missing: the folder of the run, such as --out runs/tiny.",
        "fieldmark: --shards is missing: what to train on, such as --shards 'shards/*.tar'.",
        "fieldmark: recipe 'tny' is not known. Did you mean 'tiny'?",
    ]


# --- the log ---


def test_rows_after_a_step_and_half_lines_are_cut(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps({"step": step}) + "\n" for step in range(1, 6)) + '{"st')
    assert [row["step"] for row in cut_rows(path, 9)] == [1, 2, 3, 4, 5]
    assert path.read_text().endswith('{"step": 5}\n')
    assert [row["step"] for row in cut_rows(path, 3)] == [1, 2, 3]
    assert len(path.read_text().splitlines()) == 3
    assert cut_rows(tmp_path / "none.jsonl", 3) == []


def test_the_page_needs_nothing_but_itself() -> None:
    row = {
        "step": 1, "loss": 1.5, "loss_by_type": {"taxon": 1.5}, "scales": {"taxonomic": 14.0},
        "lr": 1e-3, "grad_norm": 0.3, "n_pairs": 8, "n_bad_images": 2, "pairs_per_s": 9.0,
        "data_wait": 0.1, "mfu": None, "time": 0,
    }  # fmt: skip
    text = page([row], RunState("<run>", 10))
    assert "&lt;run&gt;" in text and 'http-equiv="refresh"' in text
    assert "<script" not in text and "http://" not in text and "https://" not in text
    assert text.count("<svg") == 7 and "MFU" not in text
    assert page([], RunState("x", 10)).count("<svg") == 0
