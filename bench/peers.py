"""Times qkv beside PyTorch in one process, call by call, and prints the ratios.

  make bench                              builds what this needs and runs it with --quick
  .venv/bin/python bench/peers.py --quick under three minutes: a few cells of each kind
  .venv/bin/python bench/peers.py         every cell
      --threads 1 2        numbers of threads           --only attention|rows|additive|linear
      --json FILE          write the results            --repeat N    pairs of a cell (default 15)

Each cell: the results are compared first (but for dropout, which has no peer here); then qkv, the peer, and a loop of nothing but FMAs on the same SIMD target and
threads take turns. Printed are medians: `of FMA` = qkv's flops (of the keys that are seen) over the loop beside it, `ratio` =
peer's time / qkv's time of the same round, with the middle half of the rounds in brackets.
"""

import argparse
import ctypes
import json
import os
import pathlib
import statistics
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

LIBRARY = pathlib.Path(__file__).resolve().parent.parent / "build" / "bench" / "bench" / "libqkv_shim.so"


class Call(ctypes.Structure):
    """QkvAttentionCall of shim.cc."""

    _fields_ = [(name, ctypes.c_int64) for name in ("batch", "num_heads", "num_kv_heads", "q_len", "kv_len", "head_dim",
                                                    "v_head_dim", "is_interleaved", "is_causal")]
    _fields_ += [(name, ctypes.c_void_p) for name in ("valid_lens", "keep", "attn_bias", "documents")]
    _fields_ += [("dropout", ctypes.c_double)] + [(name, ctypes.c_void_p) for name in ("w_q", "w_k", "w_v")]
    _fields_ += [("hidden_dim", ctypes.c_int64)]


class Qkv:
    def __init__(self, path):
        self.lib = ctypes.CDLL(str(path))
        self.lib.qkv_target.restype = ctypes.c_char_p
        self.lib.qkv_fma_gflops.restype = ctypes.c_double
        self.lib.qkv_fma_gflops.argtypes = [ctypes.c_int64, ctypes.c_double]
        self.lib.qkv_attention.argtypes = [ctypes.POINTER(Call)] + [ctypes.c_void_p] * 4
        self.lib.qkv_linear.argtypes = [ctypes.c_int64] * 3 + [ctypes.c_void_p] * 4
        self.threads = 1

    def set_threads(self, threads):
        self.threads = threads
        self.lib.qkv_set_threads(ctypes.c_int64(threads))
        torch.set_num_threads(threads)

    def fma_gflops(self):
        return self.lib.qkv_fma_gflops(self.threads, 0.02)


def seconds_of(function, calls):
    begin = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - begin) / calls


def run_cell(qkv, cell, ours, peer, flops, repeat):
    """Interleaves `ours`, `peer` (or nothing) and the FMA loop; returns `cell` with the figures."""
    ours()
    calls = max(1, min(2000, round(0.03 / max(1e-6, seconds_of(ours, 3)))))
    rounds = []
    for _ in range(repeat):
        fma = qkv.fma_gflops()
        mine = seconds_of(ours, calls)
        rounds.append((mine, seconds_of(peer, calls) if peer else None, flops / mine / 1e9 / fma))
    ratios = sorted(p / m for m, p, _ in rounds) if peer else None
    return cell | {
        "dtype": "f32", "threads": qkv.threads, "target": qkv.lib.qkv_target().decode(), "pass": "forward",
        "qkv_ms": statistics.median(m for m, _, _ in rounds) * 1e3,
        "peer_ms": statistics.median(p for _, p, _ in rounds) * 1e3 if peer else None,
        "ratio": statistics.median(ratios) if peer else None,
        "ratio_low": ratios[len(ratios) // 4] if peer else None,
        "ratio_high": ratios[-1 - len(ratios) // 4] if peer else None,
        "percent_of_fma": 100 * statistics.median(f for _, _, f in rounds),
    }


def check_equal(name, got, expected, tolerance=1e-4):
    error = (got - expected).abs().max().item()
    if not error <= tolerance:
        sys.exit(f"{name}: results differ by {error}")


def sdpa_path(q, k, v, mask, is_causal):
    choice = torch._fused_sdp_choice(q, k, v, attn_mask=mask, dropout_p=0.0, is_causal=is_causal)
    return {0: "math", 1: "flash", 2: "efficient"}.get(int(choice), str(choice))


def attention_cell(qkv, args, batch, heads, length, dim, mask="full", layout="packed", with_peer=True):
    generator = torch.Generator().manual_seed(length + dim)
    shape = (batch, length, heads, dim) if layout == "interleaved" else (batch, heads, length, dim)
    q, k, v = (torch.randn(shape, generator=generator) for _ in range(3))
    out = torch.empty(shape)
    call = Call(batch, heads, heads, length, length, dim, dim, layout == "interleaved", mask == "causal")
    seen = 0.5 if mask == "causal" else 1.0
    keep = bias = None
    held = []

    def pointer(tensor):
        held.append(tensor)
        return tensor.data_ptr()

    if mask == "padded":
        lengths = torch.tensor([max(1, length - (b * 7 + 3) % max(2, length // 2)) for b in range(batch)])
        call.valid_lens = pointer(lengths)
        keep = torch.arange(length)[None, None, None] < lengths[:, None, None, None]
        seen = lengths.double().mean().item() / length
    elif mask == "random":
        keep = torch.rand((1, heads, length, length), generator=generator) < 0.5
        call.keep = pointer(keep)
    elif mask == "bias":
        bias = torch.randn((1, heads, length, length), generator=generator)
        call.attn_bias = pointer(bias)
    elif mask.startswith("documents"):
        ids = torch.arange(length) * 8 // length
        keep = (ids[:, None] == ids)[None, None].expand(1, heads, length, length).contiguous()
        if mask == "documents_ids":
            call.documents = pointer(ids)
        else:
            call.keep = pointer(keep)
    elif mask == "dropout":
        call.dropout = 0.1
    if keep is not None and mask != "padded":
        seen = keep.double().mean().item()
    heads_first = [x.transpose(1, 2) if layout == "interleaved" else x for x in (q, k, v)]
    additive = keep if bias is None else bias

    def ours():
        qkv.lib.qkv_attention(ctypes.byref(call), q.data_ptr(), k.data_ptr(), v.data_ptr(), out.data_ptr())

    def peer():
        return F.scaled_dot_product_attention(*heads_first, attn_mask=additive, is_causal=mask == "causal")

    with torch.no_grad():
        if mask != "dropout":
            ours()
            got = out.transpose(1, 2) if layout == "interleaved" else out
            check_equal(f"{mask} {shape}", got, peer())
        cell = {"kind": "attention", "batch": batch, "heads": heads, "q_len": length, "kv_len": length, "head_dim": dim,
                "mask": mask, "layout": layout, "peer": "torch sdpa " + sdpa_path(*heads_first, additive, mask == "causal")}
        flops = 4.0 * batch * heads * length * length * dim * seen
        return run_cell(qkv, cell, ours, peer if with_peer and mask != "dropout" else None, flops, args.repeat)


def single_cell(kind, q_len, kv_len, head_dim, peer):
    """Of one batch entry and one head, without a mask. Of a Linear: tokens, in_dim, out_dim."""
    return {"kind": kind, "batch": 1, "heads": 1, "q_len": q_len, "kv_len": kv_len, "head_dim": head_dim,
            "mask": "full", "layout": "packed", "peer": peer}


def additive_cell(qkv, args, length, hidden):
    """One head of additive attention beside the usual broadcast in PyTorch."""
    generator = torch.Generator().manual_seed(length)
    q, k, v = (torch.randn((1, 1, length, hidden), generator=generator) for _ in range(3))
    w_q, w_k = (torch.randn((hidden, hidden), generator=generator) / hidden**0.5 for _ in range(2))
    w_v = torch.randn(hidden, generator=generator)
    out = torch.empty_like(v)
    call = Call(1, 1, 1, length, length, hidden, hidden)
    call.w_q, call.w_k, call.w_v, call.hidden_dim = w_q.data_ptr(), w_k.data_ptr(), w_v.data_ptr(), hidden

    def ours():
        qkv.lib.qkv_attention(ctypes.byref(call), q.data_ptr(), k.data_ptr(), v.data_ptr(), out.data_ptr())

    def peer():
        features = torch.tanh((q @ w_q.T)[:, :, :, None] + (k @ w_k.T)[:, :, None])
        return torch.softmax(features @ w_v, dim=-1) @ v

    with torch.no_grad():
        ours()
        check_equal(f"additive {length}", out, peer())
        cell = single_cell("additive", length, length, hidden, "torch broadcast")
        return run_cell(qkv, cell, ours, peer, 2.0 * length * length * hidden, args.repeat)


def linear_cell(qkv, args, tokens, in_dim, out_dim):
    x, w, bias = torch.randn(tokens, in_dim), torch.randn(out_dim, in_dim) / in_dim**0.5, torch.randn(out_dim)
    y = torch.empty(tokens, out_dim)

    def ours():
        qkv.lib.qkv_linear(tokens, in_dim, out_dim, x.data_ptr(), w.data_ptr(), bias.data_ptr(), y.data_ptr())

    def peer():
        return F.linear(x, w, bias)

    with torch.no_grad():
        ours()
        check_equal(f"linear {tokens}x{in_dim}x{out_dim}", y, peer())
        cell = single_cell("linear", tokens, in_dim, out_dim, "torch F.linear")
        return run_cell(qkv, cell, ours, peer, 2.0 * tokens * in_dim * out_dim, args.repeat)


def grid(quick):
    """Cells against the peer: (batch, heads, len, dim, mask)."""
    lengths = (64, 128, 512) if quick else (16, 64, 128, 197, 512, 1024, 4096)
    dims = (64,) if quick else (32, 40, 64, 80, 96, 128, 256)
    groups = ((1, 8),) if quick else ((1, 1), (1, 8), (32, 12))
    for batch, heads in groups:
        for length in lengths:
            if batch == 32 and length > 512:
                continue
            for dim in dims:
                for mask in ("full", "causal", "padded"):
                    if batch * heads * length * length * dim < 2e10:  # more than a second on two cores
                        yield batch, heads, length, dim, mask


def rows(quick):
    """The rows of the table of targets: (len, dim, mask, layout), 8 heads."""
    for length, dim in ((128, 64), (512, 64), (1024, 64), (4096, 64), (1024, 128), (4096, 128), (4096, 32)):
        if not quick or length < 4096:
            yield length, dim, "full", "packed"
    for length in (128, 512) if quick else (128, 512, 4096):
        yield length, 64, "causal", "packed"
    length = 512 if quick else 1024
    yield length, 64, "full", "interleaved"
    for mask in ("random", "bias", "documents", "documents_ids", "dropout"):
        yield length, 64, mask, "packed"


def cells(qkv, args):
    if args.only in (None, "rows"):
        for length, dim, mask, layout in rows(args.quick):
            yield attention_cell(qkv, args, 1, 8, length, dim, mask, layout)
    if args.only in (None, "linear"):
        for in_dim, out_dim in ((384, 384), (384, 1536), (1536, 384), (768, 3072)):
            for tokens in (1, 4, 64, 128, 512):
                yield linear_cell(qkv, args, tokens, in_dim, out_dim)
    if args.only in (None, "additive"):
        for length in (256, 512) if args.quick else (256, 512, 1024):
            yield additive_cell(qkv, args, length, 64)
    if args.only in (None, "attention"):
        for cell in grid(args.quick):
            yield attention_cell(qkv, args, *cell)


def line(result):
    ratio = "" if result["ratio"] is None else (
        f"ratio {result['ratio']:5.2f} ({result['ratio_low']:.2f}-{result['ratio_high']:.2f}) {result['peer']}")
    return (f"{result['kind']:9} B={result['batch']} H={result['heads']} {result['q_len']}x{result['kv_len']} "
            f"d={result['head_dim']} {result['mask']:13} {result['layout']:11} {result['threads']} threads  "
            f"{result['qkv_ms']:9.4f} ms  {result['percent_of_fma']:5.1f} % of FMA  {ratio}")


def geometric_means(results):
    for mask in ("full", "causal", "padded"):
        ratios = [r["ratio"] for r in results if r["kind"] == "attention" and r["mask"] == mask and r["ratio"]]
        if ratios:
            print(f"{mask}: geometric mean {np.exp(np.mean(np.log(ratios))):.2f} over {len(ratios)} cells, "
                  f"least {min(ratios):.2f}, below 1: {sum(r < 1 for r in ratios)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--threads", type=int, nargs="+", default=None)
    parser.add_argument("--only", choices=("attention", "rows", "additive", "linear"))
    parser.add_argument("--repeat", type=int, default=None)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--library", default=LIBRARY, help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.repeat = args.repeat or (7 if args.quick else 15)
    qkv = Qkv(args.library)
    results = []
    for threads in args.threads or ((2,) if args.quick else (1, 2)):
        qkv.set_threads(min(threads, os.cpu_count()))
        for result in cells(qkv, args):
            results.append(result)
            print(line(result), flush=True)
    geometric_means(results)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
