"""`qkv attend` against torch.nn.functional.scaled_dot_product_attention on random configurations."""

import os
import subprocess

import numpy as np
import pytest
import torch

QKV = os.environ["QKV_BINARY"]
TOLERANCE = 1e-5
NUM_CONFIGURATIONS = 100


class Configuration:
    """Random tensors, and one mask in PyTorch's words and in those of the command."""

    def __init__(self, seed):
        g = np.random.default_rng(1000 + seed)
        torch.manual_seed(seed)
        batch, num_heads = int(g.integers(1, 4)), int(g.choice([1, 2, 4, 6]))
        num_kv_heads = int(g.choice([n for n in (1, 2, 3, num_heads) if num_heads % n == 0]))
        q_len, kv_len = int(g.integers(1, 130)), int(g.integers(1, 130))
        head_dim, v_head_dim = (int(n) for n in g.choice([1, 5, 16, 33, 64, 80], 2))
        self.q = torch.randn(batch, num_heads, q_len, head_dim)
        self.k = torch.randn(batch, num_kv_heads, kv_len, head_dim)
        self.v = torch.randn(batch, num_kv_heads, kv_len, v_head_dim)
        self.torch_options, self.files, self.options = {"enable_gqa": True}, {}, []
        mask = g.choice(["none", "keep", "padding", "bias", "causal", "scale"])
        if mask in ("keep", "padding"):
            keep = torch.tensor(g.random((batch, 1, 1 if mask == "padding" else q_len, kv_len)) < 0.6)
            self.torch_options["attn_mask"] = self.files["--keep"] = keep
        if mask == "bias":
            self.torch_options["attn_mask"] = self.files["--attn-bias"] = torch.randn(1, num_heads, q_len, kv_len)
        if mask == "causal":  # PyTorch aligns upper left
            self.torch_options["is_causal"] = True
            self.options += ["--causal", "--q-start", "0"]
        if mask == "scale":
            self.torch_options["scale"] = 0.37
            self.options += ["--scale", "0.37"]
        self.name = f"seed {seed}: {mask}, q {tuple(self.q.shape)}, k {tuple(self.k.shape)}, v {v_head_dim}"

    def expected(self):
        return torch.nn.functional.scaled_dot_product_attention(self.q, self.k, self.v, **self.torch_options).numpy()

    def got(self, folder):
        operands = []
        for name, tensor in (("q", self.q), ("k", self.k), ("v", self.v)):
            operands.append(folder / f"{name}.npy")
            np.save(operands[-1], tensor.numpy())
        options = list(self.options)
        for option, tensor in self.files.items():
            path = folder / f"mask{len(options)}.npy"
            np.save(path, tensor.numpy())
            options += [option, path]
        subprocess.run([QKV, "attend", *operands, "--out", folder / "out.npy", *options], check=True)
        return np.load(folder / "out.npy")


@pytest.mark.parametrize("seed", range(NUM_CONFIGURATIONS))
def test_agrees_with_pytorch(seed, tmp_path):
    configuration = Configuration(seed)
    np.testing.assert_allclose(configuration.got(tmp_path), configuration.expected(), rtol=TOLERANCE, atol=TOLERANCE,
                               err_msg=configuration.name)
