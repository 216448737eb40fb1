"""torch_loop.cc, compiled against the headers and libraries of PyTorch's own wheel."""

import ctypes
import os
import pathlib
import subprocess

import torch

SOURCE = pathlib.Path(__file__).with_name("torch_loop.cc")


def load(folder):
    """The library, from a folder in which it is compiled when it is not there for this version of PyTorch, or older than its source."""
    library = pathlib.Path(folder, f"libtorch_loop-{torch.__version__}.so")
    if not library.exists() or library.stat().st_mtime < SOURCE.stat().st_mtime:
        root = pathlib.Path(torch.__file__).parent
        subprocess.run([os.environ.get("CXX", "g++"), "-std=c++20", "-O2", "-shared", "-fPIC",
                        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}", "-isystem", root / "include",
                        SOURCE, "-o", library, "-L", root / "lib", "-ltorch_cpu", "-lc10"], check=True)
    lib = ctypes.CDLL(str(library))
    lib.torch_tiny_call_seconds.restype = ctypes.c_double
    lib.torch_tiny_call_seconds.argtypes = [ctypes.c_int64] + [ctypes.c_void_p] * 3 + [ctypes.c_int64]
    return lib
