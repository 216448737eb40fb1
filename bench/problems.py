"""Attention problems: a shape, a mask, and the tensors that belong to them."""

import dataclasses

import torch

from qkv_shim import AttentionCall

DTYPES = {"f32": torch.float32, "f64": torch.float64}


@dataclasses.dataclass(frozen=True)
class Problem:
    """Self-attention of `heads` heads; as many keys as queries."""

    batch: int
    heads: int
    length: int
    dim: int
    mask: str = "full"  # a key of MASKS
    layout: str = "packed"  # or "interleaved": memory [batch, len, heads, dim]
    dtype: str = "f32"

    def facts(self):
        return {"dtype": self.dtype, "batch": self.batch, "heads": self.heads, "q_len": self.length, "kv_len": self.length,
                "head_dim": self.dim, "mask": self.mask, "layout": self.layout}


class Inputs:
    """q, k, v [batch, heads, len, dim] of a problem and its mask, in the forms that qkv and its peers take.

    Attributes:
      call: what the shim is told.
      keep: bool, broadcasts to [batch, heads, len, len], or None.
      attn_bias: float [1, heads, len, len], or None.
      valid_lens: int64 [batch], or None.
      seen: the share of all pairs of query and key that the mask lets through.
    """

    def __init__(self, problem):
        p = self.problem = problem
        self.generator = torch.Generator().manual_seed(p.length + p.dim)
        self.is_interleaved = p.layout == "interleaved"
        self.is_causal = p.mask == "causal"
        self.shape = (p.batch, p.length, p.heads, p.dim) if self.is_interleaved else (p.batch, p.heads, p.length, p.dim)
        self.memory = [self.random(self.shape) for _ in range(3)]
        self.q, self.k, self.v = (self.heads_first(x) for x in self.memory)
        self.call = AttentionCall(p.batch, p.heads, p.heads, p.length, p.length, p.dim, p.dim, self.is_interleaved,
                                  self.is_causal)
        self.keep = self.attn_bias = self.valid_lens = self.documents = None
        self.seen = 1.0
        MASKS[p.mask](self)

    def random(self, shape):
        return torch.randn(shape, generator=self.generator, dtype=DTYPES[self.problem.dtype])

    def heads_first(self, x):
        return x.transpose(1, 2) if self.is_interleaved else x


def set_causal(inputs):
    inputs.seen = 0.5  # of the ideal: N (N + 1) / 2 pairs, and N is large


def set_padded(inputs):
    batch, length = inputs.problem.batch, inputs.problem.length
    inputs.valid_lens = torch.tensor([max(1, length - (b * 7 + 3) % max(2, length // 2)) for b in range(batch)])
    inputs.call.valid_lens = inputs.valid_lens.data_ptr()
    inputs.keep = torch.arange(length)[None, None, None] < inputs.valid_lens[:, None, None, None]
    inputs.seen = inputs.keep.double().mean().item()


def set_keep(inputs, keep):
    inputs.keep = keep
    inputs.seen = keep.double().mean().item()


def set_random(inputs):
    heads, length = inputs.problem.heads, inputs.problem.length
    set_keep(inputs, torch.rand((1, heads, length, length), generator=inputs.generator) < 0.5)
    inputs.call.keep = inputs.keep.data_ptr()


def set_bias(inputs):
    heads, length = inputs.problem.heads, inputs.problem.length
    inputs.attn_bias = inputs.random((1, heads, length, length))
    inputs.call.attn_bias = inputs.attn_bias.data_ptr()


def document_ids(inputs):
    length = inputs.problem.length
    ids = torch.arange(length) * 8 // length
    set_keep(inputs, (ids[:, None] == ids)[None, None].expand(1, inputs.problem.heads, length, length).contiguous())
    return ids


def set_documents(inputs):
    document_ids(inputs)
    inputs.call.keep = inputs.keep.data_ptr()


def set_documents_ids(inputs):
    inputs.documents = document_ids(inputs)
    inputs.call.documents = inputs.documents.data_ptr()


def set_dropout(inputs):
    inputs.call.dropout = 0.1


MASKS = {"full": lambda inputs: None, "causal": set_causal, "padded": set_padded, "random": set_random,
         "bias": set_bias, "documents": set_documents, "documents_ids": set_documents_ids, "dropout": set_dropout}
