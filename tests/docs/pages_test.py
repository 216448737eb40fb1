"""The C++ on a page of the docs is one program: it builds against an installed qkv, and prints the page's text blocks."""

import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# docs/install.md has whole projects, which tests/install/guide_test.py builds.
PAGES = sorted(page.name for page in ROOT.glob("docs/*.md") if "\n```cpp\n" in page.read_text() and page.stem != "install")
FLAGS = ["-std=c++20", "-O1", "-DNDEBUG", "-Wall", "-Wextra", "-Wshadow", "-Wpedantic", "-Werror"]


@pytest.fixture
def output_of(run, pkg_config, static_prefix, tmp_path):
    """Builds a program against the installed qkv, runs it, and gives what it printed."""

    def build_and_run(text):
        source, program = tmp_path / "page.cc", tmp_path / "page"
        source.write_text(text)
        flags = pkg_config(static_prefix, "--cflags", "--libs", "qkv-nn", "qkv-io")
        if "Eigen/" in text:
            eigen = subprocess.run(["pkg-config", "--cflags", "eigen3"], capture_output=True, text=True, check=True)
            flags += eigen.stdout.replace("-I", "-isystem ").split()
        run("g++", *FLAGS, source, *flags, "-o", program)
        return run(program, cwd=tmp_path)

    return build_and_run


def test_every_tutorial_has_its_page():
    assert {"mathematics.md", *(f"tutorial_{letter}.md" for letter in "abcd")} <= set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_prints_what_it_says(page, blocks, output_of):
    expected = "".join(blocks(f"docs/{page}", "text"))
    assert output_of("".join(blocks(f"docs/{page}", "cpp"))) == expected
    assert expected


def test_the_ten_lines_of_the_readme_print_what_they_say(blocks, output_of):
    (program,) = blocks("README.md", "cpp")
    out, entropy = output_of(program).split()
    assert out == re.search(r"// ([\d.]+), ln\(128\)$", program, re.MULTILINE)[1]
    assert entropy == "4.85203"  # ln(128)
