"""Times qkv beside PyTorch, ONNX Runtime and JAX in one process, call by call, and prints the ratios.

  make bench                              builds what this needs and runs it with --quick
  .venv/bin/python bench/peers.py --quick under three minutes: a few cells of each kind
  .venv/bin/python bench/peers.py         every cell
      --threads 1 2   numbers of threads         --only KIND [KIND ...]   some kinds of cells only
      --json FILE     write the results          --repeat N               rounds of a cell (default 15)
      --model DIR     the folder of all-MiniLM-L6-v2, for the kind minilm
      --lengths N [N ...], --dims D [D ...]      these of the grid only

Kinds: rows (the tables of README.md), f64, linear, bandwidth (Linear over 1 GiB of weights), additive, tiny, minilm,
attention (the grid of shapes). README.md says what the figures mean.
"""

import argparse
import json
import math
import os
import pathlib

try:
    import torch
except ModuleNotFoundError:
    raise SystemExit("peers.py: PyTorch is not installed here; make bench installs all that is needed into .venv")

from cells import LOST_BELOW, Bench, Cycle, additive_cell, attention_cell, cycle_cell, linear_cell, tiny_cell
from minilm import MiniLm, minilm_cell
from problems import Problem
from qkv_shim import Shim
from peer_calls import Peers

BUILD = pathlib.Path(__file__).resolve().parent.parent / "build" / "bench" / "bench"
# A cell of the grid is in if a call takes under a second on two cores.
MOST_PRODUCTS = 2e10


def rows(args):
    """The tables of README.md: 8 heads."""
    for length, dim in ((128, 64), (512, 64), (1024, 64), (4096, 64), (1024, 128), (4096, 128), (4096, 32)):
        if not args.quick or length < 4096:
            yield Problem(1, 8, length, dim)
    for length in (128, 512) if args.quick else (128, 512, 4096):
        yield Problem(1, 8, length, 64, "causal")
    length = 512 if args.quick else 1024
    yield Problem(1, 8, length, 64, layout="interleaved")
    for mask in ("random", "bias", "documents", "documents_ids", "dropout"):
        yield Problem(1, 8, length, 64, mask)


def row_cells(bench, args):
    for problem in rows(args):
        is_plain = problem.mask in ("full", "causal") and problem.layout == "packed"
        yield attention_cell(bench, problem, with_jax=is_plain and problem.length <= 1024, beside_plain=not is_plain)


def f64_cells(bench, args):
    yield attention_cell(bench, Problem(1, 8, 512 if args.quick else 1024, 64, dtype="f64"))


def linear_cells(bench, args):
    for in_dim, out_dim in ((384, 384), (384, 1536), (1536, 384), (768, 3072)):
        for tokens in (1, 64) if args.quick else (1, 4, 64, 128, 512):
            yield linear_cell(bench, tokens, in_dim, out_dim)


def bandwidth_cells(bench, args):
    cycle = Cycle()
    for tokens in (1, 4) if args.quick else (1, 4, 8, 16):
        yield cycle_cell(bench, cycle, tokens)


def additive_cells(bench, args):
    for length in (256,) if args.quick else (256, 512, 1024):
        yield additive_cell(bench, length, 64)


def tiny_cells(bench, args):
    threads = bench.shim.threads
    if threads == args.threads[-1]:  # once, since it takes the calling thread only
        bench.set_threads(1)
        yield tiny_cell(bench)
        bench.set_threads(threads)


def minilm_cells(bench, args):
    if args.model is None:
        print("left out: minilm (--model DIR names the folder; make model prints it)")
        return
    minilm = MiniLm(bench.shim, args.model)
    for batch in (1,) if args.quick else (1, 8):
        for num_tokens in (16, 128) if args.quick else (16, 128, 256, 512):
            yield minilm_cell(bench, minilm, batch, num_tokens)


def grid(args):
    """Shapes against the best peer."""
    lengths = (64, 512) if args.quick else (16, 64, 128, 197, 512, 1024, 4096)
    dims = (64,) if args.quick else (32, 40, 64, 80, 96, 128, 256)
    lengths, dims = args.lengths or lengths, args.dims or dims
    for batch, heads in ((1, 8),) if args.quick else ((1, 1), (1, 8), (32, 12)):
        for length in lengths:
            for dim in dims:
                is_in = batch * heads * length * length * dim < MOST_PRODUCTS and (batch == 1 or length <= 512)
                for mask in ("full", "causal", "padded") if is_in else ():
                    yield Problem(batch, heads, length, dim, mask)


def attention_cells(bench, args):
    for problem in grid(args):
        yield attention_cell(bench, problem, again=True)


KINDS = {"rows": row_cells, "f64": f64_cells, "linear": linear_cells, "bandwidth": bandwidth_cells,
         "additive": additive_cells, "tiny": tiny_cells, "minilm": minilm_cells, "attention": attention_cells}


def line(result):
    parts = [f"{result['kind']:9} {result['dtype']} B={result['batch']} H={result['heads']} {result['q_len']}x{result['kv_len']} "
             f"d={result['head_dim']} {result['mask']:13} {result['layout']:11} {result['threads']} threads",
             f"{result['qkv_ms']:9.4f} ms", f"{result['percent_of_fma']:5.1f} % of FMA"]
    if "percent_of_read_bandwidth" in result:
        parts.append(f"{result['percent_of_read_bandwidth']:5.1f} % of read bandwidth")
    if "tokens_per_second" in result:
        parts.append(f"{result['tokens_per_second']:.0f} tokens/s")
    if result["peer"]:
        parts.append(f"ratio {result['ratio']:5.2f} ({result['ratio_low']:.2f}-{result['ratio_high']:.2f}) "
                     f"{result['peer']} {result['peer_path']}")
    return "  ".join(parts)


def best_peers(results):
    """Of each cell of the grid, the ratio to the peer that was fastest there."""
    ratios = {}
    for r in results:
        if r["kind"] == "attention":
            cell = tuple(r[name] for name in ("mask", "threads", "batch", "heads", "q_len", "head_dim"))
            ratios[cell] = min(r["ratio"], ratios.get(cell, math.inf))
    return ratios


def print_means(results):
    ratios = best_peers(results)
    for mask in dict.fromkeys(cell[0] for cell in ratios):
        of_mask = [ratio for cell, ratio in ratios.items() if cell[0] == mask]
        mean = math.exp(sum(map(math.log, of_mask)) / len(of_mask))
        print(f"{mask}: geometric mean {mean:.2f} over {len(of_mask)} cells, against the best peer of each; "
              f"least {min(of_mask):.2f}, lost (below {LOST_BELOW}): {sum(ratio < LOST_BELOW for ratio in of_mask)}")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--threads", type=int, nargs="+")
    parser.add_argument("--only", choices=KINDS, nargs="+", default=list(KINDS), metavar="KIND")
    parser.add_argument("--repeat", type=int)
    parser.add_argument("--lengths", type=int, nargs="+", metavar="N")
    parser.add_argument("--dims", type=int, nargs="+", metavar="D")
    parser.add_argument("--json", metavar="FILE", type=pathlib.Path)
    parser.add_argument("--model", metavar="DIR", type=pathlib.Path)
    parser.add_argument("--build", default=BUILD, type=pathlib.Path, help="the folder with libqkv_shim.so")
    args = parser.parse_args()
    cpus = os.cpu_count()
    args.repeat = (5 if args.quick else 15) if args.repeat is None else args.repeat
    args.threads = args.threads or [min(threads, cpus) for threads in ((2,) if args.quick else (2, 1))]
    args.threads = sorted(set(args.threads), reverse=True)
    library = args.build / "libqkv_shim.so"
    for is_right, message in (
            (args.repeat >= 1, f"--repeat: got {args.repeat}, expected >= 1"),
            (args.threads[-1] >= 1 and args.threads[0] <= cpus, f"--threads: got {args.threads}, expected 1 to {cpus}"),
            ("attention" in args.only or not (args.lengths or args.dims), "--lengths and --dims are for --only attention"),
            (library.exists(), f"there is no {library}: make bench builds it"),
            (args.model is None or args.model.is_dir(), f"--model: there is no folder {args.model}"),
            (args.json is None or args.json.parent.is_dir(), f"--json: there is no folder for {args.json}")):
        if not is_right:
            parser.error(message)
    return args


@torch.inference_mode()
def main():
    args = parse_arguments()
    shim, peers = Shim(args.build / "libqkv_shim.so"), Peers()
    bench = Bench(shim, peers, args.repeat, args.build)
    for text in peers.left_out():
        print(text)
    results = []
    for threads in args.threads:
        bench.set_threads(threads)
        for kind in args.only:
            for cell in KINDS[kind](bench, args):
                objects = [{"kind": kind} | result for result in cell]
                results += objects
                print("\n".join(map(line, objects)), flush=True)
    print_means(results)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
