"""docs/install.md is right: its program builds in each way that it shows, and its sizes are those of the libraries."""

import os
import pathlib
import re
import shutil

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GUIDE = "docs/install.md"


@pytest.fixture
def project(tmp_path, blocks):
    """A folder with the guide's program."""
    (program,) = blocks(GUIDE, "cpp")
    (tmp_path / "main.cc").write_text(program)
    return tmp_path


def build_with_cmake(run, project, text, *options):
    (project / "CMakeLists.txt").write_text(text)
    run("cmake", "-S", project, "-B", project / "build", "-G", "Ninja", *options)
    run("cmake", "--build", project / "build")
    assert run(project / "build" / "program") == "0.5\n"


@pytest.mark.parametrize("kind", ["static", "shared"])
def test_find_package_as_the_guide_shows_it(kind, run, project, blocks, request):
    prefix = request.getfixturevalue(f"{kind}_prefix")
    build_with_cmake(run, project, blocks(GUIDE, "cmake")[0], f"-DCMAKE_PREFIX_PATH={prefix}")


def test_pkg_config_as_the_guide_shows_it(run, project, blocks, static_prefix):
    (project / ".local").symlink_to(static_prefix)  # the commands of the guide want a folder without a blank
    commands = blocks(GUIDE, "sh")[1]
    run("bash", "-euc", commands, cwd=project, env=dict(os.environ, HOME=str(project)))
    assert run(project / "program") == "0.5\n"


def test_add_subdirectory_as_the_guide_shows_it(run, project, blocks):
    text = blocks(GUIDE, "cmake")[1]
    assert "add_subdirectory(qkv)" in text
    build_with_cmake(run, project, text.replace("(qkv)", f'("{ROOT}" qkv)'))  # the real path lets ccache help


def test_installing_as_the_guide_shows_it(run, tmp_path, blocks):
    """All but apt-get, and of the build only that it is configured: the libraries are built elsewhere."""
    commands = blocks(GUIDE, "sh")[0].splitlines()
    assert commands[0].startswith("sudo apt-get install ")
    (tmp_path / "qkv").symlink_to(ROOT)
    run("bash", "-euc", commands[1], cwd=tmp_path)
    assert [line.split()[1] for line in commands[2:]] == ["--build", "--install"]


def test_the_packages_of_the_guide_are_those_of_the_setup(blocks):
    setup = (ROOT / "tools" / "setup.sh").read_text()
    packages = re.search(r"build_packages=\((.*?)\)", setup, re.DOTALL)[1].split()
    assert blocks(GUIDE, "sh")[0].splitlines()[0].split()[3:] == [name for name in packages if name != "libcli11-dev"]


@pytest.mark.parametrize("component", ["attention", "nn", "io", "models"])
def test_libraries_have_the_size_that_the_guide_says(component, run, shared_prefix, tmp_path):
    stated = int(re.search(rf"^\| `{component}` \|.*\| (\d+) KB \|$", (ROOT / GUIDE).read_text(), re.MULTILINE)[1])
    library = shutil.copy(shared_prefix / "lib" / f"libqkv_{component}.so", tmp_path)
    run("strip", library)
    assert 0.8 * stated < pathlib.Path(library).stat().st_size / 1000 < 1.2 * stated
