"""One function for each kind of cell: makes the problem, compares the results, lets everyone take turns.

Each returns a list of objects, one for each peer, with the fields that README.md names.
"""

import dataclasses
import itertools

import torch
import torch.nn.functional as F

import torch_loop
from problems import Inputs, Problem
from rounds import Contestant, Rate, check_equal, compete, fma_rate

# A cell of the grid that a peer wins is measured again with so many rounds, and lost if the median stays below.
ROUNDS_AGAIN = 30
LOST_BELOW = 0.97


@dataclasses.dataclass
class Bench:
    """What all cells need: the shim, who else is there, and how often everyone takes a turn."""

    shim: object
    peers: object
    repeat: int
    build_folder: object

    def set_threads(self, threads):
        self.shim.set_threads(threads)
        torch.set_num_threads(threads)

    def facts(self, **more):
        return {"pass": "forward", "dtype": "f32", "batch": 1, "heads": 1, "mask": "full", "layout": "packed",
                "threads": self.shim.threads, "target": self.shim.target()} | more


def attention_of(shim, inputs):
    """qkv on a problem."""
    out = torch.empty(inputs.shape, dtype=inputs.q.dtype)
    call = shim.attention(inputs.call, *inputs.memory, out)

    def result():
        call()
        return inputs.heads_first(out)

    return Contestant("qkv", call, result)


def plain_qkv(shim, problem):
    """qkv on the same shape, packed and without a mask: what a mask or a layout costs."""
    inputs = Inputs(dataclasses.replace(problem, mask="full", layout="packed"))
    return Contestant("qkv full", attention_of(shim, inputs).call, path="packed")


def attention_cell(bench, problem, with_jax=False, beside_plain=False, again=False):
    """Attention of one shape and mask.

    Args:
      beside_plain: qkv without the mask takes part as well.
      again: as of the grid, see ROUNDS_AGAIN.
    """
    inputs = Inputs(problem)
    ours = attention_of(bench.shim, inputs)
    # Nobody else drops the same weights.
    peers = [] if problem.mask == "dropout" else bench.peers.of(inputs, bench.shim.threads, with_jax)
    check_equal(f"{problem}", ours, peers, 1e-10 if problem.dtype == "f64" else 1e-4)
    if beside_plain:
        peers.append(plain_qkv(bench.shim, problem))
    flops = 4.0 * problem.batch * problem.heads * problem.length**2 * problem.dim * inputs.seen
    rates = [fma_rate(bench.shim, flops, problem.dtype)]
    facts = bench.facts(**problem.facts())
    results = compete(facts, ours, peers, rates, bench.repeat)
    if again and min(result["ratio"] for result in results) < 1:
        results = compete(facts, ours, peers, rates, ROUNDS_AGAIN)
    return results


def additive_cell(bench, length, hidden):
    """One head of additive attention beside the usual broadcast in PyTorch."""
    generator = torch.Generator().manual_seed(length)
    inputs = Inputs(Problem(1, 1, length, hidden))
    w_q, w_k = (torch.randn((hidden, hidden), generator=generator) / hidden**0.5 for _ in range(2))
    w_v = torch.randn(hidden, generator=generator)
    call = inputs.call
    call.w_q, call.w_k, call.w_v, call.hidden_dim = w_q.data_ptr(), w_k.data_ptr(), w_v.data_ptr(), hidden

    def broadcast():
        features = torch.tanh((inputs.q @ w_q.T)[:, :, :, None] + (inputs.k @ w_k.T)[:, :, None])
        return torch.softmax(features @ w_v, dim=-1) @ inputs.v

    ours, peers = attention_of(bench.shim, inputs), [Contestant("torch broadcast", broadcast, broadcast)]
    check_equal(f"additive {length}", ours, peers, 1e-4)
    facts = bench.facts(**inputs.problem.facts())
    return compete(facts, ours, peers, [fma_rate(bench.shim, 2.0 * length**2 * hidden)], bench.repeat)


def linear_facts(bench, tokens, in_dim, out_dim):
    return bench.facts(q_len=tokens, kv_len=in_dim, head_dim=out_dim)


def linear_cell(bench, tokens, in_dim, out_dim):
    """A Linear layer beside F.linear, its weights where the last call left them."""
    generator = torch.Generator().manual_seed(tokens)
    x, w, bias = (torch.randn(shape, generator=generator) for shape in ((tokens, in_dim), (out_dim, in_dim), (out_dim,)))
    w /= in_dim**0.5
    y = torch.empty(tokens, out_dim)
    call = bench.shim.linear(x, w, bias, y)

    def linear():
        return F.linear(x, w, bias)

    ours, peers = Contestant("qkv", call, lambda: (call(), y)[1]), [Contestant("torch F.linear", linear, linear)]
    check_equal(f"linear {tokens}x{in_dim}x{out_dim}", ours, peers, 1e-4)
    facts = linear_facts(bench, tokens, in_dim, out_dim)
    return compete(facts, ours, peers, [fma_rate(bench.shim, 2.0 * tokens * in_dim * out_dim)], bench.repeat)


class Cycle:
    """1 GiB of weights [num_layers, out_dim, in_dim], far more than any cache holds, for layers that are called in turn."""

    IN_DIM, OUT_DIM = 768, 3072
    NUM_LAYERS = 2**30 // (4 * IN_DIM * OUT_DIM)

    def __init__(self):
        shape = (self.NUM_LAYERS, self.OUT_DIM, self.IN_DIM)
        generator = torch.Generator().manual_seed(1)
        self.weights = torch.randn(shape, generator=generator).div_(self.IN_DIM**0.5)
        self.bias = torch.randn(self.OUT_DIM, generator=generator)

    def qkv(self, shim, x):
        outs = torch.empty(self.NUM_LAYERS, x.shape[0], self.OUT_DIM)
        calls = [shim.linear(x, w, self.bias, out) for w, out in zip(self.weights, outs)]

        def call():
            for layer in calls:
                layer()
            return outs

        return Contestant("qkv", call, call)

    def torch(self, x):
        layers = list(self.weights)

        def call():
            return [F.linear(x, w, self.bias) for w in layers]

        return Contestant("torch F.linear", call, lambda: torch.stack(call()))


def cycle_cell(bench, cycle, tokens):
    """A pass over 1 GiB of weights beside F.linear on the same weights and a loop that only reads them."""
    x = torch.randn(tokens, cycle.IN_DIM, generator=torch.Generator().manual_seed(tokens))
    ours, peers = cycle.qkv(bench.shim, x), [cycle.torch(x)]
    check_equal(f"linear cycle {tokens}", ours, peers, 1e-4)
    num_weights = cycle.weights.numel()
    rates = [fma_rate(bench.shim, 2.0 * tokens * num_weights),
             Rate("percent_of_read_bandwidth", 4.0 * num_weights, lambda _: bench.shim.read_gbytes(cycle.weights) * 1e9)]
    facts = linear_facts(bench, tokens, cycle.IN_DIM, cycle.OUT_DIM)
    return compete(facts, ours, peers, rates, bench.repeat)


def tiny_cell(bench):
    """One query, one key, one head of 16, on the calling thread: what a call costs that computes next to nothing.

    qkv is called by a loop in C. PyTorch is called by the fastest loop there is in Python, and by one in C++.
    """
    dim = 16
    generator = torch.Generator().manual_seed(dim)
    q, k, v = (torch.randn((1, 1, 1, dim), generator=generator) for _ in range(3))
    out = torch.empty_like(v)
    pointers = [x.data_ptr() for x in (q, k, v)]
    tiny, loop = bench.shim.lib.qkv_tiny_call_seconds, torch_loop.load(bench.build_folder).torch_tiny_call_seconds
    sdpa = F.scaled_dot_product_attention

    def python_call():
        for _ in itertools.repeat(None, 100):
            sdpa(q, k, v)

    def seconds_in_python(calls):
        return Contestant("", python_call).seconds_of(-(-calls // 100)) / 100

    ours = Contestant("qkv", lambda: tiny(dim, *pointers, out.data_ptr(), 1), seconds=lambda calls: tiny(
        dim, *pointers, out.data_ptr(), calls))
    peers = [Contestant("torch sdpa from Python", python_call, seconds=seconds_in_python),
              Contestant("torch sdpa from C++", lambda: loop(dim, *pointers, 1),
                         seconds=lambda calls: loop(dim, *pointers, calls))]
    ours.call()
    if not torch.allclose(out, sdpa(q, k, v)):
        raise SystemExit("tiny call: torch sdpa differs from qkv")
    facts = bench.facts(q_len=1, kv_len=1, head_dim=dim)
    return compete(facts, ours, peers, [fma_rate(bench.shim, 4.0 * dim)], bench.repeat)
