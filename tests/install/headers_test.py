"""The installed headers: each compiles alone and without a warning, whatever macros the program has defined."""

import concurrent.futures
import os
import pathlib
import re
import shlex
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
WARNINGS = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wshadow", "-Wpedantic", "-Werror", "-x", "c++", "-"]
# Of windows.h, complex.h and math.h; https://github.com/rerun-io/rerun/issues/5414 is the fault.
MACROS = """
#define min(a, b) (((a) < (b)) ? (a) : (b))
#define max(a, b) (((a) > (b)) ? (a) : (b))
#define ERROR 0
#define IN
#define OUT
#define near
#define far
#define small char
#define I (__extension__ 1.0iF)
#undef M_PI
#define M_PI 3.14159265358979323846
"""
FOR_EIGEN_USERS = {"qkv/eigen.h"}  # needs Eigen, which qkv does not


def compile_text(compiler, prefix, text):
    command = [compiler, f"-I{prefix}/include", *WARNINGS]
    return subprocess.run(command, input=text, capture_output=True, text=True)


@pytest.fixture(scope="module")
def headers(static_prefix):
    include = static_prefix / "include"
    found = sorted(path.relative_to(include).as_posix() for path in include.rglob("*.h"))
    assert "qkv/attention/attention.h" in found
    return [header for header in found if header not in FOR_EIGEN_USERS]


def is_first_in_its_source(header):
    """Whether foo.cc begins with foo.h: then the build has compiled it alone, with the same warnings."""
    source = ROOT / header.replace(".h", ".cc")
    return source.exists() and re.search(r'#include ["<]([^">]+)', source.read_text())[1] == header


def test_each_header_compiles_alone(static_prefix, headers):
    others = [header for header in headers if not is_first_in_its_source(header)]
    assert "qkv/qkv.h" in others and "qkv/core/tensor.h" in others

    def errors(header):
        return compile_text("g++", static_prefix, f"#include <{header}>\n#include <{header}>\n").stderr

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        failed = {header: text for header, text in zip(others, pool.map(errors, others)) if text}
    assert not failed, "\n".join(failed.values())


def program_with_macros(static_prefix, headers):
    """All headers under hostile macros. The standard library's come first: how it takes them is its own affair."""
    texts = [(static_prefix / "include" / header).read_text() for header in headers]
    standard = sorted(set(re.findall(r"#include <(\w+)>", "\n".join(texts))))
    lines = [f"#include <{name}>" for name in standard] + [MACROS] + [f"#include <{header}>" for header in headers]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_headers_compile_under_hostile_macros(compiler, static_prefix, headers):
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler}")
    result = compile_text(compiler, static_prefix, program_with_macros(static_prefix, headers))
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("line", ["inline int f() { return std::min(1, 2); }", "inline int I() { return 1; }"])
def test_hostile_macros_would_be_noticed(line, static_prefix, headers):
    result = compile_text("g++", static_prefix, program_with_macros(static_prefix, ["qkv/core/index.h"]) + line + "\n")
    assert result.returncode != 0


def test_qkv_h_reaches_every_header(run, static_prefix, headers):
    source = static_prefix.parent / "all.cc"
    source.write_text("#include <qkv/qkv.h>\n")
    reached = run("g++", "-std=c++20", f"-I{static_prefix}/include", "-M", source).replace("\\ ", " ")
    missing = [header for header in headers if f"include/{header}" not in reached]
    assert not missing, "qkv/qkv.h should include them; or are they for us only (CMakeLists.txt, find_public_headers)?"


def test_qkv_h_does_with_the_headers_of_attention_alone(static_prefix, tmp_path):
    shutil.copytree(static_prefix / "include", tmp_path / "include")
    for folder in ("nn", "io", "models", "text"):
        shutil.rmtree(tmp_path / "include" / "qkv" / folder)
    result = compile_text("g++", tmp_path, "#include <qkv/qkv.h>\n")
    assert result.returncode == 0, result.stderr


def test_eigen_h_compiles_alone_where_eigen_is(static_prefix):
    found = subprocess.run(["pkg-config", "--cflags", "eigen3"], capture_output=True, text=True, check=True)
    command = ["g++", f"-I{static_prefix}/include", *shlex.split(found.stdout.replace("-I", "-isystem ")), *WARNINGS]
    result = subprocess.run(command, input="#include <qkv/eigen.h>\n", capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
