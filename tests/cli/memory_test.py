"""Attention holds no matrix of scores, whatever the scoring: the peak memory of a whole run, files and all, stays small."""

import os
import subprocess

import numpy as np
import pytest

MIB = 1024  # in KiB, as the kernel counts


def peak_kib(binary, folder, *flags):
    process = subprocess.Popen([binary, "attend", "x.npy", "x.npy", "x.npy", "--out", "out.npy", *flags], cwd=folder)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss


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
