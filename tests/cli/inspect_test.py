"""qkv inspect and qkv info."""

import json
import platform

import numpy as np
import safetensors.numpy


def test_tensors_of_a_safetensors_file(qkv, tmp_path):
    path = tmp_path / "all.safetensors"
    tensors = {"b": np.zeros((2, 3), np.float16), "a.weight": np.zeros((), np.int64), "empty": np.zeros((0, 4), np.float32)}
    safetensors.numpy.save_file(tensors, path, {"made by": "a \u65e5 test\n"})
    answer = qkv("inspect", path, "--json").json()
    assert answer["format"] == "safetensors"
    found = {tensor["name"]: (tensor["dtype"], tensor["shape"]) for tensor in answer["tensors"]}
    assert found == {"b": ("F16", [2, 3]), "a.weight": ("I64", []), "empty": ("F32", [0, 4])}
    assert answer["metadata"] == {"made by": "a \u65e5 test\n"}
    text = qkv("inspect", path).out
    assert "a.weight" in text and "F16" in text and "[2,3]" in text.replace(" ", "") and "test\\n" in text


def test_the_tensor_of_a_npy_file(qkv, tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.asfortranarray(np.zeros((2, 3), ">f8")))
    answer = qkv("inspect", path, "--json").json()
    assert answer == {"format": "npy", "tensors": [{"dtype": ">f8", "shape": [2, 3], "fortran_order": True}]}
    assert "Fortran" in qkv("inspect", path).out


def test_names_cannot_control_the_terminal(qkv, tmp_path):
    path = tmp_path / "evil.safetensors"
    safetensors.numpy.save_file({"\x1b[31mred\n": np.zeros(1, np.float32)}, path)
    result = qkv("inspect", path)
    assert result.code == 0 and "\x1b" not in result.out and "\\x1b[31mred\\n" in result.out


def test_broken_files_are_input_errors(qkv, tmp_path):
    for name, content in (("a.npy", b""), ("b.safetensors", b"\xff" * 20), ("c.txt", b"hello"), ("d", b"\x93NUMPY\x01\x00")):
        (tmp_path / name).write_bytes(content)
        qkv("inspect", tmp_path / name).fails(4, name)
    qkv("inspect", tmp_path).fails(4, str(tmp_path))
    qkv("inspect", tmp_path / "none").fails(4, "none")
    qkv("inspect").fails(2, "FILE")


def test_info_says_what_runs(qkv):
    answer = qkv("info", "--json").json()
    assert answer["version"].count(".") == 2
    assert answer["target"] in answer["targets"] and "portable" in answer["targets"]
    assert 1 <= answer["threads"] and 1 <= answer["processors"]
    assert answer["model"]["present"] is False
    text = qkv("info").out
    assert answer["target"] in text and answer["version"] in text and "make model" in text


def test_info_shows_the_cap_of_the_target(qkv):
    answer = qkv("info", "--json", env={"QKV_TARGET": "portable"}).json()
    assert (answer["target"], answer["target_cap"]) == ("portable", "portable")


def test_a_cap_leaves_the_best_target_below_it(qkv):
    def target_under(cap):
        answer = qkv("info", "--json", env={"QKV_TARGET": cap}).json()
        assert answer["targets"] == targets, "what the machine has does not depend on the cap"
        return answer["target"]

    targets = qkv("info", "--json", env={"QKV_TARGET": ""}).json()["targets"]
    assert target_under("") == targets[0] and targets[-1] == "portable"
    names = ["avx512", "avx2", "sse4", "portable"] if platform.machine() == "x86_64" else ["neon", "portable"]
    for n, cap in enumerate(names):
        assert target_under(cap) == next(name for name in names[n:] if name in targets), cap


def test_a_cap_that_is_no_target_is_told_the_names(qkv):
    for cap in ("mmx", "AVX2", "avx2 ", "portable,sse4"):
        qkv("info", env={"QKV_TARGET": cap}).fails(2, f"QKV_TARGET: got {cap}, expected one of", "portable")


def test_info_counts_the_threads_that_are_set(qkv):
    assert qkv("info", "--json", env={"QKV_NUM_THREADS": "3"}).json()["threads"] == 3


def test_settings_that_make_no_sense_are_usage_errors(qkv, tmp_path):
    qkv("info", env={"QKV_TARGET": "mmx"}).fails(2, "QKV_TARGET", "mmx")
    qkv("info", env={"QKV_NUM_THREADS": "many"}).fails(2, "QKV_NUM_THREADS", "many")
    path = tmp_path / "x.npy"
    np.save(path, np.zeros((2, 2), np.float32))
    qkv("attend", path, path, path, env={"QKV_TARGET": "mmx"}).fails(2, "QKV_TARGET")
    qkv("attend", path, path, path, env={"QKV_NUM_THREADS": "0"}).fails(2, "QKV_NUM_THREADS")


def test_info_finds_the_model_in_the_cache(qkv, tmp_path):
    folder = tmp_path / "models" / "all-MiniLM-L6-v2"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({}))
    answer = qkv("info", "--json", env={"QKV_CACHE": str(tmp_path)}).json()
    assert answer["model"] == {"folder": str(folder), "present": True}
