"""README.md shows what the command really prints, and README.zh-CN.md shows the same."""

import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("QKV_BINARY") or ROOT / "build" / "release" / "qkv")
ENGLISH = (ROOT / "README.md").read_text()
CHINESE = (ROOT / "README.zh-CN.md").read_text()


def code_blocks(text):
    """Fenced and indented blocks, in order."""
    return re.findall(r"^```\w+\n.*?^```$|(?:^    [^\n]*\n(?:\n(?=    ))?)+", text, re.DOTALL | re.MULTILINE)


def commands(block):
    """The lines of a block up to their explanations."""
    return [re.split(r" {2,}", line.strip())[0] for line in block.splitlines()]


def links(text):
    return set(re.findall(r"\]\(([^)\s]+)\)", text)) - {"README.md", "README.zh-CN.md"}


@pytest.fixture
def model():
    cache = os.environ.get("QKV_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "qkv"
    )
    folder = pathlib.Path(cache, "models", "all-MiniLM-L6-v2")
    assert folder.is_dir(), f"no model in {folder}: run `make model`"
    return folder


def test_the_demo_prints_what_the_readme_shows(model):
    sentence = re.search(r"^SENTENCE := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1]
    printed = "$ make demo\n"
    for last in ("tired.", "wide."):
        command = [BINARY, "look", f"{sentence} {last}", "--from", "it", "--to", "animal", "-m", model]
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
        printed += subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout
    shown = "".join(line[4:] or "\n" for line in code_blocks(ENGLISH)[0].splitlines(keepends=True))
    assert shown == printed


def test_a_cmake_project_gets_to_an_attention_call_as_the_readme_shows(run, blocks, tmp_path):
    (program,), (project,) = blocks("README.md", "cpp"), blocks("README.md", "cmake")
    assert "add_subdirectory(qkv) " in project
    (tmp_path / "main.cc").write_text(program)
    # By its real path, so that ccache knows it.
    (tmp_path / "CMakeLists.txt").write_text(project.replace("(qkv)", f'("{ROOT}" qkv)'))
    (command,) = re.findall(r"`(cmake -B [^`]+)`", ENGLISH)
    assert run("bash", "-euc", command, cwd=tmp_path).endswith("\n0.5 4.85203\n")


def test_the_readme_names_the_packages_that_attention_needs():
    (line,) = re.findall(r"^    sudo apt-get install (.*)$", ENGLISH, re.MULTILINE)
    setup = (ROOT / "tools" / "setup.sh").read_text()
    packages = re.search(r"build_packages=\((.*?)\)", setup, re.DOTALL)[1].split()
    not_needed = {"ninja-build", "nlohmann-json3-dev", "libutf8proc-dev", "libcli11-dev"}  # make will do; other components
    assert line.split() == [package for package in packages if package not in not_needed]


def test_both_readmes_show_the_same_output_and_program():
    english, chinese = code_blocks(ENGLISH), code_blocks(CHINESE)
    assert english[0].startswith("    $ make demo\n")
    assert chinese[0] == english[0]
    assert [block for block in chinese if block[0] == "`"] == [block for block in english if block[0] == "`"]


def test_both_readmes_have_the_same_commands():
    english, chinese = code_blocks(ENGLISH), code_blocks(CHINESE)
    assert len(english) == 6
    assert [commands(block) for block in chinese] == [commands(block) for block in english]


def test_both_readmes_state_the_same_sizes_and_versions():
    for pattern in (r"\b(\w+) (\d+) KB", r"(g\+\+|clang|CMake) >= ([\d.]+)", r"find_package\([^)]*\)"):
        found = re.findall(pattern, ENGLISH)
        assert found and re.findall(pattern, CHINESE) == found


def test_the_chinese_readme_leads_to_the_same_pages():
    assert links(CHINESE) - links(ENGLISH) <= {"README.md#features", "docs/mathematics.md#words"}
    assert {link for link in links(ENGLISH) if "tutorial" in link} <= links(CHINESE)
