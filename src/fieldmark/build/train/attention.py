"""Multi-head attention without copies: the same weights and results as torch's module, faster.

`nn.MultiheadAttention` turns its input round, copies queries, keys and values apart, and adds a
written-out mask for causal texts, which keeps flash attention away. Here all three are views of one
product, and a causal mask is only named. What is not a plain self-attention stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.nn import functional


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
