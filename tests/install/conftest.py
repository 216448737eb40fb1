"""qkv installed into a folder and then moved, static and shared, for the tests of this folder.

They need the libraries that `make build` leaves in build/release (QKV_BUILD names another build folder).
"""

import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("QKV_BUILD", ROOT / "build" / "release"))
if shutil.which("ccache"):
    os.environ["CMAKE_CXX_COMPILER_LAUNCHER"] = "ccache"  # cmake takes its default from here


def run_command(*command, **options):
    """Runs a command that has to succeed; its output comes back."""
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    assert result.returncode == 0, f"{command}:\n{result.stdout}{result.stderr}"
    return result.stdout


@pytest.fixture(scope="session")
def run():
    return run_command


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
