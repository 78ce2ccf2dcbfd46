"""Attention that keeps to rows of any lengths, end to end, without a mask: FlashAttention on GPUs.

A padded batch of B × T is such a stretch, too, where the padding of a row is a row of its own:

    lengths 3 and 5 of T = 5     ids a b c · · | d e f g h     rows end at 3, 5, 10, 10

So shapes are fixed whatever the lengths, nothing is read back to the host, and no score beyond a row is computed. What
padding gathers differs from what it gathers under a mask; nothing reads it.

torch's public `varlen_attn` has no dropout on the probabilities. The operator behind it has, and is called directly.

Shapes: R rows, P tokens of all rows, Q those that ask, B rows of a batch, T positions, A heads, D head size.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

_LARGEST = 128  # head size; the kernel takes more, but not with dropout on every GPU


@dataclass(frozen=True)
class PackedRows:
    """Where each of R rows begins and ends in a stretch of P tokens."""

    ends: Tensor  # (R + 1,), int32: 0, then where each row ends
    longest: int  # no row has more tokens
    reach: int | None = None  # how far a token sees to either side; None: its whole row


def usable(device: torch.device, head_size: int) -> bool:
    """Whether this device has the kernel, and products run in a format that it knows."""
    return (
        device.type == "cuda"
        and torch.version.hip is None
        and torch.is_autocast_enabled("cuda")
        and torch.get_autocast_dtype("cuda") == torch.bfloat16
        and torch.backends.cuda.is_flash_attention_available()
        and torch.backends.cuda.flash_sdp_enabled()  # type: ignore[no-untyped-call]
        and torch.cuda.get_device_capability(device) >= (8, 0)
        and head_size % 8 == 0
        and head_size <= _LARGEST
    )


def padded(lengths_B: Tensor, length: int) -> PackedRows:
    """The 2 B rows of a batch: each row's tokens, then its padding, if any."""
    stop = len(lengths_B) * length
    ends = torch.arange(0, stop + 1, length, dtype=torch.int32, device=lengths_B.device).repeat_interleave(2)[:-1]
    ends[1::2] += lengths_B
    return PackedRows(ends, length)


def attend(
    query_QAD: Tensor, key_PAD: Tensor, value_PAD: Tensor, asking: PackedRows, asked: PackedRows, rate: float
) -> Tensor:
    """softmax(Q Kᵀ / √D) V (Q, A, D), each row of `asking` over its row of `asked`, probabilities dropped at `rate`."""
    assert asked.reach is None or asking is asked, "the kernel counts neighbours from the ends of rows"
    where = (asking.ends, asked.ends, asking.longest, asked.longest)
    near = {"window_size_left": asked.reach, "window_size_right": asked.reach}
    forward = torch.ops.aten._flash_attention_forward
    context_QAD: Tensor = forward(query_QAD, key_PAD, value_PAD, *where, rate, False, False, **near)[0]
    return context_QAD
