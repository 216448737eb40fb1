"""libqkv_shim.so (shim.cc, shim_model.cc) by ctypes: qkv in the process of its peers."""

import ctypes

LENGTHS = ("batch", "num_heads", "num_kv_heads", "q_len", "kv_len", "head_dim", "v_head_dim")


class AttentionCall(ctypes.Structure):
    """QkvAttentionCall of shim.cc."""

    _fields_ = [(name, ctypes.c_int64) for name in LENGTHS + ("is_interleaved", "is_causal")]
    _fields_ += [(name, ctypes.c_void_p) for name in ("valid_lens", "keep", "attn_bias", "documents")]
    _fields_ += [("dropout", ctypes.c_double)] + [(name, ctypes.c_void_p) for name in ("w_q", "w_k", "w_v")]
    _fields_ += [("hidden_dim", ctypes.c_int64)]


def with_tensors(function, arguments, tensors):
    """function(*arguments) as a function of no arguments that keeps `tensors` alive, to whose memory the arguments point."""

    def call():
        return function(*arguments)

    call.tensors = tensors
    return call


class Shim:
    """The library, and how many threads it runs on. Tensors are torch's."""

    def __init__(self, path):
        self.lib = ctypes.CDLL(str(path))
        index, number, pointer = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p
        tensors = [pointer] * 4
        for name, result, arguments in (
                ("qkv_set_threads", None, [index]),
                ("qkv_target", ctypes.c_char_p, []),
                ("qkv_fma_gflops", number, [index, number]),
                ("qkv_read_gbytes", number, [pointer, index]),
                ("qkv_attention", None, [ctypes.POINTER(AttentionCall)] + tensors),
                ("qkv_attention_f64", None, [ctypes.POINTER(AttentionCall)] + tensors),
                ("qkv_linear", None, [index] * 3 + tensors),
                ("qkv_tiny_call_seconds", number, [index] + tensors + [index]),
                ("qkv_load_model", index, [ctypes.c_char_p]),
                ("qkv_embed", None, [ctypes.POINTER(ctypes.c_char_p), index, pointer])):
            function = getattr(self.lib, name)
            function.restype, function.argtypes = result, arguments
        self.set_threads(1)

    def set_threads(self, threads):
        self.threads = threads
        self.lib.qkv_set_threads(threads)

    def target(self):
        return self.lib.qkv_target().decode()

    def fma_gflops(self, seconds, dtype="f32"):
        return self.lib.qkv_fma_gflops(dtype == "f64", seconds)

    def read_gbytes(self, tensor):
        return self.lib.qkv_read_gbytes(tensor.data_ptr(), tensor.numel())

    def attention(self, call, q, k, v, out):
        """A function of no arguments that does the call; it keeps the tensors alive, but not the mask that `call` points to."""
        function = self.lib.qkv_attention_f64 if q.element_size() == 8 else self.lib.qkv_attention
        tensors = (q, k, v, out)
        return with_tensors(function, (ctypes.byref(call), *(x.data_ptr() for x in tensors)), tensors)

    def linear(self, x, w, bias, out):
        """A function of no arguments that computes out [tokens, out_dim] = x w^T + bias; it keeps the tensors alive."""
        tensors = (x, w, bias, out)
        arguments = (*x.shape, w.shape[0], *(tensor.data_ptr() for tensor in tensors))
        return with_tensors(self.lib.qkv_linear, arguments, tensors)

    def embed(self, texts, out):
        """A function of no arguments that writes the vectors of texts, by the model that was loaded last, to `out`."""
        encoded = (ctypes.c_char_p * len(texts))(*(text.encode() for text in texts))
        return lambda: self.lib.qkv_embed(encoded, len(texts), out.data_ptr())
