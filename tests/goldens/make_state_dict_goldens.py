"""Writes the golden files in tests/data that state dicts are compared with.

    .venv/bin/python tests/goldens/make_state_dict_goldens.py

What make_goldens.py says of numbers, versions and repeatability holds here too.
"""

import safetensors.torch
import torch
from make_goldens import DATA, normal, randomise, save
from torch import nn


def split_heads(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


class D2lAttention(nn.Module):
    """d2l's MultiHeadAttention by its formula, without dropout: the same parameters under the same names."""

    def __init__(self, key_size, query_size, value_size, num_hiddens, num_heads, bias=False):
        super().__init__()
        self.num_heads = num_heads
        self.W_q = nn.Linear(query_size, num_hiddens, bias=bias)
        self.W_k = nn.Linear(key_size, num_hiddens, bias=bias)
        self.W_v = nn.Linear(value_size, num_hiddens, bias=bias)
        self.W_o = nn.Linear(num_hiddens, num_hiddens, bias=bias)

    def forward(self, queries, keys, values, valid_lens):
        """valid_lens is [batch] or [batch, queries] and nowhere 0."""
        q, k, v = (split_heads(x, self.num_heads) for x in (self.W_q(queries), self.W_k(keys), self.W_v(values)))
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        limit = valid_lens.reshape(valid_lens.shape[0], 1, -1, 1)
        hidden = torch.arange(keys.shape[1]) >= limit
        weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
        return self.W_o((weights @ v).transpose(1, 2).flatten(2)), weights


class SelfAttention(nn.Module):
    """Self-attention without output projection: three linear layers with bias, heads split and merged again."""

    def __init__(self, num_heads, input_size, hidden_size):
        super().__init__()
        self.num_heads = num_heads
        self.query_layer = nn.Linear(input_size, hidden_size)
        self.key_layer = nn.Linear(input_size, hidden_size)
        self.value_layer = nn.Linear(input_size, hidden_size)

    def forward(self, x):
        layers = (self.query_layer, self.key_layer, self.value_layer)
        q, k, v = (split_heads(layer(x), self.num_heads) for layer in layers)
        weights = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).softmax(-1)
        return (weights @ v).transpose(1, 2).flatten(2), weights


def make_state_dicts():
    """State dicts of other people's layers, each with inputs and what the layer makes of them."""
    g = torch.Generator().manual_seed(23)
    cases = {}

    queries, keys, values = normal(g, 2, 4, 6), normal(g, 2, 6, 7), normal(g, 2, 6, 9)
    for name, bias, valid_lens in (
        ("d2l", False, torch.tensor([3, 2])),
        ("d2l_bias", True, torch.tensor([[1, 2, 3, 6], [6, 4, 2, 5]])),
    ):
        module = D2lAttention(7, 6, 9, 20, 5, bias=bias).double()
        randomise(module, g)
        out, weights = module(queries, keys, values, valid_lens)
        inputs = {"queries": queries, "keys": keys, "values": values, "valid_lens": valid_lens}
        cases[name] = {"in": inputs, "out": {"out": out, "attn_weights": weights}, "state": module.state_dict()}

    module = SelfAttention(2, 6, 8).double()
    randomise(module, g)
    x = normal(g, 3, 5, 6)
    out, weights = module(x)
    cases["self_attention"] = {"in": {"x": x}, "out": {"out": out, "attn_weights": weights}, "state": module.state_dict()}

    module = nn.Linear(6, 4, dtype=torch.float64)
    randomise(module, g)
    cases["linear"] = {"in": {"x": x}, "out": {"out": module(x)}, "state": module.state_dict()}

    tensors = {}
    for case, parts in cases.items():
        for part, named in parts.items():
            tensors.update({f"{case}.{part}.{name}": tensor for name, tensor in named.items()})
    save("state_dicts.safetensors", tensors)


def make_odd_names():
    """Names, shapes and values that a writer gets wrong easily, as the reference library writes them."""
    payloads = torch.tensor([0x7FC00001, 0x7F800001, -0x3FFFFF, -0x80000000, 1, 0x7F800000], dtype=torch.int64)
    tensors = {
        "quotes \"' and \\": torch.tensor([1.0]),
        "line\nend, tab\t, return\r, \b\f": torch.tensor([2.0]),
        "a\0b, \x1b[31m, \x7f": torch.tensor([3.0]),
        "\u00e9 \U0001f600 \u6ce8\u610f": torch.tensor([4.0]),
        "": torch.tensor([5.0]),
        "~": torch.tensor(6.0),  # rank 0
        "Z": torch.zeros(0, 4),
        "a.10": torch.zeros(2, 0, 3),
        "a.9": payloads.to(torch.int32).view(torch.float32).reshape(2, 3),
    }
    safetensors.torch.save_file(tensors, DATA / "odd_names.safetensors", {'key "\n': "NaN \u00e9"})


if __name__ == "__main__":
    make_state_dicts()
    make_odd_names()
