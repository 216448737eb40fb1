"""The options of qkv attend that tell queries and keys apart by where they stand, and dropout."""

import os
import resource
import signal
import subprocess

import numpy as np
import pytest


@pytest.fixture
def attend(tmp_path, qkv):
    """Runs on standard normal operands [1, 2, len, 8] with V = identity: `out` holds the weights."""

    def run(q_len, kv_len, *flags, **arrays):
        random = np.random.default_rng(7)
        operands = {"q": random.standard_normal((1, 2, q_len, 8)), "k": random.standard_normal((1, 2, kv_len, 8)),
                    "v": np.broadcast_to(np.eye(kv_len), (1, 2, kv_len, kv_len))}
        for name, array in operands.items():
            np.save(tmp_path / f"{name}.npy", array.astype(np.float32))
        for name, array in arrays.items():
            np.save(tmp_path / f"{name}.npy", array)
        result = qkv("attend", "q.npy", "k.npy", "v.npy", "--out", "out.npy", *flags, cwd=tmp_path)
        assert (result.code, result.err) == (0, ""), result
        scores = operands["q"] @ operands["k"].swapaxes(-1, -2) / np.sqrt(8)
        return np.load(tmp_path / "out.npy"), scores

    return run


def softmax(scores, visible=True):
    powers = np.where(visible, np.exp(scores), 0)
    return powers / np.maximum(powers.sum(axis=-1, keepdims=True), 1e-300)


def test_alibi_takes_the_distance_off_the_scores(attend):
    slopes = np.array([0.5, 0.25], np.float32)
    out, scores = attend(5, 9, "--alibi", "slopes.npy", slopes=slopes)
    distance = np.abs(np.arange(5)[:, None] + 4 - np.arange(9))
    np.testing.assert_allclose(out, softmax(scores - slopes[None, :, None, None] * distance), atol=1e-6)


def test_a_sink_takes_its_share_of_the_weights(attend):
    sinks = np.array([1.5, -np.inf], np.float32)
    out, scores = attend(5, 9, "--sinks", "sinks.npy", sinks=sinks)
    powers = np.exp(scores)
    expected = powers / (powers.sum(axis=-1, keepdims=True) + np.exp(sinks)[None, :, None, None])
    np.testing.assert_allclose(out, expected, atol=1e-6)


@pytest.mark.parametrize("ids", ["0,0,1,1,1,7", "ids.npy"])
def test_documents_see_only_themselves(attend, ids):
    numbers = np.array([0, 0, 1, 1, 1, 7])
    out, scores = attend(6, 6, "--documents", ids, ids=numbers[None])
    np.testing.assert_allclose(out, softmax(scores, numbers[:, None] == numbers), atol=1e-6)


def test_queries_may_have_documents_of_their_own(attend):
    out, scores = attend(2, 4, "--documents", "3,3,4,4", "--documents-q", "4,9")
    np.testing.assert_allclose(out, softmax(scores, np.array([[0, 0, 1, 1], [0, 0, 0, 0]], bool)), atol=1e-6)


def test_sequences_of_a_ragged_batch_see_only_themselves(attend):
    out, scores = attend(5, 9, "--cu-seqlens-q", "0,2,5", "--cu-seqlens-k", "0,3,9", "--causal")
    visible = np.zeros((5, 9), bool)
    visible[:2, :3] = np.tril(np.ones((2, 3)), 1)
    visible[2:, 3:] = np.tril(np.ones((3, 6)), 3)
    np.testing.assert_allclose(out, softmax(scores, visible), atol=1e-6)


def test_dropout_drops_and_scales_by_its_seed(attend):
    flags = ("--dropout", "0.25", "--seed", "3")
    out, scores = attend(100, 100, *flags)
    expected = softmax(scores) / 0.75
    np.testing.assert_allclose(out, np.where(out == 0, 0, expected), atol=1e-6)
    assert abs((out == 0).mean() - 0.25) < 0.015
    assert (attend(100, 100, *flags)[0] == out).all()
    assert ((attend(100, 100, "--dropout", "0.25", "--seed", "4")[0] == 0) != (out == 0)).any()


def test_reproducible_rows_depend_on_no_other_row(attend):
    whole, _ = attend(40, 40, "--reproducible", "--causal")
    padded, _ = attend(40, 40, "--reproducible", "--causal", "--valid-lens", "20")
    assert (whole[:, :, :20] == padded[:, :, :20]).all() and (whole[:, :, 20:] != padded[:, :, 20:]).any()


def test_a_signal_ends_a_run_that_waits_for_a_reader(tmp_path, binary):
    np.save(tmp_path / "x.npy", np.zeros((2, 4), np.float32))
    os.mkfifo(tmp_path / "pipe")
    process = subprocess.Popen([binary, "attend", "x.npy", "x.npy", "x.npy", "--out", "pipe"], cwd=tmp_path, stderr=subprocess.PIPE)
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=1)
        process.terminate()
        assert process.wait(timeout=30) == 128 + signal.SIGTERM
    finally:
        process.kill()


def test_a_limit_on_the_size_of_files_is_an_output_error_that_leaves_nothing(tmp_path, binary):
    np.save(tmp_path / "x.npy", np.zeros((64, 16), np.float32))
    before = set(tmp_path.iterdir())
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
    result = subprocess.run([binary, "attend", "x.npy", "x.npy", "x.npy", "--out", "y.npy"], cwd=tmp_path,
                            preexec_fn=limit, capture_output=True, text=True)
    assert result.returncode == 5 and "cannot write y.npy" in result.stderr, result
    assert set(tmp_path.iterdir()) == before


def test_a_bias_that_only_a_double_can_hold_hides_no_key(attend):
    lowest = np.finfo(np.float64).min
    bias = np.array([[lowest, lowest, lowest, lowest], [0, -np.inf, lowest, 0]])
    out, scores = attend(2, 4, "--attn-bias", "bias.npy", bias=bias)
    np.testing.assert_allclose(out[:, :, 0], 0.25, atol=1e-6)
    np.testing.assert_allclose(out[:, :, 1], softmax(scores[:, :, 1], np.array([True, False, False, True])), atol=1e-6)


@pytest.mark.parametrize("flags, code, message", [
    (["--dropout", ""], 2, "--dropout: got '', expected a number"),
    (["--scale", ""], 2, "--scale: got '', expected a number"),
    (["--out", "y.npy", "--lse", "./y.npy"], 2, "two results cannot go to the same file"),
    (["--out", ""], 2, "the name of a file for results is empty"),
    (["--dropout", "1.5"], 2, "--dropout: got 1.5, expected a probability, 0 to 1"),
    (["--dropout", "1.0000001"], 2, "--dropout: got 1.0000001, expected"),
    (["--scale", "inf"], 2, "--scale: got inf, expected a finite number"),
    (["--softcap", "-2"], 2, "--softcap: got -2, expected a finite number > 0"),
    (["--documents", "0,0,x"], 2, "--documents: got '0,0,x', expected whole numbers with commas between them, or a file"),
    (["--valid-lens", "1,"], 2, "--valid-lens: got '1,', expected whole numbers with commas between them, or a file"),
    (["--dropout", "0.5", "--seed", "-1"], 2, "--seed: got '-1'"),
    (["--documents-q", "1,2"], 2, "--documents-q needs --documents"),
    (["--cu-seqlens-q", "0,2"], 2, "--cu-seqlens-q and --cu-seqlens-k need each other"),
    (["--documents", "1,2,3"], 4, "documents.k.shape[1] (kv_len): got 3, expected 2"),
    (["--cu-seqlens-q", "0,2", "--cu-seqlens-k", "0,3"], 4, "cu_seqlens_k[1]: got 3, expected kv_len = 2"),
    (["--alibi", "0.5,0.25"], 4, "--alibi: cannot open 0.5,0.25"),
    (["--keep", "x.npy"], 4, "--keep: NpyFile::to_bool: dtype of x.npy: got \"<f4\", expected bool"),
    (["--sinks", "x.npy"], 4, "--sinks: got shape [2, 4], expected [num_heads]"),
])
def test_refuses_what_does_not_fit(tmp_path, qkv, flags, code, message):
    np.save(tmp_path / "x.npy", np.zeros((2, 4), np.float32))
    result = qkv("attend", "x.npy", "x.npy", "x.npy", *flags, cwd=tmp_path)
    assert result.code == code and message in result.err and result.err.count("\n") == 1, result
