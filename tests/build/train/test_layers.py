"""Do attention, patches and the last block with less work give what open_clip's give, and the same
gradients?"""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")
open_clip = pytest.importorskip("open_clip")

from fieldmark.build.train.layers import (  # noqa: E402
    fastest_attention,
    pool_in_last_block,
    simplify_attention,
    simplify_patches,
)


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


def patched(convolution: Any, size: tuple[int, int]) -> list[Any]:
    torch.manual_seed(2)
    images = torch.randn(3, 3, *size, requires_grad=True)
    made = convolution(images)
    made.square().sum().backward()
    return [made, images.grad, convolution.weight.grad]


@pytest.mark.parametrize("size", [(32, 48), (35, 50)])
def test_patches_are_the_same_as_of_a_convolution(size: tuple[int, int]) -> None:
    """Where images are no multiple of a patch, the rest is left out by both."""
    torch.manual_seed(3)
    one = torch.nn.Conv2d(3, 24, (8, 16), (8, 16), bias=False)
    other = copy.deepcopy(one)
    assert simplify_patches(other)
    other = copy.deepcopy(other)  # as an average of weights makes one
    with torch.no_grad():
        one.weight.mul_(2)
        other.weight.mul_(2)
    for expected, made in zip(patched(one, size), patched(other, size), strict=True):
        torch.testing.assert_close(made, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "how",
    [{"stride": 4}, {"stride": 8, "padding": 1}, {"stride": 8, "bias": True}],
)
def test_convolutions_of_another_kind_stay(how: dict[str, Any]) -> None:
    assert not simplify_patches(torch.nn.Conv2d(3, 8, 8, **({"bias": False} | how)))
    assert not simplify_patches(None)


def make_tower(**how: Any) -> Any:
    torch.manual_seed(5)
    shape = {"image_size": 32, "patch_size": 8, "width": 32, "layers": 2, "heads": 4}
    return open_clip.transformer.VisionTransformer(**shape, mlp_ratio=4.0, output_dim=16, **how)


def seen(tower: Any) -> list[Any]:
    torch.manual_seed(6)
    images = torch.randn(3, 3, 32, 32, requires_grad=True)
    made = tower(images)
    made.square().sum().backward()
    return [made, images.grad, *(weight.grad for weight in tower.parameters())]


@pytest.mark.parametrize("how", [{}, {"ls_init_value": 0.5}, {"final_ln_after_pool": True}])
def test_a_last_block_for_one_token_gives_the_same(how: dict[str, Any]) -> None:
    one, other = make_tower(**how), make_tower(**how)
    names = list(other.state_dict())
    assert pool_in_last_block(other)
    assert list(other.state_dict()) == names
    other = copy.deepcopy(other)
    with torch.no_grad():
        for tower in (one, other):
            tower.transformer.resblocks[-1].attn.in_proj_weight.mul_(2)
    assert other.transformer(torch.randn(3, 17, 32)).shape == (3, 1, 32)
    for expected, made in zip(seen(one), seen(other), strict=True):
        torch.testing.assert_close(made, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "how", [{"pool_type": "avg"}, {"attentional_pool": True}, {"output_tokens": True}]
)
def test_a_tower_that_needs_all_its_tokens_keeps_its_last_block(how: dict[str, Any]) -> None:
    assert not pool_in_last_block(make_tower(**how))
    assert not pool_in_last_block(torch.nn.Identity())


def test_attention_is_chosen_on_gpus_only() -> None:
    with fastest_attention(torch.device("cpu")):
        test_the_same_as_torch(is_causal=True)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_card_the_fastest_attention_agrees_with_the_plainest() -> None:
    """Queries as the network has them: views of one product, an odd number of tokens."""
    device = torch.device("cuda")
    torch.manual_seed(4)
    made = torch.randn(4, 197, 3, 12, 64, device=device, dtype=torch.bfloat16)
    made.requires_grad_()
    results = []
    for context in (
        fastest_attention(device),
        torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH),
    ):
        made.grad = None
        with context:
            out = torch.nn.functional.scaled_dot_product_attention(*made.permute(2, 0, 3, 1, 4))
        out.float().square().sum().backward()
        results.append((out.detach().float(), made.grad.float()))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=3e-2, atol=3e-2)
