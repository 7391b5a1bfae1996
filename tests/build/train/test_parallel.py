"""Two processes train as one with the doubled batch does: DDP and FSDP, real ones on loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

from fieldmark.build.train.network import make_clip_model
from fieldmark.build.train.parallel import (
    Ranks,
    clip_gradients,
    open_ranks,
    set_full_state,
    unsynced,
)
from fieldmark.build.train.recipe import ModelRecipe
from fieldmark.errors import ModelError, UsageError
from kit.tiny_clip import tiny_clip
from kit.train_worker import Case, train

TESTS = Path(__file__).parents[2]
CASES = [
    "-".join(parts)
    for parts in product(["softmax", "siglip"], "12", ["ddp", "fsdp"], "12", ["float32"])
]
CASES += [
    "softmax-2-ddp-2-float32-image",
    "siglip-2-fsdp-1-float32-image",
    "softmax-1-fsdp-2-float32-text",
]
HALF = "softmax-2-fsdp-1-bf16"
HALF_DDP = HALF.replace("fsdp", "ddp")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_clip(tmp_path_factory.mktemp("config"), text={"vocab_size": 64})


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, config: str) -> list[dict[str, Any]]:
    """What two processes make of all cases."""
    out = tmp_path_factory.mktemp("out") / "result"
    command = [sys.executable, "-m", "kit.train_worker", str(out), config, *CASES, HALF, HALF_DDP]
    port, workers = str(free_port()), []
    for rank in range(2):
        told = {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            "PYTHONPATH": str(TESTS),
            "HF_HUB_OFFLINE": "1",
        }
        workers.append(
            subprocess.Popen(
                command,
                env={**os.environ, **told},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    try:
        for worker in workers:
            printed, _ = worker.communicate(timeout=300)
            assert worker.returncode == 0, printed[-3000:]
    finally:
        for worker in workers:
            worker.kill()
    return [torch.load(out.with_suffix(f".{rank}"), weights_only=True) for rank in range(2)]


def equal_states(one: Any, two: Any, tolerance: float) -> None:
    """Of nested dictionaries; the same names in the same order."""
    if isinstance(one, dict):
        assert list(one) == list(two)
        for key in one:
            equal_states(one[key], two[key], tolerance)
    elif isinstance(one, list | tuple):
        assert len(one) == len(two)
        for first, second in zip(one, two, strict=True):
            equal_states(first, second, tolerance)
    elif isinstance(one, torch.Tensor):
        torch.testing.assert_close(one, two, atol=tolerance, rtol=tolerance)
    else:
        assert one == two


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_two_processes_train_as_one(pair: list[dict[str, Any]], config: str, case: str) -> None:
    torch.set_num_threads(1)
    alone = train(Case.read(case), config, Ranks(device=torch.device("cpu")))
    for result in pair:
        together = result[case]
        assert together["losses"] == pytest.approx(alone["losses"], rel=1e-5)
        assert together["norms"] == pytest.approx(alone["norms"], rel=1e-4)
        for part in ("network", "average", "moments"):
            equal_states(together[part], alone[part], 2e-5)
    kind, n_projectors = Case.read(case).kind, Case.read(case).n_projectors
    names = ("taxonomic", "caption")[:n_projectors]
    start = make_clip_model(ModelRecipe(architecture=config, projectors=names), kind, 0)
    assert (start.scales - alone["network"]["scales"]).abs().min() > 1e-4  # they have learnt


@pytest.mark.slow
@pytest.mark.parametrize("case", [*CASES, HALF])
def test_a_whole_state_goes_into_another_network_and_out(
    pair: list[dict[str, Any]], case: str
) -> None:
    for result in pair:
        saved = tuple(result[case][part] for part in ("network", "moments", "average"))
        equal_states(saved, result[case]["again"], 0)


@pytest.mark.slow
def test_blocks_in_bf16_train_nearly_the_same(pair: list[dict[str, Any]]) -> None:
    exact = pair[0][HALF.replace("bf16", "float32")]
    assert pair[0][HALF]["losses"] == pytest.approx(exact["losses"], rel=0.05)
    assert pair[0][HALF]["losses"] != exact["losses"]
    assert {value.dtype for value in pair[0][HALF]["network"].values()} == {torch.float32}


@pytest.mark.slow
def test_sharded_blocks_in_bf16_compute_what_whole_ones_do(pair: list[dict[str, Any]]) -> None:
    """Only products are in bf16, not what is added up between them."""
    assert pair[0][HALF]["losses"][0] == pytest.approx(pair[0][HALF_DDP]["losses"][0], rel=1e-6)
    assert pair[0][HALF]["norms"][0] == pytest.approx(pair[0][HALF_DDP]["norms"][0], rel=1e-3)


@pytest.mark.slow
def test_what_processes_tell_each_other(pair: list[dict[str, Any]]) -> None:
    for result in pair:
        assert result["largest"] == 1.0
        assert result["shared"] == "from 0"
        assert result["gathered"].tolist() == [[0], [1]]


def test_alone_without_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    with open_ranks("cpu") as ranks:
        assert ranks == Ranks(0, 1, torch.device("cpu"))
        rows = torch.ones(2, 3, requires_grad=True)
        assert ranks.gather(rows) is rows
        assert ranks.max(3.5) == 3.5
        assert ranks.share({"a": 1}) == {"a": 1}
        ranks.wait()
    with unsynced(torch.nn.Linear(1, 1)):
        pass


def test_an_environment_that_torchrun_never_sets_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in {"RANK": "first", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}.items():
        monkeypatch.setenv(key, value)
    with pytest.raises(UsageError, match="RANK=first"), open_ranks("cpu"):
        pass


def test_a_state_of_another_network_is_refused(config: str) -> None:
    clip_model = make_clip_model(ModelRecipe(architecture=config), "softmax", 0)
    optimiser = torch.optim.AdamW(clip_model.parameters())
    state = dict(clip_model.state_dict())
    state["network.more"] = torch.zeros(1)
    with pytest.raises(ModelError, match=r"network\.more has the shape \(1,\), expected no such"):
        set_full_state(clip_model, optimiser, (state, {}))
    state = {**clip_model.state_dict(), "scales": torch.zeros(2)}
    with pytest.raises(ModelError, match=r"scales has the shape \(2,\), expected the shape \(1,\)"):
        set_full_state(clip_model, optimiser, (state, {}))


def test_gradients_that_are_not_clipped_stay_as_they_are() -> None:
    module = torch.nn.Linear(2, 1)
    module.weight.grad, module.bias.grad = torch.tensor([[3.0, 0.0]]), torch.tensor([4.0])
    assert float(clip_gradients(module, 0)) == 5
    assert float(clip_gradients(module, 2.5)) == 5
    assert module.bias.grad.item() == pytest.approx(2)
    module.bias.grad.fill_(torch.inf)
    assert float(clip_gradients(module, 0)) == torch.inf
    assert module.bias.grad.item() == torch.inf
    assert module.weight.grad.flatten().tolist() == pytest.approx([1.5, 0])
