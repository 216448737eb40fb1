"""qkv's MultiHeadAttention against torch.nn.MultiheadAttention on random configurations."""

import os
import pathlib
import subprocess

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

DRIVER = pathlib.Path(os.environ["QKV_BINARY"]).parent / "tests" / "run_multi_head_attention"
TOLERANCE = 1e-5
NUM_CONFIGURATIONS = 100


class Configuration:
    """One random layer, its inputs, and the same masks in PyTorch's words and in qkv's."""

    def __init__(self, seed):
        g = np.random.default_rng(seed)
        torch.manual_seed(seed)
        self.num_heads = int(g.choice([1, 2, 3, 8]))
        embed_dim = self.num_heads * int(g.choice([1, 4, 7, 16, 32]))
        self_attention = g.random() < 0.5
        kdim, vdim = (embed_dim, embed_dim) if self_attention or g.random() < 0.5 else map(int, g.integers(1, 40, 2))
        batch, q_len, kv_len = int(g.integers(1, 4)), int(g.integers(1, 60)), int(g.integers(1, 60))
        if self_attention:
            kv_len = q_len
        self.layer = torch.nn.MultiheadAttention(
            embed_dim, self.num_heads, bias=bool(g.random() < 0.7), kdim=kdim, vdim=vdim, batch_first=True).eval()
        for parameter in self.layer.parameters():  # keeps activations near 1, where 1e-5 means something
            torch.nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5)
        self.query = torch.randn(batch, q_len, embed_dim)
        self.key = self.query if self_attention else torch.randn(batch, kv_len, kdim)
        self.value = self.query if self_attention else torch.randn(batch, kv_len, vdim)

        # PyTorch: true = ignore. A row that ignores every key is NaN there: every query keeps key 0.
        self.torch_masks, self.tensors, self.metadata = {}, {}, {"causal": "0", "q_start": "0"}
        mask = g.choice(["none", "ignore", "bias", "padding", "causal", "per_head"])
        if mask in ("ignore", "per_head"):
            heads = self.num_heads if mask == "per_head" else 1
            ignore = torch.tensor(g.random((batch if heads > 1 else 1, heads, q_len, kv_len)) < 0.4)
            ignore[..., 0] = False
            self.torch_masks["attn_mask"] = ignore.flatten(0, 1) if heads > 1 else ignore[0, 0]
            self.tensors["keep"] = (~ignore).float()
        if mask == "bias":
            bias = torch.randn(q_len, kv_len)
            self.torch_masks["attn_mask"] = bias
            self.tensors["attn_bias"] = bias[None, None]
        if mask == "padding":
            lengths = torch.tensor(g.integers(1, kv_len + 1, batch))
            self.torch_masks["key_padding_mask"] = torch.arange(kv_len)[None] >= lengths[:, None]
            self.tensors["valid_lens"] = lengths.float()
        if mask == "causal":  # upper left
            self.torch_masks["attn_mask"] = torch.ones(q_len, kv_len, dtype=torch.bool).triu(1)
            self.metadata["causal"] = "1"
        self.name = f"seed {seed}: {mask}, heads {self.num_heads}, embed {embed_dim}, lengths {q_len} {kv_len}"

    def projections(self):
        layer, e = self.layer, self.layer.embed_dim
        packed = layer.in_proj_weight
        weights = packed.split(e) if packed is not None else (
            layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight)
        result = {f"{name}.weight": w for name, w in zip(("q_proj", "k_proj", "v_proj"), weights)}
        result["out_proj.weight"] = layer.out_proj.weight
        if layer.in_proj_bias is not None:
            result |= {f"{name}.bias": b for name, b in zip(("q_proj", "k_proj", "v_proj"), layer.in_proj_bias.split(e))}
            result["out_proj.bias"] = layer.out_proj.bias
        return result

    def expected(self):
        with torch.no_grad():
            out, weights = self.layer(self.query, self.key, self.value, need_weights=True, average_attn_weights=False,
                                      **self.torch_masks)
        return out.numpy(), weights.numpy()

    def got(self, folder):
        tensors = self.projections() | self.tensors | {"query": self.query, "key": self.key, "value": self.value}
        metadata = self.metadata | {"num_heads": str(self.num_heads), "num_kv_heads": str(self.num_heads)}
        save_file({n: np.ascontiguousarray(t.detach().numpy(), np.float32) for n, t in tensors.items()},
                  folder / "in.safetensors", metadata)
        subprocess.run([DRIVER, folder / "in.safetensors", folder], check=True)
        return np.load(folder / "out.npy"), np.load(folder / "attn_weights.npy")


@pytest.mark.parametrize("seed", range(NUM_CONFIGURATIONS))
def test_agrees_with_pytorch(seed, tmp_path):
    configuration = Configuration(seed)
    expected_out, expected_weights = configuration.expected()
    out, weights = configuration.got(tmp_path)
    np.testing.assert_allclose(out, expected_out, rtol=TOLERANCE, atol=TOLERANCE, err_msg=configuration.name)
    np.testing.assert_allclose(weights, expected_weights, rtol=0, atol=TOLERANCE, err_msg=configuration.name)
