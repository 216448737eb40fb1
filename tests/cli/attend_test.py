"""qkv attend against the formula in float64, option by option."""

import os
import pathlib

import numpy as np
import pytest
import safetensors.numpy


def reference(q, k, v, scale=None, softcap=None, attn_bias=None, visible=None):
    """Attention of [batch, heads, len, dim] in float64: out, weights, lse, entropy. A row without a key is zeros."""
    group_size = q.shape[1] // k.shape[1]
    q, k, v = q.astype(np.float64), *(np.repeat(x.astype(np.float64), group_size, axis=1) for x in (k, v))
    scores = q @ k.swapaxes(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap is not None:
        scores = softcap * np.tanh(scores / softcap)
    if attn_bias is not None:
        scores = scores + attn_bias
    if visible is not None:
        scores = np.where(visible, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    powers = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = powers.sum(axis=-1, keepdims=True)
    weights = powers / np.where(total == 0, 1, total)
    with np.errstate(divide="ignore"):
        lse = np.log(total[..., 0]) + np.where(np.isfinite(top), top, 0)[..., 0]
    entropy = -(weights * np.log(np.where(weights == 0, 1, weights))).sum(axis=-1)
    return weights @ np.where(np.isfinite(v), v, 0), weights, lse, entropy


class Files:
    """Operands in a folder, and the results of a run."""

    def __init__(self, folder, qkv):
        self.folder, self.qkv = folder, qkv

    def save(self, name, array):
        path = self.folder / f"{name}.npy"
        np.save(path, array)
        return path

    def attend(self, q, k, v, *options):
        operands = [self.save(name, x) for name, x in (("q", q), ("k", k), ("v", v))]
        names = ("out", "weights", "lse", "entropy")
        outputs = [self.folder / f"{name}.npy" for name in names]
        flags = [part for name, path in zip(names, outputs) for part in (f"--{name}", path)]
        result = self.qkv("attend", *operands, *flags, *options)
        assert (result.code, result.out, result.err) == (0, "", ""), result
        return [np.load(path) for path in outputs]


@pytest.fixture
def files(tmp_path, qkv):
    return Files(tmp_path, qkv)


def operands(random, batch=2, num_heads=4, num_kv_heads=2, q_len=5, kv_len=7, head_dim=8, v_head_dim=6):
    shapes = (batch, num_heads, q_len, head_dim), (batch, num_kv_heads, kv_len, head_dim), (batch, num_kv_heads, kv_len, v_head_dim)
    return [random.standard_normal(shape).astype(np.float32) for shape in shapes]


def check_close(got, expected, tolerance=2e-5):
    for name, a, b in zip(("out", "weights", "lse", "entropy"), got, expected):
        assert a.dtype == np.float32 and a.shape == b.shape, name
        assert np.array_equal(np.isfinite(a), np.isfinite(b)), name
        finite = np.isfinite(b)
        assert np.abs(a[finite] - b[finite]).max(initial=0) < tolerance, name
        assert np.array_equal(a[~finite], b[~finite].astype(np.float32), equal_nan=True), name


def test_plain_attention(files):
    q, k, v = operands(np.random.default_rng(0))
    check_close(files.attend(q, k, v), reference(q, k, v))


def test_causal_is_aligned_at_the_lower_right(files):
    # https://github.com/pytorch/pytorch/issues/108108
    q, k = np.zeros((2, 1), np.float32), np.zeros((5, 1), np.float32)
    v = np.arange(1, 6, dtype=np.float32)[:, None]
    assert files.attend(q, k, v, "--causal")[0][:, 0].tolist() == [2.5, 3]
    assert files.attend(q, k, v, "--causal", "--q-start", 0)[0][:, 0].tolist() == [1, 1.5]
    out, _, lse, entropy = files.attend(k, q, v[:2], "--causal")
    assert out[:, 0].tolist() == [0, 0, 0, 1, 1.5]
    assert lse[:3].tolist() == [-np.inf] * 3 and entropy[:3].tolist() == [0] * 3


def test_window_counts_neighbours_and_minus_one_is_no_limit(files):
    # https://github.com/huggingface/transformers/issues/39408
    zeros = np.zeros((6, 1), np.float32)
    v = 2.0 ** np.arange(6, dtype=np.float32)[:, None]
    expected = [1, 1.5, 7 / 3, 14 / 3, 28 / 3, 56 / 3]
    assert np.allclose(files.attend(zeros, zeros, v, "--window", "2,0")[0][:, 0], expected, rtol=1e-6)
    left = files.attend(zeros, zeros, v, "--window", "-1,0")[0]
    assert np.array_equal(left, files.attend(zeros, zeros, v, "--causal")[0])
    assert np.allclose(files.attend(zeros, zeros, v, "--window=-1,-1")[0], v.mean(), rtol=1e-6)


@pytest.mark.parametrize("window", ["-3,0", "0,-2", "1", "1,2,3", "a,b", "", "1,"])
def test_other_negative_windows_are_refused(files, window):
    # https://github.com/Dao-AILab/flash-attention/issues/1116
    path = files.save("x", np.zeros((2, 2), np.float32))
    files.qkv("attend", path, path, path, f"--window={window}").fails(2, "--window")


def random_case(seed):
    """Operands, options for the command and arguments for the reference, of a random mixture of masks."""
    random = np.random.default_rng(seed)
    num_kv_heads = int(random.integers(1, 3))
    sizes = {
        "batch": int(random.integers(1, 4)),
        "num_heads": num_kv_heads * int(random.integers(1, 4)),
        "num_kv_heads": num_kv_heads,
        "q_len": int(random.integers(1, 20)),
        "kv_len": int(random.integers(1, 40)),
        "head_dim": int(random.integers(1, 20)),
        "v_head_dim": int(random.integers(1, 20)),
    }
    full = tuple(sizes[name] for name in ("batch", "num_heads", "q_len", "kv_len"))
    i, j = np.arange(full[2])[:, None], np.arange(full[3])
    q_start = np.full(full[0], full[3] - full[2])
    visible, options, arrays, formula = np.ones(full, bool), [], {}, {}

    def broadcast_shape():
        return tuple(1 if random.random() < 0.4 else length for length in full)

    if random.random() < 0.4:
        formula["scale"] = round(float(random.uniform(-2, 2)), 3)
        options += [f"--scale={formula['scale']}"]
    if random.random() < 0.3:
        formula["softcap"] = 1.5
        options += ["--softcap", 1.5]
    if random.random() < 0.4:
        bias = random.standard_normal(broadcast_shape()).astype(np.float32)
        bias[random.random(bias.shape) < 0.1] = -np.inf
        arrays["--attn-bias"] = formula["attn_bias"] = bias
    if random.random() < 0.4:
        arrays["--keep"] = random.random(broadcast_shape()) < 0.7
        visible &= arrays["--keep"]
    if random.random() < 0.5:
        q_start = random.integers(-3, full[3] + 1, full[0])
        arrays["--q-start"] = q_start
    p = q_start[:, None, None, None] + i
    if random.random() < 0.5:
        options += ["--causal"]
        visible &= j <= p
    if random.random() < 0.4:
        left, right = random.integers(0, 9, 2)
        options += ["--window", f"{left},{right}"]
        visible &= (j >= p - left) & (j <= p + right)
    if random.random() < 0.4:
        per_query = random.random() < 0.5
        lengths = random.integers(0, full[3] + 1, (full[0], full[2]) if per_query else full[0])
        arrays["--valid-lens"] = lengths
        visible &= j < (lengths[:, None, :, None] if per_query else lengths[:, None, None, None])
    return operands(random, **sizes), options, arrays, formula | {"visible": visible}


@pytest.mark.parametrize("seed", range(40))
def test_random_mixtures_of_masks(files, seed):
    (q, k, v), options, arrays, formula = random_case(seed)
    for number, (option, array) in enumerate(arrays.items()):
        options += [option, files.save(f"mask{number}", array)]
    check_close(files.attend(q, k, v, *options), reference(q, k, v, **formula))


def test_excluded_keys_may_hold_anything(files):
    # https://github.com/pytorch/pytorch/issues/101967
    q, k, v = operands(np.random.default_rng(1))
    visible = np.ones((2, 1, 5, 7), bool)
    visible[0, ..., 3:] = visible[1, ..., 2:] = False
    expected = reference(q, k, v, visible=visible)
    for lens in ("3,2", files.save("lens", np.array([3, 2], np.int32))):
        k[0, :, 3:], v[1, :, 2:] = np.nan, np.inf
        check_close(files.attend(q, k, v, "--valid-lens", lens), expected)


def test_results_have_as_many_axes_as_q(files):
    random = np.random.default_rng(2)
    q, k, v = operands(random, batch=1, num_heads=1, num_kv_heads=1)
    full = files.attend(q, k, v)
    for drop in (1, 2):
        take = (0,) * drop
        got = files.attend(q[take], k[take], v[take])
        assert [x.ndim for x in got] == [4 - drop, 4 - drop, 3 - drop, 3 - drop]
        for a, b in zip(got, full):
            assert np.array_equal(a, b[take])
    # The rank of q decides, not that of k and v.
    assert files.attend(q[0, 0], k, v)[0].shape == (5, 6)


def test_files_of_any_order_byte_order_and_float_are_read_alike(files):
    # https://github.com/GUDHI/gudhi-devel/issues/1339
    q = np.array([[1, 2], [0, 1]], np.float32)
    k = np.array([[1, 0], [0, 1], [1, 1]], np.float32)
    v = np.array([[1], [2], [3]], np.float32)
    for convert in (np.asfortranarray, lambda x: x.astype(">f4"), lambda x: x.astype(np.float64), lambda x: x.astype(np.float16)):
        out, _, lse, _ = files.attend(convert(q), convert(k), convert(v), "--scale", 1)
        assert np.allclose(out[:, 0], [2.57521, 2.26696], atol=1e-5)
        assert np.allclose(lse, [3.40761, 1.86199], atol=1e-5)


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64])
def test_keep_is_bool_or_zeros_and_ones(files, dtype):
    q, k, v = operands(np.random.default_rng(3))
    keep = np.random.default_rng(4).random((5, 7)) < 0.5
    got = files.attend(q, k, v, "--keep", files.save("keep", keep.astype(dtype)))
    check_close(got, reference(q, k, v, visible=keep))


def test_operands_may_be_tensors_of_a_safetensors_file(files):
    q, k, v = operands(np.random.default_rng(5))
    keep = np.random.default_rng(6).random((2, 1, 5, 7)) < 0.5
    lens = np.array([4, 7], np.int64)
    path = files.folder / "all.safetensors"
    safetensors.numpy.save_file({"layer.q": q, "k": k, "v:1": v, "keep": keep, "lens": lens}, path)
    out = files.folder / "out.npy"
    masks = ("--keep", f"{path}:keep", "--valid-lens", f"{path}:lens")
    result = files.qkv("attend", f"{path}:layer.q", f"{path}:k", f"{path}:v:1", *masks, "--out", out)
    assert result.code == 0, result
    visible = keep & (np.arange(7) < lens[:, None, None, None])
    assert np.abs(np.load(out) - reference(q, k, v, visible=visible)[0]).max() < 2e-5
    files.qkv("attend", f"{path}:layer.k", f"{path}:k", f"{path}:v:1").fails(4, "layer.k", "layer.q")
    files.qkv("attend", path, path, path).fails(4, ":NAME")
    files.qkv("attend", f"{path}:lens", f"{path}:k", f"{path}:v:1").fails(4, "lens", "I64")


def test_threads_do_not_change_a_bit(files):
    q, k, v = operands(np.random.default_rng(7), q_len=70, kv_len=90)
    results = [files.attend(q, k, v, "--threads", n) for n in (1, 2, 4)]
    for other in results[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(results[0], other))


def test_without_out_a_summary_is_printed(files):
    q, k, v = operands(np.random.default_rng(8))
    paths = [files.save(name, x) for name, x in (("q", q), ("k", k), ("v", v))]
    result = files.qkv("attend", *paths)
    assert result.code == 0 and result.err == ""
    out = reference(q, k, v)[0]
    assert "[2, 4, 5, 6]" in result.out and "[2, 4, 5]" in result.out
    assert f"mean {out.mean():.4g}"[:9] in result.out
    assert "kernel" in result.out and "target" in result.out


@pytest.mark.parametrize(
    ("q", "k", "v", "needles"),
    [
        ((2, 4), (3, 5), (3, 4), ("head_dim", "5", "4")),
        ((2, 4), (3, 4), (2, 4), ("kv_len", "2", "3")),
        ((3, 2, 4), (2, 5, 4), (2, 5, 4), ("num_heads", "3", "2")),
        ((4,), (3, 4), (3, 4), ("1 axes", "2 to 4")),
        ((1, 1, 1, 2, 4), (3, 4), (3, 4), ("5 axes", "2 to 4")),
        ((2, 0), (3, 0), (3, 4), ("head_dim", "0")),
    ],
)
def test_shapes_that_do_not_fit_are_named(files, q, k, v, needles):
    paths = [files.save(name, np.zeros(shape, np.float32)) for name, shape in (("q", q), ("k", k), ("v", v))]
    files.qkv("attend", *paths, "--out", files.folder / "out.npy").fails(4, *needles)
    assert not (files.folder / "out.npy").exists()


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--scale", "nan"), 2),
        (("--scale", "x"), 2),
        (("--softcap", "0"), 2),
        (("--softcap", "inf"), 2),
        (("--threads", "0"), 2),
        (("--dropout", "2"), 2),
        (("--seed", "3"), 2),
        (("--valid-lens", "4"), 4),
        (("--valid-lens=-1"), 4),
        (("--valid-lens", "1,1"), 4),
        (("--q-start", "1,2"), 4),
        (("--q-start", "no-such-file"), 4),
        (("--keep", "no-such-file.npy"), 4),
    ],
)
def test_options_that_make_no_sense(files, options, code):
    path = files.save("x", np.zeros((3, 2), np.float32))
    options = (options,) if isinstance(options, str) else options
    files.qkv("attend", path, path, path, *options).fails(code)


def test_f64_is_computed_and_written_in_double(files):
    (q, k, v), options, arrays, formula = random_case(5)
    q, k, v = (x.astype(np.float64) + 1e-12 for x in (q, k, v))  # which a float would lose
    for number, (option, array) in enumerate(arrays.items()):
        options += [option, files.save(f"mask{number}", array)]
    got = files.attend(q, k, v, *options, "--dtype", "f64")
    for result, expected in zip(got, reference(q, k, v, **formula)):
        assert result.dtype == np.float64
        finite = np.isfinite(expected)
        assert np.array_equal(np.isfinite(result), finite)
        assert np.abs(result[finite] - expected[finite]).max() < 1e-13
    assert files.attend(q, k, v)[0].dtype == np.float32
    path = files.folder / "all.safetensors"
    safetensors.numpy.save_file({"q": q, "k": k, "v": v.astype(np.float32)}, path)
    result = files.qkv("attend", f"{path}:q", f"{path}:k", f"{path}:v", "--dtype", "f64")
    assert result.code == 0 and "lse" in result.out, result
    files.qkv("attend", f"{path}:q", f"{path}:k", f"{path}:v", "--dtype", "f16").fails(2, "--dtype", "f16")


def test_integers_and_objects_are_no_operands(files):
    good = files.save("good", np.zeros((2, 2), np.float32))
    for array in (np.zeros((2, 2), np.int32), np.array([[None, {}]], object), np.zeros((2, 2), np.complex64)):
        bad = files.folder / "bad.npy"
        np.save(bad, array, allow_pickle=True)
        files.qkv("attend", bad, good, good).fails(4, "bad.npy")
    files.qkv("attend", good, good, good, "--keep", files.save("half", np.full((2, 2), 2, np.uint8))).fails(4, "half.npy")


def test_broken_operands_are_named(files):
    good = files.save("good", np.zeros((2, 2), np.float32))
    bad = files.folder / "bad.npy"
    for content in (b"", b"\x93NUMPY", good.read_bytes()[:-1], good.read_bytes() + b"x", os.urandom(300)):
        bad.write_bytes(content)
        files.qkv("attend", good, bad, good).fails(4, "bad.npy")
    files.qkv("attend", good, files.folder, good).fails(4, str(files.folder))
    files.qkv("attend", good, files.folder / "none.npy", good).fails(4, "none.npy")
    fifo = files.folder / "fifo.npy"
    os.mkfifo(fifo)
    files.qkv("attend", good, fifo, good).fails(4, "fifo.npy")


@pytest.mark.parametrize("bad", ["/dev/full", "missing/lse.npy", "."])
def test_all_results_are_written_or_none(files, bad):
    path = files.save("x", np.random.default_rng(9).standard_normal((30, 20)).astype(np.float32))
    out = files.folder / "out.npy"
    target = bad if bad.startswith("/") else files.folder / bad
    files.qkv("attend", path, path, path, "--out", out, "--lse", target).fails(5)
    assert [entry.name for entry in files.folder.iterdir()] == ["x.npy"]
    files.qkv("attend", path, path, path, "--lse", target, "--out", out).fails(5)
    assert [entry.name for entry in files.folder.iterdir()] == ["x.npy"]


def test_a_failure_leaves_the_file_that_was_there(files):
    path = files.save("x", np.zeros((3, 2), np.float32))
    out = files.folder / "out.npy"
    out.write_bytes(b"precious")
    files.qkv("attend", path, path, path, "--out", out, "--lse", "/dev/full").fails(5)
    files.qkv("attend", path, path, path, "--out", out, "--valid-lens", 99).fails(4)
    assert out.read_bytes() == b"precious"


def test_two_results_need_two_files(files):
    path = files.save("x", np.zeros((3, 2), np.float32))
    same = files.folder / "same.npy"
    files.qkv("attend", path, path, path, "--out", same, "--lse", same).fails(2, "same.npy")
    assert not same.exists()


def test_an_operand_may_be_overwritten_by_the_result(files):
    path = files.save("x", np.random.default_rng(10).standard_normal((3, 2)).astype(np.float32))
    before = np.load(path)
    assert files.qkv("attend", path, path, path, "--out", path).code == 0
    expected = reference(*(before[None, None],) * 3)[0][0, 0]
    assert np.abs(np.load(path) - expected).max() < 1e-6


def test_empty_lengths_are_fine(files):
    q, v = np.zeros((2, 3), np.float32), np.zeros((0, 4), np.float32)
    out, weights, lse, entropy = files.attend(q, np.zeros((0, 3), np.float32), v)
    assert out.tolist() == [[0] * 4] * 2 and weights.shape == (2, 0)
    assert lse.tolist() == [-np.inf] * 2 and entropy.tolist() == [0, 0]
    assert files.attend(q[:0], q, q)[0].shape == (0, 3)
    paths = [files.save(name, x) for name, x in (("q", q), ("k", np.zeros((0, 3), np.float32)), ("v", v))]
    assert "8 not finite" not in files.qkv("attend", *paths).out


def test_paths_relative_to_the_folder_work(files):
    files.save("x", np.zeros((3, 2), np.float32))
    result = files.qkv("attend", "x.npy", "x.npy", "x.npy", "--out", "y.npy", cwd=files.folder)
    assert result.code == 0 and pathlib.Path(files.folder, "y.npy").exists()


def softmax_of(scores, v):
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True) @ v


def test_scores_by_cosine(files):
    random = np.random.default_rng(31)
    q, k, v = operands(random, num_kv_heads=4)
    unit = [x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (q.astype(np.float64), k.astype(np.float64))]
    out, *_ = files.attend(q, k, v, "--scoring", "cosine")
    np.testing.assert_allclose(out, softmax_of(unit[0] @ unit[1].swapaxes(-1, -2), v), atol=1e-6)


def test_scores_by_a_small_network(files):
    random = np.random.default_rng(32)
    q, k, v = operands(random, num_kv_heads=4)
    w_q, w_k, w_v = (random.standard_normal(shape).astype(np.float32) for shape in ((9, 8), (9, 8), (9,)))
    hidden = np.tanh((q @ w_q.T)[..., :, None, :].astype(np.float64) + (k @ w_k.T)[..., None, :, :])
    weights = [part for name, w in (("--w-q", w_q), ("--w-k", w_k), ("--w-v", w_v)) for part in (name, files.save(name, w))]
    out, *_ = files.attend(q, k, v, "--scoring", "additive", *weights)
    np.testing.assert_allclose(out, softmax_of(hidden @ w_v, v), atol=1e-5)


@pytest.mark.parametrize("flags, named", [
    (["--scoring", "additive"], "--w-q"),
    (["--w-v", "w.npy"], "--scoring additive"),
    (["--scoring", "euclid"], "euclid"),
])
def test_refuses_scorings_that_lack_or_have_too_much(qkv, flags, named):
    result = qkv("attend", "q.npy", "k.npy", "v.npy", *flags)
    assert result.code == 2 and named in result.err and result.err.count("\n") == 1, result
