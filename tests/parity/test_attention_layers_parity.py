"""qkv's MultiHeadAttention of every kind against the same layers written with torch, plainly, on random configurations.

d2l's MultiHeadAttention, tutorial A's self-attention without output projection, additive attention with the whole
queries x keys x hidden tensor, cosine attention, and heads that split the input before they project it.
"""

import math
import os
import pathlib
import subprocess

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

DRIVER = pathlib.Path(os.environ["QKV_BINARY"]).parent / "tests" / "run_attention_layer"
TOLERANCE = 1e-5
NUM_CONFIGURATIONS = 20  # of each of the five kinds


def split_heads(x, num_heads):
    """[batch, len, heads * dim] -> [batch, heads, len, dim]"""
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def merge_heads(x):
    """[batch, heads, len, dim] -> [batch, len, heads * dim]"""
    return x.transpose(1, 2).flatten(2)


def softmax_of_valid(scores, valid_lens):
    """Softmax over the first valid_lens keys, [batch] or [batch, queries], by a large negative number as d2l does."""
    if valid_lens is None:
        return scores.softmax(-1)
    lengths = valid_lens[:, None] if valid_lens.dim() == 1 else valid_lens
    hidden = torch.arange(scores.shape[-1]) >= lengths[:, None, :, None]
    return scores.masked_fill(hidden, -1e6).softmax(-1)


class D2lAttention(torch.nn.Module):
    """d2l's MultiHeadAttention: four projections with or without bias, scaled dot product, valid_lens."""

    names = "d2l"

    def __init__(self, g, num_heads, widths):
        super().__init__()
        num_hiddens = num_heads * int(g.choice([1, 4, 7, 20]))
        bias = bool(g.random() < 0.5)
        self.num_heads = num_heads
        self.W_q = torch.nn.Linear(widths[0], num_hiddens, bias=bias)
        self.W_k = torch.nn.Linear(widths[1], num_hiddens, bias=bias)
        self.W_v = torch.nn.Linear(widths[2], num_hiddens, bias=bias)
        self.W_o = torch.nn.Linear(num_hiddens, num_hiddens, bias=bias)

    def forward(self, query, key, value, valid_lens):
        q, k, v = (split_heads(layer(x), self.num_heads)
                   for layer, x in ((self.W_q, query), (self.W_k, key), (self.W_v, value)))
        weights = softmax_of_valid(q @ k.mT / math.sqrt(q.shape[-1]), valid_lens)
        return self.W_o(merge_heads(weights @ v)), weights


class SelfAttention(torch.nn.Module):
    """Tutorial A's layer: query, key and value of one input, no output projection."""

    names = "query_layer"
    is_self_attention = True

    def __init__(self, g, num_heads, widths):
        super().__init__()
        hidden_size = num_heads * int(g.choice([1, 5, 10, 32]))
        self.num_heads = num_heads
        self.query_layer = torch.nn.Linear(widths[0], hidden_size)
        self.key_layer = torch.nn.Linear(widths[0], hidden_size)
        self.value_layer = torch.nn.Linear(widths[0], hidden_size)

    def forward(self, query, _key, _value, valid_lens):
        q, k, v = (split_heads(layer(query), self.num_heads)
                   for layer in (self.query_layer, self.key_layer, self.value_layer))
        weights = softmax_of_valid(q @ k.mT / math.sqrt(q.shape[-1]), valid_lens)
        return merge_heads(weights @ v), weights


class OurAttention(torch.nn.Module):
    """Projections with a bias each or not, heads of any width, and a score that the subclasses say."""

    names = "ours"

    def __init__(self, g, num_heads, widths):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim, v_head_dim = (int(n) for n in g.choice([1, 3, 8, 17, 40], 2))
        sizes = (self.head_dim, self.head_dim, v_head_dim)
        self.q_proj, self.k_proj, self.v_proj = (
            torch.nn.Linear(width, num_heads * size, bias=bool(g.random() < 0.5)) for width, size in zip(widths, sizes))
        if g.random() < 0.5:
            self.out_proj = torch.nn.Linear(num_heads * v_head_dim, int(g.integers(1, 40)), bias=bool(g.random() < 0.5))

    def project(self, layer, x):
        return split_heads(layer(x), self.num_heads)

    def forward(self, query, key, value, valid_lens):
        q, k, v = (self.project(layer, x)
                   for layer, x in ((self.q_proj, query), (self.k_proj, key), (self.v_proj, value)))
        weights = softmax_of_valid(self.score(q, k), valid_lens)
        out = merge_heads(weights @ v)
        return (self.out_proj(out) if hasattr(self, "out_proj") else out), weights


class CosineAttention(OurAttention):
    scoring = "cosine"

    def __init__(self, g, num_heads, widths):
        super().__init__(g, num_heads, widths)
        self.scale = float(g.choice([1, 5, 20]))

    def score(self, q, k):
        return self.scale * torch.nn.functional.cosine_similarity(q[..., :, None, :], k[..., None, :, :], dim=-1)


class AdditiveAttention(OurAttention):
    """w_v . tanh(w_q q + w_k k), with a tensor of queries x keys x hidden for each head."""

    scoring = "additive"

    def __init__(self, g, num_heads, widths):
        super().__init__(g, num_heads, widths)
        hidden = int(g.choice([1, 6, 16, 33]))
        self.scoring_weights = torch.nn.ParameterDict({
            "w_q": torch.empty(hidden, self.head_dim), "w_k": torch.empty(hidden, self.head_dim),
            "w_v": torch.empty(hidden)})

    def score(self, q, k):
        w = self.scoring_weights
        return torch.tanh((q @ w["w_q"].T)[..., :, None, :] + (k @ w["w_k"].T)[..., None, :, :]) @ w["w_v"]


class SplitInputAttention(OurAttention):
    """Head h reads slice h of the input only, through a matrix of its own."""

    head_split = "split_then_project"

    def __init__(self, g, num_heads, widths):
        super().__init__(g, num_heads, [width // num_heads for width in widths])

    def project(self, layer, x):
        slices = split_heads(x, self.num_heads)
        weights = layer.weight.unflatten(0, (self.num_heads, -1))
        y = torch.einsum("bhld,hod->bhlo", slices, weights)
        return y if layer.bias is None else y + layer.bias.unflatten(0, (self.num_heads, 1, -1))

    def score(self, q, k):
        return q @ k.mT / math.sqrt(q.shape[-1])


class Configuration:
    """One random layer with its inputs."""

    def __init__(self, kind, seed):
        g = np.random.default_rng(7000 + seed)
        torch.manual_seed(seed)
        num_heads = int(g.choice([1, 2, 3, 5]))
        is_self = getattr(kind, "is_self_attention", False)
        widths = [num_heads * int(n) for n in g.integers(1, 14, 3)]
        batch, q_len, kv_len = int(g.integers(1, 4)), int(g.integers(1, 70)), int(g.integers(1, 70))
        self.layer = kind(g, num_heads, widths).eval()
        for parameter in self.layer.parameters():  # keeps activations near 1, where 1e-5 means something
            torch.nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5)
        self.query = torch.randn(batch, q_len, widths[0])
        self.key = self.query if is_self else torch.randn(batch, kv_len, widths[1])
        self.value = self.query if is_self else torch.randn(batch, kv_len, widths[2])
        kv_len = self.key.shape[1]
        # 0 is left out: d2l then spreads the weight over all keys, qkv gives 0.
        shape = {0: None, 1: (batch,), 2: (batch, q_len)}[int(g.integers(0, 3))]
        self.valid_lens = None if shape is None else torch.tensor(g.integers(1, kv_len + 1, shape))
        self.name = (f"{kind.__name__} seed {seed}: heads {num_heads}, widths {widths}, lengths {q_len} {kv_len}, "
                     f"valid_lens {shape}")

    def expected(self):
        with torch.no_grad():
            out, weights = self.layer(self.query, self.key, self.value, self.valid_lens)
        return out.numpy(), weights.numpy()

    def got(self, folder):
        layer = self.layer
        tensors = {"query": self.query, "key": self.key, "value": self.value}
        for name, tensor in layer.state_dict().items():
            tensors["layer." + name.replace("scoring_weights.", "scoring.")] = tensor
        arrays = {name: np.ascontiguousarray(tensor.numpy()) for name, tensor in tensors.items()}
        if self.valid_lens is not None:
            arrays["valid_lens"] = self.valid_lens.numpy()
        heads = str(layer.num_heads)
        metadata = {"names": layer.names, "scoring": getattr(layer, "scoring", "dot"), "num_heads": heads,
                    "num_kv_heads": heads, "head_split": getattr(layer, "head_split", "project_then_split"),
                    "scale": str(getattr(layer, "scale", ""))}
        save_file(arrays, folder / "in.safetensors", metadata)
        subprocess.run([DRIVER, folder / "in.safetensors", folder], check=True)
        return np.load(folder / "out.npy"), np.load(folder / "attn_weights.npy")


@pytest.mark.parametrize("seed", range(NUM_CONFIGURATIONS))
@pytest.mark.parametrize(
    "kind", [D2lAttention, SelfAttention, CosineAttention, AdditiveAttention, SplitInputAttention])
def test_agrees_with_torch(kind, seed, tmp_path):
    configuration = Configuration(kind, seed)
    expected_out, expected_weights = configuration.expected()
    out, weights = configuration.got(tmp_path)
    np.testing.assert_allclose(out, expected_out, rtol=TOLERANCE, atol=TOLERANCE, err_msg=configuration.name)
    np.testing.assert_allclose(weights, expected_weights, rtol=0, atol=TOLERANCE, err_msg=configuration.name)
