"""Updates: gradients of a cut batch, schedule, decay, the compiler's failure, and the guard."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("open_clip")

from fieldmark.build.train.network import (  # noqa: E402
    PairFlops,
    make_clip_model,
    named_peak,
)
from fieldmark.build.train.optimiser import (  # noqa: E402
    LossGuard,
    StepNumbers,
    Updater,
    learning_rate,
    make_optimiser,
)
from fieldmark.build.train.parallel import Ranks  # noqa: E402
from fieldmark.build.train.recipe import GuardRecipe, TrainRecipe, load_recipe  # noqa: E402
from fieldmark.errors import ModelError, UsageError  # noqa: E402

SMALL = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 16, "layers": 2, "width": 32, "head_width": 16, "patch_size": 8},
    "text_cfg": {
        "context_length": 16,
        "vocab_size": 49408,
        "width": 32,
        "heads": 2,
        "layers": 2,
    },
}
N = 12


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def small_recipe(folder: Path, *words: str) -> TrainRecipe:
    (folder / "small.json").write_text(json.dumps(SMALL))
    network = f"model.architecture={folder / 'small.json'}"
    return load_recipe("tiny", [network, f"train.batch={N}", *words])


def make_batch(recipe: TrainRecipe, step: int = 0, device: str = "cpu") -> Any:
    draw = torch.Generator().manual_seed(step)
    types = torch.randint(0, len(recipe.text_types), (N,), generator=draw)
    tokens = torch.randint(1, 49406, (N, 16), generator=draw)
    tokens[:, 10] = 49407
    projectors = torch.tensor([recipe.projector_of(recipe.text_types[t]) for t in types.tolist()])
    batch = {
        "images": torch.randint(0, 256, (N, 3, 16, 16), generator=draw, dtype=torch.uint8),
        "tokens": tokens,
        "type_ids": types,
        "projectors": projectors,
        "text_ids": torch.randint(0, 6, (N,), generator=draw),
    }
    moved = {name: value.to(device) for name, value in batch.items()}
    return SimpleNamespace(step=step, wait_s=0.25, replaced=("a.tar 'x'",), **moved)


def make_updater(recipe: TrainRecipe, device: str = "cpu", say: Any = print) -> Updater:
    clip_model = make_clip_model(recipe.model, recipe.loss.kind, 0).to(device)
    ranks = Ranks(device=torch.device(device))
    return Updater(clip_model, clip_model, recipe, ranks, 100, say)


def gradients(recipe: TrainRecipe) -> tuple[dict[str, Any], StepNumbers]:
    updater = make_updater(recipe)
    kept: dict[str, Any] = {}

    def keep(*_: object) -> None:
        for name, param in updater.clip_model.named_parameters():
            kept[name] = None if param.grad is None else param.grad.clone()

    updater.optimiser.register_step_pre_hook(keep)
    report = updater.step(make_batch(recipe))
    return kept, updater.read_reports([report])[0]


@pytest.mark.parametrize("loss", ["softmax", "siglip"])
@pytest.mark.parametrize("locked", ["false", "true"])
def test_a_batch_in_pieces_has_the_gradient_of_the_whole(
    loss: str, locked: str, tmp_path: Path
) -> None:
    words = (f"loss.kind={loss}", f"model.lock_text={locked}")
    whole, one = gradients(small_recipe(tmp_path, *words))
    pieces, cut = gradients(small_recipe(tmp_path, *words, "train.accumulate=4"))
    assert cut.loss == pytest.approx(one.loss, rel=1e-6)
    assert cut.loss_by_type == pytest.approx(one.loss_by_type, rel=1e-5)
    assert any(grad is not None for grad in whole.values())
    for name, grad in whole.items():
        if grad is None:
            assert pieces[name] is None
            continue
        assert float((grad - pieces[name]).abs().max()) <= 1e-5 * float(grad.abs().max()), name


def test_the_report_adds_up(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path)
    updater, batch = make_updater(recipe), make_batch(recipe)
    (numbers,) = updater.read_reports([updater.step(batch)])
    counts = [int((batch.type_ids == k).sum()) for k in range(len(recipe.text_types))]
    by_type = [numbers.loss_by_type.get(name, 0.0) for name in recipe.text_types]
    total = sum(n * loss for n, loss in zip(counts, by_type, strict=True)) / N
    assert numbers.loss == pytest.approx(total, rel=1e-6)
    assert (numbers.step, numbers.n_bad_images) == (1, 1)
    assert numbers.scales == pytest.approx([1 / 0.07] * 2, rel=1e-2)


def test_scales_stay_within_their_bounds(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path, "optimiser.lr=3", "optimiser.warmup_steps=0")
    updater = make_updater(recipe)
    for step in range(3):
        report = updater.step(make_batch(recipe, step))
    assert all(1 <= scale <= 100.001 for scale in updater.read_reports([report])[0].scales)


def test_the_schedule_is_open_clips() -> None:
    scheduler = pytest.importorskip("open_clip_train.scheduler")
    settings = load_recipe("tiny", ["optimiser.warmup_steps=7"]).optimiser
    group: dict[str, Any] = {"lr": 0.0}
    assign = scheduler.cosine_lr(SimpleNamespace(param_groups=[group]), settings.lr, 7, 50)
    for step in range(50):
        assign(step)
        assert learning_rate(step, 50, settings) == pytest.approx(group["lr"], rel=1e-9)


def test_gains_biases_and_scales_do_not_decay(tmp_path: Path) -> None:
    recipe = small_recipe(tmp_path, "loss.kind=siglip", "optimiser.weight_decay=0.1")
    clip_model = make_clip_model(recipe.model, "siglip", 0)
    plain, decayed = make_optimiser(clip_model, recipe.optimiser, torch.device("cpu")).param_groups
    names = {id(param): name for name, param in clip_model.named_parameters()}
    kept = {names[id(param)] for param in decayed["params"]}
    assert (plain["weight_decay"], decayed["weight_decay"]) == (0.0, 0.1)
    assert "projections" in kept and "network.token_embedding.weight" in kept
    assert not [name for name in kept if "scale" in name or "bias" in name or "ln" in name]


@pytest.mark.parametrize("n_ranks", [1, 2])
def test_where_the_compiler_fails_training_goes_on(
    n_ranks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the backward pass, at the second length of texts; no update is made twice. Several
    processes cannot go on: their exchange of gradients has begun.
    """

    def compile_badly(module: Any, **_: Any) -> None:
        def call(images: Any, tokens: Any, projectors: Any) -> Any:
            outputs = module.forward(images, tokens, projectors)
            if tokens.shape[1] < 16:
                outputs[0].register_hook(breaks)
            return outputs

        module._compiled_call_impl = call

    def breaks(*_: object) -> Any:
        raise RuntimeError("no such kernel\nmore")

    monkeypatch.setattr(torch.nn.Module, "compile", compile_badly)
    lines: list[str] = []
    curves = []
    for words in (("train.compile=on",), ()):
        recipe = small_recipe(tmp_path, *words)
        updater = make_updater(recipe, say=lines.append)
        batches = [make_batch(recipe, step) for step in range(3)]
        batches[1].tokens = batches[1].tokens[:, :11]
        reports = [updater.step(batches[0])]
        if n_ranks > 1:
            updater.ranks = Ranks(n_ranks=2, device=torch.device("cpu"))
            monkeypatch.setattr(Ranks, "gather", lambda _, rows: rows)
            monkeypatch.setattr(Ranks, "gather_plain", lambda _, rows: rows)
            with pytest.raises(ModelError, match="--set train.compile=off"):
                updater.step(batches[1])
            return
        reports += [updater.step(batch) for batch in batches[1:]]
        curves.append([numbers.loss for numbers in updater.read_reports(reports)])
    assert lines == [
        "torch.compile failed, continuing without it (train.compile=off): RuntimeError: no such "
        "kernel."
    ]
    assert curves[0] == curves[1]


@pytest.mark.parametrize("locked", ["", "model.lock_image=true", "model.lock_text=true"])
def test_flops_are_counted_from_shapes(locked: str, tmp_path: Path) -> None:
    """By hand: linear layers of both towers, two products of attention, patches, projections, less
    what the class token alone saves in the last block of the image tower; by the length of the
    texts, and three times as many where a tower learns.
    """
    words = [locked] if locked else []
    flops = PairFlops(make_clip_model(small_recipe(tmp_path, *words).model, "softmax", 0))
    width, dim = 32, 16

    def tower(n_tokens: int) -> int:
        return 2 * (24 * n_tokens * width**2 + 4 * n_tokens**2 * width)

    others = 2 * 4 * (10 * width**2 + 2 * 5 * width)  # 4 of 5 tokens: all but keys and values
    image = tower(5) - others + 2 * 4 * width * 3 * 64
    for n_tokens in (8, 16):
        text = tower(n_tokens) + 2 * 3 * width * dim
        assert flops.forward(n_tokens) == (image, text)
        factors = (1 if "image" in locked else 3, 1 if "text" in locked else 3)
        assert flops.of(n_tokens) == factors[0] * image + factors[1] * text


def test_cards_are_known_by_whole_words() -> None:
    known = {
        "NVIDIA A100-SXM4-80GB": 312e12,
        "NVIDIA A100 80GB PCIe": 312e12,
        "NVIDIA H200": 989e12,
        "NVIDIA GH200 480GB": 989e12,
    }
    assert {name: named_peak(name) for name in known} == known
    others = (
        "NVIDIA RTX A1000",
        "NVIDIA L40",
        "NVIDIA H100 PCIe",
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
    )
    assert not any(named_peak(name) for name in others)


def numbers_of(loss: float, norm: float = 1.0, step: int = 1) -> StepNumbers:
    return StepNumbers(step, 1e-3, loss, norm, (1.0,), {}, 0)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_the_guard_knows_numbers_that_are_none(bad: float) -> None:
    guard = LossGuard(GuardRecipe())
    assert guard.problem(numbers_of(bad)) == f"loss is {bad}"
    assert guard.problem(numbers_of(1.0, bad)) == f"norm of the gradient is {bad}"
    assert guard.problem(numbers_of(1.0)) == ""


def test_the_guard_waits_out_a_spike_and_stops_a_lasting_one() -> None:
    guard = LossGuard(GuardRecipe(spike=2.0, patience=3), [1.0] * 50)
    assert [guard.problem(numbers_of(loss)) for loss in (5, 5, 1, 5, 5)] == [""] * 5
    assert guard.problem(numbers_of(5.0)) == (
        "loss is 5, more than 2 times its median of 1, for 3 steps"
    )


def test_a_spike_goes_on_with_a_run_that_goes_on() -> None:
    guard = LossGuard(GuardRecipe(spike=2.0, patience=3), [1.0] * 50 + [5.0, 5.0])
    assert guard.problem(numbers_of(5.0)).endswith("for 3 steps")


def test_the_guard_has_no_median_at_the_beginning() -> None:
    guard = LossGuard(GuardRecipe(spike=1.1, patience=1))
    assert not any(guard.problem(numbers_of(loss)) for loss in range(1, 10))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_step_never_waits_for_the_device(accumulate: int, tmp_path: Path) -> None:
    """Where the loss does not: it sorts pairs by projector and by equal texts on the device."""
    words = ("texts.types={taxon=1}", 'model.projectors=["taxonomic"]', "loss.multi_positive=false")
    more = (f"train.accumulate={accumulate}", "train.compile=off")
    recipe = small_recipe(tmp_path, *words, *more)
    updater = make_updater(recipe, "cuda")
    batches = [make_batch(recipe, step, "cuda") for step in range(3)]
    updater.step(batches[0])
    torch.cuda.set_sync_debug_mode("error")
    try:
        reports = [updater.step(batch) for batch in batches[1:]]
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len(updater.read_reports(reports)) == 2


def test_a_network_that_draws_numbers_has_no_gradient_cache(tmp_path: Path) -> None:
    from fieldmark.build.train.run import first_network

    recipe = small_recipe(tmp_path, "train.accumulate=2")
    first_network(recipe)
    vision = {**SMALL["vision_cfg"], "patch_dropout": 0.5}
    (tmp_path / "small.json").write_text(json.dumps({**SMALL, "vision_cfg": vision}))
    with pytest.raises(UsageError, match="accumulate is 2, expected 1 .*patch_dropout"):
        first_network(recipe)
