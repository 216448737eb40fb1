"""What tests in several folders share: a terminal, an installed qkv (static and shared), the blocks of a page of the docs.

qkv is installed into a folder and then moved. That needs the libraries that `make build` leaves in build/release
(QKV_BUILD names another build folder).
"""

import os
import pathlib
import pty
import re
import shlex
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("QKV_BUILD", ROOT / "build" / "release"))
if shutil.which("ccache"):
    os.environ["CMAKE_CXX_COMPILER_LAUNCHER"] = "ccache"  # cmake takes its default from here


def run_command(*command, **options):
    """Runs a command that has to succeed; its output comes back."""
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    assert result.returncode == 0, f"{command}:\n{result.stdout}{result.stderr}"
    return result.stdout


@pytest.fixture(scope="session")
def new_terminal():
    """Opens a pseudo-terminal: our end and the command's."""

    def open_one():
        try:
            return pty.openpty()
        except OSError as error:  # a chroot without /dev/pts
            pytest.skip(f"needs a pseudo-terminal: {error}")

    return open_one


@pytest.fixture(scope="session")
def run():
    return run_command


@pytest.fixture(scope="session")
def blocks():
    """blocks(PAGE, LANGUAGE): the fenced blocks of a page in the repository, in order."""

    def find(page, language):
        return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)

    return find


@pytest.fixture(scope="session")
def pkg_config():
    """pkg_config(PREFIX, ARGUMENTS...): what it says of the qkv that is installed there, as a list."""

    def ask(prefix, *arguments):
        environment = dict(os.environ, PKG_CONFIG_PATH=str(prefix / "lib" / "pkgconfig"))
        return shlex.split(run_command("pkg-config", *arguments, env=environment))

    return ask


def move(prefix):
    """Moves an installed tree, so that nothing may depend on where it was."""
    moved = prefix.with_name("moved to")
    prefix.rename(moved)
    return moved


@pytest.fixture(scope="session")
def static_prefix(tmp_path_factory):
    assert (BUILD / "cmake_install.cmake").exists(), f"no build in {BUILD}: run `make build` first"
    prefix = tmp_path_factory.mktemp("static") / "prefix"
    run_command("cmake", "--install", BUILD, "--prefix", prefix)
    return move(prefix)


@pytest.fixture(scope="session")
def shared_prefix(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shared")
    options = ["-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=ON", "-DQKV_BUILD_TESTS=OFF", "-DQKV_BUILD_CLI=OFF"]
    run_command("cmake", "-S", ROOT, "-B", folder / "build", "-G", "Ninja", *options)
    run_command("cmake", "--build", folder / "build")
    run_command("cmake", "--install", folder / "build", "--prefix", folder / "prefix")
    shutil.rmtree(folder / "build")  # nor on the build
    return move(folder / "prefix")
