"""Attention, patch embedding and last block with less work: the weights and results of torch's.

`nn.MultiheadAttention` turns its input round, copies queries, keys and values apart, and adds a
written-out mask for causal texts, which keeps flash attention away. Here all three are views of one
product, and a causal mask is only named. A convolution whose windows do not overlap is one matrix
product; cuDNN turns it round twice for that. Of the last block only the token that is pooled is
computed. What is of another kind stays as it is.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

HOPPER = (9, 0)
"""from this generation of GPUs on cuDNN's attention is the faster one"""


def fastest_attention(device: Any) -> AbstractContextManager[Any]:
    """Which implementation of attention is tried first while a network computes."""
    can_choose = "set_priority" in inspect.signature(sdpa_kernel).parameters  # torch 2.6
    if device.type != "cuda" or not can_choose or torch.cuda.get_device_capability(device) < HOPPER:
        return nullcontext()
    order = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION]
    order += [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    context: AbstractContextManager[Any] = sdpa_kernel(order, set_priority=True)
    return context


def simplify_patches(convolution: Any) -> bool:
    """Of a network that cuts images into squares; False: it is another kind of convolution."""
    if not _is_patching(convolution):
        return False
    convolution.forward = partial(_embed_patches, convolution)
    return True


def _is_patching(convolution: Any) -> bool:
    return (
        isinstance(convolution, nn.Conv2d)
        and convolution.kernel_size == convolution.stride
        and convolution.padding == (0, 0)
        and convolution.dilation == (1, 1)
        and convolution.groups == 1
        and convolution.bias is None
    )


def _embed_patches(convolution: Any, images: Tensor) -> Tensor:
    n, channels, height, width = images.shape
    high, wide = convolution.kernel_size
    rows, columns = height // high, width // wide
    cut = images[:, :, : rows * high, : columns * wide]
    windows = cut.reshape(n, channels, rows, high, columns, wide).permute(0, 2, 4, 1, 3, 5)
    weight = convolution.weight.reshape(len(convolution.weight), -1)
    made = functional.linear(windows.reshape(n, rows, columns, -1), weight)
    return made.permute(0, 3, 1, 2)


def simplify_attention(blocks: Iterable[Any]) -> int:
    """Of open_clip's residual blocks; a mask given to one of them must be the causal one. Weights
    keep their names. Returns how many blocks were changed.
    """
    plain = [block for block in blocks if _is_plain(block)]
    for block in plain:
        block.attention = partial(_attend, block.attn)
    return len(plain)


def _is_plain(block: Any) -> bool:
    attention = getattr(block, "attn", None)
    return (
        isinstance(attention, nn.MultiheadAttention)
        and hasattr(block, "attention")
        and not hasattr(block, "ln_1_kv")
        and attention.batch_first
        and attention.in_proj_weight is not None
        and attention.bias_k is None
        and not attention.add_zero_attn
        and attention.dropout == 0
    )


def _attend(
    attention: Any,
    q_x: Tensor,
    k_x: Tensor | None = None,  # noqa: ARG001 - open_clip names them; both are q_x here
    v_x: Tensor | None = None,  # noqa: ARG001
    attn_mask: Tensor | None = None,
) -> Tensor:
    n, length, width = q_x.shape
    all_three = functional.linear(q_x, attention.in_proj_weight, attention.in_proj_bias)
    query, key, value = all_three.view(n, length, 3, attention.num_heads, -1).permute(2, 0, 3, 1, 4)
    mixed = functional.scaled_dot_product_attention(
        query, key, value, is_causal=attn_mask is not None
    )
    return attention.out_proj(mixed.transpose(1, 2).reshape(n, length, width))


def pool_in_last_block(visual: Any) -> bool:
    """Of an image tower that goes on with its class token alone: the last block answers with that
    token only, which asks all others but needs no answers from them. For a ViT-B/16 that is 7 % of
    the work. False: the tower is of another kind.
    """
    from open_clip.transformer import ResidualAttentionBlock, VisionTransformer

    if not (
        isinstance(visual, VisionTransformer)
        and visual.pool_type == "tok"
        and visual.attn_pool is None
        and not visual.output_tokens
    ):
        return False
    last = visual.transformer.resblocks[-1]
    if not (isinstance(last, ResidualAttentionBlock) and _is_plain(last)):
        return False
    last.forward = partial(_first_token, last)
    return True


def _first_token(block: Any, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
    """n × length × width → n × 1 × width. `attn_mask`: images have none; open_clip hands it on."""
    assert attn_mask is None
    attention, normed = block.attn, block.ln_1(x)
    n, length, width = x.shape
    weight, bias = attention.in_proj_weight, attention.in_proj_bias
    query = functional.linear(normed[:, :1], weight[:width], bias[:width])
    both = functional.linear(normed, weight[width:], bias[width:])
    query = query.view(n, 1, attention.num_heads, -1).transpose(1, 2)
    key, value = both.view(n, length, 2, attention.num_heads, -1).permute(2, 0, 3, 1, 4)
    mixed = functional.scaled_dot_product_attention(query, key, value)
    token = x[:, :1] + block.ls_1(attention.out_proj(mixed.transpose(1, 2).reshape(n, 1, width)))
    made: Tensor = token + block.ls_2(block.mlp(block.ln_2(token)))
    return made
