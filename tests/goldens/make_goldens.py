"""Writes the golden files in tests/data that the C++ tests compare with.

    .venv/bin/python tests/goldens/make_goldens.py

Needs torch, transformers and safetensors (tools/requirements-torch.txt). Weights and inputs are random numbers in float32
from a fixed seed; results are what PyTorch computes from them in float64, rounded to float32. Boolean masks keep
PyTorch's own sense, which the name of each tensor says. Versions stand in each file's metadata.
Running it again with the same versions on the same kind of machine gives the same bytes.
"""

import json
import pathlib

import safetensors.torch
import torch
import transformers

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
# One entry only: the order of several differs from run to run, and with it the bytes of the file.
METADATA = {"made_by": f"make_goldens.py, torch {torch.__version__}, transformers {transformers.__version__}"}


def save(name, tensors):
    """Writes tensors, those of float64 as float32."""
    stored = {}
    for key, tensor in tensors.items():
        dtype = torch.float32 if tensor.is_floating_point() else tensor.dtype
        stored[key] = tensor.detach().to(dtype).contiguous().clone()
    path = DATA / name
    path.parent.mkdir(parents=True, exist_ok=True)
    safetensors.torch.save_file(stored, path, METADATA)
    print(f"{path.stat().st_size:8d} bytes  {path.relative_to(DATA.parent.parent)}")


def randomise(module, generator):
    """Gives every parameter random float32 values (PyTorch starts biases at 0 and norms at 1, which hides mistakes)."""
    with torch.no_grad():
        for parameter in module.parameters():
            fan_in = parameter.shape[-1] if parameter.dim() > 1 else 1
            values = torch.randn(parameter.shape, generator=generator, dtype=torch.float32) / fan_in**0.5
            parameter.copy_(values)


def normal(generator, *shape):
    """Random float32 values, as float64 so that everything computed from them is exact in its inputs."""
    return torch.randn(*shape, generator=generator, dtype=torch.float32).double()


def attention_case(generator, embed_dim, num_heads, query, key, value, bias=True, masks=None):
    """One call of nn.MultiheadAttention: weights, inputs, masks, out, per-head weights."""
    module = torch.nn.MultiheadAttention(
        embed_dim, num_heads, bias=bias, kdim=key.shape[-1], vdim=value.shape[-1], batch_first=True, dtype=torch.float64
    )
    randomise(module, generator)
    masks = masks or {}
    out, attn_weights = module(query, key, value, need_weights=True, average_attn_weights=False, **masks)
    case = {"query": query, "key": key, "value": value, "out": out, "attn_weights": attn_weights}
    case.update(masks)
    case.update(module.state_dict())
    return case


def make_multi_head_attention():
    """Self and cross attention, packed and separate projections, masks that hide and masks that keep."""
    g = torch.Generator().manual_seed(20)
    x = normal(g, 2, 7, 24)
    hidden_keys = torch.zeros(2, 7, dtype=torch.bool)
    hidden_keys[0, 5:] = True
    hidden_keys[1, 2:] = True
    hidden_pairs = torch.rand(7, 7, generator=g) < 0.3
    hidden_pairs.fill_diagonal_(False)
    per_head = torch.rand(6, 7, 7, generator=g) < 0.3  # [batch * heads, q_len, kv_len]
    per_head[:, :, 0] = False
    additive = normal(g, 7, 7)
    additive[torch.triu(torch.ones(7, 7, dtype=torch.bool), 1)] = float("-inf")
    query, key, value = normal(g, 2, 5, 24), normal(g, 2, 9, 10), normal(g, 2, 9, 14)

    cases = {
        "self": attention_case(g, 24, 3, x, x, x),
        "self_without_bias": attention_case(g, 24, 3, x, x, x, bias=False),
        "hidden_keys": attention_case(g, 24, 3, x, x, x, masks={"key_padding_mask": hidden_keys}),
        "hidden_pairs": attention_case(g, 24, 3, x, x, x, masks={"attn_mask": hidden_pairs}),
        "hidden_per_head": attention_case(g, 24, 3, x, x, x, masks={"attn_mask": per_head}),
        "additive": attention_case(g, 24, 3, x, x, x, masks={"attn_mask": additive}),
        "cross": attention_case(g, 24, 4, query, x, x),
        "cross_separate": attention_case(g, 24, 4, query, key, value),
    }

    # The same layer with the mask as scaled_dot_product_attention reads it: true = may attend.
    kept = attention_case(g, 24, 3, x, x, x)
    kept["keep"] = ~hidden_pairs
    q, k, v = (
        torch.nn.functional.linear(x, w, b).unflatten(-1, (3, 8)).transpose(1, 2)
        for w, b in zip(kept["in_proj_weight"].chunk(3), kept["in_proj_bias"].chunk(3))
    )
    heads = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=~hidden_pairs)
    kept["out"] = torch.nn.functional.linear(
        heads.transpose(1, 2).flatten(2), kept["out_proj.weight"], kept["out_proj.bias"]
    )
    del kept["attn_weights"]
    cases["kept_pairs"] = kept

    save("multi_head_attention.safetensors", {f"{c}.{n}": t for c, ts in cases.items() for n, t in ts.items()})


def make_transformer_block():
    """nn.TransformerEncoderLayer, norm before and after, both activations, with padding."""
    g = torch.Generator().manual_seed(21)
    tensors = {}
    for placement in ("post", "pre"):
        for activation in ("gelu", "relu"):
            module = torch.nn.TransformerEncoderLayer(
                24, 3, 40, 0, activation, batch_first=True, norm_first=placement == "pre", dtype=torch.float64
            )
            randomise(module, g)
            x = normal(g, 2, 6, 24)
            hidden = torch.zeros(2, 6, dtype=torch.bool)
            hidden[1, 4:] = True
            # With gradients on, so that the layer computes padding's own rows instead of leaving them out.
            case = {"x": x, "valid_lens": torch.tensor([6, 4]), "out": module(x, src_key_padding_mask=hidden)}
            case.update(module.state_dict())
            tensors.update({f"{placement}_{activation}.{name}": tensor for name, tensor in case.items()})
    save("transformer_block.safetensors", tensors)


def make_bert():
    """A toy transformers BertModel in its own folder format, and what it makes of two padded sequences."""
    g = torch.Generator().manual_seed(22)
    config = transformers.BertConfig(
        vocab_size=40,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=40,
        hidden_act="gelu_new",
        max_position_embeddings=12,
        attn_implementation="eager",
    )
    model = transformers.BertModel(config).eval()
    randomise(model, g)
    folder = DATA / "toy_bert"
    model.save_pretrained(folder)
    written = json.loads((folder / "config.json").read_text())
    print(f"{(folder / 'model.safetensors').stat().st_size:8d} bytes  {folder.relative_to(DATA.parent.parent)}, "
          f"model_type {written['model_type']}")

    tokens = torch.randint(0, 40, (2, 9), generator=g)
    token_types = torch.randint(0, 2, (2, 9), generator=g)
    valid_lens = torch.tensor([9, 5])
    keep = (torch.arange(9)[None] < valid_lens[:, None]).long()
    with torch.no_grad():
        output = model.double()(
            input_ids=tokens,
            token_type_ids=token_types,
            attention_mask=keep,
            output_hidden_states=True,
            output_attentions=True,
        )
    tensors = {"tokens": tokens, "token_types": token_types, "valid_lens": valid_lens}
    tensors.update({f"hidden_states.{n}": state for n, state in enumerate(output.hidden_states)})
    tensors.update({f"attn_weights.{n}": weights for n, weights in enumerate(output.attentions)})
    save("toy_bert/expected.safetensors", tensors)


if __name__ == "__main__":
    make_multi_head_attention()
    make_transformer_block()
    make_bert()
