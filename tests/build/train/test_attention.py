"""Attention without copies gives what torch's module gives, gradients too."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
open_clip = pytest.importorskip("open_clip")

from fieldmark.build.train.attention import simplify_attention  # noqa: E402


def make_block(**how: Any) -> Any:
    torch.manual_seed(0)
    return open_clip.transformer.ResidualAttentionBlock(32, 4, **how)


def results(block: Any, mask: Any) -> list[Any]:
    torch.manual_seed(1)
    x = torch.randn(3, 9, 32, requires_grad=True)
    out = block(x, attn_mask=mask)
    out.square().sum().backward()
    return [out, x.grad, *(weight.grad for weight in block.parameters())]


@pytest.mark.parametrize("is_causal", [False, True])
def test_the_same_as_torch(is_causal: bool) -> None:
    mask = torch.full((9, 9), float("-inf")).triu_(1) if is_causal else None
    expected, block = results(make_block(), mask), make_block()
    names = list(block.state_dict())
    assert simplify_attention([block]) == 1
    assert list(block.state_dict()) == names
    for one, other in zip(results(block, mask), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_what_is_not_plain_self_attention_stays() -> None:
    class Other(torch.nn.Module):
        pass

    others = [make_block(is_cross_attention=True), make_block(batch_first=False), Other()]
    assert simplify_attention(others) == 0
