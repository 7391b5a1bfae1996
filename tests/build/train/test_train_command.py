"""`fieldmark train` as a user runs it: to the end, killed and continued, stopped, refused."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from subprocess import PIPE, STDOUT, Popen
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")
open_clip = pytest.importorskip("open_clip")

import torch  # noqa: E402

from fieldmark import journal  # noqa: E402
from fieldmark.build.train.parallel import Ranks, StopSignals  # noqa: E402
from fieldmark.build.train.record.log import (  # noqa: E402
    MOST_POINTS,
    RunCurves,
    RunLog,
    RunState,
    chart,
    cut_rows,
    page,
)
from fieldmark.build.train.suite import SuiteScore  # noqa: E402
from fieldmark.cli import main  # noqa: E402
from kit.train_inputs import curve, rows_of, weights, words, write_inputs, write_shards  # noqa: E402

N_STEPS = 20


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_inputs(tmp_path_factory.mktemp("train"))


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


@pytest.fixture(scope="module")
def undisturbed(inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "whole"
    assert main(words(inputs, out, "--quiet")) == 0
    return out


def test_a_run_leaves_what_it_promises(undisturbed: Path) -> None:
    rows = rows_of(undisturbed)
    assert [row["step"] for row in rows] == list(range(1, N_STEPS + 1))
    assert set(rows[0]) == {
        "step", "loss", "loss_by_type", "scales", "lr", "grad_norm", "n_pairs", "n_bad_images",
        "pairs_per_s", "data_wait", "mfu", "time", "crc",
    }  # fmt: skip
    assert rows[-1]["loss"] < rows[0]["loss"] and rows[0]["mfu"] is None
    kept = sorted(path.name for path in (undisturbed / "checkpoints").glob("*.pt"))
    assert kept == [f"step-{step:08d}.pt" for step in (12, 16, 20)]
    text = (undisturbed / "page.html").read_text()
    assert "finished" in text and "http" not in text, "no refresh, no network"


def test_the_model_loads_in_stock_open_clip(undisturbed: Path) -> None:
    model = open_clip.create_model(f"local-dir:{undisturbed / 'model'}")
    assert model.visual.image_size == (16, 16)


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
    """Ctrl-C and SIGTERM write a checkpoint and end; after SIGUSR1 the run goes on."""
    out = tmp_path / "stopped"
    command = words(inputs, out, "--set", "state.every_steps=1000", "train.log_steps=1")
    assert run_with_signals(command, out, signal.SIGINT) == 130
    assert len(list((out / "checkpoints").glob("*.pt"))) == 1
    shutil.rmtree(out)
    assert run_with_signals(command, out, signal.SIGUSR1, signal.SIGTERM) == 143
    steps = sorted(int(path.stem[5:]) for path in (out / "checkpoints").glob("*.pt"))
    assert len(steps) == 2 and steps[-1] == rows_of(out)[-1]["step"] < N_STEPS
    assert (
        "stopped on request: run the same command to continue from here" in capsys.readouterr().err
    )
    capsys.readouterr()
    assert "stopped at step" in (out / "page.html").read_text()
    assert main(command) == 0
    assert f"continuing after step {steps[-1]}" in capsys.readouterr().err
    assert curve(out) == curve(undisturbed)


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


@pytest.mark.slow
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
    assert (facts["samples"], facts["steps"], facts["pairs"]) == (40, N_STEPS, 160)
    assert facts["coverage"] == {"taxon": 40, "sci": 40, "caption": 40}
    assert not (tmp_path / "run" / "checkpoints").exists()
    more = ("--check", "--set", "optimiser.warmup_steps=90")
    assert main(words(inputs, tmp_path / "run", *more)) == 0
    assert "optimiser.warmup_steps is 90 of 20 steps" in capsys.readouterr().err
    wrong = ("train.batch=8", "train.accumulate=3")
    assert main(words(inputs, tmp_path / "run", "--check", "--set", *wrong)) == 2


def test_a_finished_run_says_so(
    inputs: Path, undisturbed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words(inputs, undisturbed)) == 0
    told = capsys.readouterr().err
    assert f"already finished ({N_STEPS} steps): nothing to train" in told.splitlines()
    assert "continuing" not in told


def test_training_warns_of_a_warm_up_without_end(
    inputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ("--set", "train.steps=2", "optimiser.warmup_steps=3")
    assert main(words(inputs, tmp_path / "run", *more)) == 0
    lines = capsys.readouterr().err.splitlines()
    warning = (
        "Warning: optimiser.warmup_steps is 3 of 2 steps: the learning rate never reaches 0.001. "
        "Try --set optimiser.warmup_steps=0."
    )
    assert warning in lines
    model = tmp_path / "run" / "model-two"
    assert f"       {model}, with both projectors, for fieldmark only" in lines
    test = f"fieldmark run --model open-clip/local-dir:{model} --task PHOTOS/"
    assert f"To test it on your photos: {test}" in lines


@pytest.mark.parametrize(
    ("more", "code", "line"),
    [
        (("--set", "train.batch=7", "train.accumulate=2"), 2,
         "train.batch is 7, expected a multiple of 2 (1 processes × train.accumulate 2)."),
        (("--set", "train.batch=64"), 3,
         "The batch (64) is larger than your 40 photos. Try --set train.batch=32, or use photos "
         "more than once: --set data.mode=resampled."),
        (("--set", "texts.types={taxn=1,caption=1}"), 3,
         "no photo has a text of type 'taxn' (member taxn.txt). Did you mean 'taxon.txt'?"),
        (("--set", "texts.types={taxon=1,captoin=1}", "model.projectors=['taxonomic']"), 3,
         "no photo has a text of type 'captoin' (member captoin.txt). Did you mean 'caption.txt'?"),
        (("--captions", "nowhere"), 3,
         "nowhere contains no captions: expected the folder that `fieldmark caption --out FOLDER` "
         "wrote, with captions/SHARD.parquet in it."),
        (("--evaluate", "world-unsen", "world-looks"), 2,
         "task 'world-unsen' is not known. Did you mean 'world-unseen'? `fieldmark tasks` "
         "lists all."),
        (("--evaluate", "world-looks", "--data", "world_train=nowhere"), 3,
         "--evaluate world-looks: nowhere does not exist. `fieldmark datasets world_train` says "
         "how to get the data; --data world_train=FOLDER says where they are."),
        (("--evaluate", "world-looks", "--set", "evaluate.best=world-looks@recal_at_5"), 2,
         "evaluate.best names 'recal_at_5', but world-looks is scored by recall_at_5: give "
         "evaluate.best=world-looks@recall_at_5."),
        (("--set", "evaluate.tasks=['world-looks']", "--data", "world_train=nowhere"), 3,
         "the recipe evaluates world-looks: nowhere does not exist. `fieldmark datasets "
         "world_train` says how to get the data; --data world_train=FOLDER says where they are. "
         "To train without evaluating, add --set 'evaluate.tasks=[]'."),
        (("--set", "train.bach=7"), 2, "--set: key 'bach' is not known. Did you mean 'batch'?"),
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


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (("model.architecture=ViT-Z",), "model 'open-clip/ViT-Z' is not known."),
        (("model.architecture=ViT-B-32", "model.init=nofile.pt"),
         "model 'open-clip/ViT-B-32/nofile.pt' is not known."),
        (("train.accumulate=2", "model.architecture=RN50", "model.projectors=['taxonomic']"),
         "train.accumulate is 2, expected 1 for this network"),
    ],
)  # fmt: skip
def test_check_refuses_networks_as_the_run_does(
    more: tuple[str, ...],
    line: str,
    inputs: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    texts = []
    for check in (("--check",), ()):
        assert main(words(inputs, tmp_path / "run", *check, "--quiet", "--set", *more)) == 2
        texts.append(capsys.readouterr().err)
    assert texts[0] == texts[1] and texts[0].startswith(f"fieldmark: {line}")


def test_flags_that_are_missing_are_named(
    inputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = str(inputs / "small.toml")
    assert main(["train", recipe, "--shards", "x"]) == 2
    assert main(["train", recipe, "--out", "x"]) == 2
    assert main(["train", "tny", "--out", "x"]) == 2
    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "describe.json").touch()
    assert main(["train", recipe, "--shards", "x", "--out", str(tmp_path / "words")]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "fieldmark: --out is missing: the folder of the run, such as --out runs/tiny.",
        "fieldmark: --shards is missing: what to train on, such as --shards 'shards/*.tar'.",
        "fieldmark: recipe 'tny' is not known. Did you mean 'tiny'?",
        f"fieldmark: {tmp_path / 'words'} was written by `fieldmark describe`: give a folder of "
        "its own with --out, such as --out runs/tiny.",
    ]


def test_processes_agree_on_signals_after_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that got none ends with the one that got a SIGTERM, over a group of CPUs."""
    groups: list[Any] = []

    def new_group(backend: str, timeout: object) -> str:
        groups.append(backend)
        return "cpus"

    def all_reduce(flags: Any, _: object, group: str) -> None:
        assert group == "cpus" and flags.device.type == "cpu"
        flags.copy_(torch.tensor([1.0, 143.0]))

    monkeypatch.setattr(torch.distributed, "new_group", new_group)
    monkeypatch.setattr(torch.distributed, "all_reduce", all_reduce)
    with StopSignals(Ranks(n_ranks=2)) as signals:
        assert signals.is_asked() and signals.exit_code == 143
    assert groups == ["gloo"]


def test_a_signal_that_comes_while_processes_agree_counts_in_the_next_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Most of a process's time may be spent waiting for the others there."""
    coming = [signal.SIGTERM]

    def all_reduce(flags: Any, _: object, group: str) -> None:
        if coming:
            signal.raise_signal(coming.pop())

    monkeypatch.setattr(torch.distributed, "new_group", lambda **_: "cpus")
    monkeypatch.setattr(torch.distributed, "all_reduce", all_reduce)
    with StopSignals(Ranks(n_ranks=2)) as signals:
        assert not signals.is_asked() and not signals.agreed_end
        assert signals.exit_code == 143
        assert signals.is_asked() and signals.agreed_end == 143


def test_a_second_sigterm_changes_nothing() -> None:
    """A cluster may send it twice, by itself and through srun: the checkpoint is still written."""
    with StopSignals(Ranks()) as signals:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert signals.is_asked() and signals.agreed_end == 143


# --- scores ---


class FakeEvaluation:
    """Of a process that has ended; below zero: some tasks failed."""

    def __init__(self, value: float) -> None:
        self.is_done, self.problem = True, "the evaluation failed" if value < 0 else ""
        score = SuiteScore("birds", "zero_shot", "accuracy", abs(value), 0.0, 1.0, 9, True)
        self.scores = (score,)

    def result(self) -> dict[str, float]:
        return {"birds@accuracy": self.scores[0].value}

    def stop(self) -> None:
        pass


@pytest.mark.slow
def test_the_best_checkpoint_outlives_the_newest(
    inputs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out, values = tmp_path / "scored", iter([0.1, 0.9, -0.2, 0.3, 0.4, 0.5])
    monkeypatch.setattr(
        "fieldmark.build.train.record.scores.evaluate_in_background",
        lambda *_: FakeEvaluation(next(values)),
    )
    monkeypatch.setattr("fieldmark.build.train.suite.check_tasks", lambda *_: None)
    more = ("evaluate.every_steps=4", "evaluate.best=birds@accuracy", "state.keep=1")
    more = (*more, "train.steps=12", "state.every_steps=100", "data.licence=CC-BY-4.0")
    command = words(inputs, out, "--quiet", "--evaluate", "birds", "--set", *more)
    assert main(command) == 5  # of the last evaluation some tasks are missing
    assert "birds | zero_shot | accuracy | 20.0 |" in (out / "model" / "README.md").read_text()
    assert main(command) == 0  # tried again
    assert "birds | zero_shot | accuracy | 30.0 |" in (out / "model" / "README.md").read_text()
    best = {
        "step": 8,
        "metric": "birds@accuracy",
        "score": 0.9,
        "model": "evaluated/step-00000008",
        "checkpoint": "checkpoints/step-00000008.pt",
    }
    assert json.loads((out / "best.json").read_text()) == best
    kept = sorted(path.name for path in (out / "checkpoints").glob("*.pt"))
    assert kept == ["step-00000008.pt", "step-00000012.pt"]
    folders = sorted(path.name for path in (out / "evaluated").iterdir() if path.is_dir())
    assert folders == ["step-00000008", "step-00000008-two"]
    assert open_clip.create_model(f"local-dir:{out / 'evaluated' / 'step-00000008'}")
    assert main(command) == 0  # finished: nothing is evaluated again
    capsys.readouterr()
    assert main(["train", str(out), "--export", str(tmp_path / "best")]) == 0
    assert capsys.readouterr().err.splitlines() == [
        f"model: {tmp_path / 'best'} (step 8)",
        f"       {tmp_path / 'best-two'}, with both projectors, for fieldmark only",
        "To test it on your photos: fieldmark run --model "
        f"open-clip/local-dir:{tmp_path / 'best-two'} --task PHOTOS/",
    ]
    card = (tmp_path / "best" / "README.md").read_text()
    assert "birds | zero_shot | accuracy | 90.0 |" in card and "CC-BY-4.0" in card
    # Another task: evaluated, though the step has scores. All anew: no score of old weights stays.
    place = command.index("birds") + 1
    assert main([*command[:place], "fish", *command[place:]]) == 0
    shutil.rmtree(out / "checkpoints")
    before = (out / "model" / "open_clip_model.safetensors").read_bytes()
    anew = [*command, "train.seed=5", "evaluate.every_steps=0"]
    assert main(anew) == 0
    assert (out / "model" / "open_clip_model.safetensors").read_bytes() != before
    assert list(json.loads((out / "scores.json").read_text())) == ["12"]


@pytest.mark.slow
def test_a_damaged_checkpoint_is_made_again(
    inputs: Path, undisturbed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, last = tmp_path / "damaged", f"step-{N_STEPS:08d}"
    shutil.copytree(undisturbed, out)
    path = out / "checkpoints" / f"{last}.pt"
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2] + b"damage" + content[len(content) // 2 + 6 :])
    assert main(["train", str(out), "--export", str(tmp_path / "model")]) == 0
    assert "(step 16)" in capsys.readouterr().err
    shutil.rmtree(out / "model")
    assert main(words(inputs, out, "--quiet")) == 0
    models = [run / "model" / "open_clip_model.safetensors" for run in (undisturbed, out)]
    assert models[0].read_bytes() == models[1].read_bytes()
    assert weights(out) == weights(undisturbed)


def test_a_run_is_exported_with_another_projector(
    undisturbed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "captions"
    assert main(["train", str(undisturbed), "--export", str(folder), "--projector", "caption"]) == 0
    names = open_clip.create_model(f"local-dir:{undisturbed / 'model'}").state_dict()
    captions = open_clip.create_model(f"local-dir:{folder}").state_dict()
    assert [name for name in names if not torch.equal(names[name], captions[name])] == [
        "logit_scale",
        "visual.proj",
    ]
    for place in ("", ", in place of the model that was there"):
        lines = capsys.readouterr().err.splitlines()
        both = f"       {folder}-two, with both projectors, for fieldmark only"
        assert lines[-3:-1] == [f"model: {folder} (step {N_STEPS}{place})", both]
        again = ["train", str(undisturbed), "--export", str(folder), "--projector", "caption"]
        assert main(again) == 0
    capsys.readouterr()
    assert main(["train", str(undisturbed), "--export", str(folder), "--projector", "capt"]) == 2
    assert main(["train", str(tmp_path), "--export", str(folder)]) == 2
    assert main(["train", str(undisturbed), "--export", str(tmp_path)]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "fieldmark: projector 'capt' is not known. Did you mean 'caption'?",
        f"fieldmark: {tmp_path} is not the folder of a training run: expected recipe.toml in it.",
        f"fieldmark: {tmp_path} contains something else: give a new folder with --export.",
    ]


def test_other_data_in_the_same_folder_are_refused(
    inputs: Path, undisturbed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").mkdir()
    write_shards(tmp_path / "in" / "shards", n=21)
    for name in ("small.json", "small.toml"):
        (tmp_path / "in" / name).write_text((inputs / name).read_text())
    assert main(words(tmp_path / "in", undisturbed, "--quiet")) == 2
    assert main(words(inputs, undisturbed, "--quiet", "--set", "optimiser.lr=2e-3")) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"fieldmark: {undisturbed} was trained on other data: its shards or captions have changed "
        "since. Give the same ones, or another --out.",
        f"fieldmark: {undisturbed} was trained with another recipe: optimiser.lr was 0.001. "
        "Give that recipe, or another --out.",
    ]


# --- the log ---


def test_a_tracker_that_raises_is_dropped_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def good(rows: list[Any], run: Path) -> None:
        seen.append(([row["step"] for row in rows], run))

    def bad(rows: list[Any], run: Path) -> None:
        raise ValueError("no such project")

    points = {"good": good, "bad": bad}
    loaded = {name: SimpleNamespace(load=lambda call=call: call) for name, call in points.items()}
    monkeypatch.setattr("fieldmark.build.train.record.log.entry_points_of", lambda group: loaded)
    lines: list[str] = []
    log = RunLog(tmp_path, 0, lines.append)
    for step in (1, 2):
        log.write([{"step": step, "loss": float("nan")}])
    assert lines == ["tracker 'bad' is dropped: ValueError: no such project."]
    assert seen == [([1], tmp_path), ([2], tmp_path)]
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["loss"] for line in lines] == [None, None]


def test_rows_after_a_step_and_half_lines_are_cut(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"".join(journal.seal({"step": step}) for step in range(1, 6)) + b'{"st')
    assert [row["step"] for row in cut_rows(path, 9)] == [1, 2, 3, 4, 5]
    assert json.loads(path.read_text().splitlines()[-1])["step"] == 5
    assert [row["step"] for row in cut_rows(path, 3)] == [1, 2, 3]
    assert len(path.read_text().splitlines()) == 3
    assert cut_rows(tmp_path / "none.jsonl", 3) == []


def test_the_page_needs_nothing_but_itself() -> None:
    row = {
        "step": 1, "loss": 1.5, "loss_by_type": {"taxon": 1.5}, "scales": {"taxonomic": 14.0},
        "lr": 1e-3, "grad_norm": 0.3, "n_pairs": 8, "n_bad_images": 2, "pairs_per_s": 9.0,
        "data_wait": 0.1, "mfu": None, "time": 0,
    }  # fmt: skip
    score = SuiteScore("birds", "zero_shot", "accuracy", 0.4625, 0.44, 0.48, 1200, True)
    text = page(RunCurves([row]), RunState("<run>", 10, scores=((3, score),)))
    assert "birds@accuracy</td><td>46.2</td><td>[44.0, 48.0]</td>" in text
    assert "&lt;run&gt;" in text and 'http-equiv="refresh"' in text
    assert "<script" not in text and "http://" not in text and "https://" not in text
    assert text.count('src="data:image/svg+xml') == 7 and "MFU" not in text
    assert page(RunCurves(), RunState("x", 10)).count("<img") == 0


def test_charts_are_what_altair_takes() -> None:
    altair = pytest.importorskip("altair")
    curves = {"taxon": [(1.0, 2.0), (2.0, 1.5)], "caption": [(1.0, 3.0), (2.0, 2.5)]}
    for shown in (curves, {"": [(1.0, 2.0)]}):
        spec = chart(shown, has_zero=False)
        altair.Chart.from_dict(spec)
        assert len(spec["data"]["values"]) == sum(map(len, shown.values()))


def test_pages_take_a_small_share_of_the_run(tmp_path: Path, monkeypatch: Any) -> None:
    """One that took half a second is not drawn again within 50 s, unless it is due."""
    now, state = [0.0], RunState("x", 10)

    def slow(*_: object) -> str:
        now[0] += 0.5
        drawn.append(now[0])
        return ""

    drawn: list[float] = []
    monkeypatch.setattr("fieldmark.build.train.record.log.page", slow)
    monkeypatch.setattr("fieldmark.build.train.record.log.time.monotonic", lambda: now[0])
    log = RunLog(tmp_path, 0, print)
    for _ in range(120):
        log.draw(state)
        now[0] += 1
    assert len(drawn) == 3
    log.draw(state, is_due=True)
    assert len(drawn) == 4


def test_a_page_of_a_long_run_is_no_larger() -> None:
    """Curves are folded as they come: neither memory nor time of a page grows with the run."""
    curves = RunCurves()
    n = 5 * MOST_POINTS + 3
    for step in range(1, n + 1):
        curves.add([{"step": step, "loss": float(step), "scales": {"a": 1.0}, "n_pairs": 8}])
    (points,) = curves.named("loss").values()
    assert MOST_POINTS // 2 <= len(points) <= MOST_POINTS
    assert points[0] == (8, 4.5) and points[-1][0] == n
    assert len(curves.losses) < n and page(curves, RunState("x", n)).count("<img") == 2
