"""Attention of PyTorch, ONNX Runtime and JAX on the inputs of problems.py, each fed in the layout it likes best, without copies."""

import functools
import importlib
import importlib.util
import json
import os
import pathlib
import tempfile

import numpy as np
import torch
import torch.nn.functional as F

from rounds import Contestant


def is_installed(module):
    return importlib.util.find_spec(module) is not None


def torch_sdpa(inputs):
    mask = inputs.keep if inputs.attn_bias is None else inputs.attn_bias
    q, k, v, is_causal = inputs.q, inputs.k, inputs.v, inputs.is_causal
    choice = int(torch._fused_sdp_choice(q, k, v, attn_mask=mask, dropout_p=0.0, is_causal=is_causal))
    path = {0: "math", 1: "flash", 2: "efficient"}.get(choice, str(choice))

    def call():
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=is_causal)

    return Contestant("torch sdpa", call, call, path)


class OrtNode:
    """A session of one node, its inputs and its output bound to memory of ours."""

    def __init__(self, op, domain, arrays, out, attributes, threads):
        """arrays: the node's inputs in their order, None where one is absent; out: a torch tensor."""
        self.ort, onnx = importlib.import_module("onnxruntime"), importlib.import_module("onnx")
        self.arrays = {f"in{n}": array for n, array in enumerate(arrays) if array is not None}
        self.out = out
        names = [f"in{n}" if array is not None else "" for n, array in enumerate(arrays)]
        node = onnx.helper.make_node(op, names, ["out"], domain=domain, **attributes)
        graph = onnx.helper.make_graph(
            [node], "attention",
            [onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
             for name, array in self.arrays.items()],
            [onnx.helper.make_tensor_value_info("out", onnx.TensorProto.FLOAT, list(out.shape))])
        versions = [onnx.helper.make_opsetid("", 23), onnx.helper.make_opsetid("com.microsoft", 1)]
        model = onnx.helper.make_model(graph, opset_imports=versions)
        model.ir_version = 11  # of opset 23: the newest onnx writes may be one that ONNX Runtime does not read yet
        self.model, self.threads = model.SerializeToString(), threads
        self.session = self.make_session()
        self.binding = self.bind(self.session)

    def make_session(self, profile_prefix=None):
        options = self.ort.SessionOptions()
        options.intra_op_num_threads = self.threads
        if profile_prefix:
            options.enable_profiling, options.profile_file_prefix = True, profile_prefix
        return self.ort.InferenceSession(self.model, options, providers=["CPUExecutionProvider"])

    def bind(self, session):
        binding = session.io_binding()
        for name, array in self.arrays.items():
            binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
        binding.bind_output("out", "cpu", 0, np.float32, list(self.out.shape), self.out.data_ptr())
        return binding

    def call(self):
        self.session.run_with_iobinding(self.binding)

    def nodes_that_run(self):
        """The operators that ONNX Runtime's own profile of one run names: one that it has no kernel for comes in pieces."""
        with tempfile.TemporaryDirectory() as folder:
            session = self.make_session(str(pathlib.Path(folder, "run")))
            session.run_with_iobinding(self.bind(session))
            events = json.loads(pathlib.Path(session.end_profiling()).read_text(encoding="utf-8"))
        return " ".join(event["args"]["op_name"] for event in events
                        if event["cat"] == "Node" and event["name"].endswith("kernel_time"))


ort_paths = {}  # what ran, by operator and mask


def ort_contestant(name, mask, node, to_heads_first):
    if (name, mask) not in ort_paths:
        ort_paths[name, mask] = node.nodes_that_run()

    def result():
        node.call()
        return to_heads_first(node.out)

    return Contestant(name, node.call, result, f"node {ort_paths[name, mask]}")


def ort_multi_head_attention(inputs, threads):
    """com.microsoft.MultiHeadAttention: [batch, len, heads * dim], its own causal flag and key lengths."""
    p = inputs.problem
    q, k, v = (x.transpose(1, 2).reshape(p.batch, p.length, -1).numpy() for x in (inputs.q, inputs.k, inputs.v))
    lengths = bias = None
    if inputs.valid_lens is not None:
        lengths = inputs.valid_lens.to(torch.int32).numpy()
    elif inputs.keep is not None:
        bias = torch.zeros(inputs.keep.shape).masked_fill(~inputs.keep, -torch.inf).numpy()
    elif inputs.attn_bias is not None:
        bias = inputs.attn_bias.numpy()
    attributes = {"num_heads": p.heads, "unidirectional": int(inputs.is_causal)}
    node = OrtNode("MultiHeadAttention", "com.microsoft", [q, k, v, None, lengths, bias],
                   torch.empty(p.batch, p.length, p.heads * p.dim), attributes, threads)
    return ort_contestant("ort MultiHeadAttention", p.mask, node,
                          lambda out: out.unflatten(2, (p.heads, p.dim)).transpose(1, 2))


def ort_attention(inputs, threads):
    """Attention of ONNX itself (opset 23): [batch, heads, len, dim], its own causal flag, masks in full."""
    p = inputs.problem
    q, k, v = (x.contiguous().numpy() for x in (inputs.q, inputs.k, inputs.v))
    mask = inputs.attn_bias
    if inputs.keep is not None:
        mask = inputs.keep.expand(inputs.keep.shape[0], inputs.keep.shape[1], p.length, p.length).contiguous()
    node = OrtNode("Attention", "", [q, k, v, None if mask is None else mask.numpy()],
                   torch.empty(p.batch, p.heads, p.length, p.dim), {"is_causal": int(inputs.is_causal)}, threads)
    return ort_contestant("ort Attention", p.mask, node, lambda out: out)


def start_jax(threads):
    """JAX with so many threads: it counts them once, when it starts."""
    os.environ["NPROC"] = os.environ["PJRT_NPROC"] = str(threads)
    os.environ["JAX_PLATFORMS"] = "cpu"
    return importlib.import_module("jax")


def jax_attention(jax, inputs):
    """jax.nn.dot_product_attention, compiled: [batch, len, heads, dim]."""
    q, k, v = (jax.numpy.asarray(x.transpose(1, 2).contiguous().numpy()) for x in (inputs.q, inputs.k, inputs.v))
    attend = jax.jit(functools.partial(jax.nn.dot_product_attention, is_causal=inputs.is_causal))

    def call():
        return attend(q, k, v).block_until_ready()

    return Contestant("jax", call, lambda: torch.from_numpy(np.array(call())).transpose(1, 2),
                      "jax.nn.dot_product_attention")


class Peers:
    """Those of the peers that are installed."""

    def __init__(self):
        self.has_ort = is_installed("onnxruntime") and is_installed("onnx")
        self.has_jax = is_installed("jax")
        self.jax = self.jax_threads = None

    def left_out(self):
        """A line for each peer that is not installed."""
        if not self.has_ort:
            yield "left out: ONNX Runtime (onnxruntime and onnx are not installed)"
        if not self.has_jax:
            yield "left out: JAX (not installed)"

    def of(self, inputs, threads, with_jax=False):
        """Everyone who can do the problem on so many threads; JAX, which must compile, only where it is asked for."""
        found = [torch_sdpa(inputs)]
        if self.has_ort and inputs.problem.dtype == "f32":
            found += [ort_multi_head_attention(inputs, threads), ort_attention(inputs, threads)]
        if with_jax and self.has_jax and self.jax_threads in (None, threads):
            self.jax, self.jax_threads = self.jax or start_jax(threads), threads
            found.append(jax_attention(self.jax, inputs))
        return found
