"""`fieldmark train --on slurm`: the script of the job, the table [slurm]; on a real Slurm the whole
way, whatever happens to the job.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("open_clip")

from fieldmark.build.train.launch import make_script
from fieldmark.build.train.recipe import SlurmRecipe, load_recipe, recipe_toml
from fieldmark.build.train.record.log import GOES_ON
from fieldmark.cli import main
from fieldmark.errors import UsageError
from kit.slurm import Slurm, wait_until
from kit.train_inputs import rows_of, words, write_inputs

N_STEPS = 120
SET = (f"train.steps={N_STEPS}", "train.log_steps=1", "state.every_steps=1000")
JOB = ("slurm.tasks=2", "slurm.cpus=1", "slurm.memory=1G")
LONG_S = 240.0
"""two processes that load torch on a busy machine"""


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    return write_inputs(tmp_path / "in")


# --- without a Slurm ---


def test_the_table_is_no_part_of_what_is_trained(tmp_path: Path) -> None:
    plain = load_recipe("tiny")
    set_ = ["slurm.nodes=4", "slurm.gpus=8", "slurm.time=24:00:00", "slurm.account=owls"]
    recipe = load_recipe("tiny", set_)
    assert recipe.facts() == plain.facts() and recipe.digest == plain.digest
    assert recipe_toml(recipe) == recipe_toml(plain) and "slurm" not in recipe_toml(plain)
    assert (recipe.slurm.n_processes, recipe.slurm.time) == (32, 24 * 60)
    assert load_recipe("tiny", ["slurm.time=04:00:00"]).slurm.time == 240  # a time of day in TOML


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("slurm.node=4", "--set  key 'node' is not known. Did you mean 'nodes'?"),
        ("slurm.nodes=0", "--set  slurm.nodes = 0: expected 1 or more."),
        ("slurm.array_parallelism=4", "--set  key 'array_parallelism' is not known."),
    ],
)
def test_wrong_keys_are_one_line(word: str, line: str) -> None:
    with pytest.raises(UsageError) as error:
        load_recipe("tiny", [word])
    assert str(error.value) == line


def test_a_process_per_gpu_and_no_other_number() -> None:
    assert SlurmRecipe(gpus="a100:4", nodes=2).n_processes == 8
    assert SlurmRecipe(tasks=3).n_processes == 3
    with pytest.raises(ValueError, match="one process for each of the 4 GPUs"):
        SlurmRecipe(gpus=4, tasks=2)


def asked(script: str) -> dict[str, str]:
    lines = [line for line in script.splitlines() if line.startswith("#SBATCH --")]
    pairs = (line.removeprefix("#SBATCH --").partition("=") for line in lines)
    return {key: value for key, _, value in pairs}


def test_the_script_asks_for_what_the_table_says(tmp_path: Path) -> None:
    out = tmp_path / "a run, 100%"
    options = SlurmRecipe.model_validate(
        {
            "account": "owls", "nodes": 4, "gpus": "a100:8", "time": "24:00:00", "memory": "64G",
            "setup": ["module load cuda"], "environment": {"HF_HOME": "/data/my hf"},
        }
    )  # fmt: skip
    script = make_script(options, "fm-train-x", out, ["/env/bin/python", "-m", "fieldmark", "a b"])
    given = asked(script)
    assert given["nodes"] == "4" and given["ntasks-per-node"] == "8" and given["time"] == "1440"
    assert given["gpus-per-node"] == "a100:8" and given["mem"] == "65536M"
    assert given["signal"] == "B:USR1@300" and "requeue" in given and given["open-mode"] == "append"
    assert given["output"] == f"'{tmp_path}/a run, 100%%/slurm/%j.log'"
    assert not given.keys() & {"partition", "qos", "constraint"}
    lines = script.splitlines()
    places = [
        next(n for n, line in enumerate(lines) if line.startswith(start))
        for start in ("export HF_HOME='/data/my hf'", "module load cuda", "train=(", "srun ")
    ]
    assert places == sorted(places)
    assert "train=(/env/bin/python -m fieldmark 'a b')" in lines
    assert GOES_ON in script  # what the training writes where it was stopped on request
    path = tmp_path / "job.sh"
    path.write_text(script)
    subprocess.run(["bash", "-n", path], check=True)
    short = asked(make_script(SlurmRecipe(time=1), "x", out, ["python"]))
    assert short["signal"] == "B:USR1@15" and short["ntasks-per-node"] == "1"
    assert "gpus-per-node" not in short and "mem" not in short


def test_without_slurm_it_says_where_to_go(
    inputs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(words(inputs, tmp_path / "run", "--on", "slurm")) == 2
    assert capsys.readouterr().err == (
        "fieldmark: --on slurm needs sbatch and squeue and scontrol, not found here: run on a "
        "login node of the cluster, or train here, without --on slurm.\n"
    )
    assert not (tmp_path / "run").exists()


# --- on a real one ---


def submit(
    inputs: Path, out: Path, capsys: pytest.CaptureFixture[str], set_: Sequence[str] = SET
) -> dict[str, Any]:
    """What the command says."""
    capsys.readouterr()
    command = words(inputs, out, "--on", "slurm", "--json", "--set", *set_, *JOB)
    assert main(command) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def submit_twice(inputs: Path, out: Path) -> list[dict[str, Any]]:
    """What two commands at the same instant say, the one that submitted first."""
    command = words(inputs, out, "--on", "slurm", "--json", "--set", *SET, *JOB)
    both = [
        subprocess.Popen([sys.executable, "-m", "fieldmark", *command], stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    answers = [json.loads(process.communicate(timeout=LONG_S)[0]) for process in both]
    return sorted(answers, key=lambda answer: answer["state"] != "submitted")


def n_rows(out: Path) -> int:
    log = out / "log.jsonl"
    return log.read_bytes().count(b"\n") if log.exists() else 0


def wait_for_more(out: Path) -> None:
    """Until the training has gone on by some steps."""
    before = n_rows(out)
    wait_until(lambda: n_rows(out) > before + 2, "steps", LONG_S)


def jobs(slurm: Slurm) -> list[str]:
    return slurm.call("squeue", "-h", "-o", "%i %T").splitlines()


def starts(out: Path, job: str) -> int:
    return (out / "slurm" / f"{job}.log").read_text().count("40 samples in")


@pytest.mark.slow
def test_put_back_cancelled_and_submitted_again_the_curve_is_the_same(
    slurm: Slurm, inputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, here = tmp_path / "run", tmp_path / "here"
    first, other = submit_twice(inputs, out)
    assert first["state"] == "submitted" and other["state"] in ("pending", "running")
    assert first["job"] == other["job"]
    note = out / "slurm" / "job.json"  # as of a launcher that was killed before it had an answer
    note.write_text(json.dumps({**json.loads(note.read_text()), "id": ""}))
    wait_for_more(out)
    again = submit(inputs, out, capsys)
    assert (again["job"], again["state"]) == (first["job"], "running")
    assert again["step"] > 0 and again["loss"] is not None
    assert main(words(inputs, out, "--on", "slurm", "--set", "optimiser.lr=0.1")) == 2
    assert f"trained by job {first['job']} with another recipe" in capsys.readouterr().err
    assert jobs(slurm) == [f"{first['job']} RUNNING"]
    slurm.call("scancel", "--batch", "--signal=USR1", first["job"])  # as at the end of its time
    wait_until(lambda: starts(out, first["job"]) == 2, "a second start", LONG_S)
    wait_for_more(out)
    slurm.call("scontrol", "requeue", first["job"])
    wait_until(lambda: starts(out, first["job"]) == 3, "a third start", LONG_S)
    wait_for_more(out)
    slurm.call("scancel", first["job"])
    wait_until(lambda: not jobs(slurm), "its end")
    second = submit(inputs, out, capsys)
    assert second["state"] == "submitted" and second["job"] != first["job"]
    assert "is gone" in second["reason"]
    wait_until(lambda: not jobs(slurm), "the end", LONG_S)
    last = submit(inputs, out, capsys)
    assert (last["state"], last["step"], last["n_steps"]) == ("finished", N_STEPS, N_STEPS)
    assert main(words(inputs, out, "--on", "slurm", "--set", *SET, "optimiser.lr=0.1")) == 2
    assert "trained with another recipe: optimiser.lr was 0.001" in capsys.readouterr().err
    assert not jobs(slurm)
    assert main(words(inputs, here, "--quiet", "--set", *SET)) == 0
    assert [row["step"] for row in rows_of(out)] == list(range(1, N_STEPS + 1))
    assert (out / "model" / "open_clip_model.safetensors").is_file()
    for row, expected in zip(rows_of(out), rows_of(here), strict=True):
        assert row["loss"] == pytest.approx(expected["loss"], rel=1e-3)


@pytest.mark.slow
def test_what_fails_is_not_put_back(
    slurm: Slurm, inputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "wild"
    wild = ("optimiser.lr=1e30", "optimiser.warmup_steps=0", "state.every_steps=1")
    job = submit(inputs, out, capsys, wild)["job"]
    wait_until(lambda: not jobs(slurm), "its end", LONG_S)
    assert f"{job} FAILED" in slurm.call("squeue", "-h", "--states=all", "-o", "%i %T")
    assert starts(out, job) == 1
    assert "step 2: the loss is nan" in (out / "slurm" / f"{job}.log").read_text()
