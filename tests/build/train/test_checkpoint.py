"""Checkpoints: what is kept, what is refused, and what a damaged one means."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("open_clip")

from fieldmark.build.train.network import WeightAverage  # noqa: E402
from fieldmark.build.train.parallel import Ranks  # noqa: E402
from fieldmark.build.train.recipe import load_recipe  # noqa: E402
from fieldmark.build.train.record.checkpoint import (  # noqa: E402
    CheckpointFolder,
    machine_facts,
    restore_state,
    training_state,
)
from fieldmark.errors import DataError, Diverged, UsageError  # noqa: E402
from fieldmark.files import part_of  # noqa: E402

ALONE = Ranks(device=torch.device("cpu"))


def open_folder(path: Path, *words: str, data: str = "d0") -> CheckpointFolder:
    recipe = load_recipe("tiny", ["optimiser.lr=1e-3", "train.seed=0", *words])
    return CheckpointFolder(path / "checkpoints", recipe, data)


def steps_of(folder: CheckpointFolder) -> list[int]:
    return [note.step for note in folder.notes()]


def test_the_newest_few_and_those_that_are_wanted_stay(tmp_path: Path) -> None:
    folder = open_folder(tmp_path, "state.keep=2")
    folder.kept = {20}
    for step in (10, 20, 30, 40):
        folder.save(step, {"model": {"w": torch.ones(3)}})
    assert steps_of(folder) == [40, 30, 20]
    assert sorted(path.name for path in folder.folder.iterdir()) == sorted(
        f"step-{step:08d}.{ending}" for step in (20, 30, 40) for ending in ("json", "pt")
    )


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "gone"])
def test_a_damaged_newest_one_gives_way_to_the_one_before(damage: str, tmp_path: Path) -> None:
    folder, lines = open_folder(tmp_path), list[str]()
    for step in (10, 20):
        folder.save(step, {"model": {"w": torch.full((500,), float(step))}})
    path = folder.path(20)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    if damage == "gone":
        path.unlink()
    else:
        parts = {"flip": content, "cut": content[:-100], "empty": b""}
        path.write_bytes(parts[damage])
    note = folder.newest(lines.append)
    assert note is not None and note.step == 10
    assert float(folder.read(10)["model"]["w"][0]) == 10
    problem = (
        "cannot be read: No such file or directory"
        if damage == "gone"
        else "is damaged: its checksum is wrong"
    )
    assert lines == [f"{path}  {problem}. The checkpoint before it is taken."]
    assert not folder.has(20)  # so its step is saved anew
    folder.save(20, {"model": {"w": torch.full((500,), 21.0)}})
    assert steps_of(folder) == [20, 10] and float(folder.read(20)["model"]["w"][0]) == 21


def test_damaged_weights_are_never_read(tmp_path: Path) -> None:
    folder, lines = open_folder(tmp_path), list[str]()
    for step in (10, 20):
        folder.save(step, {"model": {"w": torch.full((500,), float(step))}})
    content = bytearray(folder.path(20).read_bytes())
    content[len(content) // 2] ^= 1
    folder.path(20).write_bytes(content)
    with pytest.raises(DataError, match="is damaged"):
        folder.read(20)
    note = folder.newest_whole(lines.append)
    assert note is not None and note.step == 10 and len(lines) == 1
    assert steps_of(folder) == [20, 10]  # an export changes nothing in a run


def test_what_was_not_finished_is_no_checkpoint(tmp_path: Path) -> None:
    """A process killed between the two files, and one killed while it wrote the first."""
    folder = open_folder(tmp_path)
    folder.save(10, {"model": {}})
    folder.path(20).write_bytes(b"half")
    part_of(folder.path(20)).write_bytes(b"half")
    folder.path(30).with_suffix(".json").write_bytes(b'{"step": 3')
    note = folder.newest(print)
    assert note is not None and note.step == 10 and not list(folder.folder.glob("*.part"))
    folder.save(40, {"model": {}})
    assert steps_of(folder) == [40, 10] and not folder.path(20).exists()


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_number_that_is_none_is_never_written(bad: float, tmp_path: Path) -> None:
    folder = open_folder(tmp_path)
    state = {"optimiser": {"state": {"w": {"exp_avg": torch.tensor([0.0, bad])}}}}
    with pytest.raises(Diverged) as error:
        folder.save(10, state)
    assert str(error.value) == (
        "step 10: optimiser.state.w.exp_avg is not finite, so no checkpoint was written."
    )
    assert not list(tmp_path.rglob("*.pt"))


def test_another_recipe_and_other_data_are_refused(tmp_path: Path) -> None:
    open_folder(tmp_path).save(10, {"model": {}})
    assert open_folder(tmp_path, "state.keep=1", "evaluate.tasks=['x']").newest(print)
    words = ("train.seed=3", "optimiser.lr=5e-4")
    with pytest.raises(UsageError) as error:
        open_folder(tmp_path, *words).newest(print)
    assert str(error.value) == (
        f"{tmp_path}  was trained with another recipe: optimiser.lr was 0.001, train.seed was 0. "
        "Give that recipe, or another --out."
    )
    with pytest.raises(UsageError) as error:
        open_folder(tmp_path, data="d1").newest(print)
    assert str(error.value) == (
        f"{tmp_path}  was trained on other data: its shards or captions have changed since. "
        "Give the same ones, or another --out."
    )


def test_what_auto_and_a_file_have_come_to_is_part_of_a_run(tmp_path: Path) -> None:
    """A run begun in bf16 does not go on in float32, nor with another network of the same name;
    another decoder is said.
    """
    recipe, cpu = load_recipe("tiny"), torch.device("cpu")
    network = SimpleNamespace(config={"model_cfg": {"heads": 4}})
    facts, lines = machine_facts(recipe, network, cpu), list[str]()
    assert facts["train.precision"] == "float32" and facts["data.decode"] != "auto"
    folder = CheckpointFolder(tmp_path / "checkpoints", recipe, "d0", facts)
    folder.save(10, {"model": {}})
    assert folder.newest(lines.append) and not lines
    other = SimpleNamespace(config={"model_cfg": {"heads": 8}})
    for changed in (facts | {"train.precision": "bf16"}, machine_facts(recipe, other, cpu)):
        with pytest.raises(UsageError, match=r"another recipe: (train.precision|network) was"):
            CheckpointFolder(tmp_path / "checkpoints", recipe, "d0", changed).newest(print)
    changed = facts | {"data.decode": "gpu"}
    assert CheckpointFolder(tmp_path / "checkpoints", recipe, "d0", changed).newest(lines.append)
    assert lines == [f"step-00000010: data.decode was {facts['data.decode']} and is gpu here"]


def test_only_the_process_that_writes_keeps_the_state() -> None:
    parts = make_parts(0)
    take_steps(*parts, 1)
    second = Ranks(rank=1, device=torch.device("cpu"))
    state = training_state(*parts, second)
    assert not state["model"] and not state["average"]


def make_parts(seed: int) -> tuple[Any, Any, WeightAverage]:
    torch.manual_seed(seed)
    network: Any = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5))
    optimiser = torch.optim.AdamW(network.parameters(), lr=0.1)
    return network, optimiser, WeightAverage(network, 0.9)


def take_steps(network: Any, optimiser: Any, average: WeightAverage, n: int) -> list[float]:
    losses = []
    for _ in range(n):
        loss = network(torch.ones(2, 4)).square().sum()
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        average.update()
        losses.append(loss.item())
    return losses


def test_a_run_goes_on_to_the_bit(tmp_path: Path) -> None:
    """Weights, moments, average and what dropout draws next."""
    folder, parts = open_folder(tmp_path), make_parts(0)
    take_steps(*parts, 5)
    folder.save(5, training_state(*parts, ALONE))
    after = take_steps(*parts, 5)
    others = make_parts(1)
    restore_state(folder.read(5), *others, ALONE)
    assert take_steps(*others, 5) == after
    for name, value in parts[2].weights.items():
        assert torch.equal(value, others[2].weights[name])


def test_every_process_draws_on_as_before(tmp_path: Path) -> None:
    """Their random states are rows of one table, in a file that is mapped into memory."""
    folder, parts = open_folder(tmp_path), make_parts(0)
    state = training_state(*parts, ALONE)
    torch.manual_seed(7)
    state["random"]["cpu"] = torch.stack([state["random"]["cpu"][0], torch.get_rng_state()])
    drawn = torch.rand(3)
    folder.save(5, state)
    restore_state(folder.read(5), *make_parts(1), Ranks(1, 2, torch.device("cpu")))
    assert torch.equal(torch.rand(3), drawn)


def test_the_note_can_be_read_by_others(tmp_path: Path) -> None:
    path = open_folder(tmp_path).save(10, {"model": {}})
    note = json.loads(path.with_suffix(".json").read_text())
    assert (note["step"], note["data"]) == (10, "d0")
    assert note["recipe"]["optimiser.lr"] == 1e-3
