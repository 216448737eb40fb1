"""tools/check_tidy.py on a small project, with the real clang-tidy and with one that only counts its calls."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOOD = '#include "qkv/core/size.h"\nint twice(int x) { return size(x) + size(x); }\n'
# bugprone-integer-division
BAD = "double half(int x) { return x / 2; }\n"

pytestmark = pytest.mark.skipif(not shutil.which("clang-tidy"), reason="no clang-tidy")


class Project:
    def __init__(self, root):
        self.root = root
        (root / "tools").mkdir()
        shutil.copy(ROOT / "tools" / "check_tidy.py", root / "tools")
        shutil.copy(ROOT / ".clang-tidy", root)
        self.files = []
        self.write("qkv/core/size.h", "int size(int x);\n")
        self.write("qkv/core/twice.cc", GOOD)
        self.write("tests/core/twice_test.cc", BAD)  # not looked at

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)
        if path.endswith(".cc") and path not in self.files:
            self.files.append(path)
        self.describe("c++ -std=c++20")

    def describe(self, command):
        entries = [
            {"directory": str(self.root), "file": file, "command": f"{command} -I{self.root} -c {self.root}/{file}"}
            for file in self.files
        ]
        (self.root / "build").mkdir(exist_ok=True)
        (self.root / "build" / "compile_commands.json").write_text(json.dumps(entries))

    def check(self, clang_tidy=None):
        path = (f"{clang_tidy}:" if clang_tidy else "") + os.environ["PATH"]
        command = [sys.executable, self.root / "tools" / "check_tidy.py", self.root / "build"]
        return subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PATH": path}, check=False)


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


@pytest.fixture
def looked_at(project):
    """How many files a run looks at, with a clang-tidy that finds nothing."""
    (project.root / "bin").mkdir()
    program = project.root / "bin" / "clang-tidy"
    program.write_text('#!/bin/sh\necho "$4" >>"$0.calls"\n')
    program.chmod(0o755)

    def count():
        calls = program.with_suffix(".calls")
        calls.write_text("")
        assert project.check(program.parent).returncode == 0
        return len(calls.read_text().splitlines())

    return count


def test_a_clean_project_passes(project):
    run = project.check()
    assert (run.returncode, run.stdout) == (0, ""), run.stdout + run.stderr


@pytest.mark.parametrize("path", ["qkv/nn/half.cc", "viewer/half.cc", "cli/half.cc"])
def test_a_finding_is_shown_and_fails(project, path):
    project.write(path, BAD)
    for _ in range(2):
        run = project.check()
        assert run.returncode == 1
        assert f"{path}:1:29: error: " in run.stdout and "bugprone-integer-division" in run.stdout


def test_a_finding_in_a_header_of_ours_is_one_too(project):
    project.write("qkv/core/size.h", "inline " + BAD + "int size(int x);\n")
    assert "qkv/core/size.h:1:36: error: " in project.check().stdout


def test_names_that_are_the_systems_are_found_by_the_compilers_warning(project):
    project.write("qkv/core/name.cc", "int __name = 0;\n")
    assert "clang-diagnostic-reserved-identifier" in project.check().stdout


def test_a_file_that_does_not_compile_fails(project):
    project.write("qkv/core/broken.cc", "int broken(\n")
    assert project.check().returncode == 1


def test_files_that_passed_are_looked_at_only_after_a_change(project, looked_at):
    project.write("qkv/core/other.cc", "int other();\n")
    assert looked_at() == 2
    assert looked_at() == 0
    project.write("qkv/core/size.h", "int size(int y);\n")  # twice.cc includes it
    assert looked_at() == 1
    project.write("qkv/core/other.cc", "int another();\n")
    assert looked_at() == 1
    project.describe("c++ -std=c++20 -DX")
    assert looked_at() == 2
    with open(project.root / ".clang-tidy", "a") as file:
        file.write("# changed\n")
    assert looked_at() == 2


def test_a_build_without_our_files_is_an_error(project):
    (project.root / "build" / "compile_commands.json").write_text("[]")
    assert project.check().returncode == 1
