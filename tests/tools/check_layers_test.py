"""tools/check_layers.py on small made-up trees."""

import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tools" / "check_layers.py"


def findings(root, files):
    """Writes files (path -> text) below root and returns what the checker prints, line by line."""
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    run = subprocess.run([sys.executable, SCRIPT, root], capture_output=True, text=True, check=False)
    lines = run.stdout.splitlines()
    assert run.returncode == (1 if lines else 0), run.stderr
    return lines


@pytest.mark.parametrize(
    ("path", "included"),
    [
        ("qkv/kernels/gemm.cc", "qkv/core/index.h"),
        ("qkv/kernels/gemm.cc", "qkv/kernels/tiles.h"),
        ("qkv/attention/plan.cc", "qkv/kernels/target.h"),
        ("qkv/text/vocab_txt.cc", "qkv/io/mapped_file.h"),
        ("qkv/nn/linear.cc", "qkv/kernels/gemm.h"),
        ("qkv/models/bert.cc", "qkv/io/safetensors.h"),
        ("qkv/models/bert.cc", "qkv/text/word_piece.h"),
        ("qkv/qkv.h", "qkv/nn/linear.h"),
        ("viewer/page.cc", "qkv/models/bert.h"),
        ("cli/cmd_look.cc", "viewer/terminal.h"),
        ("cli/main.cc", "qkv/qkv.h"),
        ("tests/core/index_test.cc", "qkv/models/bert.h"),
        ("tests/viewer/page_test.cc", "tests/support/poison.h"),
    ],
)
def test_an_include_that_points_down_is_fine(tmp_path, path, included):
    assert findings(tmp_path, {path: f'#include "{included}"\n'}) == []


@pytest.mark.parametrize(
    ("path", "included"),
    [
        ("qkv/core/check.h", "qkv/kernels/tiles.h"),
        ("qkv/io/npy.cc", "qkv/text/utf8.h"),
        ("qkv/io/npy.cc", "qkv/attention/attention.h"),
        ("qkv/text/vocab_txt.cc", "qkv/kernels/target.h"),
        ("qkv/kernels/gemm.cc", "qkv/attention/options.h"),
        ("qkv/attention/attention.cc", "qkv/nn/linear.h"),
        ("qkv/nn/linear.cc", "qkv/io/safetensors.h"),
        ("qkv/nn/linear.cc", "qkv/qkv.h"),
        ("qkv/models/bert.cc", "viewer/page.h"),
        ("viewer/page.cc", "cli/options.h"),
        ("qkv/core/check.h", "tests/support/poison.h"),
    ],
)
def test_an_include_that_points_up_or_aside_is_found(tmp_path, path, included):
    (line,) = findings(tmp_path, {path: f'// a comment\n#include "{included}"\n'})
    assert line.startswith(f"{path}:2: ")
    assert included in line


def test_a_folder_without_a_level_is_found(tmp_path):
    (line,) = findings(tmp_path, {"qkv/utils/misc.h": '#include "qkv/core/index.h"\n'})
    assert line.startswith("qkv/utils/misc.h:1: qkv/utils/ has no level yet")


@pytest.mark.parametrize("included", ["linear.h", "../core/index.h", "./linear.h"])
def test_a_relative_include_is_found(tmp_path, included):
    (line,) = findings(tmp_path, {"qkv/nn/linear.cc": f'#include "{included}"\n'})
    assert line.startswith("qkv/nn/linear.cc:1: ")


def test_an_include_inside_a_comment_does_not_count(tmp_path):
    text = '// #include "qkv/nn/a.h"\n/*\n#include "qkv/nn/b.h"\n*/\n'
    assert findings(tmp_path, {"qkv/core/check.h": text}) == []


@pytest.mark.parametrize(
    ("path", "included"),
    [
        ("qkv/kernels/gemm.cc", '"hwy/highway.h"'),
        ("tests/kernels/gemm_test.cc", '"hwy/tests/hwy_gtest.h"'),
        ("qkv/core/executor.cc", "<oneapi/tbb/parallel_for.h>"),
        ("qkv/io/safetensors.cc", "<nlohmann/json.hpp>"),
        ("cli/cmd_info.cc", "<nlohmann/json.hpp>"),
        ("cli/main.cc", "<CLI/CLI.hpp>"),
        ("qkv/text/utf8.cc", "<utf8proc.h>"),
        ("qkv/eigen.h", "<Eigen/Core>"),
    ],
)
def test_a_library_in_its_place_is_fine(tmp_path, path, included):
    assert findings(tmp_path, {path: f"#include {included}\n"}) == []


@pytest.mark.parametrize(
    ("path", "included", "library"),
    [
        ("qkv/attention/attention.cc", '"hwy/highway.h"', "Highway"),
        ("tests/attention/attention_test.cc", "<hwy/highway.h>", "Highway"),
        ("qkv/core/executor.h", "<tbb/task_arena.h>", "oneTBB"),
        ("qkv/kernels/gemm.cc", "<oneapi/tbb.h>", "oneTBB"),
        ("qkv/nn/state_dict.cc", "<nlohmann/json.hpp>", "nlohmann-json"),
        ("qkv/models/config.cc", "<utf8proc.h>", "utf8proc"),
        ("viewer/terminal.cc", "<CLI/CLI.hpp>", "CLI11"),
        ("qkv/core/tensor.h", "<Eigen/Core>", "Eigen"),
    ],
)
def test_a_library_elsewhere_is_found(tmp_path, path, included, library):
    (line,) = findings(tmp_path, {path: f"\n#include {included}\n"})
    assert line.startswith(f"{path}:2: {library} may be included only in ")


@pytest.mark.parametrize(
    "statement",
    ["std::cout << 1;", "std::cerr << 1;", 'printf("x");', 'std::printf("x");', "fputs(text, stderr);", "exit(1);",
     "std::abort();", "std::terminate();"],
)
def test_a_library_file_that_prints_or_exits_is_found(tmp_path, statement):
    files = {"qkv/core/a.cc": f"void f() {{\n  {statement}\n}}\n", "cli/main.cc": f"void f() {{ {statement} }}\n"}
    (line,) = findings(tmp_path, files)
    assert line.startswith("qkv/core/a.cc:2: ")


@pytest.mark.parametrize(
    "statement",
    ["std::snprintf(buffer, 8, format);", "// exit(1)", 'f("exit(1) std::cout");', 'f(R"(a " exit(1))");', "at_exit(f);",
     "door.exit();", "door->exit();", "int n = 1'000'000;  // 'abort()'"],
)
def test_words_that_only_look_like_printing_are_fine(tmp_path, statement):
    assert findings(tmp_path, {"qkv/core/a.cc": statement + "\n"}) == []


@pytest.mark.parametrize("path", ["qkv/core/a.h", "cli/main.cc", "tests/text/a_test.cc", "tools/a.py", "tools/a.sh"])
def test_a_source_that_is_not_ascii_is_found(tmp_path, path):
    (line,) = findings(tmp_path, {path: "# fine\n# K\u1d40 Q\n"})
    assert line.startswith(f"{path}:2: U+1D40 ")


def test_text_files_and_build_folders_may_hold_anything(tmp_path):
    files = {"README.md": "K\u1d40\n", "build/release/qkv/a.cc": "\u00e9\n", ".venv/lib/a.py": "\u00e9\n", "Makefile": "\n"}
    assert findings(tmp_path, files) == []


def test_a_file_of_400_lines_is_fine_and_one_of_401_is_found(tmp_path):
    assert findings(tmp_path, {"qkv/core/a.h": "\n" * 400, "tests/core/a_test.cc": "\n" * 401}) == []
    (line,) = findings(tmp_path, {"qkv/core/b.h": "\n" * 401})
    assert line.startswith("qkv/core/b.h:401: 401 lines")


def test_every_finding_of_every_file_is_reported(tmp_path):
    files = {
        "qkv/core/a.cc": '#include "qkv/nn/a.h"\n#include <tbb/tbb.h>\nvoid f() { exit(1); }\n',
        "qkv/io/b.cc": '#include "qkv/nn/a.h"\n',
    }
    assert len(findings(tmp_path, files)) == 4


def test_a_tree_without_sources_is_an_error_and_not_a_pass(tmp_path):
    run = subprocess.run([sys.executable, SCRIPT, tmp_path], capture_output=True, text=True, check=False)
    assert run.returncode == 1
