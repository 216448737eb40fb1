"""Attention holds no matrix of scores, whatever the scoring: the peak memory of a whole run, files and all, stays small."""

import subprocess
import sys

import numpy as np
import pytest

MIB = 1024  # in KiB, as the kernel counts


# A process starts with the peak of the one that forked it, which for this one may be large; so a small one forks.
WATCH = """
import os, sys
pid = os.spawnv(os.P_NOWAIT, sys.argv[1], sys.argv[1:])
_, status, usage = os.wait4(pid, 0)
print(os.waitstatus_to_exitcode(status), usage.ru_maxrss)
"""


def peak_kib(binary, folder, *flags):
    command = [sys.executable, "-c", WATCH, str(binary), "attend", "x.npy", "x.npy", "x.npy", "--out", "out.npy", *flags]
    code, kib = map(int, subprocess.run(command, cwd=folder, capture_output=True, check=True).stdout.split())
    assert code == 0
    return kib


@pytest.mark.parametrize("scoring", ["dot", "cosine", "additive"])
def test_4096_queries_and_keys_take_less_than_64_mib(tmp_path, binary, scoring):
    random = np.random.default_rng(1)
    np.save(tmp_path / "x.npy", random.standard_normal((4096, 64)).astype(np.float32))
    flags = ["--scoring", scoring]
    for name, shape in (("w-q", (64, 64)), ("w-k", (64, 64)), ("w-v", (64,))):
        if scoring == "additive":
            np.save(tmp_path / f"{name}.npy", random.standard_normal(shape).astype(np.float32) / 8)
            flags += [f"--{name}", f"{name}.npy"]
    # The scores alone would be 64 MiB, with the hidden layer of additive scoring 4 GiB.
    assert peak_kib(binary, tmp_path, *flags) < 64 * MIB
