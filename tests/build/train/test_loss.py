"""The contrastive loss against double loops in float64 and against open_clip's own."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from open_clip.loss import ClipLoss, SigLipLoss
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from fieldmark.build.train.losses import LOSSES, LossParts, contrastive_loss
from fieldmark.build.train.losses import _contrastive as module
from fieldmark.build.train.parallel import Ranks
from fieldmark.build.train.recipe import LossRecipe

ALONE = Ranks(device=torch.device("cpu"))


def drawn(n: int, n_projectors: int, seed: int, dim: int = 6) -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    features = torch.nn.functional.normalize(torch.randn(2, n, dim, generator=draw), dim=-1)
    return {
        "images": features[0].requires_grad_(),
        "texts": features[1].clone().requires_grad_(),
        "projectors": torch.randint(0, n_projectors, (n,), generator=draw),
        "text_ids": torch.randint(0, max(1, n // 2), (n,), generator=draw) * 2**40,
        "scales": (torch.rand(n_projectors, generator=draw) + 1).requires_grad_(),
        "biases": (-torch.rand(n_projectors, generator=draw)).requires_grad_(),
    }


def ours(batch: dict[str, torch.Tensor], kind: str, is_multi: bool) -> LossParts:
    return contrastive_loss(
        **batch, settings=LossRecipe(kind=kind, multi_positive=is_multi), ranks=ALONE
    )


def oracle(batch: dict[str, torch.Tensor], kind: str, is_multi: bool) -> torch.Tensor:
    """Row by row, pair by pair, in float64."""
    images, texts = batch["images"].double(), batch["texts"].double()
    numbers, ids = batch["projectors"].tolist(), batch["text_ids"].tolist()
    scales, biases = batch["scales"].double().exp(), batch["biases"].double()
    n, total = len(numbers), torch.zeros((), dtype=torch.float64)
    for i in range(n):
        others = [j for j in range(n) if numbers[j] == numbers[i]]
        positives = [j for j in others if j == i or (is_multi and ids[j] == ids[i])]
        scale, bias = scales[numbers[i]], biases[numbers[i]]
        if kind == "siglip":
            for j in others:
                logit = scale * images[i] @ texts[j] + bias
                sign = 1 if j in positives else -1
                total = total - torch.nn.functional.logsigmoid(sign * logit)
            continue
        for rows, columns in ((images, texts), (texts, images)):
            logits = {j: scale * rows[i] @ columns[j] for j in others}
            norm = torch.stack(list(logits.values())).logsumexp(0)
            for j in positives:
                total = total + (norm - logits[j]) / len(positives) / 2
    return total / n


def gradients(total: torch.Tensor, batch: dict[str, torch.Tensor], kind: str) -> list[torch.Tensor]:
    names = ["images", "texts", "scales"] + (["biases"] if kind == "siglip" else [])
    return list(torch.autograd.grad(total, [batch[name] for name in names]))


@pytest.mark.parametrize("kind", ["softmax", "siglip"])
@given(
    n=st.integers(1, 12),
    n_projectors=st.integers(1, 3),
    is_multi=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_double_loops_give_the_same_loss_and_gradient(
    kind: str, n: int, n_projectors: int, is_multi: bool, seed: int
) -> None:
    batch = drawn(n, n_projectors, seed)
    parts, expected = ours(batch, kind, is_multi), oracle(batch, kind, is_multi)
    torch.testing.assert_close(parts.total.double(), expected, atol=1e-5, rtol=1e-5)
    pairs = zip(gradients(parts.total, batch, kind), gradients(expected, batch, kind), strict=True)
    for mine, theirs in pairs:
        torch.testing.assert_close(mine, theirs.float(), atol=1e-5, rtol=1e-4)
    assert parts.rows.shape == (n,)
    assert not parts.rows.requires_grad
    torch.testing.assert_close(parts.rows.mean(), parts.total.detach())


@pytest.mark.parametrize("kind", ["softmax", "siglip"])
def test_plain_batches_cost_what_open_clip_says(kind: str) -> None:
    batch = drawn(9, 1, 4)
    scale = batch["scales"][0].exp()
    if kind == "softmax":
        expected = ClipLoss()(batch["images"], batch["texts"], scale)
    else:
        expected = SigLipLoss()(batch["images"], batch["texts"], scale, batch["biases"][0])
    total = ours(batch, kind, False).total
    torch.testing.assert_close(total, expected)
    for mine, theirs in zip(
        gradients(total, batch, kind), gradients(expected, batch, kind), strict=True
    ):
        torch.testing.assert_close(mine, theirs, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("kind", ["softmax", "siglip"])
def test_texts_that_differ_have_one_positive_each(kind: str) -> None:
    batch = drawn(8, 2, 1)
    batch["text_ids"] = torch.arange(8)
    torch.testing.assert_close(ours(batch, kind, True).total, ours(batch, kind, False).total)


def test_equal_texts_are_no_negatives() -> None:
    """All texts equal: nothing to tell apart, the loss is that of guessing and pulls nowhere."""
    batch = drawn(6, 1, 2)
    batch["text_ids"] = torch.zeros(6, dtype=torch.int64)
    batch["texts"] = batch["texts"][:1].detach().repeat(6, 1).requires_grad_()
    batch["images"] = batch["images"][:1].detach().repeat(6, 1).requires_grad_()
    parts = ours(batch, "softmax", True)
    assert float(parts.total.detach()) == pytest.approx(math.log(6), rel=1e-5)
    (gradient,) = torch.autograd.grad(parts.total, batch["images"])
    assert float(gradient.abs().max()) < 1e-6


@pytest.mark.parametrize("kind", ["softmax", "siglip"])
def test_a_projector_never_sees_the_rows_of_another(kind: str) -> None:
    batch = drawn(10, 2, 3)
    batch["projectors"] = torch.tensor([0, 1] * 5)
    before = ours(batch, kind, True)
    with torch.no_grad():
        batch["texts"][1::2] = batch["texts"][1::2].flip(0)
    after = ours(batch, kind, True)
    torch.testing.assert_close(before.rows[::2], after.rows[::2])
    assert not torch.allclose(before.rows[1::2], after.rows[1::2])


@pytest.mark.parametrize("kind", ["softmax", "siglip"])
def test_chunks_of_rows_change_nothing(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = drawn(11, 2, 5)
    whole = ours(batch, kind, True)
    expected = gradients(whole.total, batch, kind)
    monkeypatch.setattr(module, "CHUNK_BYTES", 4 * 11 * 2)
    cut = ours(batch, kind, True)
    torch.testing.assert_close(cut.total, whole.total)
    for mine, theirs in zip(gradients(cut.total, batch, kind), expected, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-6, rtol=1e-5)


def test_every_scale_and_bias_has_a_gradient_even_without_rows() -> None:
    batch = drawn(4, 3, 0)
    batch["projectors"] = torch.zeros(4, dtype=torch.int64)
    parts = ours(batch, "siglip", True)
    parts.total.backward()
    for name in ("scales", "biases"):
        assert batch[name].grad is not None
        assert batch[name].grad[1:].tolist() == [0, 0]


@pytest.mark.parametrize("kind", ["softmax", "siglip"])
@pytest.mark.parametrize("is_multi", [False, True])
def test_with_one_projector_the_device_is_never_waited_for(kind: str, is_multi: bool) -> None:
    """Tensors without numbers raise where a number is asked for."""
    batch = drawn(8, 1, 6)
    with FakeTensorMode() as mode:
        empty = {name: mode.from_tensor(value) for name, value in batch.items()}
        ours(empty, kind, is_multi).total.backward()
        with pytest.raises(DataDependentOutputException):
            ours({**empty, "scales": empty["scales"].repeat(2)}, kind, is_multi)


@pytest.mark.parametrize("kind", ["softmax", "siglip"])
def test_logits_are_float32_under_autocast(kind: str) -> None:
    batch = drawn(8, 1, 6)
    expected = ours(batch, kind, True).total
    with torch.autocast("cpu", torch.bfloat16):
        total = ours(batch, kind, True).total
    assert total.dtype == torch.float32
    torch.testing.assert_close(total, expected, atol=0, rtol=0)


class Cosine:
    """A loss in one class: one minus the cosine of a row and its mean positive."""

    is_symmetric = True
    start = None

    def rows(self, rows, positives, n, columns, scale, bias):
        return 1 - (rows * positives).sum(dim=1)


def test_a_new_loss_is_one_class() -> None:
    batch = drawn(8, 1, seed=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(LOSSES.added, "cosine", SimpleNamespace(LOSS=Cosine()))
        parts = ours(batch, "cosine", False)
    expected = 1 - (batch["images"] * batch["texts"]).sum(dim=1).mean()
    assert parts.total.item() == pytest.approx(expected.item())
